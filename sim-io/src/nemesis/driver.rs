//! The task that applies faults and takes them back.
//!
//!   for each fault a task on the host:  wait for its moment ──► begin ──► wait ──► end
//!   at heal_at_ns:                      drop those tasks, end what is under way
//!
//! Faults overlap freely. A fault takes hold of what it finds: nodes that are up (and remembers their
//! incarnation), nodes that run, links (which count their cuts). What another fault holds already it leaves
//! alone, and it ends only what it began, so no node is ever started twice or resumed in another life.
//!
//! Invariants: when [`run`] returns, no fault holds anything; a fault is counted when it found something to
//! do, and never before.
//! Not here: which faults (`plan.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use sim_runtime::rng::hash_name;
use sim_runtime::time::sleep;
use sim_runtime::{Handle, NodeId, Owner, probe, task};

use super::fault::{Fault, FaultKind, PlannedFault, Target, When};
use super::plan::Plan;
use crate::net::Net;
use crate::records::{FaultBegan, FaultEnded};

/// How often a fault that waits for a role looks for it.
const ROLE_POLL: Duration = Duration::from_millis(5);

const FIRED: &str = "aimed faults fired";
const NEVER_FIRED: &str = "aimed faults never fired";
const IDLE: &str = "faults that found nothing to do";

/// Carries out `plan` and returns when everything is healed at `heal_at_ns`. Runs on the host.
///
/// # Panics
/// Outside a run, or if the plan names nodes that do not exist.
pub async fn run(plan: Plan) {
    let world = Handle::current();
    let heal_at_ns = plan.heal_at_ns;
    let nemesis = Rc::new(Nemesis {
        world: world.clone(),
        net: world.device(),
        plan,
        holds: RefCell::default(),
        unfired: RefCell::default(),
    });
    nemesis.declare_counters();
    let drive = |fault: &PlannedFault| {
        let (nemesis, fault) = (nemesis.clone(), fault.clone());
        task("fault").key(u64::from(fault.id)).spawn(async move { nemesis.drive(&fault).await })
    };
    let driven: Vec<_> = nemesis.plan.faults.iter().map(drive).collect();
    sleep(Duration::from_nanos(heal_at_ns.saturating_sub(world.now_ns()))).await;
    driven.iter().for_each(sim_runtime::JoinHandle::abort);
    nemesis.heal();
}

/// What a fault holds while it lasts.
enum Hold {
    Down(Vec<Owner>),
    Paused(Vec<Owner>),
    Cut(Vec<(NodeId, NodeId)>),
}

struct Nemesis {
    world: Handle,
    net: Rc<Net>,
    plan: Plan,
    /// By id of the fault.
    holds: RefCell<BTreeMap<u32, Hold>>,
    /// Aimed faults that have not fired yet.
    unfired: RefCell<Vec<u32>>,
}

impl Nemesis {
    /// Counters of what is switched on exist from the beginning: 0 says "on, but never reached".
    fn declare_counters(&self) {
        let kinds = self.plan.kinds.iter().copied();
        let kinds = kinds.chain(self.plan.faults.iter().map(|fault| fault.what.kind()));
        for counter in kinds.flat_map(FaultKind::counters) {
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
        let resolve = |target: &Target| self.resolve(target, hit);
        let struck = match &fault.what {
            Fault::PowerOff { target } => resolve(target),
            _ => Vec::new(),
        };
        let (hold, nodes, width) = match &fault.what {
            Fault::Kill { target } | Fault::PowerOff { target } => {
                let owners = self.live(resolve(target), |_| true);
                (Hold::Down(owners.clone()), ids(&owners), self.width(owners.len()))
            }
            Fault::Pause { target } => {
                let owners = self.live(resolve(target), |node| !self.world.is_paused(node));
                (Hold::Paused(owners.clone()), ids(&owners), 0)
            }
            Fault::Partition { sides } => {
                let links =
                    self.links(|a, b| !sides.iter().any(|side| side.contains(&a) && side.contains(&b)));
                (Hold::Cut(links), sides.first().cloned().unwrap_or_default(), 0)
            }
            Fault::Isolate { target } => {
                let alone = resolve(target);
                (Hold::Cut(self.links(|a, b| alone.contains(&a) || alone.contains(&b))), alone, 0)
            }
            Fault::CutLink { one, other } => {
                let (one, other) = (resolve(one), resolve(other));
                let between = |a, b| one.contains(&a) && other.contains(&b);
                (Hold::Cut(self.links(|a, b| between(a, b) || between(b, a))), [one, other].concat(), 0)
            }
            Fault::CutOneWay { from, to } => {
                let (from, to) = (resolve(from), resolve(to));
                (Hold::Cut(self.links(|a, b| from.contains(&a) && to.contains(&b))), [from, to].concat(), 0)
            }
        };
        if hold.is_empty() {
            self.world.count(IDLE, 1);
            return false;
        }
        let kind = fault.what.kind();
        let mask = nodes.iter().filter(|node| node.0 < 64).fold(0, |mask, node| mask | 1 << node.0);
        self.world.emit(FaultBegan { id, kind: hash_name(kind.name()), nodes: mask });
        self.world.count(kind.counters()[width], 1);
        match &hold {
            Hold::Down(_) if matches!(fault.what, Fault::PowerOff { .. }) => {
                // Machines whose process is down already are struck too.
                self.world.power_off(&struck, id);
            }
            Hold::Down(_) => nodes.iter().for_each(|node| self.world.kill(*node, id)),
            Hold::Paused(_) => nodes.iter().for_each(|node| self.world.pause(*node)),
            Hold::Cut(links) => links.iter().for_each(|(from, to)| self.net.cut(*from, *to)),
        }
        self.holds.borrow_mut().insert(fault.id, hold);
        true
    }

    /// Takes back what the fault holds.
    fn end(&self, id: u32) {
        let hold = self.holds.borrow_mut().remove(&id).expect("a fault that began holds something");
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
        }
        let fault = self.plan.faults.iter().find(|fault| fault.id == id);
        let kind = fault.expect("only planned faults begin").what.kind();
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

    /// The directed links between all nodes but the host for which `is_cut` holds.
    fn links(&self, is_cut: impl Fn(NodeId, NodeId) -> bool) -> Vec<(NodeId, NodeId)> {
        let nodes = || (1..self.world.node_count()).map(NodeId);
        nodes().flat_map(|a| nodes().map(move |b| (a, b))).filter(|(a, b)| a != b && is_cut(*a, *b)).collect()
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
            Self::Cut(links) => links.is_empty(),
        }
    }
}

fn ids(owners: &[Owner]) -> Vec<NodeId> {
    owners.iter().map(|owner| owner.node).collect()
}
