//! What is simpler than a timeline of any program: for shrinking.
//!
//! In order of promise: less time, fewer faults, fewer processes and workloads, less to be done, plain values instead
//! of drawn ones, calm instead of chance, everywhere or here and there.
//!
//! Invariant: a move is made only where it changes something, and only towards less or plainer, so moves come to an
//! end.

use sim_runtime::scenario::Timeline;
use sim_runtime::schedule::Schedule;
use sim_runtime::shrink::calmer;
use sim_runtime::verdict::Failure;

use super::swarm::{Choices, Parameter};
use super::{SimulationConfig, SimulationTimeline};
use crate::fs::DiskConfig;
use crate::nemesis::lively::{calmer_here, lively_fields};
use crate::nemesis::{Plan, PlanConfig};
use crate::net::NetConfig;

/// With more faults than this, no single one is made briefer or comes sooner, and no single link is calmed.
const FEW_FAULTS: usize = 32;

/// Timelines that are one step simpler.
pub(super) fn moves(
    timeline: &SimulationTimeline,
    failure: &Failure,
    choices: &Choices,
) -> Vec<SimulationTimeline> {
    let plan = &timeline.plan;
    let mut moves = shorter(timeline, failure);
    moves.extend(with_configs(timeline, later(&timeline.config, failure)));
    moves.extend(with_plans(timeline, plan.simpler()));
    moves.extend(smaller(timeline, choices));
    moves.extend(with_configs(timeline, idler(&timeline.config, choices)));
    moves.extend(with_configs(timeline, plainer(&timeline.config, choices)));
    let SimulationConfig { network, disk, processes, workloads, .. } = &timeline.config;
    let lively: Vec<_> = lively_fields(network, disk, true, plan).collect();
    moves.extend(calmer(timeline, &lively));
    // What does not matter goes first: of what is left there is little.
    if plan.faults.len() <= FEW_FAULTS {
        moves.extend(with_plans(timeline, plan.briefer()));
        moves.extend(with_plans(timeline, plan.sooner()));
        moves.extend(calmer_here(timeline, &lively, processes + workloads, failure.time_ns));
    }
    moves
}

/// Of those, the ones that count.
pub(super) fn great_moves(timeline: &SimulationTimeline, choices: &Choices) -> Vec<SimulationTimeline> {
    let plan = &timeline.plan;
    let fewer = plan.simpler().into_iter().filter(|simpler| simpler.faults.len() < plan.faults.len());
    let mut moves: Vec<_> = with_plans(timeline, fewer).collect();
    moves.extend(smaller(timeline, choices));
    moves.extend(with_configs(timeline, idler(&timeline.config, choices)));
    moves
}

fn with_plans(
    timeline: &SimulationTimeline,
    plans: impl IntoIterator<Item = Plan>,
) -> impl Iterator<Item = SimulationTimeline> {
    plans.into_iter().map(|plan| Timeline { plan, ..timeline.clone() })
}

fn with_configs(
    timeline: &SimulationTimeline,
    configs: Vec<SimulationConfig>,
) -> impl Iterator<Item = SimulationTimeline> {
    configs.into_iter().map(|config| Timeline { config, ..timeline.clone() })
}

/// Faults end as soon as the failure was seen, or much earlier.
fn shorter(timeline: &SimulationTimeline, failure: &Failure) -> Vec<SimulationTimeline> {
    let now_ms = timeline.config.faults.heal_at_ms;
    let seen_ms = failure.time_ns / 1_000_000 + 1;
    let end_at = |heal_at_ms: u64| {
        let mut shorter = timeline.clone();
        shorter.config.faults.heal_at_ms = heal_at_ms;
        shorter.plan = shorter.plan.healed_at(heal_at_ms * 1_000_000);
        shorter
    };
    let ends = [seen_ms, now_ms / 2, now_ms * 3 / 4, now_ms * 15 / 16];
    ends.into_iter().filter(|end_ms| (1..now_ms).contains(end_ms)).map(end_at).collect()
}

/// Workloads begin later: with the failure, and ever earlier.
fn later(config: &SimulationConfig, failure: &Failure) -> Vec<SimulationConfig> {
    let starts = starts(config.work_from_ms, failure.time_ns / 1_000_000).into_iter();
    starts.map(|work_from_ms| SimulationConfig { work_from_ms, ..config.clone() }).collect()
}

/// All but a little of the time until the failure is seen later, all but more, and so on to half of it; and at last a
/// quarter and less.
fn starts(now_ms: u64, seen_ms: u64) -> Vec<u64> {
    const LEAST_MS: u64 = 2;
    let left_ms = seen_ms.saturating_sub(now_ms);
    let parts: Vec<u64> = (1..64).map(|n| left_ms >> n).take_while(|ms| *ms >= LEAST_MS).collect();
    let late = parts.iter().rev().map(|rest| left_ms - rest);
    late.chain(parts.iter().copied().skip(1)).map(|by_ms| now_ms + by_ms).collect()
}

/// Fewer processes, where the simulation allows them, and fewer workloads: without each of them in turn.
fn smaller(timeline: &SimulationTimeline, choices: &Choices) -> Vec<SimulationTimeline> {
    let SimulationConfig { processes, workloads, .. } = timeline.config;
    let all = 1..=processes + workloads;
    let mut fewer: Vec<u16> = choices.processes.iter().copied().filter(|n| *n < processes).collect();
    fewer.sort_unstable();
    fewer.dedup();
    // Neighbours: two processes that matter may be far apart in numbers, but faults name their victims anyway.
    let kept = |count: u16| {
        (0..processes)
            .map(move |first| (0..count).map(move |n| (first + n) % processes + 1).collect::<Vec<_>>())
    };
    let kept_processes = fewer.into_iter().flat_map(kept).map(|mut kept| {
        kept.extend(processes + 1..=processes + workloads);
        kept.sort_unstable();
        kept
    });
    let without = |gone: u16| all.clone().filter(|n| *n != gone).collect::<Vec<_>>();
    let one_less = (processes + 1..=processes + workloads).rev().filter(|_| workloads > 1).map(without);
    kept_processes.chain(one_less).map(|kept| with_nodes(timeline, &kept)).collect()
}

/// The timeline with only these nodes, which are numbered anew.
fn with_nodes(timeline: &SimulationTimeline, kept: &[u16]) -> SimulationTimeline {
    let mut fewer = timeline.clone();
    fewer.plan = timeline.plan.for_those(kept);
    (fewer.config.processes, fewer.config.workloads) = (fewer.plan.servers, fewer.plan.clients);
    fewer.config.faults =
        fewer.config.faults.clone().for_nodes(fewer.config.processes, fewer.config.workloads);
    // Links and disks have other names now.
    fewer.overrides.retain(|edit| edit.key.is_none());
    fewer
}

/// Less to be done.
fn idler(config: &SimulationConfig, choices: &Choices) -> Vec<SimulationConfig> {
    let amounts = choices.parameters.iter().filter(|(_, parameter)| parameter.is_amount);
    let less = |name: &str| {
        let n = config.parameters.get(name).copied().unwrap_or(0);
        [1, n / 4, n / 2, n * 3 / 4, n.saturating_sub(1)]
            .into_iter()
            .filter(move |less| (1..n).contains(less))
    };
    amounts.flat_map(|(name, _)| less(name).map(|n| with_parameter(config, name, n))).collect()
}

fn with_parameter(config: &SimulationConfig, name: &str, value: u64) -> SimulationConfig {
    let mut other = config.clone();
    other.parameters.insert(name.to_owned(), value);
    other
}

/// One value at a time as in a plain program.
fn plainer(config: &SimulationConfig, choices: &Choices) -> Vec<SimulationConfig> {
    let edits: [fn(&mut SimulationConfig); 9] = [
        |c| {
            let heal_at_ms = c.faults.heal_at_ms;
            c.faults = PlanConfig { heal_at_ms, ..PlanConfig::none().for_nodes(c.processes, c.workloads) };
        },
        |c| c.network = NetConfig { tcp: c.network.tcp, ..NetConfig::calm() },
        |c| c.network.loss_per_million = 0,
        |c| c.network.duplicate_per_million = 0,
        |c| c.network.reorder_per_million = 0,
        |c| c.network.slow_per_million = 0,
        |c| c.network.tail_per_million = 0,
        |c| c.disk = DiskConfig { lying_fsync: c.disk.lying_fsync, ..DiskConfig::default() },
        |c| c.schedule = Schedule::Fifo,
    ];
    let edited = edits.into_iter().map(|edit| {
        let mut plainer = config.clone();
        edit(&mut plainer);
        plainer
    });
    let earlier = |(name, parameter): (&&'static str, &Parameter)| {
        let now = config.parameters.get(*name).copied();
        let values = parameter.values.clone().into_iter().take_while(move |value| Some(*value) != now);
        let name = *name;
        values.map(move |value| (name, value))
    };
    let others = choices.parameters.iter().filter(|(_, parameter)| !parameter.is_amount);
    let plain = others.flat_map(earlier).map(|(name, value)| with_parameter(config, name, value));
    edited.chain(plain).filter(|plainer| plainer != config).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_begins_later_begins_much_later_first_and_never_after_the_failure() {
        assert_eq!(starts(100, 116), [114, 112, 108, 104, 102]);
        assert!(starts(114, 116).is_empty() && starts(200, 116).is_empty());
    }
}
