//! Where chance comes from: fields over virtual time, streams for programs, nothing else.
//!
//! A **field** is what the world is like at (thing, time bucket): a pure function of the seed, with no state
//! behind it. Removing one message, task or fault from a run leaves every field where it was, so the rest of
//! the run stays recognisable. A counter ("message 17 on this link") would be reshuffled by every edit.
//!
//!   seed + field + key + bucket ──hash──► Sample ──chance / range──► a decision
//!
//! A **stream** is a sequence of draws (xoshiro256++), for the program's own randomness and for deriving
//! configurations and plans before a run.
//!
//! Invariants: no float reaches a decision; every draw and field read enters the draw digest; two streams
//! with different names never share state.
//! Not here: which decisions exist (the devices name their own fields).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;

use rand_core::{Rng, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::context;
use crate::determinism::Tape;
use crate::world::Handle;

mod hash;

pub(crate) use hash::fold;
pub use hash::{hash_bytes, hash_name, mix};

/// The usual width of a time bucket.
pub const BUCKET_NS: u64 = 2_000_000;

/// A condition over virtual time: what the world does to a thing of this kind, bucket by bucket.
#[derive(Copy, Clone, Debug)]
pub struct Field {
    name: &'static str,
    id: u64,
    bucket_ns: u64,
}

impl Field {
    /// A field with buckets of 2 ms. The name is its identity: two fields of one name are one.
    pub const fn new(name: &'static str) -> Self {
        Self { name, id: hash_name(name), bucket_ns: BUCKET_NS }
    }

    /// The same field with buckets of `bucket_ns`.
    pub const fn with_bucket(self, bucket_ns: u64) -> Self {
        assert!(bucket_ns > 0);
        Self { bucket_ns, ..self }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The number of the bucket that contains `at_ns`.
    #[inline]
    pub const fn bucket(&self, at_ns: u64) -> u64 {
        at_ns / self.bucket_ns
    }

    /// When the bucket that contains `at_ns` ends.
    #[inline]
    pub const fn bucket_end_ns(&self, at_ns: u64) -> u64 {
        (at_ns / self.bucket_ns + 1) * self.bucket_ns
    }
}

/// A field at one key, in all buckets: for devices that read it for every message. Its base is kept rather than made
/// anew each time.
#[derive(Copy, Clone, Debug)]
pub struct Row {
    name: &'static str,
    key: u64,
    base: u64,
}

impl Row {
    /// Eight bytes from which, with field and key, the row can be had again.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The row of `field` at `key`, whose base is known.
    #[inline]
    pub fn with_base(field: Field, key: u64, base: u64) -> Self {
        Self { name: field.name, key, base }
    }
}

/// What a field says at one place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    bits: u64,
    calm: bool,
}

impl Sample {
    /// True with `per_million` chances in a million; never where the field is calm.
    #[inline]
    pub fn chance(&self, per_million: u32) -> bool {
        !self.calm && below(self.bits, 1_000_000) < u64::from(per_million)
    }

    /// A number in `low..=high`; `low` where the field is calm.
    #[inline]
    pub fn range(&self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high, "empty range {low}..={high}");
        if self.calm { low } else { low + below(self.bits, (high - low).saturating_add(1)) }
    }

    /// An independent sample of the same place: number `n`. `chance` and `range` of one sample are
    /// correlated, so a place that decides two things splits.
    #[inline]
    pub fn split(&self, n: u64) -> Self {
        Self { bits: mix(self.bits, n), calm: self.calm }
    }

    /// The raw bits.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Whether an override has calmed the field here.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.calm
    }
}

/// Scales 64 random bits to `0..n` (Lemire's multiplication; the bias of at most n / 2^64 is accepted).
#[inline]
fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// The name by which an [`Override`] means every field, and the streams of programs too.
pub const ALL_FIELDS: &str = "*";

/// An edit of a timeline: a field held at a value for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The field's name, or [`ALL_FIELDS`].
    pub field: String,
    /// The key (link, disk, node) it holds for; all keys when absent.
    pub key: Option<u64>,
    /// From when, in nanoseconds of global virtual time.
    pub from_ns: u64,
    /// Until when (exclusive).
    pub to_ns: u64,
    /// What it is set to.
    pub set: Set,
}

/// What an [`Override`] sets a field to.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// Nothing happens: every chance fails, every range gives its low end.
    Calm,
    /// These bits.
    Bits(u64),
    /// As if under another seed.
    Reseed(u64),
}

/// Where conditions come from. Everything but fields exists to be compared with them.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chance {
    /// Functions of (seed, thing, time bucket).
    #[default]
    Fields,
    /// One random stream for all: each question takes the next number.
    Stream,
    /// One stream for each thing: the nth question about a link is answered with its nth number.
    Ordinals,
}

impl Chance {
    /// Whether the same thing can be asked about twice in one bucket and be told the same.
    #[inline]
    pub fn is_lasting(self) -> bool {
        self == Self::Fields
    }
}

/// The digest of draws: every field read, every draw of a stream, every choice of the scheduler. Each goes to the tape
/// too, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draws(Rc<DrawLog>);

#[derive(Debug, Default)]
struct DrawLog {
    digest: Cell<u64>,
    tape: Option<Rc<Tape>>,
}

impl Draws {
    pub(crate) fn onto(tape: Option<Rc<Tape>>) -> Self {
        Self(Rc::new(DrawLog { digest: Cell::default(), tape }))
    }

    #[inline]
    fn note(&self, value: u64) {
        let digest = &self.0.digest;
        digest.set((digest.get().rotate_left(5) ^ value).wrapping_mul(0x9FB2_1C65_1E98_DF25));
    }

    /// The scheduler chose the task of that identity.
    #[inline]
    pub(crate) fn note_choice(&self, identity: u64) {
        self.note(identity);
    }

    fn note_field(&self, row: Row, bucket: u64, bits: u64) {
        self.note(bits);
        if let Some(tape) = &self.0.tape {
            tape.field(row.name, row.key, bucket, bits);
        }
    }

    #[inline]
    fn note_draw(&self, stream: u64, value: u64) {
        self.note(value);
        if let Some(tape) = &self.0.tape {
            tape.draw(stream, value);
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        mix(self.0.digest.get(), 0)
    }
}

/// All fields of one run.
#[derive(Debug)]
pub(crate) struct Fields {
    seed: u64,
    overrides: Vec<Override>,
    chance: Chance,
    /// Neither overrides nor another kind of chance nor a tape: for one question where it is asked most.
    plain: bool,
    /// How many numbers were taken, by stream; of the one stream under 0.
    taken: RefCell<BTreeMap<u64, u64>>,
    draws: Draws,
}

impl Fields {
    pub(crate) fn new(seed: u64, overrides: Vec<Override>, chance: Chance, draws: Draws) -> Self {
        let plain = overrides.is_empty() && chance == Chance::Fields && draws.0.tape.is_none();
        let seed = mix(seed, hash_name("fields"));
        Self { seed, overrides, chance, plain, taken: RefCell::default(), draws }
    }

    pub(crate) fn chance(&self) -> Chance {
        self.chance
    }

    /// The field at (`key`, the bucket of `at_ns`).
    #[inline]
    pub(crate) fn read(&self, field: Field, key: u64, at_ns: u64) -> Sample {
        self.read_bucket(field, key, field.bucket(at_ns), at_ns)
    }

    /// The field at `key`, whatever the time is; `at_ns` only decides which overrides hold.
    #[inline]
    pub(crate) fn read_fixed(&self, field: Field, key: u64, at_ns: u64) -> Sample {
        self.read_bucket(field, key, u64::MAX, at_ns)
    }

    #[inline]
    fn read_bucket(&self, field: Field, key: u64, bucket: u64, at_ns: u64) -> Sample {
        self.read_row(self.row(field, key), bucket, at_ns)
    }

    /// All buckets of a field at `key`.
    #[inline]
    pub(crate) fn row(&self, field: Field, key: u64) -> Row {
        Row::with_base(field, key, mix(mix(self.seed, field.id), key))
    }

    /// The field of `row` in the bucket of that number, which contains `at_ns`.
    #[inline]
    pub(crate) fn read_row(&self, row: Row, bucket: u64, at_ns: u64) -> Sample {
        if self.plain {
            let bits = mix(row.base, bucket);
            self.draws.note(bits);
            return Sample { bits, calm: false };
        }
        // Word by word: for a pointer to it, the row would be put into memory in the plain case too.
        self.read_edited(row.name, row.key, row.base, bucket, at_ns)
    }

    #[cold]
    fn read_edited(&self, name: &'static str, key: u64, base: u64, bucket: u64, at_ns: u64) -> Sample {
        let row = Row { name, key, base };
        let bits = self.drawn(mix(base, bucket), base);
        let sample = self.overridden(Sample { bits, calm: false }, row, bucket, at_ns);
        self.draws.note_field(row, bucket, sample.bits);
        sample
    }

    /// What takes the place of a field's bits where conditions come from streams.
    fn drawn(&self, bits: u64, base: u64) -> u64 {
        let (stream, seed) = match self.chance {
            Chance::Fields => return bits,
            Chance::Stream => (0, self.seed),
            Chance::Ordinals => (base, base),
        };
        let mut taken = self.taken.borrow_mut();
        let taken = taken.entry(stream).or_default();
        *taken += 1;
        mix(seed, *taken)
    }

    /// By what streams of programs are seeded anew at this time, if they are.
    #[inline]
    pub(crate) fn reseeded_streams(&self, now_ns: u64) -> Option<u64> {
        if self.plain { None } else { self.reseeded_by(now_ns) }
    }

    #[cold]
    fn reseeded_by(&self, now_ns: u64) -> Option<u64> {
        self.overrides.iter().rev().find_map(|o| match o.set {
            Set::Reseed(by) if o.field == ALL_FIELDS && (o.from_ns..o.to_ns).contains(&now_ns) => Some(by),
            _ => None,
        })
    }

    /// Later overrides win.
    fn overridden(&self, sample: Sample, row: Row, bucket: u64, at_ns: u64) -> Sample {
        let Row { name, key, base } = row;
        let holds = |o: &&Override| {
            (o.field == name || o.field == ALL_FIELDS)
                && o.key.is_none_or(|k| k == key)
                && (o.from_ns..o.to_ns).contains(&at_ns)
        };
        match self.overrides.iter().rev().find(holds).map(|o| o.set) {
            None => sample,
            Some(Set::Calm) => Sample { calm: true, ..sample },
            Some(Set::Bits(bits)) => Sample { bits, calm: false },
            Some(Set::Reseed(seed)) => Sample { bits: mix(mix(base, seed), bucket), calm: false },
        }
    }
}

/// A sequence of draws of its own. Implements the `rand_core` traits.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: Xoshiro256PlusPlus,
    /// Where draws are noted, and as those of which stream.
    draws: Option<(Draws, u64)>,
    /// By what it was seeded anew.
    reseeded: Option<u64>,
}

impl Stream {
    pub(crate) fn new(seed: u64, draws: Draws) -> Self {
        Self {
            generator: Xoshiro256PlusPlus::seed_from_u64(seed),
            draws: Some((draws, seed)),
            reseeded: None,
        }
    }

    /// A stream outside any run, for deriving a configuration or a plan from a seed. Streams of different
    /// names are independent, so a new question asked of one does not reshuffle the other.
    pub fn derive(seed: u64, name: &str) -> Self {
        let generator = Xoshiro256PlusPlus::seed_from_u64(mix(seed, hash_name(name)));
        Self { generator, draws: None, reseeded: None }
    }

    /// From now on draws as one that `by` has been mixed into the seed of; nothing changes at the second time.
    #[cold]
    pub(crate) fn reseed_once(&mut self, by: u64) {
        if let Some((_, seed)) = &self.draws
            && self.reseeded != Some(by)
        {
            self.generator = Xoshiro256PlusPlus::seed_from_u64(mix(*seed, by));
            self.reseeded = Some(by);
        }
    }

    /// A number in `0..n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0): no number is below 0");
        below(self.next_u64(), n)
    }

    /// A number in `low..=high`.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty range {low}..={high}");
        low + below(self.next_u64(), (high - low).saturating_add(1))
    }

    /// True with `per_million` chances in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[usize::try_from(self.below(choices.len() as u64)).expect("an index of a slice fits usize")]
    }

    /// Puts `items` into a random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("an index of a slice fits usize");
            items.swap(last, other);
        }
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let value = self.generator.next_u64();
        if let Some((draws, stream)) = &self.draws {
            draws.note_draw(*stream, value);
        }
        Ok(value)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// The program's own randomness: a stream of (node, incarnation), shared by the tasks of that incarnation.
///
/// The value is a cheap handle: every call continues the same stream.
pub fn rng() -> NodeRng {
    NodeRng { handle: Handle::current() }
}

/// A stream of (node, incarnation, name, key), new each time it is asked for.
pub fn rng_named(name: &'static str, key: u64) -> Stream {
    let handle = context::current();
    let owner = handle.owner();
    handle.stream(name, mix(mix(u64::from(owner.node.0), u64::from(owner.incarnation)), key))
}

/// Handle of the stream of the node that asks; see [`rng()`].
#[derive(Clone, Debug)]
pub struct NodeRng {
    handle: Handle,
}

impl TryRng for NodeRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.handle.node_stream(Rng::next_u32))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.handle.node_stream(Rng::next_u64))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.handle.node_stream(|stream| stream.fill_bytes(bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
