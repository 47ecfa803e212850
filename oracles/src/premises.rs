//! Premises: rules whose breach does no harm by itself, and without which the proof of safety does not go through.
//!
//! They are broken thousands of times for each time that harm follows, and so they are a slope for a search to climb.
//! They mirror the mistakes that people make and prove nothing about harm, so they are counted apart.
//!
//! * claimed ⊆ chosen: only what a majority accepted is taken for committed.
//! * "updated on stable storage before responding to RPCs" (Figure 2): for terms, votes and entries.
//! * A term that is durable is not followed by an older one, nor a vote by another of its term (Figure 2).
//! * A vote counts where it was cast (§5.2). A read waits for the state machine (§8). So does an acknowledgement.
//!
//! Invariant: no correct server breaks one, whatever the schedule: replies that were overtaken by a newer term are
//! left out where the disk may have moved on since.

use raft_async::trace::{AppendAnswered, ReadServed, VoteAnswered, VoteAsked, VoteCounted};
use sim_runtime::NodeId;

use crate::cluster::Cluster;
use crate::log_tree::Prefix;
use crate::property::{Premise, Report};
use crate::records::Acknowledged;
use crate::shadow::{HardState, Shadow};

/// A server is the first to take the last entry of `log` for committed.
pub fn first_claim(cluster: &Cluster, at: usize, log: Prefix, report: &mut Report<'_>) {
    if !cluster.chosen.is_chosen(log) {
        report.premise(Premise::ClaimedNotChosen, || {
            let (node, accepted) = (cluster.server(at).node(), cluster.chosen.acceptors(log));
            let (index, term) = (cluster.tree.index(log), cluster.tree.term(log));
            format!("{node} takes entry {index} of term {term} for committed, which {accepted} servers have accepted")
        });
    }
}

/// The disk of a server confirmed `now`; before, it had confirmed `before`.
pub fn saves(node: NodeId, before: HardState, now: HardState, report: &mut Report<'_>) {
    if now.falls_short_of(before) {
        report.premise(Premise::HardStateTakenBack, || {
            format!("the disk of {node} held {before}, and then {now}")
        });
    }
}

/// A message of `term` leaves.
#[inline]
pub fn sends(server: &Shadow, term: u64, report: &mut Report<'_>) {
    if term > server.durable_hard.term {
        report.premise(Premise::TermSentEarly, || {
            let (node, durable) = (server.node(), server.durable_hard.term);
            format!("{node} sends a message of term {term}; its disk holds term {durable}")
        });
    }
}

/// A candidate solicits a vote.
pub fn asks(server: &Shadow, asked: &VoteAsked, report: &mut Report<'_>) {
    let own = HardState { term: asked.term, vote: u64::from(server.node().0) };
    if !server.has_cast(own) {
        report.premise(Premise::VoteAskedEarly, || {
            let (node, term) = (server.node(), asked.term);
            format!("{node} solicits votes for term {term}; its disk never held its own")
        });
    }
}

/// A voter answers.
pub fn answers_vote(server: &Shadow, answer: &VoteAnswered, report: &mut Report<'_>) {
    let vote = HardState { term: answer.term, vote: answer.to };
    if answer.granted != 0 && !server.has_cast(vote) {
        report.premise(Premise::VoteGrantedEarly, || {
            let node = server.node();
            format!("{node} grants n{} its vote of term {}; its disk never held it", answer.to, answer.term)
        });
    }
}

/// A candidate counts a vote.
pub fn counts_vote(cluster: &Cluster, at: usize, counted: &VoteCounted, report: &mut Report<'_>) {
    let candidate = cluster.server(at).node();
    let vote = HardState { term: counted.term, vote: u64::from(candidate.0) };
    let voter = cluster.place(NodeId(counted.from as u16)).map(|voter| cluster.server(voter));
    if !voter.is_some_and(|voter| voter.has_cast(vote)) {
        report.premise(Premise::VoteCountedNotCast, || {
            format!(
                "{candidate} counts a vote of n{} in term {}, whose disk never held it",
                counted.from, counted.term
            )
        });
    }
}

/// A follower vouches for its log.
#[inline]
pub fn answers_append(server: &Shadow, answer: &AppendAnswered, report: &mut Report<'_>) {
    let of_now = answer.term == server.hard.term;
    if answer.success != 0 && of_now && !server.lost && answer.match_index > server.durable_index() {
        report.premise(Premise::AppendAnsweredEarly, || {
            let (node, durable) = (server.node(), server.durable_index());
            format!(
                "{node} vouches for {} entries to n{}; its disk holds {durable}",
                answer.match_index, answer.to
            )
        });
    }
}

/// A leader answers a read.
pub fn serves_read(server: &Shadow, read: &ReadServed, report: &mut Report<'_>) {
    if server.applied < read.read_index {
        report.premise(Premise::ReadServedEarly, || {
            let (node, applied) = (server.node(), server.applied);
            format!("{node} answers a read of index {} after applying {applied} entries", read.read_index)
        });
    }
}

/// A client is told that a write is done; `executed` says whether any server has carried it out by then.
pub fn acknowledges(client: NodeId, told: &Acknowledged, executed: bool, report: &mut Report<'_>) {
    if told.write != 0 && !executed {
        report.premise(Premise::AcknowledgedEarly, || {
            let Acknowledged { session, sequence, .. } = *told;
            format!("{client} is told that operation {sequence} of session {session} is done; no server has carried it out")
        });
    }
}
