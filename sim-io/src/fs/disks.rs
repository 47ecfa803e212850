//! The disks of a world: whose they are, what oracles ask of them, and what happens when the power fails.
//!
//!   File ──write──► Disk of its node ◄──land, or fail── syncs in flight (`flights.rs`)
//!                      └── power loss ──► what survives (`power.rs`) ──► records
//!
//! Invariants: a disk belongs to a node and outlives its incarnations; a kill loses nothing.
//! Not here: what programs call (`file.rs`, `folders.rs`), what a fault does for a while (`trouble.rs`).

use std::cell::{RefCell, RefMut};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::task::Waker;

use sim_runtime::device::{Coverage, Device, DeviceId};
use sim_runtime::rng::mix;
use sim_runtime::trace::{Down, Payload};
use sim_runtime::{Handle, NodeId, Owner};
use slab::Slab;

use super::config::{DiskConfig, IO_ERROR};
use super::counters::Counters;
use super::disk::{Disk, Image, Side};
use super::flights::Flight;
use super::names::FileId;
use super::power::Rot;
use crate::records::{CrashedFile, CrashedNames, FileAfterCrash, SectorRotted};

/// Everything that changes.
#[derive(Debug, Default)]
pub(super) struct State {
    disks: Vec<Disk>,
    pub(super) flights: Slab<Flight>,
    pub(super) config: DiskConfig,
    pub(super) counters: Counters,
}

impl State {
    #[inline]
    pub(super) fn disk(&mut self, node: NodeId) -> &mut Disk {
        if self.disks.len() <= node.index() {
            self.add_disks(node);
        }
        &mut self.disks[node.index()]
    }

    #[cold]
    fn add_disks(&mut self, upto: NodeId) {
        self.disks.resize_with(upto.index() + 1, Disk::default);
    }

    #[inline]
    pub(super) fn config(&self, node: NodeId) -> &DiskConfig {
        let disk = self.disks.get(node.index());
        disk.and_then(|disk| disk.worsened.as_ref().or(disk.config.as_ref())).unwrap_or(&self.config)
    }

    pub(super) fn disk_count(&self) -> usize {
        self.disks.len()
    }

    /// Whether the disk fails whatever is asked for of this file now. A bad sector is one file's, so a program can find
    /// one of its files unreadable beside others that are sound.
    #[inline]
    pub(super) fn strikes_io_error(&mut self, world: &Handle, node: NodeId, file: FileId) -> bool {
        let per_million = self.config(node).io_error_per_million;
        let key = u64::from(node.0) | file.0 << 16;
        let strikes = per_million > 0 && world.sample(IO_ERROR, key).chance(per_million);
        self.counters.io_errors += u64::from(strikes);
        strikes
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
        let mut state = self.state();
        state.config = config;
        (0..state.disk_count()).for_each(|at| state.worsen(NodeId(at as u16)));
    }

    /// Sets what the disk of `node` is like.
    pub fn configure_node(&self, node: NodeId, config: DiskConfig) {
        let mut state = self.state();
        state.disk(node).config = Some(config);
        state.worsen(node);
    }

    /// What the disk of `node` is like now, with what faults do to it.
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
}

impl Device for Disks {
    const ID: DeviceId = DeviceId(1);

    fn new(_world: &Handle) -> Self {
        Self { state: RefCell::default() }
    }

    fn fire(&self, world: &Handle, token: u64) {
        self.finish_sync(world, token as usize);
    }

    /// A machine that stands still does not take note of what its disk has finished.
    fn node_frozen(&self, world: &Handle, node: NodeId, frozen: bool) {
        let mut state = self.state();
        state.disk(node).frozen = frozen;
        state.hold_or_release(world, node);
    }

    /// The page cache outlives a kill; a power loss is where the fault model is.
    fn node_down(&self, world: &Handle, node: NodeId, how: Down, fault: u64) {
        self.thaw(world, node);
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
