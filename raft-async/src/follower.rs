//! The follower: answers leaders and candidates, and campaigns when it hears of neither (§5.2, §5.3).
//!
//!   AppendEntries ──► adopt term ──► previous entry held? ──► cut what conflicts, append what is new
//!                                          │ no                       │
//!                                          ▼                          ▼ synced
//!                                       refusal with a hint      acknowledgement
//!
//! Appending does not wait for the disk: entries that arrive while it syncs go into its next sync together, and
//! the acknowledgement leaves when that is done: the log writer sends it ([`acknowledge_synced`]).
//!
//! Invariant: what is acknowledged was verified against the leader of *this* term and is durable.

use crate::halt::Halt;
use crate::hard_state::HardState;
use crate::mutant::Mutant;
use crate::node::{Node, Role};
use crate::patience::Patience;
use crate::planted;
use crate::rules;
use crate::trace::{AppendAnswered, RoleKind};
use crate::transport::Inbox;
use crate::types::{Index, ServerId, Term};
use crate::voter::answer_vote;
use crate::wire::{AppendOutcome, AppendReply, AppendRequest, ConflictHint, Message};
use sim_runtime::select;
use std::rc::Rc;

/// What the leader of the current term has shown us, and what we told it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Standing {
    term: Term,
    leader: ServerId,
    /// Our log equals the leader's up to here; it need not be durable.
    verified: Index,
    /// What our last acknowledgement vouched for.
    acknowledged: Index,
    /// The leader's latest read round that we saw.
    round: u64,
}

/// Whether a message was a sign that the election should wait.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Heard {
    /// A leader of our term, or a candidate that got our vote.
    Authority,
    /// Anything else. "If a follower receives no communication" from a leader, an old one's does not count.
    Noise,
}

/// Follows until nobody leads.
pub(crate) async fn follow(node: &Rc<Node>, inbox: &mut Inbox) -> Result<Role, Halt> {
    node.announce(RoleKind::Follower);
    let mut patience = Patience::new(&node.world, &node.config);
    if node.planted().has(Mutant::TimerOutlivesRole) {
        planted::start_stray_timer(node);
    }
    let outcome = loop {
        // The inbox first: after a pause, the heartbeats that waited in it are heard before the timer.
        let heard = select! {
            () = inbox.arrival() => answer(node, inbox).await,
            () = patience.ran_out() => break Ok(Role::Candidate),
        };
        match heard {
            Ok(Heard::Authority) => patience.renew(),
            Ok(Heard::Noise) => {}
            Err(halt) => break Err(halt),
        }
    };
    node.standing.set(None);
    outcome
}

async fn answer(node: &Rc<Node>, inbox: &Inbox) -> Result<Heard, Halt> {
    let Some(message) = inbox.open() else { return Ok(Heard::Noise) };
    if let Message::VoteRequest(ask) = message {
        // Its term goes to the disk with the vote.
        let granted = answer_vote(node, ask).await?;
        return Ok(if granted { Heard::Authority } else { Heard::Noise });
    }
    // "If RPC request or response contains term T > currentTerm: set currentTerm = T" (Figure 2), durably.
    if let Some(term) = message.term().filter(|&term| rules::must_adopt(node.term(), term)) {
        node.save(HardState { term, voted_for: None }).await?;
    }
    match &message {
        Message::Append(append) => return Ok(receive_append(node, append)),
        Message::ClientRequest(request) => node.redirect(request, inbox.sender()),
        Message::VoteRequest(_)
        | Message::VoteReply(_)
        | Message::AppendReply(_)
        | Message::ClientReply(_) => {}
    }
    Ok(Heard::Noise)
}

/// AppendEntries, receiver implementation (Figure 2). The request's term is at most ours by now.
fn receive_append(node: &Node, append: &AppendRequest<'_>) -> Heard {
    if append.term < node.term() {
        refuse_old_leader(node, append);
        return Heard::Noise;
    }
    node.leader.set(Some(append.leader));
    let first_sight = Standing {
        term: append.term,
        leader: append.leader,
        verified: Index::ZERO,
        acknowledged: Index::ZERO,
        round: 0,
    };
    let mut standing = node.standing.get().filter(|known| known.term == append.term).unwrap_or(first_sight);
    standing.round = standing.round.max(append.round);

    if !rules::holds_previous(&node.log.entries(), append.prev, node.planted()) {
        let hint = rules::conflict_hint(&node.log.entries(), append.prev);
        reply(node, &standing, AppendOutcome::Conflict { refused: append.prev.index, hint });
        node.standing.set(Some(standing));
        return Heard::Authority;
    }
    node.log.reconcile(append.prev.index, append.entries, node.term());

    // What this message shows, for the commit index, and what all of this term have shown, for the acknowledgement.
    let verified = append.prev.index.plus(append.entries.len() as u64);
    standing.verified = standing.verified.max(verified);
    let end_of_log = node.log.last().index;
    node.advance_commit(rules::follower_commit(
        node.commit(),
        append.commit,
        verified,
        end_of_log,
        node.planted(),
    ));

    // A heartbeat is answered at once, new entries when they are durable (they may be already).
    let heartbeat = append.entries.is_empty();
    let vouched = rules::vouched(standing.verified, node.log.durable(), heartbeat, node.planted());
    if heartbeat || vouched >= verified {
        acknowledge(node, &mut standing, vouched);
    }
    node.standing.set(Some(standing));
    Heard::Authority
}

/// The disk has caught up with something: tell the leader, if it is still the one that sent it. While a term is being
/// saved that is not known, and asked again afterwards. False where nobody is followed.
pub(crate) fn acknowledge_synced(node: &Node) -> bool {
    let Some(mut standing) = node.standing.get() else { return false };
    let still_current = standing.term == node.term() && !node.hard_state.is_being_saved();
    let heartbeat = false;
    let vouched = rules::vouched(standing.verified, node.log.durable(), heartbeat, node.planted());
    if (still_current || node.planted().has(Mutant::ReplyRelabelled)) && vouched > standing.acknowledged {
        acknowledge(node, &mut standing, vouched);
        node.standing.set(Some(standing));
    }
    true
}

fn acknowledge(node: &Node, standing: &mut Standing, vouched: Index) {
    standing.acknowledged = standing.acknowledged.max(vouched);
    reply(node, standing, AppendOutcome::Matched(vouched));
}

/// Speaks of the term in which the log was verified, never of a newer one, whose leader would take it for a reply to
/// what it sent itself.
fn reply(node: &Node, standing: &Standing, outcome: AppendOutcome) {
    let mut term = standing.term;
    if node.planted().has(Mutant::ReplyRelabelled) {
        term = node.term();
    }
    send_reply(node, standing.leader, term, standing.round, outcome);
}

/// "Reply false if term < currentTerm" (Figure 2): the old leader learns our term from it. In any role.
pub(crate) fn refuse_old_leader(node: &Node, append: &AppendRequest<'_>) {
    let hint = ConflictHint { term: Term(0), first: append.prev.index };
    let outcome = AppendOutcome::Conflict { refused: append.prev.index, hint };
    send_reply(node, append.leader, node.term(), 0, outcome);
}

fn send_reply(node: &Node, to: ServerId, term: Term, round: u64, outcome: AppendOutcome) {
    let (success, match_index) = match outcome {
        AppendOutcome::Matched(index) => (1, index.0),
        AppendOutcome::Conflict { .. } => (0, 0),
    };
    node.world.emit(AppendAnswered { term: term.0, to: to.0.into(), success, match_index });
    let reply = AppendReply { term, follower: node.me(), round, outcome };
    node.transport.send(to, &Message::AppendReply(reply));
}
