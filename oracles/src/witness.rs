//! Around the state machine: what is applied, and what takes effect, seen by somebody who has no stake in it.
//!
//! ```text
//!   applier ──► Witness { sessions { Witness { store } } }
//!               │ Applied                │ Executed
//! ```
//!
//! The outer one sees every entry that a server applies, retries included; the inner one only operations that
//! were carried out. What lies between them is the session table, which is judged by the difference.

use raft_async::machine::{Machine, Origin, StateMachine};
use raft_async::types::{Command, Index, Op, OpReply, Sequence, SessionId, Term, Value};
use sim_runtime::rng::mix;
use sim_runtime::trace;

use crate::records::{Applied, Executed};

/// The reply digest of an entry that has no reply.
pub const NO_REPLY: u32 = 0;
/// The reply digest of [`OpReply::Forgotten`].
pub const FORGOTTEN: u32 = 1;

/// A layer of a state machine, and a record of each call that changes it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Witness<S>(S);

impl<S> Witness<S> {
    /// Watches `layer`.
    pub fn of(layer: S) -> Self {
        Self(layer)
    }

    /// What is watched.
    pub fn get(&self) -> &S {
        &self.0
    }
}

impl<S: StateMachine> StateMachine for Witness<S> {
    fn apply(&mut self, index: Index, term: Term, command: &Command) -> Option<OpReply> {
        let reply = self.0.apply(index, term, command);
        let (session, sequence) = match command {
            Command::Noop => (0, 0),
            Command::Client { session, sequence, .. } => (session.0, sequence.0),
        };
        trace::emit(Applied {
            index: index.0,
            term: term.0,
            digest: command.digest(),
            session,
            sequence,
            reply: reply.as_ref().map_or(NO_REPLY, reply_digest),
        });
        reply
    }

    fn query(&self, op: &Op) -> OpReply {
        self.0.query(op)
    }

    fn recall(&self, session: SessionId, sequence: Sequence) -> Option<OpReply> {
        self.0.recall(session, sequence)
    }
}

impl<M: Machine> Machine for Witness<M> {
    fn execute(&mut self, origin: Origin, op: &Op) -> OpReply {
        trace::emit(Executed {
            session: origin.session.0,
            sequence: origin.sequence.0,
            index: origin.index.0,
        });
        self.0.execute(origin, op)
    }

    fn query(&self, op: &Op) -> OpReply {
        self.0.query(op)
    }
}

/// 32 bits that tell replies apart. Of a list, its length and its end: lists only grow at their end, and a
/// reply must not cost more the longer a run gets.
pub fn reply_digest(reply: &OpReply) -> u32 {
    let word = match reply {
        OpReply::Forgotten => return FORGOTTEN,
        OpReply::Done { version } => mix(2, *version),
        OpReply::Refused => mix(3, 0),
        OpReply::Value(value) => mix(4, value_digest(value.as_ref())),
        OpReply::Mismatch(value) => mix(5, value_digest(value.as_ref())),
    };
    (word as u32).max(FORGOTTEN + 1)
}

fn value_digest(value: Option<&Value>) -> u64 {
    match value {
        None => 0,
        Some(Value::Register(number)) => mix(1, *number),
        Some(Value::List(items)) => {
            items.iter().rev().take(4).fold(mix(2, items.len() as u64), |digest, item| mix(digest, *item))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_async::kv::Kv;
    use raft_async::mutant::Planted;
    use raft_async::sessions::Sessions;
    use raft_async::types::Key;
    use std::rc::Rc;

    #[test]
    fn a_watched_machine_answers_as_the_machine() {
        let mut watched = Witness::of(Sessions::new(Witness::of(Kv::default()), Planted::NONE));
        let mut plain = Sessions::new(Kv::default(), Planted::NONE);
        for n in [1, 2, 2, 1] {
            let op = Op::Append { key: Key(1), item: n };
            let sequence = Sequence(n);
            let command = Command::Client { session: SessionId(1), sequence, ack_below: Sequence(0), op };
            assert_eq!(watched.apply(Index(n), Term(1), &command), plain.apply(Index(n), Term(1), &command));
        }
        let get = Op::Get { key: Key(1) };
        assert_eq!(StateMachine::query(&watched, &get), StateMachine::query(&plain, &get));
    }

    #[test]
    fn replies_that_differ_have_different_digests() {
        let list = |items: &[u64]| OpReply::Value(Some(Value::List(Rc::new(items.to_vec()))));
        let replies = [
            OpReply::Forgotten,
            OpReply::Refused,
            OpReply::Done { version: 1 },
            OpReply::Done { version: 2 },
            OpReply::Value(None),
            OpReply::Mismatch(None),
            OpReply::Value(Some(Value::Register(1))),
            list(&[]),
            list(&[1]),
            list(&[2]),
            list(&[9, 2, 3, 4, 5]),
            list(&[9, 9, 2, 3, 4, 5]),
        ];
        for (i, a) in replies.iter().enumerate() {
            assert_ne!(reply_digest(a), NO_REPLY);
            for b in &replies[..i] {
                assert_ne!(reply_digest(a), reply_digest(b), "{a:?} {b:?}");
            }
        }
    }
}
