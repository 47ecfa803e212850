//! Schedule: a case cut at its returns, which are where the search must have an answer.
//!
//! ```text
//!   a ├──────────────┤            event 0 = return of b: open are b, a
//!   b    ├──┤                     event 1 = return of a: open are a, c
//!   c          ├────────┤         event 2 = return of c: open is c
//!   u      ├──────────────── ...  unknown: never open, but available from event 0 on, by class
//! ```
//!
//! An open operation has a *slot*, free again after its return, so that the set of those already placed is a few
//! bits. Unknown operations with equal inputs form a *class*: only how many of them were used matters, for the
//! one that is used may as well be the one invoked first.
//!
//! Invariants: open operations are listed earliest-returning first; classes are in the order in which their first
//! members were invoked. Memory is O(n × operations in flight).
//! Not here: which operations are legal (`search.rs`).

use crate::case::{CaseOp, NEVER};

/// No operation.
pub const NONE: u32 = u32::MAX;

/// A case ready for the search. Operations are named by their position in the case.
pub struct Schedule {
    /// By event: the operation that returns.
    pub by_return: Vec<u32>,
    /// By operation: its slot, if it is not unknown.
    pub slot: Vec<u32>,
    /// How many slots there are.
    pub slots: u32,
    /// By operation: whether it changes no state.
    pub is_read: Vec<bool>,
    /// By event: the next read to be invoked after it, or [`NONE`].
    pub next_read: Vec<u32>,
    pub classes: Vec<Class>,
    open: Vec<u32>,
    /// By event, and one more: where its open operations begin.
    open_from: Vec<u32>,
    /// By event: the classes that may be of use, a range.
    live_classes: Vec<(u32, u32)>,
    return_events: Vec<u32>,
}

/// Unknown operations with equal inputs, in the order of their invocations.
pub struct Class {
    /// Each with the event of its invocation.
    pub members: Vec<(u32, u32)>,
    useful_until: u32,
}

impl Schedule {
    /// O(n × operations in flight), and O(u log u) for the unknown.
    pub fn new<I: Ord, O>(ops: &[CaseOp<'_, I, O>]) -> Self {
        let mut by_return: Vec<u32> =
            (0..ops.len() as u32).filter(|op| !ops[*op as usize].is_unknown()).collect();
        by_return.sort_unstable_by_key(|op| ops[*op as usize].returned);
        let mut schedule = Schedule {
            slot: vec![NONE; ops.len()],
            slots: 0,
            is_read: ops.iter().map(|op| op.is_read).collect(),
            next_read: vec![NONE; by_return.len()],
            classes: classes(ops),
            open: Vec::with_capacity(4 * by_return.len()),
            open_from: Vec::with_capacity(by_return.len() + 1),
            live_classes: Vec::with_capacity(by_return.len()),
            return_events: by_return.iter().map(|op| ops[*op as usize].returned).collect(),
            by_return,
        };
        schedule.assign_slots(ops);
        schedule.find_next_reads(ops);
        schedule.bound_classes();
        schedule
    }

    /// How many events there are.
    pub fn events(&self) -> u32 {
        self.by_return.len() as u32
    }

    /// The operations that were invoked before `event` and return at it or later, earliest-returning first.
    pub fn open(&self, event: u32) -> &[u32] {
        let (from, to) = (self.open_from[event as usize], self.open_from[event as usize + 1]);
        &self.open[from as usize..to as usize]
    }

    /// The classes that have members at `event` and may be of use at it or later.
    pub fn live_classes(&self, event: u32) -> (u32, u32) {
        self.live_classes[event as usize]
    }

    /// The member of `class` that is used when `used` were used before, if it was invoked before `event` and its
    /// use may still be seen.
    pub fn available(&self, class: u32, used: u32, event: u32) -> Option<u32> {
        let class = &self.classes[class as usize];
        let now = self.return_events[event as usize];
        let (op, invoked) = *class.members.get(used as usize)?;
        (invoked < now && class.useful_until >= now).then_some(op)
    }

    fn assign_slots<I, O>(&mut self, ops: &[CaseOp<'_, I, O>]) {
        let mut free: Vec<u32> = Vec::new();
        let mut open: Vec<u32> = Vec::new();
        let mut arrivals = (0..ops.len() as u32).filter(|op| !ops[*op as usize].is_unknown()).peekable();
        for (event, returning) in self.by_return.iter().enumerate() {
            let now = self.return_events[event];
            while let Some(op) = arrivals.next_if(|op| ops[*op as usize].invoked < now) {
                let returned = ops[op as usize].returned;
                let at = open.partition_point(|other| ops[*other as usize].returned < returned);
                open.insert(at, op);
                self.slot[op as usize] = free.pop().unwrap_or_else(|| {
                    self.slots += 1;
                    self.slots - 1
                });
            }
            self.open_from.push(self.open.len() as u32);
            self.open.extend_from_slice(&open);
            // Whoever returns now is the first in the list, since the list is in the order of returns.
            open.remove(0);
            free.push(self.slot[*returning as usize]);
        }
        self.open_from.push(self.open.len() as u32);
    }

    fn find_next_reads<I, O>(&mut self, ops: &[CaseOp<'_, I, O>]) {
        let mut reads = (0..ops.len() as u32).filter(|op| ops[*op as usize].is_read).peekable();
        for (event, now) in self.return_events.iter().enumerate() {
            while reads.next_if(|op| ops[*op as usize].invoked < *now).is_some() {}
            self.next_read[event] = reads.peek().copied().unwrap_or(NONE);
        }
    }

    fn bound_classes(&mut self) {
        let (mut from, mut to) = (0, 0);
        for now in &self.return_events {
            while to < self.classes.len() && self.classes[to].members[0].1 < *now {
                to += 1;
            }
            while from < to && self.classes[from].useful_until < *now {
                from += 1;
            }
            self.live_classes.push((from as u32, to as u32));
        }
    }
}

fn classes<I: Ord, O>(ops: &[CaseOp<'_, I, O>]) -> Vec<Class> {
    let mut unknown: Vec<u32> =
        (0..ops.len() as u32).filter(|op| ops[*op as usize].returned == NEVER).collect();
    // Stable: members of a class stay in the order of their invocations.
    unknown.sort_by_key(|op| ops[*op as usize].call.input);
    let alike = |a: &u32, b: &u32| ops[*a as usize].call.input == ops[*b as usize].call.input;
    let mut classes: Vec<Class> = unknown
        .chunk_by(alike)
        .map(|members| Class {
            members: members.iter().map(|op| (*op, ops[*op as usize].invoked)).collect(),
            useful_until: ops[members[0] as usize].useful_until,
        })
        .collect();
    classes.sort_unstable_by_key(|class| class.members[0].1);
    classes
}
