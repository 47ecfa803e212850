//! A record, decoded once for all oracles.
//!
//! Most records of a run are about datagrams, of which no oracle wants to know; they are told apart by their kind
//! before anything is decoded.

use raft_async::trace::{
    AppendAnswered, AppendSent, Became, CommandAcknowledged, CommitAdvanced, EntryAppended, EntryWritten,
    HardStateWritten, LogSummary, LogTruncated, ReadServed, Recovered, VoteAnswered, VoteAsked, VoteCounted,
};
use sim_io::records::{DirSynced, FileResized, FsyncDone, NameChanged};
use sim_runtime::trace::{Kind, NodeDown, NodeUp, Payload, Record};

use crate::records::{Acknowledged, Applied, Executed, Healed, Invoked, Quiesced, Settled, Unknown};

macro_rules! events {
    ($($variant:ident),* $(,)?) => {
        /// What an oracle can hear of.
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each variant holds the record of its name")]
        pub enum Event { $($variant($variant)),* }

        impl Event {
            /// Whether any oracle listens to records of that kind.
            #[inline]
            pub fn is_kind(kind: Kind) -> bool {
                $(const $variant: u16 = <$variant as Payload>::KIND.0;)*
                matches!(kind.0, $($variant)|*)
            }

            /// What `record` says; `None` for what no oracle listens to.
            #[inline(always)]
            pub fn of(record: &Record) -> Option<Self> {
                $(const $variant: u16 = <$variant as Payload>::KIND.0;)*
                match record.kind.0 {
                    $($variant => Some(Self::$variant($variant::decode(record.aux, &record.words))),)*
                    _ => None,
                }
            }
        }
    };
}

#[allow(non_upper_case_globals, reason = "constants named after the types whose kinds they are")]
mod events {
    use super::*;
    events! {
        NodeUp, NodeDown, FsyncDone, DirSynced, FileResized, NameChanged,
        Became, HardStateWritten, EntryAppended, EntryWritten, LogTruncated, CommitAdvanced, Recovered, VoteAsked, VoteAnswered,
        VoteCounted, AppendSent, AppendAnswered, ReadServed, CommandAcknowledged, LogSummary,
        Applied, Executed, Invoked, Acknowledged, Unknown, Healed, Quiesced, Settled,
    }
}
pub use events::Event;
