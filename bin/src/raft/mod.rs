//! Raft as a scenario: a cluster with clients in a world with faults, judged by all oracles.
//!
//!   Timeline ──► World { servers, clients, network, disks, Judge } ──► phases ──► report
//!
//! Phases: *work* (faults strike, clients operate) until everything is healed; *finish* (clients end what is
//! pending and read every key afresh); *settle* (servers apply all that is committed); then the last judgement.
//!
//! Not here: the properties (crate `oracles`), the faults (sim-io's nemesis), many seeds (`sim_runtime::campaign`).

pub mod config;
pub mod coverage;
mod clients;
mod census;
pub mod story;
mod sturdy;
mod swarm;
pub mod features;
mod damage;
mod simpler;
mod valid;
mod milestones;
mod likeness;
mod saved;

pub use config::{Config, Profile};
pub use milestones::Milestones;
pub use saved::{Expected, PROGRAM, Saved, Unreadable};
pub use valid::validate;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use oracles::records::{Healed, Quiesced, Settled};
use oracles::{Judge, JudgeConfig, Recorder, Sweeps, Witness};
use raft_async::{Carrier, Kv, Planted, Sessions};
use serde_json::Value;
use sim_io::fs::Disks;
use sim_io::nemesis::{self, Plan, PlanEdit};
use sim_io::net::Net;
use sim_io::story::{Recording, Tape};
use sim_runtime::explore::Signature;
use sim_runtime::rng::{Chance, Stream};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::sync::{Notify, watch};
use sim_runtime::time::{Instant, sleep, timeout};
use sim_runtime::trace::Record;
use sim_runtime::verdict::{Failure, RunReport};
use sim_runtime::{Handle, NodeId, Options, World};

use census::{Census, Progress};
use clients::{Board, Outcomes, Phase};
use damage::Operator;
use features::Without;
use likeness::Likeness;
use milestones::Surveyor;
use story::Story;

/// A timeline of Raft.
pub type RaftTimeline = Timeline<Config, Plan>;

/// Raft under a profile, with what the command line says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Raft {
    /// The family of configurations.
    pub profile: Profile,
    /// The defect in every server.
    pub planted: Planted,
    /// How many servers, when not as the profile says.
    pub servers: Option<u16>,
    /// How many clients, when not as the profile says.
    pub clients: Option<u16>,
    /// How long faults strike, when not as the profile says.
    pub duration_ms: Option<u64>,
    /// How servers and clients are connected, when not as the profile says.
    pub carrier: Option<Carrier>,
    /// Whether syncs keep nothing.
    pub lying_fsync: bool,
    /// Whether a minority of the disks fails, fills up and rots.
    pub disk_errors: bool,
    /// Features that the swarm does without.
    pub without: Without,
    /// By how many percent of true time the servers' clocks run fast or slow at most.
    pub clock_drift_percent: u8,
    /// Where conditions come from.
    pub chance: Chance,
}

impl Raft {
    /// A profile without anything beside it.
    pub fn of(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// Runs a timeline as [`Scenario::run`] does. Beside its report: what the behaviour was up to some moments.
    pub fn survey(timeline: &RaftTimeline) -> (RunReport, Milestones) {
        let surveyor = Surveyor::default();
        let watch = surveyor.clone();
        let report = play(timeline, Watch::default(), |world| world.watch(watch)).report;
        (report, surveyor.take())
    }
}

impl Scenario for Raft {
    type Config = Config;
    type Plan = Plan;

    fn config(&self, seed: u64) -> Config {
        let mut config = match self.profile {
            Profile::Reference => Config::reference(),
            Profile::Swarm => swarm::draw(seed, self.without),
        };
        config.servers = self.servers.unwrap_or(config.servers);
        config.clients = self.clients.unwrap_or(config.clients);
        config.faults_ms = self.duration_ms.unwrap_or(config.faults_ms);
        config.carrier = self.carrier.unwrap_or(config.carrier);
        config.disk.lying_fsync = self.lying_fsync;
        config.planted = self.planted;
        config.chance = self.chance;
        config.faults = config.faults.clone().for_nodes(config.servers, config.clients);
        config.faults.heal_at_ms = config.faults_ms;
        if self.disk_errors || self.profile == Profile::Swarm && swarm::has_bad_disks(seed, self.without) {
            damage::draw_bad_disks(seed, &mut config);
        }
        if self.clock_drift_percent > 0 {
            config.drift_ppm = damage::draw_drift(seed, config.servers, self.clock_drift_percent);
        }
        config
    }

    fn plan(&self, seed: u64, config: &Config) -> Plan {
        Plan::derive(seed, &config.faults)
    }

    fn simpler(&self, plan: &Plan) -> Vec<Plan> {
        plan.simpler()
    }

    fn asserting(&self) -> Vec<&str> {
        vec!["raft_async", "oracles", "bin"]
    }

    fn signature(&self) -> Box<dyn Signature> {
        Box::new(Likeness::default())
    }

    fn plan_edit(
        &self,
        timeline: &RaftTimeline,
        node: NodeId,
        at_ns: u64,
        stream: &mut Stream,
    ) -> Option<Value> {
        PlanEdit::draw_data(&timeline.plan, &timeline.config.faults, node, at_ns, stream)
    }

    fn edit_plan(&self, timeline: &RaftTimeline, node: NodeId, at_ns: u64, edit: &Value) -> Option<Plan> {
        PlanEdit::apply_data(edit, &timeline.plan, &timeline.config.faults, node, at_ns)
    }

    fn plan_end(&self, timeline: &RaftTimeline, at_ns: u64, stream: &mut Stream) -> Option<Value> {
        PlanEdit::draw_end(&timeline.plan, &timeline.config.faults, at_ns, stream)
    }

    fn explored_until_ns(&self, timeline: &RaftTimeline) -> u64 {
        timeline.plan.heal_at_ns
    }

    fn moves(&self, timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
        simpler::moves(timeline, failure)
    }

    fn great_moves(&self, timeline: &RaftTimeline, failure: &Failure) -> Vec<RaftTimeline> {
        simpler::great_moves(timeline, failure)
    }

    fn variation(&self, timeline: &RaftTimeline, number: u32) -> Option<RaftTimeline> {
        simpler::variation(timeline, number)
    }

    fn weight(&self, timeline: &RaftTimeline) -> u64 {
        sturdy::weight(timeline)
    }

    fn disturbed(&self, timeline: &RaftTimeline) -> Vec<RaftTimeline> {
        sturdy::disturbed(timeline)
    }

    fn sturdier(&self, timeline: &RaftTimeline, _failure: &Failure) -> Vec<RaftTimeline> {
        sturdy::sturdier(timeline)
    }

    fn describe(&self, record: &Record) -> Option<String> {
        Some(story::describe(record))
    }

    fn concrete(&self, timeline: &RaftTimeline) -> Vec<RaftTimeline> {
        let came = play(timeline, Watch::default(), |_| {}).begun;
        let plans = came.map(|came| timeline.plan.concrete(&came)).unwrap_or_default();
        plans.into_iter().map(|plan| Timeline { plan, ..timeline.clone() }).collect()
    }

    fn run(&self, timeline: &RaftTimeline, watch: Watch) -> (RunReport, Vec<String>) {
        if watch.story {
            let story = Story::of(timeline);
            let lines = story.plain_lines();
            return (story.report, lines);
        }
        (play(timeline, watch, |_| {}).report, Vec::new())
    }
}

/// How many operations clients begin in a run, final reads included; whether they are answered does not matter.
pub fn operations_begun(timeline: &RaftTimeline) -> u64 {
    play(timeline, Watch::default(), |_| {}).recorder.history().len() as u64
}

/// What a run leaves.
struct Played {
    report: RunReport,
    /// The faults as they came, unless the run ended before they were over.
    begun: Option<Plan>,
    /// What clients saw.
    recorder: Recorder,
    /// Everything, when it is watched for its story.
    tape: Option<Tape>,
}

fn play_and_keep(timeline: &RaftTimeline) -> Story {
    let Played { report, recorder, tape, .. } = play(timeline, Watch { story: true }, |_| {});
    Story::read(timeline.config.servers, &tape.unwrap_or_default(), report, &recorder)
}

/// Runs a timeline under the eyes of whom `invite` brings in.
fn play(timeline: &RaftTimeline, watch: Watch, invite: impl FnOnce(&mut World)) -> Played {
    let config = Rc::new(timeline.config.clone());
    let mut world = World::new(timeline.seed, options(timeline, watch));
    let handle = world.handle();
    handle.device::<Net>().configure(config.network);
    handle.device::<Disks>().configure(config.disk.clone());

    let (recorder, outcomes) = (Recorder::new(), Rc::new(Outcomes::default()));
    let (tell_phase, phase) = watch::channel(Phase::Work);
    let board = Board {
        recorder: recorder.clone(),
        outcomes: outcomes.clone(),
        phase,
        finished: Rc::new(Cell::new(0)),
        one_finished: Notify::new(),
    };
    let operator = Operator::new(config.clone());
    let servers = add_servers(&handle, &config, &operator);
    let clients = add_clients(&handle, &config, &board);
    damage::apply(&handle, &config);

    let mut judging = JudgeConfig::new(servers.clone(), "/raft");
    judging.clients = Some(recorder.clone());
    judging.halts_allowed = !config.bad_disks.is_empty();
    let rots = config.bad_disks.values().any(|disk| disk.bit_rot_per_million > 0);
    judging.sweeps = if rots { Sweeps::NONE } else { Sweeps::ALL };
    let census = Census::default();
    let progress = census.progress.clone();
    world.watch(Judge::new(judging).with(census));
    let recording = watch.story.then(|| Recording::start(&mut world));
    invite(&mut world);

    let (plan, director) =
        (timeline.plan.clone(), Director { config, board, tell_phase, progress, operator, servers, clients });
    let begun = Rc::new(RefCell::new(None));
    let tell = begun.clone();
    world.run(async move { director.run(plan, &tell).await });
    outcomes.count(&handle);
    handle.note_output("client history", || format!("{:?}", recorder.history()));
    let report = world.report();
    drop(world);
    Played { report, begun: begun.take(), recorder, tape: recording.map(Recording::into_tape) }
}

fn options(timeline: &Timeline<Config, Plan>, watch: Watch) -> Options {
    let config = &timeline.config;
    Options {
        overrides: timeline.overrides.clone(),
        chance: config.chance,
        schedule: config.schedule,
        keep_trace: watch.story,
        hold_per_million: config.hold_per_million,
        long_hold_per_million: config.long_hold_per_million,
        ..Options::default()
    }
}

fn add_servers(handle: &Handle, config: &Rc<Config>, operator: &Operator) -> Vec<NodeId> {
    let add = |node: NodeId| {
        let (server, operator) = (config.server(node), operator.clone());
        let id = handle.add_node(&format!("server {}", node.0), move || {
            let (server, operator) = (server.clone(), operator.clone());
            let sessions = Sessions::new(Witness::of(Kv::default()), server.planted);
            async move {
                let halt = raft_async::run(server, Witness::of(sessions)).await;
                operator.hear(&halt);
            }
        });
        assert_eq!(id, node, "servers are the first nodes");
        id
    };
    config.server_nodes().map(add).collect()
}

fn add_clients(handle: &Handle, config: &Rc<Config>, board: &Board) -> Vec<NodeId> {
    let add = |n| {
        let (config, board) = (config.clone(), board.clone());
        let node = clients::client_node(&config, n);
        let id = handle.add_node(&format!("client {n}"), move || clients::run(config.clone(), board.clone()));
        assert_eq!(id, node, "clients come after the servers");
        id
    };
    let clients = (1..=config.clients).map(add).collect();
    if config.visitor {
        let (config, board) = (config.clone(), board.clone());
        handle.add_node("visitor", move || clients::visit(config.clone(), board.clone()));
    }
    clients
}

/// Beyond the grace, so that what comes too late is seen to come late.
const PATIENCE: Duration = Duration::from_secs(1);

/// Leads a run through its phases.
struct Director {
    config: Rc<Config>,
    board: Board,
    tell_phase: watch::Sender<Phase>,
    progress: Rc<Progress>,
    operator: Operator,
    servers: Vec<NodeId>,
    clients: Vec<NodeId>,
}

impl Director {
    async fn run(self, plan: Plan, begun: &RefCell<Option<Plan>>) {
        let world = Handle::current();
        self.servers.iter().chain(&self.clients).for_each(|node| world.boot(*node));
        if self.config.visitor {
            world.boot(clients::client_node(&self.config, self.config.clients + 1));
        }
        begun.replace(Some(nemesis::run(plan).await));
        if !self.config.recovers {
            return;
        }
        self.operator.repair();

        let grace = self.config.grace();
        world.emit(Healed {
            grace_ns: u64::try_from(grace.as_nanos()).expect("a grace of less than 584 years"),
        });
        self.tell_phase.send(Phase::Finish { give_up: Instant::now() + grace + PATIENCE });
        let all_finished = timeout(grace + PATIENCE * 2, self.clients_finish()).await;
        world.emit(Quiesced {});
        if all_finished.is_ok() {
            self.servers_settle(grace).await;
        }
        world.emit(Settled {});
        // The judgement belongs to a step of its own.
        sleep(Duration::from_millis(1)).await;
    }

    async fn clients_finish(&self) {
        while usize::from(self.board.finished.get()) < self.clients.len() {
            self.board.one_finished.notified().await;
        }
    }

    /// Waits until the servers that are up have applied what is committed, or nothing has been applied for as long as
    /// `grace`: how much somebody has to catch up with depends on how long a run was.
    async fn servers_settle(&self, grace: Duration) {
        const GLANCE: Duration = Duration::from_millis(20);
        let world = Handle::current();
        let living = || self.servers.iter().copied().filter(|node| world.is_up(*node));
        let (mut applied, mut since) = (self.progress.applied_by_all(), Instant::now());
        while !self.progress.is_level(living()) && Instant::now() < since + grace {
            sleep(GLANCE).await;
            if self.progress.applied_by_all() > applied {
                (applied, since) = (self.progress.applied_by_all(), Instant::now());
            }
        }
    }
}
