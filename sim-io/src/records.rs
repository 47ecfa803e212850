//! What the devices say happened: the typed trace records of this crate, kinds 100 to 199.
//!
//! Invariants: devices speak the truth; a record of a datagram carries a hash of all its bytes, so that one
//! flipped byte changes the behaviour digest.

use sim_runtime::NodeId;
use sim_runtime::trace::{Kind, Payload};

/// Declares a record of up to five words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$fdoc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: u64),* }

        impl Payload for $name {
            const KIND: Kind = Kind($kind);
            #[inline]
            fn encode(&self) -> (u32, [u64; 5]) {
                let mut words = [0; 5];
                for (word, value) in words.iter_mut().zip([$(self.$field),*]) {
                    *word = value;
                }
                (0, words)
            }
            #[inline]
            fn decode(_aux: u32, words: &[u64; 5]) -> Self {
                let [$($field,)* ..] = *words;
                Self { $($field),* }
            }
        }
    };
}

/// Why a datagram did not arrive.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Lost {
    /// The loss field of the link said so.
    Loss = 0,
    /// The link was cut, or the sides were parted.
    Cut = 1,
    /// The receiver was down, or nobody had bound the port.
    NoReceiver = 2,
    /// The receiver's buffer was full.
    BufferFull = 3,
    /// The receiver's machine was frozen, and so was all that its network card could hold.
    Frozen = 4,
}

/// A datagram went on its way (or was lost at once, see [`DatagramLost`]).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DatagramSent {
    /// To which node.
    pub to: NodeId,
    /// Bytes.
    pub len: u32,
    /// Hash of the bytes.
    pub payload: u64,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// When it will arrive, in global virtual time; 0 when it is lost.
    pub arrives_ns: u64,
    /// A number for the datagram, shared by its copies.
    pub id: u64,
}

impl Payload for DatagramSent {
    const KIND: Kind = Kind(100);
    #[inline]
    fn encode(&self) -> (u32, [u64; 5]) {
        let ports = u64::from(self.ports.0) << 16 | u64::from(self.ports.1);
        (self.len, [u64::from(self.to.0), self.payload, ports, self.arrives_ns, self.id])
    }
    #[inline]
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        let ports = ((w[2] >> 16) as u16, w[2] as u16);
        Self { to: NodeId(w[0] as u16), len: aux, payload: w[1], ports, arrives_ns: w[3], id: w[4] }
    }
}

/// A datagram reached the receiver's socket (the record's node is the receiver).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DatagramDelivered {
    /// From which node.
    pub from: NodeId,
    /// Bytes.
    pub len: u32,
    /// Hash of the bytes.
    pub payload: u64,
    /// Its number.
    pub id: u64,
}

impl Payload for DatagramDelivered {
    const KIND: Kind = Kind(101);
    #[inline]
    fn encode(&self) -> (u32, [u64; 5]) {
        (self.len, [u64::from(self.from.0), self.payload, self.id, 0, 0])
    }
    #[inline]
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        Self { from: NodeId(w[0] as u16), len: aux, payload: w[1], id: w[2] }
    }
}

/// A datagram is gone (the record's node is the sender).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DatagramLost {
    /// To which node it was sent.
    pub to: NodeId,
    /// Why.
    pub why: Lost,
    /// Its number.
    pub id: u64,
}

impl Payload for DatagramLost {
    const KIND: Kind = Kind(102);
    #[inline]
    fn encode(&self) -> (u32, [u64; 5]) {
        (self.why as u32, [u64::from(self.to.0), self.id, 0, 0, 0])
    }
    #[inline]
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        let why = match aux {
            0 => Lost::Loss,
            1 => Lost::Cut,
            2 => Lost::NoReceiver,
            3 => Lost::BufferFull,
            _ => Lost::Frozen,
        };
        Self { to: NodeId(w[0] as u16), why, id: w[1] }
    }
}

words! {
    /// Bytes [offset, offset + len) of `file` were written; they are visible, not durable.
    FileWritten = 110 { /** File id. */ file, /** First byte. */ offset, /** Bytes. */ len, /** Hash of the bytes. */ payload }
}
words! {
    /// The length of `file` was set.
    FileResized = 111 { /** File id. */ file, /** New length. */ len }
}
words! {
    /// An fsync of `file` (or a sync of that folder) began.
    FsyncStarted = 112 { /** File or folder id. */ file, /** When it will be done, in global virtual time, if the disk is not held up. */ done_ns }
}
words! {
    /// An fsync of `file` is done: what had been written before it began is durable.
    FsyncDone = 113 { /** File id. */ file }
}
words! {
    /// An fsync of `file` failed: its data is not durable, and reported clean to the next one.
    FsyncFailed = 114 { /** File id. */ file }
}
words! {
    /// What the power loss `fault` did to the unsynced sectors of `file`.
    /// `counts` is new << 48 | shorn << 32 | zero << 16 | old, each capped at 65,535.
    CrashedFile = 115 { /** File id. */ file, /** Fault id. */ fault, /** Sectors by fate. */ counts,
        /** Length on disk before, without what was unsynced. */ durable_len, /** Length found after. */ len }
}
words! {
    /// Names that a power loss undid: created, renamed or removed without a sync of their folder.
    CrashedNames = 116 { /** Fault id. */ fault, /** Changes lost. */ lost, /** Changes that survived. */ kept }
}
words! {
    /// Names of folder `dir` became durable.
    DirSynced = 117 { /** Hash of its path. */ dir }
}
words! {
    /// A name was created, renamed or removed; it is visible, not durable.
    NameChanged = 118 { /** Hash of the path. */ path, /** File id, 0 when removed. */ file }
}
words! {
    /// What was found in `file` after the power loss `fault`.
    FileAfterCrash = 119 { /** File id. */ file, /** Fault id. */ fault, /** Hash of all its bytes. */ payload }
}
words! {
    /// An fsync of `file` (or folder) reported success and made nothing durable.
    FsyncLied = 120 { /** File id. */ file }
}
words! {
    /// A durable bit of `file` flipped at the power loss `fault`.
    SectorRotted = 121 { /** File id. */ file, /** Fault id. */ fault, /** Which bit, from the first byte's lowest. */ bit }
}
words! {
    /// A read or write of `file` failed: EIO, or ENOSPC when the disk was full.
    FileIoFailed = 122 { /** File id. */ file, /** 1 when the disk was full. */ full }
}
words! {
    /// A planned fault took effect.
    FaultBegan = 130 { /** The fault's id in its plan. */ id, /** Hash of its kind's name. */ kind, /** Bit n for node n (the first 64). */ nodes }
}
words! {
    /// A planned fault ended.
    FaultEnded = 131 { /** The fault's id in its plan. */ id, /** Hash of its kind's name. */ kind }
}
