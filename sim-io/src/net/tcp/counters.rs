//! What really happened to the streams of a run, for its coverage table.
//!
//! Invariants: counted where it happens, never where it is asked for; a kind that is on and never happened is
//! reported as 0, and one that is off not at all.

use sim_runtime::device::Coverage;

use crate::net::wires::Wires;

/// Declares the counters with the names that reports show.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal $(if $is_on:expr)?),* $(,)?) => {
        /// Counters of one run.
        #[derive(Debug, Default)]
        pub(super) struct Counters { $($(#[$doc])* pub(super) $field: u64),* }

        impl Counters {
            /// Reports what is on, and whatever else has happened.
            pub(super) fn report(&self, wires: &Wires, into: &mut Coverage) {
                $(
                    let is_on = true $(&& ($is_on)(wires))?;
                    if is_on || self.$field > 0 {
                        into.add($name, self.$field);
                    }
                )*
            }
        }
    };
}

counters! {
    started = "connections begun",
    opened = "connections opened",
    refused = "connections refused",
    timed_out = "connections timed out",
    /// Of a side that was told by the other.
    reset = "connections reset",
    aborted = "connections aborted",
    closed = "connections closed",
    power_lost = "connections left half-open",
    half_open_found = "half-open connections found out",
    backlog_full = "connections dropped by a full backlog",
    syns_again = "connection requests sent again",
    flights = "flights sent",
    delivered = "flights delivered",
    bytes_delivered = "bytes delivered",
    lost = "flights lost" if |w: &Wires| w.config.loss_per_million > 0,
    sent_again = "flights sent again",
    stalled = "streams stalled by a cut" if |w: &Wires| w.cuts_made > 0,
    windows_filled = "receive windows filled",
    writers_stalled = "writers stalled",
    partial_reads = "partial reads" if |w: &Wires| w.config.tcp.partial_read_per_million > 0,
    partial_writes = "partial writes" if |w: &Wires| w.config.tcp.partial_write_per_million > 0,
    destroyed = "unread bytes destroyed by a reset" if |w: &Wires| w.config.tcp.reset_destroys_unread_per_million > 0,
}
