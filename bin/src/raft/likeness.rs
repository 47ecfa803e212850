//! What a state of a Raft cluster is like, for a guided search.
//!
//!   records ──► of each server: role, term, log, commit ──► relations to the furthest of all ──► a number
//!
//! Of each server: whether it is up, its role, how far its term and its log lie behind, whether its log is part of the
//! furthest one, of one that it parted from, or goes on where that ends otherwise, how far it has committed, which
//! windows are open. Of all: how many candidates there are in the newest term. Nothing of it says which server it is, and no number
//! counts beyond three.
//!
//! The log is as the servers say, by (index, term) alone: two logs with the same term at an index are the same up to
//! there. Where that is not so there is a bug, which the oracles find.

use oracles::event::Event;
use raft_async::trace::{
    Became, CommitAdvanced, EntryAppended, HardStateWritten, LogTruncated, Recovered, RoleKind, VoteAnswered,
};
use sim_runtime::explore::{Glimpse, Signature, unordered};
use sim_runtime::rng::mix;
use sim_runtime::trace::{Payload, Record};

/// What is known of a server.
#[derive(Clone, Debug)]
struct Known {
    role: RoleKind,
    term: u64,
    /// The term of each entry; the first has index 1.
    log: Vec<u64>,
    commit: u64,
}

impl Default for Known {
    fn default() -> Self {
        Self { role: RoleKind::Follower, term: 0, log: Vec::new(), commit: 0 }
    }
}

impl Known {
    /// Term and index of the last entry.
    fn last(&self) -> (u64, usize) {
        (self.log.last().copied().unwrap_or(0), self.log.len())
    }

    /// How many entries, from the first, it has in common with `other`.
    fn common(&self, other: &Self) -> usize {
        let both = self.log.len().min(other.log.len());
        // Logs that agree at an index agree before it.
        (0..both).rev().find(|at| self.log[*at] == other.log[*at]).map_or(0, |at| at + 1)
    }
}

/// Follows a run.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    /// By number of the node.
    servers: Vec<Known>,
}

/// 0, 1, 2 or more: beyond, states are alike.
fn few(count: usize) -> u64 {
    count.min(2) as u64
}

impl Likeness {
    fn server(&mut self, record: &Record) -> &mut Known {
        let at = record.node.index();
        if self.servers.len() <= at {
            self.servers.resize_with(at + 1, Known::default);
        }
        &mut self.servers[at]
    }
}

impl Signature for Likeness {
    fn record(&mut self, record: &Record) -> Option<&'static str> {
        let (aux, words) = (record.aux, &record.words);
        match Event::of(record.kind)? {
            Event::Became => {
                let became = Became::decode(aux, words);
                let server = self.server(record);
                (server.role, server.term) = (became.role, became.term);
                Some(match became.role {
                    RoleKind::Follower => "becomes follower",
                    RoleKind::Candidate => "becomes candidate",
                    RoleKind::Leader => "becomes leader",
                })
            }
            Event::HardStateWritten => {
                self.server(record).term = HardStateWritten::decode(aux, words).term;
                Some("writes term and vote")
            }
            Event::EntryAppended => {
                let EntryAppended { index, term, .. } = EntryAppended::decode(aux, words);
                let server = self.server(record);
                server.log.truncate(index.saturating_sub(1) as usize);
                server.log.push(term);
                Some("appends an entry")
            }
            Event::LogTruncated => {
                let from = LogTruncated::decode(aux, words).from;
                self.server(record).log.truncate(from.saturating_sub(1) as usize);
                Some("cuts its log")
            }
            Event::CommitAdvanced => {
                self.server(record).commit = CommitAdvanced::decode(aux, words).index;
                Some("commits")
            }
            Event::NodeUp => {
                let server = self.server(record);
                (server.role, server.commit) = (RoleKind::Follower, 0);
                Some("boots")
            }
            Event::Recovered => {
                // What it had not made durable is gone.
                let Recovered { term, last_index, last_term, .. } = Recovered::decode(aux, words);
                let server = self.server(record);
                server.term = term;
                server.log.resize(last_index as usize, last_term);
                Some("recovers")
            }
            Event::NodeDown => Some("goes down"),
            Event::VoteAnswered => {
                let granted = VoteAnswered::decode(aux, words).granted == 1;
                Some(if granted { "grants a vote" } else { "refuses a vote" })
            }
            _ => None,
        }
    }

    fn state(&mut self, glimpse: &Glimpse<'_>) -> u64 {
        let nobody = Known::default();
        let furthest = self.servers.iter().max_by_key(|server| server.last()).unwrap_or(&nobody);
        let newest = self.servers.iter().map(|server| server.term).max().unwrap_or(0);
        let committed = self.servers.iter().map(|server| server.commit).max().unwrap_or(0) as usize;
        let candidates =
            self.servers.iter().filter(|server| server.term == newest && server.role == RoleKind::Candidate);
        let parts = glimpse.nodes().into_iter().filter_map(|seen| {
            let known = self.servers.get(seen.node.index())?;
            let common = known.common(furthest);
            let parts = [
                u64::from(seen.is_up) << 1 | u64::from(seen.is_paused),
                known.role as u64,
                few((newest - known.term) as usize),
                few(furthest.log.len().saturating_sub(known.log.len())),
                few(known.log.len() - common),
                few(committed.saturating_sub(known.log.len())),
                few(known.log.len().saturating_sub(known.commit as usize)),
                seen.windows,
            ];
            Some(parts.into_iter().fold(0, mix))
        });
        mix(unordered(parts.collect()), few(candidates.count()))
    }
}
