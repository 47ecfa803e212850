//! What the executor goes by: which tasks there are, which of them are ready, what is due, and whose they are.
//!
//!   wake ──► the task is asleep? ──► its incarnation is dead ──► to be dropped
//!                                ├─► its node holds wakes back ──► held, released by a timer
//!                                └─► ready
//!
//! All of it is one value in one cell, as every turn of the loop needs most of it.
//!
//! Invariants: no code of programs runs while the cell is borrowed, but a scheduler of their own; a task that is woken is
//! in exactly one queue.
//! Not here: the loop (`executor.rs`), which ready task is the next (`schedule.rs`).

use crate::fire::Fire;
use std::cell::Cell;

use crate::device::Coverage;
use crate::node::{Node, NodeId, Owner};
use crate::rng::{BUCKET_NS, Field};
use crate::schedule::{Ranking, Ready};
use crate::tasks::{Tasks, Turn};
use crate::timer::Timers;
use crate::waker::TaskRef;
use crate::world::Core;

const WAKE_HOLD: Field = Field::new("wake hold");

const _: () = assert!(BUCKET_NS > 50_000, "a held quantum ends within the next bucket");

/// In how many (node, bucket) wakes were held back.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    short: Cell<u64>,
    long: Cell<u64>,
}

impl Holds {
    pub(crate) fn coverage(&self, coverage: &mut Coverage) {
        let counts = [("wakes held", self.short.get()), ("wakes held for long", self.long.get())];
        counts.iter().filter(|(_, count)| *count > 0).for_each(|(name, count)| coverage.add(name, *count));
    }
}

pub(crate) struct Agenda {
    pub(crate) timers: Timers,
    pub(crate) ready: Ready,
    pub(crate) ranking: Ranking,
    pub(crate) tasks: Tasks,
    /// Tasks of dead incarnations, to be dropped by the executor.
    pub(crate) reap: Vec<TaskRef>,
    pub(crate) nodes: Vec<Node>,
}

impl Agenda {
    pub(crate) fn new(ranking: Ranking, host: Node) -> Self {
        Self {
            timers: Timers::default(),
            ready: Ready::default(),
            ranking,
            tasks: Tasks::default(),
            reap: Vec::new(),
            nodes: vec![host],
        }
    }

    #[inline]
    pub(crate) fn is_live(&self, owner: Owner) -> bool {
        self.nodes.get(owner.node.index()).is_some_and(|node| node.is_live(owner.incarnation))
    }

    /// A task is to be polled again, if it is there and not about to be.
    #[inline]
    pub(crate) fn wake(&mut self, core: &Core, task: TaskRef) {
        let Some(entry) = self.tasks.get_mut(task) else { return };
        if entry.turn != Turn::Asleep {
            if entry.turn == Turn::Running {
                entry.turn = Turn::RunningAndWoken;
            }
            return;
        }
        entry.turn = Turn::Queued;
        let owner = entry.info.owner;
        self.schedule(core, task, owner);
    }

    /// A task became ready: it is queued, held back with its node, or marked to be dropped.
    #[inline]
    pub(crate) fn schedule(&mut self, core: &Core, task: TaskRef, owner: Owner) {
        let now_ns = core.now_ns.get();
        let Owner { node: id, incarnation } = owner;
        let node = &mut self.nodes[id.index()];
        if !node.is_live(incarnation) {
            self.reap.push(task);
            core.attention.set(true);
            return;
        }
        if id != NodeId::HOST && holds_back(core, &mut self.timers, node, id, now_ns) {
            node.held.push(task);
            return;
        }
        self.ready.push(task, &self.tasks, &mut self.ranking, now_ns);
    }

    /// Lets the held wakes of a node go.
    pub(crate) fn release(&mut self, id: NodeId, now_ns: u64) {
        let node = &mut self.nodes[id.index()];
        node.release_armed = false;
        if !node.paused {
            let mut held = std::mem::take(&mut node.held);
            for task in held.drain(..) {
                self.ready.push(task, &self.tasks, &mut self.ranking, now_ns);
            }
            self.nodes[id.index()].held = held;
        }
    }

    /// Takes the tasks of an incarnation out of the queue of those that are ready, in order of waking.
    pub(crate) fn take_ready_of(&mut self, owner: Owner) -> Vec<TaskRef> {
        let tasks = &self.tasks;
        self.ready.extract(|task| tasks.of(task).info.owner == owner)
    }
}

#[inline]
fn holds_back(core: &Core, timers: &mut Timers, node: &mut Node, id: NodeId, now_ns: u64) -> bool {
    if node.paused {
        return true;
    }
    if now_ns >= node.hold_known_until_ns {
        read_hold(core, node, id, now_ns);
    }
    if node.hold_until_ns <= now_ns {
        if node.hold_quantum_ns == 0 {
            return false;
        }
        node.hold_until_ns = (now_ns / node.hold_quantum_ns + 1) * node.hold_quantum_ns;
    }
    if !node.release_armed {
        node.release_armed = true;
        timers.insert(node.hold_until_ns, Fire::Release(id));
    }
    true
}

/// What the hold field says about this node in this bucket.
fn read_hold(core: &Core, node: &mut Node, id: NodeId, now_ns: u64) {
    node.hold_known_until_ns = WAKE_HOLD.bucket_end_ns(now_ns);
    node.hold_quantum_ns = 0;
    let (short, long) = (core.options.hold_per_million, core.options.long_hold_per_million);
    if short == 0 && long == 0 {
        return;
    }
    let row = *node.hold_row.get_or_insert_with(|| core.fields.row(WAKE_HOLD, u64::from(id.0)));
    let sample = core.fields.read_row(row, WAKE_HOLD.bucket(now_ns), now_ns);
    // One question for both kinds; the answer is no almost always.
    if !sample.chance(short.saturating_add(long)) {
        return;
    }
    if sample.chance(long) {
        node.hold_until_ns = now_ns + sample.split(1).range(5_000_000, 40_000_000);
        core.holds.long.set(core.holds.long.get() + 1);
    } else {
        node.hold_quantum_ns = sample.split(3).range(1_000, 50_000);
        core.holds.short.set(core.holds.short.get() + 1);
    }
}
