//! The swarm profile: every dimension of a configuration is drawn anew for each seed.
//!
//!   seed ──stream "swarm: NAME"──► one dimension ──► Config
//!                                                      └─ what would make no sense by itself is scaled: rates of
//!                                                         faults, heartbeats and patience to the election timeout,
//!                                                         the duration to the cost of a second
//!
//! Draws are heavy-tailed: mostly what is usual, now and then what is extreme, since what hides in one setting is
//! plain in another. What each feature is worth is measured (`mutants --ablation`), not assumed.
//!
//! Invariants: a dimension has a stream of its own, so one more moves none of the others; a cluster that is left alone
//! recovers within [`Config::grace`], whatever was drawn; a seed costs about as much as one of the reference profile.
//! Not here: which fault strikes when (sim-io's `Plan`, from what is drawn here).

use std::collections::{BTreeMap, BTreeSet};

use raft_async::Carrier;
use raft_async::mutant::Planted;
use sim_io::fs::DiskConfig;
use sim_io::nemesis::{Aim, FaultKind, PlanConfig};
use sim_io::net::{NetConfig, TcpConfig};
use sim_runtime::rng::{Chance, Stream};
use sim_runtime::schedule::Schedule;

use super::config::{Config, Profile, RaftTimes};
use super::features::{Feature, Without};

/// Which ready task runs next. One entry in eight is a seed in eight. The horizon is filled in.
const SCHEDULES: [Schedule; 8] = {
    const FIELD: Schedule = Schedule::Field;
    const fn pct(depth: u32) -> Schedule {
        Schedule::Pct { depth, horizon_ms: 0 }
    }
    [FIELD, FIELD, FIELD, FIELD, FIELD, pct(2), pct(5), Schedule::Fifo]
};

/// Kinds of faults that a seed may have: all that a correct server rides out. (Disks that fail are no kind of fault but a
/// dimension: some of them are bad in one seed of eight.) A new kind leaves the seeds without it as they are.
const FAULT_KINDS: [FaultKind; 16] = [
    FaultKind::Kill,
    FaultKind::PowerOff,
    FaultKind::Pause,
    FaultKind::Partition,
    FaultKind::Bridge,
    FaultKind::Isolate,
    FaultKind::CutLink,
    FaultKind::CutOneWay,
    FaultKind::SlowLinks,
    FaultKind::LossBurst,
    FaultKind::DuplicationBurst,
    FaultKind::Freeze,
    FaultKind::WallStep,
    FaultKind::Drift,
    FaultKind::DiskStall,
    FaultKind::SlowDisk,
];

/// Moments that faults may be aimed at.
const AIMED_WINDOWS: [&str; 5] = [
    "fsync in flight",
    "election in progress",
    "log segment being created",
    "log being cut",
    "log being recovered",
];
const AIMED_POINTS: [&str; 4] = ["vote granted", "append sent", "leader elected", "leader committed"];

/// What a pursuit is after, and with what besides isolation.
struct Pursuit {
    windows: &'static [&'static str],
    points: &'static [&'static str],
    kinds: &'static [FaultKind],
    /// Kinds that come in half of the seeds, and rarely.
    rare: &'static [FaultKind],
    /// Percents of the time between two faults.
    paces: &'static [u64],
}

/// What the life of a leader consists of.
const LEADERS: Pursuit = Pursuit {
    windows: &[],
    points: &["leader elected", "append sent", "leader committed"],
    kinds: &[
        FaultKind::Kill,
        FaultKind::PowerOff,
        FaultKind::Pause,
        FaultKind::Partition,
        FaultKind::DiskStall,
        FaultKind::SlowDisk,
    ],
    rare: &[],
    paces: &[40, 70, 100],
};

/// What an election consists of, and the end of the last one's leader, so that there is another.
const ELECTIONS: Pursuit = Pursuit {
    windows: &["election in progress"],
    points: &["vote granted", "leader elected"],
    kinds: &[
        FaultKind::Pause,
        FaultKind::CutLink,
        FaultKind::CutOneWay,
        FaultKind::Freeze,
        FaultKind::SlowLinks,
        FaultKind::LossBurst,
    ],
    // Whoever dies takes along what it knew of the election: one candidate less that could be wrong about it.
    rare: &[FaultKind::Kill, FaultKind::PowerOff],
    paces: &[70, 100, 200],
};

/// Windows that a pursuit looks out for beside that.
const ASIDE: [&str; 2] = ["log being cut", "fsync in flight"];

/// A run is cut so that it costs about so many messages by an estimate that leaves out retransmissions and elections:
/// those of a reference run in the average.
const MESSAGES: u64 = 2_800;

/// Whether some disks of `seed` fail, fill up or rot.
pub(super) fn has_bad_disks(seed: u64, without: Without) -> bool {
    !without.has(Feature::BadDisks) && Swarm { seed, without }.stream("bad disks").chance(125_000)
}

/// The configuration of `seed`.
pub(super) fn draw(seed: u64, without: Without) -> Config {
    let swarm = Swarm { seed, without };
    let servers = swarm.or(Feature::ThreeServers, 5, swarm.servers());
    let clients = swarm.pick("clients", &[1, 2, 3, 4, 5]);
    let mut raft = swarm.raft();
    let network = swarm.network(&raft);
    // Where timeouts differ by less than a request takes, every election ends in split votes (§5.2).
    raft.election_timeout_max_ms = raft
        .election_timeout_max_ms
        .max(raft.election_timeout_min_ms + 2 * network.latency_max_us.div_ceil(1_000));
    let outstanding: Vec<u16> = (1..=clients).map(|client| swarm.outstanding(client)).collect();
    let think_max_us = swarm.think_max_us(&raft, outstanding.iter().map(|lanes| u64::from(*lanes)).sum());
    let mut config = Config {
        profile: Profile::Swarm,
        servers,
        clients,
        carrier: swarm.pick("carrier", &[Carrier::Datagrams, Carrier::Datagrams, Carrier::Streams]),
        faults_ms: 0,
        operations: None,
        skipped: BTreeSet::new(),
        work_from_ms: 0,
        recovers: true,
        final_reads: true,
        outstanding,
        registers: swarm.pick("registers", &[1, 1, 1, 2, 4]),
        lists: swarm.pick("lists", &[1, 1, 1, 2, 4]),
        think_max_us: swarm.or(Feature::Load, 12_000, think_max_us),
        attempt_timeout_ms: percent(
            raft.election_timeout_min_ms,
            swarm.pick("attempt timeout", &[40, 80, 80, 160]),
        )
        .max(20),
        retry_pause_ms: percent(raft.election_timeout_min_ms, swarm.pick("retry pause", &[5, 13, 13, 40]))
            .max(3),
        sessions_outlive_unknowns: swarm.pick("sessions outlive unknowns", &[false, true]),
        operation_timeout_ms: percent(
            raft.election_timeout_min_ms,
            swarm.pick("operation timeout", &[300, 700, 700, 1_200]),
        )
        .max(250),
        disk: swarm.disk(&raft),
        bad_disks: BTreeMap::new(),
        restart_halted_after_ms: None,
        drift_ppm: BTreeMap::new(),
        raft,
        planted: Planted::NONE,
        visitor: false,
        chance: Chance::Fields,
        schedule: swarm.or(Feature::Schedules, Schedule::Field, swarm.pick("schedule", &SCHEDULES)),
        hold_per_million: swarm.or(
            Feature::Schedules,
            0,
            swarm.pick("held wakes", &[0, 50_000, 50_000, 200_000]),
        ),
        long_hold_per_million: swarm.or(
            Feature::Schedules,
            0,
            swarm.pick("long holds", &[0, 100, 100, 1_000]),
        ),
        faults: swarm.faults(&raft, &network),
        network,
    };
    // Every client is to do a few operations, too; in a pursuit it has the time.
    if config.carrier == Carrier::Streams {
        keep_streams_flowing(&mut config);
    }
    config.faults_ms = match swarm.chase() {
        Chase::Nobody => duration_ms(&config, MESSAGES, 60).max(12 * config.think_max_us / 1_000),
        Chase::Leaders => duration_ms(&config, MESSAGES, 180),
        // While candidates follow each other, hardly anybody sends heartbeats or serves clients.
        Chase::Elections => duration_ms(&config, 3 * MESSAGES, 360),
    };
    if let Schedule::Pct { horizon_ms, .. } = &mut config.schedule {
        *horizon_ms = config.faults_ms;
    }
    config
}

/// Draws of one seed.
struct Swarm {
    seed: u64,
    without: Without,
}

/// What the faults of a seed are after.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Chase {
    /// Anybody, now and then whoever is in a window or plays a role.
    Nobody,
    /// Whoever leads: just elected, just after an append left, just after a commit.
    Leaders,
    /// Whoever campaigns, and those that vote.
    Elections,
}

impl Swarm {
    /// `usual` where the feature is off.
    fn or<T>(&self, feature: Feature, usual: T, drawn: T) -> T {
        if self.without.has(feature) { usual } else { drawn }
    }

    /// Three in half of all seeds: the fewer there are, the fewer mishaps it takes. So more often where mishaps have to
    /// come in a row.
    fn servers(&self) -> u16 {
        match self.chase() {
            Chase::Nobody => self.pick("servers", &[3, 3, 5, 5, 7]),
            Chase::Leaders => self.pick("servers in a pursuit", &[3, 3, 3, 5, 7]),
            Chase::Elections => self.pick("servers in a pursuit", &[3, 3, 3, 3, 3, 5, 7]),
        }
    }

    fn chase(&self) -> Chase {
        use Chase::{Elections, Leaders, Nobody};
        let drawn = self.pick(
            "chase",
            &[Nobody, Nobody, Nobody, Leaders, Leaders, Leaders, Elections, Elections, Elections, Elections],
        );
        self.or(Feature::Pursuit, Nobody, drawn)
    }

    fn stream(&self, dimension: &str) -> Stream {
        Stream::derive(self.seed, &format!("swarm: {dimension}"))
    }

    fn pick<T: Copy>(&self, dimension: &str, choices: &[T]) -> T {
        *self.stream(dimension).pick(choices)
    }

    /// Heavy-tailed: every doubling from `least` to `most` is as likely as the next.
    fn doubling(&self, dimension: &str, least: u64, most: u64) -> u64 {
        let mut stream = self.stream(dimension);
        let low = least << stream.below(u64::from((most / least).max(1).ilog2()) + 1);
        stream.range(low.min(most), (low * 2).min(most))
    }

    /// A sixteenth of `most` to all of it, heavy-tailed, in most seeds; in the others next to nothing. What takes long in
    /// proportion to an election is what elections, crashes and cuts come in between.
    fn within(&self, dimension: &str, most: u64) -> u64 {
        if self.without.has(Feature::Proportion) {
            return self.doubling(dimension, 100, 4_000).min(most);
        }
        if self.stream(&format!("{dimension}: little")).chance(200_000) {
            (most / 64).max(100)
        } else {
            self.doubling(dimension, most / 16, most)
        }
    }

    fn raft(&self) -> RaftTimes {
        // Short ones are the better half: more elections for the same work.
        let least_ms = self.pick("election timeout", &[30, 30, 30, 60, 60, 60, 120, 240]);
        let drawn_ms = self.stream("election timeout within").range(least_ms, least_ms * 2);
        let election_timeout_min_ms = self.or(Feature::ShortTimeouts, 150, drawn_ms);
        let spread = match self.chase() {
            Chase::Elections => self.pick("spread in a pursuit", &[125, 135, 150, 200]),
            _ => self.pick("election timeout spread", &[150, 150, 200, 200, 200, 300]),
        };
        let election_timeout_max_ms = percent(election_timeout_min_ms, spread);
        let of_timeout = |percents| percent(election_timeout_min_ms, percents);
        let patience = self.stream("step down").range(100, 400);
        RaftTimes {
            election_timeout_min_ms,
            election_timeout_max_ms,
            heartbeat_ms: of_timeout(self.pick("heartbeat", &[33, 33, 25, 15])),
            vote_retransmit_ms: of_timeout(self.pick("vote retransmission", &[15, 27, 27, 60])).max(5),
            append_retransmit_ms: of_timeout(self.pick("append retransmission", &[10, 20, 20, 50])).max(5),
            max_entries_per_append: self.or(
                Feature::SmallAppends,
                64,
                self.pick("entries per append", &[1, 1, 2, 2, 8, 64]),
            ),
            max_inflight_appends: self.pick("appends in flight", &[1, 1, 2, 4, 8, 16]),
            segment_bytes: self.or(
                Feature::SmallSegments,
                8 * 1024,
                self.doubling("segment", 128, 64 * 1024),
            ),
            step_down_after_ms: self
                .pick("steps down", &[true, true, true, true, true, true, true, false])
                .then(|| percent(election_timeout_max_ms, patience)),
            chatter_ms: None,
            apply_delay_us: if self.stream("delayed apply").chance(400_000)
                && !self.without.has(Feature::DelayedApply)
            {
                self.doubling("apply delay", 100, 16_000).min(election_timeout_min_ms * 250)
            } else {
                0
            },
        }
    }

    fn outstanding(&self, client: u16) -> u16 {
        let dimension = format!("outstanding of client {client}");
        if self.stream(&format!("{dimension}: several")).chance(350_000) {
            self.doubling(&dimension, 2, 8) as u16
        } else {
            1
        }
    }

    /// From saturated to idle. Where faults are after leaders and elections, clients hold back: what happens then
    /// happens between elections, and a run may have the more of them for the same work.
    fn think_max_us(&self, raft: &RaftTimes, lanes: u64) -> u64 {
        if self.chase() != Chase::Nobody {
            let timeout_us = raft.election_timeout_min_ms * 1_000;
            let think_us =
                percent(timeout_us, self.pick("think time in a pursuit", &[30, 100, 100, 300])) * lanes;
            // Whoever thinks for longer than it takes a cluster to recover would be taken for one that is not served.
            return think_us.min(5 * timeout_us);
        }
        if self.stream("saturated").chance(200_000) { 0 } else { self.doubling("think time", 500, 250_000) }
    }

    fn network(&self, raft: &RaftTimes) -> NetConfig {
        // Without "broadcastTime << electionTimeout" (§5.6) nobody could promise anything.
        let most_us = raft.election_timeout_min_ms * 40;
        let latency_min_us = if self.chase() == Chase::Elections && !self.without.has(Feature::Proportion) {
            // Campaigns overlap where a vote takes long on its way.
            self.stream("latency in a pursuit").range(most_us / 2, most_us)
        } else {
            self.within("latency", most_us)
        };
        let spread = self.pick("latency spread", &[100, 300, 300, 500]);
        // Some messages outlive the election that they belong to.
        let (tails, tail_factors): (&[u32], &[u64]) = if self.chase() == Chase::Elections {
            (&[50_000, 150_000, 150_000], &[3, 5, 10])
        } else {
            (&[0, 10_000, 10_000, 50_000], &[5, 10, 20])
        };
        NetConfig {
            latency_min_us,
            latency_max_us: percent(latency_min_us, spread),
            tail_per_million: self.pick("latency tail", tails),
            tail_factor: self.pick("latency tail factor", tail_factors),
            loss_per_million: self.pick("loss", &[0, 5_000, 5_000, 20_000, 80_000]),
            duplicate_per_million: self.pick("duplication", &[0, 5_000, 5_000, 50_000, 300_000]),
            reorder_per_million: self.pick("reordering", &[0, 10_000, 10_000, 50_000, 200_000]),
            reorder_extra_max_us: self.or(
                Feature::Proportion,
                5_000,
                percent(
                    raft.election_timeout_min_ms * 1_000,
                    self.pick("reordering delay", &[3, 15, 15, 80]),
                ),
            ),
            slow_per_million: self.pick("slow links", &[0, 0, 2_000, 20_000]),
            tcp: self.tcp(raft),
            ..NetConfig::default()
        }
    }

    /// Kernels that suit the election timeout: one that notices a loss after 200 ms keeps no leader whose followers
    /// wait for 30.
    fn tcp(&self, raft: &RaftTimes) -> TcpConfig {
        let of_timeout = |percents| percent(raft.election_timeout_min_ms, percents);
        let rto_min_ms = of_timeout(self.pick("retransmission timeout", &[10, 20, 20, 50])).clamp(3, 200);
        TcpConfig {
            rto_min_ms,
            rto_max_ms: rto_min_ms * self.pick("longest retransmission timeout", &[4, 16, 64]),
            syn_retry_ms: rto_min_ms * 5,
            send_buffer_bytes: self.pick("send buffer", &[2_048, 16_384, 65_536]),
            receive_buffer_bytes: self.pick("receive buffer", &[2_048, 16_384, 65_536]),
            partial_read_per_million: self.pick("partial reads", &[0, 50_000, 500_000]),
            partial_write_per_million: self.pick("partial writes", &[0, 50_000, 500_000]),
            reset_destroys_unread_per_million: 500_000,
            kill_resets_per_million: 500_000,
            ..TcpConfig::calm()
        }
    }

    fn disk(&self, raft: &RaftTimes) -> DiskConfig {
        let fsync_min_us = self.within("fsync", raft.election_timeout_min_ms * 50);
        DiskConfig {
            fsync_min_us,
            fsync_max_us: percent(fsync_min_us, self.pick("fsync spread", &[150, 300, 300, 500])),
            stall_per_million: self.or(
                Feature::Stalls,
                0,
                self.pick("disk stalls", &[0, 0, 0, 2_000, 20_000]),
            ),
            stall_max_ms: self.pick("disk stall", &[50, 200]),
            slow_per_million: self.or(Feature::Stalls, 0, self.pick("slow disks", &[0, 0, 0, 20_000])),
            slow_factor_max: self.pick("slow disk factor", &[4, 8]),
            ..DiskConfig::default()
        }
    }

    fn faults(&self, raft: &RaftTimes, network: &NetConfig) -> PlanConfig {
        let mut faults = match self.chase() {
            Chase::Nobody => self.weather(raft),
            Chase::Leaders => self.pursuit(raft, &LEADERS),
            Chase::Elections => self.pursuit(raft, &ELECTIONS),
        };
        faults.behind_point_us =
            percent(network.latency_max_us, self.pick("behind points", &[50, 100, 200])).max(200);
        if self.without.has(Feature::Aims) {
            faults.aimed_per_million = 0;
            faults.roles.clear();
        }
        let is_off = |kind: FaultKind| match kind {
            FaultKind::PowerOff => self.without.has(Feature::PowerLoss),
            FaultKind::DiskStall | FaultKind::SlowDisk => self.without.has(Feature::Stalls),
            _ => false,
        };
        faults.kinds.retain(|kind, _| !is_off(*kind));
        faults
    }

    fn weather(&self, raft: &RaftTimes) -> PlanConfig {
        let timeout_ms = raft.election_timeout_min_ms;
        let pace = self.pick("fault rate", &[15, 30, 60, 60, 100, 200]);
        let is_aim = |name: &str| self.stream(&format!("aim: {name}")).chance(500_000);
        let windows = AIMED_WINDOWS.into_iter().filter(|name| is_aim(name));
        let points = AIMED_POINTS.into_iter().filter(|name| is_aim(name));
        let aims = windows.map(|name| Aim::Window(name.to_owned()));
        PlanConfig {
            first_ms: timeout_ms * 2,
            every_min_ms: percent(percent(timeout_ms, 50), pace).max(5),
            every_max_ms: percent(percent(timeout_ms, 270), pace).max(10),
            kinds: self.fault_kinds(),
            lasts_max_us: 1_000 * percent(timeout_ms, self.pick("longest fault", &[300, 1_300, 1_300])),
            aims: aims.chain(points.map(|name| Aim::Point(name.to_owned()))).collect(),
            aimed_per_million: self.pick("aimed faults", &[0, 300_000, 300_000, 800_000]),
            roles: if self.pick("leaders hit", &[true, true, true, false]) {
                vec!["leader".to_owned()]
            } else {
                Vec::new()
            },
            ..PlanConfig::none()
        }
    }

    /// Each fault waits for its moment and takes a server away, or slows it down, for about an election: leaders follow
    /// each other, each with a tail of its own, and campaigns overlap.
    fn pursuit(&self, raft: &RaftTimes, pursuit: &Pursuit) -> PlanConfig {
        let timeout_ms = raft.election_timeout_min_ms;
        let pace = self.pick("pace of the pursuit", pursuit.paces);
        let weight = |kind: FaultKind, weights: &[u32]| {
            let unit = if kind.has_own_sequence() { 25 } else { 1 };
            (kind, unit * self.pick(&format!("pursuit by {}", kind.name()), weights))
        };
        let usual = pursuit.kinds.iter().map(|kind| weight(*kind, &[0, 1, 4]));
        let rare = pursuit.rare.iter().map(|kind| weight(*kind, &[0, 1]));
        let kinds = usual.chain(rare).filter(|(_, weight)| *weight > 0);
        let now_and_then = |name: &&&str| self.stream(&format!("pursuit aim: {name}")).chance(400_000);
        let windows = pursuit.windows.iter().chain(ASIDE.iter().filter(now_and_then));
        let aims = windows.map(|name| Aim::Window((*name).to_owned()));
        PlanConfig {
            first_ms: timeout_ms * 2,
            every_min_ms: percent(percent(timeout_ms, 30), pace).max(5),
            every_max_ms: percent(percent(timeout_ms, 150), pace).max(10),
            kinds: kinds.chain([(FaultKind::Isolate, 4)]).collect(),
            // What cuts links lasts twenty times as long at least.
            lasts_min_us: percent(timeout_ms * 1_000, 3),
            lasts_max_us: 1_000 * percent(timeout_ms, self.pick("longest in the pursuit", &[200, 300, 500])),
            aims: aims.chain(pursuit.points.iter().map(|name| Aim::Point((*name).to_owned()))).collect(),
            aimed_per_million: 900_000,
            roles: vec!["leader".to_owned()],
            ..PlanConfig::none()
        }
    }

    /// One kind, all kinds, or some, with weights from 1 to 16; those that go on beside the others with 6 to 96 % of
    /// their rate.
    fn fault_kinds(&self) -> BTreeMap<FaultKind, u32> {
        let lot =
            |kind: &FaultKind| self.stream(&format!("fault kind {}", kind.name())).range(0, u64::MAX - 1);
        let only = FAULT_KINDS.into_iter().max_by_key(lot).expect("there are kinds of faults");
        let breadth = self.stream("breadth of faults").below(8);
        let is_on = |kind: &FaultKind| match breadth {
            0 => *kind == only,
            1..4 => true,
            _ => *kind == only || lot(kind) % 2 == 0,
        };
        let weight = |kind: FaultKind| {
            let least = if kind.has_own_sequence() { 6 } else { 1 };
            least << self.stream(&format!("weight of {}", kind.name())).below(5)
        };
        FAULT_KINDS.into_iter().filter(is_on).map(|kind| (kind, weight(kind))).collect()
    }
}

/// A datagram that is late is late by itself; on a stream all that follows waits for it. What a link does to single messages
/// must stay well below an election timeout there, or no leader is ever heard in time.
fn keep_streams_flowing(config: &mut Config) {
    let bearable_us = config.raft.election_timeout_min_ms * 1_000 / 4;
    let network = &mut config.network;
    let slowest_us = network.latency_max_us.max(1);
    network.tail_factor = network.tail_factor.min(bearable_us / slowest_us).max(1);
    network.reorder_extra_max_us = network.reorder_extra_max_us.min(bearable_us);
    if slowest_us * network.slow_factor > bearable_us {
        network.slow_per_million = 0;
    }
}

fn percent(of: u64, percents: u64) -> u64 {
    of * percents / 100
}

/// So long that a run costs about so many messages, but no longer than so many election timeouts and no shorter than
/// 12.
fn duration_ms(config: &Config, most_messages: u64, most_timeouts: u64) -> u64 {
    let timeout_ms = config.raft.election_timeout_min_ms;
    let servers = u64::from(config.servers);
    let lanes: u64 = (1..=config.clients).map(|client| u64::from(config.lanes_of(client))).sum();
    let heartbeats = 2 * (servers - 1) * 1_000 / config.raft.heartbeat_ms;
    // A third of the time there is a leader and a majority to serve.
    let operation_us =
        config.think_max_us / 2 + 3 * config.disk.fsync_max_us + 4 * config.network.latency_max_us;
    let operations = lanes * 1_000_000 / 3 / operation_us;
    let messages = heartbeats + operations * 2 * servers;
    let affordable_ms = most_messages * 1_000 / messages.max(1);
    affordable_ms.clamp(12 * timeout_ms, most_timeouts * timeout_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: u64 = 4_000;

    fn draw(seed: u64) -> Config {
        super::draw(seed, Without::default())
    }

    fn share(is: impl Fn(&Config) -> bool) -> u64 {
        (1..=SEEDS).filter(|seed| is(&draw(*seed))).count() as u64 * 100 / SEEDS
    }

    #[test]
    fn a_configuration_is_a_function_of_its_seed() {
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn most_clusters_have_three_servers_and_many_have_more() {
        assert!((52..=64).contains(&share(|c| c.servers == 3)));
        assert!(share(|c| c.servers == 5) > 20 && share(|c| c.servers == 7) > 15);
    }

    #[test]
    fn every_kind_of_fault_is_alone_now_and_then_and_all_are_together_in_a_tenth() {
        for kind in FAULT_KINDS {
            assert!((1..=SEEDS).any(|seed| draw(seed).faults.kinds.keys().eq([&kind])), "{kind:?} alone");
        }
        assert!((8..=18).contains(&share(|c| c.faults.kinds.len() == FAULT_KINDS.len())));
        assert_eq!(share(|c| c.faults.kinds.is_empty()), 0);
    }

    #[test]
    fn the_extremes_are_drawn() {
        for (what, least) in [
            (share(|c| c.raft.election_timeout_min_ms < 60), 20),
            (share(|c| c.raft.election_timeout_min_ms >= 150), 20),
            (share(|c| c.raft.max_entries_per_append == 1), 20),
            (share(|c| c.raft.segment_bytes <= 1_024), 10),
            (share(|c| c.raft.segment_bytes >= 32 * 1_024), 10),
            (share(|c| c.raft.apply_delay_us > 0), 35),
            (share(|c| c.raft.step_down_after_ms.is_none()), 10),
            (share(|c| c.think_max_us == 0), 5),
            (share(|c| c.think_max_us > 100_000), 5),
            (share(|c| c.outstanding.iter().any(|lanes| *lanes > 1)), 50),
            (share(|c| c.schedule == Schedule::Fifo), 10),
            (share(|c| matches!(c.schedule, Schedule::Pct { .. })), 20),
            (share(|c| c.carrier == Carrier::Streams), 30),
        ] {
            assert!(what >= least, "{what} % of the seeds, not {least}");
        }
    }

    #[test]
    fn what_is_drawn_fits_together() {
        for seed in 1..=SEEDS {
            let config = draw(seed);
            let RaftTimes { election_timeout_min_ms: min, election_timeout_max_ms: max, .. } = config.raft;
            assert!(min >= 30 && max > min, "seed {seed}: election timeouts from {min} to {max} ms");
            assert!(config.raft.heartbeat_ms * 3 <= min, "seed {seed}: a heartbeat too rare");
            assert!(config.network.latency_max_us * 4 < min * 1_000, "seed {seed}: too slow a network");
            assert!(config.disk.fsync_max_us * 4 <= min * 1_000, "seed {seed}: too slow a disk");
            assert!((12 * min..=180 * min).contains(&config.faults_ms) || config.think_max_us > 1_000);
            assert!(!config.faults.kinds.is_empty() && config.faults.behind_point_us > 0, "seed {seed}");
            assert!(
                config.faults.every_min_ms > 0 && config.faults.every_max_ms >= config.faults.every_min_ms
            );
        }
    }
}
