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

use sim_runtime::Handle;
use sim_runtime::rng::{Field, Sample, hash_bytes};
use sim_runtime::timer::TimerKey;

use super::stretch::Stretch;
use crate::net::queue::Queue;

/// What was sent at one instant and will arrive at one.
#[derive(Copy, Clone, Debug)]
pub(super) struct Flight {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) sent_ns: u64,
    pub(super) hash: u64,
    /// What it says of the other direction.
    pub(super) heard: Heard,
}

/// What a receiver says: up to where all has arrived, and up to where there is room.
#[derive(Copy, Clone, Debug)]
pub(super) struct Heard {
    pub(super) acked: u64,
    pub(super) window_end: u64,
}

/// An acknowledgement on its way back.
#[derive(Copy, Clone, Debug)]
struct Credit {
    arrives_ns: u64,
    heard: Heard,
}

/// Whether operations are cut short in the current bucket.
#[derive(Debug, Default)]
pub(super) struct Whim {
    known_until_ns: u64,
    sample: Option<Sample>,
}

impl Whim {
    /// How much of `there`, which are two or more, an operation gets now.
    #[inline(never)]
    pub(super) fn shorten(
        &mut self,
        world: &Handle,
        field: Field,
        key: u64,
        chance: u32,
        there: usize,
    ) -> usize {
        let now_ns = world.now_ns();
        if now_ns >= self.known_until_ns {
            self.known_until_ns = field.bucket_end_ns(now_ns);
            let sample = world.sample(field, key);
            self.sample = sample.chance(chance).then(|| sample.split(0));
        }
        self.sample.map_or(there, |sample| sample.range(1, there as u64) as usize)
    }
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
    pub(super) air: Queue<Flight>,
    credits: Queue<Credit>,
    /// When the last flight in the air arrives, or did.
    pub(super) last_arrival_ns: u64,
    /// Something between `delivered` and `sent` is lost: nothing after it is delivered before it was sent again.
    pub(super) hole: bool,
    /// When it is sent again.
    pub(super) retry: Option<TimerKey>,
    /// How often in a row.
    pub(super) retries: u32,
    /// More was acknowledged, and the sender has not acted on it.
    pub(super) has_news: bool,
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
        let window_end = (window_bytes as u64).saturating_add(1);
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
        let held = self.written - self.acked.max(1).min(self.written);
        (buffer_bytes as u64).saturating_sub(held) as usize
    }

    /// How many bytes the places from `begin` to `end` hold, and their hash; 0 for none.
    #[inline]
    pub(super) fn hash(&self, begin: u64, end: u64) -> (u32, u64) {
        let (begin, end) = (begin.max(self.read), end.min(self.written));
        if begin >= end {
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

    /// What the receiver has to say now.
    #[inline]
    pub(super) fn say(&self, window_bytes: usize) -> Heard {
        Heard { acked: self.delivered, window_end: self.read + window_bytes as u64 }
    }

    /// An acknowledgement went off. One that arrives before earlier ones replaces them.
    #[inline]
    pub(super) fn credit(&mut self, arrives_ns: u64, heard: Heard) {
        while self.credits.last_mut().is_some_and(|credit| credit.arrives_ns >= arrives_ns) {
            self.credits.take_last();
        }
        self.credits.push(Credit { arrives_ns, heard });
    }

    /// When the next acknowledgement arrives.
    pub(super) fn next_credit_ns(&self) -> Option<u64> {
        self.credits.first().map(|credit| credit.arrives_ns)
    }

    /// Brings what the sender knows up to date.
    #[inline]
    pub(super) fn settle(&mut self, now_ns: u64) {
        while let Some(credit) = self.credits.take_first_if(|credit| credit.arrives_ns <= now_ns) {
            self.hear(credit.heard);
        }
    }

    /// The sender hears from the receiver. If more is acknowledged than before, or it was a probe that is
    /// answered, that ends the back-off.
    #[inline]
    pub(super) fn hear(&mut self, heard: Heard) {
        self.has_news |= heard.acked > self.acked;
        if heard.acked > self.acked || self.acked == self.sent {
            self.retries = 0;
        }
        self.acked = self.acked.max(heard.acked);
        self.window_end = self.window_end.max(heard.window_end);
    }
}
