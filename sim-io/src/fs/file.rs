//! Open files: what programs read, write and sync.
//!
//!   File (cheap, counted) ──► backend: simulated ──► Disks, for the incarnation that opened it
//!
//! Invariants: a handle acts only while its incarnation lives, else every call is an error and nothing
//! happens; it refers to the file, not to the name, so it outlives rename-over and removal; reads and writes
//! go to the page cache and take no virtual time, only syncs do; no write allocates, but for growth.
//! Not here: the cursor (`cursor.rs`), opening (`options.rs`), paths (`folders.rs`).

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;

use sim_runtime::rng::hash_bytes;

use super::errors;
use super::flights::Target;
use super::folders::{Metadata, metadata_of};
use super::names::FileId;
use super::options::OpenOptions;
use super::process::{Process, Syncing};
use crate::records::{FileResized, FileWritten};

/// An open file. Clones share the handle and its cursor, as after `dup`.
#[derive(Clone)]
pub struct File {
    pub(super) backend: Backend,
}

/// Where the bytes are.
#[derive(Clone)]
pub(super) enum Backend {
    Simulated(Rc<Open>),
}

/// What a simulated handle is.
pub(super) struct Open {
    pub(super) process: Process,
    id: FileId,
    modes: Modes,
    pub(super) cursor: Cell<u64>,
    /// Of the disk, when this was opened.
    power_losses: u32,
}

/// What a handle may be used for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Modes {
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Writes go to the end, whatever they ask for.
    pub(super) appends: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.process.disks.state();
        let disk = state.disk(self.process.owner.node);
        // A power loss has closed all handles already.
        if disk.power_losses == self.power_losses {
            disk.inode_mut(self.id).held -= 1;
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backend::Simulated(open) = &self.backend;
        f.debug_struct("File")
            .field("id", &open.id)
            .field("owner", &open.process.owner)
            .finish_non_exhaustive()
    }
}

impl Open {
    /// A handle that the disk has counted already.
    pub(super) fn new(process: Process, id: FileId, modes: Modes, power_losses: u32) -> Self {
        Self { process, id, modes, cursor: Cell::new(0), power_losses }
    }

    /// The whole file as it is now.
    pub(super) fn read_all(&self) -> io::Result<Vec<u8>> {
        self.process.act(self.id, |state| {
            Ok(state.disk(self.process.owner.node).content_mut(self.id).visible().to_vec())
        })
    }

    pub(super) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.process.act(self.id, |state| {
            if !self.modes.reads {
                return Err(errors::wrong_mode());
            }
            let content = state.disk(self.process.owner.node).content_mut(self.id);
            let there = content.visible();
            let there = &there[usize::try_from(offset).unwrap_or(usize::MAX).min(there.len())..];
            let count = into.len().min(there.len());
            into[..count].copy_from_slice(&there[..count]);
            Ok(count)
        })
    }

    /// Writes at `offset`, or at the end (in any case there when the file was opened for that); returns where.
    #[inline]
    fn write(&self, bytes: &[u8], offset: Option<u64>) -> io::Result<u64> {
        let at = self.process.act(self.id, |state| {
            if !self.modes.writes {
                return Err(errors::wrong_mode());
            }
            let node = self.process.owner.node;
            let len = state.disk(node).content_mut(self.id).len();
            let at = offset.filter(|_| !self.modes.appends).unwrap_or(len);
            if bytes.is_empty() {
                return Ok(at);
            }
            let end = at.checked_add(bytes.len() as u64).ok_or_else(errors::too_large)?;
            self.process.reserve(state, self.id, len, end)?;
            state.disk(node).content_mut(self.id).write(at, bytes);
            state.counters.writes += 1;
            Ok(at)
        })?;
        if !bytes.is_empty() {
            let (file, len, payload) = (self.id.0, bytes.len() as u64, hash_bytes(0, bytes));
            self.process.note(FileWritten { file, offset: at, len, payload });
        }
        Ok(at)
    }

    /// Writes through the cursor: there, or at the end of a file opened for appending.
    pub(super) fn write_at_cursor(&self, bytes: &[u8]) -> io::Result<usize> {
        let at = self.write(bytes, Some(self.cursor.get()))?;
        self.cursor.set(at + bytes.len() as u64);
        Ok(bytes.len())
    }

    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        let changed = self.process.act(self.id, |state| {
            if !self.modes.writes {
                return Err(errors::not_to_be_cut());
            }
            let node = self.process.owner.node;
            let before = state.disk(node).content_mut(self.id).len();
            self.process.reserve(state, self.id, before, len)?;
            if before != len {
                state.disk(node).content_mut(self.id).set_len(len);
            }
            Ok(before != len)
        })?;
        if changed {
            self.process.note(FileResized { file: self.id.0, len });
        }
        Ok(())
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        self.process.act(self.id, |state| Ok(state.disk(self.process.owner.node).content_mut(self.id).len()))
    }
}

impl File {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file for writing, created or cut to nothing.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// How to open a file otherwise.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    #[inline]
    pub(super) fn simulated(&self) -> &Open {
        let Backend::Simulated(open) = &self.backend;
        open
    }

    /// Reads from byte `offset`; fewer bytes than asked for, or none, at the end. The cursor stays.
    ///
    /// # Errors
    /// EIO; EBADF when not opened for reading; `BrokenPipe` from a handle of an incarnation that has ended
    /// (as every call on it).
    pub async fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.simulated().read_at(into, offset)
    }

    /// Fills the buffer from byte `offset`.
    ///
    /// # Errors
    /// As [`File::read_at`], and `UnexpectedEof` when the file ends before.
    pub async fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let count = self.simulated().read_at(into, offset)?;
        if count == into.len() { Ok(()) } else { Err(errors::short_read()) }
    }

    /// Writes at byte `offset`; a gap before it reads zero. Visible at once, durable after a sync that begins
    /// later. As on Linux, a file opened for appending is written at its end all the same.
    ///
    /// # Errors
    /// EIO, `StorageFull` (nothing was written), EBADF when not opened for writing.
    pub async fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.simulated().write(bytes, Some(offset)).map(|_| bytes.len())
    }

    /// Writes all of it at byte `offset`.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.simulated().write(bytes, Some(offset)).map(drop)
    }

    /// Writes all of it at the end; returns the offset of its first byte.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn append(&self, bytes: &[u8]) -> io::Result<u64> {
        self.simulated().write(bytes, None)
    }

    /// Cuts the file, or extends it by zeros.
    ///
    /// Not durable before a sync, and not ordered with writes: after a power loss the old length can be back,
    /// and with it the old bytes behind a write that did land.
    ///
    /// # Errors
    /// As [`File::write_at`], but EINVAL when not opened for writing.
    pub async fn set_len(&self, len: u64) -> io::Result<()> {
        self.simulated().set_len(len)
    }

    /// The length in bytes.
    ///
    /// # Errors
    /// EIO.
    pub async fn len(&self) -> io::Result<u64> {
        self.simulated().len()
    }

    /// Whether there is no byte in it.
    ///
    /// # Errors
    /// EIO.
    pub async fn is_empty(&self) -> io::Result<bool> {
        Ok(self.simulated().len()? == 0)
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.simulated().id
    }

    /// Length and identity.
    ///
    /// # Errors
    /// EIO.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let open = self.simulated();
        open.process.act_on_names(|disk| Ok(metadata_of(disk, open.id)))
    }

    /// Makes durable what was written and cut before this call's first poll. Dropping the future does not
    /// stop it.
    ///
    /// # Errors
    /// EIO: nothing that it covered is durable, **and the next sync will not try again**: the kernel has
    /// marked the pages clean. What is in doubt must be written anew.
    pub async fn sync_data(&self) -> io::Result<()> {
        let open = self.simulated();
        open.process.act(open.id, |_| Ok(()))?;
        Syncing::start(&open.process, open.id, Target::Data).await
    }

    /// The same: there is no metadata but the length, which both make durable. Names are not: see
    /// [`sync_dir`](super::sync_dir).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub async fn sync_all(&self) -> io::Result<()> {
        self.sync_data().await
    }
}
