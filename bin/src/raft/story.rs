//! The story of a run: a line a record, for a person.

use std::cell::RefCell;
use std::rc::Rc;

use oracles::records::{Acknowledged, Applied, Executed, Healed, Invoked, Quiesced, Settled, Unknown};
use raft_async::trace as raft;
use sim_io::nemesis::FaultKind;
use sim_io::records as io;
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::trace::{NodeDown, NodePaused, NodeUp, Record, TaskPanicked, WindowHit};
use sim_runtime::verdict::Findings;

/// Collects lines. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Story(Rc<RefCell<Vec<String>>>);

impl Story {
    /// All lines.
    pub(super) fn into_lines(self) -> Vec<String> {
        self.0.take()
    }
}

impl Invariant for Story {
    fn name(&self) -> &'static str {
        "story"
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        let mut lines = self.0.borrow_mut();
        for (ordinal, record) in (view.first_fresh()..).zip(view.fresh()) {
            let what = describe(record)
                .unwrap_or_else(|| format!("record of kind {}: {:x?}", record.kind.0, record.words));
            let ms = record.time_ns / 1_000_000;
            let us = record.time_ns / 1_000 % 1_000;
            lines.push(format!("{ordinal:>7} {ms:>6}.{us:03} ms  {:<4} {what}", record.node.to_string()));
        }
    }
}

/// What a record says, in words, if it is one that is known here.
pub(super) fn describe(record: &Record) -> Option<String> {
    told_by_runtime(record)
        .or_else(|| told_by_devices(record))
        .or_else(|| told_by_raft(record))
        .or_else(|| told_by_harness(record))
}

fn told_by_runtime(record: &Record) -> Option<String> {
    if record.get::<NodeUp>().is_some() {
        Some(format!("boots (incarnation {})", record.incarnation))
    } else if let Some(NodeDown { how, fault }) = record.get() {
        Some(format!("goes down: {how:?}, fault {fault}"))
    } else if let Some(NodePaused { paused }) = record.get() {
        Some(if paused { "is paused" } else { "goes on" }.to_owned())
    } else if let Some(WindowHit { open_for_ns, .. }) = record.get() {
        Some(format!("  was hit in a window that had been open for {} us", open_for_ns / 1_000))
    } else {
        record.get::<TaskPanicked>().map(|_| "a task panics".to_owned())
    }
}

fn told_by_devices(record: &Record) -> Option<String> {
    if let Some(io::DatagramSent { to, len, arrives_ns, id, .. }) = record.get() {
        let fate = if arrives_ns == 0 {
            ", lost".to_owned()
        } else {
            format!(", arrives at {} us", arrives_ns / 1_000)
        };
        Some(format!("sends datagram {id} to {to}, {len} bytes{fate}"))
    } else if let Some(io::DatagramDelivered { from, id, .. }) = record.get() {
        Some(format!("receives datagram {id} from {from}"))
    } else if let Some(io::DatagramLost { to, why, id }) = record.get() {
        Some(format!("datagram {id} to {to} is gone: {why:?}"))
    } else if let Some(io::FileWritten { file, offset, len, .. }) = record.get() {
        Some(format!("writes file {file} [{offset}, {})", offset + len))
    } else if let Some(io::FileResized { file, len }) = record.get() {
        Some(format!("sets the length of file {file} to {len}"))
    } else if let Some(io::FsyncStarted { file, done_ns }) = record.get() {
        Some(format!("syncs file {file}, done at {} us", done_ns / 1_000))
    } else if let Some(io::FsyncDone { file }) = record.get() {
        Some(format!("file {file} is synced"))
    } else if let Some(io::FsyncFailed { file }) = record.get() {
        Some(format!("the sync of file {file} fails"))
    } else if let Some(io::CrashedFile { file, counts, durable_len, len, .. }) = record.get() {
        let [new, shorn, zero, old] = [48, 32, 16, 0].map(|shift| counts >> shift & 0xFFFF);
        Some(format!(
            "  file {file} after the power loss: sectors {new} new, {shorn} shorn, {zero} zero, {old} old; \
             length {len} ({durable_len} durable)"
        ))
    } else if let Some(io::CrashedNames { lost, kept, .. }) = record.get() {
        Some(format!("  names after the power loss: {lost} changes lost, {kept} kept"))
    } else if record.get::<io::DirSynced>().is_some() {
        Some("syncs a folder".to_owned())
    } else if let Some(io::NameChanged { file, .. }) = record.get() {
        Some(format!("changes a name, file {file}"))
    } else if let Some(io::FaultBegan { id, kind, nodes }) = record.get() {
        let struck: Vec<_> = (0..64).filter(|n| nodes >> n & 1 == 1).map(|n| format!("n{n}")).collect();
        Some(format!("FAULT {id} begins: {} of {}", fault_name(kind), struck.join(" ")))
    } else {
        let ended: io::FaultEnded = record.get()?;
        Some(format!("FAULT {} ends: {}", ended.id, fault_name(ended.kind)))
    }
}

fn fault_name(hash: u64) -> &'static str {
    FaultKind::of_hash(hash).map_or("a fault", FaultKind::name)
}

fn told_by_raft(record: &Record) -> Option<String> {
    if let Some(raft::Became { role, term, last_index, last_term, commit }) = record.get() {
        Some(format!(
            "BECOMES {role:?} of term {term}; log ends at {last_index}/{last_term}, commit {commit}"
        ))
    } else if let Some(raft::HardStateWritten { term, vote, .. }) = record.get() {
        Some(format!("writes term {term}, vote {vote}"))
    } else if let Some(raft::EntryWritten { index, term, .. }) = record.get() {
        Some(format!("writes entry {index}/{term}"))
    } else if let Some(raft::LogTruncated { from, .. }) = record.get() {
        Some(format!("truncates its log from {from} on"))
    } else if let Some(raft::CommitAdvanced { index, term, entry_term }) = record.get() {
        Some(format!("commits up to {index}/{entry_term} in term {term}"))
    } else if let Some(raft::Recovered { term, vote, last_index, last_term, .. }) = record.get() {
        Some(format!("recovers term {term}, vote {vote}, log up to {last_index}/{last_term}"))
    } else if let Some(raft::VoteAsked { term, to, last_index, last_term }) = record.get() {
        Some(format!("RequestVote t{term} to n{to}, last {last_index}/{last_term}"))
    } else if let Some(raft::VoteAnswered { term, to, granted }) = record.get() {
        Some(format!("vote {} t{term} to n{to}", if granted == 1 { "granted" } else { "refused" }))
    } else if let Some(raft::VoteCounted { term, from }) = record.get() {
        Some(format!("counts the vote of n{from} in t{term}"))
    } else if let Some(raft::AppendSent { term, to, prev_index, prev_term, commit_count }) = record.get() {
        let (commit, count) = (commit_count >> 16, commit_count & 0xFFFF);
        Some(format!(
            "AppendEntries t{term} to n{to}, prev {prev_index}/{prev_term} +{count}, commit {commit}"
        ))
    } else if let Some(raft::AppendAnswered { term, to, success, match_index }) = record.get() {
        let outcome =
            if success == 1 { format!("matched up to {match_index}") } else { "refused".to_owned() };
        Some(format!("AppendEntries reply t{term} to n{to}: {outcome}"))
    } else if let Some(raft::ReadServed { read_index, applied, .. }) = record.get() {
        Some(format!("serves a read at index {read_index}, applied {applied}"))
    } else if let Some(raft::CommandAcknowledged { index, session, sequence, .. }) = record.get() {
        Some(format!("tells session {session:x} that its operation {sequence} is done, index {index}"))
    } else if let Some(raft::FrameRejected { len, from }) = record.get() {
        Some(format!("drops a bad frame of {len} bytes from n{from}"))
    } else if let Some(raft::Halted { reason }) = record.get() {
        Some(format!("HALTS, reason {reason}"))
    } else {
        let log: raft::LogSummary = record.get()?;
        Some(format!("its log ends at {}/{}", log.last_index, log.last_term))
    }
}

fn told_by_harness(record: &Record) -> Option<String> {
    if let Some(Applied { index, term, session, sequence, .. }) = record.get() {
        Some(format!("applies {index}/{term} (session {session:x}, operation {sequence})"))
    } else if let Some(Executed { session, sequence, .. }) = record.get() {
        Some(format!("  carries out operation {sequence} of session {session:x}"))
    } else if let Some(Invoked { session, sequence, key, write }) = record.get() {
        let what = if write == 1 { "write" } else { "read" };
        Some(format!("invokes operation {sequence} of session {session:x}: {what} of key {key}"))
    } else if let Some(Acknowledged { session, sequence, .. }) = record.get() {
        Some(format!("operation {sequence} of session {session:x} is answered"))
    } else if let Some(Unknown { session, sequence }) = record.get() {
        Some(format!("gives up operation {sequence} of session {session:x}"))
    } else if record.get::<Healed>().is_some() {
        Some("FAULTS ARE OVER".to_owned())
    } else if record.get::<Quiesced>().is_some() {
        Some("clients have finished".to_owned())
    } else {
        record.get::<Settled>().map(|_| "THE CLUSTER HAS SETTLED".to_owned())
    }
}
