//! Numbers, operations and entries as little-endian bytes: what the wire and the log file share.
//!
//! Reading never trusts a length: every read is checked against what is left, so that arbitrary bytes cost
//! an `Err(Malformed)`, never a panic and never an allocation larger than the input.

use crate::types::{Command, Entry, Key, Op, Sequence, SessionId, Term};
use crc32fast::Hasher;
use std::sync::LazyLock;

/// The bytes are not what they should be.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed bytes")]
pub struct Malformed;

/// The length of an operation.
const OP_BYTES: usize = 1 + 3 * 8;

/// The length of an entry's term, and of what its command is.
const ENTRY_HEAD_BYTES: usize = 8 + 1;

/// The length of what a client's command has beside that.
const CLIENT_BYTES: usize = 3 * 8 + OP_BYTES;

/// The longest encoding of an entry.
pub const MAX_ENTRY_BYTES: usize = ENTRY_HEAD_BYTES + CLIENT_BYTES;

/// The CRC-32 of `bytes`. A hasher finds out what the processor can do; its copies know.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    static BLANK: LazyLock<Hasher> = LazyLock::new(Hasher::new);
    let mut hasher = BLANK.clone();
    hasher.update(bytes);
    hasher.finalize()
}

/// Takes numbers off the front of a slice.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// As [`Reader::bytes`]: what is read from a length that is known needs no check of its own.
    #[inline]
    pub(crate) fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.chunk::<N>().copied()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Succeeds when nothing is left: trailing bytes are as malformed as missing ones.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    pub(crate) fn op(&mut self) -> Result<Op, Malformed> {
        let mut op = Reader(self.chunk::<OP_BYTES>()?);
        let tag = op.u8()?;
        let (key, a, b) = (Key(op.u64()?), op.u64()?, op.u64()?);
        Op::from_words(tag.into(), key, a, b).ok_or(Malformed)
    }

    pub(crate) fn entry(&mut self) -> Result<Entry, Malformed> {
        let mut head = Reader(self.chunk::<ENTRY_HEAD_BYTES>()?);
        let (term, tag) = (Term(head.u64()?), head.u8()?);
        let command = match tag {
            0 => Command::Noop,
            1 => {
                let mut client = Reader(self.chunk::<CLIENT_BYTES>()?);
                Command::Client {
                    session: SessionId(client.u64()?),
                    sequence: Sequence(client.u64()?),
                    ack_below: Sequence(client.u64()?),
                    op: client.op()?,
                }
            }
            _ => return Err(Malformed),
        };
        Ok(Entry { term, command })
    }
}

/// Appends encodings. All is inlined, so that the places of fields side by side are known where they are written.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    #[inline(always)]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }
    #[inline(always)]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }
    #[inline(always)]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    #[inline(always)]
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
    #[inline(always)]
    fn put_words<const N: usize>(&mut self, words: [u64; N]) {
        self.put(words.map(u64::to_le_bytes).as_flattened());
    }

    #[inline(always)]
    fn put_op(&mut self, op: &Op) {
        let (tag, key, a, b) = op.words();
        self.put_u8(tag as u8);
        self.put_words([key.0, a, b]);
    }

    #[inline(always)]
    fn put_entry(&mut self, entry: &Entry) {
        self.put_u64(entry.term.0);
        match entry.command {
            Command::Noop => self.put_u8(0),
            Command::Client { session, sequence, ack_below, op } => {
                self.put_u8(1);
                self.put_words([session.0, sequence.0, ack_below.0]);
                self.put_op(&op);
            }
        }
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Fields side by side on their way into a buffer: it is asked for room once, not for each of them.
pub(crate) struct Fields {
    bytes: [u8; MAX_FIELDS_BYTES],
    len: usize,
}

/// The most that fields may take together: those of an entry with what stands before it in a log file.
const MAX_FIELDS_BYTES: usize = 96;

impl Fields {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { bytes: [0; MAX_FIELDS_BYTES], len: 0 }
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Put for Fields {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    //! Strategies for property tests of what is built on this.

    use super::*;
    use proptest::prelude::*;

    pub(crate) fn op() -> impl Strategy<Value = Op> {
        (0..7_u64, any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(tag, key, a, b)| Op::from_words(tag, Key(key), a, b).expect("the tag is known"))
    }

    pub(crate) fn entry() -> impl Strategy<Value = Entry> {
        let client = (any::<u64>(), any::<u64>(), any::<u64>(), op()).prop_map(|(session, seq, ack, op)| {
            Command::Client {
                session: SessionId(session),
                sequence: Sequence(seq),
                ack_below: Sequence(ack),
                op,
            }
        });
        (any::<u64>(), prop_oneof![Just(Command::Noop), client])
            .prop_map(|(term, command)| Entry { term: Term(term), command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_survives_its_encoding(entry in arbitrary::entry()) {
            let mut bytes = Vec::new();
            bytes.put_entry(&entry);
            prop_assert!(bytes.len() <= MAX_ENTRY_BYTES);
            let mut reader = Reader(&bytes);
            let decoded = reader.entry().expect("it was just encoded");
            // Operands that an operation does not use are not kept, so compare what they mean.
            prop_assert_eq!(decoded.command.digest(), entry.command.digest());
            prop_assert_eq!(decoded, entry);
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }
}
