//! The log as the paper draws it: a sequence of entries, each with a term and a command.
//!
//! This is what a server decides by; its file may lag behind (`log.rs` knows how far).
//!
//! Invariants: positions are dense from 1; beside each entry stands the digest of the log up to it, so that
//! saying "this is my log" costs nothing.
//! Not here: durability, files, commitment.

use crate::types::{Entry, Index, LastEntry, Term, extend_digest};

/// A log in memory.
#[derive(Clone, Default, Debug)]
pub struct Entries {
    entries: Vec<Entry>,
    digests: Vec<Digests>,
}

/// What is said of an entry in the trace.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Digests {
    command: u64,
    /// Of the log up to and with the entry.
    log: u64,
}

/// How many entries are expected after a log has been read.
pub(crate) const ROOM_TO_GROW: usize = 256;

impl Entries {
    /// The position of the last entry, with its term.
    pub fn last(&self) -> LastEntry {
        LastEntry {
            term: self.entries.last().map_or(Term(0), |entry| entry.term),
            index: Index(self.entries.len() as u64),
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry at a position.
    pub fn get(&self, index: Index) -> Option<&Entry> {
        self.entries.get(index.0.checked_sub(1)? as usize)
    }

    /// The term of the entry at a position; the position before the log has term 0.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        if index == Index::ZERO { Some(Term(0)) } else { self.get(index).map(|entry| entry.term) }
    }

    /// The end of the prefix up to `index`.
    pub fn ending_at(&self, index: Index) -> Option<LastEntry> {
        self.term_at(index).map(|term| LastEntry { term, index })
    }

    /// The entries from `from` on, `limit` at most.
    pub fn batch(&self, from: Index, limit: usize) -> &[Entry] {
        let start = (from.prev().0 as usize).min(self.entries.len());
        let end = start.saturating_add(limit).min(self.entries.len());
        &self.entries[start..end]
    }

    /// Appends an entry and returns its position.
    pub fn append(&mut self, entry: Entry) -> Index {
        let command = entry.command.digest();
        let log = extend_digest(self.digest(), entry.term, command);
        self.digests.push(Digests { command, log });
        self.entries.push(entry);
        Index(self.entries.len() as u64)
    }

    /// Makes room for so many more entries.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.entries.reserve(count);
        self.digests.reserve(count);
    }

    /// Removes everything from `from` on.
    pub fn truncate(&mut self, from: Index) {
        self.entries.truncate(from.prev().0 as usize);
        self.digests.truncate(from.prev().0 as usize);
    }

    /// A digest over (term, command digest) of all entries, in order.
    pub fn digest(&self) -> u64 {
        self.digests.last().map_or(0, |digests| digests.log)
    }

    /// The digest of the command at a position.
    pub fn command_digest(&self, index: Index) -> Option<u64> {
        self.digests.get(index.0.checked_sub(1)? as usize).map(|digests| digests.command)
    }

    /// The digest of the prefix that ends at `index`; `None` when the log is shorter.
    pub fn digest_at(&self, index: Index) -> Option<u64> {
        if index == Index::ZERO {
            Some(0)
        } else {
            self.digests.get(index.prev().0 as usize).map(|digests| digests.log)
        }
    }

    /// The first position whose entry has the same term as the one at `index`. (Terms never fall along a log.)
    pub(crate) fn first_of_term_at(&self, index: Index) -> Index {
        let Some(term) = self.term_at(index) else { return index };
        let before = &self.entries[..(index.0 as usize).min(self.entries.len())];
        Index(before.partition_point(|entry| entry.term < term) as u64).next()
    }

    /// The last position with an entry of `term` or an earlier one; 0 where all are later.
    pub(crate) fn last_up_to_term(&self, term: Term) -> Index {
        Index(self.entries.partition_point(|entry| entry.term <= term) as u64)
    }
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self::from(Vec::from_iter(entries))
    }
}

impl From<Vec<Entry>> for Entries {
    fn from(entries: Vec<Entry>) -> Self {
        let mut digests = Vec::with_capacity(entries.capacity());
        let mut log = 0;
        digests.extend(entries.iter().map(|entry| {
            let command = entry.command.digest();
            log = extend_digest(log, entry.term, command);
            Digests { command, log }
        }));
        Self { entries, digests }
    }
}

#[cfg(test)]
pub(crate) mod fixtures {
    use super::*;
    use crate::types::Command;

    /// A log whose entries have these terms, as the paper's figures draw logs.
    pub(crate) fn log(terms: &[u64]) -> Entries {
        terms.iter().map(|&term| Entry { term: Term(term), command: Command::Noop }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::log;
    use super::*;

    #[test]
    fn positions_are_dense_from_one() {
        let mut l = log(&[1, 1, 4]);
        assert_eq!(l.last(), LastEntry { term: Term(4), index: Index(3) });
        assert_eq!(l.term_at(Index(0)), Some(Term(0)));
        assert_eq!(l.term_at(Index(3)), Some(Term(4)));
        assert_eq!(l.term_at(Index(4)), None);
        assert_eq!(l.batch(Index(2), 9).len(), 2);
        assert_eq!(l.batch(Index(2), 1).len(), 1);
        assert_eq!(l.batch(Index(9), 1).len(), 0);
        l.truncate(Index(2));
        assert_eq!(l.last(), LastEntry { term: Term(1), index: Index(1) });
        l.truncate(Index(9));
        assert_eq!(l.last().index, Index(1));
    }

    #[test]
    fn the_digest_is_that_of_the_contents_not_of_the_history() {
        let mut l = log(&[1, 2]);
        let two = l.digest();
        l.append(*log(&[3]).get(Index(1)).expect("it has one"));
        assert_eq!(l.digest_at(Index(2)), Some(two));
        assert_ne!(l.digest(), two);
        l.truncate(Index(3));
        assert_eq!(l.digest(), two);
        assert_ne!(log(&[2, 1]).digest(), two);
    }

    #[test]
    fn runs_of_a_term_are_found_from_both_ends() {
        let l = log(&[1, 1, 1, 4, 4, 5]);
        assert_eq!(l.first_of_term_at(Index(5)), Index(4));
        assert_eq!(l.first_of_term_at(Index(3)), Index(1));
        assert_eq!(l.last_up_to_term(Term(4)), Index(5));
        assert_eq!(l.last_up_to_term(Term(3)), Index(3));
        assert_eq!(l.last_up_to_term(Term(9)), l.last().index);
        assert_eq!(l.last_up_to_term(Term(0)), Index::ZERO);
    }
}
