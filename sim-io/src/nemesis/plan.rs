//! Plans: a list of faults from a seed, and its simpler variants.
//!
//!   seed ──stream "plan"──► times ──┐
//!   seed + place in the list ───────┴──► one fault ──► Plan { faults, heal_at_ns }
//!
//! Each fault comes from a stream of its own, so that switching a kind on does not move the others in time, and
//! one more fault does not change the earlier ones.
//!
//! Invariants: a plan is a function of seed and configuration; only servers go down or are paused; what stays
//! down at the end is nothing, since [`super::run`] heals everything at `heal_at_ns`.
//! Not here: what happens when two faults meet (`driver.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim_runtime::NodeId;
use sim_runtime::rng::{Stream, mix};

use super::fault::{Fault, FaultKind, PlannedFault, Target, When};

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
    /// Up to 2 ms after a point of this name.
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
    /// Which kinds may happen, and how often in relation to each other.
    pub kinds: BTreeMap<FaultKind, u32>,
    /// The shortest downtime, pause or cut. The longest, per kind of fault, is heavy-tailed from there.
    pub lasts_min_us: u64,
    /// The longest downtime or cut.
    pub lasts_max_us: u64,
    /// What to aim at.
    pub aims: Vec<Aim>,
    /// How many faults of a million are aimed, when there is something to aim at.
    pub aimed_per_million: u32,
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
            roles: Vec::new(),
        }
    }

    /// Every kind, a fault every 80-400 ms for 6 s.
    pub fn all() -> Self {
        let weights = [20, 20, 10, 20, 5, 10, 10, 10];
        Self { kinds: FaultKind::ALL.into_iter().zip(weights).collect(), ..Self::none() }
    }

    /// Only these kinds, equally often.
    pub fn only(kinds: &[FaultKind]) -> Self {
        Self { kinds: kinds.iter().map(|kind| (*kind, 1)).collect(), ..Self::none() }
    }

    /// The same for that many servers and clients.
    pub fn for_nodes(self, servers: u16, clients: u16) -> Self {
        Self { servers, clients, ..self }
    }
}

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
        let mut times = Stream::derive(seed, "plan");
        let mut at_ns = config.first_ms * 1_000_000;
        while at_ns < plan.heal_at_ns {
            // Ids count from 1: 0 stands for "no fault" in records.
            let id = plan.faults.len() as u32 + 1;
            let stream = Stream::derive(mix(seed, u64::from(id)), "planned fault");
            plan.faults.push(Chooser { config, stream, hit_is_known: false }.fault(id, at_ns));
            at_ns += times.range(config.every_min_ms * 1_000_000, config.every_max_ms * 1_000_000);
        }
        plan
    }

    /// The same without one fault.
    pub fn without(&self, id: u32) -> Self {
        let mut plan = self.clone();
        plan.faults.retain(|fault| fault.id != id);
        plan
    }

    /// Plans that are one step simpler, the most promising first: without half of the faults, without a
    /// quarter, without one; then with milder faults; then healed earlier.
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

impl Fault {
    /// The same fault, milder: fewer nodes, or a crash in place of a power loss.
    fn milder(&self, servers: u16) -> Vec<Self> {
        let fewer = |target: &Target| -> Vec<Target> {
            match target {
                Target::AllServers => (1..=servers).map(|id| Target::Nodes(vec![NodeId(id)])).collect(),
                Target::Nodes(nodes) if nodes.len() > 1 => {
                    nodes.iter().map(|node| Target::Nodes(vec![*node])).collect()
                }
                Target::Nodes(_) | Target::Role(_) | Target::Hit => Vec::new(),
            }
        };
        match self {
            Self::Kill { target } => fewer(target).into_iter().map(|target| Self::Kill { target }).collect(),
            Self::Pause { target } => {
                fewer(target).into_iter().map(|target| Self::Pause { target }).collect()
            }
            Self::PowerOff { target } => {
                let fewer = fewer(target).into_iter().map(|target| Self::PowerOff { target });
                fewer.chain([Self::Kill { target: target.clone() }]).collect()
            }
            Self::CutLink { one, other } => vec![
                Self::CutOneWay { from: one.clone(), to: other.clone() },
                Self::CutOneWay { from: other.clone(), to: one.clone() },
            ],
            Self::Partition { .. } | Self::Isolate { .. } | Self::CutOneWay { .. } => Vec::new(),
        }
    }
}

/// Chooses one fault from its own stream.
struct Chooser<'a> {
    config: &'a PlanConfig,
    stream: Stream,
    /// Whether [`Target::Hit`] means somebody.
    hit_is_known: bool,
}

impl Chooser<'_> {
    fn fault(mut self, id: u32, at_ns: u64) -> PlannedFault {
        let kind = self.kind();
        let lasts_us = self.lasts_us(kind);
        let when = self.when(at_ns);
        self.hit_is_known = when.is_aimed();
        let what = match kind {
            FaultKind::Kill => Fault::Kill { target: self.victims(150_000, 50_000) },
            FaultKind::PowerOff => Fault::PowerOff { target: self.victims(250_000, 250_000) },
            FaultKind::Pause => Fault::Pause { target: self.victims(100_000, 0) },
            FaultKind::Partition => Fault::Partition { sides: self.halves() },
            FaultKind::Bridge => Fault::Partition { sides: self.bridge() },
            FaultKind::Isolate => Fault::Isolate { target: self.one() },
            FaultKind::CutLink => {
                let (one, other) = self.two();
                Fault::CutLink { one, other }
            }
            FaultKind::CutOneWay => {
                let (from, to) = self.two();
                if self.stream.chance(500_000) {
                    Fault::CutOneWay { from, to }
                } else {
                    Fault::CutOneWay { from: to, to: from }
                }
            }
        };
        PlannedFault { id, when, what, lasts_us }
    }

    fn kind(&mut self) -> FaultKind {
        let weights = &self.config.kinds;
        let mut left = self.stream.below(weights.values().map(|weight| u64::from(*weight)).sum());
        for (kind, weight) in weights {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// Heavy-tailed: every doubling from the least to the greatest is as likely as the next. What only cuts
    /// links or pauses lasts as long as an election at least, or nobody would notice.
    fn lasts_us(&mut self, kind: FaultKind) -> u64 {
        let takes_down = matches!(kind, FaultKind::Kill | FaultKind::PowerOff);
        let least = self.config.lasts_min_us.max(1) * if takes_down { 1 } else { 20 };
        let most = self.config.lasts_max_us.max(least);
        let doublings = u64::from((most / least).ilog2());
        let low = least << self.stream.below(doublings + 1);
        self.stream.range(low, (low * 2).min(most))
    }

    fn when(&mut self, at_ns: u64) -> When {
        // All draws are made whether or not they are used, so that what follows stays the same.
        let is_aimed = self.stream.chance(self.config.aimed_per_million);
        let aim = self.stream.below(self.config.aims.len().max(1) as u64) as usize;
        let fraction_per_mille = self.stream.below(1_000) as u32;
        let delay_us = self.stream.below(2_000);
        match self.config.aims.get(aim).filter(|_| is_aimed) {
            None => When::At { at_ns },
            Some(Aim::Window(name)) => {
                When::Window { name: name.clone(), node: None, after_ns: at_ns, fraction_per_mille }
            }
            Some(Aim::Point(name)) => When::Point { name: name.clone(), after_ns: at_ns, delay_us },
            Some(Aim::Role(role)) => When::Role { role: role.clone(), after_ns: at_ns },
        }
    }

    /// One server: whom the aim hit, one with a role, or any.
    fn one(&mut self) -> Target {
        let (by_role, role) = (self.stream.chance(300_000), self.stream.below(1_000) as usize);
        let any = self.server();
        if self.hit_is_known {
            return Target::Hit;
        }
        match self.config.roles.len() {
            0 => Target::Nodes(vec![any]),
            roles if by_role => Target::Role(self.config.roles[role % roles].clone()),
            _ => Target::Nodes(vec![any]),
        }
    }

    fn server(&mut self) -> NodeId {
        NodeId(self.stream.range(1, u64::from(self.config.servers)) as u16)
    }

    /// One server, or several or all with these chances.
    fn victims(&mut self, several_per_million: u32, all_per_million: u32) -> Target {
        let draw = self.stream.below(1_000_000);
        let several = u64::from(several_per_million);
        let one = self.one();
        let mut servers = self.servers();
        let how_many = self.stream.range(2, u64::from(self.config.servers).max(3) - 1) as usize;
        if draw < several && servers.len() > 2 {
            servers.truncate(how_many);
            servers.sort_unstable();
            Target::Nodes(servers)
        } else if draw < several + u64::from(all_per_million) {
            Target::AllServers
        } else {
            one
        }
    }

    /// A server, and another node (a client, now and then).
    fn two(&mut self) -> (Target, Target) {
        let one = self.one();
        let nodes = self.config.servers + self.config.clients;
        let avoid = if let Target::Nodes(nodes) = &one { nodes[0].0 } else { 0 };
        let other = 1 + (avoid + self.stream.below(u64::from(nodes.max(2)) - 1) as u16) % nodes;
        (one, Target::Nodes(vec![NodeId(other)]))
    }

    /// The servers in random order.
    fn servers(&mut self) -> Vec<NodeId> {
        let mut servers: Vec<NodeId> = (1..=self.config.servers).map(NodeId).collect();
        self.stream.shuffle(&mut servers);
        servers
    }

    /// Two sides with at least a server each, where there are two; each client on one of them.
    fn halves(&mut self) -> Vec<Vec<NodeId>> {
        let mut left = self.servers();
        let at = self.stream.range(1, u64::from(self.config.servers).max(2) - 1) as usize;
        let right = left.split_off(at);
        self.with_clients(left, right)
    }

    /// Two sides that have one server in common.
    fn bridge(&mut self) -> Vec<Vec<NodeId>> {
        let mut left = self.servers();
        let at = left.len().div_ceil(2);
        let mut right = left.split_off(at);
        right.extend(left.last());
        self.with_clients(left, right)
    }

    fn with_clients(&mut self, mut left: Vec<NodeId>, mut right: Vec<NodeId>) -> Vec<Vec<NodeId>> {
        for client in 1..=self.config.clients {
            let side = if self.stream.chance(500_000) { &mut left } else { &mut right };
            side.push(NodeId(self.config.servers + client));
        }
        left.sort_unstable();
        right.sort_unstable();
        vec![left, right]
    }
}
