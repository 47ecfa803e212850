//! Which conditions have a say in a run, so that shrinking can calm them: of fields, all that sim-io and the runtime
//! read.
//!
//! Not here: calming ([`sim_runtime::shrink::calmer`]).

use sim_runtime::NodeId;
use sim_runtime::scenario::Timeline;
use sim_runtime::shrink::calmer_in_part;

use super::kind::FaultKind;
use super::plan::Plan;
use crate::fs::DiskConfig;
use crate::net::{DUPLICATION, LATENCY, LOSS, NetConfig, REORDERING, SLOWNESS, link_key};

const WAKE_HOLD: &str = "wake hold";
const FSYNC_DURATION: &str = "fsync duration";

/// With more nodes than this, no single link or node is calmed.
const FEW_NODES: u16 = 12;

/// The fields that may be calmed and have a say under that plan; `holds` says whether wakes are held back.
pub fn lively_fields(
    network: &NetConfig,
    disk: &DiskConfig,
    holds: bool,
    plan: &Plan,
) -> impl Iterator<Item = &'static str> + use<> {
    let has = |kind: FaultKind| plan.faults.iter().any(|fault| fault.what.kind() == kind);
    let fields = [
        (SLOWNESS.name(), network.slow_per_million > 0 || has(FaultKind::SlowLinks)),
        (LOSS.name(), network.loss_per_million > 0 || has(FaultKind::LossBurst)),
        (DUPLICATION.name(), network.duplicate_per_million > 0 || has(FaultKind::DuplicationBurst)),
        (REORDERING.name(), network.reorder_per_million > 0),
        (LATENCY.name(), network.latency_min_us < network.latency_max_us || network.tail_per_million > 0),
        (WAKE_HOLD, holds),
        (FSYNC_DURATION, disk.fsync_min_us < disk.fsync_max_us),
    ];
    fields.into_iter().filter(|(_, has_a_say)| *has_a_say).map(|(field, _)| field)
}

/// The timelines in which one of the fields is calm on one more link, disk or node of the first `nodes`, or for
/// longer up to that time.
pub fn calmer_here<C: Clone, P: Clone>(
    timeline: &Timeline<C, P>,
    fields: &[&str],
    nodes: u16,
    until_ns: u64,
) -> Vec<Timeline<C, P>> {
    let all = || (1..=nodes).filter(|_| nodes <= FEW_NODES).map(NodeId);
    let links: Vec<u64> =
        all().flat_map(|a| all().filter(move |b| a != *b).map(move |b| link_key(a, b))).collect();
    let single: Vec<u64> = all().map(|node| u64::from(node.0)).collect();
    let keys = |field: &str| if field == WAKE_HOLD || field == FSYNC_DURATION { &single } else { &links };
    fields.iter().flat_map(|field| calmer_in_part(timeline, field, keys(field), until_ns)).collect()
}
