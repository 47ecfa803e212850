//! Deeds: records with words, what each follows from, and which message arrived when.
//!
//!   Tape ──Program, devices──► Deeds
//!
//! Invariant: the place of a deed is the ordinal of its record.

use std::collections::BTreeMap;
use std::ops::Index;

use sim_runtime::NodeId;
use sim_runtime::trace::{EventCaptured, Record};

use super::devices::{Devices, lost};
use super::tape::Tape;
use super::told::{Program, Seen, Told, Weight, describe};
use crate::net::Contents;
use crate::records as io;

/// The way of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Passage {
    /// It is none.
    #[default]
    None,
    /// It leaves.
    Sent {
        /// To whom.
        to: NodeId,
        /// Its receipts: none, one, or one for each copy.
        arrivals: Vec<u64>,
        /// Why it did not arrive, when it did not.
        lost: Option<&'static str>,
    },
    /// It arrives.
    Received {
        /// From whom.
        from: NodeId,
        /// The sending; of several messages that arrive together, that of the first.
        sent: Option<u64>,
        /// Whether it was sent with everything that arrives with it.
        alone: bool,
    },
}

/// A record with words.
#[derive(Clone, Debug)]
pub struct Deed {
    /// When, in global virtual time.
    pub time_ns: u64,
    /// Where.
    pub node: NodeId,
    /// In which incarnation.
    pub incarnation: u32,
    /// What it says.
    pub told: Told,
    /// Of a message: its way.
    pub passage: Passage,
}

/// All deeds of a run, by ordinal.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    all: Vec<Deed>,
    names: BTreeMap<NodeId, String>,
}

impl Index<u64> for Deeds {
    type Output = Deed;

    fn index(&self, ordinal: u64) -> &Deed {
        &self.all[ordinal as usize]
    }
}

impl Deeds {
    /// Reads a tape with the words of `program`.
    pub fn read(tape: &Tape, program: &mut impl Program) -> Self {
        let mut reader = Reader {
            contents: &tape.contents,
            frames: frames(&tape.contents, program),
            devices: Devices::default(),
            datagrams: BTreeMap::new(),
            flights: BTreeMap::new(),
            all: Vec::with_capacity(tape.records.len()),
        };
        for (ordinal, record) in (0..).zip(&tape.records) {
            let event =
                record.get().and_then(|EventCaptured { ordinal, .. }| tape.events.get(ordinal as usize));
            let (messages, peer) = (Vec::new(), record.node);
            let mut seen = Seen { ordinal, record, event, messages, peer, arrives: false, sent: None };
            let passage = reader.follow(&mut seen);
            seen.arrives = matches!(passage, Passage::Received { .. });
            let mut told = program.tell(&seen).unwrap_or_else(|| {
                let mut usual = match event {
                    Some(event) => Told::new(Weight::Scene, describe(event)).counted("events"),
                    None => reader.devices.tell(ordinal, record),
                };
                program.amend(&seen, &mut usual);
                usual
            });
            told.causes.extend(seen.sent);
            let Record { time_ns, node, incarnation, .. } = *record;
            reader.all.push(Deed { time_ns, node, incarnation, told, passage });
        }
        let nodes = tape.records.iter().map(|record| record.node);
        let names = nodes.map(|node| (node, program.name(node))).collect();
        Self { all: reader.all, names }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, with their ordinals.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Deed)> {
        (0..).zip(&self.all)
    }

    /// The nodes that did something, with their names.
    pub fn names(&self) -> &BTreeMap<NodeId, String> {
        &self.names
    }

    /// What a node is called.
    pub fn name(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| node.to_string())
    }

    /// A deed in one line, with who does it.
    pub fn sentence(&self, ordinal: u64) -> String {
        let Deed { node, told, passage, .. } = &self[ordinal];
        let (name, text) = (self.name(*node), &told.text);
        match passage {
            Passage::None => format!("{name} {text}"),
            Passage::Sent { to, .. } => format!("{name}→{} {text}", self.name(*to)),
            Passage::Received { from, .. } => format!("{}→{name} {text}, received", self.name(*from)),
        }
    }
}

/// A stream of a connection: its number, and to whom.
type Stream = (u64, NodeId);

/// Where messages lie in the streams that were written: (first byte, byte after the last), from 0.
fn frames(contents: &Contents, program: &impl Program) -> BTreeMap<Stream, Vec<(usize, usize)>> {
    let mut found = BTreeMap::new();
    for (connection, to, bytes) in contents.streams() {
        let (mut ends, mut at) = (Vec::new(), 0);
        while let Some(len) =
            program.frame_bytes(&bytes[at..]).filter(|len| (1..=bytes.len() - at).contains(len))
        {
            ends.push((at, at + len));
            at += len;
        }
        found.insert((connection, to), ends);
    }
    found
}

/// What was sent of a stream: (place after the last byte, ordinal).
#[derive(Debug, Default)]
struct Flights {
    sent: Vec<(u64, u64)>,
    delivered: u64,
}

struct Reader<'a> {
    contents: &'a Contents,
    frames: BTreeMap<Stream, Vec<(usize, usize)>>,
    devices: Devices,
    /// By number: the sending.
    datagrams: BTreeMap<u64, u64>,
    flights: BTreeMap<Stream, Flights>,
    all: Vec<Deed>,
}

impl<'a> Reader<'a> {
    /// Finds what belongs to a record of the network.
    fn follow(&mut self, seen: &mut Seen<'a>) -> Passage {
        let Seen { ordinal, record, .. } = *seen;
        if let Some(io::DatagramSent { to, id, .. }) = record.get() {
            self.datagrams.insert(id, ordinal);
            seen.messages.extend(self.contents.datagram(id).map(|bytes| (bytes, None)));
            seen.peer = to;
            return Passage::Sent { to, arrivals: Vec::new(), lost: None };
        }
        if let Some(io::DatagramDelivered { from, id, .. }) = record.get() {
            (seen.peer, seen.sent) = (from, self.datagrams.get(&id).copied());
            seen.messages.extend(self.contents.datagram(id).map(|bytes| (bytes, seen.sent)));
            self.arrived(seen.sent, ordinal);
            return Passage::Received { from, sent: seen.sent, alone: true };
        }
        if let Some(io::DatagramLost { why, id, .. }) = record.get() {
            seen.sent = self.datagrams.get(&id).copied();
            self.is_lost(seen.sent, lost(why));
            return Passage::None;
        }
        if let Some(io::FlightSent { connection, to, len, begin, .. }) = record.get() {
            self.flights.entry((connection, to)).or_default().sent.push((begin + u64::from(len), ordinal));
            seen.messages = self.messages((connection, to), |first, _| {
                (begin..begin + u64::from(len)).contains(&(first + 1))
            });
            seen.peer = to;
            return Passage::Sent { to, arrivals: Vec::new(), lost: None };
        }
        if let Some(io::FlightDelivered { connection, from, end, .. }) = record.get() {
            let flights = self.flights.entry((connection, record.node)).or_default();
            let before = std::mem::replace(&mut flights.delivered, end);
            // Of pieces that were sent more than once, the last counts; of several that arrive together, the first is
            // told.
            let mut pieces: BTreeMap<u64, u64> = BTreeMap::new();
            let reaching = flights.sent.iter().filter(|(reach, _)| *reach > before.max(1) && *reach <= end);
            pieces.extend(reaching.copied());
            seen.sent = pieces.values().next().copied();
            let stream = (connection, record.node);
            seen.messages = self.messages(stream, |_, last| (before..end).contains(&(last + 1)));
            let ends = self.frames.get(&stream).into_iter().flatten().map(|(_, end)| *end as u64);
            let ends = ends.filter(|byte_after| (before..end).contains(byte_after));
            for ((_, sent), byte_after) in seen.messages.iter_mut().zip(ends) {
                *sent = pieces.range(byte_after + 1..).next().map(|(_, sent)| *sent);
            }
            pieces.values().for_each(|sent| self.arrived(Some(*sent), ordinal));
            seen.peer = from;
            return Passage::Received { from, sent: seen.sent, alone: pieces.len() <= 1 };
        }
        if let Some(io::FlightLost { connection, to, why, begin }) = record.get() {
            let flights = self.flights.entry((connection, to)).or_default();
            seen.sent = flights.sent.iter().rev().find(|(reach, _)| *reach >= begin).map(|(_, sent)| *sent);
            self.is_lost(seen.sent, lost(why));
        }
        Passage::None
    }

    /// The messages of a stream whose first and last byte (from 0) are wanted.
    fn messages(&self, stream: Stream, wanted: impl Fn(u64, u64) -> bool) -> Vec<(&'a [u8], Option<u64>)> {
        let bytes = self.contents.stream(stream.0, stream.1);
        let frames = self.frames.get(&stream).into_iter().flatten();
        let wanted = frames.filter(|(first, end)| wanted(*first as u64, *end as u64 - 1));
        wanted.map(|(first, end)| (&bytes[*first..*end], None)).collect()
    }

    fn arrived(&mut self, sent: Option<u64>, ordinal: u64) {
        if let Some(Passage::Sent { arrivals, .. }) = self.passage(sent) {
            arrivals.push(ordinal);
        }
    }

    fn is_lost(&mut self, sent: Option<u64>, why: &'static str) {
        if let Some(Passage::Sent { lost, .. }) = self.passage(sent) {
            *lost = Some(why);
        }
    }

    fn passage(&mut self, sent: Option<u64>) -> Option<&mut Passage> {
        Some(&mut self.all.get_mut(sent? as usize)?.passage)
    }
}
