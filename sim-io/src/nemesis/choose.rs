//! One fault of a plan: its kind, when, to whom, how hard, for how long.
//!
//!   stream of its own ──► kind (where kinds share a sequence) ──► lasts ──► when ──► what, to whom
//!
//! Invariants: draws depend on the configuration and on earlier draws of the same stream, and on nothing else.
//! Not here: how many faults, and from which streams (`plan.rs`).

use sim_runtime::NodeId;
use sim_runtime::rng::Stream;

use super::fault::{Fault, Links, PlannedFault, Target, When};
use super::kind::FaultKind;
use super::plan::{Aim, PlanConfig};

/// Chooses one fault from its own stream.
pub(super) struct Chooser<'a> {
    pub(super) config: &'a PlanConfig,
    pub(super) stream: Stream,
    /// Whether [`Target::Hit`] means somebody.
    pub(super) hit_is_known: bool,
}

impl Chooser<'_> {
    pub(super) fn fault(mut self, kind: FaultKind, id: u32, at_ns: u64) -> PlannedFault {
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
            FaultKind::SlowLinks => {
                Fault::SlowLinks { factor: self.doubled(2, 5) as u32, links: self.links() }
            }
            FaultKind::LossBurst => Fault::LossBurst { per_million: self.mostly(), links: self.links() },
            FaultKind::DuplicationBurst => {
                Fault::DuplicationBurst { per_million: self.mostly(), links: self.links() }
            }
            FaultKind::Freeze => Fault::Freeze { target: self.victims(100_000, 0) },
            FaultKind::WallStep => {
                // A millisecond to an hour.
                let ahead_ms = self.doubled(1, 21) as i64;
                Fault::WallStep { ahead_ms: self.either_way(ahead_ms), target: self.one() }
            }
            FaultKind::Drift => {
                // What a quartz does on a hot day, to a clock that is being slewed as hard as can be.
                let ppm = self.doubled(50, 10) as i64;
                Fault::Drift { ppm: self.either_way(ppm) as i32, target: self.one() }
            }
            FaultKind::DiskStall => Fault::DiskStall { target: self.one() },
            FaultKind::SlowDisk => Fault::SlowDisk { factor: self.doubled(2, 4) as u32, target: self.one() },
            FaultKind::FsyncErrors => Fault::FsyncErrors { per_million: self.mostly(), target: self.one() },
            FaultKind::IoErrors => Fault::IoErrors { per_million: self.mostly(), target: self.one() },
            FaultKind::DiskFull => {
                Fault::DiskFull { room_bytes: self.doubled(1, 12) - 1, target: self.one() }
            }
            FaultKind::BitRot => {
                Fault::BitRot { per_million: self.doubled(500, 9) as u32, target: self.one() }
            }
        };
        PlannedFault { id, when, what, lasts_us }
    }

    /// One of the kinds that share a sequence, by weight.
    pub(super) fn kind(&mut self) -> FaultKind {
        let weights = || self.config.kinds.iter().filter(|(kind, _)| !kind.has_own_sequence());
        let mut left = self.stream.below(weights().map(|(_, weight)| u64::from(*weight)).sum());
        for (kind, weight) in weights() {
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
        if kind == FaultKind::BitRot {
            // It shows when the power fails meanwhile.
            return most;
        }
        let doublings = u64::from((most / least).ilog2());
        let low = least << self.stream.below(doublings + 1);
        self.stream.range(low, (low * 2).min(most))
    }

    /// Heavy-tailed: `least` to twice that, doubled up to `doublings` times.
    fn doubled(&mut self, least: u64, doublings: u64) -> u64 {
        let low = least << self.stream.below(doublings + 1);
        self.stream.range(low, low * 2)
    }

    /// Everything in half of the cases, else a tenth to nine.
    fn mostly(&mut self) -> u32 {
        let part = self.stream.range(100_000, 900_000) as u32;
        if self.stream.chance(500_000) { 1_000_000 } else { part }
    }

    fn either_way(&mut self, by: i64) -> i64 {
        if self.stream.chance(500_000) { by } else { -by }
    }

    /// All links of a server, those of two nodes, or one way between them.
    fn links(&mut self) -> Links {
        let draw = self.stream.below(100);
        let (one, other) = self.two();
        match draw {
            0..50 => Links::Of(one),
            50..75 => Links::Between { one, other },
            75..88 => Links::OneWay { from: one, to: other },
            _ => Links::OneWay { from: other, to: one },
        }
    }

    fn when(&mut self, at_ns: u64) -> When {
        // All draws are made whether or not they are used, so that what follows stays the same.
        let is_aimed = self.stream.chance(self.config.aimed_per_million);
        let aim = self.stream.below(self.config.aims.len().max(1) as u64) as usize;
        let fraction_per_mille = self.stream.below(1_000) as u32;
        let delay_us = self.stream.below(self.config.behind_point_us);
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
