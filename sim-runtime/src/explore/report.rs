//! What a search came to, and how it is told.

use std::fmt::Write;

use super::pool::Aborted;
use super::recipe::Recipe;
use crate::assert::{Assertions, Site};
use crate::scenario::Timeline;
use crate::verdict::Failure;
use crate::words::counted;

/// Why a search ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Stopped {
    /// It goes on.
    #[default]
    NotYet,
    /// New roots showed nothing new any more, and all states were followed as far as was allowed.
    CoverageFlat,
    /// The most roots were begun, and all states were followed as far as was allowed. Coverage was still growing.
    MaxRoots,
    /// The most runs were made. Coverage may still have been growing.
    MaxRuns,
    /// There is a finding, and the first was to be the last.
    Finding,
    /// The real time that was given was over; the round under way is not in the report.
    Deadline,
    /// A run did not end; so is the round under way.
    Hung,
    /// Somebody stopped it; so is the round under way.
    Interrupt,
}

impl Stopped {
    /// Whether the search was cut off in the middle.
    pub fn is_abort(self) -> bool {
        matches!(self, Self::Deadline | Self::Hung | Self::Interrupt)
    }

    /// In words.
    pub fn why(self) -> &'static str {
        match self {
            Self::NotYet => "it goes on",
            Self::CoverageFlat => "coverage stayed flat",
            Self::MaxRoots => "CAP: the most roots were begun, coverage was still growing",
            Self::MaxRuns => "CAP: the most runs were made",
            Self::Finding => "the first finding",
            Self::Deadline => "ABORTED: the time was over",
            Self::Hung => "ABORTED: a run did not end",
            Self::Interrupt => "ABORTED: interrupted",
        }
    }
}

impl From<Aborted> for Stopped {
    fn from(aborted: Aborted) -> Self {
        match aborted {
            Aborted::Deadline => Self::Deadline,
            Aborted::Hung => Self::Hung,
            Aborted::Interrupt => Self::Interrupt,
        }
    }
}

/// A kind of failure that was found.
#[derive(Clone, Debug)]
pub struct Finding<C, P> {
    /// What fails: plain data, to replay and to shrink.
    pub timeline: Timeline<C, P>,
    /// The seed that it began with.
    pub root: u64,
    /// How the timeline came of that.
    pub recipe: Recipe,
    /// How it fails.
    pub failure: Failure,
    /// Runs before it.
    pub runs_before: u64,
    /// In how many runs a failure of this kind was met.
    pub times: u64,
}

/// What came of one root and of all that goes back to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootReport {
    /// Its seed.
    pub seed: u64,
    /// Runs.
    pub runs: u64,
    /// Virtual time.
    pub virtual_ns: u128,
    /// What was new in them: states, near misses, steps of assertions.
    pub fresh: u64,
    /// Runs that failed.
    pub failed: u64,
}

impl RootReport {
    pub(super) fn of(seed: u64) -> Self {
        Self { seed, runs: 0, virtual_ns: 0, fresh: 0, failed: 0 }
    }
}

/// Where an assertion was reached first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstHit {
    /// The assertion.
    pub site: &'static Site,
    /// In a run that goes back to this seed.
    pub root: u64,
    /// In the how many-th run of all, from 1.
    pub run: u64,
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Explored<C, P> {
    /// By root, in order.
    pub roots: Vec<RootReport>,
    /// Runs of all.
    pub runs: u64,
    /// Runs of findings for a second time; they are not among the runs.
    pub checks: u64,
    /// Executor steps.
    pub steps: u64,
    /// Virtual time.
    pub virtual_ns: u128,
    /// Different states by signature.
    pub states: u64,
    /// Different premises that were broken.
    pub near_misses: u64,
    /// Places, values and watermarks of assertions.
    pub assertion_steps: u64,
    /// What happened at assertions.
    pub assertions: Assertions,
    /// Where each was reached first, in the order of the search.
    pub first_hits: Vec<FirstHit>,
    /// Failures by kind, in the order of the search.
    pub findings: Vec<Finding<C, P>>,
    /// States to start from after each round.
    pub frontier: Vec<usize>,
    /// States that had to give way to others there.
    pub evicted: u64,
    /// Runs that were ended by the limit of steps.
    pub pruned: u64,
    /// Sightings beyond what is kept of a run.
    pub dropped: u64,
    /// Why it ended.
    pub stopped: Stopped,
}

impl<C, P> Default for Explored<C, P> {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            runs: 0,
            checks: 0,
            steps: 0,
            virtual_ns: 0,
            states: 0,
            near_misses: 0,
            assertion_steps: 0,
            assertions: Assertions::default(),
            first_hits: Vec::new(),
            findings: Vec::new(),
            frontier: Vec::new(),
            evicted: 0,
            pruned: 0,
            dropped: 0,
            stopped: Stopped::NotYet,
        }
    }
}

/// What such a search is worth, for whoever reads its report.
pub const LIMITS: &str =
    "This is guided random testing: neither model checking nor a proof. What it did not find may be there.";

/// Roots that are told of singly.
const ROOTS_SHOWN: usize = 12;

impl<C, P> Explored<C, P> {
    /// The report, without the findings. `crates` are those whose assertions are listed when nothing reached them.
    pub fn lines(&self, crates: &[&str]) -> Vec<String> {
        let mut lines = vec![format!(
            "{}, {}, {:.0} s of virtual time: {}, {} near miss{}, {} of assertions; ended: {}",
            counted(self.roots.len() as u64, "root"),
            counted(self.runs, "run"),
            self.virtual_ns as f64 / 1e9,
            counted(self.states, "state"),
            self.near_misses,
            if self.near_misses == 1 { "" } else { "es" },
            counted(self.assertion_steps, "step"),
            self.stopped.why()
        )];
        for root in self.roots.iter().take(ROOTS_SHOWN) {
            let RootReport { seed, runs, virtual_ns, fresh, failed } = root;
            let seconds = *virtual_ns as f64 / 1e9;
            let runs = counted(*runs, "run");
            lines.push(format!(
                "  root {seed}: {runs}, {seconds:.1} s of virtual time, {fresh} new, {failed} failed"
            ));
        }
        if let Some(more) = self.roots.len().checked_sub(ROOTS_SHOWN).filter(|more| *more > 0) {
            lines.push(format!("  and {}", counted(more as u64, "more root")));
        }
        let rounds = counted(self.frontier.len() as u64, "round");
        lines.push(format!("frontier over {rounds}: {}", chart(&self.frontier)));
        for (count, what) in [
            (self.evicted, "states gave way to others on the full frontier"),
            (self.pruned, "runs were ended by the limit of steps"),
            (self.dropped, "sightings were beyond what is kept of a run"),
        ] {
            if count > 0 {
                lines.push(format!("LIMIT MET: {count} {what}"));
            }
        }
        lines.extend(self.assertions.limits_met());
        for FirstHit { site, root, run } in &self.first_hits {
            lines.push(format!("first reached in run {run}, from root {root}: {site}"));
        }
        lines.extend(self.assertions.gaps(crates).into_iter().map(|gap| format!("NOT REACHED: {gap}")));
        lines.push(LIMITS.to_owned());
        lines
    }
}

/// How many columns a chart has at most.
const COLUMNS: usize = 60;

/// Numbers as a row of bars, with the greatest.
pub(super) fn chart(numbers: &[usize]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().copied().max().unwrap_or(0);
    let width = numbers.len().div_ceil(COLUMNS).max(1);
    let mut text = String::new();
    for some in numbers.chunks(width) {
        let here = some.iter().copied().max().unwrap_or(0);
        text.push(BARS[(here * (BARS.len() - 1)).checked_div(most).unwrap_or(0)]);
    }
    let _ = write!(text, " at most {most}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_bar_for_each_part_and_says_the_greatest() {
        assert_eq!(chart(&[0, 1, 7, 14]), "▁▁▄█ at most 14");
        assert_eq!(chart(&[]), " at most 0");
        let long: Vec<usize> = (0..1_000).collect();
        assert_eq!(chart(&long).chars().filter(|c| "▁▂▃▄▅▆▇█".contains(*c)).count(), 59);
    }
}
