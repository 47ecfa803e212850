//! The disks of a world: whose they are, how long an fsync takes, and what happens when the power fails.
//!
//!   File ──write──► Disk of its node            sync ──► Flight { what it covers, when it is done }
//!                      ▲                                    │ timer (no task)
//!                      └────────── land, or fail ◄──────────┘──► wake whoever waits
//!
//! Invariants: a disk belongs to a node and outlives its incarnations; a kill loses nothing and lets fsyncs in
//! flight go on; a power loss ends them; a sync whose future is dropped goes on, for the kernel does; wakers
//! are woken and dropped outside the borrow.
//! Not here: what survives (`power.rs`), what programs call (`file.rs`, `folders.rs`).

use std::cell::{RefCell, RefMut};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::task::Waker;

use sim_runtime::device::{Coverage, Device, DeviceId};
use sim_runtime::probe::WindowId;
use sim_runtime::rng::mix;
use sim_runtime::timer::TimerKey;
use sim_runtime::trace::{Down, Payload};
use sim_runtime::{Handle, NodeId, Owner};
use slab::Slab;

use super::config::{DiskConfig, FSYNC, FSYNC_ERROR, IO_ERROR, SLOW, STALL};
use super::counters::Counters;
use super::disk::{Disk, Image, Side};
use super::names::FileId;
use super::power::{Covers, Rot};
use crate::records::{
    CrashedFile, CrashedNames, DirSynced, FileAfterCrash, FsyncDone, FsyncFailed, FsyncLied, FsyncStarted,
    SectorRotted,
};

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
struct Flight {
    owner: Owner,
    target: Target,
    covers: Covers,
    fails: bool,
    window: WindowId,
    timer: TimerKey,
    waiting: Option<Waker>,
    outcome: Option<Outcome>,
    abandoned: bool,
}

/// Everything that changes.
#[derive(Debug, Default)]
pub(super) struct State {
    disks: Vec<Disk>,
    flights: Slab<Flight>,
    config: DiskConfig,
    pub(super) counters: Counters,
}

impl State {
    #[inline]
    pub(super) fn disk(&mut self, node: NodeId) -> &mut Disk {
        if self.disks.len() <= node.index() {
            self.disks.resize_with(node.index() + 1, Disk::default);
        }
        &mut self.disks[node.index()]
    }

    #[inline]
    pub(super) fn config(&self, node: NodeId) -> &DiskConfig {
        self.disks.get(node.index()).and_then(|disk| disk.config.as_ref()).unwrap_or(&self.config)
    }

    /// Whether the disk fails whatever it is asked for now.
    #[inline]
    pub(super) fn strikes_io_error(&mut self, world: &Handle, node: NodeId) -> bool {
        let per_million = self.config(node).io_error_per_million;
        let strikes = per_million > 0 && world.sample(IO_ERROR, u64::from(node.0)).chance(per_million);
        self.counters.io_errors += u64::from(strikes);
        strikes
    }

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

/// The disks of a world, one a node; get them with [`Handle::device`].
#[derive(Debug)]
pub struct Disks {
    state: RefCell<State>,
}

impl Disks {
    #[inline]
    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Sets what all disks are like that have no configuration of their own.
    pub fn configure(&self, config: DiskConfig) {
        self.state().config = config;
    }

    /// Sets what the disk of `node` is like.
    pub fn configure_node(&self, node: NodeId, config: DiskConfig) {
        self.state().disk(node).config = Some(config);
    }

    /// What the disk of `node` is like.
    pub fn config(&self, node: NodeId) -> DiskConfig {
        self.state().config(node).clone()
    }

    /// The next fsync of a file that begins on `node` fails: what it covers is not durable, and reported
    /// clean to the ones after it.
    pub fn fail_next_fsync(&self, node: NodeId) {
        self.state().disk(node).failing_fsyncs += 1;
    }

    /// Whether the bytes of `range`, as programs see them, survive every power loss that may come now: they
    /// are on the platter, no pending change touches them, and the file's name is durable. A file that is
    /// gone holds nothing durably.
    pub fn is_durable(&self, node: NodeId, file: FileId, range: Range<u64>) -> bool {
        let mut state = self.state();
        let disk = state.disk(node);
        disk.content(file).is_some_and(|content| content.is_durable(&range)) && disk.is_named_durably(file)
    }

    /// As [`Disks::is_durable`], whatever becomes of the file's name.
    pub fn is_data_durable(&self, node: NodeId, file: FileId, range: Range<u64>) -> bool {
        self.state().disk(node).content(file).is_some_and(|content| content.is_durable(&range))
    }

    /// What is on the platter: what a power loss left if it undid everything that is not durable.
    pub fn durable_image(&self, node: NodeId) -> Image {
        self.state().disk(node).image(Side::Durable)
    }

    /// What programs see.
    pub fn visible_image(&self, node: NodeId) -> Image {
        self.state().disk(node).image(Side::Visible)
    }

    /// Shows `look` the files in the folder `dir` of one side, by name, without copying them. It must not come
    /// back here.
    pub fn look_at<T>(
        &self,
        node: NodeId,
        side: Side,
        dir: &Path,
        look: impl FnOnce(&Vec<(&OsStr, &[u8])>) -> T,
    ) -> T {
        look(&self.state().disk(node).files_in(side, dir))
    }

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
            let entry = state.flights.vacant_entry();
            let slot = entry.key();
            let timer = world.at(done_ns, Self::ID, slot as u64);
            let covers = Covers { id, upto };
            let (waiting, outcome, abandoned) = (None, None, false);
            entry.insert(Flight { owner, target, covers, fails, window, timer, waiting, outcome, abandoned });
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

    /// Ends the syncs in flight of a disk whose power failed.
    fn end_flights(&self, world: &Handle, node: NodeId) -> (Vec<Covers>, Vec<Waker>) {
        let (mut covers, mut wakers) = (Vec::new(), Vec::new());
        self.state().flights.retain(|_, flight| {
            if flight.owner.node != node || flight.outcome.is_some() {
                return true;
            }
            world.cancel(flight.timer);
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

impl Device for Disks {
    const ID: DeviceId = DeviceId(1);

    fn new(_world: &Handle) -> Self {
        Self { state: RefCell::default() }
    }

    /// A sync is done.
    fn fire(&self, world: &Handle, token: u64) {
        let slot = token as usize;
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
            waiting.wake();
        }
    }

    /// The page cache outlives a kill; a power loss is where the fault model is.
    fn node_down(&self, world: &Handle, node: NodeId, how: Down, fault: u64) {
        if how != Down::PowerOff {
            return;
        }
        let (in_flight, wakers) = self.end_flights(world, node);
        let losses = {
            let mut guard = self.state();
            let state = &mut *guard;
            let config = state.config(node);
            let rot =
                Rot { per_million: config.bit_rot_per_million, spares_latest: config.bit_rot_spares_latest };
            state.disk(node);
            let (disk, counters) = (&mut state.disks[node.index()], &mut state.counters);
            counters.power_losses += 1;
            counters.power_losses_in_fsync += u64::from(!in_flight.is_empty());
            disk.lose_power(world, mix(fault, u64::from(node.0)), &in_flight, rot, counters)
        };
        let owner = Owner { node, incarnation: world.incarnation(node) };
        if losses.names_lost + losses.names_kept > 0 {
            let (lost, kept) = (losses.names_lost, losses.names_kept);
            world.emit_for(owner, CrashedNames { fault, lost, kept });
        }
        for fate in losses.files {
            let (file, counts) = (fate.id.0, fate.counts.word());
            let (durable_len, len) = (fate.durable_len, fate.len);
            world.emit_for(owner, CrashedFile { file, fault, counts, durable_len, len });
            world.emit_for(owner, FileAfterCrash { file, fault, payload: fate.payload });
        }
        for (file, bit) in losses.rotten {
            world.emit_for(owner, SectorRotted { file: file.0, fault, bit });
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn coverage(&self, into: &mut Coverage) {
        let state = self.state();
        state.counters.report(&state.config, into);
    }

    fn clear(&self) {
        let wakers: Vec<Waker> =
            self.state().flights.iter_mut().filter_map(|(_, flight)| flight.waiting.take()).collect();
        drop(wakers);
    }
}

/// Appends a record for `owner`, with the task when it is the owner's code that runs.
#[inline]
pub(super) fn note<P: Payload>(world: &Handle, owner: Owner, payload: P) {
    if world.owner() == owner {
        world.emit(payload);
    } else {
        world.emit_for(owner, payload);
    }
}
