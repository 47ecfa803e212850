//! What a guided search is worth: against plain seeds, from the same roots, for the same CPU time.
//!
//!   root r ──► seeds r, r + 1, r + 2 .. one after the other ──► first catch, or the time is over
//!         └──► `explore`, whose roots are the same seeds    ──► first catch, or the time is over
//!
//! A search that was cut off says no more than "more than that", and counts as dearer than any that was not.
//!
//! Not here: the searches; the clock, which whoever calls brings along (`clippy` forbids it here).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::report::Stopped;
use super::search::{Exploration, IsFinding, Settings, explore};
use crate::scenario::Scenario;

/// What one search took.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Took {
    /// Runs, the catching one included.
    pub runs: u64,
    /// CPU time.
    pub cpu_ms: u64,
    /// It ended with a catch, and not because the time was over.
    pub caught: bool,
}

/// What both kinds of search took, root by root.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Compared {
    /// Seeds one after the other.
    pub plain: Vec<Took>,
    /// [`explore()`], with one worker.
    pub guided: Vec<Took>,
}

/// How they are compared.
pub struct Comparison<'a> {
    /// How many searches of each kind.
    pub roots: u64,
    /// The first seed of a search lies so far behind that of the one before.
    pub apart: u64,
    /// CPU time that a search has.
    pub budget: Duration,
    /// What ends one.
    pub is_catch: IsFinding,
    /// How the guided one goes about it. Its ends, roots and workers are not used.
    pub settings: Settings,
    /// CPU time of the process so far. Nothing else should run in it.
    pub clock: &'a dyn Fn() -> Duration,
}

/// Makes both searches from each root.
pub fn compare<S>(scenario: &Arc<S>, comparison: &Comparison<'_>) -> Compared
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send + Sync,
    S::Plan: Send + Sync,
{
    let mut compared = Compared::default();
    for first in (0..comparison.roots).map(|root| root * comparison.apart + 1) {
        compared.plain.push(plain(&**scenario, first, comparison));
        compared.guided.push(guided(scenario, first, comparison));
    }
    compared
}

fn plain<S: Scenario>(scenario: &S, first: u64, comparison: &Comparison<'_>) -> Took {
    let begun = (comparison.clock)();
    let mut runs = 0;
    loop {
        let caught = (comparison.is_catch)(&scenario.run_seed(first + runs));
        runs += 1;
        let cpu = (comparison.clock)() - begun;
        if caught || cpu >= comparison.budget {
            return Took { runs, cpu_ms: cpu.as_millis() as u64, caught };
        }
    }
}

fn guided<S>(scenario: &Arc<S>, first: u64, comparison: &Comparison<'_>) -> Took
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send + Sync,
    S::Plan: Send + Sync,
{
    let settings = Settings {
        exploration: Exploration { workers: 1, ..comparison.settings.exploration.clone() },
        first_root: first,
        max_roots: u64::MAX,
        plateau_roots: u64::MAX,
        max_runs: u64::MAX,
        stops_at_first: true,
        is_finding: comparison.is_catch.clone(),
        deadline: None,
        stop: Arc::default(),
        ..comparison.settings.clone()
    };
    let begun = (comparison.clock)();
    let explored = explore(scenario, &settings, |_| {
        let is_over = (comparison.clock)() - begun >= comparison.budget;
        settings.stop.fetch_or(is_over, Ordering::Relaxed);
    });
    let cpu_ms = ((comparison.clock)() - begun).as_millis() as u64;
    match explored.findings.first().filter(|_| explored.stopped == Stopped::Finding) {
        Some(finding) => Took { runs: finding.runs_before + 1, cpu_ms, caught: true },
        None => Took { runs: explored.runs, cpu_ms, caught: false },
    }
}

/// The one in the middle of what searches took, by `of`; the greater of two. None where that was not caught.
fn median(took: &[Took], of: impl Fn(&Took) -> u64) -> Option<u64> {
    let mut values: Vec<Option<u64>> = took.iter().map(|took| took.caught.then(|| of(took))).collect();
    values.sort_unstable_by_key(|value| value.unwrap_or(u64::MAX));
    values.get(values.len() / 2).copied().flatten()
}

/// A row of a table: what is under each heading of [`Compared::HEADINGS`].
impl Compared {
    /// Of the two kinds of search in turn: how many ended with a catch; runs and CPU milliseconds to the first, in the
    /// median; catches in a second of CPU time, over all roots. Then how many times fewer runs and how many times less
    /// CPU time the guided one took, in the median, and how many times more it caught in a second.
    pub const HEADINGS: [&str; 11] = [
        "plain", "runs", "CPU ms", "per s", "explore", "runs", "CPU ms", "per s", "runs ÷", "CPU ÷",
        "per s ×",
    ];

    /// The row.
    pub fn cells(&self) -> Vec<String> {
        let (plain, guided) = (Side::of(&self.plain), Side::of(&self.guided));
        let mut cells = plain.cells();
        cells.extend(guided.cells());
        cells.push(times(plain.runs, guided.runs));
        cells.push(times(plain.cpu_ms, guided.cpu_ms));
        cells.push(if plain.per_second > 0.0 && guided.per_second > 0.0 {
            format!("{:.1}", guided.per_second / plain.per_second)
        } else {
            "-".to_owned()
        });
        cells
    }
}

struct Side {
    caught: usize,
    of: usize,
    runs: Option<u64>,
    cpu_ms: Option<u64>,
    per_second: f64,
}

impl Side {
    fn of(took: &[Took]) -> Self {
        let caught = took.iter().filter(|took| took.caught).count();
        let all_ms: u64 = took.iter().map(|took| took.cpu_ms).sum();
        Self {
            caught,
            of: took.len(),
            runs: median(took, |took| took.runs),
            cpu_ms: median(took, |took| took.cpu_ms),
            per_second: caught as f64 * 1_000.0 / all_ms.max(1) as f64,
        }
    }

    fn cells(&self) -> Vec<String> {
        let told = |value: Option<u64>| value.map_or("> budget".to_owned(), |value| value.to_string());
        let caught = format!("{}/{}", self.caught, self.of);
        vec![caught, told(self.runs), told(self.cpu_ms), format!("{:.2}", self.per_second)]
    }
}

/// How many times smaller the second is. What was over the budget is more than anything.
fn times(plain: Option<u64>, guided: Option<u64>) -> String {
    match (plain, guided) {
        (Some(plain), Some(guided)) => format!("{:.1}", plain as f64 / guided.max(1) as f64),
        (None, Some(_)) => "more".to_owned(),
        (Some(_), None) => "less".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(runs: u64, cpu_ms: u64, caught: bool) -> Took {
        Took { runs, cpu_ms, caught }
    }

    #[test]
    fn what_was_cut_off_is_dearer_than_anything_and_its_time_counts() {
        let plain = vec![took(10, 1_000, true), took(90, 3_000, false), took(80, 3_000, false)];
        let guided = vec![took(4, 500, true), took(5, 250, true), took(90, 3_000, false)];
        let cells = Compared { plain, guided }.cells();
        assert_eq!(cells[..4], ["1/3", "> budget", "> budget", "0.14"]);
        assert_eq!(cells[4..8], ["2/3", "5", "500", "0.53"]);
        assert_eq!(cells[8..], ["more", "more", "3.7"]);
    }
}
