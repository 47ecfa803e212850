//! The states that are worth starting from: bounded, fair, each once.
//!
//!   sightings that are new ──► entries ──energy──► the next to start from
//!
//! Energy falls with how many runs have shown the state and with how often it was picked, and is greater for near
//! misses and assertions, of which there are few. It is counted in integers, so that it is the same everywhere.
//!
//! Invariants: a key is on the frontier once; there are never more than the bound, and the root that has the most gives
//! way first; what is picked depends on the stream and on what was added, in what order, alone.
//! Not here: what is done from there (`search.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::recipe::Recipe;
use super::scout::{Anchor, Novelty};
use crate::rng::Stream;

/// A state to start from.
pub(super) struct Entry<T> {
    pub(super) key: u64,
    pub(super) novelty: Novelty,
    /// Which root it goes back to.
    pub(super) root: usize,
    /// The run that shows it.
    pub(super) timeline: Arc<T>,
    /// How that came of its root.
    pub(super) recipe: Recipe,
    /// The moment.
    pub(super) anchor: Anchor,
    pub(super) time_ns: u64,
    picks: u64,
    /// Runs from here that showed something new.
    fruits: u64,
}

impl<T> Entry<T> {
    pub(super) fn new(
        (key, novelty, anchor, time_ns): (u64, Novelty, Anchor, u64),
        (root, timeline, recipe): (usize, Arc<T>, Recipe),
    ) -> Self {
        Self { key, novelty, root, timeline, recipe, anchor, time_ns, picks: 0, fruits: 0 }
    }
}

/// All of them.
pub(super) struct Frontier<T> {
    entries: Vec<Entry<T>>,
    most: usize,
    /// In how many runs each key was seen.
    seen: BTreeMap<u64, u64>,
    by_root: BTreeMap<usize, usize>,
    /// What roots had that are closed: the next run that shows it may take it up.
    free: BTreeSet<u64>,
    /// How many had to give way.
    pub(super) evicted: u64,
}

impl<T> Frontier<T> {
    pub(super) fn new(most: usize) -> Self {
        let (seen, by_root, free) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { entries: Vec::new(), most, seen, by_root, free, evicted: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Notes that a run shows `key`; true when no run did before.
    pub(super) fn is_new(&mut self, key: u64) -> bool {
        let seen = self.seen.entry(key).or_default();
        *seen += 1;
        *seen == 1
    }

    /// Takes up `key`, if it is free.
    pub(super) fn takes_up(&mut self, key: u64) -> bool {
        self.free.remove(&key)
    }

    fn energy(&self, entry: &Entry<T>) -> u64 {
        let boost = match entry.novelty {
            Novelty::State => 1,
            Novelty::Assertion(_) => 4,
            Novelty::NearMiss(_) => 8,
        };
        let seen = self.seen.get(&entry.key).copied().unwrap_or(1);
        let worth = 1_000_000_000 * boost * (1 + entry.fruits);
        (worth / (seen * (1 + entry.picks) * (1 + entry.picks))).max(1)
    }

    /// Adds a state that is new.
    pub(super) fn add(&mut self, entry: Entry<T>) {
        *self.by_root.entry(entry.root).or_default() += 1;
        self.entries.push(entry);
        if self.entries.len() > self.most {
            self.evict();
        }
    }

    /// The root with the most entries loses the one with the least energy; of several the oldest.
    fn evict(&mut self) {
        let (root, _) =
            self.by_root.iter().max_by_key(|(root, count)| (**count, **root)).expect("there are entries");
        let root = *root;
        let own = self.entries.iter().enumerate().filter(|(_, entry)| entry.root == root);
        let (at, _) = own.min_by_key(|(at, entry)| (self.energy(entry), *at)).expect("it has entries");
        self.entries.remove(at);
        self.forget(root);
        self.evicted += 1;
    }

    fn forget(&mut self, root: usize) {
        if let Some(count) = self.by_root.get_mut(&root) {
            *count -= 1;
            if *count == 0 {
                self.by_root.remove(&root);
            }
        }
    }

    /// Everything that goes back to `root` goes.
    pub(super) fn close_root(&mut self, root: usize) {
        let gone = self.entries.extract_if(.., |entry| entry.root == root);
        self.free.extend(gone.map(|entry| entry.key));
        self.by_root.remove(&root);
    }

    /// Picks by energy the one to start from next.
    pub(super) fn pick(&mut self, stream: &mut Stream) -> Option<&Entry<T>> {
        let total: u64 = self.entries.iter().map(|entry| self.energy(entry)).sum();
        if total == 0 {
            return None;
        }
        let mut left = stream.below(total);
        let at = self.entries.iter().position(|entry| match left.checked_sub(self.energy(entry)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })?;
        self.entries[at].picks += 1;
        Some(&self.entries[at])
    }

    /// A run from the state `key` showed something new.
    pub(super) fn bore_fruit(&mut self, key: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.fruits += 1;
        }
    }
}
