//! How sturdy a failure of Raft is, and what may make it sturdier: for shrinking.
//!
//!   timeline ──disturbed──► a little slower, earlier, later, under other fields ──► how many of them fail alike
//!
//! A shrunk failure should outlive edits of the program and of the timeline that have nothing to do with it. Those shift
//! what happens by some microseconds or milliseconds, so disturbances do that, in several ways and sizes: a failure that
//! survives few of them has at least some to go by on the way to a sturdier one. Some are like the edits by which
//! `command/stability.rs` measures what came of it, none is the same; its figures are to be read with that in mind.
//!
//! Not here: what is simpler (`simpler.rs`), who decides by this (`sim_runtime::shrink`).

use sim_io::nemesis::{Aim, Fault, PlannedFault, Target, When};
use sim_runtime::rng::{Override, Set, Stream, mix};
use sim_runtime::scenario::Timeline;

use raft_async::{Carrier, ELECTION_TIMEOUT};

use super::RaftTimeline;
use super::simpler::{aims, ends_at, with_config, with_plan};

/// Operations count at most so often.
const MANY_OPERATIONS: u64 = 1_000;

/// Faults, edits that do not calm, servers, clients and operations, reads at the end included. Connections count as well:
/// whatever else is sent opens them earlier, so what needs them does not outlive much.
pub(super) fn weight(timeline: &RaftTimeline) -> u64 {
    let config = &timeline.config;
    let lanes: u64 = (1..=config.clients).map(|n| u64::from(config.lanes_of(n))).sum();
    let planned = config.operations.unwrap_or(MANY_OPERATIONS).saturating_mul(lanes);
    let reads = if config.final_reads { u64::from(config.clients) * config.keys().len() as u64 } else { 0 };
    let operations = (planned.saturating_sub(config.skipped.len() as u64) + reads).min(MANY_OPERATIONS);
    let loud = timeline.overrides.iter().filter(|edit| edit.set != Set::Calm).count();
    let connections = usize::from(config.carrier == Carrier::Streams);
    let things =
        timeline.plan.faults.len() + loud + usize::from(config.servers + config.clients) + connections;
    things as u64 + operations
}

/// Disturbances that have nothing to do with what goes wrong.
pub(super) fn disturbed(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let config = &timeline.config;
    let slower_links = [10, 50, 200, 600].map(|more_us| {
        let mut slower = config.clone();
        slower.network.latency_min_us += more_us;
        slower.network.latency_max_us += more_us;
        with_config(timeline, slower)
    });
    let slower_disks = [30, 300].map(|more_us| {
        let mut slower = config.clone();
        slower.disk.fsync_min_us += more_us;
        slower.disk.fsync_max_us += more_us;
        with_config(timeline, slower)
    });
    let rarer_heartbeats = [1, 2].map(|more_ms| {
        let mut rarer = config.clone();
        rarer.raft.heartbeat_ms += more_ms;
        with_config(timeline, rarer)
    });
    let moved = [-2_000_000, -200_000, 200_000, 2_000_000].map(|by_ns| {
        let mut moved = timeline.clone();
        moved.plan.faults.iter_mut().for_each(|fault| fault.when = fault.when.moved(by_ns));
        moved
    });
    // One more operation, never alone: it shifts the log, and is what edits of a pinned failure are often about.
    let visited = [20, 100, 300].map(|more_us| {
        let mut visited = config.clone();
        visited.visitor = true;
        visited.network.latency_min_us += more_us;
        visited.network.latency_max_us += more_us;
        with_config(timeline, visited)
    });
    let noisier = [3, 11].map(|every_ms| {
        let mut noisier = config.clone();
        noisier.raft.chatter_ms = Some(every_ms);
        with_config(timeline, noisier)
    });
    let other_fields = (1..=4).map(|n| other_seed(timeline, mix(n, 0xD157)));
    slower_links
        .into_iter()
        .chain(slower_disks)
        .chain(rarer_heartbeats)
        .chain(moved)
        .chain(visited)
        .chain(noisier)
        .chain(other_fields)
        .collect()
}

fn other_seed(timeline: &RaftTimeline, number: u64) -> RaftTimeline {
    Timeline { seed: mix(timeline.seed, number) >> 1, ..timeline.clone() }
}

/// Timelines that are no heavier, with faults that wait for moments, come at other times or last longer, with steady
/// elections, with more time at the end, under other fields.
pub(super) fn sturdier(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let mut variants = aimed(timeline);
    variants.extend(steady_elections(timeline));
    variants.extend(wider(timeline));
    let ends_ms = [5, 4, 2].map(|part| timeline.config.faults_ms + timeline.config.faults_ms.div_ceil(part));
    variants.extend(ends_ms.map(|end_ms| ends_at(timeline, end_ms)));
    variants.extend(delayed(timeline));
    variants.extend((1..=16).map(|n| other_seed(timeline, mix(n, 0x57EAD))));
    let mixed = mixed(timeline, &variants);
    variants.extend(mixed);
    variants
}

/// Some of `singles` with faults varied, under other fields, or both: for what none of them makes sturdier by itself.
fn mixed(timeline: &RaftTimeline, singles: &[RaftTimeline]) -> Vec<RaftTimeline> {
    const MANY: u64 = 400;
    let mix_one = |number: u64| {
        let mut stream = Stream::derive(timeline.seed, &format!("sturdier {number}"));
        let mut mixed = singles[stream.below(singles.len() as u64) as usize].clone();
        if stream.chance(500_000) {
            mixed.plan = mixed.plan.varied(&mut stream, &aims());
        }
        if stream.chance(500_000) {
            mixed = other_seed(&mixed, mix(number, 0x3313));
        }
        mixed
    };
    let mut mixed: Vec<_> = (1..=MANY).map(mix_one).collect();
    mixed.retain(|variant| variant != timeline);
    mixed
}

fn with_fault(timeline: &RaftTimeline, at: usize, fault: PlannedFault) -> RaftTimeline {
    let mut plan = timeline.plan.clone();
    plan.faults[at] = fault;
    with_plan(timeline, plan)
}

/// A fault that comes to a node at a time comes to whoever reaches a moment, from a little earlier on.
fn aimed(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    const BEFORE_NS: [i64; 2] = [3_000_000, 20_000_000];
    let mut variants = Vec::new();
    for (at, fault) in timeline.plan.faults.iter().enumerate() {
        let Some(what) = hitting(&fault.what).filter(|_| !fault.when.is_aimed()) else { continue };
        for before_ns in BEFORE_NS {
            let after_ns = fault.when.moved(-before_ns).earliest_ns();
            variants.extend(aims().into_iter().map(|aim| {
                let when = match aim {
                    Aim::Point(name) => When::Point { name, after_ns, delay_us: 0 },
                    Aim::Window(name) => When::Window { name, node: None, after_ns, fraction_per_mille: 500 },
                    Aim::Role(role) => When::Role { role, after_ns },
                };
                with_fault(timeline, at, PlannedFault { when, what: what.clone(), ..fault.clone() })
            }));
        }
    }
    variants
}

/// The same fault to whoever comes to the moment, where it is to a single node.
fn hitting(fault: &Fault) -> Option<Fault> {
    let is_single = |target: &Target| matches!(target, Target::Nodes(nodes) if nodes.len() == 1);
    let target = Target::Hit;
    Some(match fault {
        Fault::Kill { target: one } if is_single(one) => Fault::Kill { target },
        Fault::PowerOff { target: one } if is_single(one) => Fault::PowerOff { target },
        Fault::Pause { target: one } if is_single(one) => Fault::Pause { target },
        Fault::Freeze { target: one } if is_single(one) => Fault::Freeze { target },
        Fault::Isolate { target: one } if is_single(one) => Fault::Isolate { target },
        Fault::DiskStall { target: one } if is_single(one) => Fault::DiskStall { target },
        _ => return None,
    })
}

/// One server always loses patience as soon as it may.
fn steady_elections(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let steady = |server: u16| Override {
        field: ELECTION_TIMEOUT.name().to_owned(),
        key: Some(server.into()),
        from_ns: 0,
        to_ns: u64::MAX,
        set: Set::Calm,
    };
    let edits = (1..=timeline.config.servers).map(steady);
    let new = edits.filter(|edit| !timeline.overrides.contains(edit));
    new.map(|edit| {
        let mut variant = timeline.clone();
        variant.overrides.push(edit);
        variant
    })
    .collect()
}

/// All faults and clients come later, so that whatever else there is has happened before; as it is, and under other fields.
fn delayed(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    const OTHERS: u64 = 5;
    let mut variants = Vec::new();
    for by_ms in [20_u64, 80, 320] {
        let mut later = ends_at(timeline, timeline.config.faults_ms + by_ms);
        later.config.work_from_ms += by_ms;
        let by_ns = (by_ms * 1_000_000) as i64;
        later.plan.faults.iter_mut().for_each(|fault| fault.when = fault.when.moved(by_ns));
        variants.extend((1..=OTHERS).map(|n| other_seed(&later, mix(n, 0xDE1A))));
        variants.push(later);
    }
    variants
}

/// Each fault lasts longer, begins earlier, or begins later.
fn wider(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let mut variants = Vec::new();
    for (at, fault) in timeline.plan.faults.iter().enumerate() {
        let lasts = [5, 8, 16].map(|quarters| fault.lasts_us.saturating_mul(quarters) / 4);
        variants.extend(
            lasts.map(|lasts_us| with_fault(timeline, at, PlannedFault { lasts_us, ..fault.clone() })),
        );
        for by_us in [-10_000_i64, -3_000, -1_000, -300, 300, 1_000, 3_000, 10_000] {
            // It ends when it did.
            let lasts_us = fault.lasts_us.saturating_add_signed(-by_us).max(1);
            let when = fault.when.moved(by_us * 1_000);
            variants.push(with_fault(timeline, at, PlannedFault { when, lasts_us, ..fault.clone() }));
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::{Profile, Raft};
    use sim_runtime::scenario::Scenario;

    #[test]
    fn what_may_be_sturdier_is_different_and_no_heavier() {
        let mut timeline = Raft::of(Profile::Swarm).timeline(3);
        timeline.plan.faults.truncate(6);
        for variant in sturdier(&timeline) {
            assert_ne!(variant, timeline);
            assert!(weight(&variant) <= weight(&timeline));
        }
        let disturbed = disturbed(&timeline);
        assert!(disturbed.iter().all(|other| *other != timeline && weight(other) == weight(&timeline)));
        assert!(disturbed.len() >= 10);
    }
}
