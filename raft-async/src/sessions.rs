//! Client sessions: each command takes effect once, however often it is retried.
//!
//! "The state machine tracks the latest serial number processed for each client, along with the associated
//! response. If it receives a command whose serial number has already been executed, it responds immediately
//! without re-executing the request" (§8). Several operations of a session may be outstanding, so not the
//! latest but each reply is kept, until the client says (`ack_below`) that it has it.
//!
//! Invariants: the table is part of the replicated state, so every replica filters alike; a number below a
//! session's `ack_below` is never carried out (again), because its reply is gone.
//! Not here: which leader sees a retry, and in what order: any of them, any order.

use crate::machine::{Machine, Origin, StateMachine};
use crate::mutant::{Mutant, Planted};
use crate::types::{Command, Index, Op, OpReply, Sequence, SessionId, Term};
use std::collections::BTreeMap;

/// The exactly-once layer around a machine.
#[derive(Clone, Default, Debug)]
pub struct Sessions<M> {
    machine: M,
    sessions: BTreeMap<SessionId, Session>,
    planted: Planted,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Session {
    /// Everything below is finished for the client.
    ack_below: Sequence,
    /// What was carried out at or above that, with the replies; few, in the order of their numbers.
    replies: Vec<(Sequence, OpReply)>,
}

impl Session {
    /// The client has the replies below this number; a late, older command does not take that back.
    fn acknowledge(&mut self, below: Sequence) {
        if below > self.ack_below {
            self.ack_below = below;
            match self.replies.last() {
                // As it is where operations of a session come one after the other.
                Some((last, _)) if *last < below => self.replies.clear(),
                _ => self.replies.retain(|(sequence, _)| *sequence >= below),
            }
        }
    }

    /// The reply that a retry gets, if this is one.
    fn recall(&self, sequence: Sequence, planted: Planted) -> Option<OpReply> {
        if sequence < self.ack_below {
            return Some(OpReply::Forgotten);
        }
        let at = self.place(sequence).ok()?;
        let at = if planted.has(Mutant::DedupWrongReply) { self.replies.len() - 1 } else { at };
        Some(self.replies[at].1.clone())
    }

    fn keep(&mut self, sequence: Sequence, reply: OpReply) {
        match self.place(sequence) {
            Err(at) if at == self.replies.len() => self.replies.push((sequence, reply)),
            Ok(at) => self.replies[at].1 = reply,
            Err(at) => self.replies.insert(at, (sequence, reply)),
        }
    }

    fn place(&self, sequence: Sequence) -> Result<usize, usize> {
        self.replies.binary_search_by_key(&sequence, |(known, _)| *known)
    }
}

impl<M> Sessions<M> {
    /// Wraps a machine in its first state.
    pub fn new(machine: M, planted: Planted) -> Self {
        Self { machine, sessions: BTreeMap::new(), planted }
    }

    /// The machine within.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// How many replies are kept; bounded by what clients have outstanding.
    pub fn cached_replies(&self) -> usize {
        self.sessions.values().map(|session| session.replies.len()).sum()
    }
}

impl<M: Machine> StateMachine for Sessions<M> {
    fn apply(&mut self, index: Index, term: Term, command: &Command) -> Option<OpReply> {
        let Command::Client { session: id, sequence, ack_below, op } = *command else { return None };
        let origin = Origin { session: id, sequence, index, term };
        let planted = self.planted;
        if planted.has(Mutant::KvNoDedup) {
            return Some(self.machine.execute(origin, &op));
        }

        if planted.has(Mutant::DedupOneSlot) {
            self.sessions.retain(|&other, _| other == id);
        }
        let session = self.sessions.entry(id).or_default();
        session.acknowledge(ack_below);
        if let Some(reply) = session.recall(sequence, planted)
            && !planted.has(Mutant::DedupAtPropose)
        {
            return Some(reply);
        }
        let reply = self.machine.execute(origin, &op);
        session.keep(sequence, reply.clone());
        Some(reply)
    }

    fn query(&self, op: &Op) -> OpReply {
        self.machine.query(op)
    }

    fn recall(&self, session: SessionId, sequence: Sequence) -> Option<OpReply> {
        if self.planted.has(Mutant::KvNoDedup) {
            return None;
        }
        self.sessions.get(&session)?.recall(sequence, self.planted)
    }
}

/// Two replicas agree when their stores and their session tables do.
impl<M: PartialEq> PartialEq for Sessions<M> {
    fn eq(&self, other: &Self) -> bool {
        self.machine == other.machine && self.sessions == other.sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Kv;
    use crate::types::{Key, Value};
    use std::rc::Rc;

    const KEY: Key = Key(1);

    /// A replica that is sent operations one after the other.
    struct Replica {
        sessions: Sessions<Kv>,
        index: Index,
    }

    impl Replica {
        fn new() -> Self {
            Self { sessions: Sessions::new(Kv::default(), Planted::NONE), index: Index(0) }
        }

        fn apply(&mut self, session: u64, sequence: u64, ack_below: u64, op: Op) -> OpReply {
            self.index = self.index.next();
            let command = Command::Client {
                session: SessionId(session),
                sequence: Sequence(sequence),
                ack_below: Sequence(ack_below),
                op,
            };
            self.sessions.apply(self.index, Term(1), &command).expect("a client command has a reply")
        }

        fn append(&mut self, session: u64, sequence: u64, ack_below: u64, item: u64) -> OpReply {
            self.apply(session, sequence, ack_below, Op::Append { key: KEY, item })
        }

        fn list(&self) -> Vec<u64> {
            match self.sessions.machine().get(KEY) {
                Some(Value::List(items)) => Rc::clone(items).to_vec(),
                _ => vec![],
            }
        }
    }

    /// "it responds immediately without re-executing the request" (§8).
    #[test]
    fn a_retry_gets_the_first_reply_and_changes_nothing() {
        let mut replica = Replica::new();
        let first = replica.append(1, 1, 1, 10);
        replica.append(2, 1, 1, 20);
        assert_eq!(replica.append(1, 1, 1, 10), first);
        assert_eq!(replica.list(), [10, 20]);
    }

    #[test]
    fn several_outstanding_operations_are_each_done_once_in_any_order() {
        let mut replica = Replica::new();
        let third = replica.append(1, 3, 1, 30);
        let first = replica.append(1, 1, 1, 10);
        assert_eq!(replica.append(1, 3, 1, 30), third);
        assert_eq!(replica.append(1, 1, 1, 10), first);
        assert_eq!(replica.list(), [30, 10]);
    }

    /// A datagram may come long after the client gave up: too late to take effect.
    #[test]
    fn what_the_client_has_finished_is_never_carried_out() {
        let mut replica = Replica::new();
        replica.append(1, 2, 2, 20);
        assert_eq!(replica.append(1, 1, 1, 10), OpReply::Forgotten);
        assert_eq!(replica.list(), [20]);
    }

    #[test]
    fn replies_are_dropped_once_the_client_has_them() {
        let mut replica = Replica::new();
        for sequence in 1..=100 {
            replica.append(1, sequence, sequence.saturating_sub(3), sequence);
        }
        assert_eq!(replica.sessions.cached_replies(), 4);
        // An old retry does not bring the bound down again.
        replica.append(1, 98, 1, 98);
        assert_eq!(replica.sessions.cached_replies(), 4);
    }

    #[test]
    fn a_failed_swap_is_remembered_too() {
        let mut replica = Replica::new();
        let swap = Op::Cas { key: KEY, expected: Some(1), new: 2 };
        assert_eq!(replica.apply(1, 1, 1, swap), OpReply::Mismatch(None));
        replica.apply(2, 1, 1, Op::Put { key: KEY, value: 1 });
        assert_eq!(replica.apply(1, 1, 1, swap), OpReply::Mismatch(None));
    }

    #[test]
    fn a_noop_has_no_reply() {
        assert_eq!(Replica::new().sessions.apply(Index(1), Term(1), &Command::Noop), None);
    }
}
