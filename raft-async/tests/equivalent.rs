//! Planted defects that no campaign catches, and why: exhaustive searches of small models show that they cannot
//! break anything, and what it is in the rest of the protocol that keeps them harmless.

use std::collections::BTreeSet;

use raft_async::Planted;
use raft_async::mutant::Mutant;
use raft_async::rules::{self, Voter};
use raft_async::types::{Index, LastEntry, ServerId, Term};
use raft_async::wire::VoteRequest;

/// The one term that the model is about.
const TERM: Term = Term(5);

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Role {
    /// Has not heard of the term.
    Before,
    Follower,
    Candidate,
    Leader,
}

/// What a server's log ends with, as far as votes care.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// What it had before the term.
    Old,
    /// An entry of the term, which a crash may take.
    InMemory,
    /// The same, on the disk.
    OnDisk,
}

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Server {
    role: Role,
    vote: Option<u8>,
    vote_on_disk: Option<u8>,
    end: End,
    /// Length of the log before the term.
    old_length: u8,
    /// Who voted for it, as bits, while it is a candidate.
    votes: u8,
}

/// What may be different from the Raft that is built.
#[derive(Copy, Clone, Debug)]
struct Rules {
    /// [`Mutant::VoteForgottenOnRoleChange`]: who steps down forgets, in memory, whom it voted for.
    forgets: bool,
    /// A leader begins its term with an entry of its own.
    no_op: bool,
    planted: Planted,
}

const AS_BUILT: Rules = Rules { forgets: false, no_op: true, planted: Planted::NONE };

impl Server {
    fn before(old_length: u8) -> Self {
        let (role, end) = (Role::Before, End::Old);
        Self { role, vote: None, vote_on_disk: None, end, old_length, votes: 0 }
    }

    fn last(&self) -> LastEntry {
        match self.end {
            End::Old => LastEntry { term: Term(1), index: Index(self.old_length.into()) },
            End::InMemory | End::OnDisk => LastEntry { term: TERM, index: Index(9) },
        }
    }

    fn votes_for(&mut self, candidate: u8) {
        (self.vote, self.vote_on_disk) = (Some(candidate), Some(candidate));
    }

    fn becomes_follower(&mut self, rules: Rules) {
        if rules.forgets && matches!(self.role, Role::Candidate | Role::Leader) {
            self.vote = None;
        }
        (self.role, self.votes) = (Role::Follower, 0);
    }

    fn crashes(&mut self) {
        (self.role, self.vote, self.votes) = (Role::Follower, self.vote_on_disk, 0);
        if self.end == End::InMemory {
            self.end = End::Old;
        }
    }
}

/// Whether `voter` votes for `candidate`, by the rule that the servers go by.
fn may_vote(voter: &Server, candidate: u8, asks: &Server, rules: Rules) -> bool {
    let server = |number: u8| ServerId(u16::from(number) + 1);
    let me = Voter { term: TERM, voted_for: voter.vote.map(server), last: voter.last() };
    let ask = VoteRequest { term: TERM, candidate: server(candidate), last: asks.last() };
    rules::may_grant_vote(&me, &ask, rules.planted)
}

/// All that can happen next within the term. A server that leaves the term takes no more part in it, which is a server
/// to which nothing happens; a message that comes late is one that is sent late, or counts for less.
fn successors(state: &[Server], leaders: u8, rules: Rules) -> Vec<(Vec<Server>, u8)> {
    let mut next = Vec::new();
    let mut push = |change: &dyn Fn(&mut Vec<Server>), leaders: u8| {
        let mut after = state.to_vec();
        change(&mut after);
        next.push((after, leaders));
    };
    let majority = rules::majority(state.len(), rules.planted) as u32;
    for (at, server) in state.iter().enumerate() {
        let me = at as u8;
        let bit = 1 << me;
        match server.role {
            Role::Before => push(
                &|after| {
                    after[at].votes_for(me);
                    (after[at].role, after[at].votes) = (Role::Candidate, bit);
                },
                leaders,
            ),
            Role::Candidate if server.votes.count_ones() >= majority => push(
                &|after| {
                    after[at].role = Role::Leader;
                    if rules.no_op {
                        after[at].end = End::InMemory;
                    }
                },
                leaders | bit,
            ),
            Role::Leader => push(&|after| after[at].becomes_follower(rules), leaders),
            Role::Candidate | Role::Follower => {}
        }
        if server.role != Role::Before {
            push(&|after| after[at].crashes(), leaders);
        }
        if server.end == End::InMemory {
            push(&|after| after[at].end = End::OnDisk, leaders);
        }
        for (to, other) in state.iter().enumerate().filter(|(to, _)| *to != at) {
            // It asks for a vote, and the vote is counted.
            if server.role == Role::Candidate && may_vote(other, me, server, rules) {
                push(
                    &|after| {
                        after[to].votes_for(me);
                        after[at].votes |= 1 << to;
                        if after[to].role == Role::Before {
                            after[to].role = Role::Follower;
                        }
                    },
                    leaders,
                );
            }
            // It is heard of as the leader, with its entries or without.
            if server.role == Role::Leader && other.role != Role::Leader {
                push(&|after| after[to].becomes_follower(rules), leaders);
                if server.end != End::Old && other.end == End::Old {
                    push(
                        &|after| {
                            after[to].becomes_follower(rules);
                            after[to].end = End::InMemory;
                        },
                        leaders,
                    );
                }
            }
        }
    }
    next
}

/// The number of states that can be reached from logs of these lengths, or one with two leaders.
fn search(old_lengths: &[u8], rules: Rules) -> Result<usize, Vec<Server>> {
    let start: Vec<_> = old_lengths.iter().copied().map(Server::before).collect();
    let mut seen = BTreeSet::from([(start.clone(), 0)]);
    let mut open = vec![(start, 0)];
    while let Some((state, leaders)) = open.pop() {
        for (state, leaders) in successors(&state, leaders, rules) {
            if leaders.count_ones() > 1 {
                return Err(state);
            }
            if seen.insert((state.clone(), leaders)) {
                open.push((state, leaders));
            }
        }
    }
    Ok(seen.len())
}

const LENGTHS: [&[u8]; 6] = [&[1, 1, 1], &[1, 1, 2], &[1, 2, 2], &[1, 2, 3], &[1, 1, 1, 1], &[1, 1, 1, 1, 1]];

#[test]
fn the_model_has_one_leader_a_term_and_would_notice_two() {
    for lengths in LENGTHS {
        let states = search(lengths, AS_BUILT);
        assert!(states.is_ok_and(|states| states > 100), "{lengths:?}");
    }
    let double_vote = Rules { planted: Planted::one(Mutant::DoubleVote), ..AS_BUILT };
    assert!(search(&[1, 1, 1], double_vote).is_err());
}

/// A vote matters to an election only where it went to the winner. Of those voters, only the winner itself can step
/// down within the term; and its log ends with its own first entry by then, so that no rival's log is good enough for
/// the vote that it has forgotten, or a crash has taken the entry and brought back the vote. The other candidates, who
/// step down when they hear of the leader, are a minority.
#[test]
fn a_vote_that_is_forgotten_when_stepping_down_elects_nobody_since_a_leader_begins_with_an_entry() {
    for lengths in LENGTHS {
        let found = search(lengths, Rules { forgets: true, ..AS_BUILT });
        assert!(found.is_ok(), "{lengths:?}: {found:?}");
    }
    assert!(search(&[1, 1, 1], Rules { forgets: true, no_op: false, ..AS_BUILT }).is_err());
}
