//! The nouns of the paper, and the commands that the log carries.
//!
//! Everything here is `Copy` and small on purpose: an entry is shared between the log, the wire and the
//! writer by value, so that no message costs an allocation.
//!
//! Not here: how these are laid out in bytes (`codec.rs`), what operations do (`kv.rs`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::rc::Rc;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($word:ty)) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Hash, Serialize, Deserialize)]
        pub struct $name(pub $word);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number! {
    /// A logical clock: each term begins with an election (§5.1). Term 0 is before the first.
    Term(u64)
}
number! {
    /// A position in the log. The first entry has index 1; 0 stands for "before the log".
    Index(u64)
}
number! {
    /// A server of the cluster; equals its node id in the simulator, and is never 0.
    ServerId(u16)
}
number! {
    /// A client session: the scope in which sequence numbers count (§8; Ongaro's thesis, §6.3).
    SessionId(u64)
}
number! {
    /// A client's own number for one operation. A retry carries the same number.
    Sequence(u64)
}
number! {
    /// A key of the store.
    Key(u64)
}

impl Term {
    /// The term that a candidate of this term starts.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Index {
    /// The position before the first entry.
    pub const ZERO: Self = Self(0);

    /// The following position.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The preceding position; that of [`Index::ZERO`] is itself.
    pub fn prev(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The position `count` further on. Saturates, since the count may come from a peer.
    pub fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

/// Where a log ends, in the order of §5.4.1: "If the logs have last entries with different terms, then the
/// log with the later term is more up-to-date. If the logs end with the same term, then whichever log is
/// longer is more up-to-date."
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct LastEntry {
    /// Term of the last entry; 0 for an empty log. Compared first.
    pub term: Term,
    /// Index of the last entry; 0 for an empty log.
    pub index: Index,
}

/// One entry of the log. Its index is its position.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The term in which a leader created it.
    pub term: Term,
    /// What it asks the state machine to do.
    pub command: Command,
}

/// What an entry asks the state machine to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Nothing: a leader's first entry, so that it can commit what earlier terms left (§8).
    Noop,
    /// An operation of a client.
    Client {
        /// The client's session.
        session: SessionId,
        /// The client's number for this operation.
        sequence: Sequence,
        /// The client has the reply to, or has given up, every operation below this number.
        ack_below: Sequence,
        /// The operation.
        op: Op,
    },
}

impl Command {
    /// A fingerprint of the command, the same in the log, on the disk and in the trace.
    pub fn digest(&self) -> u64 {
        match *self {
            Self::Noop => fold(1, 0),
            Self::Client { session, sequence, ack_below, op } => {
                let (tag, key, a, b) = op.words();
                // Pairs of words side by side: every entry is digested at every server and at every recovery.
                let who = multiply(session.0 ^ DIGEST[0], sequence.0 ^ DIGEST[1]);
                let what = multiply(key.0 ^ DIGEST[1], a ^ DIGEST[2]);
                let rest = multiply(b ^ DIGEST[2], ack_below.0 << 8 ^ tag ^ DIGEST[0]);
                fold(who.rotate_left(17) ^ what, rest)
            }
        }
    }
}

/// The digest of a log that ends with an entry of `term` and a command of that digest, given the digest of what
/// precedes it; an empty log has digest 0.
pub fn extend_digest(log: u64, term: Term, command: u64) -> u64 {
    fold(fold(log, term.0), command)
}

/// An operation on one key.
///
/// A key holds nothing, a register (one number) or a list of numbers. The two put forms start the one or
/// the other; `append` starts a list where nothing was; `cas` starts a register there if it expects nothing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads the key.
    Get {
        /// The key.
        key: Key,
    },
    /// Makes the key a register.
    Put {
        /// The key.
        key: Key,
        /// Its new value.
        value: u64,
    },
    /// Makes the key a list of one element.
    PutList {
        /// The key.
        key: Key,
        /// The only element.
        item: u64,
    },
    /// Appends to the list, which may be missing.
    Append {
        /// The key.
        key: Key,
        /// The new last element.
        item: u64,
    },
    /// Sets the register to `new` if it holds `expected`; else returns what it holds.
    Cas {
        /// The key.
        key: Key,
        /// What the register must hold; `None` for a key that holds nothing.
        expected: Option<u64>,
        /// Its new value.
        new: u64,
    },
    /// Empties the key. Its version lives on in a tombstone.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Op {
    /// The key that the operation is about.
    pub fn key(&self) -> Key {
        self.words().1
    }

    /// Whether the operation leaves the state as it was, so that it can be answered without the log.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Get { .. })
    }

    /// (tag, key, first operand, second operand): the form that is hashed and encoded.
    pub(crate) fn words(&self) -> (u64, Key, u64, u64) {
        match *self {
            Self::Get { key } => (0, key, 0, 0),
            Self::Put { key, value } => (1, key, value, 0),
            Self::PutList { key, item } => (2, key, item, 0),
            Self::Append { key, item } => (3, key, item, 0),
            Self::Cas { key, expected: None, new } => (4, key, 0, new),
            Self::Cas { key, expected: Some(expected), new } => (5, key, expected, new),
            Self::Delete { key } => (6, key, 0, 0),
        }
    }

    /// The inverse of [`Op::words`]; `None` for an unknown tag.
    pub(crate) fn from_words(tag: u64, key: Key, a: u64, b: u64) -> Option<Self> {
        Some(match tag {
            0 => Self::Get { key },
            1 => Self::Put { key, value: a },
            2 => Self::PutList { key, item: a },
            3 => Self::Append { key, item: a },
            4 => Self::Cas { key, expected: None, new: b },
            5 => Self::Cas { key, expected: Some(a), new: b },
            6 => Self::Delete { key },
            _ => return None,
        })
    }
}

/// What a key can hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// One number.
    Register(u64),
    /// A list of numbers, shared so that a reply costs no copy.
    List(Rc<Vec<u64>>),
}

/// What an operation returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpReply {
    /// A `get`: what the key holds.
    Value(Option<Value>),
    /// A write that took effect, and the key's version after it: 1 for the first write ever, tombstones
    /// included. (So a write that was executed twice shows in the next reply.)
    Done {
        /// Number of writes that the key has seen.
        version: u64,
    },
    /// A compare-and-swap that found something else: what the key holds. Nothing changed.
    Mismatch(Option<Value>),
    /// The operation does not fit what the key holds (appending to a register), or the list is full.
    /// Nothing changed.
    Refused,
    /// A retry of an operation that the session has declared finished. Nothing changed now; whether an
    /// earlier attempt took effect is no longer known. A client never sees it for a call still waiting.
    Forgotten,
}

const DIGEST: [u64; 3] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

/// Multiplies to 128 bits and folds them to 64.
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// One step of a 64-bit hash (the finaliser of splitmix64). Its values are part of the disk and trace
/// formats, which is why it is not borrowed from a library.
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    let mut z = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x2545_f491_4f6c_dd1d);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Raft determines which of two logs is more up-to-date by comparing the index and term of the last
    /// entries in the logs" (§5.4.1).
    #[test]
    fn the_later_term_wins_and_only_then_the_longer_log() {
        let short_and_late = LastEntry { term: Term(3), index: Index(1) };
        let long_and_early = LastEntry { term: Term(2), index: Index(9) };
        let longer = LastEntry { term: Term(3), index: Index(2) };
        assert!(short_and_late > long_and_early);
        assert!(longer > short_and_late);
    }

    #[test]
    fn operations_survive_their_words() {
        let key = Key(7);
        for op in [
            Op::Get { key },
            Op::Put { key, value: 1 },
            Op::PutList { key, item: 2 },
            Op::Append { key, item: 3 },
            Op::Cas { key, expected: None, new: 4 },
            Op::Cas { key, expected: Some(0), new: 4 },
            Op::Delete { key },
        ] {
            let (tag, key, a, b) = op.words();
            assert_eq!(Op::from_words(tag, key, a, b), Some(op));
        }
        assert_eq!(Op::from_words(7, key, 0, 0), None);
    }

    #[test]
    fn digests_tell_commands_apart() {
        let of = |sequence, op| {
            Command::Client {
                session: SessionId(1),
                sequence: Sequence(sequence),
                ack_below: Sequence(0),
                op,
            }
            .digest()
        };
        let put = Op::Put { key: Key(1), value: 1 };
        let other = Op::Append { key: Key(1), item: 1 };
        assert_eq!(of(1, put), of(1, put));
        assert_ne!(of(1, put), of(2, put));
        assert_ne!(of(1, put), of(1, other));
        assert_ne!(of(1, put), Command::Noop.digest());
    }
}
