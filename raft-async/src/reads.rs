//! Linearizable reads without the log: a read index, confirmed by a quorum round (§8; thesis, §6.4).
//!
//!   read ──commit index noted──► round of heartbeats ──majority answered──► applied that far ──► answer
//!
//! "A leader must check whether it has been deposed before processing a read-only request [...] by having the
//! leader exchange heartbeat messages with a majority of the cluster" (§8). A round serves all reads that came
//! before it began; those that come while it is under way share the next one.
//!
//! Invariants: a read is confirmed only by a round that began after the read arrived; its index was committed
//! when it arrived, and some entry of the leader's own term by then.
//! Not here: waiting for the state machine (`applier.rs`).

use crate::node::Node;
use crate::trace::ReadServed;
use crate::types::{Index, Term};
use crate::wire::{Answer, ClientReply, ClientRequest, Message};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A client's read.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Read {
    pub(crate) request: ClientRequest,
    pub(crate) client: SocketAddr,
}

impl Read {
    /// Answers from the state as it is.
    pub(crate) fn answer(&self, node: &Node, term: Term, read_index: Index) {
        let ClientRequest { session, sequence, op, .. } = self.request;
        let answer = Answer::Done(node.machine.borrow().query(&op));
        node.world.emit(ReadServed {
            term: term.0,
            read_index: read_index.0,
            applied: node.answers.applied().0,
        });
        let reply = ClientReply { session, sequence, answer };
        node.transport.send_to(self.client, &Message::ClientReply(reply));
    }
}

/// The reads of one leadership that are not confirmed yet.
#[derive(Default, Debug)]
pub(crate) struct Reads {
    /// They came before the leader had committed an entry of its term.
    postponed: Vec<Read>,
    /// They wait for a majority to answer this round.
    waiting: VecDeque<(u64, Index, Read)>,
}

impl Reads {
    pub(crate) fn postpone(&mut self, read: Read) {
        self.postponed.push(read);
    }

    pub(crate) fn are_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// The read joins the next round, which begins now unless another is under way.
    pub(crate) fn begin(&mut self, read: Read, commit: Index, round: &Cell<u64>) {
        let awaited = round.get() + 1;
        if self.waiting.is_empty() {
            round.set(awaited);
        }
        self.waiting.push_back((awaited, commit, read));
    }

    pub(crate) fn begin_postponed(&mut self, commit: Index, round: &Cell<u64>) {
        for read in std::mem::take(&mut self.postponed) {
            self.begin(read, commit, round);
        }
    }

    /// A majority has answered `confirmed`. Returns whether the next round began.
    pub(crate) fn confirmed(&mut self, node: &Node, term: Term, confirmed: u64, round: &Cell<u64>) -> bool {
        while let Some(&(awaited, index, read)) = self.waiting.front()
            && awaited <= confirmed
        {
            self.waiting.pop_front();
            node.answers.when_applied(node, term, index, read);
        }
        match self.waiting.front() {
            Some(&(awaited, ..)) if awaited > round.get() => {
                round.set(awaited);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Read> {
        let postponed = std::mem::take(&mut self.postponed);
        let waiting = std::mem::take(&mut self.waiting);
        postponed.into_iter().chain(waiting.into_iter().map(|(.., read)| read))
    }
}
