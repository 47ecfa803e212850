//! All logs that ever were, as one tree of prefixes.
//!
//! ```text
//!   ()──1:t1──2:t1──3:t2──4:t2          server A's log ends at 4:t2
//!              └────3:t3                server B's at 3:t3; they part behind 2:t1
//! ```
//!
//! A log is named by the node of its last entry. Replicas that agree share nodes, so the tree grows with the
//! number of different entries, a leader's log at its election costs one word to keep, and "does this log
//! contain that entry" takes O(log n) along jump pointers (Myers, "An applicative random-access stack", 1983).
//!
//! Invariants: nodes are never changed or removed; equal prefixes have equal names.
//! Not here: who holds which log (`shadow.rs`), what a majority holds (`chosen.rs`).

use raft_async::trace::extend_log_digest;

use crate::dense::FIRST_ROOM;

/// A log, or the prefix of one: the name of its last entry's node.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Prefix(u32);

impl Prefix {
    /// The log without entries.
    pub const EMPTY: Self = Self(0);

    /// As a place in a list with an element for each prefix.
    pub fn slot(self) -> usize {
        self.0 as usize
    }
}

#[derive(Copy, Clone, Debug)]
struct Node {
    index: u64,
    term: u64,
    /// Digest of the last entry's command.
    command: u64,
    /// Digest of the whole log, as the servers compute it.
    digest: u64,
    parent: Prefix,
    /// Some ancestor; which one makes descents logarithmic.
    jump: Prefix,
    /// Another prefix of the same length; `EMPTY` ends the list.
    sibling: Prefix,
}

/// The tree.
#[derive(Debug)]
pub struct LogTree {
    nodes: Vec<Node>,
    /// By index: the newest prefix of that length.
    newest: Vec<Prefix>,
}

impl Default for LogTree {
    fn default() -> Self {
        let empty = Node {
            index: 0,
            term: 0,
            command: 0,
            digest: 0,
            parent: Prefix::EMPTY,
            jump: Prefix::EMPTY,
            sibling: Prefix::EMPTY,
        };
        let (mut nodes, mut newest) = (Vec::with_capacity(FIRST_ROOM), Vec::with_capacity(FIRST_ROOM));
        nodes.push(empty);
        newest.push(Prefix::EMPTY);
        Self { nodes, newest }
    }
}

impl LogTree {
    /// The log `parent` with one more entry, and whether nobody had that log before.
    pub fn grow(&mut self, parent: Prefix, term: u64, command: u64) -> (Prefix, bool) {
        let index = self.index(parent) + 1;
        let known = self.of_length(index).find(|p| {
            let node = self.node(*p);
            node.parent == parent && node.term == term && node.command == command
        });
        if let Some(known) = known {
            return (known, false);
        }
        let prefix = Prefix(u32::try_from(self.nodes.len()).expect("fewer than 2^32 entries in a run"));
        if self.newest.len() as u64 == index {
            self.newest.push(Prefix::EMPTY);
        }
        let sibling = std::mem::replace(&mut self.newest[index as usize], prefix);
        let digest = extend_log_digest(self.digest(parent), term, command);
        let jump = self.jump_from(parent);
        self.nodes.push(Node { index, term, command, digest, parent, jump, sibling });
        (prefix, true)
    }

    /// Two jumps of equal length become one: as in counting with skew binary digits.
    fn jump_from(&self, parent: Prefix) -> Prefix {
        let first = self.node(parent).jump;
        let second = self.node(first).jump;
        let length = |from: Prefix, to: Prefix| self.index(from) - self.index(to);
        if length(parent, first) == length(first, second) { second } else { parent }
    }

    fn node(&self, prefix: Prefix) -> &Node {
        &self.nodes[prefix.slot()]
    }

    /// All prefixes of a length, the newest first.
    fn of_length(&self, index: u64) -> impl Iterator<Item = Prefix> {
        let mut next = self.newest.get(index as usize).copied().unwrap_or(Prefix::EMPTY);
        std::iter::from_fn(move || {
            let this = next;
            next = self.node(this).sibling;
            (this != Prefix::EMPTY).then_some(this)
        })
    }

    /// How many entries it has.
    pub fn index(&self, prefix: Prefix) -> u64 {
        self.node(prefix).index
    }

    /// The term of its last entry, 0 for none.
    pub fn term(&self, prefix: Prefix) -> u64 {
        self.node(prefix).term
    }

    /// The digest of the command of its last entry.
    pub fn command(&self, prefix: Prefix) -> u64 {
        self.node(prefix).command
    }

    /// The digest of the whole.
    pub fn digest(&self, prefix: Prefix) -> u64 {
        self.node(prefix).digest
    }

    /// It without its last entry.
    pub fn parent(&self, prefix: Prefix) -> Prefix {
        self.node(prefix).parent
    }

    /// Its first `index` entries; `None` when it is shorter.
    pub fn first(&self, prefix: Prefix, index: u64) -> Option<Prefix> {
        if index > self.index(prefix) {
            return None;
        }
        let mut at = prefix;
        while self.index(at) > index {
            let node = self.node(at);
            at = if self.index(node.jump) >= index { node.jump } else { node.parent };
        }
        Some(at)
    }

    /// Whether the log `whole` begins with `prefix`.
    pub fn begins_with(&self, whole: Prefix, prefix: Prefix) -> bool {
        self.first(whole, self.index(prefix)) == Some(prefix)
    }

    /// Another log that ends with an entry of the same index and term.
    pub fn rival(&self, prefix: Prefix) -> Option<Prefix> {
        let node = *self.node(prefix);
        self.of_length(node.index).find(|p| *p != prefix && self.term(*p) == node.term)
    }

    /// The log of this length and digest, if there ever was one.
    pub fn with_digest(&self, index: u64, digest: u64) -> Option<Prefix> {
        if index == 0 {
            return (digest == 0).then_some(Prefix::EMPTY);
        }
        self.of_length(index).find(|p| self.digest(*p) == digest)
    }

    /// The log that ends with this entry, if there ever was one.
    pub fn ending_with(&self, index: u64, term: u64) -> Option<Prefix> {
        self.of_length(index).find(|p| self.term(*p) == term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(tree: &mut LogTree, terms: &[u64]) -> Prefix {
        terms.iter().fold(Prefix::EMPTY, |at, term| tree.grow(at, *term, 7).0)
    }

    #[test]
    fn equal_logs_have_one_name_and_different_ones_part_where_they_differ() {
        let mut tree = LogTree::default();
        let a = log(&mut tree, &[1, 1, 2, 2]);
        assert_eq!(log(&mut tree, &[1, 1, 2, 2]), a);
        let b = log(&mut tree, &[1, 1, 3]);
        assert_eq!(tree.first(a, 2), tree.first(b, 2));
        assert_ne!(tree.first(a, 3), tree.first(b, 3));
        assert!(!tree.begins_with(a, b));
        assert_eq!(tree.first(b, 4), None);
        assert_eq!(tree.with_digest(3, tree.digest(b)), Some(b));
        assert_eq!(tree.ending_with(4, 2), Some(a));
    }

    #[test]
    fn a_rival_has_the_same_last_entry_and_another_past() {
        let mut tree = LogTree::default();
        let a = log(&mut tree, &[1, 3]);
        assert_eq!(tree.rival(a), None);
        let b = log(&mut tree, &[2, 3]);
        assert_eq!(tree.rival(b), Some(a));
    }

    #[test]
    fn every_prefix_of_a_long_log_is_found_in_few_steps() {
        let mut tree = LogTree::default();
        let mut by_length = vec![Prefix::EMPTY];
        for n in 0..5_000 {
            let last = by_length[n];
            by_length.push(tree.grow(last, 1 + n as u64 / 100, n as u64).0);
        }
        let whole = by_length[5_000];
        for (index, prefix) in by_length.iter().enumerate() {
            assert_eq!(tree.first(whole, index as u64), Some(*prefix));
        }
        let mut steps = 0;
        let mut at = whole;
        while tree.index(at) > 1 {
            let node = tree.node(at);
            at = if tree.index(node.jump) >= 1 { node.jump } else { node.parent };
            steps += 1;
        }
        assert!(steps < 40, "{steps}");
    }

    #[test]
    fn digests_are_those_of_the_servers() {
        use raft_async::entries::Entries;
        use raft_async::types::{Command, Entry, Term};
        let entries: Entries =
            [1, 1, 4].iter().map(|t| Entry { term: Term(*t), command: Command::Noop }).collect();
        let mut tree = LogTree::default();
        let log = [1, 1, 4].iter().fold(Prefix::EMPTY, |at, t| tree.grow(at, *t, Command::Noop.digest()).0);
        assert_eq!(tree.digest(log), entries.digest());
    }
}
