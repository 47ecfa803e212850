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
    senders: Vec<Sender>,
    /// Rings when something is due that nobody has to tell of.
    alarm: Alarm,
}

impl Replicator {
    pub(crate) fn new(node: &Rc<Node>, leadership: &Rc<Leadership>) -> Self {
        let places = 0..leadership.followers.len();
        Self {
            senders: places.map(|at| Sender::new(node, leadership, at)).collect(),
            alarm: Alarm::at(Instant::now()),
        }
    }

    /// Sends what may be sent by now.
    pub(crate) fn send_what_is_due(&mut self) {
        let now = Instant::now();
        if let Some(deadline) = self.senders.iter_mut().map(|sender| sender.send_what_is_due(now)).min() {
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
    node: Rc<Node>,
    leadership: Rc<Leadership>,
    /// The follower's place in the leadership.
    at: usize,
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
    fn new(node: &Rc<Node>, leadership: &Rc<Leadership>, at: usize) -> Self {
        let now = Instant::now();
        let slow = node.planted().has(Mutant::ControlSlowHeartbeat);
        let heartbeat = node.config.heartbeat() * if slow { 2 } else { 1 };
        Self {
            node: node.clone(),
            leadership: leadership.clone(),
            at,
            heartbeat_at: now + heartbeat,
            heartbeat,
            patience_from: now,
            pause: node.config.append_retransmit(),
            matched_then: Index::ZERO,
            round_sent: 0,
        }
    }

    fn follower(&self) -> &Follower {
        &self.leadership.followers[self.at]
    }

    /// Returns when it is to be called again at the latest.
    fn send_what_is_due(&mut self, now: Instant) -> Instant {
        self.note_progress(now);
        if self.is_waiting() && now >= self.resend_at() {
            self.follower().progress.borrow_mut().rewind();
            let answered = self.follower().progress.borrow().round();
            self.round_sent = answered;
            self.pause = (self.pause * 2).min(self.node.config.append_retransmit() * MAX_BACKOFF);
            self.patience_from = now;
        }
        while self.may_send_entries() {
            self.send_entries(now);
        }
        // "heartbeats [...] repeat during idle periods to prevent election timeouts" (Figure 2); a read round
        // does not wait for one.
        if now >= self.heartbeat_at || self.round_sent < self.leadership.round.get() {
            self.send_heartbeat(now);
        }
        if self.is_waiting() { self.heartbeat_at.min(self.resend_at()) } else { self.heartbeat_at }
    }

    /// A reply of any kind shows that the follower is alive, and there is no need to spare it. But only an
    /// acknowledgement shows that the entries arrived: replies to heartbeats and rounds must not put off sending
    /// lost entries again.
    fn note_progress(&mut self, now: Instant) {
        if self.follower().heard.get() > self.patience_from {
            self.pause = self.node.config.append_retransmit();
        }
        let matched = self.follower().progress.borrow().matched();
        if matched > self.matched_then {
            self.matched_then = matched;
            self.patience_from = now;
        }
    }

    /// Whether an answer is outstanding that the sender would ask for again.
    fn is_waiting(&self) -> bool {
        let progress = self.follower().progress.borrow();
        progress.is_waiting() || progress.round() < self.round_sent
    }

    fn resend_at(&self) -> Instant {
        self.patience_from + self.pause
    }

    fn may_send_entries(&self) -> bool {
        let window = self.node.config.max_inflight_appends;
        self.follower().progress.borrow().may_send(self.node.log.last().index, window)
    }

    fn send_entries(&mut self, now: Instant) {
        let most = self.node.config.max_entries_per_append.min(MAX_ENTRIES_PER_FRAME);
        let (next, limit) = {
            let progress = self.follower().progress.borrow();
            (progress.next(), progress.may_carry(most))
        };
        if !self.is_waiting() {
            self.patience_from = now;
        }
        let count = self.send(next.prev(), limit, now);
        self.follower().progress.borrow_mut().sent(count);
        probe::point("append sent");
    }

    /// Behind what the follower acknowledged, so that it is never refused, however it overtakes entries.
    fn send_heartbeat(&mut self, now: Instant) {
        if !self.is_waiting() {
            self.patience_from = now;
        }
        let matched = self.follower().progress.borrow().matched();
        self.send(matched, 0, now);
    }

    /// Sends up to `limit` entries that follow `prev`; returns how many.
    fn send(&mut self, prev: Index, limit: usize, now: Instant) -> usize {
        let node = &*self.node;
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
            to: self.follower().id.0.into(),
            prev_index: prev.0,
            prev_term: head.prev.term.0,
            commit_count: head.commit.0 << 16 | entries.len() as u64,
        });
        node.transport.send_append(self.follower().id, &head, entries);
        let (round, count) = (head.round, entries.len());
        drop(log);
        self.heartbeat_at = now + self.heartbeat;
        self.round_sent = round;
        count
    }

    /// The term of this leadership, whatever the node's has become.
    fn term(&self) -> Term {
        if self.node.planted().has(Mutant::ReplicatorOutlivesLeader) {
            return self.node.term();
        }
        self.leadership.term.get()
    }
}
