//! Interner: equal keys get equal small numbers, in the order of their first appearance.
//!
//! An open-addressing table with a fixed mixing function. `std`'s `HashMap` was rejected because its seed is
//! ambient, `BTreeMap` because the memo of the search is most of its time.
//!
//! Invariants: numbers are dense from 0; at most half of the slots are used; nothing depends on addresses.
//! Not here: what the numbers mean.

/// Something that can be interned.
pub trait Key: Eq {
    /// Equal keys have equal digests.
    fn digest(&self) -> u64;
}

/// Folds a word into a digest.
pub fn mix(digest: u64, word: u64) -> u64 {
    let folded = (digest.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    folded ^ (folded >> 32)
}

impl Key for (u32, u32) {
    fn digest(&self) -> u64 {
        mix(0, u64::from(self.0) << 32 | u64::from(self.1))
    }
}

impl Key for (u32, u64) {
    fn digest(&self) -> u64 {
        mix(mix(0, u64::from(self.0)), self.1)
    }
}

impl Key for Box<[u32]> {
    fn digest(&self) -> u64 {
        self.iter().fold(0, |digest, word| mix(digest, u64::from(*word)))
    }
}

const EMPTY: u32 = u32::MAX;

/// The table. Interning is O(1) expected, amortised.
pub struct Interner<K> {
    keys: Vec<K>,
    slots: Vec<u32>,
}

impl<K: Key> Interner<K> {
    pub fn with_capacity(keys: usize) -> Self {
        let slots = (2 * keys).next_power_of_two().max(16);
        Interner { keys: Vec::with_capacity(keys), slots: vec![EMPTY; slots] }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn key(&self, id: u32) -> &K {
        &self.keys[id as usize]
    }

    /// The number of `key`.
    pub fn intern(&mut self, key: K) -> u32 {
        if 2 * (self.keys.len() + 1) > self.slots.len() {
            self.grow();
        }
        let slot = self.slot_of(&key);
        if self.slots[slot] == EMPTY {
            self.slots[slot] = u32::try_from(self.keys.len()).expect("budgets are far below 2^32 keys");
            self.keys.push(key);
        }
        self.slots[slot]
    }

    /// The number of `key`, if it has one.
    pub fn get(&self, key: &K) -> Option<u32> {
        let id = self.slots[self.slot_of(key)];
        (id != EMPTY).then_some(id)
    }

    /// The slot that holds `key`, or the free one where it belongs.
    fn slot_of(&self, key: &K) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = key.digest() as usize & mask;
        while self.slots[slot] != EMPTY && self.keys[self.slots[slot] as usize] != *key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let wider = 2 * self.slots.len();
        self.slots.clear();
        self.slots.resize(wider, EMPTY);
        for id in 0..self.keys.len() {
            let mut slot = self.keys[id].digest() as usize & (wider - 1);
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) & (wider - 1);
            }
            self.slots[slot] = id as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_share_a_number_and_numbers_are_dense_even_across_growth() {
        let mut interner = Interner::with_capacity(0);
        for round in 0..2 {
            for word in 0..1_000_u64 {
                let id = interner.intern((7_u32, word * 64));
                assert_eq!(u64::from(id), word, "round {round}");
                assert_eq!(*interner.key(id), (7, word * 64));
            }
        }
        assert_eq!(interner.len(), 1_000);
    }
}
