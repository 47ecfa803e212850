//! The states that are worth starting from: bounded, fair, each once.
//!
//!   sightings that are new ──► entries ──energy──► the next to start from
//!
//! First a kind is picked, by its share: states are many, near misses and steps of assertions few and worth more. Then
//! one of that kind by energy, which falls with how many runs have shown it, with how often it was picked and with how
//! long a run from there takes, and rises with what came of that. All is counted in integers, so that it is the same
//! everywhere.
//!
//! Invariants: a key is on the frontier once; there are never more than the bound, and the root that has the most gives
//! way first; what is picked depends on the stream and on what was added, in what order, alone.
//! Not here: what is done from there (`search.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
    /// Steps of the run.
    steps: u64,
    picks: u64,
    /// Runs from here that showed something new.
    fruits: u64,
}

impl<T> Entry<T> {
    pub(super) fn new(
        (key, novelty, anchor, time_ns): (u64, Novelty, Anchor, u64),
        (root, timeline, recipe): (usize, Arc<T>, Recipe),
        steps: u64,
    ) -> Self {
        Self { key, novelty, root, timeline, recipe, anchor, time_ns, steps, picks: 0, fruits: 0 }
    }
}

/// Kinds of what is worth starting from.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    State,
    NearMiss,
    Assertion,
}

fn class(novelty: &Novelty) -> Class {
    match novelty {
        Novelty::State => Class::State,
        Novelty::NearMiss(_) => Class::NearMiss,
        Novelty::Assertion(_) => Class::Assertion,
    }
}

/// How often each kind is started from, where there is one of it, in relation to the others.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shares {
    /// States of the system.
    pub states: u32,
    /// Near misses.
    pub near_misses: u32,
    /// Steps of assertions.
    pub assertions: u32,
}

impl Default for Shares {
    fn default() -> Self {
        Self { states: 2, near_misses: 3, assertions: 3 }
    }
}

impl Shares {
    fn of(&self, class: Class) -> u32 {
        match class {
            Class::State => self.states,
            Class::NearMiss => self.near_misses,
            Class::Assertion => self.assertions,
        }
    }
}

/// The place of one of `weights`, by weight; none when they are all zero.
fn draw(weights: impl Iterator<Item = u64> + Clone, stream: &mut Stream) -> Option<usize> {
    let total: u64 = weights.clone().sum();
    let mut left = (total > 0).then(|| stream.below(total))?;
    for (at, weight) in weights.enumerate() {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return Some(at),
        }
    }
    unreachable!("the draw is below the sum of the weights")
}

/// What a run costs beside its steps, in steps.
const COST_STEPS: u64 = 1_000;

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
        let seen = self.seen.get(&entry.key).copied().unwrap_or(1);
        // Whole numbers that are large enough to be divided, and small enough to be summed.
        let worth = 1_000_000_000_000 * (1 + entry.fruits.min(100));
        (worth / (seen * (1 + entry.picks) * (1 + entry.picks)) / (COST_STEPS + entry.steps)).max(1)
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

    /// Picks the one to start from next.
    pub(super) fn pick(&mut self, shares: &Shares, stream: &mut Stream) -> Option<&Entry<T>> {
        let mut kinds: Vec<(Class, u64)> = Vec::new();
        for class in self.entries.iter().map(|entry| class(&entry.novelty)) {
            if !kinds.iter().any(|(known, _)| *known == class) {
                kinds.push((class, u64::from(shares.of(class))));
            }
        }
        kinds.sort_unstable();
        let (wanted, _) = kinds[draw(kinds.iter().map(|(_, share)| *share), stream)?];
        let own = self.entries.iter().enumerate().filter(|(_, entry)| class(&entry.novelty) == wanted);
        let own: Vec<(usize, u64)> = own.map(|(at, entry)| (at, self.energy(entry))).collect();
        let (at, _) = own[draw(own.iter().map(|(_, energy)| *energy), stream)?];
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
