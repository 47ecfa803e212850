//! What really happened to the disks of a run, for its coverage table.
//!
//! Invariants: counted where it happens, never where it is asked for; a kind that is on and never happened is
//! reported as 0, and one that is off not at all, so that the two are told apart.

use sim_runtime::device::Coverage;

use super::config::DiskConfig;

/// Declares the counters with the names that reports show.
macro_rules! counters {
    ($($field:ident = $name:tt $(if $is_on:expr)?),* $(,)?) => {
        /// Counters of one run.
        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $field: u64),* }

        impl Counters {
            /// Reports what `config` switches on, and whatever else has happened.
            pub(super) fn report(&self, config: &DiskConfig, into: &mut Coverage) {
                $(
                    let is_on = true $(&& ($is_on)(config))?;
                    if is_on || self.$field > 0 {
                        into.add($name, self.$field);
                    }
                )*
            }
        }
    };
}

/// Counters of what faults do; the nemesis declares those of the faults that are on.
pub(crate) const SLOW: &str = "fsyncs on a slow disk";
pub(crate) const STALLED: &str = "fsyncs held by a stalled disk";
pub(crate) const FROZEN: &str = "fsyncs held by a frozen machine";
pub(crate) const FSYNC_ERRORS: &str = "fsyncs failed";
pub(crate) const IO_ERRORS: &str = "disk io errors";
pub(crate) const FULL: &str = "writes to a full disk";
pub(crate) const ROTTEN: &str = "sectors: rotten";

counters! {
    writes = "file writes",
    fsyncs = "fsyncs",
    dir_syncs = "folder syncs",
    stalls = "disk stalls" if |c: &DiskConfig| c.stall_per_million > 0,
    slow_fsyncs = SLOW if |c: &DiskConfig| c.slow_per_million > 0,
    stalled = STALLED if |_: &DiskConfig| false,
    frozen = FROZEN if |_: &DiskConfig| false,
    abandoned = "fsyncs that nobody awaited to the end",
    after_kill = "fsyncs that outlived a kill",
    fsync_errors = FSYNC_ERRORS if |c: &DiskConfig| c.fsync_error_per_million > 0,
    fsync_lies = "fsyncs that lied" if |c: &DiskConfig| c.lying_fsync,
    io_errors = IO_ERRORS if |c: &DiskConfig| c.io_error_per_million > 0,
    full = FULL if |c: &DiskConfig| c.capacity_bytes.is_some(),
    power_losses = "power losses of a disk",
    power_losses_in_fsync = "power losses in an fsync",
    sectors_old = "sectors: old",
    sectors_new = "sectors: new",
    sectors_shorn = "sectors: shorn",
    sectors_zeroed = "sectors: zeroed",
    sectors_between = "sectors: intermediate version",
    sectors_cut_off = "sectors: beyond the end",
    sectors_rotten = ROTTEN if |c: &DiskConfig| c.bit_rot_per_million > 0,
    writes_lost = "lost writes",
    writes_torn = "torn writes",
    writes_kept = "kept unsynced writes",
    partial_flushes = "partial flushes",
    lengths_old = "lengths: old",
    lengths_between = "lengths: intermediate",
    lengths_new = "lengths: new",
    names_lost = "lost names",
    names_kept = "kept names",
    files_lost = "files lost with their names",
}
