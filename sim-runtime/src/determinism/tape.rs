//! Everything that happens in a run, in order, so that two runs can be laid side by side.
//!
//!   executor, fields, streams, trace, events, doors ──► Tape ──► Recording { entries, tasks, report, .. }
//!
//! Invariants: an entry's fingerprint covers all that it says, and when and in which task it was said; what a run comes
//! to in the end is on the tape too, so that comparing tapes compares all.
//! Not here: who runs what under which conditions (`perform.rs`).

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;

use serde::{Deserialize, Serialize};

use crate::ambient::Door;
use crate::fire::Fire;
use crate::node::Owner;
use crate::rng::{hash_bytes, hash_name, mix};
use crate::schedule::TaskInfo;
use crate::tasks::TaskNote;
use crate::trace::Record;
use crate::verdict::RunReport;

/// One thing that happened.
#[derive(Debug)]
pub(crate) struct Entry {
    time_ns: u64,
    /// The task that ran, as its place in the order of spawns from 1; 0 for none.
    task: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The scheduler chose the task of the entry.
    Poll,
    /// A timer fired.
    Fire {
        kind: &'static str,
        token: u64,
    },
    Field {
        name: &'static str,
        key: u64,
        bucket: u64,
        bits: u64,
    },
    Draw {
        stream: u64,
        value: u64,
    },
    Record(Record),
    /// The text of the `tracing` event whose record is the entry before.
    Event(String),
    Door(Door),
    /// What the run came to, in one respect.
    End {
        what: String,
        text: String,
    },
}

impl Entry {
    /// Covers everything but the text for people.
    pub(crate) fn fingerprint(&self) -> u64 {
        let start = mix(self.time_ns, u64::from(self.task));
        match &self.what {
            What::Poll => mix(start, 1),
            What::Fire { kind, token } => mix(mix(start, hash_name(kind)), *token),
            What::Field { name, key, bucket, bits } => {
                mix(mix(mix(mix(start, hash_bytes(3, name.as_bytes())), *key), *bucket), *bits)
            }
            What::Draw { stream, value } => mix(mix(mix(start, 4), *stream), *value),
            What::Record(record) => record.digest(mix(start, 5)),
            What::Event(text) => hash_bytes(mix(start, 6), text.as_bytes()),
            What::Door(door) => mix(mix(start, 7), *door as u64),
            What::End { what, text } => {
                hash_bytes(hash_bytes(mix(start, 8), what.as_bytes()), text.as_bytes())
            }
        }
    }
}

/// Who a task is.
#[derive(Copy, Clone, Debug)]
struct Identified {
    owner: Owner,
    name: &'static str,
    key: u64,
    place: &'static Location<'static>,
}

#[derive(Debug, Default)]
struct Content {
    entries: Vec<Entry>,
    tasks: Vec<Identified>,
    /// Places in `tasks`, plus one, by the slot of a living task.
    by_slot: Vec<u32>,
    streams: BTreeMap<u64, String>,
    now_ns: u64,
    task: u32,
    /// The entry whose origin is wanted.
    mark: Option<usize>,
    marked: Option<Backtrace>,
}

impl Content {
    fn push(&mut self, what: What) {
        if self.mark == Some(self.entries.len()) {
            self.marked = Some(Backtrace::force_capture());
        }
        self.entries.push(Entry { time_ns: self.now_ns, task: self.task, what });
    }
}

/// Where a run is noted down.
#[derive(Debug, Default)]
pub(crate) struct Tape(RefCell<Content>);

impl Tape {
    /// One that also notes from where the entry number `mark` comes.
    pub(super) fn new(mark: Option<usize>) -> Self {
        Self(RefCell::new(Content { mark, ..Content::default() }))
    }

    /// What it holds, when somebody else still has a hand on it.
    pub(super) fn take(&self) -> Self {
        Self(RefCell::new(self.0.take()))
    }

    #[cold]
    fn push(&self, what: What) {
        self.0.borrow_mut().push(what);
    }

    #[cold]
    pub(crate) fn field(&self, name: &'static str, key: u64, bucket: u64, bits: u64) {
        self.push(What::Field { name, key, bucket, bits });
    }

    #[cold]
    pub(crate) fn draw(&self, stream: u64, value: u64) {
        self.push(What::Draw { stream, value });
    }

    #[cold]
    pub(crate) fn record(&self, record: Record) {
        self.push(What::Record(record));
    }

    pub(crate) fn event(&self, text: String) {
        self.push(What::Event(text));
    }

    pub(crate) fn end(&self, what: &str, text: String) {
        self.push(What::End { what: what.to_owned(), text });
    }

    /// Must not fail, whatever is borrowed.
    pub(crate) fn door(&self, door: Door) {
        if let Ok(mut content) = self.0.try_borrow_mut() {
            content.push(What::Door(door));
        }
    }

    #[cold]
    pub(crate) fn fired(&self, now_ns: u64, fire: &Fire) {
        let mut content = self.0.borrow_mut();
        content.now_ns = now_ns;
        let (kind, token) = match fire {
            Fire::Task(_) | Fire::Wake(_) => ("wake", 0),
            Fire::Device(device, token) => ("device", u64::from(device.0) << 56 ^ token),
            Fire::Release(node) => ("release", u64::from(node.0)),
        };
        content.push(What::Fire { kind, token });
    }

    #[cold]
    pub(crate) fn spawned(&self, slot: u32, info: TaskInfo, note: &TaskNote) {
        let mut content = self.0.borrow_mut();
        let TaskNote { name, key, place, .. } = *note;
        content.tasks.push(Identified { owner: info.owner, name, key, place });
        let number = content.tasks.len() as u32;
        if content.by_slot.len() <= slot as usize {
            content.by_slot.resize(slot as usize + 1, 0);
        }
        content.by_slot[slot as usize] = number;
    }

    #[cold]
    pub(crate) fn polled(&self, slot: u32) {
        let mut content = self.0.borrow_mut();
        content.task = content.by_slot.get(slot as usize).copied().unwrap_or(0);
        content.push(What::Poll);
    }

    #[cold]
    pub(crate) fn idle(&self) {
        self.0.borrow_mut().task = 0;
    }

    pub(crate) fn name_stream(&self, id: u64, name: String) {
        self.0.borrow_mut().streams.insert(id, name);
    }

    /// Notes what the run came to.
    pub(super) fn conclude(&self, report: &RunReport) {
        self.end("verdict", report.findings.category().name().to_owned());
        for failure in &report.findings.failures {
            self.end("failure", format!("{failure:?}"));
        }
        self.end("broken premises", format!("{:?}", report.findings.premise));
        self.end("evidence of premises", format!("{:?}", report.findings.premise_evidence));
        self.end("steps", report.steps.to_string());
        self.end("virtual time in ns", report.virtual_ns.to_string());
        self.end("records", report.records.to_string());
        self.end("digest of behaviour", format!("{:016x}", report.behaviour));
        self.end("digest of draws", format!("{:016x}", report.draws));
        for (name, count) in report.coverage.iter() {
            self.end("count", format!("{name}: {count}"));
        }
    }

    pub(super) fn into_recording(self, report: Option<RunReport>, shuffled: Option<bool>) -> Recording {
        let Content { entries, tasks, streams, marked, .. } = self.0.into_inner();
        Recording { entries, tasks, streams, marked, report, shuffled }
    }
}

/// A run, noted down.
#[derive(Debug)]
pub(super) struct Recording {
    entries: Vec<Entry>,
    tasks: Vec<Identified>,
    streams: BTreeMap<u64, String>,
    /// From where the marked entry came.
    pub(super) marked: Option<Backtrace>,
    /// `None` when the scenario itself panicked.
    pub(super) report: Option<RunReport>,
    /// Whether `futures::select!` shuffled branches; `None` when that cannot be told.
    pub(super) shuffled: Option<bool>,
}

/// Entries that are shown before the first that differs.
const BEFORE: usize = 10;

/// One line of a recording, for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its place in the recording, from 0.
    pub number: u64,
    /// Global virtual time.
    pub time_ns: u64,
    /// At which node, by which task, spawned where; empty outside tasks.
    pub task: String,
    /// Where that task was spawned; empty outside tasks.
    pub spawned_at: String,
    /// What happened.
    pub what: String,
    /// The ordinal of the record that it is, if it is one.
    pub record: Option<u64>,
}

impl Recording {
    /// One number an entry.
    pub(super) fn fingerprints(&self) -> Vec<u64> {
        self.entries.iter().map(Entry::fingerprint).collect()
    }

    /// How many entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many trace records come before entry `at`.
    pub(super) fn records_before(&self, at: usize) -> u64 {
        let is_record = |entry: &&Entry| matches!(entry.what, What::Record(_));
        self.entries.iter().take(at).filter(is_record).count() as u64
    }

    /// Entry `at` with the ten before it. Fewer if there are none; without the entry itself if the recording ends
    /// there.
    pub(super) fn lines(&self, at: usize, describe: &dyn Fn(&Record) -> Option<String>) -> Vec<Line> {
        let end = (at + 1).min(self.entries.len());
        // The text of an event is told with its record.
        let is_told = |place: &usize| !matches!(self.entries[*place].what, What::Event(_)) || *place == at;
        let mut places: Vec<usize> =
            (0..end).rev().filter(is_told).take(BEFORE + usize::from(at < end)).collect();
        places.reverse();
        places.into_iter().map(|place| self.line(place, describe)).collect()
    }

    fn line(&self, at: usize, describe: &dyn Fn(&Record) -> Option<String>) -> Line {
        let Entry { time_ns, task, what } = &self.entries[at];
        let task = task.checked_sub(1).and_then(|place| self.tasks.get(place as usize));
        let mut record = None;
        let what = match what {
            What::Poll => "the scheduler runs it".to_owned(),
            What::Fire { kind, .. } => format!("a timer fires: {kind}"),
            What::Field { name, key, bucket, bits } => {
                format!("reads field {name:?} at key {key:x}, bucket {bucket}: {bits:016x}")
            }
            What::Draw { stream, value } => {
                let same =
                    |e: &&Entry| matches!(e.what, What::Draw { stream: other, .. } if other == *stream);
                let ordinal = self.entries[..at].iter().filter(same).count();
                let name = self.streams.get(stream).map_or("without a name", String::as_str);
                format!("draws {value:016x}, number {ordinal} of stream {name}")
            }
            What::Record(r) => {
                record = Some(self.records_before(at));
                let event = match self.entries.get(at + 1) {
                    Some(Entry { what: What::Event(text), .. }) => Some(format!("event {text}")),
                    _ => None,
                };
                let text = event.or_else(|| describe(r)).or_else(|| r.describe());
                text.unwrap_or_else(|| format!("record of kind {}: {:x} {:x?}", r.kind.0, r.aux, r.words))
            }
            What::Event(text) => format!("event {text}"),
            What::Door(door) => format!("asks the process: {door}"),
            What::End { what, text } => format!("at the end, {what}: {text}"),
        };
        Line {
            number: at as u64,
            time_ns: *time_ns,
            task: task.map(Identified::to_string).unwrap_or_default(),
            spawned_at: task.map(|task| task.place.to_string()).unwrap_or_default(),
            what,
            record,
        }
    }
}

impl std::fmt::Display for Identified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { owner, name, key, .. } = self;
        let name = if name.is_empty() { "unnamed task" } else { name };
        write!(f, "{name}")?;
        if *key != 0 {
            write!(f, "({key})")?;
        }
        write!(f, " of {} (incarnation {})", owner.node, owner.incarnation)
    }
}
