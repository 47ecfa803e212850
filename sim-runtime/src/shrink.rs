//! Makes a failing timeline smaller for as long as the same check fails.
//!
//!   timeline ──moves──► candidates, each under several seeds ──run──► the first that fails alike ──► timeline, again
//!
//! First as it is, so that what waits for a moment can find it in candidates, too; then with every moment fixed to a time.
//!
//! Deletion alone gets stuck: without one fault the rest of the run goes another way, and a failure that needs a race is
//! gone although the fault had no part in it. So every candidate is tried under several seeds of the fields, with the
//! same configuration and plan. It is kept if the *same check* fails: same category, property and shape of the violation
//! ([`Failure::fingerprint`]). That has limits: two bugs that violate one property in one shape are one to it, and
//! shrinking may slip from the one to the other; and a bug that shows in a second shape is not followed there.
//!
//! Invariants: the result does not depend on the number of threads (of the candidates that fail alike the first in order
//! is taken); what is kept has failed when it was run, alone.
//! Not here: what is simpler than what ([`Scenario::moves`]).

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::rng::{Override, Set, mix};
use crate::scenario::{Scenario, Timeline, Watch};
use crate::verdict::Failure;

/// How to shrink.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Worker threads.
    pub jobs: u16,
    /// Under how many seeds each candidate is tried, its own included; 1 or more.
    pub seeds: u32,
    /// Under how many when nothing else is left to try, and much would be gone: see [`Scenario::great_moves`].
    pub many_seeds: u32,
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
    let mut shrinking = Shrinking { scenario, settings, wanted, best, progress };
    loop {
        shrinking.take_away();
        // What waits for a moment is fixed to the moment that came. Not before: what waits finds its moment in
        // candidates, too.
        if shrinking.is_stopped() || !shrinking.make_concrete() {
            break;
        }
    }
    let interrupted = shrinking.is_stopped();
    Some(Shrunk { interrupted, ..shrinking.best })
}

struct Shrinking<'a, S: Scenario, F> {
    scenario: &'a S,
    settings: &'a Settings,
    /// The fingerprint of the failure.
    wanted: u64,
    best: Shrunk<S::Config, S::Plan>,
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
        self.settings.stop.load(Ordering::Relaxed)
    }

    /// Makes moves until none is left.
    fn take_away(&mut self) {
        let Settings { seeds, many_seeds, .. } = *self.settings;
        loop {
            while self.round(S::moves, 0..seeds) {}
            // A step opens the way for the other moves again.
            if self.is_stopped() || !self.first_of(S::great_moves, seeds..many_seeds) {
                return;
            }
        }
    }

    /// Goes through the moves once; whether a step was made.
    fn round(&mut self, moves: Moves<S>, seeds: Range<u32>) -> bool {
        let (steps_before, mut from) = (self.best.steps, 0);
        // The moves before this one had no effect a moment ago, and are tried again in the next round.
        while let Some(place) = self.step(moves, from, seeds.clone()) {
            from = place;
        }
        self.best.steps > steps_before && !self.is_stopped()
    }

    fn first_of(&mut self, moves: Moves<S>, seeds: Range<u32>) -> bool {
        self.step(moves, 0, seeds).is_some()
    }

    /// Makes the first move from place `from` on that fails alike under one of the seeds; its place.
    fn step(&mut self, moves: Moves<S>, from: usize, seeds: Range<u32>) -> Option<usize> {
        let moves = moves(self.scenario, &self.best.timeline, &self.best.failure);
        let candidates = Candidates { moves: moves.get(from..).unwrap_or(&[]), seeds };
        let (tried, found) = first_that_fails(self.scenario, &candidates, self.wanted, self.settings);
        self.best.tried += tried;
        let (place, failure) = found?;
        self.keep(candidates.get(place), failure);
        Some(from + place / candidates.seeds.len())
    }

    /// Fixes moments for as long as the run fails alike; whether any was fixed.
    fn make_concrete(&mut self) -> bool {
        let steps_before = self.best.steps;
        loop {
            let mut candidates = self.scenario.concrete(&self.best.timeline);
            candidates.retain(|concrete| *concrete != self.best.timeline);
            let candidates = Candidates { moves: &candidates, seeds: 0..1 };
            let (tried, found) = first_that_fails(self.scenario, &candidates, self.wanted, self.settings);
            self.best.tried += tried + 1;
            match found {
                Some((place, failure)) => self.keep(candidates.get(place), failure),
                None => return self.best.steps > steps_before,
            }
        }
    }

    fn keep(&mut self, timeline: Timeline<S::Config, S::Plan>, failure: Failure) {
        self.best.timeline = timeline;
        self.best.failure = failure;
        self.best.steps += 1;
        assert!(self.best.steps < MOST_STEPS, "shrinking goes round in circles");
        (self.progress)(&self.best);
    }
}

/// A method of [`Scenario`] that makes moves.
type Moves<S> = fn(
    &S,
    &Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>,
    &Failure,
) -> Vec<Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>>;

/// Timelines, each under several seeds: candidate after candidate is made when it is run, since all at once may be large.
struct Candidates<'a, C, P> {
    moves: &'a [Timeline<C, P>],
    /// The numbers of the seeds, of which 0 is the timeline's own.
    seeds: Range<u32>,
}

impl<C: Clone, P: Clone> Candidates<'_, C, P> {
    fn len(&self) -> usize {
        self.moves.len() * self.seeds.len()
    }

    /// The candidate at `place`: all of one timeline, then all of the next.
    fn get(&self, place: usize) -> Timeline<C, P> {
        let timeline = &self.moves[place / self.seeds.len()];
        let number = self.seeds.start + (place % self.seeds.len()) as u32;
        let own = timeline.seed;
        let seed = if number == 0 { own } else { mix(own, u64::from(number)) >> 1 };
        Timeline { seed, ..timeline.clone() }
    }
}

/// How `timeline` fails; `None` when it does not.
fn failure_of<S: Scenario>(scenario: &S, timeline: &Timeline<S::Config, S::Plan>) -> Option<Failure> {
    // A candidate may make no sense to the scenario, which may say so by a panic.
    let run = catch_unwind(AssertUnwindSafe(|| scenario.run(timeline, Watch::default()).0));
    let report = run.ok()?;
    report.findings.first().filter(|failure| failure.category.is_failure()).cloned()
}

/// Runs candidates until one fails as wanted: how many were run, and the place of the first that does.
fn first_that_fails<S>(
    scenario: &S,
    candidates: &Candidates<'_, S::Config, S::Plan>,
    wanted: u64,
    settings: &Settings,
) -> (u64, Option<(usize, Failure)>)
where
    S: Scenario,
    S::Config: Send + Sync,
    S::Plan: Send + Sync,
{
    let (next, tried) = (AtomicUsize::new(0), AtomicU64::new(0));
    let first = AtomicUsize::new(usize::MAX);
    let found = Mutex::new(None::<(usize, Failure)>);
    let work = || loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        // Places are handed out in order, so whatever is before the first is being run or was.
        if place >= candidates.len()
            || place > first.load(Ordering::Relaxed)
            || settings.stop.load(Ordering::Relaxed)
        {
            return;
        }
        tried.fetch_add(1, Ordering::Relaxed);
        if let Some(failure) = failure_of(scenario, &candidates.get(place))
            && failure.fingerprint() == wanted
        {
            first.fetch_min(place, Ordering::Relaxed);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.as_ref().is_none_or(|(known, _)| place < *known) {
                *found = Some((place, failure));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..settings.jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
    (tried.into_inner(), found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The timelines in which one more of `fields` is calm everywhere and always; what is calm in part goes into that.
pub fn calmer<C: Clone, P: Clone>(timeline: &Timeline<C, P>, fields: &[&str]) -> Vec<Timeline<C, P>> {
    let calm = |field: &&str| {
        let mut calmer = timeline.clone();
        calmer.overrides.retain(|edit| edit.field != **field || edit.set != Set::Calm);
        calmer.overrides.push(calm(field, None, 0, u64::MAX));
        calmer
    };
    fields.iter().filter(|field| !is_calm(&timeline.overrides, field)).map(calm).collect()
}

/// The timelines in which `field` is calm for one more of `keys`, or for longer from the beginning on. None where it is calm
/// as a whole.
pub fn calmer_in_part<C: Clone, P: Clone>(
    timeline: &Timeline<C, P>,
    field: &str,
    keys: &[u64],
    until_ns: u64,
) -> Vec<Timeline<C, P>> {
    /// No calm of less.
    const LEAST_NS: u64 = 10_000_000;
    let edits = &timeline.overrides;
    if is_calm(edits, field) {
        return Vec::new();
    }
    let with = |edit: Override| {
        let mut calmer = timeline.clone();
        calmer
            .overrides
            .retain(|other| other.field != edit.field || other.key != edit.key || other.set != edit.set);
        calmer.overrides.push(edit);
        calmer
    };
    let of_field = || edits.iter().filter(|edit| edit.field == field && edit.set == Set::Calm);
    let is_new = |key: &&u64| !of_field().any(|edit| edit.key == Some(**key));
    let known_ns = of_field().filter(|edit| edit.key.is_none()).map(|edit| edit.to_ns).max().unwrap_or(0);
    let left_ns = until_ns.saturating_sub(known_ns);
    let longer = [left_ns, left_ns / 2, left_ns / 4].into_iter().filter(|ns| *ns >= LEAST_NS);
    let longer = longer.map(|ns| with(calm(field, None, 0, known_ns + ns)));
    longer.chain(keys.iter().filter(is_new).map(|key| with(calm(field, Some(*key), 0, u64::MAX)))).collect()
}

fn calm(field: &str, key: Option<u64>, from_ns: u64, to_ns: u64) -> Override {
    Override { field: field.to_owned(), key, from_ns, to_ns, set: Set::Calm }
}

fn is_calm(edits: &[Override], field: &str) -> bool {
    edits.contains(&calm(field, None, 0, u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn calmer_timelines_calm_what_is_not_calm_yet() {
        let once = calmer(&Picky.timeline(1), &["loss", "latency"]);
        assert_eq!(once.len(), 2);
        assert_eq!(calmer(&once[0], &["loss", "latency"]).len(), 1);
    }

    #[test]
    fn a_field_is_calm_on_one_more_link_or_for_longer_until_it_is_calm_as_a_whole() {
        let start = Picky.timeline(1);
        let in_part =
            |timeline: &Timeline<u32, Vec<u32>>| calmer_in_part(timeline, "loss", &[4, 5], 80_000_000);
        let edits = |timeline: &Timeline<u32, Vec<u32>>| -> Vec<(Option<u64>, u64)> {
            timeline.overrides.iter().map(|edit| (edit.key, edit.to_ns)).collect()
        };
        let first: Vec<_> = in_part(&start).iter().map(edits).collect();
        let until = |ms: u64| vec![(None, ms * 1_000_000)];
        let on = |key| vec![(Some(key), u64::MAX)];
        assert_eq!(first, [until(80), until(40), until(20), on(4), on(5)]);
        // From 20 ms of calm it goes on, and the longer calm takes the place of the shorter.
        let second: Vec<_> = in_part(&in_part(&start)[2]).iter().map(edits).collect();
        assert_eq!(second[..3], [until(80), until(50), until(35)]);
        assert_eq!(second[3], [until(20), on(4)].concat());
        let whole = &calmer(&in_part(&start)[3], &["loss"])[0];
        assert_eq!(edits(whole), [(None, u64::MAX)]);
        assert_eq!(in_part(whole), []);
    }
}
