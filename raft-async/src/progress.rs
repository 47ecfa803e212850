//! What a leader knows of one follower, and what it may send it next.
//!
//!   probing ──first acknowledgement──► streaming ──refusal, silence──► probing
//!
//! "For each follower, leader maintains a nextIndex" and a matchIndex (Figure 2, volatile state on leaders).
//! While it looks for the place where the logs agree it sends one request at a time; then it streams, up to a
//! window of requests ahead of the acknowledgements. Messages may be lost, doubled and overtaken, replies too.
//!
//! Invariants: `matched` grows only by what the follower acknowledged in this term, and never falls; `next` is
//! above it.
//! Not here: sending, and time (`replicator.rs`).

use crate::entries::Entries;
use crate::mutant::{Mutant, Planted};
use crate::rules;
use crate::types::Index;
use crate::wire::ConflictHint;
use std::collections::VecDeque;

/// A request with entries that is not acknowledged.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Sent {
    prev: Index,
    last: Index,
}

/// One follower, as its leader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    matched: Index,
    next: Index,
    /// In the order sent.
    in_flight: VecDeque<Sent>,
    probing: bool,
    /// The latest read round that the follower answered.
    round: u64,
}

impl Progress {
    /// "initialized to leader last log index + 1", the no-op of the new term excluded.
    pub fn new(last: Index) -> Self {
        Self { matched: Index::ZERO, next: last.next(), in_flight: VecDeque::new(), probing: true, round: 0 }
    }

    /// "index of highest log entry known to be replicated on server".
    pub fn matched(&self) -> Index {
        self.matched
    }

    /// "index of the next log entry to send to that server".
    pub fn next(&self) -> Index {
        self.next
    }

    /// The latest read round that the follower answered.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Whether entries are sent and not acknowledged.
    pub fn is_waiting(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether entries up to `last` may be sent now.
    pub fn may_send(&self, last: Index, window: usize) -> bool {
        let window = if self.probing { 1 } else { window };
        self.next <= last && self.in_flight.len() < window
    }

    /// How many of at most `limit` entries a request may carry: a probe only asks where the logs agree, and it may have to
    /// ask often. On a stream whatever a refused request carried would delay all that comes after it.
    pub fn may_carry(&self, limit: usize) -> usize {
        if self.probing { limit.min(1) } else { limit }
    }

    /// `count` entries from [`Progress::next`] on were sent.
    pub fn sent(&mut self, count: usize) {
        let prev = self.next.prev();
        let last = prev.plus(count as u64);
        self.in_flight.push_back(Sent { prev, last });
        self.next = last.next();
    }

    /// The follower answered a round.
    pub fn answered_round(&mut self, round: u64) {
        self.round = self.round.max(round);
    }

    /// The follower vouches for its log up to `index`. True when that is news.
    pub fn acknowledged(&mut self, index: Index, planted: Planted) -> bool {
        let news = index > self.matched;
        self.matched = self.matched.max(index);
        if planted.has(Mutant::MatchFromNext) {
            self.matched = self.next.prev();
        }
        self.next = self.next.max(self.matched.next());
        while self.in_flight.front().is_some_and(|sent| sent.last <= self.matched) {
            self.in_flight.pop_front();
        }
        if news {
            self.probing = false;
        }
        news
    }

    /// The follower refused the request whose previous index was `refused`. True when that changes what is sent
    /// next: the refusal of a request that is no longer in flight was overtaken by what we know since.
    pub fn refused(&mut self, log: &Entries, refused: Index, hint: ConflictHint) -> bool {
        let in_flight = self.in_flight.iter().any(|sent| sent.prev == refused);
        if !in_flight || refused <= self.matched {
            return false;
        }
        self.next = rules::next_after_conflict(log, refused, hint, self.matched);
        self.in_flight.clear();
        self.probing = true;
        true
    }

    /// The follower was silent for long: whatever is unacknowledged goes out again, one request first.
    pub fn rewind(&mut self) {
        if let Some(first) = self.in_flight.front() {
            self.next = first.prev.max(self.matched).next();
        }
        self.in_flight.clear();
        self.probing = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::fixtures::log;
    use crate::types::Term;

    const SOUND: Planted = Planted::NONE;

    /// A follower that acknowledged everything up to 5 of a log of 5.
    fn streaming() -> Progress {
        let mut follower = Progress::new(Index(4));
        follower.sent(1);
        follower.acknowledged(Index(5), SOUND);
        follower
    }

    #[test]
    fn a_probe_is_alone_and_a_stream_fills_its_window() {
        let mut follower = Progress::new(Index(4));
        assert!(follower.may_send(Index(9), 3));
        follower.sent(1);
        assert!(!follower.may_send(Index(9), 3));
        follower.acknowledged(Index(5), SOUND);
        for _ in 0..3 {
            assert!(follower.may_send(Index(9), 3));
            follower.sent(1);
        }
        assert!(!follower.may_send(Index(9), 3));
        follower.acknowledged(Index(6), SOUND);
        assert!(follower.may_send(Index(9), 3));
    }

    #[test]
    fn a_probe_carries_one_entry_and_so_does_the_first_request_after_silence() {
        let mut follower = Progress::new(Index(4));
        assert_eq!(follower.may_carry(64), 1);
        follower.sent(1);
        follower.acknowledged(Index(5), SOUND);
        assert_eq!(follower.may_carry(64), 64);
        follower.rewind();
        assert_eq!(follower.may_carry(64), 1);
    }

    #[test]
    fn acknowledgements_may_be_doubled_and_overtaken() {
        let mut follower = streaming();
        follower.sent(2);
        follower.sent(2);
        assert!(follower.acknowledged(Index(9), SOUND));
        assert!(!follower.acknowledged(Index(7), SOUND));
        assert_eq!((follower.matched(), follower.next()), (Index(9), Index(10)));
        assert!(!follower.is_waiting());
    }

    /// "After a rejection, the leader decrements nextIndex and retries the AppendEntries RPC" (§5.3).
    #[test]
    fn a_refusal_leads_back_and_only_once() {
        let leader = log(&[1, 1, 1, 1, 1, 2, 2, 2]);
        let mut follower = streaming();
        follower.sent(1);
        follower.sent(1);
        follower.sent(1);
        // The request for 6 was lost; those for 7 and 8 are refused.
        let hint = ConflictHint { term: Term(0), first: Index(6) };
        assert!(follower.refused(&leader, Index(6), hint));
        assert_eq!(follower.next(), Index(6));
        assert!(!follower.refused(&leader, Index(7), hint), "the second refusal says nothing new");
        assert!(follower.may_send(Index(8), 3));
    }

    #[test]
    fn a_refusal_never_leads_below_what_was_acknowledged() {
        let leader = log(&[1, 1, 1, 1, 1, 2, 2]);
        let mut follower = streaming();
        follower.sent(1);
        follower.sent(1);
        assert!(follower.refused(&leader, Index(6), ConflictHint { term: Term(1), first: Index(1) }));
        assert_eq!(follower.next(), Index(6));
        follower.sent(1);
        assert!(!follower.refused(&leader, Index(5), ConflictHint { term: Term(0), first: Index(1) }));
    }

    #[test]
    fn silence_sends_the_unacknowledged_again_from_where_it_began() {
        let mut probing = Progress::new(Index(4));
        probing.sent(1);
        probing.rewind();
        assert_eq!(probing.next(), Index(5), "the probe is repeated, not the whole log");
        let mut follower = streaming();
        follower.sent(2);
        follower.sent(2);
        follower.acknowledged(Index(6), SOUND);
        follower.rewind();
        assert_eq!(follower.next(), Index(7));
        assert!(!follower.is_waiting());
    }
}
