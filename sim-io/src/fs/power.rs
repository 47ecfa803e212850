//! A power loss, as one disk meets it: names first, then the files that still have one.
//!
//!   pending names ──kept?──► folders ──unreachable?──► gone
//!                                  └──► each file with unsynced bytes ──► `crash.rs` ──► bit rot, if any
//!
//! Invariants: a fate is a function of (fault, disk, path) and of nothing else; where the field is calm every
//! name is kept; a file that has lost its name is gone, whatever was synced of it.
//! Not here: the fates of bytes (`crash.rs`), the order of names (`names.rs`), syncs (`flights.rs`).

use std::collections::BTreeMap;

use sim_runtime::Handle;
use sim_runtime::rng::{hash_bytes, mix};

use super::config::{NAME_FATE, ROT};
use super::content::Content;
use super::counters::Counters;
use super::crash::{PowerLoss, SECTOR, SectorCounts};
use super::disk::{Body, Disk, ROOT};
use super::names::{FileId, Link, NameFates, name_key};

/// What became of a file, for the trace.
#[derive(Debug)]
pub(super) struct FileFate {
    pub(super) id: FileId,
    pub(super) counts: SectorCounts,
    pub(super) durable_len: u64,
    pub(super) len: u64,
    pub(super) payload: u64,
}

/// What a power loss did.
#[derive(Debug, Default)]
pub(super) struct Losses {
    pub(super) names_lost: u64,
    pub(super) names_kept: u64,
    pub(super) files: Vec<FileFate>,
    /// File, bit.
    pub(super) rotten: Vec<(FileId, u64)>,
}

/// What a sync in flight covers.
#[derive(Copy, Clone, Debug)]
pub(super) struct Covers {
    pub(super) id: FileId,
    pub(super) upto: u64,
}

/// Which sectors have a bit flipped.
#[derive(Copy, Clone, Debug)]
pub(super) struct Rot {
    pub(super) per_million: u32,
    pub(super) spares_latest: bool,
}

impl Disk {
    /// The power fails: decides what survives, and makes both sides agree on it.
    pub(super) fn lose_power(
        &mut self,
        world: &Handle,
        key: u64,
        in_flight: &[Covers],
        rot: Rot,
        counters: &mut Counters,
    ) -> Losses {
        let mut losses = Losses::default();
        let before = self.files().count();
        self.lose_names(world, key, in_flight, &mut losses);
        counters.names_lost += losses.names_lost;
        counters.names_kept += losses.names_kept;
        counters.files_lost += (before - self.files().count()) as u64;
        for id in self.files().collect::<Vec<_>>() {
            let key = mix(key, self.inode(id).key);
            let content = self.content_mut(id);
            if !content.is_settled() {
                let durable_len = content.durable.len() as u64;
                let covered = in_flight.iter().filter(|sync| sync.id == id);
                let flushing = covered.map(|sync| content.pending_below(sync.upto)).max().unwrap_or(0);
                let counts = PowerLoss { world, key, flushing }.strike(content, counters);
                let payload = hash_bytes(0, content.visible());
                losses.files.push(FileFate { id, counts, durable_len, len: content.len(), payload });
            }
            if rot.per_million > 0 {
                rot.strike(world, key, content, |bit| losses.rotten.push((id, bit)));
            }
        }
        counters.sectors_rotten += losses.rotten.len() as u64;
        self.power_losses += 1;
        losses
    }

    fn lose_names(&mut self, world: &Handle, key: u64, in_flight: &[Covers], losses: &mut Losses) {
        let folder_keys: BTreeMap<FileId, u64> =
            self.pending.iter().flat_map(|c| &c.links).map(|l| (l.dir, self.inode(l.dir).key)).collect();
        let is_flushing = |dir, ordinal| in_flight.iter().any(|sync| sync.id == dir && ordinal < sync.upto);
        let survives = |link: &Link, earlier: u64, flushing: bool| {
            let folder = folder_keys[&link.dir];
            let regime = world.sample_fixed(NAME_FATE, mix(key, folder)).range(0, 99);
            let own = world.sample_fixed(NAME_FATE, mix(key, name_key(folder, &link.name))).split(earlier);
            match regime {
                0..25 => true,
                25..50 if !flushing => false,
                _ => own.range(0, 99) < if flushing { 70 } else { 50 },
            }
        };
        let NameFates { kept, lost } = self.pending.part(is_flushing, survives);
        (losses.names_kept, losses.names_lost) = (kept.len() as u64, lost.len() as u64);
        kept.into_iter().for_each(|change| self.make_durable(change));
        for inode in self.inodes.iter_mut().flatten() {
            inode.dropping = 0;
            if let Body::Folder(folder) = &mut inode.body {
                folder.visible.clone_from(&folder.durable);
            }
        }
        self.forget_unreachable();
    }

    /// Forgets what has no path from the root. Handles of before the power loss do not count: they are dead.
    fn forget_unreachable(&mut self) {
        let mut reached = vec![false; self.inodes.len()];
        let mut todo = vec![ROOT];
        while let Some(id) = todo.pop() {
            reached[id.0 as usize - 1] = true;
            if let Body::Folder(folder) = &self.inode(id).body {
                todo.extend(folder.durable.values().copied());
            }
        }
        for (slot, reached) in self.inodes.iter_mut().zip(reached) {
            match slot {
                Some(inode) if reached => inode.held = 0,
                slot => *slot = None,
            }
        }
    }
}

impl Rot {
    /// Flips a bit in some of the sectors.
    fn strike(self, world: &Handle, key: u64, content: &mut Content, mut note: impl FnMut(u64)) {
        let sectors = content.len().div_ceil(SECTOR);
        for sector in 0..sectors {
            let bytes = sector * SECTOR..((sector + 1) * SECTOR).min(content.len());
            if self.spares_latest && content.is_latest(&bytes) {
                continue;
            }
            let sample = world.sample_fixed(ROT, mix(key, sector));
            if sample.split(0).chance(self.per_million) {
                let bit = sample.split(1).range(bytes.start * 8, bytes.end * 8 - 1);
                content.flip(bit);
                note(bit);
            }
        }
    }
}
