//! Told: what a record says in words, and how much it matters.
//!
//!   record, message ──Program::tell──► Told { text, weight, causes, .. }
//!                     └─ nothing to say ─► `devices`
//!
//! Not here: messages' ways from sending to receipt (`deeds.rs`), what is shown (`past.rs`).

use std::collections::BTreeMap;

use sim_runtime::NodeId;
use sim_runtime::event::{Event, Value};
use sim_runtime::trace::Record;

use crate::records as io;

/// How much a deed matters by itself, to a reader who wants to know how it came to the end.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Weight {
    /// Told only when everything is, or when it proves something: it says again what another record says, or what
    /// goes without saying. What it follows from is told for all that.
    #[default]
    Detail,
    /// Told when something follows from it.
    Cause,
    /// Told where there is room: it sets the scene.
    Scene,
    /// Told before other things that set the scene: somebody goes down, or comes back.
    Turn,
}

/// The beginning or the end of something that lasts, for tracks of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Span {
    /// Neither.
    #[default]
    None,
    /// Something begins on that track of the node; what was there ends.
    Begins(String, String),
    /// What was on that track ends.
    Ends(String),
}

/// What a record says.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// In words. Of a message: what it means, without sender and receiver.
    pub text: String,
    /// What a message meets where it arrives, for the receiver's record.
    pub note: String,
    /// What deeds of this kind are called where they are only counted, in the plural; empty for those that are not.
    pub label: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// Ordinals of the records that it follows from. (A receipt follows from the sending without being told.)
    pub causes: Vec<u64>,
    /// How the node's line is drawn from here on, when that changes.
    pub line: Option<char>,
    /// Its mark in the node's column.
    pub mark: char,
    /// Other nodes that it happens to.
    pub struck: Vec<NodeId>,
    /// What begins or ends.
    pub span: Span,
}

impl Told {
    /// Words of a weight.
    pub fn new(weight: Weight, text: impl Into<String>) -> Self {
        Self { text: text.into(), weight, mark: '●', ..Self::default() }
    }

    /// The same, following from these records.
    #[must_use]
    pub fn after(mut self, causes: impl IntoIterator<Item = u64>) -> Self {
        self.causes.extend(causes);
        self
    }

    /// The same, counted under this name when not told.
    #[must_use]
    pub fn counted(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// The same with another mark.
    #[must_use]
    pub fn marked(mut self, mark: char) -> Self {
        self.mark = mark;
        self
    }
}

/// A record with what belongs to it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Its place among all records.
    pub ordinal: u64,
    /// The record.
    pub record: &'a Record,
    /// The `tracing` event that it stands for.
    pub event: Option<&'a Event>,
    /// The messages that leave or arrive with it: one for a datagram, any number for a piece of a stream. Of one that
    /// arrives: the record of its sending.
    pub messages: Vec<(&'a [u8], Option<u64>)>,
    /// The other end of those.
    pub peer: NodeId,
    /// Whether they arrive; else they leave.
    pub arrives: bool,
    /// Of a receipt: the record of the (first) sending.
    pub sent: Option<u64>,
}

/// A program that says what its records and messages mean. Records come in their order.
pub trait Program {
    /// What a node is called in its column: two characters, or a few more.
    fn name(&self, node: NodeId) -> String {
        node.to_string()
    }

    /// How long the first message of a stream is; `None` when there is none yet, or streams carry no messages.
    fn frame_bytes(&self, stream: &[u8]) -> Option<usize> {
        let _ = stream;
        None
    }

    /// What a record says; `None` where the usual words will do.
    fn tell(&mut self, seen: &Seen<'_>) -> Option<Told>;

    /// Adds to the usual words for a record.
    fn amend(&mut self, seen: &Seen<'_>, told: &mut Told) {
        let _ = (seen, told);
    }

    /// What passed without being told, by [`Told::label`], the most first.
    fn summary(&self, counts: &BTreeMap<&'static str, u64>) -> Vec<String> {
        let mut counts: Vec<_> = counts.iter().map(|(label, count)| (*count, *label)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.into_iter().map(|(count, label)| format!("{label} ×{count}")).collect()
    }

    /// A line on what marks and lines mean.
    fn legend(&self) -> String {
        "o─> message  ● event  # fault  x down  ^ up".to_owned()
    }
}

/// A program of which nothing is known but what it says through `tracing`: each deed follows from the one before
/// it on its node.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    latest: BTreeMap<NodeId, u64>,
    reads: Option<Reads>,
}

/// What a datagram says in words, where it is understood.
pub type Reads = fn(&[u8]) -> Option<String>;

impl Plain {
    /// One whose datagrams are read to us.
    pub fn reading(reads: Option<Reads>) -> Self {
        Self { reads, ..Self::default() }
    }

    fn datagram(&self, seen: &Seen<'_>, len: u32) -> String {
        let read = seen.messages.first().and_then(|(bytes, _)| self.reads?(bytes));
        read.unwrap_or_else(|| format!("{len} bytes"))
    }
}

impl Program for Plain {
    fn tell(&mut self, seen: &Seen<'_>) -> Option<Told> {
        let node = seen.record.node;
        let before = self.latest.get(&node).copied();
        let told = if let Some(event) = seen.event {
            Told::new(Weight::Scene, describe(event)).counted("events")
        } else if let Some(io::DatagramSent { len, .. }) = seen.record.get() {
            Told::new(Weight::Cause, self.datagram(seen, len)).counted("datagrams")
        } else if let Some(io::DatagramDelivered { len, .. }) = seen.record.get() {
            Told::new(Weight::Cause, self.datagram(seen, len))
        } else if let Some(io::FlightSent { len, connection, .. }) = seen.record.get() {
            Told::new(Weight::Cause, format!("{len} bytes of stream {connection}"))
                .counted("pieces of streams")
        } else if let Some(io::FlightDelivered { len, connection, .. }) = seen.record.get() {
            Told::new(Weight::Cause, format!("{len} bytes of stream {connection}"))
        } else {
            return None;
        };
        self.latest.insert(node, seen.ordinal);
        Some(told.after(before))
    }
}

/// An event's name and fields.
pub fn describe(event: &Event) -> String {
    let field = |(name, value): &(&str, Value)| match value {
        Value::U64(value) => format!(" {name}={value}"),
        Value::I64(value) => format!(" {name}={value}"),
        Value::Bool(value) => format!(" {name}={value}"),
        Value::Text(value) => format!(" {name}={value}"),
    };
    event.name.clone() + &event.fields().iter().map(field).collect::<String>()
}
