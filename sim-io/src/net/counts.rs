//! What became of datagrams, in numbers.

use sim_runtime::device::Coverage;
use sim_runtime::{Handle, NodeId, Owner};

use super::config::NetConfig;
use super::link::{Fate, Link, Struck};
use crate::records::{DatagramLost, Lost};

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) delivered: u64,
    lost: u64,
    cut: u64,
    pub(super) duplicated: u64,
    held_up: u64,
    pub(super) reordered: u64,
    node_down: u64,
    port_unbound: u64,
    buffer_full: u64,
    slowed: u64,
    burst_lost: u64,
    burst_duplicated: u64,
    pub(super) frozen_held: u64,
    frozen_lost: u64,
}

/// Counters of what faults did to datagrams; the nemesis declares those of the faults that are on.
pub(crate) const SLOWED: &str = "datagrams slowed by a fault";
pub(crate) const BURST_LOST: &str = "datagrams lost in a burst";
pub(crate) const BURST_DUPLICATED: &str = "datagrams duplicated in a burst";
pub(crate) const FROZEN_HELD: &str = "datagrams held by a frozen machine";
pub(crate) const FROZEN_LOST: &str = "datagrams lost by a frozen machine";

impl Counts {
    /// How long a datagram that is sent now takes, and a copy of it if there is one; or why it gets lost.
    #[inline(never)]
    pub(super) fn find_way(&mut self, link: &Link, is_cut: bool) -> Result<(u64, Option<u64>), Lost> {
        let fate = link.fate();
        if is_cut {
            return Err(Lost::Cut);
        }
        if link.struck != Struck::default() {
            self.strike(link.struck, fate == Fate::Lost);
        }
        match fate {
            Fate::Arrives { after_ns, copy_ns, held_up } => {
                self.held_up += u64::from(held_up);
                Ok((after_ns, copy_ns))
            }
            Fate::Lost => Err(Lost::Loss),
        }
    }

    #[cold]
    pub(super) fn lose(&mut self, world: &Handle, from: Owner, to: NodeId, id: u64, why: Lost) {
        match why {
            Lost::Loss => self.lost += 1,
            Lost::Cut => self.cut += 1,
            Lost::NoReceiver if to.0 < world.node_count() && world.is_up(to) => self.port_unbound += 1,
            Lost::NoReceiver => self.node_down += 1,
            Lost::BufferFull => self.buffer_full += 1,
            Lost::Frozen => self.frozen_lost += 1,
        }
        world.emit_for(from, DatagramLost { to, why, id });
    }

    /// A burst met a datagram that was being sent.
    #[cold]
    fn strike(&mut self, struck: Struck, is_lost: bool) {
        self.burst_lost += u64::from(struck.lost);
        self.slowed += u64::from(struck.slowed && !is_lost);
        self.burst_duplicated += u64::from(struck.duplicated && !is_lost);
    }

    /// Adds them to the table of a run. What is switched off has no counter: a counter of 0 means "on, but never
    /// reached".
    pub(super) fn coverage(&self, config: &NetConfig, cuts_made: u64, into: &mut Coverage) {
        if self.sent == 0 {
            // Nobody uses datagrams: that is off, too.
            return;
        }
        into.add("datagrams sent", self.sent);
        into.add("datagrams delivered", self.delivered);
        into.add("datagrams overtaken", self.reordered);
        into.add("datagrams to a node that was down", self.node_down);
        into.add("datagrams to a port that nobody had bound", self.port_unbound);
        into.add("datagrams dropped by a full buffer", self.buffer_full);
        let switched = [
            (config.loss_per_million > 0, "datagrams lost", self.lost),
            (config.duplicate_per_million > 0, "datagrams duplicated", self.duplicated),
            (config.reorder_per_million > 0, "datagrams held up", self.held_up),
            (cuts_made > 0, "datagrams cut off", self.cut),
            (false, SLOWED, self.slowed),
            (false, BURST_LOST, self.burst_lost),
            (false, BURST_DUPLICATED, self.burst_duplicated),
            (false, FROZEN_HELD, self.frozen_held),
            (false, FROZEN_LOST, self.frozen_lost),
        ];
        for (_, name, count) in switched.into_iter().filter(|(on, _, count)| *on || *count > 0) {
            into.add(name, count);
        }
    }
}
