//! Bare seeds until they show nothing new any more.
//!
//! Invariant: where it ends does not depend on how many workers there are: what was run beyond that seed is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::pool::{Aborted, Patience, Pool};
use crate::campaign::Summary;
use crate::scenario::Scenario;
use crate::words::counted;

/// How it ended.
#[derive(Clone, Debug, Default)]
pub struct Stable {
    /// What the runs came to.
    pub summary: Summary,
    /// Different states, near misses and steps of assertions.
    pub seen: u64,
    /// After how many seeds the last of them was new.
    pub last_new_after: u64,
    /// So many seeds in a row showed nothing new: coverage is flat. Otherwise it was cut off by the cap, and was still
    /// growing (or a run did not end; then the summary is interrupted).
    pub is_flat: bool,
}

impl Stable {
    /// In one line.
    pub fn line(&self) -> String {
        let Self { summary, seen, last_new_after, is_flat } = self;
        let why = match (is_flat, summary.interrupted) {
            (true, _) => "coverage is flat".to_owned(),
            (false, false) => "CAP: the most seeds were run, coverage was still growing".to_owned(),
            (false, true) => "ABORTED: a run did not end".to_owned(),
        };
        format!(
            "{}, {seen} states and the like, the last new one after {last_new_after}: {why}",
            counted(summary.runs, "seed")
        )
    }
}

/// Seeds for each worker at a time.
const AT_ONCE: u64 = 4;

/// Runs seeds from 1 on until `plateau_seeds` in a row show nothing that no earlier one did, by state signatures,
/// assertions and near misses; or `max_seeds` were run, which is said.
///
/// A run for which nothing ends in `hung_after` of real time ends everything.
pub fn until_coverage_stable<S>(
    scenario: &Arc<S>,
    workers: usize,
    (plateau_seeds, max_seeds): (u64, u64),
    hung_after: Duration,
) -> Stable
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send,
    S::Plan: Send,
{
    let pool = Pool::new(scenario.clone(), workers.max(1), u64::MAX);
    let patience = Patience { deadline: None, hung_after, stop: Arc::new(AtomicBool::new(false)) };
    let mut stable = Stable::default();
    let mut seen = BTreeSet::new();
    let mut flat = 0;
    let mut next = 1;
    while next <= max_seeds {
        let to = max_seeds.min(next + AT_ONCE * workers.max(1) as u64 - 1);
        let batch = (next..=to).map(|seed| scenario.timeline(seed)).collect();
        let ran = match pool.run(batch, &patience, |_| false) {
            Ok(ran) => ran,
            Err(Aborted::Deadline | Aborted::Hung | Aborted::Interrupt) => {
                stable.summary.interrupted = true;
                return stable;
            }
        };
        for (seed, ran) in (next..=to).zip(ran) {
            let fresh = ran.scouted.sightings.iter().filter(|sighting| seen.insert(sighting.key)).count();
            match ran.report {
                Ok(report) => stable.summary.add(&report, &[]),
                Err(text) => stable.summary.add_broken(seed, text),
            }
            stable.seen = seen.len() as u64;
            flat = if fresh == 0 { flat + 1 } else { 0 };
            if fresh > 0 {
                stable.last_new_after = seed;
            }
            if flat >= plateau_seeds {
                stable.is_flat = true;
                return stable;
            }
        }
        next = to + 1;
    }
    stable
}
