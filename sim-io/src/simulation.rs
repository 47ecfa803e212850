//! A whole program under test from its parts: processes, workloads, invariants, faults, a network.
//!
//!   Simulation ──config(seed), plan(seed)──► Timeline ──run──► World { processes, workloads, nemesis }
//!                                                                └──► invariants after every step ──► report
//!
//! Processes are nodes 1 to n: they are killed, paused and parted. Workloads are the nodes after them: clients
//! that finish, which are parted too but never go down. A run ends when the faults are over and every workload
//! has finished; one that does not by then is `stuck`.
//!
//! Invariants: whatever a run needs is made anew from the factories, so that runs share nothing and may go on
//! at once on several threads.
//!
//! | module | what it owns |
//! |---|---|
//! | `setting` | what programs may ask of it: [`processes`], [`parameter`] |
//! | `swarm` | a configuration for each seed |
//! | `simpler` | what is simpler than a timeline, for shrinking |
//!
//! Not here: many seeds (`sim_runtime::campaign`), protocols.

mod setting;
mod swarm;
mod simpler;

use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim_runtime::assert::crate_of;
use sim_runtime::determinism;
use sim_runtime::explore::{self, Exploration, Explored, Lost, Recipe, Settings, Stable};
use sim_runtime::invariant::Invariant;
use sim_runtime::rng::Stream;
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::schedule::Schedule;
use sim_runtime::sync::Notify;
pub use sim_runtime::testing::Outcome;
use sim_runtime::time::sleep;
use sim_runtime::verdict::{Category, Failure, RunReport};
use sim_runtime::{Handle, NodeId, Options, World};

pub use setting::{parameter, processes, processes_in};
use swarm::Choices;

use crate::fs::{DiskConfig, Disks};
use crate::nemesis::{self, Plan, PlanConfig, PlanEdit};
use crate::net::{Net, NetConfig};
use crate::story::{Deeds, Plain, Proof, Reach, Reads, Recording, Style, Tape, as_plain_lines, draw};

type Program = Arc<dyn Fn(NodeId) -> LocalBoxFuture<'static, ()> + Send + Sync>;
type Judge = Box<dyn Fn(&mut World) + Send + Sync>;

/// A program under test. Build it, then run seeds ([`Scenario::run_seed`]), hand it to a campaign, or search it
/// ([`Simulation::explore`], [`Simulation::until_coverage_stable`]).
///
/// Everything is given as a factory, because each run makes it anew. What can be made only once is refused by the
/// compiler: a future,
///
/// ```compile_fail,E0277
/// # use sim_io::simulation::Simulation;
/// async fn client() {}
/// Simulation::new("once").workloads(1, client());
/// ```
///
/// a factory that gives away what it holds,
///
/// ```compile_fail,E0507
/// # use sim_io::simulation::Simulation;
/// let orders = vec![1, 2, 3];
/// Simulation::new("once").workloads(1, move |_| async move { drop(orders) });
/// ```
///
/// and one that runs would share.
///
/// ```compile_fail,E0277
/// # use sim_io::simulation::Simulation;
/// let book = std::rc::Rc::new(std::cell::Cell::new(0));
/// Simulation::new("shared").workloads(1, move |_| { let book = book.clone(); async move { book.set(1) } });
/// ```
///
/// This is how it is meant:
///
/// ```
/// # use sim_io::simulation::Simulation;
/// let orders = vec![1, 2, 3];
/// Simulation::new("anew").workloads(1, move |_| { let orders = orders.clone(); async move { drop(orders) } });
/// ```
pub struct Simulation {
    name: &'static str,
    process: Program,
    workload: Program,
    /// Where processes and workloads were given to it, for reports.
    places: Places,
    judges: Vec<Judge>,
    /// Crates whose assertions are the program's.
    asserting: BTreeSet<&'static str>,
    config: SimulationConfig,
    choices: Choices,
    reads: Option<Reads>,
}

#[derive(Copy, Clone)]
struct Places {
    processes: &'static Location<'static>,
    workloads: &'static Location<'static>,
}

/// A timeline of a [`Simulation`].
pub type SimulationTimeline = Timeline<SimulationConfig, Plan>;

/// What a [`Simulation`] is run with, as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationConfig {
    /// How many processes: nodes 1 to n.
    pub processes: u16,
    /// How many workloads: the nodes after the processes.
    pub workloads: u16,
    /// How harsh the links are.
    pub network: NetConfig,
    /// What plans are derived from.
    pub faults: PlanConfig,
    /// How long the workloads have after the faults are over.
    pub grace_ms: u64,
    /// When the workloads begin; the processes do at once.
    #[serde(default)]
    pub work_from_ms: u64,
    /// What the disks are like.
    #[serde(default)]
    pub disk: DiskConfig,
    /// Which ready task runs next.
    #[serde(default)]
    pub schedule: Schedule,
    /// Numbers of the program's own, by name: see [`parameter`].
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
}

impl Simulation {
    /// Without processes, workloads, invariants and faults, on the default network, for 6 s.
    #[track_caller]
    pub fn new(name: &'static str) -> Self {
        let config = SimulationConfig {
            processes: 0,
            workloads: 0,
            network: NetConfig::default(),
            faults: PlanConfig::none(),
            grace_ms: 60_000,
            work_from_ms: 0,
            disk: DiskConfig::default(),
            schedule: Schedule::default(),
            parameters: BTreeMap::new(),
        };
        let nothing = || -> Program { Arc::new(|_| async {}.boxed_local()) };
        let places = Places { processes: Location::caller(), workloads: Location::caller() };
        Self {
            name,
            process: nothing(),
            workload: nothing(),
            places,
            judges: Vec::new(),
            asserting: BTreeSet::new(),
            config,
            choices: Choices::default(),
            reads: None,
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `how_many` processes under test. The factory is asked at every boot, with the node's id.
    #[must_use]
    #[track_caller]
    pub fn processes<F>(
        mut self,
        how_many: u16,
        factory: impl Fn(NodeId) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output: Outcome> + 'static,
    {
        self.config.processes = how_many;
        self.places.processes = Location::caller();
        self.asserting.insert(crate_of(type_name::<F>()));
        self.process = program("a process failed", factory);
        self
    }

    /// `how_many` workloads, which finish when their future does.
    #[must_use]
    #[track_caller]
    pub fn workloads<F>(
        mut self,
        how_many: u16,
        factory: impl Fn(NodeId) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output: Outcome> + 'static,
    {
        self.config.workloads = how_many;
        self.places.workloads = Location::caller();
        self.asserting.insert(crate_of(type_name::<F>()));
        self.workload = program("a workload failed", factory);
        self
    }

    /// A property to check after every step; made anew for each run.
    #[must_use]
    pub fn invariant<I: Invariant + 'static>(mut self, make: impl Fn() -> I + Send + Sync + 'static) -> Self {
        self.judges.push(Box::new(move |world| world.watch(make())));
        self
    }

    /// Assertions in this crate, named as in paths, are listed when they were never reached. The crates whose code the
    /// factories of processes and workloads return are known already.
    #[must_use]
    pub fn asserting_in(mut self, name: &'static str) -> Self {
        self.asserting.insert(name);
        self
    }

    /// What its datagrams say in words, for stories.
    #[must_use]
    pub fn reading(mut self, datagram: Reads) -> Self {
        self.reads = Some(datagram);
        self
    }

    /// What goes wrong. The numbers of nodes are filled in, and its end is that of [`Simulation::duration`].
    #[must_use]
    pub fn faults(mut self, faults: PlanConfig) -> Self {
        let heal_at_ms = self.config.faults.heal_at_ms;
        self.config.faults = PlanConfig { heal_at_ms, ..faults };
        self
    }

    /// How harsh the links are.
    #[must_use]
    pub fn network(mut self, network: NetConfig) -> Self {
        self.config.network = network;
        self
    }

    /// What the disks are like.
    #[must_use]
    pub fn disk(mut self, disk: DiskConfig) -> Self {
        self.config.disk = disk;
        self
    }

    /// How long faults go on.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.config.faults.heal_at_ms = millis(duration);
        self
    }

    /// How long the workloads have after that; 60 s unless said otherwise.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.grace_ms = millis(grace);
        self
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The main future of a node: what the factory makes, its error as a finding.
fn program<F>(property: &'static str, factory: impl Fn(NodeId) -> F + Send + Sync + 'static) -> Program
where
    F: Future<Output: Outcome> + 'static,
{
    Arc::new(move |id| {
        let main = factory(id);
        let report = move |outcome: F::Output| {
            let (world, error) = (Handle::current(), outcome.error());
            world.note_output("returned", || format!("{id}: {error:?}"));
            if let Some(error) = error {
                world.fail(Category::Crash, property, "error returned", format!("{id} returned {error}"));
            }
        };
        main.map(report).boxed_local()
    })
}

impl Scenario for Simulation {
    type Config = SimulationConfig;
    type Plan = Plan;

    fn config(&self, seed: u64) -> SimulationConfig {
        let config = self.config.clone();
        let config = if self.choices.swarm { swarm::draw(seed, config, &self.choices) } else { config };
        let faults = config.faults.clone().for_nodes(config.processes, config.workloads);
        SimulationConfig { faults, ..config }
    }

    fn plan(&self, seed: u64, config: &SimulationConfig) -> Plan {
        Plan::derive(seed, &config.faults)
    }

    fn run(&self, timeline: &SimulationTimeline, watch: Watch) -> (RunReport, Vec<String>) {
        let Played { report, tape, .. } = self.play(timeline, watch);
        let mut program = Plain::reading(self.reads);
        let story = tape.map(|tape| as_plain_lines(&Deeds::read(&tape, &mut program)));
        (report, story.unwrap_or_default())
    }

    fn simpler(&self, plan: &Plan) -> Vec<Plan> {
        plan.simpler()
    }

    fn moves(&self, timeline: &SimulationTimeline, failure: &Failure) -> Vec<SimulationTimeline> {
        simpler::moves(timeline, failure, &self.choices)
    }

    fn great_moves(&self, timeline: &SimulationTimeline, _failure: &Failure) -> Vec<SimulationTimeline> {
        simpler::great_moves(timeline, &self.choices)
    }

    fn concrete(&self, timeline: &SimulationTimeline) -> Vec<SimulationTimeline> {
        let came = self.play(timeline, Watch::default()).begun;
        let plans = came.map(|came| timeline.plan.concrete(&came)).unwrap_or_default();
        plans.into_iter().map(|plan| Timeline { plan, ..timeline.clone() }).collect()
    }

    fn asserting(&self) -> Vec<&str> {
        self.asserting.iter().copied().collect()
    }

    fn plan_edit(
        &self,
        timeline: &SimulationTimeline,
        node: NodeId,
        at_ns: u64,
        stream: &mut Stream,
    ) -> Option<Value> {
        PlanEdit::draw_data(&timeline.plan, &timeline.config.faults, node, at_ns, stream)
    }

    fn edit_plan(
        &self,
        timeline: &SimulationTimeline,
        node: NodeId,
        at_ns: u64,
        edit: &Value,
    ) -> Option<Plan> {
        PlanEdit::apply_data(edit, &timeline.plan, &timeline.config.faults, node, at_ns)
    }

    fn plan_end(&self, timeline: &SimulationTimeline, at_ns: u64, stream: &mut Stream) -> Option<Value> {
        PlanEdit::draw_end(&timeline.plan, &timeline.config.faults, at_ns, stream)
    }

    fn explored_until_ns(&self, timeline: &SimulationTimeline) -> u64 {
        timeline.plan.heal_at_ns
    }
}

/// Searches. Each takes the simulation: its runs go on several threads.
impl Simulation {
    /// Runs seeds from 1 on until `plateau_seeds` in a row show no state, near miss or step of an assertion that is new,
    /// or `max_seeds` were run, which [`Stable::line`] says. Needs no assertion: see [`Scenario::signature`].
    pub fn until_coverage_stable(self, plateau_seeds: u64, max_seeds: u64) -> Stable {
        let Exploration { workers, .. } = Exploration::default();
        let hung_after = Settings::default().hung_after;
        explore::until_coverage_stable(&Arc::new(self), workers, (plateau_seeds, max_seeds), hung_after)
    }

    /// Searches from states that are worth having. More can be said with [`Simulation::explore_as`].
    pub fn explore(self, exploration: Exploration) -> Explored<SimulationConfig, Plan> {
        self.explore_as(&Settings { exploration, ..Settings::default() })
    }

    /// Searches as these settings say.
    pub fn explore_as(self, settings: &Settings) -> Explored<SimulationConfig, Plan> {
        explore::explore(&Arc::new(self), settings, |_| {})
    }

    /// Follows a recipe from a seed and runs what comes of it.
    ///
    /// # Errors
    /// When a moment of the recipe does not come.
    pub fn replay_timeline(&self, seed: u64, recipe: &Recipe) -> Result<RunReport, Lost> {
        let timeline = recipe.follow(self, &self.timeline(seed))?;
        Ok(self.run(&timeline, Watch::default()).0)
    }

    #[must_use = "a divergence is told, not raised: `expect_deterministic` raises it"]
    /// Whether each of these seeds runs alike every time; see [`sim_runtime::determinism`].
    pub fn check_determinism(&self, seeds: impl IntoIterator<Item = u64>) -> determinism::Checked {
        sim_runtime::check_determinism(self, seeds)
    }
}

impl Simulation {
    /// Runs a timeline and tells its story: of its events, messages, crashes and faults, those that led to the first
    /// failure, as far as `reach` allows. Needs nothing of the program but its `tracing` events.
    pub fn tell(
        &self,
        timeline: &SimulationTimeline,
        reach: Reach,
        style: Style,
    ) -> (RunReport, Vec<String>) {
        let (report, tape) = self.record(timeline);
        let mut program = Plain::reading(self.reads);
        let deeds = Deeds::read(&tape, &mut program);
        let proof = Proof::of_first(&report.findings, &deeds);
        (report, draw(&deeds, &proof, &program, reach, style))
    }

    /// Runs a timeline and keeps everything, for a story told by a [`crate::story::Program`] that knows more.
    pub fn record(&self, timeline: &SimulationTimeline) -> (RunReport, Tape) {
        let Played { report, tape, .. } = self.play(timeline, Watch { story: true });
        (report, tape.unwrap_or_default())
    }

    fn play(&self, timeline: &SimulationTimeline, watch: Watch) -> Played {
        let Timeline { seed, config, plan, overrides } = timeline.clone();
        let limit_ns = plan.heal_at_ns.saturating_add(config.grace_ms.saturating_mul(1_000_000));
        let (schedule, keep_trace) = (config.schedule, watch.story);
        let options = Options { overrides, schedule, keep_trace, limit_ns, ..Options::default() };
        let mut world = World::new(seed, options);
        let recording = watch.story.then(|| Recording::start(&mut world));
        self.judges.iter().for_each(|judge| judge(&mut world));
        let handle = world.handle();
        handle.device::<Net>().configure(config.network);
        handle.device::<Disks>().configure(config.disk.clone());
        setting::announce(&handle, &config);
        let working = self.add_nodes(&handle, &config);
        let begun = Rc::new(RefCell::new(None));
        let tell = begun.clone();
        world.run(async move {
            (1..handle.node_count()).for_each(|id| handle.boot(NodeId(id)));
            tell.replace(Some(nemesis::run(plan).await));
            working.all_finished().await;
        });
        let report = world.report();
        drop(world);
        Played { report, begun: begun.take(), tape: recording.map(Recording::into_tape) }
    }

    fn add_nodes(&self, world: &Handle, config: &SimulationConfig) -> Rc<Working> {
        for id in 1..=config.processes {
            let process = self.process.clone();
            world.add_node_from(self.places.processes, &format!("process {id}"), move || process(NodeId(id)));
        }
        let working = Rc::new(Working { workloads: Cell::new(config.workloads), done: Notify::new() });
        let begins = Duration::from_millis(config.work_from_ms);
        for number in 1..=config.workloads {
            let (workload, working) = (self.workload.clone(), working.clone());
            let id = NodeId(config.processes + number);
            world.add_node_from(self.places.workloads, &format!("workload {number}"), move || {
                let (workload, working) = (workload.clone(), working.clone());
                async move {
                    if !begins.is_zero() {
                        sleep(begins).await;
                    }
                    workload(id).await;
                    working.one_is_done();
                }
            });
        }
        working
    }
}

/// What a run leaves.
struct Played {
    report: RunReport,
    /// The faults as they came, unless the run ended before they were over.
    begun: Option<Plan>,
    /// Everything, when it is watched for its story.
    tape: Option<Tape>,
}

/// How many workloads have not finished.
struct Working {
    workloads: Cell<u16>,
    done: Notify,
}

impl Working {
    fn one_is_done(&self) {
        self.workloads.set(self.workloads.get() - 1);
        self.done.notify_one();
    }

    async fn all_finished(&self) {
        while self.workloads.get() > 0 {
            self.done.notified().await;
        }
    }
}
