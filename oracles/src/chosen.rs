//! What a majority holds: *accepted* and *chosen*.
//!
//! * accepted(n, j, T): the device of n durably held entry (j, T) at some instant while its durable term was T.
//! * chosen(i, t): some (j, T) with j ≥ i, whose log contains (i, t), was accepted by a majority.
//!
//! The condition "while its durable term was T" is what Figure 8 is about: a majority may hold an entry of an
//! older term, and it can still be overwritten.
//!
//! Invariants: neither is ever taken back; what precedes something chosen is chosen.
//! Not here: when an entry or a term is durable (`shadow.rs`, `cluster.rs`).

use crate::dense::Dense;
use crate::log_tree::{LogTree, Prefix};

#[derive(Copy, Clone, Default, Debug)]
struct Mark {
    /// One bit for each server.
    accepted_by: u128,
    /// How many bits those are.
    acceptors: u32,
    chosen: bool,
}

/// Marks beside the tree of logs.
#[derive(Debug)]
pub struct Chosen {
    /// By prefix.
    marks: Dense<Mark>,
    majority: u32,
}

impl Chosen {
    /// Nothing is chosen, not even without servers.
    pub fn new(servers: usize) -> Self {
        let mut marks = Dense::of(Mark::default());
        marks.entry(Prefix::EMPTY.slot()).chosen = true;
        Self { marks, majority: servers as u32 / 2 + 1 }
    }

    /// Server number `server` durably holds the log `prefix`, and the last entry's term is its durable term.
    pub fn accept(&mut self, tree: &LogTree, prefix: Prefix, server: usize) {
        let mark = self.marks.entry(prefix.slot());
        let bit = 1 << server;
        if mark.accepted_by & bit != 0 {
            return;
        }
        mark.accepted_by |= bit;
        mark.acceptors += 1;
        if mark.acceptors < self.majority {
            return;
        }
        let mut at = prefix;
        while !std::mem::replace(&mut self.marks.entry(at.slot()).chosen, true) {
            at = tree.parent(at);
        }
    }

    /// Whether the last entry of `prefix` is chosen.
    pub fn is_chosen(&self, prefix: Prefix) -> bool {
        self.marks.get(prefix.slot()).chosen
    }

    /// How many servers have accepted the last entry of `prefix`.
    pub fn acceptors(&self, prefix: Prefix) -> u32 {
        self.marks.get(prefix.slot()).acceptors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_chooses_an_entry_and_everything_before_it() {
        let mut tree = LogTree::default();
        let first = tree.grow(Prefix::EMPTY, 1, 0).0;
        let second = tree.grow(first, 2, 0).0;
        let other = tree.grow(first, 3, 0).0;
        let mut chosen = Chosen::new(5);
        chosen.accept(&tree, second, 0);
        chosen.accept(&tree, second, 0);
        chosen.accept(&tree, second, 3);
        assert!(!chosen.is_chosen(second));
        chosen.accept(&tree, second, 4);
        assert!(chosen.is_chosen(second) && chosen.is_chosen(first));
        assert!(!chosen.is_chosen(other));
        assert_eq!((chosen.acceptors(second), chosen.acceptors(first)), (3, 0));
    }
}
