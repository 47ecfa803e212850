//! One scenario under many seeds, on many threads, with a result that does not depend on either's order.
//!
//!   seeds ──► worker threads (one world at a time each) ──reports──► Summary
//!                  │ progress                                          ▲
//!                  └────────► watchdog: no step for too long ── hung ──┘
//!
//! Invariants: a run shares nothing with another but the thread; the summary of a set of seeds is the same
//! for any number of threads and any order; a run that panics, hangs or is cut short is counted, never lost; a worker
//! on which the system was asked for random bytes is retired.
//! Not here: printing (the command line's), what a run is (`scenario.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::assert::Assertions;
use crate::device::Coverage;
use crate::panics::payload_text;
use crate::rng::mix;
use crate::scenario::Scenario;
use crate::verdict::{Category, Failure, RunReport};

/// Seeds that are being run, plus one; 0 is none. For handlers of signals that no process survives: a display
/// only, no run reads it.
static IN_FLIGHT: [AtomicU64; MOST_JOBS] = [const { AtomicU64::new(0) }; MOST_JOBS];

/// The most worker threads of a campaign.
pub const MOST_JOBS: usize = 256;

/// The seeds that are being run in this process right now. Safe to call from a signal handler.
pub fn in_flight() -> impl Iterator<Item = u64> {
    IN_FLIGHT.iter().filter_map(|slot| slot.load(Ordering::Relaxed).checked_sub(1))
}

thread_local! {
    /// Where the executor on this thread counts its steps, for the watchdog.
    static PROGRESS: RefCell<Option<Arc<AtomicU64>>> = const { RefCell::new(None) };
}

pub(crate) fn progress() -> Option<Arc<AtomicU64>> {
    PROGRESS.with(|slot| slot.borrow().clone())
}

/// How a campaign is run; nothing here changes what any seed does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Worker threads, 1 to [`MOST_JOBS`].
    pub jobs: usize,
    /// A run whose executor takes no step for this long, in real time, is `hung`.
    pub hung_after: Duration,
    /// Set from outside to stop after the runs that are under way.
    pub stop: Arc<AtomicBool>,
    /// Set when a run has failed, by the worker that ran it, before that takes another seed: a supply of seeds that
    /// looks here ends with the failure.
    pub failed: Arc<AtomicBool>,
    /// Names of counters of which the summary keeps every run's value.
    pub distributions: Vec<&'static str>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jobs: thread::available_parallelism().map_or(1, |n| n.get().min(MOST_JOBS)),
            hung_after: Duration::from_secs(20),
            stop: Arc::default(),
            failed: Arc::default(),
            distributions: Vec::new(),
        }
    }
}

/// A run that was not a pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedRun {
    /// Its seed.
    pub seed: u64,
    /// What the verdict rests on.
    pub first: Failure,
    /// Every property that objected, in order.
    pub properties: Vec<String>,
}

/// What is known about a set of seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs that have ended.
    pub runs: u64,
    /// Runs by verdict.
    pub verdicts: BTreeMap<Category, u64>,
    /// What happened in all of them together.
    pub coverage: Coverage,
    /// What happened at assertions in all of them together.
    pub assertions: Assertions,
    /// Every run's value of the counters that were asked for, in no particular order.
    pub distributions: BTreeMap<&'static str, Vec<u64>>,
    /// Broken premises: in how many runs.
    pub premise: BTreeMap<&'static str, u64>,
    /// Runs that were not a pass, by seed.
    pub failures: Vec<FailedRun>,
    /// One number for the behaviour and the draws of all runs, independent of their order.
    pub digest: u64,
    /// Trace records of all runs.
    pub records: u64,
    /// Executor steps of all runs.
    pub steps: u64,
    /// Virtual time of all runs.
    pub virtual_ns: u128,
    /// Whether the campaign was stopped before its last seed.
    pub interrupted: bool,
}

impl Summary {
    /// Runs with that verdict.
    pub fn count(&self, category: Category) -> u64 {
        self.verdicts.get(&category).copied().unwrap_or(0)
    }

    /// Runs in which something is wrong.
    pub fn failed(&self) -> u64 {
        self.verdicts.iter().filter(|(category, _)| category.is_failure()).map(|(_, n)| n).sum()
    }

    /// Adds one run.
    pub fn add(&mut self, report: &RunReport, distributions: &[&'static str]) {
        self.runs += 1;
        *self.verdicts.entry(report.findings.category()).or_default() += 1;
        self.coverage.merge(&report.coverage);
        self.assertions.merge(&report.assertions);
        for name in distributions {
            self.distributions.entry(name).or_default().push(report.coverage.get(name));
        }
        for property in report.findings.premise.keys() {
            *self.premise.entry(property).or_default() += 1;
        }
        if let Some(first) = report.findings.first() {
            let properties = report.findings.failures.iter().map(|f| f.property.clone()).collect();
            self.insert(FailedRun { seed: report.seed, first: first.clone(), properties });
        }
        // A sum: the order of the runs does not matter, their number and every single digest do.
        self.digest = self.digest.wrapping_add(mix(report.digest(), report.seed));
        self.records += report.records;
        self.steps += report.steps;
        self.virtual_ns += u128::from(report.virtual_ns);
    }

    /// Adds a run that the harness did not survive.
    pub(crate) fn add_broken(&mut self, seed: u64, evidence: String) {
        self.add_lost(lost(seed, Category::Crash, "panic in the harness", evidence));
    }

    fn add_lost(&mut self, lost: FailedRun) {
        self.runs += 1;
        *self.verdicts.entry(lost.first.category).or_default() += 1;
        self.digest = self.digest.wrapping_add(mix(lost.first.fingerprint(), lost.seed));
        self.insert(lost);
    }

    fn insert(&mut self, run: FailedRun) {
        let at = self.failures.partition_point(|other| other.seed < run.seed);
        self.failures.insert(at, run);
    }
}

enum News {
    Report(Box<RunReport>),
    /// The run itself could not be finished: a panic outside any world.
    Lost(u64, String),
    /// The worker in that place has no more seeds.
    Idle,
}

struct Place {
    seed: u64,
    progress: Arc<AtomicU64>,
    last: u64,
    since: Instant,
}

/// Runs `scenario` under every seed of `seeds`. `on_run` is told of each run as it ends, with the summary so
/// far.
///
/// # Panics
/// If `jobs` is not in 1..=[`MOST_JOBS`].
pub fn run<S>(
    scenario: &Arc<S>,
    seeds: impl IntoIterator<Item = u64, IntoIter: Send + 'static>,
    settings: &Settings,
    mut on_run: impl FnMut(Option<&RunReport>, &Summary),
) -> Summary
where
    S: Scenario + Send + Sync + 'static,
{
    assert!((1..=MOST_JOBS).contains(&settings.jobs), "{} jobs, not 1 to {MOST_JOBS}", settings.jobs);
    let queue = Queue {
        seeds: Arc::new(Mutex::new(Box::new(seeds.into_iter()))),
        stop: settings.stop.clone(),
        failed: settings.failed.clone(),
        places: Arc::new(Mutex::new(Vec::new())),
    };
    let (tell, news) = channel();
    for place in 0..settings.jobs {
        queue.start(scenario, place, tell.clone());
    }
    let mut summary = Summary::default();
    let mut busy = settings.jobs;
    while busy > 0 {
        match news.recv_timeout(Duration::from_millis(250)) {
            Ok(News::Report(report)) => {
                summary.add(&report, &settings.distributions);
                on_run(Some(&report), &summary);
            }
            Ok(News::Lost(seed, evidence)) => {
                summary.add_broken(seed, evidence);
                on_run(None, &summary);
            }
            Ok(News::Idle) => busy -= 1,
            Err(RecvTimeoutError::Timeout) => {
                for (place, seed) in queue.hung(settings.hung_after) {
                    queue.failed.store(true, Ordering::Relaxed);
                    let evidence = format!(
                        "no step for {} s of real time: a task never yields",
                        settings.hung_after.as_secs()
                    );
                    summary.add_lost(lost(seed, Category::Hung, "a task never yields", evidence));
                    on_run(None, &summary);
                    // The thread is lost; its place goes to a fresh one.
                    queue.start(scenario, place, tell.clone());
                }
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("this thread holds a sender"),
        }
    }
    summary.interrupted = queue.has_more();
    summary
}

fn lost(seed: u64, category: Category, property: &str, evidence: String) -> FailedRun {
    let property = property.to_owned();
    let first = Failure {
        category,
        property: property.clone(),
        shape: String::new(),
        evidence,
        time_ns: 0,
        record: 0,
    };
    FailedRun { seed, first, properties: vec![property] }
}

type Seeds = Arc<Mutex<Box<dyn Iterator<Item = u64> + Send>>>;

/// What the workers of a campaign share.
#[derive(Clone)]
struct Queue {
    seeds: Seeds,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
    places: Arc<Mutex<Vec<Option<Place>>>>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn start<S>(&self, scenario: &Arc<S>, place: usize, tell: Sender<News>)
    where
        S: Scenario + Send + Sync + 'static,
    {
        let (queue, scenario) = (self.clone(), scenario.clone());
        let progress = Arc::new(AtomicU64::new(0));
        let builder = thread::Builder::new().name(format!("worker {place}")).stack_size(8 << 20);
        let work = move || {
            PROGRESS.with(|slot| slot.replace(Some(progress.clone())));
            while let Some(seed) = queue.take(place, &progress) {
                let result = catch_unwind(AssertUnwindSafe(|| scenario.run_seed(seed)));
                if !queue.done(place, seed, &progress) {
                    // Given up as hung; somebody else works here now.
                    return;
                }
                if result.as_ref().map_or(true, |report| report.findings.category().is_failure()) {
                    queue.failed.store(true, Ordering::Relaxed);
                }
                let said = match result {
                    Ok(report) => News::Report(Box::new(report)),
                    Err(payload) => News::Lost(seed, payload_text(&*payload).to_owned()),
                };
                if tell.send(said).is_err() {
                    return;
                }
                if sim_guard::entropy_touched() {
                    // std may have made keys for its hash maps, which the next run would inherit.
                    return queue.start(&scenario, place, tell);
                }
            }
            // The campaign may be over already.
            let _ = tell.send(News::Idle);
        };
        builder.spawn(work).expect("the system can start a thread");
    }

    #[expect(clippy::disallowed_methods, reason = "the watchdog is about real time")]
    fn take(&self, place: usize, progress: &Arc<AtomicU64>) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let seed = lock(&self.seeds).next()?;
        IN_FLIGHT[place].store(seed.wrapping_add(1), Ordering::Relaxed);
        let mut places = lock(&self.places);
        if places.len() <= place {
            places.resize_with(place + 1, || None);
        }
        let last = progress.load(Ordering::Relaxed);
        places[place] = Some(Place { seed, progress: progress.clone(), last, since: Instant::now() });
        Some(seed)
    }

    /// The worker has finished `seed`; false when it had been given up.
    fn done(&self, place: usize, seed: u64, progress: &Arc<AtomicU64>) -> bool {
        let mut places = lock(&self.places);
        let mine =
            places[place].as_ref().is_some_and(|p| p.seed == seed && Arc::ptr_eq(&p.progress, progress));
        if mine {
            places[place] = None;
            IN_FLIGHT[place].store(0, Ordering::Relaxed);
        }
        mine
    }

    /// Takes the places whose run has not moved for `limit`.
    #[expect(clippy::disallowed_methods, reason = "the watchdog is about real time")]
    fn hung(&self, limit: Duration) -> Vec<(usize, u64)> {
        let now = Instant::now();
        let mut hung = Vec::new();
        for (at, slot) in lock(&self.places).iter_mut().enumerate() {
            let Some(place) = slot else { continue };
            let progress = place.progress.load(Ordering::Relaxed);
            if progress != place.last {
                (place.last, place.since) = (progress, now);
            } else if now.duration_since(place.since) >= limit {
                hung.push((at, place.seed));
                IN_FLIGHT[at].store(0, Ordering::Relaxed);
                *slot = None;
            }
        }
        hung
    }

    fn has_more(&self) -> bool {
        self.stop.load(Ordering::Relaxed) && lock(&self.seeds).next().is_some()
    }
}
