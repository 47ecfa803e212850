//! What a power loss may leave, stated plainly: every permitted outcome by replay and by trying, no cleverness.
//!
//! A file is its durable bytes and the list of what was done since. Permitted after a power loss:
//!
//! * a length that the file had after its first k pending operations, for some k; the cuts among those k have
//!   happened, the others have not;
//! * each 512-byte sector for itself: for some i <= j and some b, the bytes below b as after the first j of the
//!   pending writes that touch the sector, and the bytes from b on as after the first i;
//! * the names after some subset of the pending changes, in order, such that a change is in it only if all
//!   earlier changes are that share a name with it, gave a name to its folder, or emptied the folder that it
//!   removes.
//!
//! Shares no code with `sim_io::fs`.

use std::collections::{BTreeMap, BTreeSet};

pub const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub enum Op {
    Write {
        at: usize,
        bytes: Vec<u8>,
    },
    /// A write that a failed fsync let go of: it has a length and no bytes.
    Dropped {
        end: usize,
    },
    SetLen(usize),
}

#[derive(Clone, Debug, Default)]
pub struct SpecFile {
    pub durable: Vec<u8>,
    pub visible: Vec<u8>,
    pub ops: Vec<Op>,
    /// Number of the first of `ops`.
    pub first: usize,
    /// A failed fsync has let go of some visible bytes.
    pub tainted: bool,
}

/// Kinds of survivors, for the question whether all were seen.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Seen {
    SectorOld,
    SectorNew,
    SectorShorn,
    SectorZero,
    SectorBetween,
    SectorCutOff,
    WriteTorn,
    LengthOld,
    LengthBetween,
    LengthNew,
    /// Of what a sync in flight covered: some bytes, all, none.
    FlushPartial,
    FlushWhole,
    FlushLost,
    /// A new name is there after all, or absent.
    CreatedKept,
    CreatedLost,
    /// A removed name stays away, or is back.
    RemovedKept,
    RemovedLost,
    /// A file has the new name, or the old one.
    RenamedKept,
    RenamedLost,
    /// A name leads to the new file, or the old one.
    RenameOverKept,
    RenameOverLost,
    /// Of the names that a sync in flight covered: some, all, none.
    NamesFlushPartial,
    NamesFlushWhole,
    NamesFlushLost,
    /// A file that no program could name any more, back with bytes that had been written to it.
    UnlinkedSurvivor,
    FileLost,
    FolderLost,
    DroppedDataLost,
    SyncAfterKill,
    CutBackUndone,
}

pub const ALL_SEEN: [Seen; 30] = [
    Seen::SectorOld,
    Seen::SectorNew,
    Seen::SectorShorn,
    Seen::SectorZero,
    Seen::SectorBetween,
    Seen::SectorCutOff,
    Seen::WriteTorn,
    Seen::LengthOld,
    Seen::LengthBetween,
    Seen::LengthNew,
    Seen::FlushPartial,
    Seen::FlushWhole,
    Seen::FlushLost,
    Seen::CreatedKept,
    Seen::CreatedLost,
    Seen::RemovedKept,
    Seen::RemovedLost,
    Seen::RenamedKept,
    Seen::RenamedLost,
    Seen::RenameOverKept,
    Seen::RenameOverLost,
    Seen::NamesFlushPartial,
    Seen::NamesFlushWhole,
    Seen::NamesFlushLost,
    Seen::UnlinkedSurvivor,
    Seen::FileLost,
    Seen::FolderLost,
    Seen::DroppedDataLost,
    Seen::SyncAfterKill,
    Seen::CutBackUndone,
];

pub type Tally = BTreeMap<Seen, u64>;

fn put(bytes: &mut Vec<u8>, at: usize, what: &[u8]) {
    let end = at + what.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(what);
}

impl SpecFile {
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        put(&mut self.visible, at, bytes);
        self.ops.push(Op::Write { at, bytes: bytes.to_vec() });
    }

    pub fn set_len(&mut self, len: usize) {
        if self.visible.len() != len {
            self.visible.resize(len, 0);
            self.ops.push(Op::SetLen(len));
        }
    }

    pub fn next(&self) -> usize {
        self.first + self.ops.len()
    }

    pub fn synced(&mut self, upto: usize) {
        while self.first < upto && !self.ops.is_empty() {
            match self.ops.remove(0) {
                Op::Write { at, bytes } => put(&mut self.durable, at, &bytes),
                Op::Dropped { end } if self.durable.len() < end => self.durable.resize(end, 0),
                Op::Dropped { .. } => {}
                Op::SetLen(len) => self.durable.resize(len, 0),
            }
            self.first += 1;
        }
        if self.ops.is_empty() && self.durable == self.visible {
            self.tainted = false;
        }
    }

    pub fn sync_failed(&mut self, upto: usize) {
        for n in self.first..upto.min(self.next()) {
            let op = &mut self.ops[n - self.first];
            if let Op::Write { at, bytes } = op {
                *op = Op::Dropped { end: *at + bytes.len() };
                self.tainted = true;
            }
        }
    }

    /// The sector's bytes after the first `landed` of the writes that touch it, when the cuts among the first
    /// `steps` operations have happened.
    fn sector(&self, sector: usize, steps: usize, landed: usize) -> [u8; SECTOR] {
        let start = sector * SECTOR;
        let mut bytes = [0; SECTOR];
        for (n, byte) in bytes.iter_mut().enumerate() {
            *byte = self.durable.get(start + n).copied().unwrap_or(0);
        }
        let mut seen = 0;
        for (number, op) in self.ops.iter().enumerate() {
            match op {
                Op::Write { at, bytes: written } if touches(*at, written.len(), sector) => {
                    seen += 1;
                    if seen <= landed {
                        let from = start.max(*at);
                        let to = (start + SECTOR).min(at + written.len());
                        bytes[from - start..to - start].copy_from_slice(&written[from - at..to - at]);
                    }
                }
                Op::SetLen(len) if number < steps && *len < start + SECTOR => {
                    bytes[len.saturating_sub(start)..].fill(0);
                }
                _ => {}
            }
        }
        bytes
    }

    fn length_after(&self, steps: usize) -> usize {
        self.ops[..steps].iter().fold(self.durable.len(), |length, op| match op {
            Op::Write { at, bytes } => length.max(at + bytes.len()),
            Op::Dropped { end } => length.max(*end),
            Op::SetLen(len) => *len,
        })
    }

    /// Whether `found` is permitted after a power loss; `flushing` operations were covered by an fsync in
    /// flight. Adds what kinds of survivors it shows.
    pub fn judge(&self, found: &[u8], flushing: usize, tally: &mut Tally) -> Result<(), String> {
        let mut why = Vec::new();
        for steps in (0..=self.ops.len()).rev().filter(|steps| self.length_after(*steps) == found.len()) {
            match self.judge_with(found, steps, flushing) {
                Ok(seen) => {
                    seen.into_iter().for_each(|kind| *tally.entry(kind).or_default() += 1);
                    return Ok(());
                }
                Err(reason) => why.push(reason),
            }
        }
        Err(format!("no permitted length and sectors: length {}, {why:?}", found.len()))
    }

    fn judge_with(&self, found: &[u8], steps: usize, flushing: usize) -> Result<Vec<Seen>, String> {
        let mut seen = Vec::new();
        let mut landed_bytes = vec![(0, 0); self.ops.len()];
        let last = self.ops.iter().map(|op| match op {
            Op::Write { at, bytes } => at + bytes.len(),
            _ => 0,
        });
        let end = last.max().unwrap_or(0).max(found.len());
        for sector in 0..end.div_ceil(SECTOR) {
            self.judge_sector(found, sector, steps, &mut seen, &mut landed_bytes)?;
        }
        let flushed = landed_bytes[..flushing].iter().fold((0, 0), |sum, op| (sum.0 + op.0, sum.1 + op.1));
        match flushed {
            (0, 0) => {}
            (_, 0) => seen.push(Seen::FlushWhole),
            (0, _) => seen.push(Seen::FlushLost),
            _ => seen.push(Seen::FlushPartial),
        }
        seen.extend(
            landed_bytes.iter().filter(|(kept, gone)| *kept > 0 && *gone > 0).map(|_| Seen::WriteTorn),
        );
        if self.durable.len() != self.visible.len() {
            seen.push(match found.len() {
                len if len == self.visible.len() => Seen::LengthNew,
                len if len == self.durable.len() => Seen::LengthOld,
                _ => Seen::LengthBetween,
            });
        }
        let cut = |op: &Op| matches!(op, Op::SetLen(len) if *len < self.durable.len());
        if self.ops.iter().skip(steps).any(cut) && found.len() == self.durable.len() {
            seen.push(Seen::CutBackUndone);
        }
        if self.tainted && found != self.visible {
            seen.push(Seen::DroppedDataLost);
        }
        Ok(seen)
    }

    fn judge_sector(
        &self,
        found: &[u8],
        sector: usize,
        steps: usize,
        seen: &mut Vec<Seen>,
        landed_bytes: &mut [(usize, usize)],
    ) -> Result<(), String> {
        let start = sector * SECTOR;
        let inside = found.len().saturating_sub(start).min(SECTOR);
        let writes: Vec<(usize, usize, usize)> = (self.ops.iter().enumerate())
            .filter_map(|(number, op)| match op {
                Op::Write { at, bytes } if touches(*at, bytes.len(), sector) => {
                    let from = start.max(*at) - start;
                    Some((number, from, (at + bytes.len() - start).min(SECTOR)))
                }
                _ => None,
            })
            .collect();
        let found = &found[start.min(found.len())..][..inside];
        let versions: Vec<[u8; SECTOR]> = (0..=writes.len()).map(|n| self.sector(sector, steps, n)).collect();
        let agrees_from = |version: &[u8; SECTOR]| {
            (0..inside).rev().find(|n| version[*n] != found[*n]).map_or(0, |n| n + 1)
        };
        let agrees_to =
            |version: &[u8; SECTOR]| (0..inside).find(|n| version[*n] != found[*n]).unwrap_or(inside);
        // Below b as version j, from b on as version i <= j.
        let fits = (0..=writes.len()).rev().find_map(|j| {
            let upto = agrees_to(&versions[j]);
            (0..=j).rev().find_map(|i| (agrees_from(&versions[i]) <= upto).then_some((i, j, upto)))
        });
        let Some((i, j, upto)) = fits else {
            return Err(format!("sector {sector} is no mixture of its {} versions", versions.len()));
        };
        for (n, (op, from, to)) in writes.iter().enumerate() {
            let kept = match n {
                _ if n < i => to.min(&inside).saturating_sub(*from),
                _ if n < j => to.min(&inside).min(&upto).saturating_sub(*from),
                _ => 0,
            };
            landed_bytes[*op].0 += kept;
            landed_bytes[*op].1 += to - from - kept;
        }
        let Some(first) = writes.iter().map(|(_, from, _)| *from).min() else { return Ok(()) };
        let is = |version: usize| versions[version][..inside] == *found;
        seen.push(match () {
            () if first >= inside => Seen::SectorCutOff,
            () if is(writes.len()) => Seen::SectorNew,
            () if is(0) && start + first >= self.durable.len() => Seen::SectorZero,
            () if is(0) => Seen::SectorOld,
            () if (0..writes.len()).any(is) => Seen::SectorBetween,
            () => Seen::SectorShorn,
        });
        Ok(())
    }
}

fn touches(at: usize, len: usize, sector: usize) -> bool {
    len > 0 && at < (sector + 1) * SECTOR && at + len > sector * SECTOR
}

/// (Folder, name), before, after.
pub type Link = ((u64, String), Option<u64>, Option<u64>);

/// Names, visible and durable.
#[derive(Clone, Debug, Default)]
pub struct SpecNames {
    pub visible: BTreeMap<(u64, String), u64>,
    pub durable: BTreeMap<(u64, String), u64>,
    /// Number of the change; the last link is in the folder that it belongs to.
    pub pending: Vec<(usize, Vec<Link>)>,
    pub changes: usize,
}

/// `later` shares a name with `earlier`, or removes a folder in which `earlier` changed something.
fn needs(later: &[Link], earlier: &[Link]) -> bool {
    let shares = later.iter().any(|x| earlier.iter().any(|y| x.0 == y.0));
    let removes = |id: u64| later.iter().any(|x| x.1 == Some(id)) && later.iter().all(|x| x.2 != Some(id));
    shares || earlier.iter().any(|y| removes(y.0.0))
}

/// `later` changes a folder that `earlier` named.
fn is_inside(later: &[Link], earlier: &[Link]) -> bool {
    later.iter().any(|x| earlier.iter().any(|y| y.2 == Some(x.0.0)))
}

fn apply(names: &mut BTreeMap<(u64, String), u64>, links: &[Link]) {
    for (place, _, after) in links {
        match after {
            Some(id) => names.insert(place.clone(), *id),
            None => names.remove(place),
        };
    }
}

impl SpecNames {
    pub fn change(&mut self, links: Vec<Link>) {
        apply(&mut self.visible, &links);
        self.pending.push((self.changes, links));
        self.changes += 1;
    }

    pub fn synced(&mut self, dir: u64, upto: usize) {
        let mut wanted: BTreeSet<usize> = (self.pending.iter())
            .filter(|(number, links)| *number < upto && links.last().is_some_and(|link| link.0.0 == dir))
            .map(|(number, _)| *number)
            .collect();
        loop {
            let needs = |(number, links): &&(usize, Vec<Link>)| {
                !wanted.contains(number)
                    && self.pending.iter().any(|(n, l)| wanted.contains(n) && n > number && needs(l, links))
            };
            let more: Vec<usize> = self.pending.iter().filter(needs).map(|(number, _)| *number).collect();
            if more.is_empty() {
                break;
            }
            wanted.extend(more);
        }
        for (number, links) in std::mem::take(&mut self.pending) {
            if wanted.contains(&number) {
                apply(&mut self.durable, &links);
            } else {
                self.pending.push((number, links));
            }
        }
    }

    /// All paths of one side.
    pub fn paths(names: &BTreeMap<(u64, String), u64>, root: u64) -> BTreeMap<String, u64> {
        fn walk(
            names: &BTreeMap<(u64, String), u64>,
            dir: u64,
            path: &str,
            into: &mut BTreeMap<String, u64>,
        ) {
            for ((_, name), id) in names.iter().filter(|((of, _), _)| *of == dir) {
                let path = format!("{path}/{name}");
                walk(names, *id, &path, into);
                into.insert(path, *id);
            }
        }
        let mut paths = BTreeMap::new();
        walk(names, root, "", &mut paths);
        paths
    }

    /// Whether these paths are permitted after a power loss. `flushing` says of each folder with a sync in
    /// flight which changes it covers: those below the number.
    pub fn judge(
        &self,
        found: &BTreeMap<String, u64>,
        root: u64,
        flushing: &[(u64, usize)],
        tally: &mut Tally,
    ) -> Result<(), String> {
        let count = self.pending.len();
        assert!(count <= 12, "programs are kept small enough to try all subsets");
        for subset in 0..1_u32 << count {
            let chosen = |n: usize| subset & 1 << n != 0;
            let closed = (0..count).filter(|n| chosen(*n)).all(|n| {
                let links = &self.pending[n].1;
                let tied = |earlier: &[Link]| needs(links, earlier) || is_inside(links, earlier);
                (0..n).all(|earlier| chosen(earlier) || !tied(&self.pending[earlier].1))
            });
            if !closed {
                continue;
            }
            let mut names = self.durable.clone();
            (0..count).filter(|n| chosen(*n)).for_each(|n| apply(&mut names, &self.pending[n].1));
            if Self::paths(&names, root) == *found {
                self.tally_names(chosen, flushing, tally);
                return Ok(());
            }
        }
        Err(format!("no permitted names: {found:?}"))
    }

    /// What kinds of survivors it is when the `chosen` ones of the pending changes have survived.
    fn tally_names(&self, chosen: impl Fn(usize) -> bool, flushing: &[(u64, usize)], tally: &mut Tally) {
        let (mut kept, mut lost) = (0, 0);
        for (n, (number, links)) in self.pending.iter().enumerate() {
            let (of_kept, of_lost) = match &links[..] {
                [(_, None, _)] => (Seen::CreatedKept, Seen::CreatedLost),
                [_] => (Seen::RemovedKept, Seen::RemovedLost),
                [_, (_, None, _)] => (Seen::RenamedKept, Seen::RenamedLost),
                _ => (Seen::RenameOverKept, Seen::RenameOverLost),
            };
            *tally.entry(if chosen(n) { of_kept } else { of_lost }).or_default() += 1;
            let dir = links.last().expect("a change has links").0.0;
            if flushing.iter().any(|(of, upto)| *of == dir && number < upto) {
                *(if chosen(n) { &mut kept } else { &mut lost }) += 1;
            }
        }
        let flushed = match (kept, lost) {
            (0, 0) => return,
            (_, 0) => Seen::NamesFlushWhole,
            (0, _) => Seen::NamesFlushLost,
            _ => Seen::NamesFlushPartial,
        };
        *tally.entry(flushed).or_default() += 1;
    }
}
