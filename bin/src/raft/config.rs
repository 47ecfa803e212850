//! What is run: a cluster, its clients, its network and disks, as one value derived from a seed.
//!
//!   seed, profile, flags ──► Config (printed by `replay --plan`, part of every timeline)
//!
//! Not here: when what goes wrong (the plan, sim-io's nemesis).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use raft_async::Carrier;
use raft_async::config::Config as ServerConfig;
use raft_async::mutant::Planted;
use raft_async::types::{Key, ServerId};
use serde::{Deserialize, Serialize};
use sim_io::fs::DiskConfig;
use sim_io::nemesis::{Aim, FaultKind, PlanConfig};
use sim_io::net::{NetConfig, ip_of};
use sim_runtime::NodeId;
use sim_runtime::rng::Chance;
use sim_runtime::schedule::Schedule;

/// A family of configurations.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Everything is drawn anew for each seed: the better searcher.
    #[default]
    Swarm,
    /// Five servers, three closed-loop clients, two keys, six seconds of faults: the same for every seed, so that
    /// numbers can be compared.
    Reference,
}

impl Profile {
    const NAMES: [(&'static str, Self); 2] = [("swarm", Self::Swarm), ("reference", Self::Reference)];
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, profile)| profile == self);
        f.write_str(name.expect("every profile has a name").0)
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, profile)| *profile).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("no such profile; there are {}", names.join(", "))
        })
    }
}

/// The key that holds the `n`th register, from 1.
pub(super) fn register(n: u16) -> Key {
    Key(2 * u64::from(n) - 1)
}

/// The key that holds the `n`th list, from 1.
pub(super) fn list(n: u16) -> Key {
    Key(2 * u64::from(n))
}

/// The port on which servers listen.
const SERVER_PORT: u16 = 7_000;

/// Everything that a run is told beside its faults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which family it belongs to.
    pub profile: Profile,
    /// Raft servers: nodes 1 to this.
    pub servers: u16,
    /// Clients: the nodes after the servers.
    pub clients: u16,
    /// How servers and clients are connected.
    pub carrier: Carrier,
    /// For how long faults strike and clients work.
    pub faults_ms: u64,
    /// How many operations a lane of a client may carry out while there are faults; `None`: as many as it can.
    pub operations: Option<u64>,
    /// Operations that are left out: (client, lane, ordinal), clients and ordinals from 1, lanes from 0.
    pub skipped: BTreeSet<(u16, u16, u64)>,
    /// When clients begin to work. Without faults and load nothing much happens before: for shrinking.
    pub work_from_ms: u64,
    /// Whether the run goes on when faults are over: clients finish, servers catch up, and that they do is judged, as is
    /// whether everything is still there. Else it ends there.
    pub recovers: bool,
    /// Whether every client reads every key once more at the end.
    pub final_reads: bool,
    /// How many operations each client has outstanding, 1 or more; 1 for those that are not listed.
    pub outstanding: Vec<u16>,
    /// How many keys hold a register, 1 or more.
    pub registers: u16,
    /// How many keys hold a list, 1 or more.
    pub lists: u16,
    /// A client waits up to this long between two operations.
    pub think_max_us: u64,
    /// For how long a client waits for one server before it asks the next.
    pub attempt_timeout_ms: u64,
    /// For how long it waits where nobody knows of a leader.
    pub retry_pause_ms: u64,
    /// Whether a client goes on in its session after an operation without a known outcome, or opens another.
    pub sessions_outlive_unknowns: bool,
    /// After so long without an answer a client records the outcome as unknown and goes on in a new process.
    pub operation_timeout_ms: u64,
    /// The links.
    pub network: NetConfig,
    /// The disks.
    pub disk: DiskConfig,
    /// Disks that fail, a minority; they are repaired when faults are over.
    pub bad_disks: BTreeMap<NodeId, DiskConfig>,
    /// After so long a server that halted over a failed disk is started again, as an operator would; `None`: not before
    /// its disk is repaired.
    pub restart_halted_after_ms: Option<u64>,
    /// How much faster than the world's the clocks of the servers run, in parts per million; 0 for those that are not
    /// listed. Clients have true clocks.
    pub drift_ppm: BTreeMap<NodeId, i32>,
    /// What every server is told; its `id`, `servers` and `dir` are filled in.
    pub raft: RaftTimes,
    /// The defect in every server, if any.
    pub planted: Planted,
    /// Whether one more client carries out one operation, on a key that is nobody else's, at the beginning: to see what
    /// such an edit does to a pinned run.
    pub visitor: bool,
    /// Where conditions come from: fields, but for comparisons.
    pub chance: Chance,
    /// Which ready task runs next.
    pub schedule: Schedule,
    /// In how many (node, 2 ms) of a million wakes are held back by up to 50 µs.
    pub hold_per_million: u32,
    /// In how many (node, 2 ms) of a million they are held back for tens of milliseconds.
    pub long_hold_per_million: u32,
    /// Which faults there are, and how often.
    pub faults: PlanConfig,
}

/// The part of a server's configuration that is the same for all servers of a run.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is documented at raft_async::config::Config")]
pub struct RaftTimes {
    pub election_timeout_min_ms: u64,
    pub election_timeout_max_ms: u64,
    pub heartbeat_ms: u64,
    pub vote_retransmit_ms: u64,
    pub append_retransmit_ms: u64,
    pub max_entries_per_append: usize,
    pub max_inflight_appends: usize,
    pub segment_bytes: u64,
    pub step_down_after_ms: Option<u64>,
    pub apply_delay_us: u64,
    pub chatter_ms: Option<u64>,
}

impl Config {
    /// The reference profile: comparable with a well-known harness of this kind.
    pub fn reference() -> Self {
        let kinds = [
            (FaultKind::Kill, 20),
            (FaultKind::PowerOff, 30),
            (FaultKind::Pause, 10),
            (FaultKind::Partition, 20),
            (FaultKind::Isolate, 10),
            (FaultKind::CutLink, 10),
            (FaultKind::CutOneWay, 5),
        ];
        let window = |name: &str| Aim::Window(name.to_owned());
        let point = |name: &str| Aim::Point(name.to_owned());
        let faults = PlanConfig {
            kinds: kinds.into_iter().collect(),
            aims: vec![
                window("fsync in flight"),
                window("election in progress"),
                point("vote granted"),
                point("append sent"),
            ],
            roles: vec!["leader".to_owned()],
            lasts_max_us: 1_900_000,
            ..PlanConfig::none()
        };
        Self {
            profile: Profile::Reference,
            servers: 5,
            clients: 3,
            carrier: Carrier::Datagrams,
            faults_ms: 6_000,
            operations: None,
            skipped: BTreeSet::new(),
            work_from_ms: 0,
            recovers: true,
            final_reads: true,
            outstanding: Vec::new(),
            registers: 1,
            lists: 1,
            think_max_us: 12_000,
            attempt_timeout_ms: 120,
            retry_pause_ms: 20,
            sessions_outlive_unknowns: false,
            operation_timeout_ms: 1_000,
            network: NetConfig { slow_per_million: 0, ..NetConfig::default() },
            disk: DiskConfig::default(),
            bad_disks: BTreeMap::new(),
            restart_halted_after_ms: None,
            drift_ppm: BTreeMap::new(),
            raft: RaftTimes {
                segment_bytes: 8 * 1024,
                ..RaftTimes::of(&ServerConfig::new(ServerId(1), BTreeMap::new()))
            },
            planted: Planted::NONE,
            visitor: false,
            chance: Chance::Fields,
            schedule: Schedule::Field,
            hold_per_million: 50_000,
            long_hold_per_million: 100,
            faults: faults.for_nodes(5, 3),
        }
    }

    /// How long the cluster may take to recover once faults are over: twenty of the longest election timeouts, and
    /// as long as a slow disk and network may need to catch up. The fewer entries may be under way at a time, the
    /// longer that takes.
    pub fn grace(&self) -> Duration {
        let RaftTimes { election_timeout_max_ms, max_entries_per_append, max_inflight_appends, .. } =
            self.raft;
        let under_way = max_entries_per_append.saturating_mul(max_inflight_appends);
        let catch_up_s = 1 + 10 / under_way as u64;
        let stalls_ms = if self.disk.stall_per_million > 0 { 10 * self.disk.stall_max_ms } else { 0 };
        let slow_ms = if self.disk.slow_per_million > 0 { 2_000 } else { 0 };
        // A stream that was cut is tried again when its kernel thinks it time.
        let streams_ms = match self.carrier {
            Carrier::Datagrams => 0,
            Carrier::Streams => 3 * self.network.tcp.rto_max_ms.min(self.faults_ms) + 1_000,
        };
        let catch_up_ms = catch_up_s * 1_000 + stalls_ms + slow_ms + streams_ms;
        Duration::from_millis(20 * election_timeout_max_ms + catch_up_ms)
    }

    /// How many operations client `number` (from 1) has outstanding.
    pub fn lanes_of(&self, number: u16) -> u16 {
        self.outstanding.get(usize::from(number) - 1).copied().unwrap_or(1)
    }

    /// All keys.
    pub fn keys(&self) -> Vec<Key> {
        (1..=self.registers).map(register).chain((1..=self.lists).map(list)).collect()
    }

    /// The addresses of all servers.
    pub fn server_addresses(&self) -> BTreeMap<ServerId, SocketAddr> {
        self.server_nodes().map(|node| (ServerId(node.0), Self::server_address(node))).collect()
    }

    /// The servers' nodes.
    pub fn server_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (1..=self.servers).map(NodeId)
    }

    /// Where a server listens.
    pub fn server_address(node: NodeId) -> SocketAddr {
        SocketAddr::new(ip_of(node), SERVER_PORT)
    }

    /// What server `node` is told.
    pub fn server(&self, node: NodeId) -> ServerConfig {
        let RaftTimes {
            election_timeout_min_ms,
            election_timeout_max_ms,
            heartbeat_ms,
            vote_retransmit_ms,
            append_retransmit_ms,
            max_entries_per_append,
            max_inflight_appends,
            segment_bytes,
            step_down_after_ms,
            apply_delay_us,
            chatter_ms,
        } = self.raft;
        ServerConfig {
            election_timeout_min_ms,
            election_timeout_max_ms,
            heartbeat_ms,
            vote_retransmit_ms,
            append_retransmit_ms,
            max_entries_per_append,
            max_inflight_appends,
            segment_bytes,
            step_down_after_ms,
            apply_delay_us,
            chatter_ms,
            planted: self.planted,
            carrier: self.carrier,
            ..ServerConfig::new(ServerId(node.0), self.server_addresses())
        }
    }
}

impl RaftTimes {
    pub(super) fn of(server: &ServerConfig) -> Self {
        Self {
            election_timeout_min_ms: server.election_timeout_min_ms,
            election_timeout_max_ms: server.election_timeout_max_ms,
            heartbeat_ms: server.heartbeat_ms,
            vote_retransmit_ms: server.vote_retransmit_ms,
            append_retransmit_ms: server.append_retransmit_ms,
            max_entries_per_append: server.max_entries_per_append,
            max_inflight_appends: server.max_inflight_appends,
            segment_bytes: server.segment_bytes,
            step_down_after_ms: server.step_down_after_ms,
            apply_delay_us: server.apply_delay_us,
            chatter_ms: server.chatter_ms,
        }
    }
}
