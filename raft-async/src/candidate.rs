//! The candidate: starts a term, asks for votes until it has a majority, hears of a leader, or its time is up
//! (§5.2).

use crate::follower::refuse_old_leader;
use crate::halt::Halt;
use crate::hard_state::HardState;
use crate::mutant::Mutant;
use crate::node::{Node, Role};
use crate::patience::Patience;
use crate::planted;
use crate::rules;
use crate::trace::{RoleKind, VoteAsked, VoteCounted};
use crate::transport::Inbox;
use crate::types::{ServerId, Term};
use crate::voter::answer_vote;
use crate::wire::{Message, VoteReply, VoteRequest};
use sim_runtime::{probe, select, time};
use std::rc::Rc;
use std::time::Duration;

/// One candidacy, in one term.
struct Campaign<'a> {
    node: &'a Rc<Node>,
    term: Term,
    /// Who has voted for us, ourselves included.
    votes: Vec<ServerId>,
    /// Who has not answered yet.
    silent: Vec<ServerId>,
}

/// "To begin an election, a follower increments its current term and transitions to candidate state. It then
/// votes for itself and issues RequestVote RPCs in parallel to each of the other servers" (§5.2).
pub(crate) async fn campaign(node: &Rc<Node>, inbox: &mut Inbox) -> Result<Role, Halt> {
    let _election = probe::window("election in progress", None);
    let mut campaign =
        Campaign { node, term: node.term().next(), votes: vec![node.me()], silent: node.others.clone() };
    let candidacy = HardState { term: campaign.term, voted_for: Some(node.me()) };
    if node.planted().has(Mutant::CampaignBeforePersist) {
        planted::save_later(node, candidacy);
    } else {
        node.save(candidacy).await?;
    }
    node.announce(RoleKind::Candidate);
    campaign.ask_the_silent();

    let patience = Patience::new(&node.world, &node.config);
    campaign.run(inbox, patience).await
}

impl Campaign<'_> {
    async fn run(&mut self, inbox: &mut Inbox, mut patience: Patience) -> Result<Role, Halt> {
        let node = self.node;
        let pause = Duration::from_millis(node.config.vote_retransmit_ms);
        let mut ask_again = time::sleep(pause);
        while self.votes.len() < rules::majority(node.servers(), node.planted()) {
            select! {
                () = inbox.arrival() => {
                    let Some(message) = inbox.open() else { continue };
                    if message.term().is_some_and(|term| rules::must_adopt(self.term, term)) {
                        inbox.put_back();
                        return Ok(Role::Follower);
                    }
                    match message {
                        Message::VoteReply(reply) => self.count(&reply),
                        // "If the leader's term is at least as large as the candidate's current term, then
                        // the candidate recognizes the leader as legitimate and returns to follower state."
                        Message::Append(append) if append.term == self.term => {
                            inbox.put_back();
                            return Ok(Role::Follower);
                        }
                        Message::Append(append) => refuse_old_leader(node, &append),
                        Message::VoteRequest(ask) => {
                            answer_vote(node, ask).await?;
                        }
                        Message::ClientRequest(request) => node.redirect(&request, inbox.sender()),
                        Message::AppendReply(_) | Message::ClientReply(_) => {}
                    }
                },
                () = patience.ran_out() => return Ok(Role::Candidate),
                () = &mut ask_again => {
                    self.ask_the_silent();
                    ask_again = time::sleep(pause);
                },
            }
        }
        Ok(Role::Leader)
    }

    fn ask_the_silent(&self) {
        let node = self.node;
        let last = node.log.last();
        for &to in &self.silent {
            node.world.emit(VoteAsked {
                term: self.term.0,
                to: to.0.into(),
                last_index: last.index.0,
                last_term: last.term.0,
            });
            let ask = VoteRequest { term: self.term, candidate: node.me(), last };
            node.transport.send(to, &Message::VoteRequest(ask));
        }
    }

    fn count(&mut self, reply: &VoteReply) {
        if reply.term == self.term {
            self.silent.retain(|&server| server != reply.voter);
        }
        let is_server = self.node.config.servers.contains_key(&reply.voter);
        if is_server
            && !self.votes.contains(&reply.voter)
            && rules::counts_as_vote(self.term, reply, self.node.planted())
        {
            self.votes.push(reply.voter);
            self.node.world.emit(VoteCounted { term: self.term.0, from: reply.voter.0.into() });
        }
    }
}
