//! What really happened to the disks of a run, for its coverage table.
//!
//! Invariants: counted where it happens, never where it is asked for; a kind that never happened is reported
//! as 0, so that "off" is told from "on, but never reached".

use sim_runtime::device::Coverage;

/// Declares the counters with the names that reports show.
macro_rules! counters {
    ($($field:ident = $name:literal),* $(,)?) => {
        /// Counters of one run.
        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $field: u64),* }

        impl Counters {
            pub(super) fn report(&self, into: &mut Coverage) {
                $(into.add($name, self.$field);)*
            }
        }
    };
}

counters! {
    writes = "file writes",
    fsyncs = "fsyncs",
    dir_syncs = "folder syncs",
    stalls = "disk stalls",
    slow_fsyncs = "fsyncs on a slow disk",
    abandoned = "fsyncs that nobody awaited to the end",
    after_kill = "fsyncs that outlived a kill",
    fsync_errors = "fsyncs failed",
    fsync_lies = "fsyncs that lied",
    io_errors = "disk io errors",
    full = "writes to a full disk",
    power_losses = "power losses of a disk",
    power_losses_in_fsync = "power losses in an fsync",
    sectors_old = "sectors: old",
    sectors_new = "sectors: new",
    sectors_shorn = "sectors: shorn",
    sectors_zeroed = "sectors: zeroed",
    sectors_between = "sectors: intermediate version",
    sectors_cut_off = "sectors: beyond the end",
    sectors_rotten = "sectors: rotten",
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
