//! The applier: carries committed entries to the state machine in order, and then answers who waits for them.
//!
//! "If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine" (Figure 2).
//! "The leader applies the entry to its state machine and returns the result of that execution to the client"
//! (§5.3): never before.
//!
//! By itself it is a task that follows the commit index at its own pace. Where nothing is to delay it
//! (`apply_delay_us` is 0) whoever moves the commit index applies at once: [`follow_commit`].
//!
//! Invariant: a client is told `done` only for the entry that carries its command, found by index *and* term.

use crate::mutant::Mutant;
use crate::node::Node;
use crate::reads::Read;
use crate::trace::CommandAcknowledged;
use crate::types::{Command, Index, Op, OpReply, Sequence, SessionId, Term};
use crate::wire::{Answer, ClientReply, ClientRequest, Message};
use sim_runtime::time;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// A client that waits for an entry.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) index: Index,
    pub(crate) term: Term,
    pub(crate) request: ClientRequest,
    pub(crate) client: SocketAddr,
}

/// Who waits for the state machine, and how far it is.
#[derive(Default, Debug)]
pub(crate) struct Answers {
    applied: Cell<Index>,
    /// In the order of their entries.
    writes: RefCell<VecDeque<Pending>>,
    /// Confirmed reads with their read index.
    reads: RefCell<VecDeque<(Term, Index, Read)>>,
}

impl Answers {
    /// "index of highest log entry applied to state machine".
    pub(crate) fn applied(&self) -> Index {
        self.applied.get()
    }

    /// The client waits for an entry that is in the log now.
    pub(crate) fn expect(&self, pending: Pending) {
        self.writes.borrow_mut().push_back(pending);
    }

    /// Whether the operation is in the log already and waits for its turn; its answer will go to `client` then.
    pub(crate) fn is_expected(&self, session: SessionId, sequence: Sequence, client: SocketAddr) -> bool {
        let mut writes = self.writes.borrow_mut();
        let is_it = |pending: &&mut Pending| {
            (pending.request.session, pending.request.sequence) == (session, sequence)
        };
        let Some(pending) = writes.iter_mut().find(is_it) else { return false };
        pending.client = client;
        true
    }

    /// Nobody leads here any more.
    pub(crate) fn abandon(&self) -> VecDeque<Pending> {
        self.writes.take()
    }

    /// A confirmed read is answered as soon as the state machine has reached its index.
    pub(crate) fn when_applied(&self, node: &Node, term: Term, index: Index, read: Read) {
        if index <= self.applied() || node.planted().has(Mutant::ReadBeforeApply) {
            read.answer(node, term, index);
        } else {
            self.reads.borrow_mut().push_back((term, index, read));
        }
    }

    /// [`Mutant::AckBeforeCommit`]: a majority has something at these positions. (What a compare-and-swap comes to
    /// is known to the machine only.)
    pub(crate) fn acknowledge_replicated(&self, node: &Node, replicated: Index) {
        let is_due =
            |pending: &Pending| pending.index <= replicated && !matches!(pending.request.op, Op::Cas { .. });
        let (due, left): (Vec<_>, Vec<_>) = self.writes.take().into_iter().partition(is_due);
        self.writes.replace(left.into());
        for pending in due {
            acknowledge(node, &pending, OpReply::Done { version: 0 });
        }
    }

    fn take_write(&self, index: Index) -> Option<Pending> {
        let mut writes = self.writes.borrow_mut();
        while writes.front().is_some_and(|pending| pending.index < index) {
            writes.pop_front();
        }
        if writes.front()?.index == index { writes.pop_front() } else { None }
    }

    fn take_read(&self) -> Option<(Term, Index, Read)> {
        let mut reads = self.reads.borrow_mut();
        if reads.front()?.1 <= self.applied() { reads.pop_front() } else { None }
    }
}

/// Applies for ever.
pub(crate) async fn apply(node: &Node) {
    let lag = Duration::from_micros(node.config.apply_delay_us);
    loop {
        node.committed.notified().await;
        let committed = node.commit();
        time::sleep(lag).await;
        catch_up(node, committed);
    }
}

/// The commit index has moved.
pub(crate) fn follow_commit(node: &Node) {
    if node.config.apply_delay_us == 0 {
        catch_up(node, node.commit());
    } else if node.planted().has(Mutant::LostWakeup) {
        node.committed.notify_waiters();
    } else {
        node.committed.notify_one();
    }
}

fn catch_up(node: &Node, committed: Index) {
    apply_up_to(node, committed);
    while let Some((term, index, read)) = node.answers.take_read() {
        read.answer(node, term, index);
    }
}

/// Applies what is committed, or what the log has of it, as it must have all.
fn apply_up_to(node: &Node, committed: Index) {
    let (log, mut machine) = (node.log.entries(), node.machine.borrow_mut());
    let applied = node.answers.applied();
    let due = committed.0.saturating_sub(applied.0);
    for entry in log.batch(applied.next(), due as usize) {
        let index = node.answers.applied().next();
        let reply = machine.apply(index, entry.term, &entry.command);
        node.answers.applied.set(index);
        if let (Some(reply), Command::Client { .. }) = (reply, entry.command)
            && let Some(pending) = node.answers.take_write(index)
            && pending.term == entry.term
        {
            acknowledge(node, &pending, reply);
        }
    }
}

fn acknowledge(node: &Node, pending: &Pending, reply: OpReply) {
    let Pending { index, request: ClientRequest { session, sequence, .. }, client, .. } = *pending;
    node.world.emit(CommandAcknowledged {
        term: node.term().0,
        index: index.0,
        session: session.0,
        sequence: sequence.0,
    });
    let answer = Answer::Done(reply);
    node.transport.send_to(client, &Message::ClientReply(ClientReply { session, sequence, answer }));
}
