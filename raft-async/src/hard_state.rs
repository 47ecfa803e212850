//! Term and vote as two slots of a file that cannot be torn together.
//!
//!   offset 0      4,096
//!   │ slot 0 │ … │ slot 1 │ …        slot = magic │ sequence │ term │ vote │ zeros │ CRC-32
//!
//! "Persistent state on all servers (updated on stable storage before responding to RPCs)": the current term
//! and the vote (Figure 2). A save overwrites the slot that does *not* hold the current state, with the next
//! sequence number; the good slot with the higher number counts. A crash can spoil only the slot that was
//! being written, and the other still holds the state that was promised last.
//!
//! Invariant: the only good slot is never overwritten, except with the bytes that it holds already.
//! Not here: when to save (the roles), the file (`storage.rs`).

use crate::codec::{Malformed, Put, Reader, crc32};
use crate::mutant::{Mutant, Planted};
use crate::types::{ServerId, Term};

/// Slots are further apart than any sector or page that a disk could write as one.
pub const SLOT_STRIDE_BYTES: u64 = 4096;

/// How many bytes of a slot are used: one sector. Its checksum is the last of them, so that a write which was cut
/// anywhere is seen, also behind the state itself.
pub const SLOT_BYTES: usize = 512;

const CHECKSUM_AT: usize = SLOT_BYTES - 4;

/// The size of the file, written in full when it is created.
pub const FILE_BYTES: u64 = 2 * SLOT_STRIDE_BYTES;

const MAGIC: u32 = 0x4c54_5356;

/// What a server must not forget.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct HardState {
    /// "latest term server has seen".
    pub term: Term,
    /// "candidateId that received vote in current term (or null if none)".
    pub voted_for: Option<ServerId>,
}

/// A hard state together with its place in the file.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Slotted {
    /// The state.
    pub state: HardState,
    /// How many saves there were.
    pub sequence: u64,
    /// Which slot holds it, 0 or 1.
    pub slot: u8,
}

impl Slotted {
    /// What the file holds when it is created.
    pub const FIRST: Self =
        Self { state: HardState { term: Term(0), voted_for: None }, sequence: 0, slot: 0 };

    /// The save that follows: the other slot, the next number.
    pub fn following(self, state: HardState, planted: Planted) -> Self {
        let slot = if planted.has(Mutant::SingleSlot) { 0 } else { 1 - self.slot };
        Self { state, sequence: self.sequence + 1, slot }
    }

    /// Where its bytes go.
    pub fn offset(self) -> u64 {
        u64::from(self.slot) * SLOT_STRIDE_BYTES
    }

    /// Its bytes.
    pub fn encode(self) -> [u8; SLOT_BYTES] {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.put_u32(MAGIC);
        bytes.put_u64(self.sequence);
        bytes.put_u64(self.state.term.0);
        bytes.put_u16(self.state.voted_for.map_or(0, |server| server.0));
        let mut slot = [0; SLOT_BYTES];
        slot[..bytes.len()].copy_from_slice(&bytes);
        let checksum = crc32(&slot[..CHECKSUM_AT]);
        slot[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        slot
    }
}

fn decode_slot(file: &[u8], slot: u8) -> Result<Slotted, Malformed> {
    let start = usize::from(slot) * SLOT_STRIDE_BYTES as usize;
    let bytes = file.get(start..start + SLOT_BYTES).ok_or(Malformed)?;
    let (covered, checksum) = bytes.split_at(CHECKSUM_AT);
    if Reader(checksum).u32()? != crc32(covered) {
        return Err(Malformed);
    }
    let mut r = Reader(covered);
    if r.u32()? != MAGIC {
        return Err(Malformed);
    }
    let sequence = r.u64()?;
    let term = Term(r.u64()?);
    let vote = r.u16()?;
    let state = HardState { term, voted_for: (vote != 0).then_some(ServerId(vote)) };
    Ok(Slotted { state, sequence, slot })
}

/// Neither slot is good.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("both slots of the hard state are unreadable")]
pub struct BothSlotsBad;

/// Reads the file's contents: the good slot with the higher sequence number counts.
///
/// # Errors
/// [`BothSlotsBad`]: a server that went on from here could vote twice.
pub fn recover(file: &[u8], planted: Planted) -> Result<Slotted, BothSlotsBad> {
    let slots = [decode_slot(file, 0), decode_slot(file, 1)];
    match slots.into_iter().flatten().max_by_key(|slot| slot.sequence) {
        Some(slot) => Ok(slot),
        None if planted.has(Mutant::SingleSlot) || planted.has(Mutant::MetaMissingIsFresh) => {
            Ok(Slotted::FIRST)
        }
        None => Err(BothSlotsBad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &mut [u8], slotted: Slotted) {
        let start = slotted.offset() as usize;
        file[start..start + SLOT_BYTES].copy_from_slice(&slotted.encode());
    }

    fn saved(count: u64) -> (Vec<u8>, Slotted) {
        let mut file = vec![0; FILE_BYTES as usize];
        let mut current = Slotted::FIRST;
        write(&mut file, current);
        for term in 1..=count {
            let state = HardState { term: Term(term), voted_for: (term % 2 == 0).then_some(ServerId(3)) };
            current = current.following(state, Planted::NONE);
            write(&mut file, current);
        }
        (file, current)
    }

    #[test]
    fn the_latest_save_is_recovered() {
        for count in 0..6 {
            let (file, current) = saved(count);
            assert_eq!(recover(&file, Planted::NONE), Ok(current));
        }
    }

    /// A crash during a save leaves the old state or the new one, wherever the write was cut.
    #[test]
    fn a_save_torn_at_any_byte_leaves_the_old_state_or_the_new() {
        let (before, old) = saved(5);
        let new = old.following(HardState { term: Term(9), voted_for: Some(ServerId(1)) }, Planted::NONE);
        let mut after = before.clone();
        write(&mut after, new);
        for cut in 0..=SLOT_BYTES {
            for filler in [None, Some(0)] {
                let mut torn = after.clone();
                let at = new.offset() as usize;
                for i in at + cut..at + SLOT_BYTES {
                    torn[i] = filler.unwrap_or(before[i]);
                }
                let found = recover(&torn, Planted::NONE).expect("the other slot is whole");
                assert!(found == old || found == new, "cut at {cut}: {found:?}");
                if cut < SLOT_BYTES && torn != after {
                    assert_eq!(found, old, "cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn two_bad_slots_are_refused() {
        let (mut file, current) = saved(3);
        file[current.offset() as usize + 9] ^= 1;
        assert_eq!(recover(&file, Planted::NONE).map(|s| s.sequence), Ok(current.sequence - 1));
        file[(SLOT_STRIDE_BYTES - current.offset()) as usize + 9] ^= 1;
        assert_eq!(recover(&file, Planted::NONE), Err(BothSlotsBad));
        assert_eq!(recover(&[], Planted::NONE), Err(BothSlotsBad));
    }
}
