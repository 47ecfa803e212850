//! What the devices say happened: the typed trace records of this crate, kinds 100 to 199.
//!
//! Invariants: devices speak the truth; a record of a datagram or of a stream's flight carries a hash of all its bytes, so that one
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

/// Why a datagram, or a segment of a stream, did not arrive.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Lost {
    /// The loss field of the link said so.
    Loss = 0,
    /// The link was cut, or the sides were parted.
    Cut = 1,
    /// The receiver was down, or nobody had bound the port.
    NoReceiver = 2,
    /// The receiver's buffer (for a connection that begins: the listener's backlog) was full.
    BufferFull = 3,
    /// The receiver's machine was frozen, and so was all that its network card could hold.
    Frozen = 4,
}

impl Lost {
    fn of(word: u32) -> Self {
        match word {
            0 => Self::Loss,
            1 => Self::Cut,
            2 => Self::NoReceiver,
            3 => Self::BufferFull,
            _ => Self::Frozen,
        }
    }
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
        Self { to: NodeId(w[0] as u16), why: Lost::of(aux), id: w[1] }
    }
}

/// Why a connection, or one side's share in it, ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ended {
    /// Nobody listened at the port.
    Refused = 0,
    /// The other side did not answer for too long.
    TimedOut = 1,
    /// The other side reset it.
    Reset = 2,
    /// This side reset it: data nobody will read, a killed process, an abort.
    Aborted = 3,
    /// Both directions came to their end.
    Closed = 4,
    /// The power of this side's machine failed: nobody was told.
    PowerLost = 5,
}

words! {
    /// A client began to connect (the record's node). `connection` names it in all records.
    ConnectionStarted = 103 { /** Which. */ connection, /** To which node. */ to, /** Client's port << 16 | server's. */ ports }
}
words! {
    /// A side considers the connection established.
    ConnectionOpened = 104 { /** Which. */ connection, /** 0 for the client's side, 1 for the server's. */ side }
}

/// A connection ended for one side (the record's node).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ConnectionEnded {
    /// Which.
    pub connection: u64,
    /// Why.
    pub how: Ended,
    /// 0 for the client's side, 1 for the server's.
    pub side: u64,
    /// Bytes that had arrived and were destroyed unread.
    pub destroyed: u64,
}

impl Payload for ConnectionEnded {
    const KIND: Kind = Kind(105);
    fn encode(&self) -> (u32, [u64; 5]) {
        (self.how as u32, [self.connection, self.side, self.destroyed, 0, 0])
    }
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        let how = match aux {
            0 => Ended::Refused,
            1 => Ended::TimedOut,
            2 => Ended::Reset,
            3 => Ended::Aborted,
            4 => Ended::Closed,
            _ => Ended::PowerLost,
        };
        Self { connection: w[0], how, side: w[1], destroyed: w[2] }
    }
}

/// Bytes of a stream went on their way (or were lost at once, see [`FlightLost`]).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FlightSent {
    /// Of which connection.
    pub connection: u64,
    /// To which node.
    pub to: NodeId,
    /// Bytes.
    pub len: u32,
    /// Hash of the bytes.
    pub payload: u64,
    /// The place of the first byte in the stream, counted from 1.
    pub begin: u64,
    /// When it will arrive, in global virtual time; 0 when it is lost, or waits for one that is.
    pub arrives_ns: u64,
}

impl Payload for FlightSent {
    const KIND: Kind = Kind(106);
    #[inline]
    fn encode(&self) -> (u32, [u64; 5]) {
        (self.len, [self.connection, u64::from(self.to.0), self.payload, self.begin, self.arrives_ns])
    }
    #[inline]
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        let to = NodeId(w[1] as u16);
        Self { connection: w[0], to, len: aux, payload: w[2], begin: w[3], arrives_ns: w[4] }
    }
}

/// Bytes of a stream arrived, in order (the record's node is the receiver). What several writes sent at one
/// instant arrives as one flight, with a hash over their hashes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FlightDelivered {
    /// Of which connection.
    pub connection: u64,
    /// From which node.
    pub from: NodeId,
    /// Bytes that had not arrived before.
    pub len: u32,
    /// Hash of what was sent.
    pub payload: u64,
    /// The place in the stream up to which all has arrived.
    pub end: u64,
}

impl Payload for FlightDelivered {
    const KIND: Kind = Kind(107);
    #[inline]
    fn encode(&self) -> (u32, [u64; 5]) {
        (self.len, [self.connection, u64::from(self.from.0), self.payload, self.end, 0])
    }
    #[inline]
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        Self { connection: w[0], from: NodeId(w[1] as u16), len: aux, payload: w[2], end: w[3] }
    }
}

/// A segment of a connection was lost, and will be sent again as long as its sender lives (the record's node).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FlightLost {
    /// Of which connection.
    pub connection: u64,
    /// To which node it was sent.
    pub to: NodeId,
    /// Why.
    pub why: Lost,
    /// Its first place in the stream.
    pub begin: u64,
}

impl Payload for FlightLost {
    const KIND: Kind = Kind(108);
    fn encode(&self) -> (u32, [u64; 5]) {
        (self.why as u32, [self.connection, u64::from(self.to.0), self.begin, 0, 0])
    }
    fn decode(aux: u32, w: &[u64; 5]) -> Self {
        Self { connection: w[0], to: NodeId(w[1] as u16), why: Lost::of(aux), begin: w[2] }
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
