//! Bits: the set of open operations that a configuration has already placed.
//!
//! A machine word does for up to 64 operations in flight on one key; a boxed slice for any number.
//!
//! Invariants: sets of equal members are equal and have equal digests (all wide sets of a search have one width).
//! Not here: which operation has which slot (`schedule.rs`).

use crate::intern::mix;

/// A set of slots.
pub trait Bits: Clone + Eq {
    /// No slots, with room for `slots` of them.
    fn none(slots: u32) -> Self;
    fn has(&self, slot: u32) -> bool;
    fn set(&mut self, slot: u32);
    fn clear(&mut self, slot: u32);
    fn fold(&self, digest: u64) -> u64;
}

impl Bits for u64 {
    fn none(slots: u32) -> Self {
        assert!(slots <= u64::BITS, "{slots} slots do not fit a word");
        0
    }

    fn has(&self, slot: u32) -> bool {
        *self >> slot & 1 == 1
    }

    fn set(&mut self, slot: u32) {
        *self |= 1 << slot;
    }

    fn clear(&mut self, slot: u32) {
        *self &= !(1 << slot);
    }

    fn fold(&self, digest: u64) -> u64 {
        mix(digest, *self)
    }
}

/// A set of any width.
#[derive(Clone, PartialEq, Eq)]
pub struct Wide(Box<[u64]>);

impl Bits for Wide {
    fn none(slots: u32) -> Self {
        Wide(vec![0; slots.div_ceil(u64::BITS) as usize].into_boxed_slice())
    }

    fn has(&self, slot: u32) -> bool {
        self.0[(slot / u64::BITS) as usize].has(slot % u64::BITS)
    }

    fn set(&mut self, slot: u32) {
        self.0[(slot / u64::BITS) as usize].set(slot % u64::BITS);
    }

    fn clear(&mut self, slot: u32) {
        self.0[(slot / u64::BITS) as usize].clear(slot % u64::BITS);
    }

    fn fold(&self, digest: u64) -> u64 {
        self.0.iter().fold(digest, |digest, word| mix(digest, *word))
    }
}
