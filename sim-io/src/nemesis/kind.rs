//! Kinds of faults: what is switched on and weighed, and under which names it is counted.
//!
//! Invariants: a kind that is on has all its counters from the beginning, so that 0 says "on, but never reached";
//! kinds are only ever appended, for their order decides what a seed means.
//! Not here: the faults themselves (`fault.rs`).

use serde::{Deserialize, Serialize};
use sim_runtime::rng::hash_name;
use sim_runtime::time;

#[cfg(doc)]
use super::fault::Fault;
use crate::fs::counters as fs;
use crate::net::counts as net;

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
    /// [`Fault::SlowLinks`].
    SlowLinks,
    /// [`Fault::LossBurst`].
    LossBurst,
    /// [`Fault::DuplicationBurst`].
    DuplicationBurst,
    /// [`Fault::Freeze`].
    Freeze,
    /// [`Fault::WallStep`].
    WallStep,
    /// [`Fault::Drift`].
    Drift,
    /// [`Fault::DiskStall`].
    DiskStall,
    /// [`Fault::SlowDisk`].
    SlowDisk,
    /// [`Fault::FsyncErrors`].
    FsyncErrors,
    /// [`Fault::IoErrors`].
    IoErrors,
    /// [`Fault::DiskFull`].
    DiskFull,
    /// [`Fault::BitRot`].
    BitRot,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Kill,
        Self::PowerOff,
        Self::Pause,
        Self::Partition,
        Self::Bridge,
        Self::Isolate,
        Self::CutLink,
        Self::CutOneWay,
        Self::SlowLinks,
        Self::LossBurst,
        Self::DuplicationBurst,
        Self::Freeze,
        Self::WallStep,
        Self::Drift,
        Self::DiskStall,
        Self::SlowDisk,
        Self::FsyncErrors,
        Self::IoErrors,
        Self::DiskFull,
        Self::BitRot,
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
            Self::SlowLinks => "slow_links",
            Self::LossBurst => "loss_burst",
            Self::DuplicationBurst => "duplication_burst",
            Self::Freeze => "freeze",
            Self::WallStep => "wall_step",
            Self::Drift => "drift",
            Self::DiskStall => "disk_stall",
            Self::SlowDisk => "slow_disk",
            Self::FsyncErrors => "fsync_errors",
            Self::IoErrors => "io_errors",
            Self::DiskFull => "disk_full",
            Self::BitRot => "bit_rot",
        }
    }

    /// The kind whose name has this hash.
    pub fn of_hash(hash: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| hash_name(kind.name()) == hash)
    }

    /// The names under which faults of this kind are counted when they begin.
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
            Self::SlowLinks => &["slow links"],
            Self::LossBurst => &["loss bursts"],
            Self::DuplicationBurst => &["duplication bursts"],
            Self::Freeze => &["machines frozen"],
            Self::WallStep => &["wall clocks stepped"],
            Self::Drift => &["clocks drifting"],
            Self::DiskStall => &["disks stalled"],
            Self::SlowDisk => &["disks slowed down"],
            Self::FsyncErrors => &["disks that fail fsyncs"],
            Self::IoErrors => &["disks that fail"],
            Self::DiskFull => &["disks filled up"],
            Self::BitRot => &["disks that rot"],
        }
    }

    /// The names under which devices count what a fault of this kind really did to somebody. One that begins while
    /// nobody sends, syncs or looks does nothing, which the count of its beginnings cannot show.
    pub const fn effects(self) -> &'static [&'static str] {
        match self {
            Self::Kill | Self::PowerOff | Self::Pause => &[],
            Self::Partition | Self::Bridge | Self::Isolate | Self::CutLink | Self::CutOneWay => &[],
            Self::SlowLinks => &[net::SLOWED],
            Self::LossBurst => &[net::BURST_LOST],
            Self::DuplicationBurst => &[net::BURST_DUPLICATED],
            Self::Freeze => &[net::FROZEN_HELD, net::FROZEN_LOST, fs::FROZEN],
            Self::WallStep => &[time::STEPPED],
            Self::Drift => &[time::DRIFTING],
            Self::DiskStall => &[fs::STALLED],
            Self::SlowDisk => &[fs::SLOW],
            Self::FsyncErrors => &[fs::FSYNC_ERRORS],
            Self::IoErrors => &[fs::IO_ERRORS],
            Self::DiskFull => &[fs::FULL],
            Self::BitRot => &[fs::ROTTEN],
        }
    }

    /// Whether faults of this kind go on beside others, in a sequence of their own; the rest share one.
    pub const fn has_own_sequence(self) -> bool {
        !matches!(
            self,
            Self::Kill
                | Self::PowerOff
                | Self::Pause
                | Self::Partition
                | Self::Bridge
                | Self::Isolate
                | Self::CutLink
                | Self::CutOneWay
        )
    }
}
