//! Where two runs part.

use serde::{Deserialize, Serialize};

use crate::ambient::{Door, DoorUse};
use crate::rng::mix;
use crate::trace::Record;
use crate::verdict::{Category, Failure};

use super::cause::Cause;
use super::perturbation::Perturbation;
use super::tape::{Line, Recording};

/// What is told of one of two runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    /// Up to ten lines before the first that differs, then that one, unless the run had ended by then.
    pub lines: Vec<Line>,
    /// Whether the run had ended by then.
    pub ended: bool,
    /// How many entries its recording has.
    pub entries: u64,
    /// Its verdict; none if the scenario itself panicked.
    pub verdict: Option<Category>,
    /// What was found wrong in it.
    pub failures: Vec<Failure>,
    /// What it asked the process for.
    pub doors: Vec<DoorNote>,
}

/// A door that a run used, as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoorNote {
    /// Which; one of the names of [`Door`].
    pub door: String,
    /// The name of the file or variable, if there is one.
    pub what: String,
    /// How often.
    pub count: u64,
    /// By which task first.
    pub task: String,
    /// From where first.
    pub backtrace: String,
}

impl DoorNote {
    pub(super) fn of(used: &DoorUse) -> Self {
        Self {
            door: used.door.name().to_owned(),
            what: used.what.clone(),
            count: used.count,
            task: used.task.clone(),
            backtrace: used.backtrace.to_string(),
        }
    }

    pub(super) fn is(&self, door: Door) -> bool {
        self.door == door.name()
    }
}

impl Side {
    /// Of a run whose recording differs from another one at entry `at`.
    pub(super) fn of(recording: &Recording, at: usize, describe: &dyn Fn(&Record) -> Option<String>) -> Self {
        let report = recording.report.as_ref();
        Self {
            lines: recording.lines(at, describe),
            ended: at >= recording.len(),
            entries: recording.len() as u64,
            verdict: report.map(|report| report.findings.category()),
            failures: report.map(|report| report.findings.failures.clone()).unwrap_or_default(),
            doors: report.iter().flat_map(|report| &report.doors).map(DoorNote::of).collect(),
        }
    }

    /// The line that differs, if the run had not ended by then.
    pub fn differing(&self) -> Option<&Line> {
        if self.ended { None } else { self.lines.last() }
    }
}

/// What a run in another process came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Over its whole recording.
    pub(super) digest: u64,
    /// Where it parts from what was expected, if it does.
    pub(super) parted: Option<(usize, Side)>,
}

impl Answer {
    pub(super) fn of(
        recording: &Recording,
        expected: &[u64],
        describe: &dyn Fn(&Record) -> Option<String>,
    ) -> Self {
        let own = recording.fingerprints();
        let at = if expected.is_empty() { None } else { first_difference(expected, &own) };
        Self { digest: digest(&own), parted: at.map(|at| (at, Side::of(recording, at, describe))) }
    }
}

pub(super) fn digest(fingerprints: &[u64]) -> u64 {
    fingerprints.iter().fold(fingerprints.len() as u64, |digest, one| mix(digest, *one))
}

/// The first place at which two recordings differ; that where the shorter one ends, if they are alike until then.
pub(super) fn first_difference(one: &[u64], other: &[u64]) -> Option<usize> {
    let shorter = one.len().min(other.len());
    let differs = (0..shorter).find(|at| one[*at] != other[*at]);
    differs.or_else(|| (one.len() != other.len()).then_some(shorter))
}

/// Two runs of one timeline that are not alike.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The seed.
    pub seed: u64,
    /// What was different in the second run.
    pub perturbation: Perturbation,
    /// The timeline as JSON: the smallest that was found, if it was shrunk.
    pub timeline: serde_json::Value,
    /// How many times the timeline was made smaller.
    pub shrink_steps: u64,
    /// At which entry of their recordings the runs part, from 0.
    pub entry: u64,
    /// How many trace records they have in common.
    pub record: u64,
    /// The first run.
    pub first: Side,
    /// The second run.
    pub second: Side,
    /// What is to blame, as far as can be guessed.
    pub cause: Cause,
}

impl Divergence {
    /// As a failure of the seed. The failures of both runs are in its sides.
    pub fn failure(&self) -> Failure {
        let line = self.first.differing().or(self.second.differing());
        Failure {
            category: Category::Nondeterministic,
            property: format!("runs differ: {}", self.perturbation),
            shape: self.cause.kind.name().to_owned(),
            evidence: self.cause.to_string(),
            time_ns: line.map_or(0, |line| line.time_ns),
            record: self.record,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn a_run_that_is_shorter_differs() {
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 2, 3], &[1, 9, 3]), Some(1));
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2]), Some(2));
        assert_eq!(first_difference(&[], &[1]), Some(0));
    }
}
