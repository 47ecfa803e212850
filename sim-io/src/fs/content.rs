//! The bytes of one file: what programs see, what is on the platter, and the writes in between.
//!
//!   write, set_len ──► visible ──(pending log)──fsync done──► durable
//!                                     │
//!                                power loss ──► `crash.rs` decides how much of the log has landed
//!
//! Pending operations are kept in order with a copy of their bytes, because a power loss may leave any version
//! that a sector had since the last sync. The log's buffers are reused: no allocation a write.
//!
//! Invariants: durable plus all pending operations is visible, but for the ranges in `lost`; what lands is
//! always a prefix of the log, so that syncs which overtake each other do no harm.
//! Not here: how long an fsync takes (`flights.rs`), what a power loss leaves (`crash.rs`).

use std::ops::Range;

use super::disk::Side;

/// What a pending operation is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Bytes were written.
    Write,
    /// Bytes were written, and a failed fsync has let go of them: only their effect on the length is left.
    Dropped,
    /// The length was set.
    SetLen,
}

/// A change that is visible and not durable.
#[derive(Copy, Clone, Debug)]
pub(super) struct Op {
    pub(super) change: Change,
    /// First byte of a write; the new length of a `SetLen`.
    pub(super) offset: u64,
    /// Bytes of a write; the old length of a `SetLen`.
    pub(super) len: u64,
    /// Where its bytes are, counted from the first byte that was ever logged.
    at: u64,
}

impl Op {
    /// The length of a file that was `before` long.
    pub(super) fn length_after(&self, before: u64) -> u64 {
        match self.change {
            Change::SetLen => self.offset,
            Change::Write | Change::Dropped => before.max(self.offset + self.len),
        }
    }

    /// The bytes that are the latest once it is durable.
    fn makes_latest(&self) -> Range<u64> {
        match self.change {
            Change::SetLen => self.offset.saturating_sub(BEFORE_CUT)..self.offset,
            Change::Write | Change::Dropped => self.offset..self.offset + self.len,
        }
    }

    /// The bytes that differ from what they were, or may.
    fn touches(&self) -> Range<u64> {
        match self.change {
            Change::SetLen => self.offset..self.len.max(self.offset),
            Change::Write | Change::Dropped => self.offset..self.offset + self.len,
        }
    }
}

/// The bytes of one file.
#[derive(Debug)]
pub(super) struct Content {
    visible: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) ops: Vec<Op>,
    log: Vec<u8>,
    /// Ordinal of `ops[0]`.
    first: u64,
    /// Position of `log[0]`.
    log_first: u64,
    /// No pending operation touches a byte below this.
    low: u64,
    /// Visible bytes that are neither durable nor pending: a failed fsync reported them clean.
    lost: Vec<Range<u64>>,
    /// What the latest fsync made durable; where it cut the file, the bytes before the cut are the latest.
    latest: Range<u64>,
}

/// How many bytes before a cut count as the latest.
const BEFORE_CUT: u64 = 8 * 1024;

impl Default for Content {
    fn default() -> Self {
        Self {
            visible: Vec::new(),
            durable: Vec::new(),
            ops: Vec::new(),
            log: Vec::new(),
            first: 0,
            log_first: 0,
            low: u64::MAX,
            lost: Vec::new(),
            latest: 0..0,
        }
    }
}

impl Content {
    /// What programs see.
    #[inline]
    pub(super) fn visible(&self) -> &[u8] {
        &self.visible
    }

    /// One side of it.
    pub(super) fn side(&self, side: Side) -> &[u8] {
        match side {
            Side::Visible => &self.visible,
            Side::Durable => &self.durable,
        }
    }

    /// The visible length.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.visible.len() as u64
    }

    /// Writes `bytes`; a gap between the old end and `offset` reads zero.
    #[inline]
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.visible, offset as usize, bytes);
        let at = self.log_first + self.log.len() as u64;
        self.log.extend_from_slice(bytes);
        self.push(Op { change: Change::Write, offset, len: bytes.len() as u64, at });
    }

    /// Cuts the file, or extends it by zeros.
    pub(super) fn set_len(&mut self, len: u64) {
        let at = self.log_first + self.log.len() as u64;
        self.push(Op { change: Change::SetLen, offset: len, len: self.len(), at });
        self.visible.resize(len as usize, 0);
    }

    #[inline]
    fn push(&mut self, op: Op) {
        self.low = self.low.min(op.offset);
        self.ops.push(op);
    }

    /// The bytes of a pending write.
    pub(super) fn bytes(&self, op: &Op) -> &[u8] {
        let start = (op.at - self.log_first) as usize;
        &self.log[start..start + op.len as usize]
    }

    /// The ordinal of the next operation: an fsync that begins now covers all below.
    #[inline]
    pub(super) fn next_ordinal(&self) -> u64 {
        self.first + self.ops.len() as u64
    }

    /// How many pending operations have an ordinal below `upto`.
    pub(super) fn pending_below(&self, upto: u64) -> usize {
        (upto.saturating_sub(self.first) as usize).min(self.ops.len())
    }

    /// An fsync that covered the ordinals below `upto` is done.
    pub(super) fn land(&mut self, upto: u64) {
        let landing = self.pending_below(upto);
        for at in 0..landing {
            let op = self.ops[at];
            let range = op.makes_latest();
            let before = if at == 0 { range.clone() } else { self.latest.clone() };
            self.latest = before.start.min(range.start)..before.end.max(range.end);
            match op.change {
                Change::Write => {
                    let from = (op.at - self.log_first) as usize;
                    let start = op.offset as usize;
                    put(&mut self.durable, start, &self.log[from..from + op.len as usize]);
                    self.forget_lost(op.touches());
                }
                Change::Dropped => {
                    let length = op.length_after(self.durable.len() as u64);
                    self.durable.resize(length as usize, 0);
                    self.lost.push(op.touches());
                }
                Change::SetLen => {
                    self.durable.resize(op.offset as usize, 0);
                    self.forget_lost(op.offset..u64::MAX);
                }
            }
        }
        self.forget(landing);
    }

    /// An fsync that covered the ordinals below `upto` failed: the kernel has marked the pages clean. Lengths
    /// stay pending, for they are in the file system's journal.
    pub(super) fn drop_data(&mut self, upto: u64) {
        let dropping = self.pending_below(upto);
        for op in &mut self.ops[..dropping] {
            if op.change == Change::Write {
                op.change = Change::Dropped;
            }
        }
    }

    fn forget(&mut self, count: usize) {
        self.first += count as u64;
        if count == self.ops.len() {
            self.log_first += self.log.len() as u64;
            self.ops.clear();
            self.log.clear();
            self.low = u64::MAX;
            return;
        }
        self.ops.drain(..count);
        let logged = (self.ops[0].at - self.log_first) as usize;
        self.log.drain(..logged);
        self.log_first += logged as u64;
        self.low = self.ops.iter().map(|op| op.offset).min().unwrap_or(u64::MAX);
    }

    /// These bytes are no longer lost: new ones are durable there, or they are cut off.
    #[inline]
    fn forget_lost(&mut self, range: Range<u64>) {
        if self.lost.is_empty() {
            return;
        }
        let before = std::mem::take(&mut self.lost);
        let parts = before.into_iter().flat_map(|lost| {
            let (start, end) = (lost.start, lost.end);
            [start..end.min(range.start), start.max(range.end)..end]
        });
        self.lost = parts.filter(|part| !part.is_empty()).collect();
    }

    /// Whether the visible bytes of `range` are on the platter, whatever a power loss does.
    pub(super) fn is_durable(&self, range: &Range<u64>) -> bool {
        let overlaps = |other: Range<u64>| other.start < range.end && range.start < other.end;
        range.end <= self.durable.len() as u64
            && range.end <= self.len()
            && (range.end <= self.low || !self.ops.iter().rev().any(|op| overlaps(op.touches())))
            && (self.lost.is_empty() || !self.lost.iter().any(|lost| overlaps(lost.clone())))
    }

    /// Whether the latest fsync made some of these bytes durable.
    pub(super) fn is_latest(&self, range: &Range<u64>) -> bool {
        self.latest.start < range.end && range.start < self.latest.end
    }

    /// Whether a power loss could change anything.
    pub(super) fn is_settled(&self) -> bool {
        self.ops.is_empty() && self.lost.is_empty()
    }

    /// After a power loss: what is on the platter is all there is. A cut that was under way may have landed, and then
    /// what was before it is the latest.
    pub(super) fn reread(&mut self) {
        for cut in self.ops.iter().filter(|op| op.change == Change::SetLen) {
            let range = cut.makes_latest();
            self.latest = self.latest.start.min(range.start)..self.latest.end.max(range.end);
        }
        self.forget(self.ops.len());
        self.lost.clear();
        self.visible.clear();
        self.visible.extend_from_slice(&self.durable);
    }

    /// A bit of the platter flips, and nothing is cached.
    pub(super) fn flip(&mut self, bit: u64) {
        let mask = 1 << (bit % 8);
        for side in [&mut self.durable, &mut self.visible] {
            if let Some(byte) = side.get_mut((bit / 8) as usize) {
                *byte ^= mask;
            }
        }
    }
}

/// Writes `bytes` at `start`, most often the end; a gap before them becomes zeros.
#[inline]
fn put(into: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    if start == into.len() {
        into.extend_from_slice(bytes);
        return;
    }
    let end = start + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    into[start..end].copy_from_slice(bytes);
}
