//! Moves: what can be done in a just-in-time configuration.
//!
//! An operation is placed no earlier than needed: between the previous return and its own, or as a step towards
//! an operation that returns now.
//!
//! ```text
//!   configuration (event, state, placed, used)
//!        ├─ every open read that is legal now: placed, it changes nothing and only asks to be placed
//!        ├─ the returning operation is placed? ─► next event, and again
//!        └─ else choose: open writes, earliest-returning first, then unknown classes
//! ```
//!
//! An unknown operation whose effect the very next one does not notice is redundant: without it one gets to the
//! same configuration with fewer used, and that one is explored too. So such moves are not made.
//!
//! Invariants: a trail, read backwards, is the order up to its configuration.
//! Not here: in which order alternatives are explored (`search.rs`).

use crate::bits::Bits;
use crate::memo::{Configuration, UsedSets};
use crate::schedule::{NONE, Schedule};
use crate::spec::{Machine, StateId};

/// A configuration whose alternatives are being tried.
pub struct Frame<B> {
    pub at: Configuration<B>,
    /// A set of unknown operations.
    pub used: u32,
    /// The state before the last move, if that was an unknown operation which nobody noticed yet.
    unnoticed: Option<StateId>,
    /// Which alternative is next.
    cursor: u32,
    /// The last step that led here.
    last: u32,
    /// How many steps were on record before the move that led here.
    pub steps_before: usize,
}

/// A move to a configuration, whose legal reads are yet to be placed.
pub struct Move<B> {
    at: Configuration<B>,
    used: u32,
    unnoticed: Option<StateId>,
    op: u32,
    /// The last step before it.
    last: u32,
}

/// What a move came to.
pub enum Settled<B> {
    /// Every return is accounted for; this was the last step.
    Done(u32),
    /// Nothing can come of it.
    Hopeless,
    /// There is something to choose.
    Choice(Frame<B>),
}

/// So many looks at an unknown operation, or at a set of them, cost as much as a configuration.
const LOOKS_A_NODE: u64 = 16;

/// One operation placed.
#[derive(Clone, Copy)]
struct Step {
    op: u32,
    before: u32,
}

/// The schedule, the machine, and the record of all moves made.
pub struct Board<M, B> {
    schedule: Schedule,
    machine: M,
    pub used: UsedSets,
    steps: Vec<Step>,
    /// Configurations visited, with or without a choice; and what else was paid for as such.
    pub nodes: u64,
    /// Unknown operations that were looked at, and by whom each would be noticed, and that are not yet paid for.
    tried: u64,
    /// The largest event that some order got to.
    pub deepest: u32,
    none: B,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Placed,
    NonePlaced,
    /// Some read to come is out of reach.
    Hopeless,
}

impl<M: Machine, B: Bits> Board<M, B> {
    pub fn new(schedule: Schedule, machine: M) -> Self {
        let used = UsedSets::new(schedule.classes.len());
        let steps = Vec::with_capacity(2 * schedule.events() as usize);
        let none = B::none(schedule.slots);
        Board { schedule, machine, used, steps, nodes: 0, tried: 0, deepest: 0, none }
    }

    /// The move to the beginning.
    pub fn first(&mut self) -> Move<B> {
        let at = Configuration { event: 0, state: self.machine.initial(), placed: self.none.clone() };
        Move { at, used: UsedSets::NONE_USED, unnoticed: None, op: NONE, last: NONE }
    }

    /// Makes a move and all that follow without a choice.
    pub fn settle(&mut self, to: Move<B>) -> Settled<B> {
        let Move { mut at, used, mut unnoticed, op, mut last } = to;
        let steps_before = self.steps.len();
        if self.schedule.events() == 0 {
            return Settled::Done(last);
        }
        if op != NONE {
            last = record(&mut self.steps, op, last);
        }
        loop {
            self.nodes += 1;
            match self.place_reads(&mut at, &mut last) {
                Reads::Hopeless => {
                    self.forget_steps(steps_before);
                    return Settled::Hopeless;
                }
                Reads::Placed => unnoticed = None,
                Reads::NonePlaced => {}
            }
            let returning = self.schedule.slot[self.schedule.by_return[at.event as usize] as usize];
            if !at.placed.has(returning) {
                return Settled::Choice(Frame { at, used, unnoticed, cursor: 0, last, steps_before });
            }
            at.placed.clear(returning);
            at.event += 1;
            if at.event == self.schedule.events() {
                return Settled::Done(last);
            }
            self.deepest = self.deepest.max(at.event);
        }
    }

    /// Pays for work that came without a configuration: where many operations are unknown, that is most of it.
    pub fn pay(&mut self, compared: u64) {
        self.tried += compared;
        self.nodes += self.tried / LOOKS_A_NODE;
        self.tried %= LOOKS_A_NODE;
    }

    /// The operations up to a step, in order.
    pub fn trail(&self, last: u32) -> Vec<u32> {
        let step = |at: u32| (at != NONE).then(|| self.steps[at as usize]);
        let back = std::iter::successors(step(last), |placed| step(placed.before));
        let mut trail: Vec<u32> = back.map(|placed| placed.op).collect();
        trail.reverse();
        trail
    }

    /// Forgets the latest steps, to which nobody may refer any more.
    pub fn forget_steps(&mut self, down_to: usize) {
        self.steps.truncate(down_to);
    }

    /// Places every open read that is legal now.
    fn place_reads(&mut self, at: &mut Configuration<B>, last: &mut u32) -> Reads {
        let mut reads = Reads::NonePlaced;
        for &op in self.schedule.open(at.event) {
            let slot = self.schedule.slot[op as usize];
            if !self.schedule.is_read[op as usize] || at.placed.has(slot) {
                continue;
            }
            if self.machine.step(at.state, op).is_some() {
                at.placed.set(slot);
                *last = record(&mut self.steps, op, *last);
                reads = Reads::Placed;
            } else if self.machine.out_of_reach(at.state, op) {
                return Reads::Hopeless;
            }
        }
        let next = self.schedule.next_read[at.event as usize];
        if next != NONE && self.machine.future_out_of_reach(at.state, next) { Reads::Hopeless } else { reads }
    }

    /// The next alternative of a configuration.
    pub fn next_move(&mut self, frame: &mut Frame<B>) -> Option<Move<B>> {
        let open = self.schedule.open(frame.at.event);
        while let Some(&op) = open.get(frame.cursor as usize) {
            frame.cursor += 1;
            let slot = self.schedule.slot[op as usize];
            if self.schedule.is_read[op as usize] || frame.at.placed.has(slot) {
                continue;
            }
            let Some(state) = self.machine.step(frame.at.state, op) else { continue };
            if frame.unnoticed.is_some_and(|before| self.machine.step(before, op) == Some(state)) {
                continue;
            }
            let mut placed = frame.at.placed.clone();
            placed.set(slot);
            let at = Configuration { event: frame.at.event, state, placed };
            return Some(Move { at, used: frame.used, unnoticed: None, op, last: frame.last });
        }
        self.next_unknown(frame)
    }

    /// The next alternative that uses an unknown operation.
    fn next_unknown(&mut self, frame: &mut Frame<B>) -> Option<Move<B>> {
        let (event, state) = (frame.at.event, frame.at.state);
        let (first, end) = self.schedule.live_classes(event);
        let open = self.schedule.open(event).len() as u32;
        loop {
            let class = first + (frame.cursor - open);
            if class >= end {
                return None;
            }
            frame.cursor += 1;
            self.tried += 1;
            let used = self.used.count(frame.used, class);
            let Some(op) = self.schedule.available(class, used, event) else { continue };
            let next = self.machine.step(state, op).filter(|next| *next != state);
            let Some(next) = next else { continue };
            if frame.unnoticed.is_some_and(|before| self.machine.step(before, op) == Some(next)) {
                continue;
            }
            // The same test, one move ahead: it saves making moves that lead nowhere.
            if self.is_noticed(frame, next, class) {
                let at = Configuration { event, state: next, placed: frame.at.placed.clone() };
                let used = self.used.with_one_more(frame.used, class);
                return Some(Move { at, used, unnoticed: Some(state), op, last: frame.last });
            }
        }
    }

    /// Whether, after one more of `class`, some operation would do something else than before it.
    fn is_noticed(&mut self, frame: &Frame<B>, next: StateId, class: u32) -> bool {
        let event = frame.at.event;
        let slot = &self.schedule.slot;
        let open = self.schedule.open(event).iter().copied();
        let unplaced = open.filter(|op| !frame.at.placed.has(slot[*op as usize]));
        let (first, end) = self.schedule.live_classes(event);
        let unknown = (first..end).filter_map(|other| {
            let used = self.used.count(frame.used, other) + u32::from(other == class);
            self.schedule.available(other, used, event)
        });
        let (machine, tried) = (&mut self.machine, &mut self.tried);
        unplaced
            .chain(unknown)
            .inspect(|_| *tried += 1)
            .any(|op| machine.step(next, op) != machine.step(frame.at.state, op))
    }
}

fn record(steps: &mut Vec<Step>, op: u32, before: u32) -> u32 {
    steps.push(Step { op, before });
    u32::try_from(steps.len() - 1).expect("budgets are far below 2^32 steps")
}
