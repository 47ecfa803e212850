//! What a state of a Raft cluster is like, for a guided search.
//!
//!   records ──► of each server: role, term, log, commit ──► how they relate ──► a number
//!
//! How many servers are down, lead, and are candidates in the newest term; how many terms there are; how many logs end
//! otherwise than the others, and how far the furthest from the best lies off; on how many servers the last entry of
//! the best log is, how far that is ahead of what is committed, and how many lack what is committed. No number counts
//! far, and none says which server it is. Open windows are left out: with them nearly every moment is a state of its
//! own (22,632 in 300 runs, not 2,220), and a search that finds everything new is led by nothing.
//!
//! Logs are as the servers say, by (index, term) alone: two with the same term at an index are the same up to there.
//! Where that is not so there is a bug, which the oracles find.

use oracles::event::Event;
use raft_async::trace::{
    Became, CommitAdvanced, EntryAppended, HardStateWritten, LogTruncated, Recovered, RoleKind, VoteAnswered,
};
use sim_runtime::explore::{Glimpse, Seen, Signature};
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

    /// Whether `other` has all of it, and more.
    fn is_continued_by(&self, other: &Self) -> bool {
        other.log.len() > self.log.len() && self.common(other) == self.log.len()
    }
}

/// Follows a run.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    /// By number of the node.
    servers: Vec<Known>,
    /// The state when it was asked for last, unless something has changed since.
    latest: Option<u64>,
}

impl Signature for Likeness {
    fn record(&mut self, record: &Record) -> Option<&'static str> {
        let event = Event::of(record.kind)?;
        let name = self.hear(event, record);
        if name.is_some() && event != Event::VoteAnswered {
            self.latest = None;
        }
        name
    }

    fn state(&mut self, glimpse: &Glimpse<'_>) -> u64 {
        if let Some(latest) = self.latest {
            return latest;
        }
        let nodes = glimpse.nodes();
        let state =
            relations(nodes.iter().filter_map(|seen| Some((seen, self.servers.get(seen.node.index())?))));
        self.latest = Some(state);
        state
    }
}

impl Likeness {
    /// Takes note of what happens; its name, if it is worth one.
    fn hear(&mut self, event: Event, record: &Record) -> Option<&'static str> {
        let at = record.node.index();
        if self.servers.len() <= at {
            self.servers.resize_with(at + 1, Known::default);
        }
        let server = &mut self.servers[at];
        let (aux, words) = (record.aux, &record.words);
        match event {
            Event::Became => {
                let became = Became::decode(aux, words);
                (server.role, server.term) = (became.role, became.term);
                Some(match became.role {
                    RoleKind::Follower => "becomes follower",
                    RoleKind::Candidate => "becomes candidate",
                    RoleKind::Leader => "becomes leader",
                })
            }
            Event::HardStateWritten => {
                server.term = HardStateWritten::decode(aux, words).term;
                Some("writes term and vote")
            }
            Event::EntryAppended => {
                let EntryAppended { index, term, .. } = EntryAppended::decode(aux, words);
                server.log.truncate(index.saturating_sub(1) as usize);
                server.log.push(term);
                Some("appends an entry")
            }
            Event::LogTruncated => {
                let from = LogTruncated::decode(aux, words).from;
                server.log.truncate(from.saturating_sub(1) as usize);
                Some("cuts its log")
            }
            Event::CommitAdvanced => {
                server.commit = CommitAdvanced::decode(aux, words).index;
                Some("commits")
            }
            Event::NodeUp => {
                (server.role, server.commit) = (RoleKind::Follower, 0);
                Some("boots")
            }
            Event::Recovered => {
                // What it had not made durable is gone.
                let Recovered { term, last_index, last_term, .. } = Recovered::decode(aux, words);
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
}

/// How the servers relate.
fn relations<'a>(servers: impl Iterator<Item = (&'a Seen, &'a Known)>) -> u64 {
    let (seen, servers): (Vec<&Seen>, Vec<&Known>) = servers.unzip();
    let nobody = Known::default();
    let best = servers.iter().max_by_key(|server| server.last()).copied().unwrap_or(&nobody);
    let newest = servers.iter().map(|server| server.term).max().unwrap_or(0);
    let committed = servers.iter().map(|server| server.commit).max().unwrap_or(0) as usize;
    let playing = |role: RoleKind| {
        let up = seen.iter().zip(&servers).filter(|(seen, _)| seen.is_up);
        up.filter(move |(_, server)| server.role == role).map(|(_, server)| *server)
    };
    let is_last = |one: &&&Known| !servers.iter().any(|other| one.is_continued_by(other));
    let ends = different(servers.iter().filter(is_last).map(|server| server.last()));
    let strayed = servers.iter().map(|server| server.log.len() - server.common(best)).max().unwrap_or(0);
    let part = |count: usize| match count {
        0 | 1 => count,
        _ if count * 2 <= servers.len() => 2,
        _ if count < servers.len() => 3,
        _ => 4,
    };
    let parts = [
        seen.iter().filter(|seen| !seen.is_up).count().min(3),
        playing(RoleKind::Leader).count().min(2),
        playing(RoleKind::Candidate).filter(|server| server.term == newest).count().min(2),
        different(servers.iter().map(|server| server.term)).min(3),
        ends.min(3),
        strayed.min(2),
        part(servers.iter().filter(|server| server.last() == best.last()).count()),
        best.log.len().saturating_sub(committed).min(2),
        part(servers.iter().filter(|server| server.common(best) < committed).count()),
    ];
    parts.into_iter().fold(0, |hash, part| mix(hash, part as u64))
}

/// How many different ones there are.
fn different<T: Ord>(all: impl Iterator<Item = T>) -> usize {
    all.collect::<std::collections::BTreeSet<T>>().len()
}

#[cfg(test)]
mod tests {
    use sim_runtime::NodeId;

    use super::*;

    fn seen(node: u16) -> Seen {
        Seen { node: NodeId(node), class: 0, is_up: true, is_paused: false, role: "", windows: 0 }
    }

    fn of(logs: [&[u64]; 3]) -> u64 {
        let seen = [seen(1), seen(2), seen(3)];
        let known = logs.map(|log| Known { log: log.to_vec(), term: 3, commit: 1, ..Known::default() });
        relations(seen.iter().zip(&known))
    }

    #[test]
    fn which_server_it_is_and_how_long_logs_are_does_not_matter_and_how_they_part_does() {
        let parted = of([&[1, 1, 2], &[1, 1, 3], &[1, 1]]);
        assert_eq!(parted, of([&[1, 1], &[1, 1, 2], &[1, 1, 3]]));
        assert_ne!(parted, of([&[1, 1, 3], &[1, 1, 3], &[1, 1]]));
        assert_ne!(parted, of([&[1, 2, 2], &[1, 1, 3], &[1, 1]]));
        assert_ne!(of([&[1, 1, 2], &[1], &[1]]), of([&[1, 1, 2], &[1], &[2]]));
    }

    #[test]
    fn logs_have_in_common_what_comes_before_the_last_entry_that_they_share() {
        let log = |log: &[u64]| Known { log: log.to_vec(), ..Known::default() };
        assert_eq!(log(&[1, 2, 2]).common(&log(&[1, 2, 3])), 2);
        assert_eq!(log(&[1]).common(&log(&[])), 0);
        assert!(log(&[1]).is_continued_by(&log(&[1, 2])) && !log(&[2]).is_continued_by(&log(&[1, 2])));
    }
}
