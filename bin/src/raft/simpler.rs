//! What is simpler than a timeline of Raft: for shrinking.
//!
//! In order of promise: less time, fewer faults, fewer servers and clients, fewer operations, plain values instead of drawn
//! ones, calm instead of chance, everywhere or here and there.
//!
//! Invariant: a move is made only where it changes something, and only towards less or plainer, so moves come to an end.

use std::collections::{BTreeMap, BTreeSet};

use sim_io::fs::DiskConfig;
use sim_io::nemesis::lively::{calmer_here, lively_fields};
use sim_io::nemesis::{Aim, Plan, PlanConfig};
use sim_io::net::NetConfig;
use sim_runtime::NodeId;
use sim_runtime::rng::{Stream, mix};
use sim_runtime::scenario::Timeline;
use sim_runtime::schedule::Schedule;
use sim_runtime::shrink::calmer;
use sim_runtime::verdict::Failure;

use raft_async::Carrier;

use super::RaftTimeline;
use super::config::Config;
use super::sturdy::weight;

/// The fields that may be calmed, and have a say in this timeline.
fn lively(timeline: &RaftTimeline) -> Vec<&'static str> {
    let Config { network, disk, hold_per_million, long_hold_per_million, .. } = &timeline.config;
    lively_fields(network, disk, hold_per_million + long_hold_per_million > 0, &timeline.plan).collect()
}

/// With more faults than this, no single one is made briefer or comes sooner, and no single link is calmed.
const FEW_FAULTS: usize = 32;

/// With more operations than this, none is left out by itself.
const FEW_OPERATIONS: u64 = 128;

/// Timelines that are one step simpler.
pub(super) fn moves(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    let mut moves = Vec::new();
    moves.extend(shorter(timeline, failure));
    moves.extend(later(timeline, failure));
    moves.extend(timeline.plan.simpler().into_iter().map(|plan| with_plan(timeline, plan)));
    moves.extend(smaller(timeline));
    moves.extend(idler(timeline));
    moves.extend(plainer(&timeline.config).into_iter().map(|config| with_config(timeline, config)));
    moves.extend(calmer(timeline, &lively(timeline)));
    // What does not matter goes first: of what is left there is little.
    if timeline.plan.faults.len() <= FEW_FAULTS {
        moves.extend(briefer(timeline));
        moves.extend(timeline.plan.sooner().into_iter().map(|plan| with_plan(timeline, plan)));
        let nodes = timeline.config.servers + timeline.config.clients;
        moves.extend(calmer_here(timeline, &lively(timeline), nodes, failure.time_ns));
    }
    moves
}

/// Of those, the ones that count, and some at once.
pub(super) fn great_moves(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    let plan = &timeline.plan;
    let fewer = plan.simpler().into_iter().filter(|simpler| simpler.faults.len() < plan.faults.len());
    let mut moves: Vec<_> = fewer.map(|plan| with_plan(timeline, plan)).collect();
    moves.extend(humble(timeline, failure));
    if timeline.config.carrier != Carrier::Datagrams {
        moves.push(with_config(timeline, Config { carrier: Carrier::Datagrams, ..timeline.config.clone() }));
    }
    moves.extend(smaller(timeline));
    moves.extend(idler(timeline));
    moves
}

/// One client with a few operations, some of them at a time, and no reads at the end, all at once: clients, servers and
/// operations are often in each other's way, since whoever is left has to be at work at the right moment.
fn humble(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    /// Operations at a time, and one after the other.
    const FEW: [(u16, u64); 8] = [(1, 0), (1, 1), (1, 2), (2, 1), (3, 1), (1, 4), (2, 2), (4, 1)];
    let now = weight(timeline);
    let seen_ms = failure.time_ns / 1_000_000;
    // What was seen after the faults, while clients were served again, has to come before the end now.
    let end_ms = timeline.config.faults_ms.max(seen_ms + 1);
    let begins_ms = BTreeSet::from([timeline.config.work_from_ms, 0, seen_ms * 3 / 4]);
    let servers = BTreeSet::from([timeline.config.servers, timeline.config.servers.min(3)]);
    let mut moves = Vec::new();
    for servers in servers {
        let kept: Vec<u16> = (1..=servers).collect();
        let ended = ends_at(&with_nodes(timeline, &kept, &[1]), end_ms);
        for (lanes, operations) in FEW {
            moves.extend(begins_ms.iter().map(|begin_ms| {
                let config = Config {
                    operations: Some(operations),
                    skipped: BTreeSet::new(),
                    outstanding: if lanes > 1 { vec![lanes] } else { Vec::new() },
                    carrier: Carrier::Datagrams,
                    work_from_ms: *begin_ms,
                    recovers: false,
                    final_reads: false,
                    ..ended.config.clone()
                };
                with_config(&ended, config)
            }));
        }
    }
    moves.retain(|humble| weight(humble) < now);
    moves.sort_by_key(weight);
    moves
}

/// With no more faults than this, they are not varied.
const HARDLY_ANY: usize = 3;

/// What a fault may wait for.
pub(super) fn aims() -> Vec<Aim> {
    let points = ["leader elected", "append sent", "leader committed", "vote granted"];
    let windows = ["fsync in flight", "election in progress"];
    let points = points.map(|name| Aim::Point(name.to_owned()));
    points.into_iter().chain(windows.map(|name| Aim::Window(name.to_owned()))).collect()
}

/// The timeline with faults varied at random, or one less, and some more time; now and then under other fields.
pub(super) fn variation(timeline: &RaftTimeline, number: u32) -> Option<RaftTimeline> {
    const SOME_MORE_MS: u64 = 60;
    if timeline.plan.faults.len() <= HARDLY_ANY {
        return None;
    }
    let mut stream = Stream::derive(timeline.seed, &format!("variation {number}"));
    let mut varied = with_plan(timeline, timeline.plan.varied(&mut stream, &aims()));
    if stream.chance(100_000) {
        varied.seed = mix(timeline.seed, u64::from(number)) >> 1;
    }
    let last_ns = varied.plan.faults.iter().map(|fault| fault.when.earliest_ns()).max().unwrap_or(0);
    let ends_ms = timeline.config.faults_ms.max(last_ns / 1_000_000 + SOME_MORE_MS);
    Some(ends_at(&varied, ends_ms))
}

/// The timeline with faults until then; faults that would begin later go.
pub(super) fn ends_at(timeline: &RaftTimeline, faults_ms: u64) -> RaftTimeline {
    let mut ended = timeline.clone();
    ended.config.faults_ms = faults_ms;
    ended.config.faults.heal_at_ms = faults_ms;
    ended.plan.heal_at_ns = faults_ms * 1_000_000;
    ended.plan.faults.retain(|fault| fault.when.earliest_ns() < ended.plan.heal_at_ns);
    ended
}

pub(super) fn with_plan(timeline: &RaftTimeline, plan: Plan) -> RaftTimeline {
    Timeline { plan, ..timeline.clone() }
}

pub(super) fn with_config(timeline: &RaftTimeline, config: Config) -> RaftTimeline {
    Timeline { config, ..timeline.clone() }
}

/// Faults end as soon as the failure was seen, or much earlier.
fn shorter(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    let now_ms = timeline.config.faults_ms;
    let seen_ms = failure.time_ns / 1_000_000 + 1;
    let ends = [seen_ms, now_ms / 2, now_ms * 3 / 4, now_ms * 15 / 16];
    ends.into_iter()
        .filter(|end_ms| (1..now_ms).contains(end_ms))
        .map(|end_ms| ends_at(timeline, end_ms))
        .collect()
}

/// Clients begin later: with the failure, and ever earlier.
fn later(timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
    const LEAST_MS: u64 = 2;
    let now_ms = timeline.config.work_from_ms;
    let left_ms = (failure.time_ns / 1_000_000).saturating_sub(now_ms);
    let parts: Vec<u64> = (1..64).map(|n| left_ms >> n).take_while(|ms| *ms >= LEAST_MS).collect();
    // All but a little of it, all but more, and so on to half of it; and at last a quarter and less.
    let late = parts.iter().rev().map(|rest| left_ms - rest);
    let early = parts.iter().copied().skip(1);
    late.chain(early)
        .map(|by_ms| {
            with_config(timeline, Config { work_from_ms: now_ms + by_ms, ..timeline.config.clone() })
        })
        .collect()
}

/// With more servers than this, not every choice of fewer is tried.
const FEW_SERVERS: u16 = 7;

/// Fewer servers and clients: the first, and then others.
fn smaller(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let Config { servers, clients, .. } = timeline.config;
    let all_servers = || (1..=servers).collect::<Vec<_>>();
    let all_clients = || (1..=clients).collect::<Vec<_>>();
    let mut moves = Vec::new();
    for fewer in [3, 5].into_iter().filter(|fewer| *fewer < servers) {
        let choices =
            if servers <= FEW_SERVERS { choices(servers, fewer) } else { vec![(1..=fewer).collect()] };
        moves.extend(choices.iter().map(|kept| with_nodes(timeline, kept, &all_clients())));
    }
    if clients > 1 {
        moves.extend((1..=clients).map(|kept| with_nodes(timeline, &all_servers(), &[kept])));
    }
    if clients > 2 {
        let without = |gone: u16| (1..=clients).filter(|client| *client != gone).collect::<Vec<_>>();
        moves.extend((1..=clients).rev().map(|gone| with_nodes(timeline, &all_servers(), &without(gone))));
    }
    moves
}

/// All ways to keep `fewer` of the numbers up to `all`, the first numbers first.
fn choices(all: u16, fewer: u16) -> Vec<Vec<u16>> {
    let sets = 0_u32..1 << all;
    let numbers = |set: u32| (1..=all).filter(|n| set >> (n - 1) & 1 == 1).collect::<Vec<_>>();
    let mut choices: Vec<_> = sets.filter(|set| set.count_ones() == u32::from(fewer)).map(numbers).collect();
    choices.sort_unstable();
    choices
}

/// The timeline with only these servers and clients, which are numbered anew.
fn with_nodes(timeline: &RaftTimeline, servers: &[u16], clients: &[u16]) -> RaftTimeline {
    let mut fewer = timeline.clone();
    let number =
        |node: &NodeId| servers.iter().position(|kept| *kept == node.0).map(|at| NodeId(at as u16 + 1));
    let client = |old: u16| clients.iter().position(|kept| *kept == old).map(|at| at as u16 + 1);
    let old = &timeline.config;
    let config = &mut fewer.config;
    (config.servers, config.clients) = (servers.len() as u16, clients.len() as u16);
    config.faults = config.faults.clone().for_nodes(config.servers, config.clients);
    config.bad_disks =
        old.bad_disks.iter().filter_map(|(node, disk)| Some((number(node)?, disk.clone()))).collect();
    config.drift_ppm = old.drift_ppm.iter().filter_map(|(node, ppm)| Some((number(node)?, *ppm))).collect();
    if !old.outstanding.is_empty() {
        config.outstanding = clients.iter().map(|client| old.lanes_of(*client)).collect();
    }
    config.skipped =
        old.skipped.iter().filter_map(|(of, lane, ordinal)| Some((client(*of)?, *lane, *ordinal))).collect();
    let nodes: Vec<u16> =
        servers.iter().copied().chain(clients.iter().map(|client| old.servers + client)).collect();
    fewer.plan = timeline.plan.for_those(&nodes);
    // Links and disks have other names now.
    fewer.overrides.retain(|edit| edit.key.is_none());
    fewer
}

/// Fewer operations.
fn idler(timeline: &RaftTimeline) -> Vec<RaftTimeline> {
    let config = &timeline.config;
    let mut configs = Vec::new();
    if config.recovers {
        configs.push(Config { recovers: false, final_reads: false, ..config.clone() });
    }
    // Where recovery is judged, the final reads are what has to be answered.
    if config.final_reads && !config.recovers {
        configs.push(Config { final_reads: false, ..config.clone() });
    }
    if !config.outstanding.is_empty() {
        configs.push(Config { outstanding: Vec::new(), ..config.clone() });
    }
    let limits: Vec<u64> = match config.operations {
        None => vec![0, 1, 4, 16, 64, 256],
        Some(n) => [0, n / 2, n - n.div_ceil(4), n.saturating_sub(1)]
            .into_iter()
            .filter(|fewer| *fewer < n)
            .collect(),
    };
    configs.extend(limits.into_iter().map(|operations| {
        let mut fewer = Config { operations: Some(operations), ..config.clone() };
        fewer.skipped.retain(|(_, _, ordinal)| *ordinal <= operations);
        fewer
    }));
    configs.extend(without_some(config));
    configs.into_iter().map(|config| with_config(timeline, config)).collect()
}

/// Without a half of the operations that are left, a quarter, and so on to each.
fn without_some(config: &Config) -> Vec<Config> {
    let each = config.operations.unwrap_or(u64::MAX);
    let lanes =
        (1..=config.clients).flat_map(|client| (0..config.lanes_of(client)).map(move |lane| (client, lane)));
    if each.saturating_mul(lanes.clone().count() as u64) > FEW_OPERATIONS {
        return Vec::new();
    }
    let all = lanes.flat_map(|(client, lane)| (1..=each).map(move |n| (client, lane, n)));
    let mut left: Vec<_> = all.filter(|one| !config.skipped.contains(one)).collect();
    // In the order of time, more or less.
    left.sort_by_key(|(client, lane, ordinal)| (*ordinal, *client, *lane));
    let mut configs = Vec::new();
    let mut chunk = left.len().div_ceil(2);
    while chunk > 0 {
        for some in left.chunks(chunk) {
            let mut without = config.clone();
            without.skipped.extend(some);
            configs.push(without);
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    configs
}

/// One value at a time as in a plain cluster.
fn plainer(config: &Config) -> Vec<Config> {
    let plain = Config::reference();
    let edits: [fn(&mut Config, &Config); 22] = [
        |c, _| c.faults = PlanConfig::none().for_nodes(c.servers, c.clients),
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
        |c, plain| c.raft.step_down_after_ms = plain.raft.step_down_after_ms,
        |c, _| c.restart_halted_after_ms = None,
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
                assert!(steps < 10_000, "seed {seed}: moves without end");
            }
            assert_eq!((timeline.config.servers, timeline.config.clients), (3, 1), "seed {seed}");
            assert_eq!(timeline.plan.faults, [], "seed {seed}");
        }
    }

    #[test]
    fn humble_timelines_are_lighter_have_one_client_and_no_connections() {
        let timeline = Raft::of(Profile::Swarm).timeline(3);
        let humble = humble(&timeline, &failure_at(700_000_000));
        assert!(!humble.is_empty());
        for (lighter, heavier) in humble.iter().zip(humble.iter().skip(1)) {
            assert!(weight(lighter) <= weight(heavier), "the lightest is tried first");
        }
        for one in &humble {
            assert!(weight(one) < weight(&timeline));
            assert_eq!((one.config.clients, one.config.carrier), (1, Carrier::Datagrams));
            crate::raft::validate(one).expect("what is tried can run");
        }
        // What is as light as can be has nothing lighter.
        let mut least = humble[0].clone();
        least.plan.faults.clear();
        assert!(super::humble(&least, &failure_at(1)).iter().all(|one| weight(one) < weight(&least)));
    }

    #[test]
    fn whatever_a_file_says_of_operations_fewer_are_tried() {
        for operations in [1, 2, 3, 7, u64::MAX / 3 + 1, u64::MAX] {
            let mut timeline = Raft::default().timeline(1);
            timeline.config.operations = Some(operations);
            let tried: Vec<u64> =
                super::idler(&timeline).iter().filter_map(|fewer| fewer.config.operations).collect();
            assert!(tried.contains(&0) && tried.contains(&(operations - 1)), "{operations}: {tried:?}");
        }
    }
}
