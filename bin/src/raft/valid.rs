//! Whether a timeline that somebody wrote or edited makes sense: a mistake in a file is not a bug of the Raft.

use std::collections::BTreeSet;

use sim_io::nemesis::{Fault, Target};
use sim_runtime::NodeId;
use sim_runtime::rng::{ALL_FIELDS, Override};
use sim_runtime::schedule::Schedule;

use super::RaftTimeline;
use super::config::{Config, RaftTimes};

/// The fields that have a say in a run.
const FIELDS: [&str; 21] = [
    "net latency",
    "net loss",
    "net duplication",
    "net reordering",
    "net slowness",
    "tcp reset destroys",
    "tcp kill resets",
    "tcp partial read",
    "tcp partial write",
    "fsync duration",
    "disk stall",
    "disk slow",
    "fsync error",
    "disk io error",
    "crash fate",
    "name fate",
    "bit rot",
    "election timeout",
    "wake hold",
    "client operation",
    "client think time",
];

/// The longest run that a file may ask for.
const LONGEST_MS: u64 = 24 * 3_600_000;

/// The most keys of a kind, the most operations that a client may have outstanding, the most entries of a message, and how
/// many times slower anything may be.
const MOST_KEYS: u64 = 1_000;
const MOST_LANES: u64 = 100;
const MOST_ENTRIES: u64 = 1 << 20;
const MOST_TIMES: u64 = 1_000_000;
const MOST_BYTES: u64 = 1 << 40;

/// What makes no sense in `timeline`, in a sentence; the first thing found.
///
/// # Errors
/// That sentence.
pub fn validate(timeline: &RaftTimeline) -> Result<(), String> {
    let Config { servers, clients, raft, network, disk, .. } = &timeline.config;
    let config = &timeline.config;
    let RaftTimes { election_timeout_min_ms: min, election_timeout_max_ms: max, .. } = *raft;
    let positive = [
        ("registers", u64::from(config.registers)),
        ("lists", u64::from(config.lists)),
        ("faults_ms", config.faults_ms),
        ("attempt_timeout_ms", config.attempt_timeout_ms),
        ("retry_pause_ms", config.retry_pause_ms),
        ("operation_timeout_ms", config.operation_timeout_ms),
        ("election_timeout_min_ms", min),
        ("heartbeat_ms", raft.heartbeat_ms),
        ("vote_retransmit_ms", raft.vote_retransmit_ms),
        ("append_retransmit_ms", raft.append_retransmit_ms),
        ("max_entries_per_append", raft.max_entries_per_append as u64),
        ("max_inflight_appends", raft.max_inflight_appends as u64),
        ("segment_bytes", raft.segment_bytes),
        ("step_down_after_ms", raft.step_down_after_ms.unwrap_or(1)),
        ("chatter_ms", raft.chatter_ms.unwrap_or(1)),
        ("outstanding", config.outstanding.iter().copied().min().unwrap_or(1).into()),
    ];
    if let Some((name, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
        return Err(format!("{name} is 0"));
    }
    let at_most = [
        ("servers", u64::from(*servers), 101),
        ("clients", u64::from(*clients), 50),
        ("faults_ms", config.faults_ms, LONGEST_MS),
        ("work_from_ms", config.work_from_ms, LONGEST_MS),
        ("heal_at_ns", timeline.plan.heal_at_ns, LONGEST_MS * 1_000_000),
        ("election_timeout_min_ms", min, max),
        ("registers", config.registers.into(), MOST_KEYS),
        ("lists", config.lists.into(), MOST_KEYS),
        ("outstanding", config.outstanding.iter().copied().max().unwrap_or(1).into(), MOST_LANES),
        ("operation_timeout_ms", config.operation_timeout_ms, LONGEST_MS),
        ("attempt_timeout_ms", config.attempt_timeout_ms, LONGEST_MS),
        ("retry_pause_ms", config.retry_pause_ms, LONGEST_MS),
        ("think_max_us", config.think_max_us, LONGEST_MS * 1_000),
        ("restart_halted_after_ms", config.restart_halted_after_ms.unwrap_or(0), LONGEST_MS),
        ("election_timeout_max_ms", max, LONGEST_MS),
        ("heartbeat_ms", raft.heartbeat_ms, LONGEST_MS),
        ("vote_retransmit_ms", raft.vote_retransmit_ms, LONGEST_MS),
        ("append_retransmit_ms", raft.append_retransmit_ms, LONGEST_MS),
        ("step_down_after_ms", raft.step_down_after_ms.unwrap_or(0), LONGEST_MS),
        ("apply_delay_us", raft.apply_delay_us, LONGEST_MS * 1_000),
        ("max_entries_per_append", raft.max_entries_per_append as u64, MOST_ENTRIES),
        ("max_inflight_appends", raft.max_inflight_appends as u64, MOST_ENTRIES),
        ("segment_bytes", raft.segment_bytes, 1 << 30),
        ("latency_max_us", network.latency_max_us, LONGEST_MS * 1_000),
        ("reorder_extra_max_us", network.reorder_extra_max_us, LONGEST_MS * 1_000),
        ("tail_factor", network.tail_factor, MOST_TIMES),
        ("slow_factor", network.slow_factor, MOST_TIMES),
        ("receive_buffer_bytes", network.receive_buffer_bytes as u64, MOST_BYTES),
        ("tcp.receive_buffer_bytes", network.tcp.receive_buffer_bytes as u64, MOST_BYTES),
        ("fsync_max_us", disk.fsync_max_us, LONGEST_MS * 1_000),
        ("stall_max_ms", disk.stall_max_ms, LONGEST_MS),
        ("latency_min_us", network.latency_min_us, network.latency_max_us),
        ("fsync_min_us", disk.fsync_min_us, disk.fsync_max_us),
        ("the servers of the plan", timeline.plan.servers.into(), (*servers).into()),
    ];
    if let Some((name, value, most)) = at_most.into_iter().find(|(_, value, most)| value > most) {
        return Err(format!("{name} is {value}, more than {most}"));
    }
    if *servers == 0 || *clients == 0 {
        return Err("there are no servers or no clients".to_owned());
    }
    if config.recovers && !config.final_reads {
        return Err(
            "recovers without final_reads: nothing would show that clients are served again".to_owned()
        );
    }
    if let Schedule::Pct { depth, .. } = config.schedule
        && depth > 1_000
    {
        return Err(format!("a schedule of depth {depth}"));
    }
    for (node, disk) in &config.bad_disks {
        let longest_us = LONGEST_MS * 1_000;
        let waits = [disk.fsync_min_us, disk.fsync_max_us, disk.stall_max_ms.saturating_mul(1_000)];
        if waits.iter().any(|us| *us > longest_us) {
            return Err(format!("the disk of {node} takes longer than {LONGEST_MS} ms"));
        }
    }
    for (node, ppm) in &config.drift_ppm {
        if !(1..=*servers).contains(&node.0) || !(-500_000..=500_000).contains(ppm) {
            return Err(format!("a drift of {ppm} ppm on {node}"));
        }
    }
    let mut ids = BTreeSet::new();
    for fault in &timeline.plan.faults {
        if !ids.insert(fault.id) {
            return Err(format!("there are two faults {}", fault.id));
        }
        let ends_ns =
            fault.lasts_us.checked_mul(1_000).and_then(|ns| ns.checked_add(fault.when.earliest_ns()));
        if ends_ns.is_none_or(|ns| ns > LONGEST_MS * 1_000_000) {
            return Err(format!("fault {} ends never", fault.id));
        }
        validate_fault(&fault.what, *servers, *clients)
            .map_err(|why| format!("fault {}: {why}", fault.id))?;
    }
    timeline.overrides.iter().try_for_each(validate_override)
}

fn validate_override(edit: &Override) -> Result<(), String> {
    let Override { field, from_ns, to_ns, .. } = edit;
    if from_ns >= to_ns {
        return Err(format!("an override of `{field}` ends before it begins"));
    }
    if field != ALL_FIELDS && !FIELDS.contains(&field.as_str()) {
        return Err(format!("there is no field `{field}`"));
    }
    Ok(())
}

fn validate_fault(fault: &Fault, servers: u16, clients: u16) -> Result<(), String> {
    let exists = |node: &NodeId| (1..=servers + clients).contains(&node.0);
    if let Some(nobody) = fault.nodes().into_iter().find(|node| !exists(node)) {
        return Err(format!("there is no {nobody}"));
    }
    // A client keeps its book in memory: a dead one cannot say what became of its operations.
    let stops = match fault {
        Fault::Kill { target } | Fault::PowerOff { target } => Some(target),
        _ => None,
    };
    match stops {
        Some(Target::Nodes(nodes)) if nodes.iter().any(|node| node.0 > servers) => {
            Err("clients cannot be stopped".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::{Profile, Raft};
    use sim_io::fs::DiskConfig;
    use sim_io::nemesis::{PlannedFault, When};
    use sim_runtime::scenario::Scenario;

    #[test]
    fn what_a_seed_stands_for_makes_sense() {
        for seed in 1..=500 {
            for profile in [Profile::Reference, Profile::Swarm] {
                assert_eq!(validate(&Raft::of(profile).timeline(seed)), Ok(()), "seed {seed}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let edited = |edit: fn(&mut RaftTimeline)| {
            let mut timeline = Raft::of(Profile::Reference).timeline(1);
            edit(&mut timeline);
            validate(&timeline).expect_err("it makes no sense")
        };
        fn hit(timeline: &mut RaftTimeline, what: Fault) {
            timeline.plan.faults =
                vec![PlannedFault { id: 7, when: When::At { at_ns: 1 }, what, lasts_us: 1 }];
        }
        assert!(edited(|t| t.config.registers = 0).contains("registers"));
        assert!(edited(|t| t.config.network.latency_min_us = 9_999_999).contains("latency"));
        assert!(edited(|t| t.config.servers = 65_535).contains("servers"));
        assert!(edited(|t| t.config.final_reads = false).contains("final_reads"));
        assert!(edited(|t| t.plan.heal_at_ns = u64::MAX).contains("heal_at_ns"));
        assert!(
            edited(|t| t.config.schedule = Schedule::Pct { depth: u32::MAX, horizon_ms: 1 })
                .contains("depth")
        );
        assert!(edited(|t| t.config.network.tcp.receive_buffer_bytes = usize::MAX).contains("tcp.receive"));
        assert!(
            edited(|t| {
                let disk = DiskConfig { fsync_min_us: u64::MAX, ..t.config.disk.clone() };
                t.config.bad_disks = [(NodeId(2), disk)].into();
            })
            .contains("the disk of n2")
        );
        assert!(edited(|t| t.config.drift_ppm = [(NodeId(1), i32::MIN)].into()).contains("drift"));
        assert!(
            edited(|t| hit(t, Fault::Kill { target: Target::Nodes(vec![NodeId(99)]) })).contains("fault 7")
        );
        assert!(
            edited(|t| hit(t, Fault::Kill { target: Target::Nodes(vec![NodeId(6)]) })).contains("clients")
        );
    }
}
