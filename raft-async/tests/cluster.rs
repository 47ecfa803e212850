//! Servers, clients and faults together: what every run must keep, whatever happens in it.
//!
//! Not the project's oracles (those judge from outside and far more closely): just enough to hold this crate to
//! its own promises while it is worked on.

use raft_async::trace::{Became, RoleKind};
use raft_async::types::{Command, Index, Key, Op, OpReply, Sequence, ServerId, SessionId, Term, Value};
use raft_async::{
    Client, ClientConfig, Config, Halt, Kv, Mutant, Planted, Sessions, StateMachine, image, run,
};
use sim_io::fs::{DiskConfig, Disks};
use sim_io::net::{Net, NetConfig, addr_of};
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::rng::Stream;
use sim_runtime::time::{Instant, sleep, timeout};
use sim_runtime::verdict::{Category, Findings};
use sim_runtime::{Handle, JoinHandle, NodeId, Options, World, probe};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const LIST: Key = Key(1);
const REGISTER: Key = Key(2);

/// What all replicas have applied, as one log.
#[derive(Default)]
struct Applied {
    log: BTreeMap<Index, (Term, u64)>,
    by_node: BTreeMap<NodeId, Index>,
    disagreement: Option<String>,
}

/// "If a server has applied a log entry at a given index to its state machine, no other server will ever apply
/// a different log entry for the same index" (Figure 3).
struct Witness {
    sessions: Sessions<Kv>,
    applied: Rc<RefCell<Applied>>,
}

impl StateMachine for Witness {
    fn apply(&mut self, index: Index, term: Term, command: &Command) -> Option<OpReply> {
        let mut applied = self.applied.borrow_mut();
        let node = sim_runtime::node::id();
        let this = (term, command.digest());
        let first = *applied.log.entry(index).or_insert(this);
        if first != this {
            applied.disagreement = Some(format!("{node} applies another entry at {index}"));
        }
        applied.by_node.insert(node, index);
        drop(applied);
        self.sessions.apply(index, term, command)
    }

    fn query(&self, op: &Op) -> OpReply {
        self.sessions.query(op)
    }

    fn recall(&self, session: SessionId, sequence: Sequence) -> Option<OpReply> {
        self.sessions.recall(session, sequence)
    }
}

/// "At most one leader can be elected in a given term" (Figure 3), an incarnation being a server of its own.
#[derive(Default)]
struct OneLeaderATerm {
    leaders: BTreeMap<u64, (NodeId, u32)>,
}

impl Invariant for OneLeaderATerm {
    fn name(&self) -> &'static str {
        "election safety"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for record in view.fresh() {
            let Some(Became { role: RoleKind::Leader, term, .. }) = record.get() else { continue };
            let leader = (record.node, record.incarnation);
            if *self.leaders.entry(term).or_insert(leader) != leader {
                found.violation("election safety", "two leaders", format!("term {term}: {leader:?}"));
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Scene {
    servers: u16,
    clients: u16,
    outstanding: u16,
    /// For how long faults come.
    storm: Duration,
    faults: bool,
    planted: Planted,
    config: Config,
    net: NetConfig,
    disk: DiskConfig,
}

impl Scene {
    fn calm(servers: u16) -> Self {
        let at = (1..=servers).map(|id| (ServerId(id), addr_of(NodeId(id), 7000))).collect();
        Self {
            servers,
            clients: 2,
            outstanding: 1,
            storm: Duration::from_secs(3),
            faults: false,
            planted: Planted::NONE,
            config: Config::new(ServerId(1), at),
            net: NetConfig::calm(),
            disk: DiskConfig::default(),
        }
    }

    /// A scene with everything in it, different for each seed.
    fn stormy(seed: u64) -> Self {
        let mut dice = Stream::derive(seed, "scene");
        let mut scene = Self::calm(*dice.pick(&[1, 3, 3, 3, 3, 5, 5]));
        scene.faults = true;
        scene.storm = Duration::from_secs(4);
        scene.clients = dice.range(1, 3) as u16;
        scene.outstanding = *dice.pick(&[1, 1, 4]);
        let config = &mut scene.config;
        config.election_timeout_min_ms = *dice.pick(&[40, 80, 150]);
        config.election_timeout_max_ms = 2 * config.election_timeout_min_ms;
        config.heartbeat_ms = config.election_timeout_min_ms / 4;
        config.max_entries_per_append = *dice.pick(&[1, 2, 8, 64]);
        config.max_inflight_appends = *dice.pick(&[1, 4, 8]);
        config.segment_bytes = *dice.pick(&[512, 2048, 65536]);
        config.step_down_after_ms = *dice.pick(&[None, Some(config.election_timeout_max_ms * 2)]);
        config.apply_delay_us = *dice.pick(&[0, 0, 3000]);
        scene.net = NetConfig { loss_per_million: *dice.pick(&[0, 5_000, 50_000]), ..NetConfig::default() };
        scene.net.duplicate_per_million = *dice.pick(&[0, 5_000, 100_000]);
        scene.net.reorder_per_million = *dice.pick(&[0, 10_000, 200_000]);
        scene.disk.stall_per_million = *dice.pick(&[0, 0, 50_000]);
        scene.disk.fsync_error_per_million = *dice.pick(&[0, 0, 0, 3_000]);
        scene
    }

    fn plant(mut self, mutant: Mutant) -> Self {
        self.planted = Planted::one(mutant);
        self
    }

    /// Plays the scene; an `Err` says which promise was broken.
    fn play(self, seed: u64) -> Result<Report, String> {
        let options = Options { limit_ns: 120_000_000_000, ..Options::default() };
        let mut world = World::new(seed, options);
        world.watch(OneLeaderATerm::default());
        let handle = world.handle();
        handle.device::<Net>().configure(self.net);
        handle.device::<Disks>().configure(self.disk.clone());
        let applied = Rc::new(RefCell::new(Applied::default()));
        for id in 1..=self.servers {
            let config = Config { id: ServerId(id), planted: self.planted, ..self.config.clone() };
            let applied = applied.clone();
            let node = handle.add_node("server", move || {
                let (config, applied) = (config.clone(), applied.clone());
                let planted = config.planted;
                async move {
                    let sessions = Sessions::new(Kv::default(), planted);
                    let halt = run(config, Witness { sessions, applied }).await;
                    assert!(matches!(halt, Halt::DiskFailed(_)), "server {id} halted: {halt}");
                }
            });
            handle.boot(node);
        }
        let outcome = {
            let (scene, applied) = (self.clone(), applied.clone());
            world.run(async move { Play { scene, handle: Handle::current(), applied }.run().await })
        };
        let report = world.report();
        if let Some(failure) = report.findings.failures.first() {
            return Err(format!("{}: {}", failure.property, failure.evidence));
        }
        if let Some(disagreement) = applied.borrow().disagreement.clone() {
            return Err(disagreement);
        }
        let outcome = outcome.ok_or("the run did not end by itself")??;
        Ok(Report {
            digest: report.digest(),
            datagrams: report.coverage.get("datagrams sent"),
            records: report.records,
            steps: report.steps,
            ..outcome
        })
    }
}

#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
struct Report {
    digest: u64,
    done: u64,
    unknown: u64,
    crashes: u64,
    datagrams: u64,
    records: u64,
    steps: u64,
}

struct Play {
    scene: Scene,
    handle: Handle,
    applied: Rc<RefCell<Applied>>,
}

/// What a client did: its appended items, and whether each was acknowledged.
type Appended = Vec<(u64, bool)>;

impl Play {
    async fn run(self) -> Result<Report, String> {
        let clients: Vec<JoinHandle<Appended>> = (1..=self.scene.clients)
            .map(|n| sim_runtime::task("client").key(n.into()).spawn(work(self.scene.clone(), n)))
            .collect();
        let mut report = Report::default();
        if self.scene.faults {
            report.crashes = self.storm().await;
        } else {
            sleep(self.scene.storm).await;
        }
        self.heal();
        let mut appended = Vec::new();
        for client in clients {
            appended.push(client.await.map_err(|e| e.to_string())?);
        }
        let list = self.settle().await?;
        for (item, acknowledged) in appended.iter().flatten() {
            let times = list.iter().filter(|found| *found == item).count();
            match (acknowledged, times) {
                (_, 1) | (false, 0) => {}
                (true, 0) => return Err(format!("item {item} was acknowledged and is lost")),
                (_, times) => return Err(format!("item {item} is there {times} times")),
            }
        }
        report.done = appended.iter().flatten().filter(|(_, done)| *done).count() as u64;
        report.unknown = appended.iter().flatten().filter(|(_, done)| !done).count() as u64;
        Ok(report)
    }

    async fn storm(&self) -> u64 {
        let mut dice = self.handle.stream("storm", 0);
        let end = Instant::now() + self.scene.storm;
        let mut crashes = 0;
        while Instant::now() < end {
            self.check_disks();
            if dice.chance(500_000) {
                crashes += u64::from(self.aimed_crash(&mut dice).await);
                continue;
            }
            sleep(Duration::from_millis(dice.range(20, 300))).await;
            let victim = match self.handle.latest_with_role("leader") {
                Some(leader) if dice.chance(400_000) => leader,
                _ => NodeId(dice.range(1, self.scene.servers.into()) as u16),
            };
            let fault = dice.below(1 << 40);
            crashes += 1;
            match dice.below(8) {
                0 | 1 => self.handle.kill(victim, fault),
                2 => self.handle.power_off(&[victim], fault),
                3 => {
                    let all: Vec<_> = self.nodes().filter(|_| dice.chance(700_000)).collect();
                    self.handle.power_off(&all, fault);
                }
                4 => self.handle.pause(victim),
                _ => self.cut(&mut dice, victim),
            }
            if dice.chance(500_000) {
                sleep(Duration::from_millis(dice.range(1, 200))).await;
            }
            for node in self.nodes() {
                if !self.handle.is_up(node) && dice.chance(700_000) {
                    self.handle.restart(node);
                }
                if self.handle.is_paused(node) && dice.chance(700_000) {
                    self.handle.resume(node);
                }
            }
            if dice.chance(400_000) {
                self.handle.device::<Net>().heal_all();
            }
        }
        crashes
    }

    /// A crash at a moment that is worth one, and a restart soon after.
    async fn aimed_crash(&self, dice: &mut Stream) -> bool {
        let moment = *dice.pick(&["append sent", "vote granted", "election in progress", "fsync in flight"]);
        let Ok(opened) = timeout(Duration::from_millis(300), probe::next(moment, None)).await else {
            return false;
        };
        sleep(Duration::from_micros(dice.range(0, 4_000))).await;
        let fault = dice.below(1 << 40);
        if dice.chance(300_000) {
            self.handle.kill(opened.node, fault);
        } else {
            self.handle.power_off(&[opened.node], fault);
        }
        let longest_us = *dice.pick(&[1_000, 20_000, 400_000]);
        sleep(Duration::from_micros(dice.range(100, longest_us))).await;
        self.handle.restart(opened.node);
        true
    }

    /// Whatever happens, a server could start from what is on its disk.
    fn check_disks(&self) {
        let disks = self.handle.device::<Disks>();
        let dir = &self.scene.config.dir;
        for node in self.nodes() {
            for files in [disks.durable_image(node).files, disks.visible_image(node).files] {
                if let Err(corrupt) = image::decode(&files, dir, self.scene.planted) {
                    let evidence = format!("{node}: {corrupt}");
                    self.handle.fail(Category::Invariant, "disk image", "corrupt", evidence);
                }
            }
        }
    }

    fn cut(&self, dice: &mut Stream, victim: NodeId) {
        let net = self.handle.device::<Net>();
        for other in (0..=self.scene.servers).map(NodeId).filter(|&other| other != victim) {
            if dice.chance(600_000) {
                net.cut(victim, other);
            }
            if dice.chance(600_000) {
                net.cut(other, victim);
            }
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.scene.servers).map(NodeId)
    }

    fn heal(&self) {
        self.handle.device::<Net>().heal_all();
        self.handle.device::<Disks>().configure(DiskConfig::default());
        for node in self.nodes() {
            if self.handle.is_paused(node) {
                self.handle.resume(node);
            }
            if !self.handle.is_up(node) {
                self.handle.restart(node);
            }
        }
    }

    /// A server that has not applied all that somebody has.
    fn laggard(&self) -> Option<NodeId> {
        let applied = self.applied.borrow();
        let last = applied.log.keys().next_back().copied().unwrap_or_default();
        self.nodes().find(|node| applied.by_node.get(node) != Some(&last))
    }

    /// Everybody applies everything, and the list is read.
    async fn settle(&self) -> Result<Vec<u64>, String> {
        let servers = self.scene.config.servers.clone();
        let client =
            Client::new(ClientConfig::new(SessionId(1000), servers)).await.map_err(|e| e.to_string())?;
        let patience = Duration::from_secs(20);
        client
            .call(Op::Put { key: Key(9), value: 9 }, patience)
            .await
            .map_err(|_| "no progress after healing")?;
        let read = client.call(Op::Get { key: LIST }, patience).await;
        let end = Instant::now() + Duration::from_secs(20);
        while let Some(node) = self.laggard() {
            if Instant::now() > end {
                return Err(format!("{node} does not catch up"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        match read {
            Ok(OpReply::Value(Some(Value::List(items)))) => Ok(items.to_vec()),
            Ok(OpReply::Value(None)) => Ok(vec![]),
            other => Err(format!("the list reads as {other:?}")),
        }
    }
}

/// A client's work: appends of items of its own, mixed with others, until the storm is over.
async fn work(scene: Scene, n: u16) -> Appended {
    let config = ClientConfig::new(SessionId(n.into()), scene.config.servers.clone());
    let client = Rc::new(Client::new(config).await.expect("a port is free"));
    let end = Instant::now() + scene.storm;
    let lanes: Vec<_> = (0..scene.outstanding)
        .map(|lane| {
            let client = client.clone();
            sim_runtime::task("lane").key(lane.into()).spawn(async move {
                let mut appended = Vec::new();
                let mut item = u64::from(n) * 1_000_000 + u64::from(lane) * 10_000;
                while Instant::now() < end {
                    item += 1;
                    let op = match item % 4 {
                        0 => Op::Get { key: LIST },
                        1 => Op::Cas { key: REGISTER, expected: None, new: item },
                        2 => Op::Delete { key: REGISTER },
                        _ => Op::Append { key: LIST, item },
                    };
                    let reply = client.call(op, Duration::from_secs(1)).await;
                    if let Op::Append { item, .. } = op {
                        appended.push((item, reply.is_ok()));
                    }
                }
                appended
            })
        })
        .collect();
    let mut appended = Vec::new();
    for lane in lanes {
        appended.extend(lane.await.expect("a lane runs to its end"));
    }
    appended
}

#[test]
fn a_calm_cluster_serves_its_clients() {
    for servers in [1, 3, 5] {
        let report = Scene::calm(servers).play(1).expect("nothing goes wrong");
        assert_eq!(report.unknown, 0, "{servers} servers");
        assert!(report.done > 50, "{servers} servers did {report:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let play = |seed| Scene::stormy(seed).play(seed);
    assert_eq!(play(3), play(3));
    assert_ne!(play(3).map(|r| r.digest), play(4).map(|r| r.digest));
}

#[expect(clippy::disallowed_methods, reason = "how many seeds are played is no part of any")]
fn seeds() -> std::ops::RangeInclusive<u64> {
    let count = std::env::var("RAFT_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(100);
    let from = std::env::var("RAFT_FROM").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    from..=from + count - 1
}

#[test]
fn a_stormy_cluster_keeps_its_promises() {
    let mut failures = Vec::new();
    let mut total = Report::default();
    for seed in seeds() {
        match Scene::stormy(seed).play(seed) {
            Ok(report) => {
                total.done += report.done;
                total.unknown += report.unknown;
                total.crashes += report.crashes;
            }
            Err(why) => failures.push((seed, why)),
        }
    }
    eprintln!("{total:?}");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(total.done > 100 * total.unknown.min(1));
}

/// Controls: changes that break nothing.
#[test]
fn the_controls_raise_no_alarm() {
    let controls = [
        Mutant::ControlExtraFsync,
        Mutant::ControlRedundantTruncate,
        Mutant::ControlSlowHeartbeat,
        Mutant::ControlDuplicateSend,
        Mutant::ControlLateReply,
    ];
    for control in controls {
        for seed in 1..=10 {
            let outcome = Scene::stormy(seed).plant(control).play(seed);
            assert!(outcome.is_ok(), "{control} at seed {seed}: {outcome:?}");
        }
    }
}

#[cfg(feature = "mutants")]
#[test]
fn the_canary_dies() {
    assert!(Scene::calm(3).plant(Mutant::Canary).play(1).is_err());
}

#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "which table is printed is no part of a run")]
fn chosen() -> Option<String> {
    std::env::var("RAFT_MUTANT").ok()
}

/// Which planted defects this small harness sees; a development aid, not a measurement.
#[cfg(feature = "mutants")]
#[test]
#[ignore = "prints a table; run it by name"]
fn table_of_mutants() {
    for mutant in Mutant::planted().filter(|mutant| chosen().is_none_or(|name| mutant.name() == name)) {
        let mut caught = BTreeMap::<String, u64>::new();
        for seed in seeds() {
            let outcome = std::panic::catch_unwind(|| Scene::stormy(seed).plant(mutant).play(seed));
            let why = match outcome {
                Ok(Ok(_)) => continue,
                Ok(Err(why)) => why.chars().filter(|c| !c.is_ascii_digit()).take(40).collect(),
                Err(_) => "panic".to_owned(),
            };
            *caught.entry(why).or_default() += 1;
        }
        println!("{mutant}: {} {caught:?}", caught.values().sum::<u64>());
    }
}

/// What a calm seed of the reference size costs, and what happens in it; a development aid.
#[test]
#[ignore = "prints figures; run it by name, in release"]
#[expect(clippy::disallowed_methods, reason = "it measures what a run costs outside")]
fn cost_of_a_seed() {
    let mut scene = Scene::calm(5);
    (scene.clients, scene.storm) = (3, Duration::from_secs(6));
    scene.net = NetConfig::default();
    let count = 200;
    let began = std::time::Instant::now();
    let mut total = Report::default();
    for seed in 1..=count {
        let report = scene.clone().play(seed).expect("nothing goes wrong");
        total.done += report.done;
        total.records += report.records;
        total.steps += report.steps;
        total.datagrams += report.datagrams;
    }
    let each = began.elapsed() / count as u32;
    println!(
        "{each:?} a seed: {} datagrams, {} records, {} steps, {} appends done",
        total.datagrams / count,
        total.records / count,
        total.steps / count,
        total.done / count
    );
}
