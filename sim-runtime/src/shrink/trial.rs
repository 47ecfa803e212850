//! Running candidates on all threads: which is the first that fails alike, and how many do.
//!
//! Invariant: what is found depends on the candidates and their order, never on the number of threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Settings;
use crate::rng::mix;
use crate::scenario::{Scenario, Timeline, Watch};
use crate::verdict::Failure;

/// Timelines to try, in order. Each is made when it is run, since all at once may be large.
pub(super) trait Candidates<C, P>: Sync {
    /// How many places there are.
    fn len(&self) -> usize;

    /// The candidate at `place`, if there is one.
    fn get(&self, place: usize) -> Option<Timeline<C, P>>;
}

/// Timelines, each under several seeds: all of one timeline, then all of the next.
pub(super) struct Seeded<'a, C, P> {
    pub(super) moves: &'a [Timeline<C, P>],
    /// The numbers of the seeds, of which 0 is the timeline's own.
    pub(super) seeds: Range<u32>,
}

impl<C: Clone + Sync, P: Clone + Sync> Candidates<C, P> for Seeded<'_, C, P> {
    fn len(&self) -> usize {
        self.moves.len() * self.seeds.len()
    }

    fn get(&self, place: usize) -> Option<Timeline<C, P>> {
        let timeline = self.moves.get(place / self.seeds.len())?;
        let number = self.seeds.start + (place % self.seeds.len()) as u32;
        let own = timeline.seed;
        let seed = if number == 0 { own } else { mix(own, u64::from(number)) >> 1 };
        Some(Timeline { seed, ..timeline.clone() })
    }
}

/// Variations of a timeline.
pub(super) struct Variations<'a, S: Scenario> {
    pub(super) scenario: &'a S,
    pub(super) timeline: &'a Timeline<S::Config, S::Plan>,
    /// The numbers of the variations.
    pub(super) numbers: Range<u32>,
}

impl<S> Candidates<S::Config, S::Plan> for Variations<'_, S>
where
    S: Scenario,
    S::Config: Sync,
    S::Plan: Sync,
{
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn get(&self, place: usize) -> Option<Timeline<S::Config, S::Plan>> {
        self.scenario.variation(self.timeline, self.numbers.start + place as u32)
    }
}

/// How `timeline` fails; `None` when it does not.
pub(super) fn failure_of<S: Scenario>(
    scenario: &S,
    timeline: &Timeline<S::Config, S::Plan>,
) -> Option<Failure> {
    // A candidate may make no sense to the scenario, which may say so by a panic.
    let run = catch_unwind(AssertUnwindSafe(|| scenario.run(timeline, Watch::default()).0));
    let report = run.ok()?;
    report.findings.first().filter(|failure| failure.category.is_failure()).cloned()
}

/// Runs the candidates at `places` until one fails as wanted: how many were run, and the place of the first that does.
pub(super) fn first_that_fails<S>(
    scenario: &S,
    candidates: &impl Candidates<S::Config, S::Plan>,
    places: Range<usize>,
    wanted: u64,
    settings: &Settings,
) -> (u64, Option<(usize, Failure)>)
where
    S: Scenario,
{
    let (next, tried) = (AtomicUsize::new(places.start), AtomicU64::new(0));
    let first = AtomicUsize::new(usize::MAX);
    let found = Mutex::new(None::<(usize, Failure)>);
    on_all_threads(settings, || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            // Places are handed out in order, so whatever is before the first is being run or was.
            if place >= places.end
                || place > first.load(Ordering::Relaxed)
                || settings.stop.load(Ordering::Relaxed)
            {
                return;
            }
            let Some(candidate) = candidates.get(place) else { continue };
            tried.fetch_add(1, Ordering::Relaxed);
            if let Some(failure) = failure_of(scenario, &candidate)
                && failure.fingerprint() == wanted
            {
                first.fetch_min(place, Ordering::Relaxed);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                if found.as_ref().is_none_or(|(known, _)| place < *known) {
                    *found = Some((place, failure));
                }
            }
        }
    });
    (tried.into_inner(), found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// How many of the timelines fail as wanted.
pub(super) fn count_alike<S>(
    scenario: &S,
    timelines: &[Timeline<S::Config, S::Plan>],
    wanted: u64,
    settings: &Settings,
) -> u64
where
    S: Scenario,
    S::Config: Sync,
    S::Plan: Sync,
{
    let (next, alike) = (AtomicUsize::new(0), AtomicU64::new(0));
    on_all_threads(settings, || {
        while let Some(timeline) = timelines.get(next.fetch_add(1, Ordering::Relaxed)) {
            let fails = failure_of(scenario, timeline).is_some_and(|now| now.fingerprint() == wanted);
            alike.fetch_add(u64::from(fails), Ordering::Relaxed);
        }
    });
    alike.into_inner()
}

fn on_all_threads(settings: &Settings, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 1..settings.jobs.max(1) {
            scope.spawn(&work);
        }
        work();
    });
}
