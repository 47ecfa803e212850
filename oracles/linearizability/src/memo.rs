//! Memo: where a search has been, so that it goes nowhere twice.
//!
//! ```text
//!   configuration = (event, state, placed)      what can be done from here on depends on this
//!        └─► antichain of used sets             and on how many of each class of unknown operations are left
//! ```
//!
//! Who used fewer unknown operations can do all that who used more can, so of two ways to a configuration the one
//! that used no more is enough; ways that cannot be compared are all kept.
//!
//! Invariants: the memory of a configuration does not depend on the length of the history, only on the operations
//! in flight; used sets are interned, and there are no more of them than moves with unknown operations.
//! Not here: which configurations there are (`moves.rs`).

use crate::bits::Bits;
use crate::intern::{Interner, Key, mix};
use crate::schedule::NONE;
use crate::spec::StateId;

/// Where two orders can do the same from here on, but for the unknown operations used.
#[derive(Clone, PartialEq, Eq)]
pub struct Configuration<B> {
    /// The next return that must be accounted for.
    pub event: u32,
    pub state: StateId,
    /// Open operations that are already in the order.
    pub placed: B,
}

impl<B: Bits> Key for Configuration<B> {
    fn digest(&self) -> u64 {
        self.placed.fold(mix(0, u64::from(self.event) << 32 | u64::from(self.state)))
    }
}

/// Configurations seen, each with the sets of unknown operations used on the ways to it.
pub struct Memo<B> {
    configurations: Interner<Configuration<B>>,
    /// By configuration: a list of sets, none of which is at most one that came before it.
    heads: Vec<Link>,
    links: Vec<Link>,
    /// Sets that were compared, beyond one a question.
    compared: u64,
}

#[derive(Clone, Copy)]
struct Link {
    used: u32,
    next: u32,
}

impl<B: Bits> Memo<B> {
    pub fn with_capacity(configurations: usize) -> Self {
        let heads = Vec::with_capacity(configurations);
        Memo {
            configurations: Interner::with_capacity(configurations),
            heads,
            links: Vec::new(),
            compared: 0,
        }
    }

    /// Whether nobody got to this configuration with at most these used. Remembers it. O(sets kept here × classes).
    pub fn is_news(&mut self, at: &Configuration<B>, used: u32, sets: &UsedSets) -> bool {
        let id = self.configurations.intern(at.clone()) as usize;
        if id == self.heads.len() {
            self.heads.push(Link { used, next: NONE });
            return true;
        }
        let mut compared = 0;
        let is_known = self.sets_at(id).inspect(|_| compared += 1).any(|known| sets.is_at_most(known, used));
        self.compared += compared - 1;
        if is_known {
            return false;
        }
        let old = self.heads[id];
        // One that is dominated by the new set need not be kept.
        let next = if sets.is_at_most(used, old.used) {
            old.next
        } else {
            self.links.push(old);
            self.links.len() as u32 - 1
        };
        self.heads[id] = Link { used, next };
        true
    }

    /// Comparisons since this was asked last. Where many unknown operations can stand in for each other, they are what
    /// a search does, so they are paid for.
    pub fn take_compared(&mut self) -> u64 {
        std::mem::take(&mut self.compared)
    }

    fn sets_at(&self, id: usize) -> impl Iterator<Item = u32> {
        let next = |link: &Link| (link.next != NONE).then(|| self.links[link.next as usize]);
        std::iter::successors(Some(self.heads[id]), next).map(|link| link.used)
    }
}

/// How many of each class were used, interned.
pub struct UsedSets {
    sets: Interner<Box<[u32]>>,
}

impl UsedSets {
    pub const NONE_USED: u32 = 0;

    pub fn new(classes: usize) -> Self {
        let mut sets = Interner::with_capacity(0);
        sets.intern(vec![0; classes].into_boxed_slice());
        UsedSets { sets }
    }

    pub fn count(&self, set: u32, class: u32) -> u32 {
        self.sets.key(set)[class as usize]
    }

    pub fn with_one_more(&mut self, set: u32, class: u32) -> u32 {
        let mut counts = self.sets.key(set).clone();
        counts[class as usize] += 1;
        self.sets.intern(counts)
    }

    fn is_at_most(&self, set: u32, other: u32) -> bool {
        set == other
            || self.sets.key(set).iter().zip(self.sets.key(other)).all(|(ours, theirs)| ours <= theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Of two ways to a configuration the one that used no more is enough."
    #[test]
    fn only_a_way_that_used_no_less_is_no_news() {
        let mut sets = UsedSets::new(2);
        let a = sets.with_one_more(UsedSets::NONE_USED, 0);
        let b = sets.with_one_more(UsedSets::NONE_USED, 1);
        let both = sets.with_one_more(a, 1);
        let at = Configuration { event: 0, state: 0, placed: 0_u64 };
        let elsewhere = Configuration { event: 1, ..at.clone() };
        let mut memo = Memo::with_capacity(0);

        assert!(memo.is_news(&at, both, &sets));
        assert!(memo.is_news(&at, a, &sets), "fewer used");
        assert!(memo.is_news(&at, b, &sets), "others used");
        assert!(
            !memo.is_news(&at, both, &sets) && !memo.is_news(&at, a, &sets) && !memo.is_news(&at, b, &sets)
        );
        assert!(memo.is_news(&at, UsedSets::NONE_USED, &sets));
        assert!(!memo.is_news(&at, a, &sets));
        assert!(memo.is_news(&elsewhere, both, &sets));
        assert_eq!(sets.with_one_more(b, 0), both, "sets are equal whatever the order of uses");
    }
}
