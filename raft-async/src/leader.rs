//! The leader: takes commands, replicates its log, commits what a majority holds, serves reads (§5.3, §5.4, §8).
//!
//!   client ──command──► log ──► own disk ───────────┐
//!                        │                          ├──► majority durable ──► commit ──► applier ──► client
//!                        └────► replicator ──acks───┘
//!
//! The leader writes to its own disk while it replicates, and counts itself like any other: for what is synced.
//!
//! Invariants: everything here speaks of one term; votes, the replicator and waiting reads go with it.

use crate::applier::Pending;
use crate::follower::refuse_old_leader;
use crate::halt::Halt;
use crate::hard_state::HardState;
use crate::mutant::Mutant;
use crate::node::{Node, Role};
use crate::planted;
use crate::progress::Progress;
use crate::reads::{Read, Reads};
use crate::replicator::Replicator;
use crate::rules;
use crate::trace::RoleKind;
use crate::transport::Inbox;
use crate::types::{Command, Entry, Index, ServerId, Term};
use crate::voter::answer_vote;
use crate::wire::{Answer, AppendOutcome, AppendReply, ClientReply, ClientRequest, Message};
use sim_runtime::time::{Instant, Sleep};
use sim_runtime::{probe, select, time};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// One leadership, shared with its replicator.
pub(crate) struct Leadership {
    pub(crate) term: Cell<Term>,
    pub(crate) followers: Vec<Follower>,
    /// The latest read round.
    pub(crate) round: Cell<u64>,
}

/// One follower, as its leader and the replicator see it.
pub(crate) struct Follower {
    pub(crate) id: ServerId,
    pub(crate) progress: RefCell<Progress>,
    pub(crate) heard: Cell<Instant>,
}

/// Leads until somebody else does, or a majority is out of reach.
pub(crate) async fn lead(node: &Rc<Node>, inbox: &mut Inbox) -> Result<Role, Halt> {
    node.announce(RoleKind::Leader);
    probe::point("leader elected");
    node.leader.set(Some(node.me()));
    let mut leader = Leader::begin(node);
    let outcome = leader.run(inbox).await;
    leader.end();
    outcome
}

struct Leader<'a> {
    node: &'a Rc<Node>,
    leadership: Rc<Leadership>,
    reads: Reads,
    replicator: Replicator,
    /// There may be something to send.
    may_send: bool,
    /// Scratch for taking majorities.
    matched: Vec<Index>,
    rounds: Vec<u64>,
}

impl<'a> Leader<'a> {
    /// "When a leader first comes to power, it initializes all nextIndex values to the index just after the last
    /// one in its log" (§5.3), and commits "a blank no-op entry into the log at the start of its term" (§8).
    fn begin(node: &'a Rc<Node>) -> Self {
        let last = node.log.last().index;
        let followers = node.others.iter().map(|&id| Follower {
            id,
            progress: RefCell::new(Progress::new(last)),
            heard: Cell::new(Instant::now()),
        });
        let leadership = Rc::new(Leadership {
            term: Cell::new(node.term()),
            followers: followers.collect(),
            round: Cell::new(0),
        });
        node.log.append(Entry { term: node.term(), command: Command::Noop });
        let replicator = Replicator::new(node, &leadership);
        Self {
            node,
            leadership,
            reads: Reads::default(),
            replicator,
            may_send: true,
            matched: Vec::new(),
            rounds: Vec::new(),
        }
    }

    async fn run(&mut self, inbox: &mut Inbox) -> Result<Role, Halt> {
        let node = self.node;
        self.advance_commit();
        let mut quorum_check = self.quorum_check();
        let mut synced = node.log.synced.notified();
        loop {
            if std::mem::take(&mut self.may_send) {
                self.replicator.send_what_is_due();
            }
            select! {
                () = inbox.arrival() => {
                    let Some(message) = inbox.open() else { continue };
                    if message.term().is_some_and(|term| rules::must_adopt(self.term(), term)) {
                        if node.planted().has(Mutant::NoStepDown) {
                            self.keep_leading(message.term().unwrap_or_default()).await?;
                            continue;
                        }
                        inbox.put_back();
                        return Ok(Role::Follower);
                    }
                    match &message {
                        Message::ClientRequest(request) => self.take(*request, inbox.sender()),
                        Message::AppendReply(reply) => self.hear(reply),
                        Message::VoteRequest(ask) => {
                            answer_vote(node, *ask).await?;
                        }
                        Message::Append(append) => refuse_old_leader(node, append),
                        Message::VoteReply(_) | Message::ClientReply(_) => {}
                    }
                },
                () = &mut synced => {
                    synced = node.log.synced.notified();
                    self.advance_commit();
                },
                () = self.replicator.due() => self.may_send = true,
                () = due(&mut quorum_check) => {
                    if !self.has_quorum() {
                        node.world.count("leader out of reach of a quorum", 1);
                        return Ok(Role::Follower);
                    }
                    quorum_check = self.quorum_check();
                },
            }
        }
    }

    fn term(&self) -> Term {
        self.leadership.term.get()
    }

    /// "If command received from client: append entry to local log, respond after entry applied to state
    /// machine" (Figure 2, Rules for Leaders). Reads do not go through the log.
    fn take(&mut self, request: ClientRequest, client: SocketAddr) {
        let ClientRequest { session, sequence, ack_below, op } = request;
        if op.is_read() {
            self.take_read(Read { request, client });
            return;
        }
        if let Some(reply) = self.node.machine.borrow().recall(session, sequence) {
            // A retry of what took effect long ago: any server could answer it, and the log need not grow.
            let answer = Answer::Done(reply);
            let reply = Message::ClientReply(ClientReply { session, sequence, answer });
            self.node.transport.send_to(client, &reply);
            return;
        }
        if self.node.answers.is_expected(session, sequence, client) {
            // A retry of what is under way. Another entry would only make everybody wait longer, and retry more.
            return;
        }
        let command = Command::Client { session, sequence, ack_below, op };
        let index = if self.node.planted().has(Mutant::SplitAppend) {
            planted::append_later(self.node, self.term(), command)
        } else {
            self.node.log.append(Entry { term: self.term(), command })
        };
        self.node.answers.expect(Pending { index, term: self.term(), request, client });
        self.may_send = true;
    }

    fn take_read(&mut self, read: Read) {
        let node = self.node;
        if node.planted().has(Mutant::LocalRead) {
            read.answer(node, self.term(), node.commit());
            return;
        }
        if self.may_take_read_index() {
            self.reads.begin(read, node.commit(), &self.leadership.round);
            self.confirm_reads();
            self.may_send = true;
        } else {
            self.reads.postpone(read);
        }
    }

    /// A follower answered. The reply may be an old one: its term tells.
    fn hear(&mut self, reply: &AppendReply) {
        let node = self.node;
        let Some(follower) = self.leadership.followers.iter().find(|f| f.id == reply.follower) else {
            return;
        };
        if !rules::answers_this_term(self.term(), reply) {
            return;
        }
        follower.heard.set(Instant::now());
        let mut progress = follower.progress.borrow_mut();
        let answered_round = reply.round > progress.round();
        progress.answered_round(reply.round);
        let (news, refused) = match reply.outcome {
            AppendOutcome::Matched(index) => (progress.acknowledged(index, node.planted()), false),
            AppendOutcome::Conflict { refused, hint } => {
                (false, progress.refused(&node.log.entries(), refused, hint))
            }
        };
        let more = progress.may_send(node.log.last().index, node.config.max_inflight_appends);
        drop(progress);

        if news {
            self.advance_commit();
            if node.planted().has(Mutant::LeadAfterAwait) {
                planted::commit_after_own_sync(node, &self.leadership);
            }
        }
        if answered_round {
            self.confirm_reads();
        }
        if refused || more {
            self.may_send = true;
        }
    }

    fn advance_commit(&mut self) {
        let node = self.node;
        let last = node.log.last().index;
        self.matched.clear();
        self.matched.push(rules::leaders_own_match(last, node.log.durable(), node.planted()));
        self.matched.extend(self.leadership.followers.iter().map(|f| f.progress.borrow().matched()));
        let term = self.term();
        let replicated = rules::replicated(&mut self.matched, node.planted());
        let commit =
            rules::leader_commit(&node.log.entries(), replicated, term, node.commit(), node.planted());
        if node.planted().has(Mutant::AckBeforeCommit) {
            node.answers.acknowledge_replicated(node, replicated);
        }
        if commit > node.commit() {
            node.advance_commit(commit);
            probe::point("leader committed");
            self.begin_postponed_reads();
        }
    }

    fn may_take_read_index(&self) -> bool {
        let node = self.node;
        rules::may_take_read_index(&node.log.entries(), node.commit(), self.term(), node.planted())
    }

    fn begin_postponed_reads(&mut self) {
        if self.reads.are_postponed() && self.may_take_read_index() {
            self.reads.begin_postponed(self.node.commit(), &self.leadership.round);
            self.confirm_reads();
            self.may_send = true;
        }
    }

    fn confirm_reads(&mut self) {
        let leadership = &self.leadership;
        self.rounds.clear();
        self.rounds.push(leadership.round.get());
        self.rounds.extend(leadership.followers.iter().map(|f| f.progress.borrow().round()));
        let confirmed = rules::confirmed_round(&mut self.rounds, self.node.planted());
        let began_another = self.reads.confirmed(self.node, self.term(), confirmed, &leadership.round);
        if began_another {
            self.may_send = true;
        }
    }

    fn quorum_check(&self) -> Option<Sleep> {
        // Fine enough that a leader is at most a quarter late.
        let limit_ms = self.node.config.step_down_after_ms?;
        Some(time::sleep(Duration::from_millis(limit_ms.div_ceil(4))))
    }

    fn has_quorum(&self) -> bool {
        let Some(limit_ms) = self.node.config.step_down_after_ms else { return true };
        let mut silences = vec![Duration::ZERO];
        silences.extend(self.leadership.followers.iter().map(|f| f.heard.get().elapsed()));
        rules::quorum_in_reach(&mut silences, Duration::from_millis(limit_ms), self.node.planted())
    }

    /// The planted way to meet a higher term.
    async fn keep_leading(&mut self, term: Term) -> Result<(), Halt> {
        self.node.save(HardState { term, voted_for: None }).await?;
        self.leadership.term.set(term);
        Ok(())
    }

    /// Clients that wait for this leader are sent on. What became of their commands is not known here, and is
    /// for the sessions to sort out.
    fn end(mut self) {
        self.node.leader.set(None);
        if self.node.planted().has(Mutant::ReplicatorOutlivesLeader) {
            planted::go_on_replicating(self.replicator);
        }
        if self.node.planted().has(Mutant::AckBeforeCommit) {
            return;
        }
        for pending in self.node.answers.abandon() {
            self.node.redirect(&pending.request, pending.client);
        }
        for read in self.reads.abandon() {
            self.node.redirect(&read.request, read.client);
        }
    }
}

async fn due(timer: &mut Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => pending().await,
    }
}
