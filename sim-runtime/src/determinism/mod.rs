//! `check_determinism`: whether anything but the seed has a say in a run, and what.
//!
#![doc = include_str!("hazards.md")]
//!
//! # How it works
//!
//! | module | what is in it |
//! |---|---|
//! | `tape` | everything that happens in a run, in order |
//! | `perform` | a timeline under given conditions, on a thread of its own |
//! | `perturbation` | what is changed between two runs |
//! | `process` | runs in processes of their own |
//! | `divergence` | where two runs part |
//! | `fairness` | whether `futures::select!` shuffled |
//! | `cause` | what is to blame |
//! | `report` | how that is printed |

mod tape;
mod perform;
mod perturbation;
mod process;
mod divergence;
mod fairness;
mod cause;
mod report;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::scenario::{Scenario, Timeline, Watch};
use crate::shrink;
use crate::trace::Record;
use crate::verdict::{Category, Failure, RunReport};

pub use cause::{Cause, CauseKind};
pub use divergence::{Divergence, DoorNote, Side};
pub(crate) use perform::arranged;
pub use perturbation::Perturbation;
pub use process::Fresh;
pub use tape::Line;
pub(crate) use tape::Tape;

use cause::{Evidence, explain};
use divergence::{Answer, first_difference};
use perform::{Conditions, perform};
use process::{Children, Part, Surroundings};
use tape::Recording;

/// How to check.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is changed between runs, one at a time.
    pub perturbations: Vec<Perturbation>,
    /// Threads that check seeds.
    pub jobs: usize,
    /// How to start this test or command in a process of its own.
    pub fresh: Fresh,
    /// Whether the timeline of the first divergence is made smaller.
    pub shrink: bool,
    /// Set from outside: start no more seeds.
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            perturbations: Perturbation::ALL.to_vec(),
            jobs: 1,
            fresh: Fresh::of_this_thread(),
            shrink: true,
            stop: Arc::default(),
        }
    }
}

/// What a check came to.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// How many seeds.
    pub seeds: u64,
    /// How many runs were compared.
    pub runs: u64,
    /// What was changed between runs.
    pub perturbations: Vec<Perturbation>,
    /// What was not, and why.
    pub skipped: Vec<(Perturbation, String)>,
    /// What differs, by seed and perturbation. Only the first few seeds' are explained in full.
    pub divergences: Vec<Divergence>,
    /// Whether somebody stopped it.
    pub interrupted: bool,
}

impl Checked {
    /// The verdict over all seeds.
    pub fn category(&self) -> Category {
        if self.divergences.is_empty() { Category::Pass } else { Category::Nondeterministic }
    }

    /// How many seeds diverge.
    pub fn diverging_seeds(&self) -> usize {
        self.divergences.iter().map(|divergence| divergence.seed).collect::<BTreeSet<_>>().len()
    }

    /// # Panics
    /// If a run differs from another of its seed, with the report.
    #[track_caller]
    pub fn expect_deterministic(&self) {
        assert!(self.divergences.is_empty(), "{self}");
    }
}

impl Divergence {
    /// Whether a cause was looked for.
    fn is_explained(&self) -> bool {
        self.entry != UNEXPLAINED
    }
}

/// The place of a divergence that nobody looked at closely.
const UNEXPLAINED: u64 = u64::MAX;

/// Seeds whose divergences are explained.
const EXPLAINED_SEEDS: u64 = 3;

/// Runs each seed of `scenario` many times, each time with one thing changed that a deterministic program cannot see,
/// and compares everything. See [the module](self) for what is changed and what is compared.
///
/// In a test, some of the runs are made in fresh processes, which execute the test anew as far as this call; elsewhere
/// those are reported as skipped. Command lines use [`check`] and say how they are started.
///
/// In a fresh process, calls that the test makes before this one run nothing and return an empty [`Checked`], whose category is
/// [`Category::Pass`]. A test that fails in between for that reason gives no answer, which is reported as skipped too.
#[must_use = "a divergence is told, not raised: `expect_deterministic` raises it"]
pub fn check_determinism<S>(scenario: &S, seeds: impl IntoIterator<Item = u64>) -> Checked
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    check(scenario, seeds, &Settings::default(), |_| {})
}

/// The same with settings; `progress` is told how many seeds are done.
///
/// In a process that another check has started, this makes the one run that is asked for and ends the process.
pub fn check<S>(
    scenario: &S,
    seeds: impl IntoIterator<Item = u64>,
    settings: &Settings,
    progress: impl Fn(u64) + Sync,
) -> Checked
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    let call = process::count_call();
    match process::part(call) {
        Part::Parent => {}
        Part::Bystander => return Checked::default(),
        Part::Child(request, expected, path) => {
            let timeline =
                serde_json::from_value(request.timeline.clone()).expect("it was written by `check`");
            let recording = perform(scenario, &timeline, &request.conditions);
            process::answer(&path, &Answer::of(&recording, &expected, &|record| scenario.describe(record)));
        }
    }
    let children = Children { fresh: &settings.fresh, call };
    let has_processes = settings.fresh != Fresh::Never;
    let mut checked = Checked::default();
    for perturbation in &settings.perturbations {
        match perturbation.obstacle(has_processes) {
            Some(why) => checked.skipped.push((*perturbation, why.to_owned())),
            None => checked.perturbations.push(*perturbation),
        }
    }
    let seeds: Vec<u64> = seeds.into_iter().collect();
    let next = AtomicU64::new(0);
    let perturbations = checked.perturbations.clone();
    let checker = Checker {
        scenario,
        children,
        settings,
        perturbations,
        runs: AtomicU64::new(0),
        found: AtomicU64::new(0),
    };
    let found = Mutex::new((Vec::new(), BTreeSet::new(), 0_u64));
    let work = || loop {
        if settings.stop.load(Ordering::Relaxed) {
            return;
        }
        let place = next.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(seed) = seeds.get(place) else { return };
        let of_seed = checker.check_seed(*seed);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.extend(of_seed.divergences);
        found.1.extend(of_seed.silent);
        found.2 += 1;
        progress(found.2);
    };
    thread::scope(|scope| {
        for _ in 1..settings.jobs.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let (mut divergences, silent, done) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    divergences.sort_by_key(|divergence: &Divergence| (divergence.seed, divergence.perturbation));
    checked.skipped.extend(silent.into_iter().map(|p| (p, "a process gave no answer".to_owned())));
    checked.interrupted = done < seeds.len() as u64;
    Checked { seeds: done, runs: checker.runs.into_inner(), divergences, ..checked }
}

struct Checker<'a, S> {
    scenario: &'a S,
    children: Children<'a>,
    settings: &'a Settings,
    perturbations: Vec<Perturbation>,
    runs: AtomicU64,
    /// Seeds that diverge.
    found: AtomicU64,
}

#[derive(Default)]
struct OfSeed {
    divergences: Vec<Divergence>,
    /// Perturbations whose process gave no answer.
    silent: Vec<Perturbation>,
}

/// Where two runs part, and what they were there.
struct Parted {
    at: usize,
    record: u64,
    first: Side,
    second: Side,
}

/// A timeline that diverges like another one, and is smaller.
struct Smaller<C, P> {
    timeline: Timeline<C, P>,
    steps: u64,
    parted: Box<Parted>,
}

/// What comparing with one perturbation came to.
enum Compared {
    Alike,
    Parted(Box<Parted>),
    Silent,
}

impl<S> Checker<'_, S>
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    fn describe(&self, record: &Record) -> Option<String> {
        self.scenario.describe(record)
    }

    fn check_seed(&self, seed: u64) -> OfSeed {
        let timeline = self.scenario.timeline(seed);
        let baseline = self.perform(&timeline, &Conditions::default());
        let mut of_seed = OfSeed::default();
        let mut parted = Vec::new();
        for perturbation in &self.perturbations {
            match self.compare(&timeline, &baseline, *perturbation) {
                Compared::Alike => {}
                Compared::Parted(where_) => parted.push((*perturbation, where_)),
                Compared::Silent => of_seed.silent.push(*perturbation),
            }
        }
        if parted.is_empty() {
            return of_seed;
        }
        let is_explained = self.found.fetch_add(1, Ordering::Relaxed) < EXPLAINED_SEEDS;
        of_seed.divergences = self.explain_all(&timeline, parted, is_explained);
        of_seed
    }

    fn perform(&self, timeline: &Timeline<S::Config, S::Plan>, conditions: &Conditions) -> Recording {
        self.runs.fetch_add(1, Ordering::Relaxed);
        perform(self.scenario, timeline, conditions)
    }

    fn compare(
        &self,
        timeline: &Timeline<S::Config, S::Plan>,
        baseline: &Recording,
        perturbation: Perturbation,
    ) -> Compared {
        let expected = baseline.fingerprints();
        let conditions = perturbation.conditions(timeline.seed);
        let describe = |record: &Record| self.describe(record);
        let surroundings = perturbation.surroundings();
        let (at, second) = if surroundings == Surroundings::SameProcess {
            let run = self.perform(timeline, &conditions);
            let Some(at) = first_difference(&expected, &run.fingerprints()) else { return Compared::Alike };
            (at, Side::of(&run, at, &describe))
        } else {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let value = as_json(timeline);
            let Some(answer) = self.children.ask(surroundings, &value, &conditions, Some(&expected)) else {
                return Compared::Silent;
            };
            let Some(parted) = answer.parted else { return Compared::Alike };
            parted
        };
        let first = Side::of(baseline, at, &describe);
        Compared::Parted(Box::new(Parted { at, record: baseline.records_before(at), first, second }))
    }

    /// Explains what diverges: shrinks, looks for the origin, and guesses.
    fn explain_all(
        &self,
        timeline: &Timeline<S::Config, S::Plan>,
        parted: Vec<(Perturbation, Box<Parted>)>,
        is_explained: bool,
    ) -> Vec<Divergence> {
        let diverging: BTreeSet<Perturbation> =
            parted.iter().map(|(perturbation, _)| *perturbation).collect();
        let mut divergences = Vec::new();
        let mut isolated = None;
        for (number, (perturbation, mut parted)) in parted.into_iter().enumerate() {
            // The first perturbation tells most; what it finds is true of the others too.
            let is_closely_seen = is_explained && number == 0;
            let mut smallest = timeline.clone();
            let mut shrink_steps = 0;
            if is_closely_seen
                && self.settings.shrink
                && let Some(smaller) = self.shrink(timeline, perturbation)
            {
                (smallest, shrink_steps, parted) = (smaller.timeline, smaller.steps, smaller.parted);
            }
            let (mut shuffled, mut origin) = (false, String::new());
            if is_closely_seen {
                (shuffled, origin) = self.look_closely(&smallest, perturbation, &parted);
                isolated = self.isolate(&smallest);
            }
            let evidence = Evidence {
                diverging: &diverging,
                isolated: isolated.clone(),
                first: &parted.first,
                second: &parted.second,
                shuffled,
                origin: &origin,
            };
            let cause = match divergences.first() {
                // One cause is told for a seed: that of its first divergence, for which it was looked closely.
                Some(Divergence { cause, .. }) => cause.clone(),
                None => explain(&evidence),
            };
            let Parted { at, record, first, second } = *parted;
            let entry = if is_closely_seen { at as u64 } else { UNEXPLAINED };
            divergences.push(Divergence {
                seed: timeline.seed,
                perturbation,
                timeline: as_json(&smallest),
                shrink_steps,
                entry,
                record,
                first,
                second,
                cause,
            });
        }
        divergences
    }

    /// Runs once more under the first run's conditions (the second's, if the first had ended) and sees from where the
    /// entry that differs comes, and whether `futures::select!` shuffled.
    fn look_closely(
        &self,
        timeline: &Timeline<S::Config, S::Plan>,
        perturbation: Perturbation,
        parted: &Parted,
    ) -> (bool, String) {
        let second = perturbation.conditions(timeline.seed);
        let conditions = if parted.first.ended { second } else { Conditions::default() };
        let run = self.perform(timeline, &Conditions { mark: Some(parted.at), ..conditions });
        let origin = run.marked.as_ref().map(ToString::to_string).unwrap_or_default();
        // What the scheduler or a device does has no origin in the program.
        let origin = if cause::place_in(&origin).is_some() { origin } else { String::new() };
        (run.shuffled == Some(true), origin)
    }

    /// Which perturbations make fresh processes differ; `None` when there are no processes.
    fn isolate(&self, timeline: &Timeline<S::Config, S::Plan>) -> Option<BTreeSet<Perturbation>> {
        let value = as_json(timeline);
        let ask = |perturbation: Perturbation| {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let conditions = perturbation.conditions(timeline.seed);
            Some(self.children.ask(Surroundings::Process, &value, &conditions, None)?.digest)
        };
        let fresh = ask(Perturbation::FreshProcess)?;
        let differs = |perturbation: &Perturbation| ask(*perturbation).is_some_and(|digest| digest != fresh);
        let tried = [Perturbation::Again, Perturbation::HeapOrder];
        Some(tried.into_iter().filter(differs).collect())
    }

    /// The smallest timeline that diverges in this way, with how often it was made smaller. `None` when it does not
    /// diverge again, or nothing is smaller.
    fn shrink(
        &self,
        timeline: &Timeline<S::Config, S::Plan>,
        perturbation: Perturbation,
    ) -> Option<Smaller<S::Config, S::Plan>> {
        let is_here = perturbation.surroundings() == Surroundings::SameProcess;
        // Processes take a hundred times as long to start as threads.
        let (most_runs, seeds) = if is_here { (3_000, 3) } else { (60, 1) };
        let settings = shrink::Settings {
            jobs: 1,
            seeds,
            many_seeds: seeds,
            variations: 0,
            ..shrink::Settings::default()
        };
        let pairs = Pairs {
            checker: self,
            perturbation,
            most_runs,
            ran: AtomicU64::new(0),
            stop: settings.stop.clone(),
        };
        let shrunk = shrink::shrink(&pairs, timeline.clone(), &settings, |_| {})?;
        if shrunk.steps == 0 {
            return None;
        }
        let baseline = self.perform(&shrunk.timeline, &Conditions::default());
        match self.compare(&shrunk.timeline, &baseline, perturbation) {
            Compared::Parted(parted) => {
                Some(Smaller { timeline: shrunk.timeline, steps: shrunk.steps, parted })
            }
            Compared::Alike | Compared::Silent => None,
        }
    }
}

fn as_json<C: serde::Serialize, P: serde::Serialize>(timeline: &Timeline<C, P>) -> serde_json::Value {
    serde_json::to_value(timeline).expect("a timeline is plain data")
}

/// A scenario whose runs are pairs of runs, and fail when the two differ: for shrinking.
struct Pairs<'a, S> {
    checker: &'a Checker<'a, S>,
    perturbation: Perturbation,
    most_runs: u64,
    ran: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl<S> Scenario for Pairs<'_, S>
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    type Config = S::Config;
    type Plan = S::Plan;

    fn config(&self, seed: u64) -> S::Config {
        self.checker.scenario.config(seed)
    }

    fn plan(&self, seed: u64, config: &S::Config) -> S::Plan {
        self.checker.scenario.plan(seed, config)
    }

    fn moves(
        &self,
        timeline: &Timeline<S::Config, S::Plan>,
        failure: &Failure,
    ) -> Vec<Timeline<S::Config, S::Plan>> {
        self.checker.scenario.moves(timeline, failure)
    }

    fn concrete(&self, timeline: &Timeline<S::Config, S::Plan>) -> Vec<Timeline<S::Config, S::Plan>> {
        self.checker.scenario.concrete(timeline)
    }

    fn run(&self, timeline: &Timeline<S::Config, S::Plan>, _watch: Watch) -> (RunReport, Vec<String>) {
        if self.ran.fetch_add(1, Ordering::Relaxed) >= self.most_runs {
            self.stop.store(true, Ordering::Relaxed);
        }
        let baseline = self.checker.perform(timeline, &Conditions::default());
        let differs =
            matches!(self.checker.compare(timeline, &baseline, self.perturbation), Compared::Parted(_));
        let mut report = baseline.report.expect("a scenario that panics is not shrunk");
        report.findings = Default::default();
        if differs {
            report.findings.failure(Category::Nondeterministic, "runs differ", "", String::new());
        }
        (report, Vec::new())
    }
}
