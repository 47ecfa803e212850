//! What programs do with paths: folders, names, and whole files at once.
//!
//! All of it acts on the disk of the node whose code calls it; paths start at the root, and there are no links.
//!
//! Invariants: names change at once for every program on the node and are durable after [`sync_dir`] of their
//! folder; only that takes virtual time.
//! Not here: which names survive a power loss (`names.rs`).

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sim_runtime::rng::hash_bytes;

use super::disk::{Body, Disk, Place};
use super::errors;
use super::file::File;
use super::flights::Target;
use super::names::FileId;
use super::process::{Process, Syncing};
use crate::records::NameChanged;

/// What is known of a file or folder without opening it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Metadata {
    id: FileId,
    len: u64,
    folder: bool,
}

#[expect(clippy::len_without_is_empty, reason = "the shape of std::fs::Metadata")]
impl Metadata {
    /// Bytes; 0 for a folder.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        !self.folder
    }

    /// Whether it is a folder.
    pub fn is_dir(&self) -> bool {
        self.folder
    }

    /// Which file or folder it is.
    pub fn id(&self) -> FileId {
        self.id
    }
}

pub(super) fn metadata_of(disk: &Disk, id: FileId) -> Metadata {
    let content = disk.content(id);
    Metadata { id, len: content.map_or(0, |content| content.len()), folder: content.is_none() }
}

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    path: PathBuf,
    metadata: Metadata,
}

impl DirEntry {
    /// The whole path, as the folder was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last part.
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// What it is.
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }
}

fn note_change(process: &Process, place: &Place, id: Option<FileId>) {
    process.note(NameChanged { path: place.key, file: id.map_or(0, |id| id.0) });
}

/// Makes a folder. Its name is durable after [`sync_dir`] of the folder that it is in.
///
/// # Errors
/// `AlreadyExists`, `NotFound` or `NotADirectory` as from the operating system.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let process = Process::current();
    let (place, id) = process.act_on_names(|disk| {
        let place = match disk.place(path.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Err(errors::exists()),
            place => place?,
        };
        if place.id.is_some() {
            return Err(errors::exists());
        }
        let id = disk.create_at(&place, Body::Folder(Default::default()));
        Ok((place, id))
    })?;
    note_change(&process, &place, Some(id));
    Ok(())
}

/// Makes a folder and those that it is in, as far as they are missing.
///
/// # Errors
/// `AlreadyExists` or `NotADirectory` when a file is in the way.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let mut missing = Vec::new();
    for folder in path.as_ref().ancestors().filter(|path| !path.as_os_str().is_empty()) {
        match metadata(folder).await {
            Ok(found) if found.is_dir() => break,
            Ok(_) => return Err(errors::exists()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(folder),
            Err(error) => return Err(error),
        }
    }
    for folder in missing.into_iter().rev() {
        create_dir(folder).await?;
    }
    Ok(())
}

/// What is in a folder, by name.
///
/// # Errors
/// `NotFound`, `NotADirectory`.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
    let path = path.as_ref();
    Process::current().act_on_names(|disk| {
        let id = disk.find(path)?;
        let folder = disk.folder(id).ok_or_else(errors::not_a_folder)?;
        let entry = |(name, id): (&OsString, &FileId)| DirEntry {
            path: path.join(name),
            metadata: metadata_of(disk, *id),
        };
        Ok(folder.visible.iter().map(entry).collect())
    })
}

/// Removes a file's name. Open handles go on; durable after [`sync_dir`].
///
/// # Errors
/// `NotFound`, `IsADirectory`.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    remove(path.as_ref(), |disk, id| match disk.content(id) {
        Some(_) => Ok(()),
        None => Err(errors::is_a_folder()),
    })
}

/// Removes an empty folder. Durable after [`sync_dir`] of the folder that it is in.
///
/// # Errors
/// `NotFound`, `NotADirectory`, `DirectoryNotEmpty`.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    remove(path.as_ref(), |disk, id| match disk.folder(id) {
        None => Err(errors::not_a_folder()),
        Some(folder) if !folder.visible.is_empty() => Err(errors::folder_not_empty()),
        Some(_) => Ok(()),
    })
}

fn remove(path: &Path, may: impl FnOnce(&Disk, FileId) -> io::Result<()>) -> io::Result<()> {
    let process = Process::current();
    let place = process.act_on_names(|disk| {
        let place = disk.place(path)?;
        may(disk, place.id.ok_or_else(errors::not_found)?)?;
        disk.remove_at(&place);
        Ok(place)
    })?;
    note_change(&process, &place, None);
    Ok(())
}

/// Gives a file or folder another name, over a file (or an empty folder) that has it. A power loss before
/// [`sync_dir`] of the target's folder leaves the old or the new state, both names included, never a mixture.
///
/// # Errors
/// `NotFound`; `IsADirectory`, `NotADirectory` or `DirectoryNotEmpty` when the target cannot be replaced by
/// the source; `InvalidInput` when a folder would move into itself.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let process = Process::current();
    let changed = process.act_on_names(|disk| {
        let source = disk.place(from.as_ref())?;
        let id = source.id.ok_or_else(errors::not_found)?;
        let target = disk.place(to.as_ref())?;
        if target.id == Some(id) {
            return Ok(None);
        }
        let moves_a_folder = disk.content(id).is_none();
        if moves_a_folder && disk.is_within(target.dir, id) {
            return Err(errors::into_itself());
        }
        if !moves_a_folder && target.is_folder {
            return Err(if target.id.is_some() { errors::is_a_folder() } else { errors::not_a_folder() });
        }
        if let Some(replaced) = target.id {
            match disk.folder(replaced) {
                Some(_) if !moves_a_folder => return Err(errors::is_a_folder()),
                Some(folder) if !folder.visible.is_empty() => return Err(errors::folder_not_empty()),
                None if moves_a_folder => return Err(errors::not_a_folder()),
                _ => {}
            }
        }
        disk.rename_to(&source, &target);
        Ok(Some((source, target, id)))
    })?;
    if let Some((source, target, id)) = changed {
        note_change(&process, &source, None);
        note_change(&process, &target, Some(id));
    }
    Ok(())
}

/// Makes durable the names that were created, renamed or removed in a folder before this call's first poll.
/// Takes as long as an fsync. (On Unix: open the folder and fsync it.)
///
/// # Errors
/// `NotFound`, `NotADirectory`; EIO: the changes stay pending.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let process = Process::current();
    let path = path.as_ref();
    let id = process.act_on_names(|disk| {
        let id = disk.find(path)?;
        disk.folder(id).map(|_| id).ok_or_else(errors::not_a_folder)
    })?;
    let path_hash = hash_bytes(0, path.as_os_str().as_encoded_bytes());
    Syncing::start(&process, id, Target::Names(path_hash)).await
}

/// What is at `path`.
///
/// # Errors
/// `NotFound`, `NotADirectory`.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    Process::current().act_on_names(|disk| Ok(metadata_of(disk, disk.find(path.as_ref())?)))
}

/// Whether something is at `path`.
///
/// # Errors
/// Those of [`metadata`] but `NotFound`, as `std::fs::exists`.
pub async fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match metadata(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// All bytes of a file.
///
/// # Errors
/// See [`OpenOptions::open`](super::OpenOptions::open) and [`File::read_at`].
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    File::open(path).await?.simulated().read_all()
}

/// All of a file, as text.
///
/// # Errors
/// Those of [`read`]; `InvalidData` when it is not UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path).await?).map_err(|_| errors::not_text())
}

/// Creates a file, or cuts it to nothing, and writes `bytes`. Nothing is synced.
///
/// # Errors
/// See [`OpenOptions::open`](super::OpenOptions::open) and [`File::write_at`].
pub async fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path).await?.write_all_at(bytes.as_ref(), 0).await
}
