//! Faults as values: what goes wrong, when, to whom, and for how long.
//!
//!   PlannedFault { id, when, what, lasts_us }
//!                      │     └─ Fault: kill, power off, pause, freeze; partition, isolate, cut, slow, lossy links;
//!                      │               clocks that jump and drift; disks that stall, slow down, fail, fill up, rot
//!                      └─ When: at a time, in a window, after a point, when a role is played
//!
//! Invariants: a value says everything; units end names; unknown fields are refused when a file is read.
//! Not here: kinds and how they are counted (`kind.rs`), choosing (`plan.rs`), doing (`driver.rs`).

use serde::{Deserialize, Serialize};
use sim_runtime::NodeId;

use super::kind::FaultKind;

/// A fault with its place in a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// Names it in records and seeds what it does to disks. It keeps its id when others are taken out.
    pub id: u32,
    /// When it begins.
    pub when: When,
    /// What happens.
    pub what: Fault,
    /// How long it lasts: then nodes come back, links and disks are what they were, clocks run true.
    pub lasts_us: u64,
}

/// When a fault begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// At this global virtual time.
    At {
        /// The time.
        at_ns: u64,
    },
    /// In the first window of that name that opens after `after_ns`.
    Window {
        /// The window's name.
        name: String,
        /// On which node; on any when absent.
        node: Option<NodeId>,
        /// From when on to look out.
        after_ns: u64,
        /// How far into the window, where it is known how long it will be open; else at its beginning.
        fraction_per_mille: u32,
    },
    /// After the first point of that name that comes after `after_ns`.
    Point {
        /// The point's name.
        name: String,
        /// From when on to look out.
        after_ns: u64,
        /// How long after the point.
        delay_us: u64,
    },
    /// As soon after `after_ns` as a node plays the role (looked for every 5 ms).
    Role {
        /// The role.
        role: String,
        /// From when on to look out.
        after_ns: u64,
    },
}

/// To whom a fault happens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// These nodes.
    Nodes(Vec<NodeId>),
    /// The node that took this role last and still plays it when the fault begins; nobody if there is none.
    Role(String),
    /// The node where the window opened, the point was passed or the role is played.
    Hit,
    /// All servers.
    AllServers,
}

/// Which links, each in one direction, a fault is about. The host's are left alone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Links {
    /// All to and from these nodes.
    Of(Target),
    /// Those between the two, both ways.
    Between {
        /// One end.
        one: Target,
        /// The other.
        other: Target,
    },
    /// From the one to the other.
    OneWay {
        /// From whom.
        from: Target,
        /// To whom.
        to: Target,
    },
}

/// What goes wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// The processes die at one instant and are started again later; what they wrote is in the page cache.
    Kill {
        /// Whose.
        target: Target,
    },
    /// The power of all fails at one instant and comes back later; what was not synced is at risk.
    PowerOff {
        /// Whose.
        target: Target,
    },
    /// The processes stop, and go on later; their kernels still take datagrams.
    Pause {
        /// Whose.
        target: Target,
    },
    /// Nodes hear only those with whom they share a side; who is on none is alone. A node on two sides is a
    /// bridge. Clients are on a side too. The host hears and is heard by all.
    Partition {
        /// The sides.
        sides: Vec<Vec<NodeId>>,
    },
    /// The nodes hear nobody and are not heard.
    Isolate {
        /// Who.
        target: Target,
    },
    /// No message passes between the two, either way.
    CutLink {
        /// One end.
        one: Target,
        /// The other.
        other: Target,
    },
    /// No message passes from the one to the other; the way back is open.
    CutOneWay {
        /// Who is not heard.
        from: Target,
        /// By whom.
        to: Target,
    },
    /// Messages take longer on these links.
    SlowLinks {
        /// Which.
        links: Links,
        /// Latency is multiplied by this.
        factor: u32,
    },
    /// Messages are lost on these links.
    LossBurst {
        /// Which.
        links: Links,
        /// In how many (link, bucket) of a million.
        per_million: u32,
    },
    /// Messages arrive twice on these links.
    DuplicationBurst {
        /// Which.
        links: Links,
        /// In how many (link, bucket) of a million.
        per_million: u32,
    },
    /// The machines stand still as a whole, as when a hypervisor pauses them: nothing is taken or acknowledged,
    /// syncs do not get on, timers are late. What arrives waits in the network card, or is lost when that is full.
    Freeze {
        /// Whose.
        target: Target,
    },
    /// The wall clocks jump, and back at the end. `Instant`s do not.
    WallStep {
        /// Whose.
        target: Target,
        /// Forward, or back when negative.
        ahead_ms: i64,
    },
    /// The clocks run at another rate, `Instant`s too.
    Drift {
        /// Whose.
        target: Target,
        /// How much faster than global time, in parts per million; above -1,000,000.
        ppm: i32,
    },
    /// The disks finish no sync.
    DiskStall {
        /// Whose.
        target: Target,
    },
    /// The disks take longer for a sync.
    SlowDisk {
        /// Whose.
        target: Target,
        /// 2 to this many times as long, by half seconds.
        factor: u32,
    },
    /// Syncs fail, and what they covered is reported clean to the next ones.
    FsyncErrors {
        /// Whose.
        target: Target,
        /// In how many (disk, bucket) of a million.
        per_million: u32,
    },
    /// Whatever is asked of the disks fails with EIO.
    IoErrors {
        /// Whose.
        target: Target,
        /// In how many (disk, bucket) of a million.
        per_million: u32,
    },
    /// The disks are full: ENOSPC.
    DiskFull {
        /// Whose.
        target: Target,
        /// So much still fits.
        room_bytes: u64,
    },
    /// Durable bits of the disks flip when their power fails meanwhile.
    BitRot {
        /// Whose.
        target: Target,
        /// In how many sectors of a million.
        per_million: u32,
    },
}

impl Fault {
    /// Its kind.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Kill { .. } => FaultKind::Kill,
            Self::PowerOff { .. } => FaultKind::PowerOff,
            Self::Pause { .. } => FaultKind::Pause,
            Self::Partition { sides } => {
                let on_sides = |node: &NodeId| sides.iter().filter(|side| side.contains(node)).count();
                let is_bridged = sides.iter().flatten().any(|node| on_sides(node) > 1);
                if is_bridged { FaultKind::Bridge } else { FaultKind::Partition }
            }
            Self::Isolate { .. } => FaultKind::Isolate,
            Self::CutLink { .. } => FaultKind::CutLink,
            Self::CutOneWay { .. } => FaultKind::CutOneWay,
            Self::SlowLinks { .. } => FaultKind::SlowLinks,
            Self::LossBurst { .. } => FaultKind::LossBurst,
            Self::DuplicationBurst { .. } => FaultKind::DuplicationBurst,
            Self::Freeze { .. } => FaultKind::Freeze,
            Self::WallStep { .. } => FaultKind::WallStep,
            Self::Drift { .. } => FaultKind::Drift,
            Self::DiskStall { .. } => FaultKind::DiskStall,
            Self::SlowDisk { .. } => FaultKind::SlowDisk,
            Self::FsyncErrors { .. } => FaultKind::FsyncErrors,
            Self::IoErrors { .. } => FaultKind::IoErrors,
            Self::DiskFull { .. } => FaultKind::DiskFull,
            Self::BitRot { .. } => FaultKind::BitRot,
        }
    }
}

impl When {
    /// Whether it waits for something that may never come.
    pub fn is_aimed(&self) -> bool {
        !matches!(self, Self::At { .. })
    }

    /// The earliest time at which it may begin.
    pub fn earliest_ns(&self) -> u64 {
        match self {
            Self::At { at_ns } => *at_ns,
            Self::Window { after_ns, .. } | Self::Point { after_ns, .. } | Self::Role { after_ns, .. } => {
                *after_ns
            }
        }
    }

    /// The same by so much later, or earlier when negative; not before the beginning.
    pub fn moved(&self, by_ns: i64) -> Self {
        let mut moved = self.clone();
        match &mut moved {
            Self::At { at_ns: from_ns }
            | Self::Window { after_ns: from_ns, .. }
            | Self::Point { after_ns: from_ns, .. }
            | Self::Role { after_ns: from_ns, .. } => *from_ns = from_ns.saturating_add_signed(by_ns),
        }
        moved
    }
}
