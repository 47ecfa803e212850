//! One direction of a connection: how far its bytes have come, and what its sender knows of that.
//!
//!   0      1 ..         read       delivered       sent        written   (+1)
//!   hello  │ read by    │ in the    │ under way,   │ waits for  │ end
//!          │ the other  │ receiver's│ lost, or     │ the        │ of stream
//!          │ program    │ buffer    │ being sent   │ window     │
//!                       └──────────── `bytes` ──────────────────┘
//!
//! Places count from 0: the handshake takes place 0, the bytes follow from 1, the end of the stream (FIN) takes
//! the place after the last byte. Both buffers are one here, since no byte is ever in both: a kernel's send
//! buffer is what its program's write is measured against, not where the bytes lie.
//!
//! `acked` and `window_end` are what the *sender* knows. They follow one latency behind, by credits: each delivery
//! and each larger read sends one back. A credit has no timer of its own, unless somebody waits for it: it is
//! taken into account when the lane is looked at next ([`Lane::settle`]).
//!
//! Invariants: read <= delivered <= sent <= end; acked <= delivered; arrivals are in order.
//! Not here: sending and arriving (`transmit.rs`).

use std::collections::VecDeque;

use sim_runtime::rng::{Sample, hash_bytes};
use sim_runtime::timer::TimerKey;

use super::stretch::Stretch;

/// What was sent at one instant and will arrive at one.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) sent_ns: u64,
    pub(super) arrives_ns: u64,
    pub(super) hash: u64,
}

/// An acknowledgement on its way back.
#[derive(Debug)]
struct Credit {
    arrives_ns: u64,
    acked: u64,
    window_end: u64,
}

/// Whether operations are cut short in the current bucket.
#[derive(Debug, Default)]
pub(super) struct Whim {
    pub(super) known_until_ns: u64,
    pub(super) sample: Option<Sample>,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) bytes: Stretch,
    pub(super) read: u64,
    pub(super) delivered: u64,
    pub(super) sent: u64,
    pub(super) written: u64,
    /// The stream ends at `written`.
    pub(super) fin: bool,
    pub(super) acked: u64,
    pub(super) window_end: u64,
    /// The highest window that the receiver has announced, whether or not that arrived.
    pub(super) announced_end: u64,
    pub(super) air: VecDeque<Flight>,
    credits: VecDeque<Credit>,
    pub(super) last_arrival_ns: u64,
    /// Something between `delivered` and `sent` is lost: nothing after it is delivered before it was sent again.
    pub(super) hole: bool,
    /// When it is sent again.
    pub(super) retry: Option<TimerKey>,
    /// How often in a row.
    pub(super) retries: u32,
    /// A timer for the next credit is set.
    pub(super) credit_awaited: bool,
    /// The window keeps bytes back.
    pub(super) window_full: bool,
    pub(super) read_whim: Whim,
    pub(super) write_whim: Whim,
}

impl Lane {
    /// A lane whose handshake has come to `place` (0: not begun, 1: done).
    pub(super) fn new(place: u64, window_bytes: usize) -> Self {
        let window_end = 1 + window_bytes as u64;
        Self {
            read: 1,
            delivered: place,
            sent: place,
            written: 1,
            acked: place,
            window_end,
            announced_end: window_end,
            ..Self::default()
        }
    }

    /// The place after all that is to be sent so far.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// How many bytes the receiving program could read now.
    #[inline]
    pub(super) fn available(&self) -> usize {
        self.delivered.min(self.written).saturating_sub(self.read) as usize
    }

    /// Whether the receiver knows that nothing will follow.
    #[inline]
    pub(super) fn is_ended(&self) -> bool {
        self.fin && self.delivered > self.written
    }

    /// Whether the sender knows that everything arrived, the end too.
    pub(super) fn is_finished(&self) -> bool {
        self.fin && self.acked == self.end()
    }

    /// How many bytes a write may add.
    #[inline]
    pub(super) fn room(&self, buffer_bytes: usize) -> usize {
        let held = self.written - self.acked.clamp(1, self.written);
        (buffer_bytes as u64).saturating_sub(held) as usize
    }

    /// How many bytes the places from `begin` to `end` hold, and their hash; 0 for none.
    #[inline]
    pub(super) fn hash(&self, begin: u64, end: u64) -> (u32, u64) {
        let (begin, end) = (begin.clamp(self.read, self.written), end.clamp(self.read, self.written));
        if begin == end {
            return (0, 0);
        }
        let bytes = &self.bytes.rest()[(begin - self.read) as usize..(end - self.read) as usize];
        (bytes.len() as u32, hash_bytes(0, bytes))
    }

    /// Takes what the receiver has read, or what was destroyed unread, out of the buffer.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.bytes.consume(count);
        self.read += count as u64;
    }

    /// An acknowledgement went off. One that arrives before earlier ones replaces them.
    #[inline]
    pub(super) fn credit(&mut self, arrives_ns: u64, window_end: u64) {
        while self.credits.back().is_some_and(|credit| credit.arrives_ns >= arrives_ns) {
            self.credits.pop_back();
        }
        self.credits.push_back(Credit { arrives_ns, acked: self.delivered, window_end });
    }

    /// When the next acknowledgement arrives.
    pub(super) fn next_credit_ns(&self) -> Option<u64> {
        self.credits.front().map(|credit| credit.arrives_ns)
    }

    /// Brings what the sender knows up to date.
    #[inline]
    pub(super) fn settle(&mut self, now_ns: u64) {
        while let Some(credit) = self.credits.front()
            && credit.arrives_ns <= now_ns
        {
            // The other side lives: an answer, even one with nothing new in it, ends the back-off.
            self.retries = 0;
            self.acked = self.acked.max(credit.acked);
            self.window_end = self.window_end.max(credit.window_end);
            self.credits.pop_front();
        }
    }
}
