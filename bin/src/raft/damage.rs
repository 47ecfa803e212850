//! Disks that fail and clocks that drift: campaigns of their own, on top of any profile.
//!
//!   seed ──► which servers (a minority) ──► what ails each disk ──► DiskConfig of its own
//!   a server halts ──told──► Operator ──after a while──► starts it again (never one whose files are corrupt)
//!   faults are over ──► disks are repaired, what may start is started
//!
//! A correct server halts with a clear error where its disk fails it, and its cluster goes on with a quorum.
//!
//! Invariants: what stays down at the end leaves a quorum, since only bad disks make a server halt for good; each draw
//! has a stream of its own.
//! Rot spares what was synced last, since a vote or batch that rotted there cannot be told from one that a crash tore.
//! Not here: what a disk does then (sim-io's `fs`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use raft_async::Halt;
use sim_io::fs::{DiskConfig, Disks};
use sim_runtime::rng::Stream;
use sim_runtime::time::sleep;
use sim_runtime::verdict::Category;
use sim_runtime::{Handle, NodeId, Owner};

use super::config::Config;
use super::coverage::SERVERS_HALTED;

/// Gives a minority of the servers bad disks.
pub(super) fn draw_bad_disks(seed: u64, config: &mut Config) {
    let minority = (config.servers - 1) / 2;
    if minority == 0 {
        return;
    }
    let mut servers: Vec<NodeId> = config.server_nodes().collect();
    Stream::derive(seed, "bad disks: whose").shuffle(&mut servers);
    let how_many = Stream::derive(seed, "bad disks: how many").range(1, u64::from(minority));
    servers.truncate(how_many as usize);
    config.bad_disks =
        servers.into_iter().map(|node| (node, Ailing { seed, node }.disk(&config.disk))).collect();
    let restarts = Stream::derive(seed, "bad disks: restarts").chance(750_000);
    let after_ms =
        Stream::derive(seed, "bad disks: restart after").range(1, config.raft.election_timeout_max_ms);
    config.restart_halted_after_ms = restarts.then_some(after_ms);
}

/// Draws for one bad disk.
struct Ailing {
    seed: u64,
    node: NodeId,
}

impl Ailing {
    fn stream(&self, name: &str) -> Stream {
        Stream::derive(self.seed, &format!("bad disk of {}: {name}", self.node))
    }

    /// Heavy-tailed, as everything here.
    fn doubling(&self, name: &str, least: u64, doublings: u64) -> u64 {
        let mut stream = self.stream(name);
        let low = least << stream.below(doublings);
        stream.range(low, low * 2)
    }

    fn disk(&self, usual: &DiskConfig) -> DiskConfig {
        let mut disk = usual.clone();
        let ailment = self.stream("ailment").below(6);
        let has =
            |place: u64, name: &str| ailment == place || ailment >= 4 && self.stream(name).chance(500_000);
        if has(0, "syncs fail") {
            disk.fsync_error_per_million = self.doubling("failed syncs", 1_000, 6) as u32;
        }
        if has(1, "reads and writes fail") {
            disk.io_error_per_million = self.doubling("failed reads and writes", 500, 6) as u32;
        }
        if has(2, "fills up") {
            disk.capacity_bytes = Some(self.doubling("capacity", 2_048, 5));
        }
        if has(3, "rots") {
            disk.bit_rot_per_million = self.doubling("rot", 4_000, 6) as u32;
            disk.bit_rot_spares_latest = true;
        }
        disk
    }
}

/// How fast the servers' clocks run: up to `percents` of a hundred fast or slow, at that limit in a third of the cases.
pub(super) fn draw_drift(seed: u64, servers: u16, percents: u8) -> BTreeMap<NodeId, i32> {
    let most = i64::from(percents) * 10_000;
    let drift = |node: NodeId| {
        let mut stream = Stream::derive(seed, &format!("clock drift of {node}"));
        let anywhere = stream.range(0, 2 * most as u64) as i64 - most;
        match stream.below(6) {
            0 => most,
            1 => -most,
            _ => anywhere,
        }
    };
    (1..=servers).map(NodeId).map(|node| (node, drift(node) as i32)).collect()
}

/// Applies bad disks and drifting clocks to a world that is about to begin.
pub(super) fn apply(world: &Handle, config: &Config) {
    let disks = world.device::<Disks>();
    for (node, disk) in &config.bad_disks {
        disks.configure_node(*node, disk.clone());
    }
    for (node, drift_ppm) in &config.drift_ppm {
        world.set_drift(*node, *drift_ppm);
    }
}

/// Hears of servers that halt, and starts them again where that is right.
#[derive(Clone)]
pub(super) struct Operator {
    config: Rc<Config>,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Servers that halted over a failed disk, as they lived then.
    halted: RefCell<Vec<Owner>>,
    /// How often each has.
    times: RefCell<BTreeMap<NodeId, u32>>,
    repaired: Cell<bool>,
}

impl Operator {
    /// The operator of a world.
    pub(super) fn new(config: Rc<Config>) -> Self {
        Self { config, shared: Rc::default() }
    }

    /// The calling server halts.
    pub(super) fn hear(&self, halt: &Halt) {
        let world = Handle::current();
        let (counter, is_disk) = match halt {
            Halt::Shutdown => return,
            Halt::DiskFailed(_) => ("servers halted: disk failed", true),
            Halt::Corrupt(_) => ("servers halted: files corrupt", false),
            Halt::NoAddress(_) | Halt::TaskFailed => ("servers halted: otherwise", false),
        };
        world.count(SERVERS_HALTED, 1);
        world.count(counter, 1);
        let halted = world.owner();
        let Some(disk) = self.config.bad_disks.get(&halted.node) else {
            if !self.config.bad_disks.is_empty() {
                object(&world, "a server halts on a sound disk", halt);
            }
            return;
        };
        if !is_disk {
            if disk.bit_rot_per_million == 0 {
                object(&world, "a server calls files corrupt that did not rot", halt);
            }
            return;
        }
        self.shared.halted.borrow_mut().push(halted);
        // What was under way when the disk was repaired may fail yet.
        let soon_ms = self.shared.repaired.get().then_some(1);
        if let Some(after_ms) = soon_ms.or_else(|| self.patience_ms(halted.node)) {
            let start = async move {
                sleep(Duration::from_millis(after_ms)).await;
                start_again(halted);
            };
            drop(world.spawn_on(Owner::HOST, "operator", u64::from(halted.node.0), start));
        }
    }

    /// Twice as long each time: a full disk does not get any emptier.
    fn patience_ms(&self, node: NodeId) -> Option<u64> {
        let mut times = self.shared.times.borrow_mut();
        let times = times.entry(node).or_default();
        let after_ms = self.config.restart_halted_after_ms? << (*times).min(10);
        *times += 1;
        Some(after_ms)
    }

    /// Makes all disks well; what they lost stays lost. Starts whatever a failed disk has stopped.
    pub(super) fn repair(&self) {
        let disks = Handle::current().device::<Disks>();
        for node in self.config.bad_disks.keys() {
            disks.configure_node(*node, self.config.disk.clone());
        }
        self.shared.repaired.set(true);
        self.shared.halted.take().into_iter().for_each(start_again);
    }
}

/// Where some disks are bad, oracles let servers halt; not every halt is right for that.
fn object(world: &Handle, shape: &str, halt: &Halt) {
    let evidence = format!("{}: {halt}", world.owner().node);
    world.fail(Category::Invariant, "liveness", shape, evidence);
}

/// Unless somebody else has started it since.
fn start_again(halted: Owner) {
    let world = Handle::current();
    if !world.is_up(halted.node) && world.incarnation(halted.node) == halted.incarnation {
        world.count("servers started again after a halt", 1);
        world.boot(halted.node);
    }
}
