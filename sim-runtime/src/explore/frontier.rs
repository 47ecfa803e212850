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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::policy::Shares;
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
    /// How often near misses of each root were picked.
    near: BTreeMap<usize, u64>,
    /// What roots had that are closed: the next run that shows it may take it up.
    free: BTreeSet<u64>,
    /// How many had to give way.
    pub(super) evicted: u64,
}

impl<T> Frontier<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: Vec::new(),
            most,
            seen: BTreeMap::new(),
            near: BTreeMap::new(),
            free: BTreeSet::new(),
            evicted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How often the near misses of that root were picked of which that is least often; none without near misses.
    pub(super) fn least_picks_of_near_misses(&self) -> Option<u64> {
        let near = self.entries.iter().filter(|entry| class(&entry.novelty) == Class::NearMiss);
        near.map(|entry| self.near.get(&entry.root).copied().unwrap_or(0)).min()
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
        // In some configurations no harm comes of a near miss, and one run has many: each root has its turn.
        let near = if class(&entry.novelty) == Class::NearMiss { self.near.get(&entry.root) } else { None };
        let turns = 1 + near.copied().unwrap_or(0).min(1_000);
        let dear = seen * (1 + entry.picks) * (1 + entry.picks);
        (worth / dear / (COST_STEPS + entry.steps) / (turns * turns)).max(1)
    }

    /// Adds a state that is new.
    pub(super) fn add(&mut self, entry: Entry<T>) {
        if self.entries.len() >= self.most {
            self.make_room();
        }
        self.entries.push(entry);
    }

    /// An eighth gives way: of each root first what has the least energy there, so that the root with the most loses
    /// the most. All at once, since it takes a look at everything.
    fn make_room(&mut self) {
        let kept = self.most - (self.most / 8).max(1);
        let energies: Vec<u64> = self.entries.iter().map(|entry| self.energy(entry)).collect();
        let mut places: Vec<usize> = (0..self.entries.len()).collect();
        places.sort_by_key(|at| (self.entries[*at].root, Reverse(energies[*at]), Reverse(*at)));
        let mut ranked: Vec<(usize, Reverse<u64>, Reverse<usize>)> = Vec::with_capacity(places.len());
        let mut of_root = 0;
        for (nth, at) in places.iter().enumerate() {
            let is_another = nth > 0 && self.entries[places[nth - 1]].root != self.entries[*at].root;
            of_root = if is_another { 0 } else { of_root + usize::from(nth > 0) };
            ranked.push((of_root, Reverse(energies[*at]), Reverse(*at)));
        }
        ranked.sort_unstable();
        let gone: BTreeSet<usize> = ranked[kept..].iter().map(|(_, _, Reverse(at))| *at).collect();
        let mut at = 0..;
        self.entries.retain(|_| !gone.contains(&at.next().expect("it has no end")));
        self.evicted += gone.len() as u64;
    }

    /// Everything that goes back to `root` goes.
    pub(super) fn close_root(&mut self, root: usize) {
        let gone = self.entries.extract_if(.., |entry| entry.root == root);
        self.free.extend(gone.map(|entry| entry.key));
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
        if wanted == Class::NearMiss {
            *self.near.entry(self.entries[at].root).or_default() += 1;
        }
        Some(&self.entries[at])
    }

    /// A run from the state `key` showed something new.
    pub(super) fn bore_fruit(&mut self, key: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.fruits += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeId;

    fn entry(key: u64, root: usize, steps: u64) -> Entry<()> {
        let anchor = Anchor { moment: "m".to_owned(), node: NodeId(1), ordinal: key };
        Entry::new((key, Novelty::State, anchor, key), (root, Arc::new(()), Recipe::default()), steps)
    }

    #[test]
    fn the_root_with_the_most_gives_way_and_of_it_what_costs_most() {
        let mut frontier = Frontier::new(8);
        for key in 0..7 {
            frontier.add(entry(key, 0, 1_000 + key));
        }
        frontier.add(entry(7, 1, 1_000_000));
        frontier.add(entry(8, 1, 10));
        let left: Vec<u64> = frontier.entries.iter().map(|entry| entry.key).collect();
        assert_eq!((left, frontier.evicted), (vec![0, 1, 2, 3, 4, 5, 7, 8], 1));
    }

    #[test]
    fn what_is_rare_cheap_and_new_to_it_is_picked_more_often() {
        let mut frontier = Frontier::new(8);
        frontier.add(entry(1, 0, 1_000));
        frontier.add(entry(2, 0, 100_000));
        frontier.add(entry(3, 0, 1_000));
        assert!(frontier.is_new(3) && (0..50).all(|_| !frontier.is_new(3)));
        let mut stream = Stream::derive(1, "picks");
        let first = frontier.pick(&Shares::default(), &mut stream).expect("there are some").key;
        let energy = |key: u64| frontier.energy(&frontier.entries[key as usize - 1]);
        assert!(first == 1 && energy(2) < energy(1) && energy(3) < energy(1), "{first}");
    }
}
