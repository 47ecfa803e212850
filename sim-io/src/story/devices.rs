//! Words for what runtime, network, disks and nemesis record.

use std::collections::BTreeMap;

use sim_runtime::NodeId;
use sim_runtime::rng::hash_name;
use sim_runtime::trace::{Down, NodeDown, NodePaused, NodeUp, Record, TaskPanicked, WindowHit};

use super::told::{Span, Told, Weight};
use crate::nemesis::FaultKind;
use crate::records as io;

/// What has to be remembered to say what follows from what.
#[derive(Debug, Default)]
pub(super) struct Devices {
    down: BTreeMap<NodeId, u64>,
    faults: BTreeMap<u64, u64>,
    /// Syncs that have begun, by node and file, the oldest first.
    syncs: BTreeMap<(NodeId, u64), Vec<u64>>,
}

/// Names of windows of the devices and of programs in this repository; the trace has hashes only.
const WINDOWS: [&str; 5] = [
    "fsync in flight",
    "election in progress",
    "log segment being created",
    "log being cut",
    "log being recovered",
];

/// The usual words for a record by itself.
pub fn usual_words(record: &Record) -> String {
    Devices::default().tell(0, record).text
}

impl Devices {
    pub(super) fn tell(&mut self, ordinal: u64, record: &Record) -> Told {
        self.of_nodes(ordinal, record)
            .or_else(|| self.of_faults(ordinal, record))
            .or_else(|| self.of_disks(ordinal, record))
            .or_else(|| of_network(record))
            .unwrap_or_else(|| {
                let text = format!("record of kind {}: {:x?}", record.kind.0, record.words);
                Told::new(Weight::Detail, text)
            })
    }

    fn of_nodes(&mut self, ordinal: u64, record: &Record) -> Option<Told> {
        if record.get::<NodeUp>().is_some() {
            let life = record.incarnation;
            let text = if life == 1 { "boots".to_owned() } else { format!("up again (life {life})") };
            let weight = if life == 1 { Weight::Detail } else { Weight::Turn };
            let told = Told::new(weight, text).marked('^').after(self.down.get(&record.node).copied());
            let span = Span::Begins("life".to_owned(), format!("life {life}"));
            Some(Told { line: Some('│'), span, ..told })
        } else if let Some(NodeDown { how, fault }) = record.get() {
            self.down.insert(record.node, ordinal);
            let text = match how {
                Down::Kill => "killed (what was written stays in the page cache)",
                Down::PowerOff => "without power (what was not synced is at risk)",
                Down::Exit => "ends",
            };
            self.syncs.retain(|(node, _), _| *node != record.node);
            let told = Told::new(Weight::Turn, text).marked('x').after(self.faults.get(&fault).copied());
            Some(Told { line: Some(' '), span: Span::Ends("life".to_owned()), ..told })
        } else if let Some(NodePaused { paused }) = record.get() {
            let text = if paused { "paused" } else { "running again" };
            let line = Some(if paused { '┆' } else { '│' });
            Some(Told { line, ..Told::new(Weight::Scene, text) })
        } else if let Some(WindowHit { window, open_for_ns }) = record.get() {
            let name = WINDOWS.into_iter().find(|name| hash_name(name) == window).unwrap_or("a window");
            let text = format!("went down with this under way: {name}, for {} us", open_for_ns / 1_000);
            Some(Told::new(Weight::Cause, text).after(self.down.get(&record.node).copied()))
        } else {
            record
                .get::<TaskPanicked>()
                .map(|_| Told::new(Weight::Turn, "has a task that panics").marked('!'))
        }
    }

    fn of_faults(&mut self, ordinal: u64, record: &Record) -> Option<Told> {
        let name = |hash| FaultKind::of_hash(hash).map_or("a fault", FaultKind::name).replace('_', " ");
        if let Some(io::FaultBegan { id, kind, nodes }) = record.get() {
            self.faults.insert(id, ordinal);
            let struck: Vec<NodeId> = (1..64).filter(|n| nodes >> n & 1 == 1).map(NodeId).collect();
            let text = format!("fault {id}: {}", name(kind));
            let span = Span::Begins(format!("fault {id}"), name(kind));
            Some(Told { struck, span, ..Told::new(weight_of(kind), text).marked('#') })
        } else {
            let io::FaultEnded { id, kind } = record.get()?;
            let told = Told::new(weight_of(kind), format!("fault {id} ends: {}", name(kind))).marked('#');
            Some(
                Told { span: Span::Ends(format!("fault {id}")), ..told }.after(self.faults.get(&id).copied()),
            )
        }
    }

    fn of_disks(&mut self, ordinal: u64, record: &Record) -> Option<Told> {
        let detail = |text: String| Some(Told::new(Weight::Detail, text));
        if let Some(io::FileWritten { file, offset, len, .. }) = record.get() {
            detail(format!("writes file {file} [{offset}, {})", offset + len))
        } else if let Some(io::FileResized { file, len }) = record.get() {
            detail(format!("sets the length of file {file} to {len}"))
        } else if let Some(io::FsyncStarted { file, done_ns }) = record.get() {
            self.syncs.entry((record.node, file)).or_default().push(ordinal);
            let text = format!("begins an fsync of file {file}, due at {}", millis(done_ns));
            let told = Told::new(Weight::Cause, text);
            let span = Span::Begins(format!("fsync of file {file}"), "fsync".to_owned());
            Some(Told { span, ..told })
        } else if let Some(io::FsyncDone { file }) = record.get() {
            let began = self.sync_ended(record.node, file);
            let told = Told::new(Weight::Cause, format!("has file {file} on its disk")).after(began);
            Some(Told { span: Span::Ends(format!("fsync of file {file}")), ..told })
        } else if let Some(io::FsyncFailed { file }) = record.get() {
            let began = self.sync_ended(record.node, file);
            let told = Told::new(Weight::Scene, format!("fails to sync file {file}")).after(began);
            Some(Told { span: Span::Ends(format!("fsync of file {file}")), ..told })
        } else if let Some(io::FsyncLied { file }) = record.get() {
            Some(Told::new(
                Weight::Scene,
                format!("is told by its disk that file {file} is synced, and it is not"),
            ))
        } else if let Some(crashed) = record.get() {
            Some(crashed_file(&crashed).after(self.down.get(&record.node).copied()))
        } else if let Some(io::CrashedNames { lost, kept, .. }) = record.get() {
            let text = format!("has lost {lost} changes of names, and kept {kept}, that were not synced");
            Some(Told::new(Weight::Cause, text).after(self.down.get(&record.node).copied()))
        } else if let Some(io::SectorRotted { file, bit, .. }) = record.get() {
            Some(Told::new(Weight::Scene, format!("has bit {bit} of file {file} flipped on its disk")))
        } else if let Some(io::FileIoFailed { file, full }) = record.get() {
            let why = if full == 1 { "the disk is full" } else { "EIO" };
            Some(Told::new(Weight::Scene, format!("cannot read or write file {file}: {why}")))
        } else if let Some(io::FileAfterCrash { file, .. }) = record.get() {
            detail(format!("file {file} is what the power loss left of it"))
        } else if record.get::<io::DirSynced>().is_some() {
            detail("syncs a folder".to_owned())
        } else {
            let io::NameChanged { file, .. } = record.get()?;
            detail(format!("changes a name, file {file}"))
        }
    }

    fn sync_ended(&mut self, node: NodeId, file: u64) -> Option<u64> {
        let begun = self.syncs.get_mut(&(node, file)).filter(|begun| !begun.is_empty())?;
        Some(begun.remove(0))
    }
}

/// What a fault does to a process, the process's own records say.
fn weight_of(kind: u64) -> Weight {
    match FaultKind::of_hash(kind) {
        Some(FaultKind::Kill | FaultKind::PowerOff | FaultKind::Pause) => Weight::Detail,
        _ => Weight::Scene,
    }
}

fn crashed_file(crashed: &io::CrashedFile) -> Told {
    let io::CrashedFile { file, counts, durable_len, len, .. } = *crashed;
    let fates = ["new", "shorn", "zero", "old"].into_iter().zip([48, 32, 16, 0]);
    let fates: Vec<String> = fates
        .map(|(fate, shift)| (fate, counts >> shift & 0xFFFF))
        .filter(|(_, count)| *count > 0)
        .map(|(fate, count)| format!("{count} {fate}"))
        .collect();
    let sectors = if fates.is_empty() { "none".to_owned() } else { fates.join(", ") };
    let text = format!("has these of the unsynced sectors of file {file} after the power loss: {sectors}");
    let length = if len == durable_len { String::new() } else { format!("; length {durable_len} to {len}") };
    // Where nothing was at risk there is nothing to tell.
    let weight = if fates.is_empty() && len == durable_len { Weight::Detail } else { Weight::Scene };
    Told::new(weight, text + &length)
}

fn of_network(record: &Record) -> Option<Told> {
    let detail = |text: String| Some(Told::new(Weight::Detail, text));
    if let Some(io::DatagramSent { len, .. }) = record.get() {
        detail(format!("{len} bytes"))
    } else if let Some(io::DatagramDelivered { len, .. }) = record.get() {
        detail(format!("{len} bytes"))
    } else if let Some(io::DatagramLost { to, why, id }) = record.get() {
        detail(format!("datagram {id} to {to} is gone: {}", lost(why)))
    } else if let Some(io::FlightSent { len, connection, .. }) = record.get() {
        detail(format!("{len} bytes of stream {connection}"))
    } else if let Some(io::FlightDelivered { len, connection, .. }) = record.get() {
        detail(format!("{len} bytes of stream {connection}"))
    } else if let Some(io::FlightLost { connection, to, why, .. }) = record.get() {
        detail(format!("a piece of stream {connection} to {to} is gone: {}", lost(why)))
    } else if let Some(io::ConnectionStarted { connection, to, .. }) = record.get() {
        detail(format!("connects to n{to}, stream {connection}"))
    } else if let Some(io::ConnectionOpened { connection, .. }) = record.get() {
        detail(format!("stream {connection} is open"))
    } else {
        let io::ConnectionEnded { connection, how, .. } = record.get()?;
        Some(Told::new(Weight::Cause, format!("stream {connection} ends: {how:?}")))
    }
}

/// Why a message did not arrive.
pub(super) fn lost(why: io::Lost) -> &'static str {
    match why {
        io::Lost::Loss => "lost on its way",
        io::Lost::Cut => "lost, the link is cut",
        io::Lost::NoReceiver => "lost, nobody is there",
        io::Lost::BufferFull => "lost, the receiver's buffer is full",
        io::Lost::Frozen => "lost at a frozen machine",
    }
}

/// `892.502 ms`.
pub(super) fn millis(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1_000 % 1_000)
}
