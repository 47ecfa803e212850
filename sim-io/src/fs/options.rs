//! How files are opened.
//!
//! Invariants: the rules are those of `std::fs::OpenOptions`; a new name is visible at once, durable after a
//! sync of its folder.

use std::io;
use std::path::Path;
use std::rc::Rc;

use super::disk::{Body, Disk};
use super::errors;
use super::file::{Backend, File, Modes, Open};
use super::names::FileId;
use super::process::Process;
use crate::records::NameChanged;

/// How to open a file; the same rules as `std::fs::OpenOptions`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

impl OpenOptions {
    /// Nothing is allowed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// May be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// May be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// May be written; writes go to the end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Is cut to nothing.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Is created when it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Is created, and must not exist.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    fn check(&self) -> io::Result<()> {
        let writes = self.write || self.append;
        let makes = self.truncate || self.create || self.create_new;
        let cuts = self.truncate && !self.create_new;
        if (makes && !writes) || (cuts && self.append) || !(writes || self.read) {
            return Err(errors::bad_options());
        }
        Ok(())
    }

    /// Opens `path` on the disk of the caller's node.
    ///
    /// # Errors
    /// As from the operating system: `NotFound`, `AlreadyExists`, `IsADirectory`, `NotADirectory`,
    /// `InvalidInput` for options that contradict each other.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.check()?;
        let process = Process::current();
        let (id, created, power_losses) = process.act_on_names(|disk| {
            let (id, created) = self.open_on(disk, path.as_ref())?;
            disk.inode_mut(id).held += 1;
            Ok((id, created, disk.power_losses))
        })?;
        if let Some(path) = created {
            process.note(NameChanged { path, file: id.0 });
        }
        let modes = Modes { reads: self.read, writes: self.write || self.append, appends: self.append };
        let open = Open::new(process, id, modes, power_losses);
        if self.truncate && created.is_none() {
            open.set_len(0)?;
        }
        Ok(File { backend: Backend::Simulated(Rc::new(open)) })
    }

    /// The file, and the hash of its path if it is new.
    fn open_on(&self, disk: &mut Disk, path: &Path) -> io::Result<(FileId, Option<u64>)> {
        let place = match disk.place(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Err(errors::is_a_folder()),
            place => place?,
        };
        match place.id {
            _ if place.is_folder && (self.create || self.create_new) => Err(errors::is_a_folder()),
            Some(_) if self.create_new => Err(errors::exists()),
            Some(id) if disk.content(id).is_none() => Err(errors::is_a_folder()),
            Some(id) => Ok((id, None)),
            None if self.create || self.create_new => {
                let id = disk.create_at(&place, Body::File(Default::default()));
                Ok((id, Some(place.key)))
            }
            None => Err(errors::not_found()),
        }
    }
}
