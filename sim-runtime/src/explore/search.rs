//! The search: rounds of runs, some of new roots, some from states that are worth starting from.
//!
//!   frontier, roots ──► batch ──► pool ──► results in order ──► frontier, findings, report
//!
//! Invariants: a batch is made of what was known when the round began, and its results are taken in the order of the
//! batch, so that the search is the same for any number of workers; a finding is run again before it is reported.
//! Not here: which states those are (`frontier.rs`), threads (`pool.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::frontier::{Entry, Frontier};
use super::policy::{Policy, Yield};
use super::pool::{Aborted, Patience, Pool, Ran};
use super::recipe::{Change, Edit, Recipe, changed};
use super::report::{Explored, Finding, FirstHit, RootReport, Stopped};
use super::scout::{Novelty, Sighting, VIOLATION};
use crate::assert::Site;
use crate::rng::{ALL_FIELDS, Set, Stream};
use crate::scenario::{Scenario, Timeline};
use crate::verdict::{Category, Failure, RunReport};

/// How far a search goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exploration {
    /// Worker threads; the search does not depend on it.
    pub workers: usize,
    /// Runs for each root, its own included.
    pub max_runs_per_seed: u64,
    /// Runs from a state each time that it is picked.
    pub branching_factor: u32,
    /// States that are kept to start from.
    pub max_frontier: usize,
    /// Edits in a recipe.
    pub max_recipe_len: usize,
}

impl Default for Exploration {
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers,
            max_runs_per_seed: 1_000,
            branching_factor: 2,
            max_frontier: 4_096,
            max_recipe_len: 8,
        }
    }
}

/// A report that counts as a finding.
pub type IsFinding = Arc<dyn Fn(&RunReport) -> bool + Send + Sync>;

/// Everything else about a search.
#[derive(Clone)]
pub struct Settings {
    /// How far it goes.
    pub exploration: Exploration,
    /// How it divides its runs.
    pub policy: Policy,
    /// Decides what is tried. Searches of one seed, scenario and settings are one.
    pub seed: u64,
    /// The first root; others follow it.
    pub first_root: u64,
    /// No new root after this many.
    pub max_roots: u64,
    /// No new root after so many in a row that showed nothing new.
    pub plateau_roots: u64,
    /// No run after this many in all.
    pub max_runs: u64,
    /// A run ends after so many steps.
    pub most_steps: u64,
    /// The search ends with the first finding.
    pub stops_at_first: bool,
    /// What counts as a finding.
    pub is_finding: IsFinding,
    /// The whole search is aborted after so long in real time.
    pub deadline: Option<Duration>,
    /// So it is when no run ends for so long.
    pub hung_after: Duration,
    /// Set from outside to abort it.
    pub stop: Arc<AtomicBool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            exploration: Exploration::default(),
            policy: Policy::default(),
            seed: 0,
            first_root: 1,
            max_roots: 1_000,
            plateau_roots: 50,
            max_runs: 100_000,
            most_steps: 20_000_000,
            stops_at_first: false,
            is_finding: Arc::new(|report| report.findings.category().is_failure()),
            deadline: None,
            hung_after: Duration::from_secs(60),
            stop: Arc::default(),
        }
    }
}

type TimelineOf<S> = Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>;

/// A run to be made.
struct Job<T> {
    root: usize,
    timeline: Arc<T>,
    recipe: Recipe,
    /// The state that it starts from.
    from: Option<u64>,
}

struct Search<S: Scenario> {
    scenario: Arc<S>,
    settings: Settings,
    patience: Patience,
    pool: Pool<S>,
    stream: Stream,
    frontier: Frontier<TimelineOf<S>>,
    known: Explored<S::Config, S::Plan>,
    /// By fingerprint, which findings there are.
    kinds: BTreeMap<u64, usize>,
    /// Sites that some run has reached.
    hit: BTreeMap<&'static Site, ()>,
    /// Roots that were begun in a row and showed nothing new.
    flat_roots: u64,
    /// What roots have shown lately.
    breadth: Yield,
    /// What runs from states have shown lately.
    depth: Yield,
}

/// Searches. `on_round` is told of what is known after each round.
#[expect(
    clippy::disallowed_methods,
    reason = "the deadline is about real time; it decides nothing but the end"
)]
pub fn explore<S>(
    scenario: &Arc<S>,
    settings: &Settings,
    mut on_round: impl FnMut(&Explored<S::Config, S::Plan>),
) -> Explored<S::Config, S::Plan>
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send + Sync,
    S::Plan: Send + Sync,
{
    let deadline = settings.deadline.map(|after| Instant::now() + after);
    let patience = Patience { deadline, hung_after: settings.hung_after, stop: settings.stop.clone() };
    let mut search = Search {
        scenario: scenario.clone(),
        patience,
        pool: Pool::new(scenario.clone(), settings.exploration.workers.max(1), settings.most_steps),
        stream: Stream::derive(settings.seed, "exploration"),
        frontier: Frontier::new(settings.exploration.max_frontier.max(1)),
        known: Explored::default(),
        kinds: BTreeMap::new(),
        hit: BTreeMap::new(),
        flat_roots: 0,
        breadth: Yield::default(),
        depth: Yield::default(),
        settings: settings.clone(),
    };
    loop {
        match search.round() {
            None => on_round(&search.known),
            Some(stopped) => {
                search.known.stopped = stopped;
                on_round(&search.known);
                return search.known;
            }
        }
    }
}

impl<S> Search<S>
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send + Sync,
    S::Plan: Send + Sync,
{
    /// One round; why there is no other.
    fn round(&mut self) -> Option<Stopped> {
        let batch = self.batch();
        if batch.is_empty() {
            return Some(self.why_nothing_is_left());
        }
        let timelines = batch.iter().map(|job| (*job.timeline).clone()).collect();
        let stops = self.settings.stops_at_first;
        let is_the_last = |ran: &Ran| stops && self.is_found(ran);
        let ran = match self.pool.run(timelines, &self.patience, is_the_last) {
            Ok(ran) => ran,
            Err(aborted) => return Some(Stopped::from(aborted)),
        };
        for (job, ran) in batch.into_iter().zip(ran) {
            if let Err(aborted) = self.take(job, ran) {
                return Some(Stopped::from(aborted));
            }
            if self.settings.stops_at_first && !self.known.findings.is_empty() {
                return Some(Stopped::Finding);
            }
        }
        for (root, report) in self.known.roots.iter().enumerate() {
            if report.runs >= self.settings.exploration.max_runs_per_seed {
                self.frontier.close_root(root);
            }
        }
        self.known.frontier.push(self.frontier.len());
        self.known.evicted = self.frontier.evicted;
        None
    }

    fn why_nothing_is_left(&self) -> Stopped {
        if self.known.runs >= self.settings.max_runs {
            Stopped::MaxRuns
        } else if self.flat_roots >= self.settings.plateau_roots {
            Stopped::CoverageFlat
        } else {
            Stopped::MaxRoots
        }
    }

    fn batch(&mut self) -> Vec<Job<TimelineOf<S>>> {
        let policy = self.settings.policy;
        let most = policy.runs_a_round.min(self.settings.max_runs.saturating_sub(self.known.runs));
        let mut batch = Vec::new();
        let begun = self.known.roots.len() as u64;
        if self.flat_roots < self.settings.plateau_roots {
            let near = self.frontier.least_picks_of_near_misses();
            let wanted = policy.roots(near, &self.breadth, &self.depth).min(most);
            let fresh = self.settings.max_roots.saturating_sub(begun).min(wanted);
            for n in begun..begun + fresh {
                let seed = self.settings.first_root + n;
                let timeline = Arc::new(self.scenario.timeline(seed));
                self.known.roots.push(RootReport::of(seed));
                batch.push(Job { root: n as usize, timeline, recipe: Recipe::default(), from: None });
            }
        }
        let mut picks = 0..most;
        while (batch.len() as u64) < most && picks.next().is_some() {
            let Some(entry) = self.frontier.pick(&policy.shares, &mut self.stream) else { break };
            let left = (most - batch.len() as u64).min(self.settings.exploration.branching_factor.into());
            let children = (0..left).filter_map(|_| child(&*self.scenario, entry, policy, &mut self.stream));
            batch.extend(children);
        }
        batch
    }

    /// Whether a run is a finding. What a limit has ended is none: it may have been about to get over it.
    fn is_found(&self, ran: &Ran) -> bool {
        ran.report.as_ref().map_or(true, |report| (self.settings.is_finding)(report) && !ran.scouted.pruned)
    }

    /// Takes the result of one run.
    fn take(&mut self, job: Job<TimelineOf<S>>, ran: Ran) -> Result<(), Aborted> {
        let is_found = self.is_found(&ran);
        let Ran { report, scouted } = ran;
        self.known.runs += 1;
        let runs_before = self.known.runs - 1;
        let root = &mut self.known.roots[job.root];
        root.runs += 1;
        self.known.pruned += u64::from(scouted.pruned);
        self.known.dropped += scouted.dropped;
        let failed_at_ns = match &report {
            Ok(report) => {
                root.virtual_ns += u128::from(report.virtual_ns);
                self.known.virtual_ns += u128::from(report.virtual_ns);
                self.known.steps += report.steps;
                self.note_assertions(report, job.root);
                is_found.then(|| report.findings.first().map_or(0, |failure| failure.time_ns))
            }
            Err(_) => Some(0),
        };
        let steps = report.as_ref().map_or(0, |report| report.steps);
        let fresh = self.note_sightings(&job, &scouted.sightings, failed_at_ns, steps);
        if job.from.is_some() {
            self.depth.add(fresh);
        }
        if job.from.is_none() {
            self.flat_roots = if fresh == 0 { self.flat_roots + 1 } else { 0 };
            self.breadth.add(fresh);
        } else if let Some(key) = job.from.filter(|_| fresh > 0) {
            self.frontier.bore_fruit(key);
        }
        if failed_at_ns.is_some() {
            self.note_finding(&job, report, runs_before)?;
        }
        Ok(())
    }

    fn note_assertions(&mut self, report: &RunReport, root: usize) {
        for (site, _) in report.assertions.iter() {
            if self.hit.insert(site, ()).is_none() {
                let (root, run) = (self.known.roots[root].seed, self.known.runs);
                self.known.first_hits.push(FirstHit { site, root, run });
            }
        }
        self.known.assertions.merge(&report.assertions);
    }

    /// How many of them no run had shown.
    fn note_sightings(
        &mut self,
        job: &Job<TimelineOf<S>>,
        sightings: &[Sighting],
        failed_at_ns: Option<u64>,
        steps: u64,
    ) -> u64 {
        let until_ns = self.scenario.explored_until_ns(&job.timeline).min(failed_at_ns.unwrap_or(u64::MAX));
        let can_grow = job.recipe.0.len() < self.settings.exploration.max_recipe_len;
        let mut fresh = 0;
        for Sighting { key, novelty, anchor, time_ns } in sightings {
            if failed_at_ns.is_some() && *novelty == Novelty::NearMiss(VIOLATION) {
                // It is no near miss: it is what was found.
                continue;
            }
            let is_new = self.frontier.is_new(*key);
            if is_new {
                fresh += 1;
                match novelty {
                    Novelty::State => self.known.states += 1,
                    Novelty::NearMiss(_) => self.known.near_misses += 1,
                    Novelty::Assertion(_) => self.known.assertion_steps += 1,
                }
            }
            let is_worth_it = can_grow && *time_ns < until_ns;
            if is_worth_it && (is_new || self.frontier.takes_up(*key)) {
                let sight = (*key, novelty.clone(), anchor.clone(), *time_ns);
                let origin = (job.root, job.timeline.clone(), job.recipe.clone());
                self.frontier.add(Entry::new(sight, origin, steps));
            }
        }
        self.known.roots[job.root].fresh += fresh;
        fresh
    }

    /// Keeps a failure of a kind that is not known yet, once it has failed again.
    fn note_finding(
        &mut self,
        job: &Job<TimelineOf<S>>,
        report: Result<RunReport, String>,
        runs_before: u64,
    ) -> Result<(), Aborted> {
        let (failure, digest) = match &report {
            Ok(report) => (report.findings.first().cloned(), Some(report.digest())),
            Err(text) => (Some(harness_panic(text)), None),
        };
        let Some(failure) = failure else { return Ok(()) };
        self.known.roots[job.root].failed += 1;
        let kind = failure.fingerprint();
        if let Some(at) = self.kinds.get(&kind) {
            self.known.findings[*at].times += 1;
            return Ok(());
        }
        let again = self.pool.run(vec![(*job.timeline).clone()], &self.patience, |_| false)?.remove(0);
        self.known.checks += 1;
        let reproduced = again.report.as_ref().ok().map(RunReport::digest) == digest;
        let failure = if reproduced { failure } else { unreproduced(&failure) };
        self.kinds.insert(kind, self.known.findings.len());
        self.known.findings.push(Finding {
            timeline: (*job.timeline).clone(),
            root: self.known.roots[job.root].seed,
            recipe: job.recipe.clone(),
            failure,
            runs_before,
            times: 1,
        });
        Ok(())
    }
}

fn harness_panic(text: &str) -> Failure {
    let (property, shape) = ("panic in the harness".to_owned(), String::new());
    Failure { category: Category::Crash, property, shape, evidence: text.to_owned(), time_ns: 0, record: 0 }
}

fn unreproduced(failure: &Failure) -> Failure {
    Failure {
        category: Category::Nondeterministic,
        evidence: format!("the same timeline ran otherwise the second time; the first: {}", failure.evidence),
        ..failure.clone()
    }
}

/// A run from the state of `entry`, otherwise than its own; none when the plan could not be changed as drawn.
fn child<S: Scenario>(
    scenario: &S,
    entry: &Entry<TimelineOf<S>>,
    policy: Policy,
    stream: &mut Stream,
) -> Option<Job<TimelineOf<S>>> {
    let (at_ns, node) = (entry.time_ns, entry.anchor.node);
    let odds = if matches!(entry.novelty, Novelty::NearMiss(_)) { policy.near_misses } else { policy.states };
    if stream.chance(odds.anew) {
        let changes = vec![Change::Anew { seed: stream.range(0, u64::MAX - 1) }];
        let timeline = changed(scenario, &entry.timeline, &entry.anchor, at_ns, &changes).ok()?;
        let recipe = Recipe(vec![Edit { after: entry.anchor.clone(), changes }]);
        return Some(Job { root: entry.root, timeline: Arc::new(timeline), recipe, from: Some(entry.key) });
    }
    let reseeds = stream.chance(odds.reseeds);
    let mut changes = Vec::new();
    if reseeds {
        let set = Set::Reseed(stream.range(0, u64::MAX - 1));
        changes.push(Change::Field { field: ALL_FIELDS.to_owned(), key: None, for_ns: None, set });
    }
    if !reseeds || stream.chance(odds.edits) {
        let edit = scenario.plan_edit(&entry.timeline, node, at_ns, stream);
        changes.extend(edit.map(Change::Plan));
    }
    if changes.is_empty() {
        let set = Set::Reseed(stream.range(0, u64::MAX - 1));
        changes.push(Change::Field { field: ALL_FIELDS.to_owned(), key: None, for_ns: None, set });
    }
    if stream.chance(odds.ends) {
        changes.extend(scenario.plan_end(&entry.timeline, at_ns, stream).map(Change::Plan));
    }
    let timeline = changed(scenario, &entry.timeline, &entry.anchor, at_ns, &changes).ok()?;
    let mut recipe = entry.recipe.clone();
    recipe.0.push(Edit { after: entry.anchor.clone(), changes });
    Some(Job { root: entry.root, timeline: Arc::new(timeline), recipe, from: Some(entry.key) })
}
