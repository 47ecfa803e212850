//! What a node says of itself: the typed trace records of this crate, kinds 200 to 299.
//!
//! Every record is a claim. Oracles join them with what the devices know: "entry (index, term) is bytes
//! [offset, offset + len) of this file" is said here, which bytes are durable is said by the disk.
//!
//! Invariants: a record is emitted at the moment the fact becomes true for the code (before a message that
//! depends on it leaves, after the write that carries it was handed to the file), never later.
//! Not here: application (a wrapper around the state machine), acknowledgement (the client).

use crate::types::{Term, extend_digest};
use sim_runtime::trace::{Kind, Payload};

/// The role that a node takes, as written into [`Became`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RoleKind {
    /// Answers requests of leaders and candidates (§5.2).
    Follower = 0,
    /// Asks for votes (§5.2).
    Candidate = 1,
    /// Serves clients and replicates its log (§5.3).
    Leader = 2,
}

impl RoleKind {
    fn of(word: u64) -> Self {
        match word {
            0 => Self::Follower,
            1 => Self::Candidate,
            _ => Self::Leader,
        }
    }
}

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$fdoc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: u64),* }

        impl Payload for $name {
            const KIND: Kind = Kind($kind);
            fn encode(&self) -> (u32, [u64; 5]) {
                let mut words = [0; 5];
                for (word, value) in words.iter_mut().zip([$(self.$field),*]) {
                    *word = value;
                }
                (0, words)
            }
            fn decode(_aux: u32, words: &[u64; 5]) -> Self {
                let [$($field,)* ..] = *words;
                Self { $($field),* }
            }
        }
    };
}

/// The node took a role; for a leader, `last_*` is its log at election, the no-op of its term excluded.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Became {
    /// The role taken.
    pub role: RoleKind,
    /// The node's current term.
    pub term: u64,
    /// Index of the last entry of its log.
    pub last_index: u64,
    /// Term of that entry.
    pub last_term: u64,
    /// The node's commit index.
    pub commit: u64,
}

impl Payload for Became {
    const KIND: Kind = Kind(200);
    fn encode(&self) -> (u32, [u64; 5]) {
        (0, [self.role as u64, self.term, self.last_index, self.last_term, self.commit])
    }
    fn decode(_aux: u32, words: &[u64; 5]) -> Self {
        let [role, term, last_index, last_term, commit] = *words;
        Self { role: RoleKind::of(role), term, last_index, last_term, commit }
    }
}

payload! {
    /// The hard state was handed to the disk: bytes [offset, offset + len) of `file`. `vote` is 0 for none,
    /// else the server's id.
    HardStateWritten = 201 { /** Current term. */ term, /** Vote in that term. */ vote, /** File id. */ file,
        /** First byte. */ offset, /** Bytes. */ len }
}

payload! {
    /// An entry was handed to the disk: `place` is `offset << 24 | len` in `file`.
    /// `digest` covers the entry's command, not its index or term.
    EntryWritten = 202 { /** Position in the log. */ index, /** Term of the entry. */ term,
        /** Digest of the command. */ digest, /** File id. */ file, /** `offset << 24 | len`. */ place }
}

payload! {
    /// The node's log lost everything from `from` on (a conflict with a leader, §5.3).
    LogTruncated = 203 { /** First index removed. */ from, /** The node's current term. */ term }
}

payload! {
    /// The commit index moved to `index`; `term` is the node's current term at that moment.
    CommitAdvanced = 204 { /** New commit index. */ index, /** Current term. */ term,
        /** Term of the entry at `index`, 0 when the node has no such entry. */ entry_term }
}

payload! {
    /// What a booting node read from its disk.
    Recovered = 205 { /** Term. */ term, /** Vote, 0 for none. */ vote, /** Last index of the log. */ last_index,
        /** Its term. */ last_term, /** Digest over (term, command digest) of all entries, in order. */ log_digest }
}

payload! {
    /// A vote request is about to leave (candidate of `term`).
    VoteAsked = 206 { /** Term. */ term, /** Receiver. */ to, /** Candidate's last index. */ last_index,
        /** Candidate's last term. */ last_term }
}

payload! {
    /// A vote reply is about to leave.
    VoteAnswered = 207 { /** Term in the reply. */ term, /** Candidate. */ to, /** 1 when granted. */ granted }
}

payload! {
    /// A candidate counted a vote.
    VoteCounted = 208 { /** The candidate's term. */ term, /** Voter. */ from }
}

payload! {
    /// An AppendEntries request is about to leave. `count` entries follow (`prev_index`, `prev_term`).
    AppendSent = 209 { /** Term in the request. */ term, /** Receiver. */ to, /** Previous index. */ prev_index,
        /** Previous term. */ prev_term, /** `commit << 16 | count`. */ commit_count }
}

payload! {
    /// An AppendEntries reply is about to leave; on success it vouches for the log up to `match_index`.
    AppendAnswered = 210 { /** Term in the reply. */ term, /** Leader. */ to, /** 1 for success. */ success,
        /** Highest index known to match. */ match_index }
}

payload! {
    /// A leader answered a linearizable read from state applied up to `applied`.
    ReadServed = 211 { /** Term. */ term, /** Read index. */ read_index, /** Applied index. */ applied }
}

payload! {
    /// A leader told a client that its command at `index` is done.
    CommandAcknowledged = 212 { /** Term. */ term, /** Index. */ index, /** Session. */ session, /** Sequence number. */ sequence }
}

payload! {
    /// A frame from the network was malformed, truncated or oversized, and dropped.
    FrameRejected = 213 { /** Length in bytes. */ len, /** Sender's node id. */ from }
}

payload! {
    /// The node refuses to go on (corruption, a failed disk): the code of [`crate::Halt`].
    Halted = 214 { /** Numeric reason. */ reason }
}

payload! {
    /// The log as the code holds it in memory, said at elections and for fidelity sweeps.
    LogSummary = 215 { /** Last index. */ last_index, /** Last term. */ last_term,
        /** Digest over (term, command digest) of all entries, in order. */ log_digest }
}

/// The digest of a log that is one entry longer, from that entry's term and the digest of its command: for
/// those who follow a log from [`EntryWritten`] records and compare it with [`LogSummary`] or [`Recovered`].
/// The empty log has digest 0.
pub fn extend_log_digest(log_digest: u64, term: u64, command_digest: u64) -> u64 {
    extend_digest(log_digest, Term(term), command_digest)
}

payload! {
    /// An entry entered the log in memory. It is in no file yet: [`EntryWritten`] says when it is.
    EntryAppended = 216 { /** Position in the log. */ index, /** Term of the entry. */ term,
        /** Digest of the command. */ digest }
}
