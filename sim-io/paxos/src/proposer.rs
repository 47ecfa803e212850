//! Proposers: phases 1a and 2a, and who of them is "the distinguished proposer", the leader (§2.4).
//!
//!   follow ──nobody leads for too long──► prepare ──promises of a majority──► lead
//!      ▲                                     └─────── a higher number ──────────┘
//!      └────────────────────────────────────────────────────────────────────────┘

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sim_io::simulation::{parameter, processes};
use sim_runtime::rng::{Stream, rng_named};
use sim_runtime::time::{Duration, Instant};
use sim_runtime::{Handle, NodeId, probe};
use sim_runtime::{assert_sometimes, assert_sometimes_all, assert_sometimes_greater_than};

use crate::journal::Journal;
use crate::learner::Learned;
use crate::message::{Mailbox, Message, Role};
use crate::mutant::{Mutant, Planted};
use crate::terms::{Ballot, Command, Proposal, Slot, majority};

/// So many proposals at most are sent again at once.
const SENT_AGAIN: usize = 16;

struct Proposer {
    me: NodeId,
    servers: Vec<NodeId>,
    mailbox: Mailbox,
    /// The numbers that it has used.
    used: Journal<Ballot>,
    /// The highest number that it has used or heard of.
    highest: Ballot,
    learned: Learned,
    chance: Stream,
    planted: Planted,
}

/// The proposer on the node `me`.
pub async fn run(me: NodeId, learned: Learned, planted: Planted) -> io::Result<()> {
    let mailbox = Mailbox::of(Role::Proposer, me).await?;
    let (used, numbers) = Journal::open("proposer").await?;
    let mut highest: Ballot = numbers.last().copied().unwrap_or_default();
    if planted.has(Mutant::ReusedBallot) {
        highest = highest.previous();
    }
    let chance = rng_named("patience", 0);
    let mut proposer =
        Proposer { me, servers: processes(), mailbox, used, highest, learned, chance, planted };
    loop {
        proposer.follow().await?;
        let (before, first) = (proposer.highest.proposer(), proposer.learned.first_unknown());
        if let Some(accepted) = proposer.prepare(first).await? {
            let is_other = before.is_some_and(|leader| leader != me);
            assert_sometimes!(is_other, "the leader changes");
            proposer.lead(first, accepted, is_other).await?;
        }
    }
}

impl Proposer {
    /// Election "must use either randomness or real time" (§2.4): both.
    fn patience(&mut self) -> Instant {
        let least = parameter("patience ms") * 1_000;
        Instant::now() + Duration::from_micros(self.chance.range(least, least * 2))
    }

    /// Leaves proposing to another for as long as there is one; tells it what clients want.
    async fn follow(&mut self) -> io::Result<()> {
        let (mut leader, mut deadline) = (None, self.patience());
        while let Some((message, from)) = self.mailbox.receive_until(deadline).await? {
            match message {
                Message::Leading(ballot) if ballot >= self.highest => {
                    (self.highest, leader, deadline) = (ballot, Some(from), self.patience());
                }
                Message::Request(command) if self.is_open(command)? => {
                    let leader = leader.as_slice();
                    self.mailbox.send(Role::Proposer, leader, &Message::Request(command))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it is still to be done; answers the client if not.
    fn is_open(&self, command: Command) -> io::Result<bool> {
        let is_done = self.learned.hear(command);
        if is_done {
            self.mailbox.send(Role::Client, &[NodeId(command.client)], &Message::Done(command))?;
        }
        Ok(!is_done)
    }

    /// "Each proposer remembers (in stable storage) the highest-numbered proposal it has tried to issue, and begins
    /// phase 1 with a higher proposal number than any it has already used" (§2.5).
    async fn use_next_ballot(&mut self) -> io::Result<Ballot> {
        self.highest = self.highest.next(self.me);
        self.used.append(&self.highest).await?;
        self.used.sync().await?;
        Ok(self.highest)
    }

    /// Phase 1, for `first` and all slots after it: "using the same proposal number for all instances, it can do this
    /// by sending a single reasonably short message" (§3). What is accepted there; `None` when somebody has a higher
    /// number, or no majority answers.
    async fn prepare(&mut self, first: Slot) -> io::Result<Option<BTreeMap<Slot, Proposal>>> {
        let _phase = probe::window("phase 1", None);
        let ballot = self.use_next_ballot().await?;
        let (mut silent, mut promised) = (self.servers.clone(), BTreeSet::new());
        let mut accepted: BTreeMap<Slot, Proposal> = BTreeMap::new();
        let (deadline, mut ask_at) = (self.patience(), Instant::now());
        tracing::info!(ballot = ballot.0, first, "prepares");
        while Instant::now() < deadline {
            match self.mailbox.receive_until(ask_at.min(deadline)).await? {
                None => {
                    self.mailbox.send(Role::Acceptor, &silent, &Message::Prepare(ballot, first))?;
                    ask_at = Instant::now() + Duration::from_millis(parameter("heartbeat ms"));
                }
                Some((Message::Promise(to, proposals), acceptor)) if to == ballot => {
                    promised.insert(acceptor);
                    silent.retain(|server| *server != acceptor);
                    for proposal in proposals {
                        let known = accepted.entry(proposal.slot).or_insert(proposal);
                        // "The value of the highest-numbered proposal among the responses" (§2.2).
                        if proposal.ballot > known.ballot && !self.planted.has(Mutant::FirstAccepted) {
                            *known = proposal;
                        }
                    }
                    if promised.len() >= majority(self.servers.len(), self.planted) {
                        return Ok(Some(accepted));
                    }
                }
                Some((Message::Refused(other) | Message::Leading(other), _)) if other > ballot => {
                    self.highest = self.highest.max(other);
                    return Ok(None);
                }
                Some(_) => {}
            }
        }
        Ok(None)
    }

    /// Phase 2, until somebody has a higher number.
    async fn lead(
        &mut self,
        first: Slot,
        accepted: BTreeMap<Slot, Proposal>,
        takes_over: bool,
    ) -> io::Result<()> {
        let (world, ballot) = (Handle::current(), self.highest);
        world.set_role("leader");
        probe::point("leader elected");
        tracing::info!(ballot = ballot.0, first, "leads");
        assert_sometimes_greater_than!(ballot.round(), 8, "rounds of ballots");
        // What may have been chosen is proposed again, and gaps before it are filled with no-ops (§3).
        let mut next = accepted.last_key_value().map_or(first, |(last, _)| last + 1);
        let value = |slot: Slot| accepted.get(&slot).map_or(Command::NO_OP, |proposal| proposal.value);
        let mut open: BTreeMap<Slot, Command> = (first..next).map(|slot| (slot, value(slot))).collect();
        let mut tick_at = Instant::now();
        loop {
            match self.mailbox.receive_until(tick_at).await? {
                None => {
                    self.mailbox.send(Role::Proposer, &self.servers, &Message::Leading(ballot))?;
                    for (slot, value) in open.iter().take(SENT_AGAIN) {
                        self.propose(ballot, *slot, *value)?;
                    }
                    tick_at = Instant::now() + Duration::from_millis(parameter("heartbeat ms"));
                }
                Some((Message::Request(command), _))
                    if self.is_open(command)? && !open.values().any(|value| *value == command) =>
                {
                    open.insert(next, command);
                    self.propose(ballot, next, command)?;
                    next += 1;
                }
                Some((Message::Refused(other) | Message::Leading(other), _)) if other > ballot => {
                    self.highest = other;
                    world.set_role("");
                    return Ok(());
                }
                Some(_) => {}
            }
            let waiting = open.len();
            open.retain(|slot, _| !self.learned.knows(*slot));
            let is_decided = open.len() < waiting;
            assert_sometimes_all!(
                "a failover makes progress",
                [("takes over", takes_over), ("decides", is_decided)]
            );
        }
    }

    fn propose(&self, ballot: Ballot, slot: Slot, value: Command) -> io::Result<()> {
        tracing::info!(slot, ballot = ballot.0, %value, "proposes");
        let proposal = Proposal { slot, ballot, value };
        self.mailbox.send(Role::Acceptor, &self.servers, &Message::Accept(proposal))?;
        probe::point("proposal sent");
        Ok(())
    }
}
