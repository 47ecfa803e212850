//! Specifications: what one copy of an object, used by one client at a time, may answer.
//!
//! ```text
//!   Spec ── step ──────► the meaning: pure, plain states; brute force, replays and tests use only this
//!        ── footprint ─► which values a call writes and sees; tells which operations cannot matter
//!        ── compile ───► Machine: the same meaning over numbered states; the search uses only this
//! ```
//!
//! Invariants: `step` is a function (one state and one input have one outcome), so an unknown operation is a
//! step whose answer nobody checks; a machine agrees with `step`.
//! Not here: the models themselves (`models/`), the general machine (`table.rs`).

use std::fmt::Debug;

/// A sequential object.
pub trait Spec {
    /// What can be asked. Unknown operations with equal inputs are interchangeable.
    type Input: Ord + Debug;
    /// What can be answered.
    type Output: Debug;
    /// What the object holds.
    type State: Clone + Ord + Debug;
    /// The object made ready for one key of one history.
    type Machine<'h>: Machine
    where
        Self: 'h;

    /// The state before the first operation.
    fn initial(&self) -> Self::State;

    /// The state after `input` when the answer is `output`, or `None` when `state` does not answer that.
    /// Without an output (nobody knows what it answered), the state after `input`, whatever the answer.
    fn step(
        &self,
        state: &Self::State,
        input: &Self::Input,
        output: Option<&Self::Output>,
    ) -> Option<Self::State>;

    /// What the call writes and sees. See [`Footprint`] for what the answer promises.
    fn footprint<'a>(&self, input: &'a Self::Input, output: Option<&'a Self::Output>) -> Footprint<'a>;

    /// Compiles the calls of one key, in the order of their invocations. Call `i` is operation `i` of the machine.
    fn compile<'h>(&'h self, calls: Vec<Call<'h, Self::Input, Self::Output>>) -> Self::Machine<'h>;

    /// What the call does to the whole value of the object, for the near-linear path. The default keeps the object
    /// out of it.
    ///
    /// The promise: with these meanings, from [`Spec::first_value`] on, exactly the same histories are legal.
    fn shape<'a>(&self, input: &'a Self::Input, output: Option<&'a Self::Output>) -> Shape<'a> {
        let _ = (input, output);
        Shape::Other
    }

    /// What the object holds before the first operation, in terms of [`Spec::shape`].
    fn first_value(&self) -> Whole<'static> {
        Whole::Absent
    }

    /// The call in words, for explanations.
    fn phrase(&self, input: &Self::Input, output: Option<&Self::Output>) -> Phrase;
}

/// One operation as a specification sees it.
#[derive(Debug)]
pub struct Call<'h, I, O> {
    /// What was asked.
    pub input: &'h I,
    /// What was answered; `None` when unknown.
    pub output: Option<&'h O>,
}

impl<I, O> Clone for Call<'_, I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Call<'_, I, O> {}

/// A call in words: `verb#7(argument)`, which `saw` something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// `put`
    pub verb: &'static str,
    /// `8`, or empty.
    pub argument: String,
    /// `7`, when the answer says what the object held.
    pub saw: Option<String>,
}

/// Which values a call touches.
///
/// The promise that makes it useful: take a legal sequence, a set of values, and delete every call that writes
/// or sees one of them. What is left is legal, as long as no deleted call is `Fixed` and none that stays is
/// `opaque`. Likewise for a single write when nobody sees a value that it writes. Hence an unknown write that nobody
/// saw can be forgotten, and a violation can be cut down to the operations that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint<'a> {
    /// Values without which the call would not have been legal (or, if it is unknown, not effective).
    pub sees: Touch<'a>,
    /// Values that the object holds right after the call because of it.
    pub writes: Touch<'a>,
    /// What the call does to the state.
    pub role: Role,
    /// The answer depends on the state beyond the values that it sees ("something else was there").
    pub opaque: bool,
}

/// The values of a [`Footprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch<'a> {
    /// None, or only ones (absence, emptiness) that no deletable call writes.
    Nothing,
    /// One whole value.
    Value(u64),
    /// Elements of a collection. Never equal to a whole value.
    Elements(&'a [u64]),
}

/// What a call does to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Changes no state in which it is legal. Deleting it from a legal sequence is always sound.
    Read,
    /// Changes the state through the values that it writes.
    Write,
    /// Changes the state in some other way: never deleted.
    Fixed,
}

/// All that an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole<'a> {
    /// Nothing.
    Absent,
    /// A number.
    Number(u64),
    /// Elements in the order in which they were appended.
    List(&'a [u64]),
}

/// What a call does to the whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// Changes nothing, and proves that this was there.
    Read(Whole<'a>),
    /// Stores this, whatever was there.
    Store(Whole<'a>),
    /// Stores the second where the first is; the two differ. With an answer, it did.
    Swap(Whole<'a>, Whole<'a>),
    /// Adds an element at the end of a list, or of nothing. With an answer, it did.
    Append(u64),
    /// Changes nothing, and proves that something else was there.
    Missed(Whole<'a>),
    /// Changes nothing, and proves that a number was there.
    MetNumber,
    /// Changes nothing, and proves nothing.
    Idle,
    /// Legal nowhere.
    Never,
    /// Something else.
    Other,
}

/// A number that stands for a state of a [`Machine`].
pub type StateId = u32;

/// A specification over numbered states, for the calls of one key, numbered in the order of their invocations.
pub trait Machine {
    /// The state before the first operation.
    fn initial(&mut self) -> StateId;

    /// The state after operation `op`, or `None` when `state` does not answer so. Equal states have equal numbers.
    fn step(&mut self, state: StateId, op: u32) -> Option<StateId>;

    /// True only if no sequence of this key's operations leads from `state` to one in which `op` is legal.
    /// It prunes; saying `false` is always right.
    fn out_of_reach(&self, state: StateId, op: u32) -> bool {
        let _ = (state, op);
        false
    }

    /// The same for `op` together with all reads invoked after it (of larger numbers), none of which is placed yet.
    fn future_out_of_reach(&self, state: StateId, op: u32) -> bool {
        self.out_of_reach(state, op)
    }
}
