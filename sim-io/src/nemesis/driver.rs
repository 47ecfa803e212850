//! The task that applies faults and takes them back.
//!
//!   for each fault a task on the host:  wait for its moment ──► begin ──► wait ──► end
//!   at heal_at_ns:                      drop those tasks, end what is under way
//!
//! Faults overlap freely. A fault takes hold of what it finds: nodes that are up (and remembers their
//! incarnation), nodes that run, links (which count their cuts), clocks that run as they should, disks (which
//! know their troubles by fault). What another fault holds already it leaves alone, and it ends only what it
//! began, so no node is ever started twice or resumed in another life.
//!
//! Invariants: when [`run`] returns, no fault holds anything; a fault is counted when it found something to
//! do, and never before; what it then did to somebody, the devices count.
//! Not here: which faults (`plan.rs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use sim_runtime::rng::hash_name;
use sim_runtime::time::sleep;
use sim_runtime::{Handle, NodeId, Owner, probe, task};

use super::fault::{Fault, Links, PlannedFault, Target, When};
use super::kind::FaultKind;
use super::plan::Plan;
use crate::fs::{Disks, Trouble};
use crate::net::{Burst, Net};
use crate::records::{FaultBegan, FaultEnded};

/// How often a fault that waits for a role looks for it.
const ROLE_POLL: Duration = Duration::from_millis(5);

const FIRED: &str = "aimed faults fired";
const NEVER_FIRED: &str = "aimed faults never fired";
const IDLE: &str = "faults that found nothing to do";

/// Carries out `plan` and returns when everything is healed at `heal_at_ns`. Runs on the host.
///
/// Returns what came of the plan, as a plan: the faults that found something to do, each at the time when it began and to
/// the nodes that it struck. It heals when the other does.
///
/// # Panics
/// Outside a run, or if the plan names nodes that do not exist, or two of its faults have the same id.
pub async fn run(plan: Plan) -> Plan {
    let ids: BTreeSet<u32> = plan.faults.iter().map(|fault| fault.id).collect();
    assert_eq!(ids.len(), plan.faults.len(), "each fault of a plan has an id of its own");
    let world = Handle::current();
    let heal_at_ns = plan.heal_at_ns;
    let nemesis = Rc::new(Nemesis {
        world: world.clone(),
        net: world.device(),
        disks: world.device(),
        plan,
        holds: RefCell::default(),
        unfired: RefCell::default(),
        begun: RefCell::default(),
    });
    nemesis.declare_counters();
    let drive = |(at, fault): (usize, &PlannedFault)| {
        let nemesis = nemesis.clone();
        task("fault")
            .key(u64::from(fault.id))
            .spawn(async move { nemesis.drive(&nemesis.plan.faults[at]).await })
    };
    let driven: Vec<_> = nemesis.plan.faults.iter().enumerate().map(drive).collect();
    sleep(Duration::from_nanos(heal_at_ns.saturating_sub(world.now_ns()))).await;
    driven.iter().for_each(sim_runtime::JoinHandle::abort);
    nemesis.heal();
    let mut faults = nemesis.begun.take();
    faults.sort_by_key(|fault| (fault.when.earliest_ns(), fault.id));
    let Plan { servers, clients, ref kinds, .. } = nemesis.plan;
    Plan { servers, clients, kinds: kinds.clone(), faults, heal_at_ns }
}

/// What a fault holds while it lasts.
enum Hold {
    Down(Vec<Owner>),
    /// Or frozen.
    Paused(Vec<Owner>),
    Cut(Vec<(NodeId, NodeId)>),
    Burst(Vec<(NodeId, NodeId)>, Burst),
    Stepped(Vec<NodeId>, i64),
    /// With the rates of before, and the new one.
    Drifting(Vec<(NodeId, i32)>, i32),
    Troubled(Vec<NodeId>, Trouble),
}

struct Nemesis {
    world: Handle,
    net: Rc<Net>,
    disks: Rc<Disks>,
    plan: Plan,
    /// By id of the fault.
    holds: RefCell<BTreeMap<u32, (FaultKind, Hold)>>,
    /// Aimed faults that have not fired yet.
    unfired: RefCell<Vec<u32>>,
    /// Faults as they began.
    begun: RefCell<Vec<PlannedFault>>,
}

impl Nemesis {
    /// Counters of what is switched on exist from the beginning: 0 says "on, but never reached".
    fn declare_counters(&self) {
        let kinds = self.plan.kinds.iter().copied();
        let kinds = kinds.chain(self.plan.faults.iter().map(|fault| fault.what.kind()));
        for counter in kinds.flat_map(|kind| kind.counters().iter().chain(kind.effects())) {
            self.world.count(counter, 0);
        }
        if !self.plan.faults.is_empty() {
            self.world.count(IDLE, 0);
        }
        let aimed = self.plan.faults.iter().filter(|fault| fault.when.is_aimed()).map(|fault| fault.id);
        self.unfired.borrow_mut().extend(aimed);
        if !self.unfired.borrow().is_empty() {
            self.world.count(FIRED, 0);
            self.world.count(NEVER_FIRED, 0);
        }
    }

    async fn drive(&self, fault: &PlannedFault) {
        let hit = self.moment(&fault.when).await;
        if fault.when.is_aimed() {
            self.unfired.borrow_mut().retain(|id| *id != fault.id);
            self.world.count(FIRED, 1);
        }
        if self.begin(fault, hit) {
            sleep(Duration::from_micros(fault.lasts_us)).await;
            self.end(fault.id);
        }
    }

    /// Waits until the fault is due; returns the node that was aimed at.
    async fn moment(&self, when: &When) -> Option<NodeId> {
        sleep(Duration::from_nanos(when.earliest_ns().saturating_sub(self.world.now_ns()))).await;
        match when {
            When::At { .. } => None,
            When::Window { name, node, fraction_per_mille, .. } => {
                let window = probe::next(name, *node).await;
                let into_ns = window.expected_ns.unwrap_or(0) / 1_000 * u64::from(*fraction_per_mille);
                sleep(Duration::from_nanos(into_ns)).await;
                Some(window.node)
            }
            When::Point { name, delay_us, .. } => {
                let point = probe::next(name, None).await;
                sleep(Duration::from_micros(*delay_us)).await;
                Some(point.node)
            }
            When::Role { role, .. } => loop {
                match self.world.latest_with_role(role) {
                    Some(player) => return Some(player),
                    None => sleep(ROLE_POLL).await,
                }
            },
        }
    }

    /// Applies the fault; false when it found nothing to do.
    fn begin(&self, fault: &PlannedFault, hit: Option<NodeId>) -> bool {
        let id = u64::from(fault.id);
        let hold = self.take_hold(&fault.what, hit);
        if hold.is_empty() {
            self.world.count(IDLE, 1);
            return false;
        }
        self.begun.borrow_mut().push(PlannedFault {
            when: When::At { at_ns: self.world.now_ns() },
            what: fault.what.concrete(|target| self.resolve(target, hit)),
            ..fault.clone()
        });
        let kind = fault.what.kind();
        let nodes = self.nodes(&fault.what, &hold, hit);
        let mask = nodes.iter().filter(|node| node.0 < 64).fold(0, |mask, node| mask | 1 << node.0);
        self.world.emit(FaultBegan { id, kind: hash_name(kind.name()), nodes: mask });
        let width = if let Hold::Down(owners) = &hold { self.width(owners.len()) } else { 0 };
        self.world.count(kind.counters()[width], 1);
        match &hold {
            Hold::Down(owners) => match &fault.what {
                // Machines whose process is down already are struck too.
                Fault::PowerOff { target } => self.world.power_off(&self.resolve(target, hit), id),
                _ => owners.iter().for_each(|owner| self.world.kill(owner.node, id)),
            },
            Hold::Paused(owners) => {
                let is_whole = matches!(fault.what, Fault::Freeze { .. });
                let stop = |node| if is_whole { self.world.freeze(node) } else { self.world.pause(node) };
                owners.iter().for_each(|owner| stop(owner.node));
            }
            Hold::Cut(links) => links.iter().for_each(|(from, to)| self.net.cut(*from, *to)),
            Hold::Burst(links, burst) => {
                links.iter().for_each(|(from, to)| self.net.burst(id, *from, *to, *burst));
            }
            Hold::Stepped(nodes, by_ns) => {
                nodes.iter().for_each(|node| self.world.step_wall(*node, *by_ns));
            }
            Hold::Drifting(nodes, ppm) => {
                nodes.iter().for_each(|(node, _)| self.world.set_drift(*node, *ppm));
            }
            Hold::Troubled(nodes, trouble) => {
                nodes.iter().for_each(|node| self.disks.trouble(&self.world, id, *node, *trouble));
            }
        }
        self.holds.borrow_mut().insert(fault.id, (kind, hold));
        true
    }

    /// What there is for the fault to take hold of.
    fn take_hold(&self, fault: &Fault, hit: Option<NodeId>) -> Hold {
        let resolve = |target: &Target| self.resolve(target, hit);
        let troubled = |target: &Target, trouble| Hold::Troubled(self.machines(resolve(target)), trouble);
        match fault {
            Fault::Kill { target } | Fault::PowerOff { target } => {
                Hold::Down(self.live(resolve(target), |_| true))
            }
            Fault::Pause { target } | Fault::Freeze { target } => {
                Hold::Paused(self.live(resolve(target), |node| !self.world.is_paused(node)))
            }
            Fault::Partition { sides } => {
                let share_a_side = |a, b| sides.iter().any(|side| side.contains(&a) && side.contains(&b));
                Hold::Cut(self.links(|a, b| !share_a_side(a, b)))
            }
            Fault::Isolate { target } => Hold::Cut(self.links_of(&Links::Of(target.clone()), hit)),
            Fault::CutLink { one, other } => {
                let between = Links::Between { one: one.clone(), other: other.clone() };
                Hold::Cut(self.links_of(&between, hit))
            }
            Fault::CutOneWay { from, to } => {
                let one_way = Links::OneWay { from: from.clone(), to: to.clone() };
                Hold::Cut(self.links_of(&one_way, hit))
            }
            Fault::SlowLinks { links, factor } => {
                Hold::Burst(self.links_of(links, hit), Burst::Slow { factor: *factor })
            }
            Fault::LossBurst { links, per_million } => {
                Hold::Burst(self.links_of(links, hit), Burst::Loss { per_million: *per_million })
            }
            Fault::DuplicationBurst { links, per_million } => {
                Hold::Burst(self.links_of(links, hit), Burst::Duplication { per_million: *per_million })
            }
            Fault::WallStep { target, ahead_ms } => {
                Hold::Stepped(self.machines(resolve(target)), ahead_ms.saturating_mul(1_000_000))
            }
            Fault::Drift { target, ppm } => {
                let nodes =
                    self.machines(resolve(target)).into_iter().filter(|node| !self.is_drifting(*node));
                Hold::Drifting(nodes.map(|node| (node, self.world.drift_ppm(node))).collect(), *ppm)
            }
            Fault::DiskStall { target } => troubled(target, Trouble::Stall),
            Fault::SlowDisk { target, factor } => troubled(target, Trouble::Slow { factor: *factor }),
            Fault::FsyncErrors { target, per_million } => {
                troubled(target, Trouble::FsyncErrors { per_million: *per_million })
            }
            Fault::IoErrors { target, per_million } => {
                troubled(target, Trouble::IoErrors { per_million: *per_million })
            }
            Fault::DiskFull { target, room_bytes } => {
                troubled(target, Trouble::Full { room_bytes: *room_bytes })
            }
            Fault::BitRot { target, per_million } => {
                troubled(target, Trouble::Rot { per_million: *per_million })
            }
        }
    }

    /// Whom the record of the fault names.
    fn nodes(&self, fault: &Fault, hold: &Hold, hit: Option<NodeId>) -> Vec<NodeId> {
        let resolve = |target: &Target| self.resolve(target, hit);
        match (fault, hold) {
            (Fault::Partition { sides }, _) => sides.first().cloned().unwrap_or_default(),
            (Fault::Isolate { target }, _) => resolve(target),
            (Fault::CutLink { one, other }, _) => [resolve(one), resolve(other)].concat(),
            (Fault::CutOneWay { from, to }, _) => [resolve(from), resolve(to)].concat(),
            (_, Hold::Down(owners) | Hold::Paused(owners)) => owners.iter().map(|owner| owner.node).collect(),
            (_, Hold::Cut(links) | Hold::Burst(links, _)) => links.iter().map(|(from, _)| *from).collect(),
            (_, Hold::Stepped(nodes, _) | Hold::Troubled(nodes, _)) => nodes.clone(),
            (_, Hold::Drifting(nodes, _)) => nodes.iter().map(|(node, _)| *node).collect(),
        }
    }

    /// Takes back what the fault holds.
    fn end(&self, id: u32) {
        let (kind, hold) = self.holds.borrow_mut().remove(&id).expect("a fault that began holds something");
        match hold {
            Hold::Down(owners) => {
                let still_down =
                    |o: &&Owner| !self.world.is_up(o.node) && self.world.incarnation(o.node) == o.incarnation;
                owners.iter().filter(still_down).for_each(|owner| self.world.restart(owner.node));
            }
            Hold::Paused(owners) => {
                let still_alive = owners.iter().filter(|owner| self.world.is_live(**owner));
                still_alive.for_each(|owner| self.world.resume(owner.node));
            }
            Hold::Cut(links) => links.iter().for_each(|(from, to)| self.net.heal(*from, *to)),
            Hold::Burst(..) => self.net.calm(id.into()),
            Hold::Stepped(nodes, by_ns) => {
                nodes.iter().for_each(|node| self.world.step_wall(*node, by_ns.saturating_neg()));
            }
            Hold::Drifting(nodes, _) => {
                nodes.iter().for_each(|(node, before)| self.world.set_drift(*node, *before));
            }
            Hold::Troubled(..) => self.disks.calm(&self.world, id.into()),
        }
        self.world.emit(FaultEnded { id: u64::from(id), kind: hash_name(kind.name()) });
    }

    fn heal(&self) {
        let under_way: Vec<u32> = self.holds.borrow().keys().copied().collect();
        under_way.into_iter().for_each(|id| self.end(id));
        let unfired = self.unfired.borrow().len();
        if unfired > 0 {
            self.world.count(NEVER_FIRED, unfired as u64);
        }
    }

    fn resolve(&self, target: &Target, hit: Option<NodeId>) -> Vec<NodeId> {
        match target {
            Target::Nodes(nodes) => nodes.clone(),
            Target::Role(role) => self.world.latest_with_role(role).into_iter().collect(),
            Target::Hit => hit.into_iter().collect(),
            Target::AllServers => (1..=self.plan.servers).map(NodeId).collect(),
        }
    }

    /// Those of `nodes` that are up and fit, as they live now. The host is left alone.
    fn live(&self, nodes: Vec<NodeId>, fits: impl Fn(NodeId) -> bool) -> Vec<Owner> {
        let found =
            nodes.into_iter().filter(|node| *node != NodeId::HOST && self.world.is_up(*node) && fits(*node));
        found.map(|node| Owner { node, incarnation: self.world.incarnation(node) }).collect()
    }

    /// Those of `nodes` that are not the host, up or down.
    fn machines(&self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        nodes.retain(|node| *node != NodeId::HOST);
        nodes
    }

    fn is_drifting(&self, node: NodeId) -> bool {
        let drifts = |(_, hold): &(FaultKind, Hold)| match hold {
            Hold::Drifting(nodes, _) => nodes.iter().any(|(drifting, _)| *drifting == node),
            _ => false,
        };
        self.holds.borrow().values().any(drifts)
    }

    /// The directed links between all nodes but the host for which `fits` holds.
    fn links(&self, fits: impl Fn(NodeId, NodeId) -> bool) -> Vec<(NodeId, NodeId)> {
        let nodes = || (1..self.world.node_count()).map(NodeId);
        nodes().flat_map(|a| nodes().map(move |b| (a, b))).filter(|(a, b)| a != b && fits(*a, *b)).collect()
    }

    fn links_of(&self, links: &Links, hit: Option<NodeId>) -> Vec<(NodeId, NodeId)> {
        let resolve = |target: &Target| self.resolve(target, hit);
        match links {
            Links::Of(target) => {
                let ends = resolve(target);
                self.links(|a, b| ends.contains(&a) || ends.contains(&b))
            }
            Links::Between { one, other } => {
                let (one, other) = (resolve(one), resolve(other));
                let between = |a, b| one.contains(&a) && other.contains(&b);
                self.links(|a, b| between(a, b) || between(b, a))
            }
            Links::OneWay { from, to } => {
                let (from, to) = (resolve(from), resolve(to));
                self.links(|a, b| from.contains(&a) && to.contains(&b))
            }
        }
    }

    /// 0 for one, 1 for several, 2 for all: the place of the counter.
    fn width(&self, nodes: usize) -> usize {
        match nodes {
            0 | 1 => 0,
            n if n < usize::from(self.plan.servers) => 1,
            _ => 2,
        }
    }
}

impl Hold {
    fn is_empty(&self) -> bool {
        match self {
            Self::Down(owners) | Self::Paused(owners) => owners.is_empty(),
            Self::Cut(links) | Self::Burst(links, _) => links.is_empty(),
            Self::Stepped(nodes, _) | Self::Troubled(nodes, _) => nodes.is_empty(),
            Self::Drifting(nodes, _) => nodes.is_empty(),
        }
    }
}
