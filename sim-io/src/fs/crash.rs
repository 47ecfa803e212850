//! What a power loss leaves of one file.
//!
//!   pending log ──regime──► how much of it landed ──► length: one that the file had since the last sync
//!                                                └──► sectors: a version, or new up to a byte and older after
//!
//! Two regimes, for tails that are kept, lost or torn are all what recovery code must meet:
//! *in order* (some prefix of the log, its last write perhaps in part) and *scattered* (each sector by itself).
//!
//! The length is metadata and goes by the journal: the file has the length that it had after its first `k`
//! pending operations, and the cuts among those have happened: no byte that a cut removed comes back. Cuts
//! after the first `k` have not happened. Data goes sector by sector and may land in any order.
//!
//! Invariants: durable bytes that no pending operation covers are never touched; a byte that was never
//! written reads zero; a fate is a function of (fault, disk, path at creation, sector) and of nothing else;
//! where the field is calm everything is kept.
//! Not here: names (`names.rs`); which files are hit (`power.rs`).

use sim_runtime::Handle;
use sim_runtime::rng::{Sample, mix};

use super::config::FATE;
use super::content::{Change, Content};
use super::counters::Counters;

/// The unit in which a disk writes.
pub(super) const SECTOR: u64 = 512;
const SECTOR_BYTES: usize = SECTOR as usize;

/// How much of the pending log has landed.
#[derive(Copy, Clone, Debug)]
enum Regime {
    /// The first `whole` operations, and of the next one what lies below byte `cut`.
    InOrder { whole: usize, cut: u64 },
    /// Each sector has a fate of its own.
    Scattered,
}

/// Which version of a sector survived: below `cut` the one after `upto` of its writes, from there on the one
/// after `base` of them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Fate {
    upto: usize,
    base: usize,
    cut: usize,
}

impl Fate {
    fn version(upto: usize) -> Self {
        Self { upto, base: upto, cut: SECTOR_BYTES }
    }
}

/// The pending write `op` covers the bytes `start..end` of a sector.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Piece {
    sector: u64,
    op: usize,
    start: usize,
    end: usize,
}

/// How many bytes of a write survived, and how many did not.
#[derive(Copy, Clone, Default, Debug)]
struct Tally {
    kept: u64,
    missing: u64,
}

/// What became of one file's sectors, as the trace record wants it: an intermediate version, and what lies
/// beyond the end that survived, count as old.
#[derive(Copy, Clone, Default, Debug)]
pub(super) struct SectorCounts {
    pub(super) old: u64,
    pub(super) new: u64,
    pub(super) shorn: u64,
    pub(super) zero: u64,
}

impl SectorCounts {
    /// new << 48 | shorn << 32 | zero << 16 | old, each capped.
    pub(super) fn word(&self) -> u64 {
        let cap = |n: u64| n.min(0xFFFF);
        cap(self.new) << 48 | cap(self.shorn) << 32 | cap(self.zero) << 16 | cap(self.old)
    }
}

/// A power loss, as one file meets it.
pub(super) struct PowerLoss<'a> {
    pub(super) world: &'a Handle,
    /// Names (fault, disk, file).
    pub(super) key: u64,
    /// An fsync in flight covers this many of the pending operations; 0 for none.
    pub(super) flushing: usize,
}

impl PowerLoss<'_> {
    /// Decides, and puts what survived on the platter.
    pub(super) fn strike(&self, content: &mut Content, counters: &mut Counters) -> SectorCounts {
        let mut counts = SectorCounts::default();
        if content.ops.is_empty() {
            content.reread();
            return counts;
        }
        let whole_file = self.world.sample_fixed(FATE, mix(self.key, u64::MAX));
        let regime = self.regime(whole_file, content);
        let (steps, length) = self.length(whole_file, content, regime);
        count_length(content, steps, length, counters);

        let limits = limits_by_cuts(content, steps);
        let durable_len = content.durable.len() as u64;
        let mut platter = std::mem::take(&mut content.durable);
        platter.truncate(limits[0].min(length) as usize);
        platter.resize(length as usize, 0);

        let pieces = pieces(content, &limits[1..]);
        let mut tallies = vec![Tally::default(); content.ops.len()];
        for group in pieces.chunk_by(|a, b| a.sector == b.sector) {
            let fate = self.fate(regime, group);
            let mut sector = Sector { content, group, fate, length, durable_len };
            sector.tally(&mut tallies);
            sector.write(&mut platter, &mut counts, counters);
        }
        content.durable = platter;
        self.count_writes(content, &tallies, counters);
        content.reread();
        counts
    }

    fn regime(&self, file: Sample, content: &Content) -> Regime {
        let total = content.ops.len();
        let (kept, lost, in_order) = if self.flushing > 0 { (15, 25, 50) } else { (20, 45, 70) };
        let whole = match file.split(0).range(0, 99) {
            roll if roll < kept => total,
            roll if roll < lost => 0,
            roll if roll < in_order => {
                // What was being flushed is where the log most likely ends.
                let among =
                    if self.flushing > 0 && file.split(1).range(0, 3) > 0 { self.flushing } else { total };
                among - file.split(2).range(0, among as u64) as usize
            }
            _ => return Regime::Scattered,
        };
        let mut cut = 0;
        if let Some(op) = content.ops.get(whole)
            && op.change == Change::Write
            && (whole > 0 || is_torn_at_once(file))
        {
            cut = op.offset + file.split(3).range(0, op.len - 1);
        }
        Regime::InOrder { whole, cut }
    }

    /// After how many of the operations the length is the one that survived, and that length.
    fn length(&self, file: Sample, content: &Content, regime: Regime) -> (usize, u64) {
        let total = content.ops.len();
        let steps = match regime {
            Regime::InOrder { whole, .. } if whole == total => total,
            Regime::InOrder { whole, cut } => {
                let chance = if cut > 0 { 2 } else { 4 };
                whole + usize::from(file.split(5).range(1, chance) == 1)
            }
            Regime::Scattered => match file.split(6).range(0, 99) {
                0..55 => total,
                55..75 => 0,
                _ => file.split(7).range(0, total as u64) as usize,
            },
        };
        let before = content.durable.len() as u64;
        (steps, content.ops[..steps].iter().fold(before, |length, op| op.length_after(length)))
    }

    fn fate(&self, regime: Regime, group: &[Piece]) -> Fate {
        match regime {
            Regime::InOrder { whole, cut } => in_order(whole, cut, group),
            Regime::Scattered => self.scattered(group),
        }
    }

    fn scattered(&self, group: &[Piece]) -> Fate {
        let sample = self.world.sample_fixed(FATE, mix(self.key, group[0].sector));
        let all = group.len();
        let in_flight = group.iter().filter(|piece| piece.op < self.flushing).count();
        let (new, old, shorn) = if in_flight > 0 { (35, 45, 92) } else { (40, 65, 85) };
        match sample.split(0).range(0, 99) {
            roll if roll < new => {
                let only_flushed = in_flight > 0 && sample.split(1).range(0, 3) > 0;
                Fate::version(if only_flushed { in_flight } else { all })
            }
            roll if roll < old => Fate::version(0),
            roll if roll < shorn => {
                let upto = all - sample.split(2).range(0, all as u64 - 1) as usize;
                let base = sample.split(3).range(0, upto as u64 - 1) as usize;
                let start = group[base..upto].iter().map(|piece| piece.start).min().unwrap_or(0);
                let end = group[base..upto].iter().map(|piece| piece.end).max().unwrap_or(0);
                if end - start < 2 {
                    return Fate::version(upto);
                }
                let cut = sample.split(4).range(start as u64 + 1, end as u64 - 1) as usize;
                Fate { upto, base, cut }
            }
            _ => Fate::version(sample.split(5).range(0, all as u64) as usize),
        }
    }

    fn count_writes(&self, content: &Content, tallies: &[Tally], counters: &mut Counters) {
        let mut flushed = Tally::default();
        for (at, (op, tally)) in content.ops.iter().zip(tallies).enumerate() {
            if op.change != Change::Write {
                continue;
            }
            match (tally.kept, tally.missing) {
                (0, _) => counters.writes_lost += 1,
                (_, 0) => counters.writes_kept += 1,
                _ => counters.writes_torn += 1,
            }
            if at < self.flushing {
                flushed.kept += tally.kept;
                flushed.missing += tally.missing;
            }
        }
        counters.partial_flushes += u64::from(flushed.kept > 0 && flushed.missing > 0);
    }
}

/// Whether a log of which no whole operation landed has at least its first write torn.
fn is_torn_at_once(file: Sample) -> bool {
    file.split(4).range(0, 1) == 1
}

/// The first `whole` operations landed, and of the next what lies below byte `cut`.
fn in_order(whole: usize, cut: u64, group: &[Piece]) -> Fate {
    let landed = group.iter().filter(|piece| piece.op < whole).count();
    let Some(torn) = group.iter().find(|piece| piece.op == whole) else { return Fate::version(landed) };
    let cut = cut.saturating_sub(torn.sector * SECTOR).min(SECTOR) as usize;
    if cut <= torn.start {
        Fate::version(landed)
    } else if cut >= torn.end {
        Fate::version(landed + 1)
    } else {
        Fate { upto: landed + 1, base: landed, cut }
    }
}

/// How far what was there before operation n survives the cuts that happened (those among the first `steps`
/// operations) from n on: entry 0 for the durable bytes, entry n + 1 for what operation n wrote.
fn limits_by_cuts(content: &Content, steps: usize) -> Vec<u64> {
    let mut limits = vec![u64::MAX; content.ops.len() + 1];
    for at in (0..steps).rev() {
        let op = &content.ops[at];
        let cut = if op.change == Change::SetLen { op.offset } else { u64::MAX };
        limits[at] = limits[at + 1].min(cut);
    }
    limits
}

/// The pending writes, cut into sectors: by sector, then in the order in which they were written.
fn pieces(content: &Content, limits: &[u64]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (op_at, (op, limit)) in content.ops.iter().zip(limits).enumerate() {
        if op.change != Change::Write {
            continue;
        }
        let (mut from, end) = (op.offset, (op.offset + op.len).min(*limit));
        while from < end {
            let sector = from / SECTOR;
            let first = sector * SECTOR;
            let to = end.min(first + SECTOR);
            pieces.push(Piece {
                sector,
                op: op_at,
                start: (from - first) as usize,
                end: (to - first) as usize,
            });
            from = to;
        }
    }
    pieces.sort_unstable();
    pieces
}

fn count_length(content: &Content, steps: usize, length: u64, counters: &mut Counters) {
    let (old, new) = (content.durable.len() as u64, content.len());
    if old == new && content.ops.iter().all(|op| op.change != Change::SetLen) {
        return;
    }
    if length == new && (steps > 0 || old == new) {
        counters.lengths_new += 1;
    } else if length == old {
        counters.lengths_old += 1;
    } else {
        counters.lengths_between += 1;
    }
}

/// One sector that pending writes cover, and what is to become of it.
struct Sector<'a> {
    content: &'a Content,
    group: &'a [Piece],
    fate: Fate,
    /// Of the file, after.
    length: u64,
    /// Of the file on the platter, before.
    durable_len: u64,
}

impl Sector<'_> {
    fn first_byte(&self) -> u64 {
        self.group[0].sector * SECTOR
    }

    /// How many bytes of the sector are inside the file.
    fn inside(&self) -> usize {
        self.length.saturating_sub(self.first_byte()).min(SECTOR) as usize
    }

    fn apply(&self, pieces: &[Piece], bytes: &mut [u8; SECTOR_BYTES]) {
        for piece in pieces {
            let op = &self.content.ops[piece.op];
            let from = (self.first_byte() + piece.start as u64 - op.offset) as usize;
            let source = &self.content.bytes(op)[from..from + piece.end - piece.start];
            bytes[piece.start..piece.end].copy_from_slice(source);
        }
    }

    /// Whose bytes have landed.
    fn tally(&self, tallies: &mut [Tally]) {
        let inside = self.inside();
        for (at, piece) in self.group.iter().enumerate() {
            let landed_to = match at {
                _ if at < self.fate.base => piece.end,
                _ if at < self.fate.upto => piece.end.min(self.fate.cut),
                _ => 0,
            };
            let kept = landed_to.min(inside).saturating_sub(piece.start) as u64;
            tallies[piece.op].kept += kept;
            tallies[piece.op].missing += (piece.end - piece.start) as u64 - kept;
        }
    }

    /// Puts what survived on the platter, and says what that is, by comparison.
    fn write(&mut self, platter: &mut [u8], counts: &mut SectorCounts, counters: &mut Counters) {
        let inside = self.inside();
        let first_written = self.group.iter().map(|piece| piece.start).min().unwrap_or(0);
        if first_written >= inside {
            counts.old += 1;
            counters.sectors_cut_off += 1;
            return;
        }
        let start = self.first_byte() as usize;
        let there = &mut platter[start..start + inside];
        let mut old = [0; SECTOR_BYTES];
        old[..inside].copy_from_slice(there);
        let Fate { upto, base, cut } = self.fate;

        let mut found = old;
        self.apply(&self.group[..base], &mut found);
        let mut newer = found;
        self.apply(&self.group[base..upto], &mut newer);
        found[..cut].copy_from_slice(&newer[..cut]);
        let mut new = newer;
        self.apply(&self.group[upto..], &mut new);

        there.copy_from_slice(&found[..inside]);
        if found[..inside] == new[..inside] {
            counts.new += 1;
            counters.sectors_new += 1;
        } else if found[..inside] == old[..inside] {
            if self.first_byte() + first_written as u64 >= self.durable_len {
                counts.zero += 1;
                counters.sectors_zeroed += 1;
            } else {
                counts.old += 1;
                counters.sectors_old += 1;
            }
        } else if cut < SECTOR_BYTES {
            counts.shorn += 1;
            counters.sectors_shorn += 1;
        } else {
            counts.old += 1;
            counters.sectors_between += 1;
        }
    }
}
