//! Search: is there an order of one key's operations that the specification allows?
//!
//! Depth-first: one order as far as it goes, then the latest choice anew, and nowhere twice. An honest history
//! costs about what it costs to read it, because a wrong choice is refuted within a few operations.
//!
//! ```text
//!   stack of choices ── next move ──► settle ─┬─► done: legal
//!          ▲                                  ├─► hopeless, or no news to the memo: try the next
//!          └───────────── push ◄──────────────┴─► a choice
//! ```
//!
//! Rejected: all configurations of an event before any of the next, fewest unknown operations used first. It keeps
//! all that are possible, and where unknown operations can stand in for each other (deletes and puts of lists on
//! a key that is appended to) those are too many: 46 of 240 such histories undecided, where this leaves 7.
//!
//! Invariants: exact, whatever the order of choices; nodes are counted, time is not.
//! Not here: the moves (`moves.rs`), the budget shared by keys (`check.rs`).

use crate::bits::{Bits, Wide};
use crate::memo::Memo;
use crate::moves::{Board, Frame, Move, Settled};
use crate::ranks::Proof;
use crate::schedule::Schedule;
use crate::spec::Machine;

/// What a slice of search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is an order: [`Search::order`].
    Legal,
    /// There is none.
    Illegal,
    /// Not known yet.
    OutOfNodes,
}

/// A search that can be continued.
pub trait Search {
    /// Goes on for about `nodes` nodes (a run of moves without alternatives is not interrupted).
    fn run(&mut self, nodes: u64) -> Progress;
    /// Nodes visited so far.
    fn nodes(&self) -> u64;
    /// The largest event that some order got to.
    fn deepest(&self) -> u32;
    /// Positions of operations, in the order found. Unknown operations that are not in it did not happen.
    fn order(&self) -> Vec<u32>;
    /// Operations that are illegal on their own, where that is known without having searched.
    fn proof(&self) -> Option<&Proof> {
        None
    }
}

/// A search over this schedule, from the beginning.
pub fn search<'h, M: Machine + 'h>(schedule: Schedule, machine: M) -> Box<dyn Search + 'h> {
    if schedule.slots <= u64::BITS {
        Box::new(DepthFirst::<M, u64>::new(schedule, machine))
    } else {
        Box::new(DepthFirst::<M, Wide>::new(schedule, machine))
    }
}

struct DepthFirst<M, B> {
    board: Board<M, B>,
    memo: Memo<B>,
    stage: Stage<B>,
}

enum Stage<B> {
    Begin,
    Searching(Vec<Frame<B>>),
    /// The last step of the order found.
    Legal(u32),
    Illegal,
}

impl<M: Machine, B: Bits> DepthFirst<M, B> {
    fn new(schedule: Schedule, machine: M) -> Self {
        let memo = Memo::with_capacity(schedule.events() as usize);
        DepthFirst { board: Board::new(schedule, machine), memo, stage: Stage::Begin }
    }

    /// One move, or one step back.
    fn advance(&mut self) {
        self.step();
        let compared = self.memo.take_compared();
        self.board.pay(compared);
    }

    fn step(&mut self) {
        match &mut self.stage {
            Stage::Begin => {
                let first = self.board.first();
                self.stage = Stage::Searching(Vec::new());
                self.make(first);
            }
            Stage::Searching(stack) => {
                let Some(top) = stack.last_mut() else {
                    self.stage = Stage::Illegal;
                    return;
                };
                if let Some(to) = self.board.next_move(top) {
                    self.make(to);
                } else {
                    self.board.forget_steps(top.steps_before);
                    stack.pop();
                }
            }
            Stage::Legal(_) | Stage::Illegal => {}
        }
    }

    /// Makes a move and keeps what comes of it, if it is news.
    fn make(&mut self, to: Move<B>) {
        match (self.board.settle(to), &mut self.stage) {
            (Settled::Done(last), stage) => *stage = Stage::Legal(last),
            (Settled::Choice(frame), Stage::Searching(stack))
                if self.memo.is_news(&frame.at, frame.used, &self.board.used) =>
            {
                stack.push(frame);
            }
            (Settled::Choice(frame), _) => self.board.forget_steps(frame.steps_before),
            (Settled::Hopeless, _) => {}
        }
    }
}

impl<M: Machine, B: Bits> Search for DepthFirst<M, B> {
    fn run(&mut self, nodes: u64) -> Progress {
        let limit = self.board.nodes.saturating_add(nodes);
        loop {
            match self.stage {
                Stage::Legal(_) => return Progress::Legal,
                Stage::Illegal => return Progress::Illegal,
                _ if self.board.nodes >= limit => return Progress::OutOfNodes,
                _ => self.advance(),
            }
        }
    }

    fn nodes(&self) -> u64 {
        self.board.nodes
    }

    fn deepest(&self) -> u32 {
        self.board.deepest
    }

    fn order(&self) -> Vec<u32> {
        match self.stage {
            Stage::Legal(last) => self.board.trail(last),
            _ => Vec::new(),
        }
    }
}
