//! The two seams of the state machine: what commands mean, and what operations mean.
//!
//!   applier ──Command──► StateMachine (sessions: each command once) ──Op──► Machine (the store)
//!
//! A harness can put a witness around either: around the outer one it sees every entry that is applied,
//! around the inner one every operation that takes effect.

use crate::types::{Command, Index, Op, OpReply, Sequence, SessionId, Term};

/// Where an operation came from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The client's session.
    pub session: SessionId,
    /// The client's number for it.
    pub sequence: Sequence,
    /// The entry that carries it.
    pub index: Index,
    /// That entry's term.
    pub term: Term,
}

/// What the log replicates: deterministic, and told every committed command in order, once an incarnation.
pub trait StateMachine {
    /// Applies one entry. Returns the reply for its client, `None` for a command that has none.
    fn apply(&mut self, index: Index, term: Term, command: &Command) -> Option<OpReply>;

    /// Answers a read from the state as it is.
    fn query(&self, op: &Op) -> OpReply;

    /// The reply to an operation that has been applied, if it is still kept; a wrapper passes it on. `None` is
    /// always right: then a retry goes through the log once more.
    fn recall(&self, session: SessionId, sequence: Sequence) -> Option<OpReply> {
        let _ = (session, sequence);
        None
    }
}

/// What operations do, duplicates being somebody else's concern.
pub trait Machine {
    /// Carries out an operation.
    fn execute(&mut self, origin: Origin, op: &Op) -> OpReply;

    /// Answers a read from the state as it is.
    fn query(&self, op: &Op) -> OpReply;
}
