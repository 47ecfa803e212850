//! Who acts on which disk: the incarnation behind a handle or a call, and what it waits for.
//!
//! Invariants: a process that has ended does nothing more: every call of it is an error; a sync goes on when
//! nobody waits for it.
//! Not here: what the calls do (`file.rs`, `folders.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use sim_runtime::trace::Payload;
use sim_runtime::{Handle, Owner};

use super::disk::Disk;
use super::disks::{Disks, State, note};
use super::errors;
use super::flights::{Outcome, Target};
use super::names::FileId;
use crate::records::FileIoFailed;

/// Files end here; a write beyond is an error, not an attempt to hold it in memory.
const LARGEST_BYTES: u64 = 1 << 32;

/// Who acts on which disk.
pub(super) struct Process {
    pub(super) world: Handle,
    pub(super) disks: Rc<Disks>,
    pub(super) owner: Owner,
}

impl Process {
    /// The code that runs now.
    pub(super) fn current() -> Self {
        let world = Handle::current();
        let (disks, owner) = (world.device(), world.owner());
        Self { world, disks, owner }
    }

    /// Runs `act` on the disk, if this incarnation lives and the disk works.
    #[inline]
    pub(super) fn act<T>(&self, id: FileId, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        if !self.world.is_live(self.owner) {
            return Err(errors::process_gone());
        }
        let mut state = self.disks.state();
        if state.strikes_io_error(&self.world, self.owner.node, id) {
            drop(state);
            self.note(FileIoFailed { file: id.0, full: 0 });
            return Err(errors::io_error());
        }
        act(&mut state)
    }

    /// As `act`, for what concerns names.
    pub(super) fn act_on_names<T>(&self, act: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        self.act(FileId(0), |state| act(state.disk(self.owner.node)))
    }

    #[inline]
    pub(super) fn note<P: Payload>(&self, payload: P) {
        note(&self.world, self.owner, payload);
    }

    /// Makes room for a file to grow from `from` to `to` bytes.
    #[inline]
    pub(super) fn reserve(&self, state: &mut State, id: FileId, from: u64, to: u64) -> io::Result<()> {
        if to > LARGEST_BYTES {
            return Err(errors::too_large());
        }
        let Some(capacity) = state.config(self.owner.node).capacity_bytes else { return Ok(()) };
        if to <= from || state.disk(self.owner.node).used_bytes() + (to - from) <= capacity {
            return Ok(());
        }
        state.counters.full += 1;
        self.note(FileIoFailed { file: id.0, full: 1 });
        Err(errors::full())
    }
}

/// Waits for a sync.
pub(super) struct Syncing<'a> {
    process: &'a Process,
    /// `None` once the outcome is known.
    slot: Option<usize>,
}

impl<'a> Syncing<'a> {
    pub(super) fn start(process: &'a Process, id: FileId, target: Target) -> Self {
        let slot = process.disks.start_sync(&process.world, process.owner, id, target);
        Self { process, slot: Some(slot) }
    }
}

impl Future for Syncing<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let process = self.process;
        if !process.world.is_live(process.owner) {
            return Poll::Ready(Err(errors::process_gone()));
        }
        let slot = self.slot.expect("not polled after it is ready");
        match process.disks.poll_sync(slot, cx.waker()) {
            None => {
                process.world.note_waiting("fsync");
                Poll::Pending
            }
            Some(outcome) => {
                self.slot = None;
                Poll::Ready(match outcome {
                    Outcome::Done => Ok(()),
                    Outcome::Failed => Err(errors::io_error()),
                    Outcome::Gone => Err(errors::process_gone()),
                })
            }
        }
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.process.disks.abandon_sync(slot);
        }
    }
}
