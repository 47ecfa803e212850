//! Makes a failing timeline smaller for as long as the same check fails.
//!
//!   timeline ──moves──► candidates, each under several seeds ──run──► the first that fails alike ──► timeline, again
//!
//! First freely; then with care: what is no smaller has to be as *sturdy* as what it replaces, which is how many small
//! disturbances that have nothing to do with the failure ([`Scenario::disturbed`]) leave it as it is. So a failure that
//! hangs by a hair is not what comes out where there is another. With care, too, what waits for a moment is fixed to the
//! moment that came, and whatever makes the timeline sturdier is done ([`Scenario::sturdier`]).
//!
//! Deletion alone gets stuck: without one fault the rest of the run goes another way, and a failure that needs a race is
//! gone although the fault had no part in it. So every candidate is tried under several seeds of the fields, with the
//! same configuration and plan. When nothing else helps, the timeline wanders: it is varied at random for as long as it
//! fails alike and becomes no heavier, until a variation is lighter ([`Scenario::variation`]).
//! A candidate is kept if the *same check* fails: same category, property and shape of the violation
//! ([`Failure::fingerprint`]). That has limits: two bugs that violate one property in one shape are one to it, and
//! shrinking may slip from the one to the other; and a bug that shows in a second shape is not followed there.
//!
//! Invariants: the result does not depend on the number of threads (of the candidates that fail alike the first in order
//! is taken); what is kept has failed when it was run, alone; shrinking what came of it changes nothing, since it ends
//! where no careful step is left and begins by looking for one. It ends because every careful step makes the timeline
//! lighter, or as heavy and sturdier, or both alike and simpler.
//! Not here: what is simpler than what ([`Scenario::moves`]), running candidates (`trial.rs`).

mod calm;
mod trial;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::scenario::{Scenario, Timeline};
use crate::verdict::Failure;
pub use calm::{calmer, calmer_in_part};
use trial::{Candidates, Seeded, Variations, count_alike, failure_of, first_that_fails};

/// How to shrink.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Worker threads.
    pub jobs: u16,
    /// Under how many seeds each candidate is tried, its own included; 1 or more.
    pub seeds: u32,
    /// Under how many when nothing else is left to try, and much would be gone: see [`Scenario::great_moves`].
    pub many_seeds: u32,
    /// How many variations are tried when nothing else is left: see [`Scenario::variation`].
    pub variations: u32,
    /// After this many candidates the best so far is the result. What is left to try is not tried, so shrinking what came
    /// of it may go on.
    pub most: u64,
    /// Set from outside: stop, and keep the best so far.
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        Self {
            jobs: u16::try_from(jobs).unwrap_or(u16::MAX),
            seeds: 8,
            many_seeds: 120,
            variations: 4_000,
            most: u64::MAX,
            stop: Arc::default(),
        }
    }
}

/// What shrinking came to.
#[derive(Clone, Debug)]
pub struct Shrunk<C, P> {
    /// The smallest timeline found.
    pub timeline: Timeline<C, P>,
    /// How it fails.
    pub failure: Failure,
    /// Runs that were made.
    pub tried: u64,
    /// How often a candidate was kept.
    pub steps: u64,
    /// Somebody stopped it before nothing smaller was found.
    pub interrupted: bool,
}

/// More steps than this are a mistake in the moves: each is to make something smaller.
const MOST_STEPS: u64 = 10_000;

/// Shrinks `start`; `None` when it does not fail. `progress` is told after each step.
pub fn shrink<S>(
    scenario: &S,
    start: Timeline<S::Config, S::Plan>,
    settings: &Settings,
    progress: impl FnMut(&Shrunk<S::Config, S::Plan>),
) -> Option<Shrunk<S::Config, S::Plan>>
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    let failure = failure_of(scenario, &start)?;
    let wanted = failure.fingerprint();
    let best = Shrunk { timeline: start, failure, tried: 1, steps: 0, interrupted: false };
    let mut shrinking = Shrinking {
        scenario,
        settings,
        wanted,
        best,
        left: settings.most,
        is_careful: true,
        sturdiness: None,
        progress,
    };
    if shrinking.careful_step() {
        shrinking.is_careful = false;
        shrinking.take_away();
        shrinking.is_careful = true;
        while shrinking.careful_step() {
            shrinking.take_away();
        }
    }
    let interrupted = settings.stop.load(Ordering::Relaxed);
    Some(Shrunk { interrupted, ..shrinking.best })
}

struct Shrinking<'a, S: Scenario, F> {
    scenario: &'a S,
    settings: &'a Settings,
    /// The fingerprint of the failure.
    wanted: u64,
    best: Shrunk<S::Config, S::Plan>,
    /// How many candidates may still be tried, counted by places, which do not depend on the number of threads.
    left: u64,
    /// Whether what is no lighter has to be as sturdy.
    is_careful: bool,
    /// How sturdy the best is, where that was asked.
    sturdiness: Option<u64>,
    progress: F,
}

impl<S, F> Shrinking<'_, S, F>
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
    F: FnMut(&Shrunk<S::Config, S::Plan>),
{
    fn is_stopped(&self) -> bool {
        self.left == 0 || self.settings.stop.load(Ordering::Relaxed)
    }

    /// Makes moves until none is left.
    fn take_away(&mut self) {
        loop {
            while self.round() {}
            // A step opens the way for the other moves again.
            if self.is_stopped() || !self.great_step() {
                return;
            }
        }
    }

    /// Goes through the moves once; whether a step was made.
    fn round(&mut self) -> bool {
        let (steps_before, mut from) = (self.best.steps, 0);
        // The moves before this one had no effect a moment ago, and are tried again in the next round.
        while let Some(place) = self.step(S::moves, from, 0..self.settings.seeds) {
            from = place;
        }
        self.best.steps > steps_before && !self.is_stopped()
    }

    /// What is tried when moves are at an end.
    fn great_step(&mut self) -> bool {
        let Settings { seeds, many_seeds, .. } = *self.settings;
        self.step(S::great_moves, 0, seeds..many_seeds).is_some() || self.wander()
    }

    /// A step of any kind, with care; whether there was one.
    fn careful_step(&mut self) -> bool {
        let seeds = self.settings.seeds;
        !self.is_stopped()
            && (self.step(S::moves, 0, 0..seeds).is_some()
                || self.make_sturdier()
                || self.make_concrete()
                || self.great_step())
    }

    /// Makes the first move from place `from` on that is acceptable under one of the seeds; its place.
    fn step(&mut self, moves: Moves<S>, from: usize, seeds: Range<u32>) -> Option<usize> {
        let moves = moves(self.scenario, &self.best.timeline, &self.best.failure);
        let each = seeds.len();
        let candidates = Seeded { moves: &moves, seeds };
        let (place, timeline, failure) = self.first_acceptable(&candidates, from * each)?;
        self.keep(timeline, failure);
        Some(place / each)
    }

    /// Goes from one variation that fails alike to the next until one is lighter; whether one was.
    fn wander(&mut self) -> bool {
        let best_weight = self.scenario.weight(&self.best.timeline);
        let mut here = self.best.timeline.clone();
        let mut numbers = 0..self.settings.variations;
        while !self.is_stopped() {
            let candidates =
                Variations { scenario: self.scenario, timeline: &here, numbers: numbers.clone() };
            let Some((place, failure)) = self.first_alike(&candidates, 0) else { return false };
            let Some(there) = candidates.get(place) else { return false };
            numbers.start += place as u32 + 1;
            let weight = self.scenario.weight(&there);
            if weight < best_weight {
                self.keep(there, failure);
                return true;
            }
            if weight == best_weight {
                here = there;
            }
        }
        false
    }

    /// Makes what is no heavier sturdier; whether there was a way.
    fn make_sturdier(&mut self) -> bool {
        let (steps_before, mut from) = (self.best.steps, 0);
        loop {
            let most = self.scenario.disturbed(&self.best.timeline).len() as u64;
            let now = self.sturdiness();
            if now >= most {
                break;
            }
            let moves = self.scenario.sturdier(&self.best.timeline, &self.best.failure);
            let candidates = Seeded { moves: &moves, seeds: 0..1 };
            let weight = self.scenario.weight(&self.best.timeline);
            let mut better = None;
            while let Some((place, failure)) = self.first_alike(&candidates, from) {
                from = place + 1;
                let Some(timeline) = candidates.get(place) else { continue };
                let then = self.sturdiness_of(&timeline);
                if then > now && self.scenario.weight(&timeline) <= weight {
                    better = Some((timeline, failure, then));
                    break;
                }
            }
            let Some((timeline, failure, then)) = better else { break };
            self.keep(timeline, failure);
            self.sturdiness = Some(then);
        }
        self.best.steps > steps_before
    }

    /// Fixes moments for as long as the run fails alike; whether any was fixed.
    fn make_concrete(&mut self) -> bool {
        let steps_before = self.best.steps;
        loop {
            let mut moves = self.scenario.concrete(&self.best.timeline);
            moves.retain(|concrete| *concrete != self.best.timeline);
            self.best.tried += 1;
            let candidates = Seeded { moves: &moves, seeds: 0..1 };
            match self.first_acceptable(&candidates, 0) {
                Some((_, timeline, failure)) => self.keep(timeline, failure),
                None => return self.best.steps > steps_before,
            }
        }
    }

    /// The first candidate from place `from` on that fails alike, and is sturdy enough.
    fn first_acceptable(
        &mut self,
        candidates: &impl Candidates<S::Config, S::Plan>,
        mut from: usize,
    ) -> Option<Found<S>> {
        loop {
            let (place, failure) = self.first_alike(candidates, from)?;
            let timeline = candidates.get(place)?;
            if self.is_acceptable(&timeline) {
                return Some((place, timeline, failure));
            }
            from = place + 1;
        }
    }

    fn first_alike(
        &mut self,
        candidates: &impl Candidates<S::Config, S::Plan>,
        from: usize,
    ) -> Option<(usize, Failure)> {
        let until =
            candidates.len().min(from.saturating_add(usize::try_from(self.left).unwrap_or(usize::MAX)));
        let (tried, found) =
            first_that_fails(self.scenario, candidates, from..until, self.wanted, self.settings);
        self.best.tried += tried;
        let passed = found.as_ref().map_or(until, |(place, _)| place + 1).saturating_sub(from);
        self.left -= passed as u64;
        found
    }

    fn is_acceptable(&mut self, timeline: &Timeline<S::Config, S::Plan>) -> bool {
        let (weight, now) = (self.scenario.weight(timeline), self.scenario.weight(&self.best.timeline));
        if !self.is_careful || weight != now {
            return !self.is_careful || weight < now;
        }
        self.sturdiness() <= self.sturdiness_of(timeline)
    }

    /// How sturdy the best is.
    fn sturdiness(&mut self) -> u64 {
        match self.sturdiness {
            Some(known) => known,
            None => {
                let timeline = self.best.timeline.clone();
                let sturdiness = self.sturdiness_of(&timeline);
                *self.sturdiness.insert(sturdiness)
            }
        }
    }

    fn sturdiness_of(&mut self, timeline: &Timeline<S::Config, S::Plan>) -> u64 {
        let disturbed = self.scenario.disturbed(timeline);
        self.best.tried += disturbed.len() as u64;
        count_alike(self.scenario, &disturbed, self.wanted, self.settings)
    }

    fn keep(&mut self, timeline: Timeline<S::Config, S::Plan>, failure: Failure) {
        self.best.timeline = timeline;
        self.best.failure = failure;
        self.best.steps += 1;
        self.sturdiness = None;
        assert!(self.best.steps < MOST_STEPS, "shrinking goes round in circles");
        (self.progress)(&self.best);
    }
}

/// The place of a candidate, the candidate, and how it fails.
type Found<S> = (usize, Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>, Failure);

/// A method of [`Scenario`] that makes moves.
type Moves<S> = fn(
    &S,
    &Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>,
    &Failure,
) -> Vec<Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Watch;
    use crate::verdict::{Category, RunReport};
    use crate::world::{Options, World};

    /// Fails when the plan holds 3 and 7 and the seed is not a multiple of three.
    struct Picky;

    impl Scenario for Picky {
        type Config = u32;
        type Plan = Vec<u32>;

        fn config(&self, _seed: u64) -> u32 {
            9
        }

        fn plan(&self, _seed: u64, _config: &u32) -> Vec<u32> {
            (0..40).collect()
        }

        fn run(&self, timeline: &Timeline<u32, Vec<u32>>, _watch: Watch) -> (RunReport, Vec<String>) {
            let mut world = World::new(timeline.seed, Options::default());
            let has = |n| timeline.plan.contains(&n);
            if has(3) && has(7) && !timeline.seed.is_multiple_of(3) {
                world.handle().fail(Category::Invariant, "no pair", "pair", String::new());
            } else if has(5) {
                world.handle().fail(Category::Invariant, "no five", "five", String::new());
            }
            (world.report(), Vec::new())
        }

        fn moves(&self, timeline: &Timeline<u32, Vec<u32>>, _: &Failure) -> Vec<Timeline<u32, Vec<u32>>> {
            let without = |at: usize| {
                let mut simpler = timeline.clone();
                simpler.plan.remove(at);
                simpler
            };
            let lower =
                (timeline.config > 0).then(|| Timeline { config: timeline.config - 1, ..timeline.clone() });
            (0..timeline.plan.len()).map(without).chain(lower).collect()
        }
    }

    #[test]
    fn what_the_failure_does_not_need_goes_and_no_other_failure_takes_its_place() {
        for jobs in [1, 2, 5] {
            let settings = Settings { jobs, ..Settings::default() };
            let shrunk = shrink(&Picky, Picky.timeline(1), &settings, |_| {}).expect("seed 1 fails");
            assert_eq!((shrunk.timeline.plan.as_slice(), shrunk.timeline.config), ([3, 7].as_slice(), 0));
            assert_eq!(shrunk.failure.property, "no pair");
            let again = shrink(&Picky, shrunk.timeline.clone(), &settings, |_| {}).expect("it fails");
            assert_eq!((again.timeline, again.steps), (shrunk.timeline, 0));
        }
    }

    #[test]
    fn a_timeline_that_passes_is_not_shrunk() {
        let start = Timeline { plan: vec![1], ..Picky.timeline(1) };
        assert!(shrink(&Picky, start, &Settings::default(), |_| {}).is_none());
    }

    #[test]
    fn who_stops_it_keeps_the_best_so_far() {
        let settings = Settings { jobs: 1, ..Settings::default() };
        let stop = settings.stop.clone();
        let shrunk = shrink(&Picky, Picky.timeline(1), &settings, |best| {
            if best.steps == 3 {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let shrunk = shrunk.expect("seed 1 fails");
        assert!(shrunk.interrupted);
        assert_eq!(shrunk.timeline.plan.len(), 37);
    }

    #[test]
    fn a_limit_ends_it_at_the_same_place_whatever_the_number_of_threads() {
        for most in [1, 2, 20] {
            let of = |jobs| {
                let settings = Settings { jobs, most, ..Settings::default() };
                shrink(&Picky, Picky.timeline(1), &settings, |_| {}).expect("seed 1 fails")
            };
            let (alone, together) = (of(1), of(3));
            assert_eq!((&alone.timeline, alone.steps), (&together.timeline, together.steps));
            assert!(alone.steps <= most && !alone.interrupted && alone.timeline.plan.len() > 2, "{most}");
        }
    }

    /// Fails when `needed` is in the plan, and only under one seed of many once the rest is gone.
    struct Rare;

    impl Scenario for Rare {
        type Config = ();
        type Plan = Vec<u32>;

        fn config(&self, _seed: u64) {}

        fn plan(&self, _seed: u64, (): &()) -> Vec<u32> {
            vec![1, 2]
        }

        fn run(&self, timeline: &Timeline<(), Vec<u32>>, _watch: Watch) -> (RunReport, Vec<String>) {
            let mut world = World::new(timeline.seed, Options::default());
            // Of the first seeds that are tried, none is such a multiple.
            if timeline.plan.len() == 2 || timeline.plan == [2] && timeline.seed.is_multiple_of(16) {
                world.handle().fail(Category::Invariant, "rare", "", String::new());
            }
            (world.report(), Vec::new())
        }

        fn moves(&self, timeline: &Timeline<(), Vec<u32>>, _: &Failure) -> Vec<Timeline<(), Vec<u32>>> {
            let mut simpler = timeline.clone();
            simpler.plan.remove(0);
            vec![simpler]
        }

        fn great_moves(
            &self,
            timeline: &Timeline<(), Vec<u32>>,
            failure: &Failure,
        ) -> Vec<Timeline<(), Vec<u32>>> {
            self.moves(timeline, failure)
        }

        fn concrete(&self, timeline: &Timeline<(), Vec<u32>>) -> Vec<Timeline<(), Vec<u32>>> {
            let of = |plan| Timeline { plan, ..timeline.clone() };
            vec![of(Vec::new()), of(timeline.plan.iter().map(|_| 2).collect())]
        }
    }

    #[test]
    fn great_moves_are_tried_under_many_seeds_and_what_is_concrete_is_kept_where_it_fails() {
        let few = Settings { many_seeds: 8, ..Settings::default() };
        let with_few = shrink(&Rare, Rare.timeline(1), &few, |_| {}).expect("it fails");
        assert_eq!(with_few.timeline.plan, [2, 2]);
        let shrunk = shrink(&Rare, Rare.timeline(1), &Settings::default(), |_| {}).expect("it fails");
        assert_eq!(shrunk.timeline.plan, [2]);
        assert!(shrunk.timeline.seed.is_multiple_of(16));
    }
}
