//! One node's disk: its files, its folders, and what a power loss leaves of both.
//!
//!   root ──name──► Folder ──name──► File { visible, pending, durable }
//!     each folder twice: as programs see it, and as it is on the platter
//!
//! Invariants: ids count up and are never reused; a file lives as long as a name (visible, durable, or in a
//! pending change), an open handle or an fsync in flight refers to it; after a power loss both sides of
//! everything agree.
//! Not here: bytes (`content.rs`), power losses (`power.rs`), time (`flights.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::config::DiskConfig;
use super::content::Content;
use super::errors;
use super::names::{FileId, Link, NameChange, PendingNames, name_key};
use super::trouble::Held;

/// The folder that everything is in.
pub(super) const ROOT: FileId = FileId(1);

/// A folder, as programs see it and as it is on the platter.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) visible: BTreeMap<OsString, FileId>,
    pub(super) durable: BTreeMap<OsString, FileId>,
}

impl Folder {
    fn names(&self, side: Side) -> &BTreeMap<OsString, FileId> {
        match side {
            Side::Visible => &self.visible,
            Side::Durable => &self.durable,
        }
    }
}

#[derive(Debug)]
pub(super) enum Body {
    File(Content),
    Folder(Folder),
}

/// A file or folder.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) body: Body,
    /// Made of the path under which it was created.
    pub(super) key: u64,
    /// Open handles, and fsyncs in flight.
    pub(super) held: u32,
    /// The folder that has its name on the platter.
    durable_in: Option<FileId>,
    /// How many pending changes take its name away.
    pub(super) dropping: u32,
}

/// Files by their paths; folders too, for the empty ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// Each file's bytes.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// All folders but the root.
    pub folders: BTreeSet<PathBuf>,
}

/// Which side of a disk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// What programs see.
    Visible,
    /// What is on the platter.
    Durable,
}

/// Where a path leads: a name in a folder that exists, taken or not.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: FileId,
    pub(super) name: OsString,
    pub(super) id: Option<FileId>,
    /// Made of the whole path.
    pub(super) key: u64,
    /// The path ends with a slash: what is there must be a folder.
    pub(super) is_folder: bool,
}

/// One node's disk.
#[derive(Debug)]
pub(super) struct Disk {
    /// Index: id - 1.
    pub(super) inodes: Vec<Option<Box<Inode>>>,
    pub(super) pending: PendingNames,
    /// Instead of the one for all disks.
    pub(super) config: Option<DiskConfig>,
    /// What faults do to it now.
    pub(super) troubles: Vec<Held>,
    /// Its configuration, made worse by those.
    pub(super) worsened: Option<DiskConfig>,
    /// Its machine stands still.
    pub(super) frozen: bool,
    /// So many of the next fsyncs of files fail.
    pub(super) failing_fsyncs: u32,
    /// How often the power has failed: handles of before are of another world.
    pub(super) power_losses: u32,
}

impl Default for Disk {
    fn default() -> Self {
        let mut disk = Self {
            inodes: Vec::new(),
            pending: PendingNames::default(),
            config: None,
            troubles: Vec::new(),
            worsened: None,
            frozen: false,
            failing_fsyncs: 0,
            power_losses: 0,
        };
        disk.create(Body::Folder(Folder::default()), 0);
        disk
    }
}

impl Disk {
    #[inline]
    pub(super) fn inode(&self, id: FileId) -> &Inode {
        self.inodes[id.0 as usize - 1].as_deref().expect("what is referred to exists")
    }

    #[inline]
    pub(super) fn inode_mut(&mut self, id: FileId) -> &mut Inode {
        self.inodes[id.0 as usize - 1].as_deref_mut().expect("what is referred to exists")
    }

    /// The bytes of a file; `None` for what is gone or a folder.
    #[inline]
    pub(super) fn content(&self, id: FileId) -> Option<&Content> {
        let slot = usize::try_from(id.0).ok()?.checked_sub(1)?;
        match &self.inodes.get(slot)?.as_deref()?.body {
            Body::File(content) => Some(content),
            Body::Folder(_) => None,
        }
    }

    /// The bytes of a file that an open handle or an fsync refers to.
    #[inline]
    pub(super) fn content_mut(&mut self, id: FileId) -> &mut Content {
        match &mut self.inode_mut(id).body {
            Body::File(content) => content,
            Body::Folder(_) => unreachable!("handles are of files"),
        }
    }

    pub(super) fn folder(&self, id: FileId) -> Option<&Folder> {
        match &self.inode(id).body {
            Body::Folder(folder) => Some(folder),
            Body::File(_) => None,
        }
    }

    fn folder_mut(&mut self, id: FileId) -> &mut Folder {
        match &mut self.inode_mut(id).body {
            Body::Folder(folder) => folder,
            Body::File(_) => unreachable!("names are in folders"),
        }
    }

    fn create(&mut self, body: Body, key: u64) -> FileId {
        let inode = Inode { body, key, held: 0, durable_in: None, dropping: 0 };
        self.inodes.push(Some(Box::new(inode)));
        FileId(self.inodes.len() as u64)
    }

    /// Makes a file or folder under a name that is free.
    pub(super) fn create_at(&mut self, place: &Place, body: Body) -> FileId {
        let id = self.create(body, place.key);
        self.change(vec![Link { dir: place.dir, name: place.name.clone(), before: None, after: Some(id) }]);
        id
    }

    /// Removes a name that is taken.
    pub(super) fn remove_at(&mut self, place: &Place) {
        self.change(vec![Link { dir: place.dir, name: place.name.clone(), before: place.id, after: None }]);
    }

    /// Moves what is at `from` to `to`, over what is there.
    pub(super) fn rename_to(&mut self, from: &Place, to: &Place) {
        let source = Link { dir: from.dir, name: from.name.clone(), before: from.id, after: None };
        let target = Link { dir: to.dir, name: to.name.clone(), before: to.id, after: from.id };
        let moves_a_folder = from.id.is_some_and(|id| self.folder(id).is_some()) && from.dir != to.dir;
        self.change(vec![source, target]);
        if moves_a_folder {
            // Some subsets of such moves would tie a folder into itself. The journal is flushed instead.
            let all = self.pending.take_all();
            all.into_iter().for_each(|change| self.make_durable(change));
        }
    }

    fn change(&mut self, links: Vec<Link>) {
        for link in &links {
            let names = &mut self.folder_mut(link.dir).visible;
            match link.after {
                Some(id) => names.insert(link.name.clone(), id),
                None => names.remove(&link.name),
            };
        }
        let change = NameChange { links };
        for id in change.dropped() {
            self.inode_mut(id).dropping += 1;
        }
        self.pending.push(change);
    }

    /// Puts a change on the platter.
    pub(super) fn make_durable(&mut self, change: NameChange) {
        for link in &change.links {
            let names = &mut self.folder_mut(link.dir).durable;
            match link.after {
                Some(id) => names.insert(link.name.clone(), id),
                None => names.remove(&link.name),
            };
            if let Some(id) = link.after {
                self.inode_mut(id).durable_in = Some(link.dir);
            }
        }
        for id in change.dropped() {
            self.inode_mut(id).dropping -= 1;
            self.inode_mut(id).durable_in = None;
        }
    }

    /// Whether the file has a name that survives every power loss.
    pub(super) fn is_named_durably(&self, id: FileId) -> bool {
        let mut at = id;
        while at != ROOT {
            let inode = self.inode(at);
            match inode.durable_in {
                Some(dir) if inode.dropping == 0 => at = dir,
                _ => return false,
            }
        }
        true
    }

    /// Where `path` leads; the folder before its last name must exist.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let names = self.names_of(path)?;
        let Some((last, folders)) = names.split_last() else { return Err(errors::root()) };
        let (dir, folder, key) = self.folder_at(folders)?;
        let id = folder.visible.get(*last).copied();
        let is_folder = asks_for_a_folder(path);
        if is_folder && id.is_some_and(|id| self.content(id).is_some()) {
            return Err(errors::not_a_folder());
        }
        Ok(Place { dir, name: last.to_os_string(), id, key: name_key(key, last), is_folder })
    }

    /// What is at `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<FileId> {
        if self.names_of(path)?.is_empty() {
            return Ok(ROOT);
        }
        self.place(path)?.id.ok_or_else(errors::not_found)
    }

    /// The folder that these names lead to, and the key of its path.
    fn folder_at(&self, names: &[&OsStr]) -> io::Result<(FileId, &Folder, u64)> {
        let (mut dir, mut key) = (ROOT, 0);
        for name in names {
            let folder = self.folder(dir).ok_or_else(errors::not_a_folder)?;
            dir = *folder.visible.get(*name).ok_or_else(errors::not_found)?;
            key = name_key(key, name);
        }
        Ok((dir, self.folder(dir).ok_or_else(errors::not_a_folder)?, key))
    }

    /// The names along a path, read from the root. `..` leads back from a folder that must be there; as there are
    /// no links, to where its letters say.
    fn names_of<'p>(&self, path: &'p Path) -> io::Result<Vec<&'p OsStr>> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir => {
                    self.folder_at(&names)?;
                    names.pop();
                }
                Component::Normal(name) => names.push(checked(name)?),
                Component::Prefix(_) => return Err(errors::bad_path()),
            }
        }
        if path.as_os_str().is_empty() {
            return Err(errors::not_found());
        }
        Ok(names)
    }

    /// Whether `dir` is `folder`, or somewhere in it.
    pub(super) fn is_within(&self, dir: FileId, folder: FileId) -> bool {
        let below = |names: &BTreeMap<OsString, FileId>| {
            names.values().any(|id| self.folder(*id).is_some() && self.is_within(dir, *id))
        };
        dir == folder || self.folder(folder).is_some_and(|folder| below(&folder.visible))
    }

    /// All files and folders of one side.
    pub(super) fn image(&self, side: Side) -> Image {
        let mut image = Image::default();
        self.add_to_image(side, ROOT, Path::new("/"), &mut image);
        image
    }

    /// The files in the folder `dir` of one side, by name; none if there is no such folder.
    pub(super) fn files_in(&self, side: Side, dir: &Path) -> Vec<(&OsStr, &[u8])> {
        let mut names = dir.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let folder = names.try_fold(ROOT, |at, name| self.folder(at)?.names(side).get(name).copied());
        let Some(folder) = folder.and_then(|id| self.folder(id)) else { return Vec::new() };
        let files = folder.names(side).iter().filter_map(|(name, id)| {
            let content = self.content(*id)?;
            Some((name.as_os_str(), content.side(side)))
        });
        files.collect()
    }

    fn add_to_image(&self, side: Side, dir: FileId, path: &Path, image: &mut Image) {
        let Some(folder) = self.folder(dir) else { return };
        for (name, id) in folder.names(side) {
            let path = path.join(name);
            match &self.inode(*id).body {
                Body::File(content) => {
                    image.files.insert(path, content.side(side).to_vec());
                }
                Body::Folder(_) => {
                    self.add_to_image(side, *id, &path, image);
                    image.folders.insert(path);
                }
            }
        }
    }

    /// Forgets what nothing refers to.
    pub(super) fn sweep(&mut self) {
        let mut wanted = vec![false; self.inodes.len()];
        let mut want = |id: FileId| wanted[id.0 as usize - 1] = true;
        want(ROOT);
        for inode in self.inodes.iter().flatten() {
            if let Body::Folder(folder) = &inode.body {
                folder.visible.values().chain(folder.durable.values()).for_each(|id| want(*id));
            }
        }
        for link in self.pending.iter().flat_map(|change| &change.links) {
            want(link.dir);
            link.before.iter().chain(&link.after).for_each(|id| want(*id));
        }
        for (slot, wanted) in self.inodes.iter_mut().zip(wanted) {
            if slot.as_ref().is_some_and(|inode| !wanted && inode.held == 0) {
                *slot = None;
            }
        }
    }

    /// Bytes of all files, as programs see them.
    pub(super) fn used_bytes(&self) -> u64 {
        self.files().filter_map(|id| self.content(id)).map(Content::len).sum()
    }

    /// The files, by id.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        let ids = (1..=self.inodes.len() as u64).map(FileId);
        ids.filter(|id| self.content(*id).is_some())
    }
}

/// Longer names are refused, as by most file systems.
const LONGEST_NAME_BYTES: usize = 255;

fn checked(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_encoded_bytes();
    match () {
        () if bytes.len() > LONGEST_NAME_BYTES => Err(errors::name_too_long()),
        () if bytes.contains(&0) => Err(errors::bad_path()),
        () => Ok(name),
    }
}

fn asks_for_a_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}
