//! The receiver's side of RequestVote, the same in every role (§5.2, §5.4.1).

use crate::halt::Halt;
use crate::hard_state::HardState;
use crate::mutant::Mutant;
use crate::node::Node;
use crate::planted;
use crate::rules;
use crate::trace::VoteAnswered;
use crate::wire::{Message, VoteReply, VoteRequest};
use sim_runtime::probe;
use std::rc::Rc;

/// Decides on a vote, makes the decision durable, and only then answers. True when the vote was granted.
///
/// A newer term is adopted on the way, with the same write: two would double the time in which a campaign can
/// be lost.
pub(crate) async fn answer_vote(node: &Rc<Node>, ask: VoteRequest) -> Result<bool, Halt> {
    if node.planted().has(Mutant::ReplyRelabelled) || node.planted().has(Mutant::BorrowedState) {
        return Ok(planted::answer_vote_aside(node, ask));
    }
    let mut voter = node.voter();
    if rules::must_adopt(voter.term, ask.term) {
        (voter.term, voter.voted_for) = (ask.term, None);
    }
    let granted = rules::may_grant_vote(&voter, &ask, node.planted());
    if granted {
        voter.voted_for = Some(ask.candidate);
    }

    let decided = HardState { term: voter.term, voted_for: voter.voted_for };
    if decided != node.hard_state.get() {
        node.save(decided).await?;
    }

    let reply = VoteReply { term: decided.term, voter: node.me(), granted };
    node.world.emit(VoteAnswered { term: reply.term.0, to: ask.candidate.0.into(), granted: granted.into() });
    node.transport.send(ask.candidate, &Message::VoteReply(reply));
    if granted {
        probe::point("vote granted");
    }
    Ok(granted)
}
