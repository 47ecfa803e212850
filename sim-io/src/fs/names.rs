//! Names: the changes to folders that are visible and not durable.
//!
//!   create, rename, remove ──► visible folder ──(pending changes)──sync_dir done──► durable folder
//!                                                     │
//!                                                power loss ──► each survives or not
//!
//! A rename is one change of two names, so that a power loss undoes both or none: rename-over leaves the old
//! or the new file, never none.
//!
//! Invariants: changes that share a name keep their order: one survives only if all earlier pending ones on
//! its names have; so do the removal of a folder and what emptied it, and what happens in a folder and how that
//! got its name. No file with a durable name is lost by moving it. A change belongs to the folder of its last
//! name (of a rename, the target), and is durable once that is synced, together with the earlier ones that it
//! needs; that a folder's own name is durable is for a sync of *its* folder.
//! Not here: walking paths (`disk.rs`).

use std::ffi::{OsStr, OsString};

use sim_runtime::rng::{hash_bytes, mix};

/// Names a file or folder of a disk; never reused.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u64);

/// What a change does to one name.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) dir: FileId,
    pub(super) name: OsString,
    pub(super) before: Option<FileId>,
    pub(super) after: Option<FileId>,
}

impl Link {
    fn is_of(&self, other: &Self) -> bool {
        self.dir == other.dir && self.name == other.name
    }
}

/// One change: of one name, or (a rename) of two, the target last.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    pub(super) links: Vec<Link>,
}

impl NameChange {
    fn home(&self) -> &Link {
        self.links.last().expect("a change has a name")
    }

    /// Whether this cannot be durable before `earlier` is: they share a name, or this removes a folder that
    /// `earlier` helped to empty.
    fn needs(&self, earlier: &Self) -> bool {
        let shares_a_name = |link: &Link| earlier.links.iter().any(|theirs| link.is_of(theirs));
        self.links.iter().any(shares_a_name)
            || self.dropped().any(|folder| earlier.links.iter().any(|theirs| theirs.dir == folder))
    }

    /// Whether this is in a folder to which `earlier` gave its name: when that is undone, this has no place
    /// (and a file that it moved stays where it was).
    fn is_inside_of(&self, earlier: &Self) -> bool {
        let named = |dir: FileId| earlier.links.iter().any(|theirs| theirs.after == Some(dir));
        self.links.iter().any(|link| named(link.dir))
    }

    /// Whom it leaves without a name.
    pub(super) fn dropped(&self) -> impl Iterator<Item = FileId> {
        let gone = self.links.iter().filter_map(|link| link.before);
        gone.filter(|id| !self.links.iter().any(|link| link.after == Some(*id)))
    }
}

/// The changes of one disk that are visible and not durable, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingNames {
    changes: Vec<NameChange>,
    /// Ordinal of each.
    ordinals: Vec<u64>,
    next: u64,
}

/// What a power loss made of the pending changes.
#[derive(Debug, Default)]
pub(super) struct NameFates {
    pub(super) kept: Vec<NameChange>,
    pub(super) lost: Vec<NameChange>,
}

impl PendingNames {
    pub(super) fn push(&mut self, change: NameChange) {
        self.changes.push(change);
        self.ordinals.push(self.next);
        self.next += 1;
    }

    /// The ordinal of the next change: a sync that begins now covers all below.
    pub(super) fn next_ordinal(&self) -> u64 {
        self.next
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NameChange> {
        self.changes.iter()
    }

    /// Takes out, in order, what a sync of `dir` that began at ordinal `upto` makes durable.
    pub(super) fn take_synced(&mut self, dir: FileId, upto: u64) -> Vec<NameChange> {
        self.take(|ordinal, change| ordinal < upto && change.home().dir == dir)
    }

    /// Takes out everything.
    pub(super) fn take_all(&mut self) -> Vec<NameChange> {
        self.ordinals.clear();
        std::mem::take(&mut self.changes)
    }

    /// Takes out what is wanted, and the earlier changes that it needs.
    fn take(&mut self, wanted: impl Fn(u64, &NameChange) -> bool) -> Vec<NameChange> {
        let count = self.changes.len();
        let mut needed: Vec<bool> =
            (0..count).map(|at| wanted(self.ordinals[at], &self.changes[at])).collect();
        for later in (0..count).rev() {
            for earlier in 0..later {
                needed[earlier] |= needed[later] && self.changes[later].needs(&self.changes[earlier]);
            }
        }
        let ordinals = std::mem::take(&mut self.ordinals);
        let mut taken = Vec::new();
        for (at, change) in std::mem::take(&mut self.changes).into_iter().enumerate() {
            if needed[at] {
                taken.push(change);
            } else {
                self.changes.push(change);
                self.ordinals.push(ordinals[at]);
            }
        }
        taken
    }

    /// Takes out everything, parted by what `survives` says of (the name, how many earlier changes of it were
    /// kept, whether a sync of its folder is in flight).
    pub(super) fn part(
        &mut self,
        is_flushing: impl Fn(FileId, u64) -> bool,
        survives: impl Fn(&Link, u64, bool) -> bool,
    ) -> NameFates {
        let ordinals = std::mem::take(&mut self.ordinals);
        let changes = std::mem::take(&mut self.changes);
        let mut fates = NameFates::default();
        for (change, ordinal) in changes.into_iter().zip(ordinals) {
            let home = change.home();
            let earlier = fates.kept.iter().filter(|kept| kept.home().is_of(home)).count() as u64;
            let undone = fates.lost.iter().any(|lost| change.needs(lost) || change.is_inside_of(lost));
            if !undone && survives(home, earlier, is_flushing(home.dir, ordinal)) {
                fates.kept.push(change);
            } else {
                fates.lost.push(change);
            }
        }
        fates
    }
}

/// A number for a name in a folder that has the number `dir`; the root has 0. It depends on the path alone,
/// so that an edit of a timeline leaves the fates of other files where they were.
pub(super) fn name_key(dir: u64, name: &OsStr) -> u64 {
    mix(dir, hash_bytes(0, name.as_encoded_bytes()))
}
