//! Faults as values: what goes wrong, when, to whom, and for how long.
//!
//!   PlannedFault { id, when, what, lasts_us }
//!                      │     └─ Fault: kill, power off, pause, partition, isolate, cut
//!                      └─ When: at a time, in a window, after a point, when a role is played
//!
//! Invariants: a value says everything; units end names; unknown fields are refused when a file is read.
//! Not here: choosing (`plan.rs`), doing (`driver.rs`).

use serde::{Deserialize, Serialize};
use sim_runtime::NodeId;
use sim_runtime::rng::hash_name;

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
    /// How long it lasts: nodes are down or paused, links are cut.
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
}

/// Kinds of faults, to be switched on and weighed.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// [`Fault::Kill`].
    Kill,
    /// [`Fault::PowerOff`].
    PowerOff,
    /// [`Fault::Pause`].
    Pause,
    /// [`Fault::Partition`] without a bridge.
    Partition,
    /// [`Fault::Partition`] with a node on two sides.
    Bridge,
    /// [`Fault::Isolate`].
    Isolate,
    /// [`Fault::CutLink`].
    CutLink,
    /// [`Fault::CutOneWay`].
    CutOneWay,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Kill,
        Self::PowerOff,
        Self::Pause,
        Self::Partition,
        Self::Bridge,
        Self::Isolate,
        Self::CutLink,
        Self::CutOneWay,
    ];

    /// Its name in files; its hash is in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerOff => "power_off",
            Self::Pause => "pause",
            Self::Partition => "partition",
            Self::Bridge => "bridge",
            Self::Isolate => "isolate",
            Self::CutLink => "cut_link",
            Self::CutOneWay => "cut_one_way",
        }
    }

    /// The kind whose name has this hash.
    pub fn of_hash(hash: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| hash_name(kind.name()) == hash)
    }

    /// The names under which faults of this kind are counted when they really happen.
    pub const fn counters(self) -> &'static [&'static str] {
        match self {
            Self::Kill => &["crashes: one", "crashes: several", "crashes: all"],
            Self::PowerOff => &["power losses: one", "power losses: several", "power losses: all"],
            Self::Pause => &["pauses"],
            Self::Partition => &["partitions"],
            Self::Bridge => &["partitions with a bridge"],
            Self::Isolate => &["isolations"],
            Self::CutLink => &["links cut"],
            Self::CutOneWay => &["links cut one way"],
        }
    }
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
}
