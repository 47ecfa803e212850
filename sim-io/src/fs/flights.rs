//! Syncs in flight: how long they take, what they make durable, who waits for them.
//!
//!   start ──► Flight { what it covers, how far it is } ──timer──► finish: land, or fail ──► wake whoever waits
//!                       └─ held while its disk stalls or its machine is frozen (`trouble.rs`)
//!
//! Invariants: a sync whose future is dropped goes on, for the kernel does; a kill does not end it, a power loss
//! does; wakers are woken and dropped outside the borrow.
//! Not here: which bytes and names it covers (`content.rs`, `names.rs`), the future (`process.rs`).

use std::task::Waker;

use sim_runtime::device::Device;
use sim_runtime::probe::WindowId;
use sim_runtime::timer::TimerKey;
use sim_runtime::{Handle, NodeId, Owner};

use super::config::{FSYNC, FSYNC_ERROR, SLOW, STALL};
use super::disks::{Disks, State, note};
use super::names::FileId;
use super::power::Covers;
use crate::records::{DirSynced, FsyncDone, FsyncFailed, FsyncLied, FsyncStarted};

/// The window in which a crash meets an fsync half done.
pub const FSYNC_WINDOW: &str = "fsync in flight";

/// What a sync makes durable.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// The bytes of a file.
    Data,
    /// The names in a folder, whose path has this hash.
    Names(u64),
}

/// How a sync came out.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Done,
    Failed,
    /// The power failed before.
    Gone,
}

/// A sync in flight, or one whose outcome nobody has fetched yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) owner: Owner,
    target: Target,
    covers: Covers,
    fails: bool,
    window: WindowId,
    pub(super) progress: Progress,
    pub(super) waiting: Option<Waker>,
    pub(super) outcome: Option<Outcome>,
    abandoned: bool,
}

/// How far a sync in flight is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    Running {
        timer: TimerKey,
        done_ns: u64,
    },
    /// The disk stalls or the machine is frozen.
    Held {
        left_ns: u64,
    },
}

impl Progress {
    pub(super) fn running(world: &Handle, slot: usize, done_ns: u64) -> Self {
        Self::Running { timer: world.at(done_ns, Disks::ID, slot as u64), done_ns }
    }
}

impl State {
    /// How long a sync that begins now takes.
    fn sync_ns(&mut self, world: &Handle, node: NodeId) -> u64 {
        let key = u64::from(node.0);
        let config = self.config(node);
        let (low, high) = (config.fsync_min_us * 1_000, config.fsync_max_us * 1_000);
        let mut takes_ns = world.sample(FSYNC, key).range(low, high.max(low));
        let (mut slow, mut stalls) = (false, false);
        if config.slow_per_million > 0 {
            let sample = world.sample(SLOW, key);
            slow = sample.split(0).chance(config.slow_per_million);
            if slow {
                takes_ns *= sample.split(1).range(2, config.slow_factor_max.max(2));
            }
        }
        if config.stall_per_million > 0 {
            let sample = world.sample(STALL, key);
            stalls = sample.split(0).chance(config.stall_per_million);
            if stalls {
                let (low, high) = (config.stall_min_ms, config.stall_max_ms.max(config.stall_min_ms));
                takes_ns += sample.split(1).range(low * 1_000_000, high * 1_000_000);
            }
        }
        self.counters.slow_fsyncs += u64::from(slow);
        self.counters.stalls += u64::from(stalls);
        takes_ns
    }

    fn sync_fails(&mut self, world: &Handle, node: NodeId, target: Target) -> bool {
        let disk = self.disk(node);
        if target == Target::Data && disk.failing_fsyncs > 0 {
            disk.failing_fsyncs -= 1;
            return true;
        }
        let per_million = self.config(node).fsync_error_per_million;
        per_million > 0 && world.sample(FSYNC_ERROR, u64::from(node.0)).chance(per_million)
    }
}

impl Disks {
    /// Starts a sync; its number is for [`Disks::poll_sync`] and [`Disks::abandon_sync`].
    pub(super) fn start_sync(&self, world: &Handle, owner: Owner, id: FileId, target: Target) -> usize {
        let (takes_ns, fails) = {
            let mut state = self.state();
            (state.sync_ns(world, owner.node), state.sync_fails(world, owner.node, target))
        };
        let done_ns = world.now_ns() + takes_ns;
        let window = world.open_window(owner, FSYNC_WINDOW, Some(takes_ns));
        let slot = {
            let mut state = self.state();
            let disk = state.disk(owner.node);
            disk.inode_mut(id).held += 1;
            let upto = match target {
                Target::Data => disk.content_mut(id).next_ordinal(),
                Target::Names(_) => disk.pending.next_ordinal(),
            };
            let (holds, frozen) = (disk.holds_syncs(), disk.frozen);
            state.count_held(holds.into(), frozen);
            let entry = state.flights.vacant_entry();
            let slot = entry.key();
            let progress = if holds {
                Progress::Held { left_ns: takes_ns }
            } else {
                Progress::running(world, slot, done_ns)
            };
            let covers = Covers { id, upto };
            let (waiting, outcome, abandoned) = (None, None, false);
            entry.insert(Flight {
                owner,
                target,
                covers,
                fails,
                window,
                progress,
                waiting,
                outcome,
                abandoned,
            });
            slot
        };
        note(world, owner, FsyncStarted { file: id.0, done_ns });
        slot
    }

    /// How the sync came out, once; until then, `waker` is woken when that is known.
    pub(super) fn poll_sync(&self, slot: usize, waker: &Waker) -> Option<Outcome> {
        let mut state = self.state();
        let flight = &mut state.flights[slot];
        if let Some(outcome) = flight.outcome {
            state.flights.remove(slot);
            return Some(outcome);
        }
        let stale = match &flight.waiting {
            Some(waiting) if waiting.will_wake(waker) => None,
            _ => flight.waiting.replace(waker.clone()),
        };
        drop(state);
        drop(stale);
        None
    }

    /// Nobody waits for it any more; the kernel goes on.
    pub(super) fn abandon_sync(&self, slot: usize) {
        let mut state = self.state();
        let flight = &mut state.flights[slot];
        let stale = flight.waiting.take();
        if flight.outcome.is_some() {
            state.flights.remove(slot);
        } else {
            flight.abandoned = true;
            state.counters.abandoned += 1;
        }
        drop(state);
        drop(stale);
    }

    /// A sync is done.
    pub(super) fn finish_sync(&self, world: &Handle, slot: usize) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(flight) = state.flights.get_mut(slot) else { return };
        let Flight { owner, target, covers: Covers { id, upto }, fails, window, .. } = *flight;
        let lies = state.config(owner.node).lying_fsync && !fails;
        let disk = state.disk(owner.node);
        disk.inode_mut(id).held -= 1;
        match target {
            _ if lies => {}
            Target::Data if fails => disk.content_mut(id).drop_data(upto),
            Target::Data => disk.content_mut(id).land(upto),
            Target::Names(_) if fails => {}
            Target::Names(_) => {
                let synced = disk.pending.take_synced(id, upto);
                synced.into_iter().for_each(|change| disk.make_durable(change));
                disk.sweep();
            }
        }
        let flight = &mut state.flights[slot];
        let waiting = flight.waiting.take();
        flight.outcome = Some(if fails { Outcome::Failed } else { Outcome::Done });
        if flight.abandoned {
            state.flights.remove(slot);
        }
        let counters = &mut state.counters;
        counters.after_kill += u64::from(!world.is_live(owner));
        counters.fsync_errors += u64::from(fails);
        counters.fsync_lies += u64::from(lies);
        match target {
            Target::Data => counters.fsyncs += 1,
            Target::Names(_) => counters.dir_syncs += 1,
        }
        drop(guard);

        world.close_window(window);
        let file = id.0;
        match target {
            _ if lies => world.emit_for(owner, FsyncLied { file }),
            _ if fails => world.emit_for(owner, FsyncFailed { file }),
            Target::Data => world.emit_for(owner, FsyncDone { file }),
            Target::Names(dir) => world.emit_for(owner, DirSynced { dir }),
        }
        if let Some(waiting) = waiting {
            world.wake(waiting);
        }
    }

    /// A machine that was frozen has gone down: its next process finds it going.
    pub(super) fn thaw(&self, world: &Handle, node: NodeId) {
        let mut state = self.state();
        if std::mem::take(&mut state.disk(node).frozen) {
            state.hold_or_release(world, node);
        }
    }

    /// Ends the syncs in flight of a disk whose power failed.
    pub(super) fn end_flights(&self, world: &Handle, node: NodeId) -> (Vec<Covers>, Vec<Waker>) {
        let (mut covers, mut wakers) = (Vec::new(), Vec::new());
        self.state().flights.retain(|_, flight| {
            if flight.owner.node != node || flight.outcome.is_some() {
                return true;
            }
            if let Progress::Running { timer, .. } = flight.progress {
                world.cancel(timer);
            }
            if !flight.fails {
                covers.push(flight.covers);
            }
            flight.outcome = Some(Outcome::Gone);
            wakers.extend(flight.waiting.take());
            !flight.abandoned
        });
        (covers, wakers)
    }
}
