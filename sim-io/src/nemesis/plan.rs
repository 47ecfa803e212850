//! Plans: a list of faults from a seed, and its simpler variants.
//!
//!   seed ──stream "plan"──► times ──┐
//!   seed + place in the list ───────┴──► one fault ──────────────┬──► Plan { faults, heal_at_ns }
//!   seed + kind ──► times, faults of a kind with its own sequence ┘
//!
//! Each fault comes from a stream of its own, so that one more does not change the earlier ones. Kinds that take
//! nodes down or cut links are alternatives to each other: they share a sequence, in which switching one on does
//! not move the others in time. What goes on beside them (slow links, clocks, disks) has a sequence for each
//! kind, and switching one on changes nothing else at all.
//!
//! Invariants: a plan is a function of seed and configuration; only servers go down or are paused; what stays
//! down at the end is nothing, since [`super::run`] heals everything at `heal_at_ns`.
//! Not here: what one fault is (`choose.rs`), milder ones (`milder.rs`), what happens when two meet (`driver.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim_runtime::rng::{Stream, mix};

use super::choose::Chooser;
use super::fault::PlannedFault;
use super::kind::FaultKind;

/// Everything that goes wrong in a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How many servers there are: nodes 1 to n. Nodes beyond are clients.
    pub servers: u16,
    /// How many clients.
    pub clients: u16,
    /// Kinds that were switched on, so that a report can tell "off" from "on, but never reached".
    pub kinds: Vec<FaultKind>,
    /// The faults.
    pub faults: Vec<PlannedFault>,
    /// When everything is healed.
    pub heal_at_ns: u64,
}

/// A moment that is worth a fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Aim {
    /// Somewhere in a window of this name.
    Window(String),
    /// Shortly after a point of this name.
    Point(String),
    /// When a node plays this role.
    Role(String),
}

/// What plans are derived from, beside the seed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanConfig {
    /// How many servers there are: nodes 1 to n.
    pub servers: u16,
    /// How many clients: the nodes after the servers. They are never down or paused, but on a side in a
    /// partition.
    pub clients: u16,
    /// No fault before.
    pub first_ms: u64,
    /// No fault after; everything is healed then.
    pub heal_at_ms: u64,
    /// The shortest time from one fault to the next.
    pub every_min_ms: u64,
    /// The longest time from one fault to the next.
    pub every_max_ms: u64,
    /// Which kinds may happen, and how often: those that share a sequence in relation to each other, those with
    /// one of their own in percent of as often as the shared sequence has a fault.
    pub kinds: BTreeMap<FaultKind, u32>,
    /// The shortest downtime, pause or cut. The longest, per kind of fault, is heavy-tailed from there.
    pub lasts_min_us: u64,
    /// The longest downtime or cut.
    pub lasts_max_us: u64,
    /// What to aim at.
    pub aims: Vec<Aim>,
    /// How many faults of a million are aimed, when there is something to aim at.
    pub aimed_per_million: u32,
    /// Faults that are aimed at a point come less than this behind it; 1 or more.
    pub behind_point_us: u64,
    /// Roles whose players are hit more often than others.
    pub roles: Vec<String>,
}

impl PlanConfig {
    /// No faults at all.
    pub fn none() -> Self {
        Self {
            servers: 0,
            clients: 0,
            first_ms: 300,
            heal_at_ms: 6_000,
            every_min_ms: 80,
            every_max_ms: 400,
            kinds: BTreeMap::new(),
            lasts_min_us: 1_000,
            lasts_max_us: 1_000_000,
            aims: Vec::new(),
            aimed_per_million: 300_000,
            behind_point_us: 2_000,
            roles: Vec::new(),
        }
    }

    /// Every kind that a correct program rides out, a fault every 80-400 ms for 6 s and others beside it; not
    /// those of [`PlanConfig::failing_disks`].
    pub fn all() -> Self {
        let shared = [20, 20, 10, 20, 5, 10, 10, 10];
        let beside = [20, 20, 20, 10, 10, 10, 20, 20];
        let weights = shared.into_iter().chain(beside);
        Self { kinds: FaultKind::ALL.into_iter().zip(weights).collect(), ..Self::none() }
    }

    /// Disks that fail, fill up and rot: a correct program stops with a clear error, or gets over it.
    pub fn failing_disks() -> Self {
        let kinds = [FaultKind::FsyncErrors, FaultKind::IoErrors, FaultKind::DiskFull, FaultKind::BitRot];
        Self { kinds: kinds.into_iter().map(|kind| (kind, 20)).collect(), ..Self::none() }
    }

    /// Only these kinds, equally often.
    pub fn only(kinds: &[FaultKind]) -> Self {
        Self { kinds: kinds.iter().map(|kind| (*kind, 100)).collect(), ..Self::none() }
    }

    /// The same for that many servers and clients.
    pub fn for_nodes(self, servers: u16, clients: u16) -> Self {
        Self { servers, clients, ..self }
    }
}

/// How many ids a kind with a sequence of its own has: they start at its place among the kinds, times this.
const IDS_OF_A_KIND: u32 = 1_000_000;

impl Plan {
    /// Nothing goes wrong.
    pub fn none(heal_at_ns: u64) -> Self {
        Self { heal_at_ns, ..Self::default() }
    }

    /// The plan of `seed`.
    ///
    /// # Panics
    /// If a kind is switched on and there are no servers, or the shortest time between faults is 0.
    pub fn derive(seed: u64, config: &PlanConfig) -> Self {
        let mut plan = Self {
            servers: config.servers,
            clients: config.clients,
            kinds: config.kinds.iter().filter(|(_, weight)| **weight > 0).map(|(kind, _)| *kind).collect(),
            faults: Vec::new(),
            heal_at_ns: config.heal_at_ms * 1_000_000,
        };
        if plan.kinds.is_empty() {
            return plan;
        }
        assert!(config.servers > 0, "a plan needs servers to harm");
        assert!(config.every_min_ms > 0, "faults without any time between them would never end");
        if plan.kinds.iter().any(|kind| !kind.has_own_sequence()) {
            plan.add_shared_sequence(seed, config);
        }
        for kind in plan.kinds.clone().into_iter().filter(|kind| kind.has_own_sequence()) {
            plan.add_sequence_of(kind, seed, config);
        }
        plan
    }

    fn add_shared_sequence(&mut self, seed: u64, config: &PlanConfig) {
        let mut times = Stream::derive(seed, "plan");
        let mut at_ns = config.first_ms * 1_000_000;
        while at_ns < self.heal_at_ns {
            // Ids count from 1: 0 stands for "no fault" in records.
            let id = self.faults.len() as u32 + 1;
            let stream = Stream::derive(mix(seed, u64::from(id)), "planned fault");
            let mut chooser = Chooser { config, stream, hit_is_known: false };
            let kind = chooser.kind();
            self.faults.push(chooser.fault(kind, id, at_ns));
            at_ns += times.range(config.every_min_ms * 1_000_000, config.every_max_ms * 1_000_000);
        }
    }

    fn add_sequence_of(&mut self, kind: FaultKind, seed: u64, config: &PlanConfig) {
        let percent = u64::from(config.kinds[&kind]);
        let first_id = IDS_OF_A_KIND * kind as u32 + 1;
        let mut times = Stream::derive(seed, kind.name());
        let mut gap_ns = |least_ms: u64| {
            times.range(least_ms * 1_000_000, config.every_max_ms * 1_000_000).saturating_mul(100) / percent
        };
        let mut at_ns = (config.first_ms * 1_000_000).saturating_add(gap_ns(0));
        for id in first_id..first_id + IDS_OF_A_KIND {
            if at_ns >= self.heal_at_ns {
                return;
            }
            let stream = Stream::derive(mix(seed, u64::from(id)), kind.name());
            self.faults.push(Chooser { config, stream, hit_is_known: false }.fault(kind, id, at_ns));
            at_ns = at_ns.saturating_add(gap_ns(config.every_min_ms).max(1));
        }
    }

    /// The same without one fault.
    pub fn without(&self, id: u32) -> Self {
        let mut plan = self.clone();
        plan.faults.retain(|fault| fault.id != id);
        plan
    }

    /// Plans that are one step simpler, the most promising first: without half of the faults, without a
    /// quarter, without one; then with two in one; then with milder faults; then healed earlier.
    pub fn simpler(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        let total = self.faults.len();
        let mut chunk = total.div_ceil(2);
        while chunk > 0 {
            for from in (0..total).step_by(chunk).rev() {
                let mut plan = self.clone();
                plan.faults.drain(from..(from + chunk).min(total));
                plans.push(plan);
            }
            chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
        }
        plans.extend(self.merged());
        for (at, fault) in self.faults.iter().enumerate() {
            plans.extend(fault.what.milder(self.servers).into_iter().map(|what| {
                let mut plan = self.clone();
                plan.faults[at].what = what;
                plan
            }));
        }
        let ends_ns = |fault: &PlannedFault| fault.when.earliest_ns() + fault.lasts_us * 1_000;
        let last_end_ns = self.faults.iter().map(ends_ns).max().unwrap_or(0).max(1_000_000);
        if last_end_ns < self.heal_at_ns {
            plans.push(Self { heal_at_ns: last_end_ns, ..self.clone() });
        }
        plans
    }
}
