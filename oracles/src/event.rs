//! What an oracle can hear of: the kinds of records that the judge reads.
//!
//! Most records of a run are about datagrams, of which no oracle wants to know; they are told apart by their kind
//! before anything is decoded.

use raft_async::trace::{
    AppendAnswered, AppendSent, Became, CommandAcknowledged, CommitAdvanced, EntryAppended, EntryWritten,
    HardStateWritten, LogSummary, LogTruncated, ReadServed, Recovered, VoteAnswered, VoteAsked, VoteCounted,
};
use sim_io::records::{DirSynced, FileResized, FsyncDone, NameChanged};
use sim_runtime::trace::{Kind, NodeDown, NodeUp, OPEN_KINDS, Payload, Record};

use crate::records::{Acknowledged, Applied, Executed, Healed, Invoked, Quiesced, Settled, Unknown};

macro_rules! events {
    ($($variant:ident),* $(,)?) => {
        /// What an oracle can hear of.
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each variant stands for the record of its name")]
        pub enum Event { $($variant),* }

        const BY_KIND: [Option<Event>; OPEN_KINDS as usize] = {
            let mut events = [None; OPEN_KINDS as usize];
            $(events[<$variant as Payload>::KIND.0 as usize] = Some(Event::$variant);)*
            events
        };
    };
}

events! {
    NodeUp, NodeDown, FsyncDone, DirSynced, FileResized, NameChanged,
    Became, HardStateWritten, EntryAppended, EntryWritten, LogTruncated, CommitAdvanced, Recovered, VoteAsked, VoteAnswered,
    VoteCounted, AppendSent, AppendAnswered, ReadServed, CommandAcknowledged, LogSummary,
    Applied, Executed, Invoked, Acknowledged, Unknown, Healed, Quiesced, Settled,
}

impl Event {
    /// What a record of that kind tells of; `None` where no oracle listens.
    #[inline]
    pub fn of(kind: Kind) -> Option<Self> {
        static EVENTS: [Option<Event>; OPEN_KINDS as usize] = BY_KIND;
        *EVENTS.get(usize::from(kind.0))?
    }
}

/// What `record` says. Its event has told of which type that is.
///
/// # Panics
/// When it is of another type.
#[inline]
pub fn said<P: Payload>(record: &Record) -> P {
    record.get().expect("the arm of an event reads the record of its name")
}
