//! Lives: how a server goes down, what its disk keeps, and what it finds there when it comes back.

use raft_async::Halt;
use raft_async::trace as raft;
use sim_io::records as io;
use sim_io::story::{Told, Weight};
use sim_runtime::trace::{Down, NodeDown, NodeUp, Record, TaskPanicked};

use super::facts::{Logged, Note, Recovers};
use super::shadow::Held;
use super::teller::{Teller, detail};
use super::words;

impl Teller {
    /// Adds to what a device records of a server.
    pub(super) fn of_devices(&mut self, at: u64, record: &Record, told: &mut Told) {
        let node = u64::from(record.node.0);
        if record.get::<NodeUp>().is_some() {
            self.server(node).life = record.incarnation;
        } else if let Some(NodeDown { how, .. }) = record.get() {
            let server = self.server(node);
            let (last, on_disk) = (server.last(), server.on_disk());
            let mut unsynced = Vec::new();
            if on_disk < last.0 {
                unsynced.push(format!("its log after {on_disk}"));
            }
            if let Some((term, vote)) = server.hard_unsynced {
                unsynced.push(format!("term {term} with {}", words::vote(vote)));
            }
            if how == Down::PowerOff {
                told.text = "without power".to_owned();
                let list = if unsynced.is_empty() { "nothing".to_owned() } else { unsynced.join(" and ") };
                told.text += &format!("; not synced: {list}");
            }
            server.goes_down(at);
            self.facts.notes.push((Note::Down, record.node.0, at));
        } else if record.get::<io::CrashedFile>().is_some() {
            self.server(node).crashed.push(at);
            if told.weight > Weight::Detail {
                self.facts.notes.push((Note::Crashed, record.node.0, at));
            }
        } else if let Some(io::FsyncStarted { file, .. }) = record.get() {
            let server = self.server(node);
            server.sync_begins(file);
            told.weight = Weight::Detail;
            told.causes.extend(server.hard_written.filter(|_| server.hard_file == Some(file)));
        } else if let Some(io::FsyncDone { file }) = record.get() {
            let server = self.server(node);
            let hard = server.hard_unsynced.filter(|_| server.hard_file == Some(file));
            server.sync_done(file, at);
            if let Some(hard) = hard {
                told.text = format!("has term {} and {} on its disk", hard.0, words::vote(hard.1));
                self.binds(node, hard, at);
            } else {
                let on_disk = server.on_disk();
                told.text = format!("has its log up to {on_disk} on its disk");
            }
        } else if record.get::<TaskPanicked>().is_some() {
            self.facts.panics.push(at);
        }
    }

    pub(super) fn of_lives(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::HardStateWritten { term, vote, file, offset, .. }) = record.get() {
            let server = self.server(node);
            server.hard_file = Some(file);
            (server.hard_unsynced, server.hard_written) = (Some((term, vote)), Some(at));
            self.facts.notes.push((Note::HardWritten, record.node.0, at));
            self.facts.hard.push((record.node.0, (term, vote), at));
            let text =
                format!("writes term {term}, {} at byte {offset} of its state file", words::vote(vote));
            Some(Told::new(Weight::Cause, text))
        } else if let Some(found) = record.get() {
            Some(self.recovers(at, record, found))
        } else if let Some(raft::Halted { reason }) = record.get() {
            self.facts.notes.push((Note::Halted, record.node.0, at));
            Some(Told::new(Weight::Turn, format!("HALTS: {}", halt(reason))))
        } else {
            let raft::LogSummary { last_index, last_term, .. } = record.get()?;
            detail(format!("its log ends at {}", words::entry(last_index, last_term)))
        }
    }

    fn recovers(&mut self, at: u64, record: &Record, found: raft::Recovered) -> Told {
        let node = u64::from(record.node.0);
        let raft::Recovered { term, vote, last_index, last_term, .. } = found;
        let bound = self.bound.get(&node).copied().unwrap_or_default();
        let server = self.server(node);
        let before = (server.last(), (server.term, server.vote));
        let first = server.down.is_none();
        (server.term, server.vote, server.recovered) = (term, vote, Some(at));
        let lost = server.cut(last_index + 1);
        let causes: Vec<u64> = server
            .down
            .into_iter()
            .chain(server.hard_written)
            .chain(server.crashed.iter().copied())
            .collect();
        for held in &mut server.log {
            held.synced.get_or_insert(at);
        }
        let log = self.log_of(node, last_index);
        let prefix = log.iter().fold(0, |log, (term, digest)| raft::extend_log_digest(log, *term, *digest));
        for (index, held) in (last_index + 1..).zip(&lost) {
            let Held { term, digest, .. } = *held;
            self.facts.dropped.push(Logged { node: record.node.0, index, term, digest, prefix, at });
        }
        self.facts.notes.push((Note::Recovered, record.node.0, at));
        self.facts.recovers.push(Recovers { node: record.node.0, at, found: (term, vote), bound });
        let finds = format!(
            "finds on its disk: term {term}, {}, log up to {}",
            words::vote(vote),
            words::entry(last_index, last_term)
        );
        let ((index, of_term), hard) = before;
        let log_was = if lost.is_empty() {
            String::new()
        } else {
            format!(", log up to {}", words::entry(index, of_term))
        };
        let hard_was = if hard == (term, vote) {
            String::new()
        } else {
            format!(", term {}, {}", hard.0, words::vote(hard.1))
        };
        let was = (hard_was + &log_was).trim_start_matches(", ").to_owned();
        let text = if was.is_empty() || first { finds } else { format!("{finds} (before: {was})") };
        let weight = if first { Weight::Detail } else { Weight::Turn };
        Told::new(weight, text).after(causes)
    }
}

fn halt(reason: u64) -> &'static str {
    let halts = [
        (Halt::Shutdown.code(), "it was told to"),
        (Halt::TaskFailed.code(), "a task of it has failed"),
        (1, "its files are corrupt"),
        (2, "its disk fails"),
        (3, "it has no address"),
    ];
    halts.into_iter().find(|(code, _)| *code == reason).map_or("for no known reason", |(_, why)| why)
}
