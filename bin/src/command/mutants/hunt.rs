//! The search: for each defect and range of seeds, run after run until an outcome oracle objects.
//!
//!   worker ──next()──► first range that nobody searches and that is not done ──► one run ──► what the range knows
//!
//! Invariants: a range is searched by one worker at a time, seed by seed, and ends with its first catch, so what is
//! found does not depend on how many workers there are; only times do.
//! Not here: what the ranges come to (`report.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oracles::property::Property;
use raft_async::mutant::{Mutant, Part, Planted};
use sim_io::nemesis::Plan;
use sim_runtime::campaign::{self, Settings};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::verdict::{Category, Failure, RunReport};

use crate::command::cpu::{Whose, cpu_us};
use crate::raft::{Config, Raft};

/// What one range of seeds came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Range {
    /// Before its first seed.
    pub(super) before: u64,
    /// Seeds that were run.
    pub(super) runs: u64,
    /// The run that ended it.
    pub(super) catch: Option<Catch>,
    /// CPU time of the worker in these runs.
    pub(super) cpu_us: u64,
    /// In how many runs which premise was broken.
    pub(super) premise: BTreeMap<&'static str, u64>,
    /// In how many runs something failed, of whatever kind.
    pub(super) failed: u64,
    /// In how many runs fidelity objected.
    pub(super) unfaithful: u64,
    /// In how many runs something panicked.
    pub(super) crashed: u64,
    busy: bool,
    done: bool,
}

/// A run in which an outcome oracle objected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Catch {
    pub(super) seed: u64,
    /// All that objected: properties, and `crash`, `stuck` and so on where that is what happened.
    pub(super) oracles: BTreeSet<String>,
    /// Whether one of those was expected.
    pub(super) expected: bool,
}

/// A defect, and its ranges.
#[derive(Clone, Debug)]
pub(super) struct Quarry {
    pub(super) mutant: Mutant,
    pub(super) ranges: Vec<Range>,
}

impl Quarry {
    pub(super) fn is_control(&self) -> bool {
        self.mutant.row().part == Part::Control
    }
}

/// The name under which `failure` is counted: the property, or what happened where no property is behind it.
fn oracle(failure: &Failure) -> &str {
    match failure.category {
        Category::Invariant | Category::Linearizability => &failure.property,
        category => category.name(),
    }
}

/// Its abbreviation in the registry.
fn abbreviation(oracle: &str) -> &str {
    let property = Property::ALL.iter().find(|property| property.name() == oracle);
    match (property, oracle) {
        (Some(property), _) => property.abbreviation(),
        (None, "crash") => "CRASH",
        (None, "stuck" | "livelock" | "hung") => "LIVE",
        (None, other) => other,
    }
}

/// All that objected, if it makes a catch of `mutant`. A crash is a symptom, and a catch only where the registry says
/// that it is all there is to see; fidelity says that a server and its records part ways, which is no harm yet.
fn catch(mutant: Mutant, failures: &[Failure], seed: u64) -> Option<Catch> {
    let wrong = failures.iter().filter(|failure| failure.category.is_failure());
    let oracles: BTreeSet<String> = wrong.map(|failure| oracle(failure).to_owned()).collect();
    let is_expected = |oracle: &String| mutant.row().expected.contains(&abbreviation(oracle));
    let is_outcome = |oracle: &String| {
        oracle != Property::Fidelity.name()
            && oracle != Category::Nondeterministic.name()
            && (oracle != Category::Crash.name() || is_expected(oracle))
    };
    if !oracles.iter().any(is_outcome) {
        return None;
    }
    let expected = oracles.iter().any(is_expected);
    Some(Catch { seed, oracles, expected })
}

/// Whether the run of `report` is a catch of `mutant`.
pub(in crate::command) fn is_catch(mutant: Mutant, report: &RunReport) -> bool {
    catch(mutant, &report.findings.failures, report.seed).is_some()
}

/// A scenario whose "seeds" say which defect is planted, too.
pub(super) struct Hunt {
    raft: Raft,
    budget: u64,
    /// Whether only objections of an expected oracle end a range.
    expected_only: bool,
    quarries: Mutex<Vec<Quarry>>,
}

/// The place of the defect is above the seed's bits.
const SEED_BITS: u32 = 48;

fn code(place: usize, seed: u64) -> u64 {
    (place as u64) << SEED_BITS | seed
}

fn decode(code: u64) -> (usize, u64) {
    ((code >> SEED_BITS) as usize, code & ((1 << SEED_BITS) - 1))
}

impl Hunt {
    /// `ranges` of `budget` seeds for each mutant, the same for all; one for a control, which nothing should end.
    pub(super) fn new(raft: Raft, mutants: &[Mutant], budget: u64, ranges: u64) -> Self {
        let quarry = |mutant: &Mutant| {
            let ranges = if mutant.row().part == Part::Control { 1 } else { ranges };
            let range = |n: u64| Range { before: n * budget, ..Range::default() };
            Quarry { mutant: *mutant, ranges: (0..ranges).map(range).collect() }
        };
        let quarries = Mutex::new(mutants.iter().map(quarry).collect());
        Self { raft, budget, expected_only: false, quarries }
    }

    /// A range goes on until an oracle objects of which the catalogue expects it.
    pub(super) fn until_expected(self, expected_only: bool) -> Self {
        Self { expected_only, ..self }
    }

    /// Searches all ranges, or until it is told to stop. `told` hears how many ranges are done.
    pub(super) fn run(
        self: &Arc<Self>,
        settings: &Settings,
        mut told: impl FnMut(usize),
    ) -> (Vec<Quarry>, bool) {
        let hunt = self.clone();
        let supply = std::iter::from_fn(move || hunt.next());
        let mut lost = BTreeSet::new();
        let summary = campaign::run(self, supply, settings, |report, summary| {
            if report.is_none() {
                // The run never came back: its range ends here.
                for run in &summary.failures {
                    if matches!(run.first.category, Category::Hung | Category::Crash) && lost.insert(run.seed)
                    {
                        self.lose(run.seed, &run.first);
                    }
                }
            }
            told(self.done());
        });
        (self.lock().clone(), summary.interrupted)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Quarry>> {
        self.quarries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> usize {
        self.lock().iter().flat_map(|quarry| &quarry.ranges).filter(|range| range.done).count()
    }

    fn next(&self) -> Option<u64> {
        let mut quarries = self.lock();
        for (place, quarry) in quarries.iter_mut().enumerate() {
            if let Some(range) = quarry.ranges.iter_mut().find(|range| !range.busy && !range.done) {
                range.busy = true;
                return Some(code(place, range.before + range.runs + 1));
            }
        }
        None
    }

    fn settle(&self, code: u64, cpu_us: u64, failures: &[Failure], premise: &BTreeMap<&'static str, u64>) {
        let (place, seed) = decode(code);
        let quarry = &mut self.lock()[place];
        let is_control = quarry.is_control();
        let mutant = quarry.mutant;
        let range =
            quarry.ranges.iter_mut().find(|r| (r.before + 1..=r.before + self.budget).contains(&seed));
        let range = range.expect("a seed belongs to a range");
        if range.before + range.runs + 1 != seed {
            // Known already: a panic in a run that is told of twice.
            return;
        }
        range.busy = false;
        range.runs += 1;
        range.cpu_us += cpu_us;
        for premise in premise.keys() {
            *range.premise.entry(premise).or_default() += 1;
        }
        let has = |is: &dyn Fn(&Failure) -> bool| u64::from(failures.iter().any(is));
        range.failed += has(&|failure| failure.category.is_failure());
        range.unfaithful += has(&|failure| failure.property == Property::Fidelity.name());
        range.crashed += has(&|failure| failure.category == Category::Crash);
        let caught = catch(mutant, failures, seed).filter(|catch| catch.expected || !self.expected_only);
        range.done = range.runs == self.budget || caught.is_some() && !is_control;
        range.catch = range.catch.take().or(caught);
    }

    fn lose(&self, code: u64, first: &Failure) {
        self.settle(code, 0, std::slice::from_ref(first), &BTreeMap::new());
    }
}

impl Scenario for Hunt {
    type Config = Config;
    type Plan = Plan;

    fn config(&self, code: u64) -> Config {
        let (place, seed) = decode(code);
        let planted = Planted::one(self.lock()[place].mutant);
        Raft { planted, ..self.raft.clone() }.config(seed)
    }

    fn plan(&self, code: u64, config: &Config) -> Plan {
        self.raft.plan(decode(code).1, config)
    }

    fn timeline(&self, code: u64) -> Timeline<Config, Plan> {
        let config = self.config(code);
        let plan = self.plan(code, &config);
        Timeline { seed: decode(code).1, config, plan, overrides: Vec::new() }
    }

    fn run(&self, timeline: &Timeline<Config, Plan>, watch: Watch) -> (RunReport, Vec<String>) {
        self.raft.run(timeline, watch)
    }

    fn run_seed(&self, code: u64) -> RunReport {
        let before_us = cpu_us(Whose::Thread);
        let report = self.run(&self.timeline(code), Watch::default()).0;
        let cpu_us = cpu_us(Whose::Thread).saturating_sub(before_us);
        self.settle(code, cpu_us, &report.findings.failures, &report.findings.premise);
        RunReport { seed: code, ..report }
    }
}

#[cfg(all(test, feature = "mutants"))]
mod tests {
    use sim_runtime::verdict::Findings;

    use super::*;
    use crate::raft::Profile;

    fn hunt(mutants: &[Mutant], budget: u64, ranges: u64, jobs: usize) -> Vec<Quarry> {
        let hunt = Arc::new(Hunt::new(Raft::of(Profile::Swarm), mutants, budget, ranges));
        let (mut quarries, interrupted) = hunt.run(&Settings { jobs, ..Settings::default() }, |_| {});
        assert!(!interrupted);
        quarries.iter_mut().flat_map(|quarry| &mut quarry.ranges).for_each(|range| range.cpu_us = 0);
        quarries
    }

    #[test]
    fn what_is_found_does_not_depend_on_the_number_of_workers() {
        let mutants = [Mutant::KvNoDedup, Mutant::DoubleVote, Mutant::ControlExtraFsync];
        let alone = hunt(&mutants, 12, 3, 1);
        let together = hunt(&mutants, 12, 3, 4);
        for (one, other) in alone.iter().zip(&together) {
            assert_eq!((one.mutant, &one.ranges), (other.mutant, &other.ranges));
        }
        assert!(alone[0].ranges.iter().all(|range| range.catch.is_some()), "{:?}", alone[0]);
    }

    #[test]
    fn a_range_ends_with_its_first_catch_and_replays_as_a_bare_seed() {
        for range in &hunt(&[Mutant::Canary], 5, 2, 2)[0].ranges {
            let catch = range.catch.as_ref().expect("the canary always sings");
            assert_eq!((range.runs, catch.seed), (1, range.before + 1));
            assert!(catch.expected);
            let raft = Raft { planted: Planted::one(Mutant::Canary), ..Raft::of(Profile::Swarm) };
            assert!(raft.run_seed(catch.seed).findings.category().is_failure());
        }
    }

    #[test]
    fn a_range_can_go_on_until_an_expected_oracle_objects() {
        let ranges = |expected_only| {
            let raft = Raft::of(Profile::Swarm);
            let hunt = Hunt::new(raft, &[Mutant::UnpersistedVote], 60, 4).until_expected(expected_only);
            Arc::new(hunt).run(&Settings::default(), |_| {}).0.remove(0).ranges
        };
        let seeds = |ranges: &[Range]| -> Vec<_> {
            ranges.iter().map(|range| range.catch.as_ref().map(|catch| catch.seed)).collect()
        };
        let (any, expected) = (ranges(false), ranges(true));
        // A vote that was told and is gone is seen at once, two leaders in one term are not.
        assert!(any.iter().any(|range| range.catch.as_ref().is_some_and(|catch| !catch.expected)));
        assert!(expected.iter().all(|range| range.catch.as_ref().is_none_or(|catch| catch.expected)));
        assert!(any.iter().zip(&expected).all(|(any, expected)| any.runs <= expected.runs));
        assert_ne!(seeds(&any), seeds(&expected));
        assert!(expected.iter().any(|range| range.catch.is_some()));
    }

    #[test]
    fn a_control_is_run_to_the_end_of_its_budget() {
        let quarry = &hunt(&[Mutant::ControlDuplicateSend], 7, 4, 2)[0];
        assert_eq!((quarry.ranges.len(), quarry.ranges[0].runs, quarry.ranges[0].failed), (1, 7, 0));
    }

    #[test]
    fn neither_fidelity_nor_an_unexpected_crash_is_a_catch() {
        let found = |list: &[(Category, &'static str)]| {
            let mut findings = Findings::default();
            list.iter().for_each(|(category, name)| findings.failure(*category, name, "", String::new()));
            findings.failures
        };
        let fidelity = (Category::Invariant, "fidelity");
        let crash = (Category::Crash, "panic");
        let of = |mutant, list: &[(Category, &'static str)]| catch(mutant, &found(list), 1);
        assert_eq!(of(Mutant::SingleSlot, &[fidelity]), None);
        assert_eq!(of(Mutant::SingleSlot, &[fidelity, crash]), None);
        assert_eq!(of(Mutant::SingleSlot, &[(Category::Undecided, "linearizability")]), None);
        let expected = of(Mutant::CommitNoClamp, &[crash]).expect("the one historical exception");
        assert!(expected.expected && expected.oracles.contains("crash"));
        let other = of(Mutant::Figure8, &[(Category::Linearizability, "linearizability")]).expect("harm");
        assert!(!other.expected);
    }
}
