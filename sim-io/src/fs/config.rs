//! What the disks of a run are like: durations, stalls, and the faults that are off by default.
//!
//! Invariants: a configuration is a value, derived before the run; the default is the reference profile
//! (fsync 2-6 ms, no stalls, an honest disk that neither fails nor fills up).
//! Not here: when each of them strikes (fields, read in `flights.rs`, `power.rs` and `crash.rs`).

use serde::{Deserialize, Serialize};
use sim_runtime::rng::Field;

/// How long an fsync takes, by (disk, bucket).
pub(super) const FSYNC: Field = Field::new("fsync duration");
/// Whether an fsync that begins now stalls, by (disk, bucket).
pub(super) const STALL: Field = Field::new("disk stall");
/// Whether a disk is slow for a while, by (disk, bucket of half a second).
pub(super) const SLOW: Field = Field::new("disk slow").with_bucket(500_000_000);
/// Whether an fsync that begins now fails, by (disk, bucket).
pub(super) const FSYNC_ERROR: Field = Field::new("fsync error");
/// Whether reads and writes of a file fail now, by (disk and file, bucket); for calls on names the file is 0.
pub(super) const IO_ERROR: Field = Field::new("disk io error");
/// What a power loss makes of a file and its sectors, by (fault, disk, file, sector).
pub(super) const FATE: Field = Field::new("crash fate");
/// Whether a power loss keeps a change of a name, by (fault, disk, folder, name).
pub(super) const NAME_FATE: Field = Field::new("name fate");
/// Whether a durable sector rots, by (fault, disk, file, sector).
pub(super) const ROT: Field = Field::new("bit rot");

/// What the disks of a run, or one of them, are like. Chances are per million.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskConfig {
    /// An fsync takes at least this long.
    pub fsync_min_us: u64,
    /// And at most this long, stalls and slow times apart.
    pub fsync_max_us: u64,
    /// In how many buckets of 2 ms an fsync that begins there stalls.
    pub stall_per_million: u32,
    /// A stall takes at least this long, on top.
    pub stall_min_ms: u64,
    /// And at most this long.
    pub stall_max_ms: u64,
    /// In how many half seconds the disk is slow.
    pub slow_per_million: u32,
    /// A slow disk takes 2 to this many times as long.
    pub slow_factor_max: u64,
    /// An fsync reports success and makes nothing durable: the boundary of what code can be blamed for.
    pub lying_fsync: bool,
    /// In how many buckets an fsync that begins there fails.
    pub fsync_error_per_million: u32,
    /// In how many buckets reads and writes of a file fail with EIO; each file has buckets of its own.
    pub io_error_per_million: u32,
    /// Bytes that fit on the disk; a write that would exceed them fails with ENOSPC.
    pub capacity_bytes: Option<u64>,
    /// How many durable sectors have a bit flipped at each power loss.
    pub bit_rot_per_million: u32,
    /// Sectors that the latest fsync of their file made durable do not rot. No format that writes once can tell
    /// damage there from a write that a crash tore.
    pub bit_rot_spares_latest: bool,
}

impl Default for DiskConfig {
    fn default() -> Self {
        Self {
            fsync_min_us: 2_000,
            fsync_max_us: 6_000,
            stall_per_million: 0,
            stall_min_ms: 20,
            stall_max_ms: 200,
            slow_per_million: 0,
            slow_factor_max: 8,
            lying_fsync: false,
            fsync_error_per_million: 0,
            io_error_per_million: 0,
            capacity_bytes: None,
            bit_rot_per_million: 0,
            bit_rot_spares_latest: false,
        }
    }
}
