//! The log file format: segments of chained frames, and what a crash may leave of them.
//!
//!   segment = header │ frame │ frame │ …          named `log-00000001`, `log-00000002`, …
//!   header  = magic │ CRC-32 │ number │ base position │ first index │ chain
//!   frame   = length │ CRC-32 │ chain │ durable position │ index │ term │ command
//!
//! A *position* counts bytes from the start of the first segment, as if all were one file. The *chain* of a
//! frame is the CRC of the frame before it, so frames are good only in the order in which they were written: a
//! good frame that an earlier, cut tail left behind does not fit what was written in its place. Each frame says
//! which position was *durable* when its batch was written.
//!
//! That tells a torn tail from corruption. A crash can spoil only what was not durable; so a bad frame that no
//! later frame claims was durable is a torn tail, nobody was promised anything behind it, and it is cut. A bad
//! frame below a position that a later, intact frame (of any chain) calls durable was promised and is lost: the
//! server refuses to start. (Damage to the very last batch looks like a torn write, since nothing follows it.)
//!
//! Invariants: recovery is pure and total (any bytes give a log or a refusal); a new segment exists only when
//! all before it are durable, so its mere existence is such a claim too.
//! Not here: files and syncs (`storage.rs`), the order in which segments go (`log.rs`).

use crate::codec::{Fields, MAX_ENTRY_BYTES, Malformed, Put, Reader, crc32};
use crate::entries::{Entries, ROOM_TO_GROW};
use crate::mutant::{Mutant, Planted};
use crate::types::{Entry, Index};
use crc32fast::Hasher;
use std::sync::LazyLock;

/// Length of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 36;

/// Length of a frame up to its payload.
pub const FRAME_HEADER_BYTES: usize = 20;

const MAGIC: u32 = 0x4753_5452;
const MIN_PAYLOAD_BYTES: usize = 8 + 8 + 1;
const MAX_PAYLOAD_BYTES: usize = 8 + MAX_ENTRY_BYTES;

/// For a guess at how many entries a segment holds, before it is read.
const TYPICAL_FRAME_BYTES: usize = 72;

/// The name of segment number `number`.
pub fn segment_name(number: u64) -> String {
    format!("log-{number:08}")
}

/// The inverse of [`segment_name`].
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?;
    (digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// What a segment says of itself: how it continues the one before.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Its number, as in its name.
    pub number: u64,
    /// The position of its first byte.
    pub base: u64,
    /// The index of its first entry.
    pub first: Index,
    /// The CRC of the last frame before it.
    pub chain: u32,
}

impl SegmentHeader {
    /// The header of the first segment of an empty log.
    pub const FIRST: Self = Self { number: 1, base: 0, first: Index(1), chain: 0 };

    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(MAGIC);
        out.put_u32(0);
        out.put_u64(self.number);
        out.put_u64(self.base);
        out.put_u64(self.first.0);
        out.put_u32(self.chain);
        let checksum = crc32(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    }

    fn decode(segment: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader(segment.get(..SEGMENT_HEADER_BYTES).ok_or(Malformed)?);
        let (magic, checksum) = (r.u32()?, r.u32()?);
        if magic != MAGIC || crc32(r.0) != checksum {
            return Err(Malformed);
        }
        Ok(Self { number: r.u64()?, base: r.u64()?, first: Index(r.u64()?), chain: r.u32()? })
    }
}

/// Appends a frame to `out`; returns its CRC, the chain of the next one. `durable` is the position up to which
/// the log was durable when the batch that this frame belongs to was put together.
pub fn encode_frame(out: &mut Vec<u8>, chain: u32, durable: u64, index: Index, entry: &Entry) -> u32 {
    let mut frame = Fields::new();
    frame.put(&[0; 8]);
    frame.put_u32(chain);
    frame.put_u64(durable);
    frame.put_u64(index.0);
    frame.put_entry(entry);
    let (front, rest) = frame.bytes_mut().split_at_mut(8);
    let length = (front.len() + rest.len() - FRAME_HEADER_BYTES) as u32;
    let checksum = frame_checksum(length, rest);
    front[..4].copy_from_slice(&length.to_le_bytes());
    front[4..].copy_from_slice(&checksum.to_le_bytes());
    out.put(frame.bytes());
    checksum
}

/// Covers the length too, or a sheared length could pick out a shorter good frame.
fn frame_checksum(length: u32, after_checksum: &[u8]) -> u32 {
    // One for each length that a payload can have, since a hasher finds out what the processor can do and its copies know.
    static BLANK: LazyLock<Vec<Hasher>> =
        LazyLock::new(|| (0..=MAX_PAYLOAD_BYTES as u32).map(Hasher::new_with_initial).collect());
    let mut hasher = BLANK[length as usize].clone();
    hasher.update(after_checksum);
    hasher.finalize()
}

/// A frame taken by itself.
struct Frame {
    checksum: u32,
    intact: bool,
    chain: u32,
    durable: u64,
    index: Index,
    entry: Entry,
    bytes: usize,
}

/// Reads the frame at the front of `bytes`. [`Malformed`] when there cannot be one; a frame that could be read
/// and does not match its checksum is returned as not intact.
fn read_frame(bytes: &[u8]) -> Result<Frame, Malformed> {
    let mut header = Reader(Reader(bytes).chunk::<FRAME_HEADER_BYTES>()?);
    let (length, checksum) = (header.u32()?, header.u32()?);
    let (chain, durable) = (header.u32()?, header.u64()?);
    if !(MIN_PAYLOAD_BYTES..=MAX_PAYLOAD_BYTES).contains(&(length as usize)) {
        return Err(Malformed);
    }
    let total = FRAME_HEADER_BYTES + length as usize;
    let intact = frame_checksum(length, bytes.get(8..total).ok_or(Malformed)?) == checksum;
    let mut r = Reader(&bytes[FRAME_HEADER_BYTES..total]);
    let (index, entry) = (Index(r.u64()?), r.entry()?);
    r.end()?;
    Ok(Frame { checksum, intact, chain, durable, index, entry, bytes: total })
}

/// Where an entry's frame is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which of the log's segments, counted from 0.
    pub segment: u32,
    /// First byte in that segment.
    pub offset: u32,
    /// Length of the frame.
    pub len: u32,
    /// The frame's CRC: the chain of the next one.
    pub chain: u32,
}

impl Place {
    /// The first byte behind the frame.
    pub fn end(&self) -> u32 {
        self.offset + self.len
    }
}

/// A segment as it was read.
#[derive(Copy, Clone, Debug)]
pub struct SegmentBytes<'a> {
    /// The number in its name.
    pub number: u64,
    /// All its bytes.
    pub bytes: &'a [u8],
}

/// What a directory of segments holds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recovered {
    /// The log, from index 1.
    pub entries: Vec<Entry>,
    /// Where each entry is.
    pub places: Vec<Place>,
    /// The segments that hold them, in order.
    pub segments: Vec<SegmentHeader>,
    /// Length of the last of these segments without its torn tail, if it has one: cut the file here.
    pub cut: Option<u64>,
    /// The number of a last segment whose creation did not get as far as its header: remove it.
    pub unborn: Option<u64>,
    /// The highest position that a good frame calls durable. What lies behind it may be in a page cache only.
    pub claimed: u64,
}

/// The log holds less than it promised. The server must not start: it would vote and vouch as if the lost
/// entries had never been there.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Corrupt {
    /// A bad frame lies below a position that was durable.
    #[error(
        "segment {segment}: the frame at byte {offset} is bad, although the log was durable up to position {claimed} (the frame starts at {position})"
    )]
    DurableFrame {
        /// Number of the segment.
        segment: u64,
        /// The frame's first byte in it.
        offset: u64,
        /// The frame's position.
        position: u64,
        /// What a later frame, or segment, claims to have been durable.
        claimed: u64,
    },
    /// The header of a segment is unreadable although its frames were durable.
    #[error("segment {segment}: its header is bad, although frames behind it were durable")]
    DurableHeader {
        /// Number of the segment.
        segment: u64,
    },
    /// A segment does not continue the one before: something between them is missing.
    #[error("segment {segment}: begins at position {found}, but what is before it ends at {expected}")]
    Hole {
        /// Number of the segment.
        segment: u64,
        /// Where the log before it ends.
        expected: u64,
        /// Where it says it begins.
        found: u64,
    },
}

/// Reads a log from its segments, which must be in the order of their numbers.
///
/// # Errors
/// [`Corrupt`] when something that was durable is bad or missing.
pub fn recover(segments: &[SegmentBytes<'_>], planted: Planted) -> Result<Recovered, Corrupt> {
    let mut log = Recovered::default();
    let bytes: usize = segments.iter().map(|segment| segment.bytes.len()).sum();
    // A log that is read at boot goes on growing: room for that spares it the move.
    log.entries.reserve(bytes / TYPICAL_FRAME_BYTES + ROOM_TO_GROW);
    log.places.reserve(bytes / TYPICAL_FRAME_BYTES + ROOM_TO_GROW);
    recover_behind(&mut log, segments, planted)?;
    Ok(log)
}

/// Goes on where `log` ends, which was read from the front of the same segments: recovery looks at sound bytes once,
/// from front to back.
fn recover_behind(
    log: &mut Recovered,
    segments: &[SegmentBytes<'_>],
    planted: Planted,
) -> Result<(), Corrupt> {
    let last = log.places.last().copied();
    let first = last.map_or(0, |place| place.segment as usize);
    let mut chain = last.map_or(SegmentHeader::FIRST.chain, |place| place.chain);
    let mut end = last.map_or(0, |_| log.segments[first].base);

    for (i, segment) in segments.iter().enumerate().skip(first) {
        let is_last = i + 1 == segments.len();
        let bytes = segment.bytes;
        let mut offset = match last {
            Some(place) if i == first => place.end() as usize,
            _ => SEGMENT_HEADER_BYTES,
        };
        if offset == SEGMENT_HEADER_BYTES {
            let first = Index(log.entries.len() as u64 + 1);
            let expected = SegmentHeader { number: segment.number, base: end, first, chain };
            match SegmentHeader::decode(bytes) {
                Ok(header) if header == expected => log.segments.push(header),
                Ok(header) => {
                    return Err(Corrupt::Hole { segment: segment.number, expected: end, found: header.base });
                }
                Err(Malformed) if is_last && highest_claim(bytes) <= end => {
                    log.unborn = Some(segment.number);
                    return Ok(());
                }
                Err(Malformed) => return Err(Corrupt::DurableHeader { segment: segment.number }),
            }
        }
        while offset < bytes.len() {
            let index = Index(log.entries.len() as u64 + 1);
            let Some(frame) = good_frame(&bytes[offset..], chain, index, planted) else {
                let position = end + offset as u64;
                let claimed = if is_last { highest_claim(&bytes[offset + 1..]) } else { u64::MAX };
                if claimed > position {
                    let (segment, offset) = (segment.number, offset as u64);
                    return Err(Corrupt::DurableFrame { segment, offset, position, claimed });
                }
                log.cut = Some(offset as u64);
                return Ok(());
            };
            chain = frame.checksum;
            log.claimed = log.claimed.max(frame.durable);
            log.entries.push(frame.entry);
            log.places.push(Place {
                segment: i as u32,
                offset: offset as u32,
                len: frame.bytes as u32,
                chain,
            });
            offset += frame.bytes;
        }
        end += bytes.len() as u64;
    }
    Ok(())
}

/// Reads a log that changes, again and again, at the cost of what is new in it.
#[derive(Default, Debug)]
pub(crate) struct Rereader {
    /// The bytes that were read last, by number of the segment.
    seen: Vec<(u64, Vec<u8>)>,
    /// What was found in them; in case of corruption, up to there.
    log: Recovered,
}

impl Rereader {
    /// As [`recover`]. `entries` are those of last time, and are made those of now: in case of corruption, the ones
    /// before it.
    ///
    /// # Errors
    /// As [`recover`].
    pub(crate) fn recover(
        &mut self,
        segments: &[SegmentBytes<'_>],
        entries: &mut Entries,
    ) -> Result<(), Corrupt> {
        let kept = self.keep_what_is_in(segments);
        if kept == 0 {
            self.log.entries.reserve(ROOM_TO_GROW);
            self.log.places.reserve(ROOM_TO_GROW);
            entries.reserve(ROOM_TO_GROW);
        }
        let outcome = recover_behind(&mut self.log, segments, Planted::NONE);
        entries.truncate(Index(kept as u64 + 1));
        for entry in &self.log.entries[kept..] {
            entries.append(*entry);
        }
        outcome
    }

    /// Forgets all entries but those of the common front of last time's bytes and these.
    fn keep_what_is_in(&mut self, segments: &[SegmentBytes<'_>]) -> usize {
        self.seen.truncate(segments.len());
        let (mut same_segments, mut same_bytes) = (0, 0);
        for (i, segment) in segments.iter().enumerate() {
            if self.seen.len() <= i {
                let room = ROOM_TO_GROW * TYPICAL_FRAME_BYTES;
                self.seen.push((segment.number, Vec::with_capacity(room)));
            }
            let (number, seen) = &mut self.seen[i];
            let same = if *number == segment.number { common_front(seen, segment.bytes) } else { 0 };
            let whole = same == seen.len() && same == segment.bytes.len();
            if same_segments == i {
                (same_segments, same_bytes) = if whole { (i + 1, 0) } else { (i, same) };
            }
            *number = segment.number;
            seen.truncate(same);
            seen.extend_from_slice(&segment.bytes[same..]);
        }
        let log = &mut self.log;
        let front = (same_segments, same_bytes);
        let kept = log.places.partition_point(|place| {
            let (segment, end) = (place.segment as usize, place.end() as usize);
            segment < front.0 || segment == front.0 && end <= front.1
        });
        log.entries.truncate(kept);
        log.places.truncate(kept);
        log.segments.truncate(log.places.last().map_or(0, |place| place.segment as usize + 1));
        (log.cut, log.unborn) = (None, None);
        kept
    }
}

/// How many of the first bytes are the same.
fn common_front(a: &[u8], b: &[u8]) -> usize {
    let shorter = a.len().min(b.len());
    if a[..shorter] == b[..shorter] {
        return shorter;
    }
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The frame at the front of `bytes`, if it is intact and continues the log.
fn good_frame(bytes: &[u8], chain: u32, index: Index, planted: Planted) -> Option<Frame> {
    let frame = read_frame(bytes).ok()?;
    let good = (frame.intact || planted.has(Mutant::WalNoCrc))
        && (frame.chain == chain || planted.has(Mutant::WalNoChain))
        && frame.index == index;
    good.then_some(frame)
}

/// The highest position that any intact frame in `bytes` calls durable. Where the frames begin is not known
/// here, since the one before them is bad, so every byte is tried.
fn highest_claim(bytes: &[u8]) -> u64 {
    let mut highest = 0;
    let mut offset = 0;
    while offset + FRAME_HEADER_BYTES < bytes.len() {
        match read_frame(&bytes[offset..]) {
            Ok(frame) if frame.intact => {
                highest = highest.max(frame.durable);
                offset += frame.bytes;
            }
            _ => offset += 1,
        }
    }
    highest
}

#[cfg(test)]
mod tests;
