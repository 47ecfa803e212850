//! Planted defects that take more than a line at their site: most are effects moved into a task of their own,
//! where the world can change before they are done.
//!
//! Nothing here runs unless a mutant is planted. Where the right code is, it says `planted.has(..)` and calls
//! here.

use crate::hard_state::HardState;
use crate::leader::Leadership;
use crate::mutant::Mutant;
use crate::node::Node;
use crate::patience::Patience;
use crate::replicator::Replicator;
use crate::rules;
use crate::trace::{VoteAnswered, VoteAsked};
use crate::types::{Command, Entry, Index, Term};
use crate::wire::{Message, VoteReply, VoteRequest};
use sim_runtime::{task, time};
use std::rc::Rc;
use std::time::Duration;

/// [`Mutant::CampaignBeforePersist`]: the new term counts at once and is saved whenever.
pub(crate) fn save_later(node: &Rc<Node>, state: HardState) {
    node.hard_state.assume(state);
    let node = node.clone();
    task("late save").spawn(async move { node.hard_state.catch_up().await });
}

/// [`Mutant::CancelledSave`]: after a while the save is dropped where it is, as if it were done.
pub(crate) async fn save_or_not(node: &Node, state: HardState) {
    let patience = node.config.heartbeat() / 4;
    let _ = time::timeout(patience, node.hard_state.save(state)).await;
    node.hard_state.assume(state);
}

/// [`Mutant::ReplyRelabelled`] and [`Mutant::BorrowedState`]: a vote is decided here and now; it is saved and
/// answered in a task of its own, while the role goes on. The first then says of the vote what is true of the
/// node by then; the second makes the node again what it was when the vote was decided.
pub(crate) fn answer_vote_aside(node: &Rc<Node>, ask: VoteRequest) -> bool {
    let mut voter = node.voter();
    if rules::must_adopt(voter.term, ask.term) {
        (voter.term, voter.voted_for) = (ask.term, None);
    }
    let granted = rules::may_grant_vote(&voter, &ask, node.planted());
    if granted {
        voter.voted_for = Some(ask.candidate);
    }
    let decided = HardState { term: voter.term, voted_for: voter.voted_for };
    let end_of_log = node.log.last().index;
    let news = decided != node.hard_state.get();
    node.hard_state.assume(decided);
    let node = node.clone();
    task("vote").spawn(async move {
        if news {
            node.hard_state.catch_up().await?;
        }
        let mut reply = VoteReply { term: decided.term, voter: node.me(), granted };
        if node.planted().has(Mutant::ReplyRelabelled) {
            reply.term = node.term();
        }
        if news && node.planted().has(Mutant::BorrowedState) {
            node.hard_state.assume(decided);
            node.log.shorten(end_of_log, decided.term);
        }
        let (term, to) = (reply.term.0, ask.candidate.0.into());
        node.world.emit(VoteAnswered { term, to, granted: granted.into() });
        node.transport.send(ask.candidate, &Message::VoteReply(reply));
        Ok::<_, crate::halt::Halt>(())
    });
    granted
}

/// [`Mutant::SplitAppend`]: the position is chosen now, and written to later.
pub(crate) fn append_later(node: &Rc<Node>, term: Term, command: Command) -> Index {
    let index = node.log.last().index.next();
    let node = node.clone();
    task("append").spawn(async move {
        node.log.shorten(index.prev(), term);
        node.log.append(Entry { term, command });
    });
    index
}

/// [`Mutant::LeadAfterAwait`]: counts replicas once the own disk has caught up, whoever leads by then.
pub(crate) fn commit_after_own_sync(node: &Rc<Node>, leadership: &Rc<Leadership>) {
    let awaited = node.log.last().index;
    let (node, leadership) = (node.clone(), leadership.clone());
    task("commit").spawn(async move {
        while node.log.durable() < awaited {
            time::sleep(Duration::from_millis(1)).await;
        }
        let mut matched = vec![node.log.durable()];
        matched.extend(leadership.followers.iter().map(|f| f.progress.borrow().matched()));
        let log = node.log.entries();
        let replicated = rules::replicated(&mut matched, node.planted());
        let commit = rules::leader_commit(&log, replicated, node.term(), node.commit(), node.planted());
        drop(log);
        node.advance_commit(commit);
    });
}

/// [`Mutant::ReplicatorOutlivesLeader`]: as a task that nobody stops.
pub(crate) fn go_on_replicating(mut replicator: Replicator) {
    task("replicator").spawn(async move {
        loop {
            replicator.send_what_is_due();
            replicator.due().await;
        }
    });
}

/// [`Mutant::TimerOutlivesRole`]: the timer of a follower goes off in whatever role the server has by then.
pub(crate) fn start_stray_timer(node: &Rc<Node>) {
    let node = node.clone();
    task("stray timer").spawn(async move {
        Patience::new(&node.world, &node.config).ran_out().await;
        let term = node.term().next();
        node.hard_state.save(HardState { term, voted_for: Some(node.me()) }).await?;
        let last = node.log.last();
        for &to in &node.others {
            let (last_index, last_term) = (last.index.0, last.term.0);
            node.world.emit(VoteAsked { term: term.0, to: to.0.into(), last_index, last_term });
            let ask = VoteRequest { term, candidate: node.me(), last };
            node.transport.send(to, &Message::VoteRequest(ask));
        }
        Ok::<_, crate::halt::Halt>(())
    });
}
