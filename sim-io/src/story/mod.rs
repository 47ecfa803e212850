//! The story of a run: what happened, for a person, as a space-time account.
//!
//! Modules in the order in which a run passes through them:
//!
//! | module | what is in it |
//! |---|---|
//! | [`tape`] | all records, events and messages of a run |
//! | [`told`] | what a record says in words; what a program adds to that ([`Program`]) |
//! | `devices` | the words for what runtime, network, disks and nemesis record |
//! | [`deeds`] | records with words, what each follows from, and which message arrived when |
//! | [`past`] | the causal past of what is to be explained, as much of it as fits |
//! | `rows` | deeds that are told in one line: a message with its receipt, one message to many |
//! | [`columns`] | a column a node, the text at the right, time downwards |
//! | [`lines`](mod@lines) | for programs: one JSON object a line, or every record in a line |
//! | [`perfetto`] | the trace event format of Chrome and Perfetto |
//!
//! A program that says nothing of itself gets the story of its `tracing` events, messages, crashes and faults
//! ([`Plain`]); one that does ([`Program`]) has its messages read and its reasons known.
//!
//! Invariant: a story is made of records, after the run. Nothing here is asked while one goes on, but for the copy of
//! what is sent ([`crate::net::Net::keep_contents`]).

pub mod tape;
pub mod told;
mod devices;
pub mod deeds;
pub mod past;
mod rows;
pub mod columns;
pub mod lines;
pub mod perfetto;

pub use columns::{Style, draw};
pub use deeds::{Deed, Deeds, Passage};
pub use devices::usual_words;
pub use lines::{as_json_lines, as_plain_lines};
pub use past::{Proof, Reach, select};
pub use perfetto::as_trace_events;
pub use tape::{Recording, Tape};
pub use told::{Plain, Program, Reads, Seen, Span, Told, Weight};
