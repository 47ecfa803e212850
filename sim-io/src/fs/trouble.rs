//! What a fault does to one disk while it lasts: it stalls, slows down, fails, fills up or rots.
//!
//!   nemesis ──trouble, calm──► Disk { troubles } ──► its configuration, made worse, while there are any
//!                                  └─ stalled, or the machine is frozen: syncs in flight are held, with the time
//!                                     that they still need, and go on when nothing holds them any more
//!
//! Invariants: a disk without troubles is what its configuration says; where several do the same, the worst
//! counts; a sync that is held ends by a power loss as any other does.
//! Not here: when each of these strikes (`flights.rs`, `process.rs`, `power.rs`).

use sim_runtime::{Handle, NodeId};

use super::config::DiskConfig;
use super::disk::Disk;
use super::disks::{Disks, State};
use super::flights::Progress;

/// What a fault does to a disk while it lasts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// No sync gets on. Reads and writes go to the page cache, so they do.
    Stall,
    /// A sync takes longer.
    Slow {
        /// 2 to this many times as long, by half seconds.
        factor: u32,
    },
    /// A sync that begins now fails; what it covers is not durable, and reported clean to the next one.
    FsyncErrors {
        /// In how many buckets of a million.
        per_million: u32,
    },
    /// Reads, writes and what is done to names fail with EIO.
    IoErrors {
        /// In how many buckets of a million.
        per_million: u32,
    },
    /// Files cannot grow beyond what is there, and a little more: ENOSPC.
    Full {
        /// So much more.
        room_bytes: u64,
    },
    /// Durable sectors have a bit flipped when the power fails.
    Rot {
        /// How many of a million.
        per_million: u32,
    },
}

/// A trouble that has begun.
#[derive(Debug)]
pub(super) struct Held {
    fault: u64,
    trouble: Trouble,
    /// On the disk, when it began.
    used_bytes: u64,
}

impl Held {
    fn worsen(&self, config: &mut DiskConfig) {
        let worse = |there: &mut u32, per_million: u32| *there = (*there).max(per_million);
        match self.trouble {
            Trouble::Stall => {}
            Trouble::Slow { factor } => {
                let already = if config.slow_per_million == 0 { 0 } else { config.slow_factor_max };
                config.slow_factor_max = already.max(factor.into());
                config.slow_per_million = 1_000_000;
            }
            Trouble::FsyncErrors { per_million } => worse(&mut config.fsync_error_per_million, per_million),
            Trouble::IoErrors { per_million } => worse(&mut config.io_error_per_million, per_million),
            Trouble::Full { room_bytes } => {
                let capacity = self.used_bytes.saturating_add(room_bytes);
                config.capacity_bytes = Some(config.capacity_bytes.unwrap_or(u64::MAX).min(capacity));
            }
            Trouble::Rot { per_million } => worse(&mut config.bit_rot_per_million, per_million),
        }
    }
}

impl Disk {
    pub(super) fn is_stalled(&self) -> bool {
        self.troubles.iter().any(|held| held.trouble == Trouble::Stall)
    }

    /// Whether syncs stand still.
    #[inline]
    pub(super) fn holds_syncs(&self) -> bool {
        self.frozen || (!self.troubles.is_empty() && self.is_stalled())
    }
}

impl State {
    /// Works out anew what a disk with troubles is like.
    pub(super) fn worsen(&mut self, node: NodeId) {
        let for_all = self.config.clone();
        let disk = self.disk(node);
        let mut config = disk.config.clone().unwrap_or(for_all);
        disk.troubles.iter().for_each(|held| held.worsen(&mut config));
        disk.worsened = (!disk.troubles.is_empty()).then_some(config);
    }

    /// Holds the syncs of `node` that are in flight, or lets them go on, as is due.
    pub(super) fn hold_or_release(&mut self, world: &Handle, node: NodeId) {
        let (holds, frozen) = (self.disk(node).holds_syncs(), self.disk(node).frozen);
        let now_ns = world.now_ns();
        let mut held = 0;
        for (slot, flight) in &mut self.flights {
            if flight.owner.node != node || flight.outcome.is_some() {
                continue;
            }
            match flight.progress {
                Progress::Running { timer, done_ns } if holds => {
                    world.cancel(timer);
                    flight.progress = Progress::Held { left_ns: done_ns - now_ns };
                    held += 1;
                }
                Progress::Held { left_ns } if !holds => {
                    flight.progress = Progress::running(world, slot, now_ns + left_ns);
                }
                Progress::Running { .. } | Progress::Held { .. } => {}
            }
        }
        self.count_held(held, frozen);
    }

    pub(super) fn count_held(&mut self, syncs: u64, frozen: bool) {
        *(if frozen { &mut self.counters.frozen } else { &mut self.counters.stalled }) += syncs;
    }
}

impl Disks {
    /// From now on until [`Disks::calm`], `fault` does this to the disk of `node`.
    pub fn trouble(&self, world: &Handle, fault: u64, node: NodeId, trouble: Trouble) {
        let mut state = self.state();
        let disk = state.disk(node);
        let used_bytes = disk.used_bytes();
        disk.troubles.push(Held { fault, trouble, used_bytes });
        state.worsen(node);
        state.hold_or_release(world, node);
    }

    /// Ends all troubles of `fault`.
    pub fn calm(&self, world: &Handle, fault: u64) {
        let mut state = self.state();
        for at in 0..state.disk_count() {
            let node = NodeId(at as u16);
            let troubles = &mut state.disk(node).troubles;
            let before = troubles.len();
            troubles.retain(|held| held.fault != fault);
            if troubles.len() < before {
                state.worsen(node);
                state.hold_or_release(world, node);
            }
        }
    }
}
