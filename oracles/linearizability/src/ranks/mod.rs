//! Ranks: the verdict in near-linear time where values are unique.
//!
//! Where every value that somebody saw was written by one operation only, most of the order is forced. Operations
//! fall into **blocks**, each contiguous in any legal order, and have a **rank** in their block:
//!
//! ```text
//!   put 1 ─► get 1 ─► cas 1→2 ─► get 2          put [5] ─► append 6 ─► get [5, 6]      append 9, unseen
//!   rank 0     1         2          3              0           2            3             0
//! ```
//!
//! 1. `origins`: who wrote what was seen; which unknown operations must have happened.
//! 2. `chains`: a write and all that build on what it left become a block.
//! 3. `sweep`: inside a block ranks must not contradict real time; of two blocks, not each may have to come first.
//! 4. `leftovers`: answers that only say what was *not* there are put into the order found, one by one.
//!
//! The idea for registers is Gibbons and Korach's ("Testing shared memories", 1997): a block is a zone from its
//! first return to its last invocation.
//!
//! Covered: registers, compare-and-swap, lists, all of them mixed on one key. Left to the search, key by key: an
//! observed value that was written twice, empty lists that are stored, absence seen after a delete may have begun
//! (tombstones read alike), lists expected by unknown swaps that lists depend on, and answers of step 4 for which
//! the order found has no room.
//!
//! Invariants: a verdict from here is exact; every operation of a proof is needed to see the contradiction or to
//! show where a value came from. O(n log n) time for n operations (the sort of blocks), plus a `memcmp` of the
//! lists seen; O(n) memory.
//! Not here: the search for the rest (`search.rs`).

mod origins;
mod chains;
mod sweep;
mod leftovers;

use crate::case::CaseOp;
use crate::schedule::NONE;
use crate::search::{Progress, Search};
use crate::spec::{Shape, Spec};
use origins::Origins;

/// Why there is no order.
pub enum Stop {
    /// These operations contradict each other, for this reason.
    Illegal(Vec<u32>, Why),
    /// The history is not of the kind that can be decided here.
    Unsure,
}

/// In which way operations contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No state answers so.
    WrongAnswer,
    /// Nobody had begun to write what was seen.
    NeverWritten,
    /// A list has an element twice that was appended once.
    Twice,
    /// Neither of two lists is the beginning of the other.
    TwoLists,
    /// A list that was stored at once was seen in part, or in another list.
    PartOfAList,
    /// Two operations replaced what was there once.
    BuiltTwice,
    /// Each needs what another one left.
    Circle,
    /// One was done before another began that comes before it.
    TooEarly,
    /// Each of two values must have been there before the other.
    EachFirst,
    /// One that was done is missing from what was seen after it.
    Overwritten,
}

/// What the operations of a key do and when, by position.
pub struct Ops<'h> {
    pub shapes: Vec<Shape<'h>>,
    pub invoked: Vec<u32>,
    /// [`crate::case::NEVER`] when unknown.
    pub returned: Vec<u32>,
    pub has_appends: bool,
}

/// A verdict that needed no search.
pub struct Ranked {
    order: Vec<u32>,
    proof: Option<Proof>,
}

/// Operations that are illegal on their own.
#[derive(Clone, Debug)]
pub struct Proof {
    /// All of them, by position.
    pub operations: Vec<u32>,
    /// Those that contradict each other; the others show where values came from.
    pub culprits: Vec<u32>,
    pub why: Why,
}

/// Judges a key, if it can be judged here.
pub fn judge<S: Spec>(spec: &S, ops: &[CaseOp<'_, S::Input, S::Output>]) -> Option<Ranked> {
    let mut ops = Ops {
        shapes: ops.iter().map(|op| spec.shape(op.call.input, op.call.output)).collect(),
        invoked: ops.iter().map(|op| op.invoked).collect(),
        returned: ops.iter().map(|op| op.returned).collect(),
        has_appends: false,
    };
    for shape in &ops.shapes {
        match shape {
            Shape::Other => return None,
            Shape::Append(_) => ops.has_appends = true,
            _ => {}
        }
    }
    let mut origins = Origins::new(&ops, spec.first_value());
    match origins.find().and_then(|()| order(&ops, &origins)) {
        Ok(order) => Some(Ranked { order, proof: None }),
        Err(Stop::Unsure) => None,
        Err(Stop::Illegal(mut culprits, why)) => {
            culprits.sort_unstable();
            culprits.dedup();
            let operations = origins.with_sources(&culprits);
            Some(Ranked { order: Vec::new(), proof: Some(Proof { operations, culprits, why }) })
        }
    }
}

fn order(ops: &Ops<'_>, origins: &Origins<'_, '_>) -> Result<Vec<u32>, Stop> {
    let chains = chains::build(ops, origins)?;
    let order = sweep::order(ops, &chains)?;
    leftovers::place(ops, origins.first, order)
}

impl Search for Ranked {
    fn run(&mut self, _: u64) -> Progress {
        if self.proof.is_some() { Progress::Illegal } else { Progress::Legal }
    }

    fn nodes(&self) -> u64 {
        0
    }

    fn deepest(&self) -> u32 {
        0
    }

    fn order(&self) -> Vec<u32> {
        self.order.clone()
    }

    fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }
}

impl Ops<'_> {
    fn len(&self) -> u32 {
        self.shapes.len() as u32
    }

    fn is_unknown(&self, op: u32) -> bool {
        self.returned[op as usize] == crate::case::NEVER
    }
}

fn illegal<T>(culprits: &[u32], why: Why) -> Result<T, Stop> {
    Err(Stop::Illegal(culprits.iter().copied().filter(|op| *op != NONE).collect(), why))
}
