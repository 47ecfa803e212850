//! The replicator: keeps each follower's log equal to the leader's (§5.3).
//!
//! It sends each follower whatever may be sent; the leader has it do so when there may be more, and when it is time:
//! for a heartbeat, or to send again what was not acknowledged. A heartbeat is due only where nothing else was sent;
//! sending again backs off, and starts over with the first sign of life.
//!
//! A part of the leader and no task: the command that is taken and the messages that carry it leave in one turn.
//!
//! Not here: what may be sent (`progress.rs`), acknowledgements (`leader.rs`).

use crate::alarm::Alarm;
use crate::leader::{Follower, Leadership};
use crate::mutant::Mutant;
use crate::node::Node;
use crate::progress::Progress;
use crate::trace::AppendSent;
use crate::types::{Index, Term};
use crate::wire::{AppendRequest, Entries, MAX_ENTRIES_PER_FRAME};
use sim_runtime::probe;
use sim_runtime::time::Instant;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

/// The pause before sending again is doubled each time, up to so many times its first length.
const MAX_BACKOFF: u32 = 16;

/// The replication of one leadership.
pub(crate) struct Replicator {
    node: Rc<Node>,
    leadership: Rc<Leadership>,
    /// One for each follower of the leadership, in the same order.
    senders: Vec<Sender>,
    /// Rings when something is due that nobody has to tell of.
    alarm: Alarm,
}

impl Replicator {
    pub(crate) fn new(node: &Rc<Node>, leadership: &Rc<Leadership>) -> Self {
        Self {
            node: node.clone(),
            leadership: leadership.clone(),
            senders: leadership.followers.iter().map(|_| Sender::new(node)).collect(),
            alarm: Alarm::at(Instant::now()),
        }
    }

    /// Sends what may be sent by now.
    pub(crate) fn send_what_is_due(&mut self) {
        let now = Instant::now();
        let (node, leadership) = (&*self.node, &*self.leadership);
        let followers = leadership.followers.iter();
        let deadlines =
            self.senders.iter_mut().zip(followers).map(|(sender, follower)| {
                Sending { node, leadership, follower, sender, now }.send_what_is_due()
            });
        if let Some(deadline) = deadlines.min() {
            self.alarm.move_to(deadline);
        }
    }

    /// Waits until something is due. May be dropped and called again.
    pub(crate) async fn due(&mut self) {
        if self.senders.is_empty() {
            return pending().await;
        }
        self.alarm.rung().await;
    }
}

/// What the replicator remembers of its sending to one follower.
struct Sender {
    /// When a heartbeat is due, because nothing else was sent since the last message.
    heartbeat_at: Instant,
    heartbeat: Duration,
    /// When something unacknowledged was last sent (again), or acknowledged in part.
    patience_from: Instant,
    /// From then on: until it is sent again.
    pause: Duration,
    /// What the follower had acknowledged then.
    matched_then: Index,
    round_sent: u64,
}

impl Sender {
    fn new(node: &Node) -> Self {
        let now = Instant::now();
        let slow = node.planted().has(Mutant::ControlSlowHeartbeat);
        let heartbeat = node.config.heartbeat() * if slow { 2 } else { 1 };
        Self {
            heartbeat_at: now + heartbeat,
            heartbeat,
            patience_from: now,
            pause: node.config.append_retransmit(),
            matched_then: Index::ZERO,
            round_sent: 0,
        }
    }

    fn resend_at(&self) -> Instant {
        self.patience_from + self.pause
    }

    /// Whether an answer is outstanding that the sender would ask for again.
    fn is_waiting(&self, progress: &Progress) -> bool {
        progress.is_waiting() || progress.round() < self.round_sent
    }
}

/// Sending to one follower, at one time.
struct Sending<'a> {
    node: &'a Node,
    leadership: &'a Leadership,
    follower: &'a Follower,
    sender: &'a mut Sender,
    now: Instant,
}

impl Sending<'_> {
    /// Returns when it is to be done again at the latest.
    fn send_what_is_due(mut self) -> Instant {
        let now = self.now;
        let progress = &mut *self.follower.progress.borrow_mut();
        self.note_progress(progress);
        if self.sender.is_waiting(progress) && now >= self.sender.resend_at() {
            progress.rewind();
            self.sender.round_sent = progress.round();
            let longest = self.node.config.append_retransmit() * MAX_BACKOFF;
            self.sender.pause = (self.sender.pause * 2).min(longest);
            self.sender.patience_from = now;
        }
        let window = self.node.config.max_inflight_appends;
        while progress.may_send(self.node.log.last().index, window) {
            self.send_entries(progress);
        }
        // "heartbeats [...] repeat during idle periods to prevent election timeouts" (Figure 2); a read round
        // does not wait for one.
        if now >= self.sender.heartbeat_at || self.sender.round_sent < self.leadership.round.get() {
            self.send_heartbeat(progress);
        }
        let Sender { heartbeat_at, .. } = *self.sender;
        if self.sender.is_waiting(progress) {
            heartbeat_at.min(self.sender.resend_at())
        } else {
            heartbeat_at
        }
    }

    /// A reply of any kind shows that the follower is alive, and there is no need to spare it. But only an
    /// acknowledgement shows that the entries arrived: replies to heartbeats and rounds must not put off sending
    /// lost entries again.
    fn note_progress(&mut self, progress: &Progress) {
        let sender = &mut *self.sender;
        if self.follower.heard.get() > sender.patience_from {
            sender.pause = self.node.config.append_retransmit();
        }
        if progress.matched() > sender.matched_then {
            sender.matched_then = progress.matched();
            sender.patience_from = self.now;
        }
    }

    fn send_entries(&mut self, progress: &mut Progress) {
        let most = self.node.config.max_entries_per_append.min(MAX_ENTRIES_PER_FRAME);
        let count = self.send(progress, progress.next().prev(), progress.may_carry(most));
        progress.sent(count);
        probe::point("append sent");
    }

    /// Behind what the follower acknowledged, so that it is never refused, however it overtakes entries.
    fn send_heartbeat(&mut self, progress: &Progress) {
        self.send(progress, progress.matched(), 0);
    }

    /// Sends up to `limit` entries that follow `prev`; returns how many.
    fn send(&mut self, progress: &Progress, prev: Index, limit: usize) -> usize {
        let (node, follower) = (self.node, self.follower);
        if !self.sender.is_waiting(progress) {
            self.sender.patience_from = self.now;
        }
        let log = node.log.entries();
        let mut entries = log.batch(prev.next(), limit);
        let cached;
        if node.planted().has(Mutant::EntryCacheStaleSuffix) {
            cached = node.log.cached(prev.next(), entries.len());
            entries = &cached;
        }
        let head = AppendRequest {
            term: self.term(),
            leader: node.me(),
            prev: log.ending_at(prev).unwrap_or_default(),
            commit: node.commit(),
            round: self.leadership.round.get(),
            entries: Entries::NONE,
        };
        node.world.emit(AppendSent {
            term: head.term.0,
            to: follower.id.0.into(),
            prev_index: prev.0,
            prev_term: head.prev.term.0,
            commit_count: head.commit.0 << 16 | entries.len() as u64,
        });
        node.transport.send_append(follower.id, &head, entries);
        self.sender.heartbeat_at = self.now + self.sender.heartbeat;
        self.sender.round_sent = head.round;
        entries.len()
    }

    /// The term of this leadership, whatever the node's has become.
    fn term(&self) -> Term {
        if self.node.planted().has(Mutant::ReplicatorOutlivesLeader) {
            return self.node.term();
        }
        self.leadership.term.get()
    }
}
