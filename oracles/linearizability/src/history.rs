//! History: what the clients of a system saw, in one total order of events.
//!
//! ```text
//!   invoke ──► pending ──complete──► Ok(output)      it happened, between the two events
//!                      ──fail──────► Failed          it did not happen, and never will
//!                      ──unknown───► Unknown         it happens after the invocation, some day or never
//! ```
//!
//! Invariants: every invocation and every end of an operation has its own event index, in the order in which
//! the recorder was told; a return recorded before an invocation really came before it. An operation that is
//! still pending when the history is judged counts as unknown.
//! Not here: which outcomes are legal (`spec.rs`), the restriction to a key (`case.rs`).

use std::fmt;

/// The name of an operation in its history: its position in the order of invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// When something was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Position in the total order of events. Only this decides verdicts.
    pub event: u32,
    /// What the clock of the recorder said, in nanoseconds, if it had one. Only for explanations.
    pub time_ns: Option<u64>,
}

/// What a client learned of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<O> {
    /// It took effect once, between invocation and return, and answered this.
    Ok(O),
    /// It did not take effect and never will (Jepsen's `:fail`). A compare-and-swap that found another value is
    /// not this: it happened, and its output says so.
    Failed,
    /// It may take effect at any time after its invocation, at most once, or never (Jepsen's `:info`).
    Unknown,
}

/// One call by one process.
#[derive(Clone, Debug)]
pub struct Operation<K, I, O> {
    /// Who called. For explanations: verdicts do not depend on it.
    pub process: u32,
    /// The object that was called; each key is judged alone.
    pub key: K,
    /// What was asked.
    pub input: I,
    /// What came of it. [`Outcome::Unknown`] while pending.
    pub outcome: Outcome<O>,
    /// When the call was made.
    pub invoked: Moment,
    /// When the client stopped waiting. `None` while pending; for an unknown outcome it bounds nothing.
    pub returned: Option<Moment>,
}

/// A growing record of operations.
#[derive(Clone, Debug)]
pub struct History<K, I, O> {
    operations: Vec<Operation<K, I, O>>,
    next_event: u32,
    now_ns: Option<u64>,
}

/// How many operations a history takes before it is moved for the first time.
const FIRST_ROOM: usize = 512;

impl<K, I, O> Default for History<K, I, O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, I, O> History<K, I, O> {
    /// An empty history.
    pub fn new() -> Self {
        History { operations: Vec::with_capacity(FIRST_ROOM), next_event: 0, now_ns: None }
    }

    /// Sets the time that the following events carry, in nanoseconds. Without it, explanations speak of events.
    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = Some(now_ns);
    }

    /// Records that `process` calls `input` on `key`. O(1).
    ///
    /// # Panics
    /// When the history has 2^32 - 1 events, which no verdict could use.
    pub fn invoke(&mut self, process: u32, key: K, input: I) -> OpId {
        let id = u32::try_from(self.operations.len()).expect("fewer operations than events, and those fit");
        let invoked = self.moment();
        self.operations.push(Operation {
            process,
            key,
            input,
            outcome: Outcome::Unknown,
            invoked,
            returned: None,
        });
        OpId(id)
    }

    /// Records that a pending operation answered `output`. O(1).
    ///
    /// # Panics
    /// When `op` is not of this history or has already ended: that is a defect of the recorder.
    pub fn complete(&mut self, op: OpId, output: O) {
        self.end(op, Outcome::Ok(output));
    }

    /// Records that a pending operation certainly did not and will not take effect. O(1). Panics as [`Self::complete`].
    pub fn fail(&mut self, op: OpId) {
        self.end(op, Outcome::Failed);
    }

    /// Records that the client gave up on a pending operation. O(1). Panics as [`Self::complete`].
    pub fn unknown(&mut self, op: OpId) {
        self.end(op, Outcome::Unknown);
    }

    /// All operations, in the order of their invocations: `operations()[id.0 as usize]` is operation `id`.
    pub fn operations(&self) -> &[Operation<K, I, O>] {
        &self.operations
    }

    /// The operation with this name, if there is one.
    pub fn get(&self, op: OpId) -> Option<&Operation<K, I, O>> {
        self.operations.get(op.0 as usize)
    }

    /// How many operations were invoked.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether nothing was invoked.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn end(&mut self, op: OpId, outcome: Outcome<O>) {
        let returned = self.moment();
        let operation = self.operations.get_mut(op.0 as usize);
        let operation =
            operation.unwrap_or_else(|| panic!("operation {op} was never invoked in this history"));
        assert!(operation.returned.is_none(), "operation {op} ended twice");
        operation.returned = Some(returned);
        operation.outcome = outcome;
    }

    fn moment(&mut self) -> Moment {
        // The largest index is kept free: it stands for "never".
        assert!(self.next_event < u32::MAX, "a history has at most 2^32 - 1 events");
        let event = self.next_event;
        self.next_event += 1;
        Moment { event, time_ns: self.now_ns }
    }
}
