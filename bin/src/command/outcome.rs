//! What a campaign came to, as JSON that can be put together again.
//!
//!   Summary ──► Outcome ──► file ┐
//!   Summary ──► Outcome ──► file ┴──► `merge` ──► Outcome of the whole
//!
//! Invariants: everything but the times is a sum, a union or a histogram over seeds, so that the outcome of a range of
//! seeds is the same whether one process ran it or several did; what is derived (medians, what was never reached) is
//! derived again after merging.
//! Not here: printing (`table.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use sim_runtime::campaign::{FailedRun, Summary};
use sim_runtime::device::Coverage;
use sim_runtime::scenario::Scenario;
use sim_runtime::verdict::Category;

use super::corpus::CorpusOutcome;
use super::table;
use crate::cli::{CampaignArgs, Status};
use crate::raft::coverage;

/// One of several equal parts of a campaign: `2/3` is the second of three.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shard {
    /// Which, from 1.
    pub number: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// All there is.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// How many of `count` belong to it.
    pub fn share(&self, count: u64) -> u64 {
        count.saturating_sub(self.number - 1).div_ceil(self.of)
    }

    /// Whether what stands at place `index`, from 0, belongs to it.
    pub fn has(&self, index: usize) -> bool {
        index as u64 % self.of == self.number - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        match numbers {
            Some((Ok(number), Ok(of))) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(format!("`{text}` is no part of a whole: I/N with I from 1 to N is, as in 2/3")),
        }
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Why seeds were left out.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The time that was given was over.
    Time,
    /// There was a failure, and the first was to be the last.
    Failure,
    /// Somebody interrupted it.
    Interrupt,
}

/// A run that was not a pass.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Its seed.
    pub seed: u64,
    /// The verdict.
    pub verdict: Category,
    /// The property that objected first.
    pub property: String,
    /// All that objected, in order.
    pub properties: Vec<String>,
    /// What runs with one cause share.
    pub fingerprint: String,
    /// What happened.
    pub evidence: String,
    /// The line that runs it again.
    pub reproduce: String,
}

/// How often each value of a counter occurred.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The least value.
    pub fewest: u64,
    /// The one in the middle; the upper one of two.
    pub median: u64,
    /// Runs by value.
    pub runs: BTreeMap<u64, u64>,
}

impl Distribution {
    fn of(runs: BTreeMap<u64, u64>) -> Self {
        let mut before = runs.values().sum::<u64>() / 2;
        let median = runs.iter().find(|(_, count)| match before.checked_sub(**count) {
            Some(left) => {
                before = left;
                false
            }
            None => true,
        });
        let (fewest, median) =
            (runs.keys().next().copied().unwrap_or(0), median.map_or(0, |(value, _)| *value));
        Self { fewest, median, runs }
    }
}

/// What a campaign came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Which seeds were asked for; of them, those of `shard`.
    pub seeds: String,
    /// Which part of them; absent for all.
    pub shard: Option<Shard>,
    /// The flags that shaped the runs.
    pub flags: String,
    /// How many were run.
    pub runs: u64,
    /// One number for all of them.
    pub digest: String,
    /// Real time.
    pub wall_ms: u64,
    /// Runs by real time.
    pub seeds_per_second: u64,
    /// The digest of each run, in campaigns of moderate size.
    pub run_digests: BTreeMap<u64, String>,
    /// Why not all were run.
    pub stopped: Option<Stopped>,
    /// Whether somebody interrupted it.
    pub interrupted: bool,
    /// Runs by verdict; all verdicts are listed.
    pub verdicts: BTreeMap<Category, u64>,
    /// What happened how often.
    pub coverage: Coverage,
    /// How the values of some counters are distributed over the runs.
    pub distributions: BTreeMap<String, Distribution>,
    /// Counters that are on and never happened.
    pub unreached: Vec<String>,
    /// Assertions that were never reached, or never so.
    #[serde(default)]
    pub assertions_unreached: BTreeSet<String>,
    /// Assertions with more values than are told apart, in words.
    #[serde(default)]
    pub assertion_limits: BTreeSet<String>,
    /// Broken premises: in how many runs.
    pub premise: BTreeMap<String, u64>,
    /// Trace records.
    pub records: u64,
    /// Executor steps.
    pub steps: u64,
    /// Virtual time.
    pub virtual_ns: u64,
    /// Runs that were not a pass, by seed.
    pub failures: Vec<Failed>,
    /// What the timelines of the corpus came to, if there is one.
    pub corpus: Option<CorpusOutcome>,
}

impl Outcome {
    /// Of the runs in `summary`.
    pub(super) fn of(
        args: &CampaignArgs,
        summary: &Summary,
        run_digests: BTreeMap<u64, u64>,
        elapsed: Duration,
        stopped: Option<Stopped>,
    ) -> Self {
        let hex = |digest: u64| format!("{digest:016x}");
        let failed = |run: &FailedRun| Failed {
            seed: run.seed,
            verdict: run.first.category,
            property: run.first.property.clone(),
            properties: run.properties.clone(),
            fingerprint: hex(run.first.fingerprint()),
            evidence: run.first.evidence.clone(),
            reproduce: args.shape.reproduce(run.seed),
        };
        let distribution = |values: &Vec<u64>| {
            let mut runs = BTreeMap::new();
            values.iter().for_each(|value| *runs.entry(*value).or_default() += 1);
            Distribution::of(runs)
        };
        let distributions = summary.distributions.iter();
        Self {
            seeds: args.seeds.to_string(),
            shard: args.shard,
            flags: args.shape.flags().trim().to_owned(),
            runs: summary.runs,
            digest: hex(summary.digest),
            wall_ms: elapsed.as_millis() as u64,
            seeds_per_second: table::per_second(summary.runs, elapsed),
            run_digests: run_digests.into_iter().map(|(seed, digest)| (seed, hex(digest))).collect(),
            stopped,
            interrupted: stopped == Some(Stopped::Interrupt),
            verdicts: Category::ALL.iter().map(|c| (*c, summary.count(*c))).collect(),
            coverage: summary.coverage.clone(),
            distributions: distributions
                .map(|(name, values)| ((*name).to_owned(), distribution(values)))
                .collect(),
            unreached: coverage::unreached(&summary.coverage),
            assertions_unreached: summary
                .assertions
                .missing(&args.shape.scenario().asserting())
                .into_iter()
                .map(ToString::to_string)
                .collect(),
            assertion_limits: summary.assertions.limits_met().into_iter().collect(),
            premise: summary.premise.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            records: summary.records,
            steps: summary.steps,
            virtual_ns: u64::try_from(summary.virtual_ns).unwrap_or(u64::MAX),
            failures: summary.failures.iter().map(failed).collect(),
            corpus: None,
        }
    }

    /// Adds the outcome of another part. The caller has seen to it that the two belong together.
    pub fn merge(&mut self, other: Self) -> Result<(), NotADigest> {
        self.runs += other.runs;
        self.digest = format!("{:016x}", digest(&self.digest)?.wrapping_add(digest(&other.digest)?));
        // Parts run side by side.
        self.wall_ms = self.wall_ms.max(other.wall_ms);
        self.seeds_per_second = table::per_second(self.runs, Duration::from_millis(self.wall_ms));
        self.run_digests.extend(other.run_digests);
        self.stopped = self.stopped.max(other.stopped);
        self.interrupted |= other.interrupted;
        add(&mut self.verdicts, other.verdicts);
        self.coverage.merge(&other.coverage);
        for (name, theirs) in other.distributions {
            let ours = self.distributions.entry(name).or_default();
            let mut runs = std::mem::take(&mut ours.runs);
            add(&mut runs, theirs.runs);
            *ours = Distribution::of(runs);
        }
        self.unreached = coverage::unreached(&self.coverage);
        // What one part has reached is reached.
        self.assertions_unreached.retain(|gap| other.assertions_unreached.contains(gap));
        self.assertion_limits.extend(other.assertion_limits);
        add(&mut self.premise, other.premise);
        self.records += other.records;
        self.steps += other.steps;
        self.virtual_ns = self.virtual_ns.saturating_add(other.virtual_ns);
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failed| failed.seed);
        match (&mut self.corpus, other.corpus) {
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (ours, theirs) => *ours = ours.take().or(theirs),
        }
        Ok(())
    }

    /// Runs with that verdict.
    pub fn count(&self, category: Category) -> u64 {
        self.verdicts.get(&category).copied().unwrap_or(0)
    }

    /// Runs in which something is wrong.
    pub fn failed(&self) -> u64 {
        self.verdicts.iter().filter(|(category, _)| category.is_failure()).map(|(_, n)| n).sum()
    }

    /// What the exit status says about it.
    pub fn status(&self, idle_allowed_per_million: u32) -> Status {
        let idle = self.count(Category::Idle);
        let too_idle =
            u128::from(idle) * 1_000_000 > u128::from(self.runs) * u128::from(idle_allowed_per_million);
        let of_corpus = self.corpus.as_ref();
        if self.failed() > 0 || of_corpus.is_some_and(|corpus| corpus.failed() > 0) {
            Status::Failed
        } else if self.count(Category::Undecided) > 0
            || too_idle
            || self.interrupted
            || self.runs == 0
            || of_corpus.is_some_and(|corpus| !corpus.failures.is_empty())
        {
            Status::NotAPass
        } else {
            Status::Clean
        }
    }
}

/// A digest in a file is not one.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a digest")]
pub struct NotADigest(String);

fn digest(text: &str) -> Result<u64, NotADigest> {
    u64::from_str_radix(text, 16).map_err(|_| NotADigest(text.to_owned()))
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    for (key, n) in more {
        *sums.entry(key).or_default() += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(verdicts: &[(Category, u64)]) -> Outcome {
        let runs = verdicts.iter().map(|(_, n)| n).sum();
        let summary = Summary { runs, verdicts: verdicts.iter().copied().collect(), ..Summary::default() };
        Outcome::of(&CampaignArgs::of_line("--seeds 9"), &summary, BTreeMap::new(), Duration::ZERO, None)
    }

    #[test]
    fn only_passes_and_a_few_idle_runs_are_clean() {
        use Category::{Idle, Invariant, Nondeterministic, Pass, Undecided};
        let of = |verdicts: &[(Category, u64)]| outcome(verdicts).status(10_000);
        assert_eq!(of(&[(Pass, 100)]), Status::Clean);
        assert_eq!(of(&[(Pass, 99), (Idle, 1)]), Status::Clean);
        assert_eq!(of(&[(Pass, 98), (Idle, 2)]), Status::NotAPass);
        assert_eq!(of(&[(Pass, 999), (Undecided, 1)]), Status::NotAPass);
        assert_eq!(of(&[(Pass, 999), (Undecided, 1), (Invariant, 1)]), Status::Failed);
        assert_eq!(of(&[(Pass, 999), (Nondeterministic, 1)]), Status::Failed);
        assert_eq!(of(&[]), Status::NotAPass);
        let interrupted = Outcome { interrupted: true, ..outcome(&[(Pass, 5)]) };
        assert_eq!(interrupted.status(10_000), Status::NotAPass);
        let out_of_time = Outcome { stopped: Some(Stopped::Time), ..outcome(&[(Pass, 5)]) };
        assert_eq!(out_of_time.status(10_000), Status::Clean);
    }

    #[test]
    fn medians_come_from_histograms() {
        let of = |values: &[u64]| {
            let mut runs = BTreeMap::new();
            values.iter().for_each(|value| *runs.entry(*value).or_default() += 1);
            let Distribution { fewest, median, .. } = Distribution::of(runs);
            (fewest, median)
        };
        assert_eq!(of(&[9, 1, 5]), (1, 5));
        assert_eq!(of(&[4, 4, 7, 7]), (4, 7));
        assert_eq!(of(&[3, 3, 3, 8]), (3, 3));
        assert_eq!(of(&[]), (0, 0));
    }

    #[test]
    fn an_outcome_survives_its_file() {
        let before = outcome(&[(Category::Pass, 3)]);
        let text = serde_json::to_string(&before).expect("plain data");
        assert_eq!(serde_json::from_str::<Outcome>(&text).expect("what was written"), before);
    }

    #[test]
    fn shards_are_counted_from_one() {
        let shard: Shard = "2/3".parse().expect("a shard");
        let has: Vec<usize> = (0..7).filter(|index| shard.has(*index)).collect();
        assert_eq!((has, shard.share(7), shard.share(1)), (vec![1, 4], 2, 0));
        for text in ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
