//! Shadow: what the teller remembers of each server, to say what a record means and what it follows from.
//!
//! Everything comes from records: what the log holds in memory from what the code says, what the disk holds from
//! the device. All `Option<u64>` and `u64` of this file that are no term, index or vote are ordinals of records.

use std::collections::BTreeMap;

/// An entry, as records have it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    pub term: u64,
    pub digest: u64,
    /// When it entered the log in memory.
    pub appended: Option<u64>,
    /// The sync that made it durable.
    pub synced: Option<u64>,
}

/// A vote in a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Granted {
    pub candidate: u64,
    pub sent: u64,
    pub life: u32,
    /// The terms of its log then.
    pub log: Vec<u64>,
}

/// A message that arrived.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Way {
    pub received: u64,
    pub sent: Option<u64>,
}

/// Both ends of a message's way.
pub(super) fn ways(way: impl IntoIterator<Item = Way>) -> impl Iterator<Item = u64> {
    way.into_iter().flat_map(|way| [Some(way.received), way.sent]).flatten()
}

/// An answer to AppendEntries that reached a leader.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Matched {
    pub index: u64,
    pub received: Way,
}

/// A client's request that reached a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub received: Way,
    pub is_read: bool,
    /// Who has answered an AppendEntries since.
    pub heard: Vec<u64>,
    pub answered: bool,
}

/// A server.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub life: u32,
    pub term: u64,
    /// Whom it voted for in that term, as far as it told.
    pub vote: u64,
    pub log: Vec<Held>,
    pub commit: u64,
    pub leads: bool,
    /// The file of term and vote, and of each entry that was written and not synced.
    pub hard_file: Option<u64>,
    unsynced: BTreeMap<u64, Vec<u64>>,
    /// Of each file: what the syncs under way cover.
    syncing: BTreeMap<u64, Vec<Vec<u64>>>,
    /// Whether term and vote were written and not synced: (term, vote, when).
    pub hard_unsynced: Option<(u64, u64)>,
    pub hard_written: Option<u64>,
    pub candidate: Option<u64>,
    pub leader: Option<u64>,
    pub down: Option<u64>,
    pub recovered: Option<u64>,
    /// What a power loss did to its files.
    pub crashed: Vec<u64>,
    /// Votes that it counted as a candidate: the voter, and when.
    pub votes: Vec<(u64, u64)>,
    /// By term: votes that it gave.
    pub granted: BTreeMap<u64, Vec<Granted>>,
    /// The latest AppendEntries that it received.
    pub append: Option<Way>,
    /// By sender: the latest RequestVote, by term, and vote granted, with its term.
    pub asked: BTreeMap<(u64, u64), Way>,
    pub vote_received: BTreeMap<u64, (u64, Way)>,
    /// By follower, while it leads.
    pub matched: BTreeMap<u64, Vec<Matched>>,
    /// Commit indices of this life.
    pub commits: Vec<(u64, u64)>,
    /// The latest read that it served.
    pub served: Option<u64>,
    /// By operation: the latest request.
    pub requests: BTreeMap<(u64, u64), Request>,
}

impl Server {
    pub fn last(&self) -> (u64, u64) {
        (self.log.len() as u64, self.log.last().map_or(0, |held| held.term))
    }

    pub fn held(&self, index: u64) -> Option<&Held> {
        self.log.get(usize::try_from(index.checked_sub(1)?).ok()?)
    }

    /// An entry enters the log.
    pub fn append(&mut self, index: u64, held: Held) {
        self.log.resize(index as usize - 1, Held::default());
        self.log.push(held);
    }

    /// The log loses everything from `from` on. Returns what it loses.
    pub fn cut(&mut self, from: u64) -> Vec<Held> {
        let keep = (from.max(1) as usize - 1).min(self.log.len());
        self.log.split_off(keep)
    }

    /// An entry was handed to the disk.
    pub fn written(&mut self, index: u64, file: u64) {
        self.unsynced.entry(file).or_default().push(index);
    }

    /// A sync begins: it covers what was written before.
    pub fn sync_begins(&mut self, file: u64) {
        let covered = self.unsynced.remove(&file).unwrap_or_default();
        self.syncing.entry(file).or_default().push(covered);
    }

    /// A sync is done.
    pub fn sync_done(&mut self, file: u64, ordinal: u64) {
        let begun = self.syncing.get_mut(&file).filter(|begun| !begun.is_empty());
        for index in begun.map(|begun| begun.remove(0)).unwrap_or_default() {
            if let Some(held) = self.log.get_mut(index as usize - 1) {
                held.synced.get_or_insert(ordinal);
            }
        }
        if self.hard_file == Some(file) {
            self.hard_unsynced = None;
        }
    }

    /// Up to where the log is on the disk.
    pub fn on_disk(&self) -> u64 {
        self.log.iter().take_while(|held| held.synced.is_some()).count() as u64
    }

    /// The process is gone.
    pub fn goes_down(&mut self, ordinal: u64) {
        self.unsynced.clear();
        self.syncing.clear();
        self.commits.clear();
        self.votes.clear();
        self.matched.clear();
        self.requests.clear();
        self.crashed.clear();
        self.asked.clear();
        self.vote_received.clear();
        (self.append, self.served, self.candidate, self.leader) = (None, None, None, None);
        (self.down, self.leads, self.commit) = (Some(ordinal), false, 0);
    }

    /// The commit that covers `index`.
    pub fn commit_of(&self, index: u64) -> Option<u64> {
        self.commits.iter().find(|(to, _)| *to >= index).map(|(_, ordinal)| *ordinal)
    }

    /// By follower, the answers that reached it and vouch for `index`.
    pub fn vouching(&self, index: u64) -> Vec<(u64, Way)> {
        let first = |(follower, answers): (&u64, &Vec<Matched>)| {
            let answer = answers.iter().find(|matched| matched.index >= index)?;
            Some((*follower, answer.received))
        };
        self.matched.iter().filter_map(first).collect()
    }
}
