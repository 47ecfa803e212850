//! What is simpler than a timeline of Raft: for shrinking.
//!
//! In order of promise: less time, fewer faults, fewer servers and clients, fewer operations, plain values instead of drawn
//! ones, calm instead of chance.
//!
//! Invariant: a move is made only where it changes something, and only towards less or plainer, so moves come to an end.

use std::collections::BTreeMap;

use sim_io::fs::DiskConfig;
use sim_io::nemesis::Plan;
use sim_io::net::{DUPLICATION, LATENCY, LOSS, NetConfig, REORDERING, SLOWNESS};
use sim_runtime::scenario::Timeline;
use sim_runtime::schedule::Schedule;
use sim_runtime::shrink::calmer;
use sim_runtime::verdict::Failure;

use raft_async::Carrier;

use super::RaftTimeline;
use super::config::Config;

/// Fields that may be calmed as a whole.
const FIELDS: [&str; 7] = [
    SLOWNESS.name(),
    LOSS.name(),
    DUPLICATION.name(),
    REORDERING.name(),
    LATENCY.name(),
    "wake hold",
    "fsync duration",
];

/// With no more operations than this, each is tried without.
const FEW_OPERATIONS: u64 = 24;

/// Timelines that are one step simpler.
pub(super) fn moves(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    let mut moves = Vec::new();
    moves.extend(shorter(timeline, failure));
    moves.extend(timeline.plan.simpler().into_iter().map(|plan| with_plan(timeline, plan)));
    moves.extend(smaller(timeline));
    moves.extend(idler(timeline));
    moves.extend(plainer(&timeline.config).into_iter().map(|config| with_config(timeline, config)));
    moves.extend(calmer(timeline, &FIELDS));
    moves.extend(briefer(timeline));
    moves
}

fn with_plan(timeline: &RaftTimeline, plan: Plan) -> RaftTimeline {
    Timeline { plan, ..timeline.clone() }
}

fn with_config(timeline: &RaftTimeline, config: Config) -> RaftTimeline {
    Timeline { config, ..timeline.clone() }
}

/// Faults end as soon as the failure was seen, or much earlier.
fn shorter(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    let now_ms = timeline.config.faults_ms;
    let seen_ms = failure.time_ns / 1_000_000 + 1;
    let end_at = |faults_ms: u64| {
        let mut shorter = timeline.clone();
        shorter.config.faults_ms = faults_ms;
        shorter.config.faults.heal_at_ms = faults_ms;
        shorter.plan.heal_at_ns = faults_ms * 1_000_000;
        shorter.plan.faults.retain(|fault| fault.when.earliest_ns() < shorter.plan.heal_at_ns);
        shorter
    };
    let ends = [seen_ms, now_ms / 2, now_ms * 3 / 4, now_ms * 15 / 16];
    ends.into_iter().filter(|end_ms| (1..now_ms).contains(end_ms)).map(end_at).collect()
}

/// Fewer servers and clients.
fn smaller(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let Config { servers, clients, .. } = timeline.config;
    let of_size = |(servers, clients): (u16, u16)| {
        let mut smaller = timeline.clone();
        let config = &mut smaller.config;
        (config.servers, config.clients) = (servers, clients);
        config.faults = config.faults.clone().for_nodes(servers, clients);
        config.bad_disks.retain(|node, _| node.0 <= servers);
        config.drift_ppm.retain(|node, _| node.0 <= servers);
        config.outstanding.truncate(clients.into());
        config.skipped.retain(|(client, ..)| *client <= clients);
        smaller.plan = smaller.plan.for_fewer(servers, clients);
        smaller
    };
    let fewer_servers = [3, 5].into_iter().filter(|n| *n < servers).map(|n| (n, clients));
    let fewer_clients = [1, clients.saturating_sub(1)].into_iter().filter(|n| (1..clients).contains(n));
    fewer_servers.chain(fewer_clients.map(|n| (servers, n))).map(of_size).collect()
}

/// Fewer operations.
fn idler(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let config = &timeline.config;
    let mut configs = Vec::new();
    if config.final_reads {
        configs.push(Config { final_reads: false, ..config.clone() });
    }
    if !config.outstanding.is_empty() {
        configs.push(Config { outstanding: Vec::new(), ..config.clone() });
    }
    let limits: Vec<u64> = match config.operations {
        None => vec![0, 4, 16, 64, 256],
        Some(n) => [0, n / 2, n.saturating_sub(1)].into_iter().filter(|fewer| *fewer < n).collect(),
    };
    configs.extend(limits.into_iter().map(|n| Config { operations: Some(n), ..config.clone() }));
    let lanes =
        (1..=config.clients).flat_map(|client| (0..config.lanes_of(client)).map(move |lane| (client, lane)));
    let each = config.operations.unwrap_or(u64::MAX);
    if each.saturating_mul(lanes.clone().count() as u64) <= FEW_OPERATIONS {
        let all = lanes.flat_map(|(client, lane)| (1..=each).map(move |n| (client, lane, n)));
        configs.extend(all.filter(|one| !config.skipped.contains(one)).map(|one| {
            let mut without = config.clone();
            without.skipped.insert(one);
            without
        }));
    }
    configs.into_iter().map(|config| with_config(timeline, config)).collect()
}

/// One value at a time as in a plain cluster.
fn plainer(config: &Config) -> Vec<Config> {
    let plain = Config::reference();
    let edits: [fn(&mut Config, &Config); 19] = [
        |c, _| c.network = NetConfig { tcp: c.network.tcp, ..NetConfig::calm() },
        |c, _| c.network.loss_per_million = 0,
        |c, _| c.network.duplicate_per_million = 0,
        |c, _| c.network.reorder_per_million = 0,
        |c, _| c.network.slow_per_million = 0,
        |c, _| c.network.tail_per_million = 0,
        |c, _| c.disk = DiskConfig { lying_fsync: c.disk.lying_fsync, ..DiskConfig::default() },
        |c, _| c.bad_disks = BTreeMap::new(),
        |c, _| c.drift_ppm = BTreeMap::new(),
        |c, _| c.schedule = Schedule::Fifo,
        |c, _| c.hold_per_million = 0,
        |c, _| c.long_hold_per_million = 0,
        |c, _| c.carrier = Carrier::Datagrams,
        |c, _| (c.registers, c.lists) = (1, 1),
        |c, _| c.sessions_outlive_unknowns = false,
        |c, plain| c.raft.segment_bytes = plain.raft.segment_bytes,
        |c, plain| c.raft.max_entries_per_append = plain.raft.max_entries_per_append,
        |c, plain| c.raft.max_inflight_appends = plain.raft.max_inflight_appends,
        |c, _| c.raft.apply_delay_us = 0,
    ];
    let edited = edits.into_iter().map(|edit| {
        let mut plainer = config.clone();
        edit(&mut plainer, &plain);
        plainer
    });
    edited.filter(|plainer| plainer != config).collect()
}

/// Each fault for half as long.
fn briefer(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    const BRIEF_US: u64 = 2_000;
    let halve = |at: usize| {
        let mut briefer = timeline.clone();
        briefer.plan.faults[at].lasts_us /= 2;
        briefer
    };
    let long = |at: &usize| timeline.plan.faults[*at].lasts_us > BRIEF_US;
    (0..timeline.plan.faults.len()).filter(long).map(halve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::{Profile, Raft};
    use sim_runtime::scenario::Scenario;
    use sim_runtime::verdict::Category;

    fn failure_at(time_ns: u64) -> Failure {
        Failure {
            category: Category::Invariant,
            property: String::new(),
            shape: String::new(),
            evidence: String::new(),
            time_ns,
            record: 0,
        }
    }

    #[test]
    fn every_move_changes_something_and_moves_come_to_an_end() {
        for seed in 1..=3 {
            let mut timeline = Raft::of(Profile::Swarm).timeline(seed);
            timeline.plan.faults.truncate(4);
            let mut steps = 0;
            // The last move first, so that all kinds are made.
            while let Some(next) = moves(&timeline, &failure_at(700_000_000)).pop() {
                assert_ne!(next, timeline, "seed {seed}");
                timeline = next;
                steps += 1;
                assert!(steps < 1_000, "seed {seed}: moves without end");
            }
            assert_eq!((timeline.config.servers, timeline.config.clients), (3, 1), "seed {seed}");
            assert_eq!(timeline.plan.faults, [], "seed {seed}");
        }
    }
}
