//! The trace channel: what happened, in one order, as fixed-size records.
//!
//! Everything that can be judged goes through here: the runtime, the devices and the system under test append
//! typed records, oracles read them after the step that left them, and the behaviour digest covers every bit.
//!
//!   emit(payload) ──► Record (64 bytes) ──► digest
//!                                      └──► recent records ──► invariants, `replay --trace`
//!
//! Invariants: a record is never changed; ordinals have no gaps; without `keep` only the recent past is held,
//! so that memory does not grow with the length of a run.
//! Not here: what a record means (its crate owns the kind), `tracing` events (`event.rs`).

use crate::context;
use crate::node::{NodeId, Owner};
use crate::rng::{fold, mix};

/// What a record is about. Ranges are owned by crates: 0-99 this one, 100-199 sim-io, 200-299 raft-async,
/// 300-399 oracles and harness, from [`OPEN_KINDS`] on any other program.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u16);

/// From here on kinds belong to programs, and every invariant is taken to look at them.
pub const OPEN_KINDS: u16 = 1_000;

/// One thing that happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Record {
    /// Global virtual time.
    pub time_ns: u64,
    /// At which node.
    pub node: NodeId,
    /// What is meant by `aux` and `words`.
    pub kind: Kind,
    /// By which task; 0 for devices and the runtime.
    pub task: u32,
    /// In which incarnation of the node.
    pub incarnation: u32,
    /// A small part of the payload.
    pub aux: u32,
    /// The payload.
    pub words: [u64; 5],
}

const _: () = assert!(size_of::<Record>() == 64, "a record is one cache line");

impl Record {
    /// The payload, if it is of type `P`.
    #[inline]
    pub fn get<P: Payload>(&self) -> Option<P> {
        (self.kind == P::KIND).then(|| P::decode(self.aux, &self.words))
    }

    /// The incarnation that it belongs to.
    pub fn owner(&self) -> Owner {
        Owner { node: self.node, incarnation: self.incarnation }
    }

    /// In words, if it is one of the runtime's own.
    pub(crate) fn describe(&self) -> Option<String> {
        if self.get::<NodeUp>().is_some() {
            return Some("the node boots".to_owned());
        }
        if let Some(NodeDown { how, fault }) = self.get() {
            return Some(format!("the node goes down: {how:?}, fault {fault}"));
        }
        if let Some(NodePaused { paused }) = self.get() {
            return Some(if paused { "the node is paused" } else { "the node goes on" }.to_owned());
        }
        if let Some(TaskPanicked { digest }) = self.get() {
            return Some(format!("a task panics ({digest:016x})"));
        }
        if self.get::<ForeignWake>().is_some() {
            return Some("a wake from a thread outside the simulation".to_owned());
        }
        let EventCaptured { ordinal, digest } = self.get()?;
        Some(format!("tracing event {ordinal} ({digest:016x})"))
    }

    #[inline]
    pub(crate) fn digest(&self, seed: u64) -> u64 {
        const K: [u64; 4] =
            [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB, 0x8EBC_6AF0_9C88_C6E3, 0x5899_65CC_7537_4CC3];
        // As they lie in memory, so that each of the two is one load.
        let who = u64::from(self.node.0) | u64::from(self.kind.0) << 16 | u64::from(self.task) << 32;
        let rest = u64::from(self.incarnation) | u64::from(self.aux) << 32;
        let a = fold(self.time_ns ^ K[0] ^ seed, who ^ K[1]);
        let b = fold(rest ^ K[2], self.words[0] ^ K[3]);
        let c = fold(self.words[1] ^ K[1], self.words[2] ^ K[2]);
        let d = fold(self.words[3] ^ K[3], self.words[4] ^ K[0]);
        let left = a ^ b.rotate_left(17);
        let right = c ^ d.rotate_left(31);
        fold(left ^ K[1], right ^ K[0]).wrapping_add(left.rotate_left(7)) ^ seed.rotate_left(29)
    }
}

/// A typed record. `decode(encode(p)) == p`.
pub trait Payload: Sized {
    /// The kind that stands for this type; no other type has it.
    const KIND: Kind;
    /// To the words of a record.
    fn encode(&self) -> (u32, [u64; 5]);
    /// From the words of a record of this kind.
    fn decode(aux: u32, words: &[u64; 5]) -> Self;
}

/// Appends a record on behalf of the code that runs now. Outside a run nothing happens.
#[inline]
pub fn emit<P: Payload>(payload: P) {
    context::with(|handle| handle.emit(payload));
}

/// How a node went down.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Down {
    /// The process was killed: what it had written stays in the page cache.
    Kill = 0,
    /// The power failed: what was not synced is at risk.
    PowerOff = 1,
    /// The process ended by itself.
    Exit = 2,
}

/// A node was booted; the record's incarnation is the new one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NodeUp;

/// A node went down.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NodeDown {
    /// How.
    pub how: Down,
    /// The fault that did it, 0 for none.
    pub fault: u64,
}

/// The tasks of a node stopped (`paused`) or went on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NodePaused {
    /// Whether it is paused now.
    pub paused: bool,
}

/// A window was open on a node when a fault hit that node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct WindowHit {
    /// Hash of the window's name.
    pub window: u64,
    /// How long it had been open.
    pub open_for_ns: u64,
}

/// A task panicked.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TaskPanicked {
    /// Hash of the message and place.
    pub digest: u64,
}

/// A waker was called from a thread that is not the world's.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ForeignWake;

/// A `tracing` event was captured; its text is in the event list at `ordinal`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct EventCaptured {
    /// Position in the event list.
    pub ordinal: u64,
    /// Hash of name, level and fields.
    pub digest: u64,
}

/// Declares [`Payload`] for a struct by its conversion to and from words.
macro_rules! payload {
    ($name:ty = $kind:literal, |$p:ident| $encode:expr, |$aux:ident, $w:ident| $decode:expr) => {
        impl Payload for $name {
            const KIND: Kind = Kind($kind);
            #[inline]
            fn encode(&self) -> (u32, [u64; 5]) {
                let $p = self;
                $encode
            }
            #[inline]
            fn decode($aux: u32, $w: &[u64; 5]) -> Self {
                $decode
            }
        }
    };
}

payload!(NodeUp = 1, |_p| (0, [0; 5]), |_aux, _w| NodeUp);
payload!(NodeDown = 2, |p| (p.how as u32, [p.fault, 0, 0, 0, 0]), |aux, w| {
    let how = match aux {
        0 => Down::Kill,
        1 => Down::PowerOff,
        _ => Down::Exit,
    };
    NodeDown { how, fault: w[0] }
});
payload!(NodePaused = 3, |p| (u32::from(p.paused), [0; 5]), |aux, _w| NodePaused { paused: aux != 0 });
payload!(WindowHit = 4, |p| (0, [p.window, p.open_for_ns, 0, 0, 0]), |_aux, w| WindowHit {
    window: w[0],
    open_for_ns: w[1]
});
payload!(TaskPanicked = 5, |p| (0, [p.digest, 0, 0, 0, 0]), |_aux, w| TaskPanicked { digest: w[0] });
payload!(ForeignWake = 6, |_p| (0, [0; 5]), |_aux, _w| ForeignWake);
payload!(EventCaptured = 7, |p| (0, [p.ordinal, p.digest, 0, 0, 0]), |_aux, w| EventCaptured {
    ordinal: w[0],
    digest: w[1]
});

/// Records that stay readable when a run does not keep all of them.
const RECENT: usize = 64;

/// The kinds that invariants look at.
#[derive(Debug, Default)]
struct Interests([u64; (OPEN_KINDS as usize).div_ceil(64)]);

impl Interests {
    fn add(&mut self, kind: u16) {
        self.0[usize::from(kind) / 64] |= 1 << (kind % 64);
    }

    #[inline]
    fn has(&self, kind: u16) -> bool {
        self.0.get(usize::from(kind) / 64).is_none_or(|word| word >> (kind % 64) & 1 == 1)
    }
}

/// The records of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    records: Vec<Record>,
    /// Ordinal of `records[0]`.
    base: u64,
    /// How many of all records the invariants have seen.
    seen: u64,
    interests: Interests,
    /// A record that concerns an invariant has come, or so many that it is time to let go of some.
    wants_look: bool,
    keep: bool,
    /// Over the first `digested` of `records`, and all that were before them.
    digest: u64,
    digested: usize,
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        let records = Vec::with_capacity(8 * RECENT);
        Self {
            records,
            base: 0,
            seen: 0,
            interests: Interests::default(),
            wants_look: false,
            keep,
            digest: 0,
            digested: 0,
        }
    }

    /// Small, since it stands wherever something is recorded: the digest follows later, for many records in a row.
    #[inline]
    pub(crate) fn push(&mut self, record: Record) {
        self.wants_look |= self.interests.has(record.kind.0);
        self.records.push(record);
        if self.records.len() == self.records.capacity() {
            self.wants_look = true;
        }
    }

    fn digest_of_held(&self) -> u64 {
        self.records[self.digested..].iter().fold(self.digest, |digest, record| record.digest(digest))
    }

    /// From now on records of these kinds are looked at after the step that leaves them.
    pub(crate) fn look_at(&mut self, concerns: impl Fn(Kind) -> bool) {
        (0..OPEN_KINDS).filter(|kind| concerns(Kind(*kind))).for_each(|kind| self.interests.add(kind));
    }

    /// How many records there have been.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    pub(crate) fn has_fresh(&self) -> bool {
        self.len() > self.seen
    }

    /// Whether invariants are to look now.
    #[inline]
    pub(crate) fn wants_look(&self) -> bool {
        self.wants_look
    }

    /// The records that no invariant has seen, with the ordinal of the first.
    pub(crate) fn fresh(&self) -> (u64, &[Record]) {
        (self.seen, &self.records[(self.seen - self.base) as usize..])
    }

    /// Marks all records up to ordinal `upto` as seen and forgets the distant past.
    pub(crate) fn mark_seen(&mut self, upto: u64) {
        self.seen = upto;
        self.wants_look = false;
        let done = (self.seen - self.base) as usize;
        let drains = !self.keep && done >= 4 * RECENT;
        if drains || self.records.len() - self.digested >= 4 * RECENT {
            (self.digest, self.digested) = (self.digest_of_held(), self.records.len());
        }
        if drains {
            self.records.drain(..done - RECENT);
            self.base += (done - RECENT) as u64;
            self.digested -= done - RECENT;
        }
    }

    /// The records that are still held, with the ordinal of the first.
    pub(crate) fn held(&self) -> (u64, &[Record]) {
        (self.base, &self.records)
    }

    pub(crate) fn digest(&self) -> u64 {
        mix(self.digest_of_held(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            time_ns: 5,
            node: NodeId(1),
            kind: Kind(1000),
            task: 2,
            incarnation: 1,
            aux: 0,
            words: [1, 2, 3, 4, 5],
        }
    }

    fn digest_of(record: Record) -> u64 {
        let mut trace = Trace::new(false);
        trace.push(record);
        trace.digest()
    }

    #[test]
    fn every_part_of_a_record_enters_the_digest() {
        let plain = record();
        let mut variants = vec![
            Record { time_ns: 6, ..plain },
            Record { node: NodeId(0), ..plain },
            Record { kind: Kind(1001), ..plain },
            Record { task: 3, ..plain },
            Record { incarnation: 0, ..plain },
            Record { aux: 1, ..plain },
        ];
        for word in 0..5 {
            for bit in 0..64 {
                let mut flipped = plain;
                flipped.words[word] ^= 1 << bit;
                variants.push(flipped);
            }
        }
        let whole = digest_of(plain);
        for variant in variants {
            assert_ne!(digest_of(variant), whole, "{variant:?}");
        }
    }

    #[test]
    fn order_and_number_enter_the_digest() {
        let (a, b) = (record(), Record { aux: 9, ..record() });
        let of = |records: &[Record]| {
            let mut trace = Trace::new(false);
            records.iter().for_each(|r| trace.push(*r));
            trace.digest()
        };
        assert_ne!(of(&[a, b]), of(&[b, a]));
        assert_ne!(of(&[a]), of(&[a, a]));
    }

    #[test]
    fn when_the_digest_is_taken_does_not_change_it() {
        let records: Vec<Record> = (0..2_000).map(|n| Record { time_ns: n, ..record() }).collect();
        let at_once = records.iter().fold(0, |digest, record| record.digest(digest));
        let at_once = mix(at_once, records.len() as u64);
        for (keep, look_every) in [(false, 1), (false, 7), (false, 300), (true, 7), (true, 3_000)] {
            let mut trace = Trace::new(keep);
            for (ordinal, record) in (1..).zip(&records) {
                trace.push(*record);
                if ordinal % look_every == 0 {
                    trace.mark_seen(ordinal);
                }
            }
            assert_eq!(trace.digest(), at_once, "keep {keep}, a look every {look_every}");
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_run_and_ordinals_go_on() {
        let mut trace = Trace::new(false);
        for n in 0..100_000 {
            trace.push(record());
            let (first, fresh) = trace.fresh();
            assert_eq!((first, fresh.len()), (n, 1));
            trace.mark_seen(n + 1);
        }
        assert_eq!(trace.len(), 100_000);
        assert!(trace.records.capacity() <= 8 * RECENT);
    }
}
