//! How a search divides its runs: new roots or known states, and what is changed from there on.
//!
//! Where there are near misses, most runs start from them: a near miss says that something is wrong, and what is missing
//! for harm is near, in the same run or in the same configuration. Where there are none, nothing says that depth is worth
//! more than breadth: in a swarm, where each root has another configuration, a run from a state that is merely new finds
//! less than a new root does about as often as more. So depth gets little then, and more only where it shows more that is new. So it is when the
//! near misses that there are have had their turns: in some configurations no harm comes of them.
//!
//! All is counted in integers, so that it is the same everywhere.

use serde::{Deserialize, Serialize};

/// How a search divides its runs, and what it changes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Runs of a round.
    pub runs_a_round: u64,
    /// How many of them are from states (depth) and not of new roots (breadth), at least, in percent.
    pub depth_least_percent: u64,
    /// The same at most. In between it is as each showed something new lately.
    pub depth_most_percent: u64,
    /// How many are of new roots where there are near misses that are hardly tried yet, in percent.
    pub roots_beside_near_misses_percent: u64,
    /// Near misses of a root are tried when they were picked so often; then the next root has its turn.
    pub turns_of_near_misses: u64,
    /// Which kinds of states.
    pub shares: Shares,
    /// What is changed from states and steps of assertions on.
    pub states: Changes,
    /// What is changed from near misses on.
    pub near_misses: Changes,
}

/// What is changed, in how many runs of a million.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// They begin anew: the same configuration from the start, with everything else drawn again. All below is about the
    /// others.
    pub anew: u32,
    /// All conditions are seeded anew from the moment on.
    pub reseeds: u32,
    /// Their plan is changed; that of those that are not seeded anew always is.
    pub edits: u32,
    /// They end soon after the moment.
    pub ends: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            runs_a_round: 8,
            depth_least_percent: 10,
            depth_most_percent: 20,
            roots_beside_near_misses_percent: 25,
            turns_of_near_misses: 4,
            shares: Shares::default(),
            states: Changes { anew: 200_000, reseeds: 800_000, edits: 700_000, ends: 0 },
            near_misses: Changes { anew: 250_000, reseeds: 800_000, edits: 700_000, ends: 800_000 },
        }
    }
}

impl Policy {
    /// How many runs of a round are of new roots. `near_misses_picked`: how often those that are tried least were.
    pub(super) fn roots(&self, near_misses_picked: Option<u64>, breadth: &Yield, depth: &Yield) -> u64 {
        let percent = if near_misses_picked.is_some_and(|least| least < self.turns_of_near_misses) {
            self.roots_beside_near_misses_percent.min(100)
        } else {
            let (breadth, depth) = (breadth.per_mille(), depth.per_mille());
            let most = self.depth_most_percent.min(100);
            100 - (depth * 100 / (breadth + depth)).clamp(self.depth_least_percent.min(most), most)
        };
        (self.runs_a_round * percent / 100).max(1)
    }
}

/// How often each kind is started from, where there is one of it, in relation to the others.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shares {
    /// States of the system.
    pub states: u32,
    /// Near misses.
    pub near_misses: u32,
    /// Steps of assertions.
    pub assertions: u32,
}

impl Default for Shares {
    fn default() -> Self {
        Self { states: 1, near_misses: 12, assertions: 2 }
    }
}

/// What runs of a kind have shown lately that was new.
#[derive(Default)]
pub(super) struct Yield {
    runs: u64,
    fresh: u64,
}

impl Yield {
    /// Beyond so many runs, all before count half.
    const LATELY: u64 = 128;

    pub(super) fn add(&mut self, fresh: u64) {
        if self.runs >= Self::LATELY {
            (self.runs, self.fresh) = (self.runs / 2, self.fresh / 2);
        }
        (self.runs, self.fresh) = (self.runs + 1, self.fresh + fresh);
    }

    /// What is new in a run, in thousandths, and one more: nothing stays untried.
    fn per_mille(&self) -> u64 {
        1 + self.fresh * 1_000 / self.runs.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(runs: u64, fresh: u64) -> Yield {
        let mut shown = Yield::default();
        (0..runs).for_each(|run| shown.add(u64::from(run < fresh)));
        shown
    }

    #[test]
    fn what_shows_more_gets_more_and_neither_goes_without() {
        let policy = Policy::default();
        let policy = Policy { runs_a_round: 100, ..policy };
        assert_eq!(policy.roots(None, &shown(10, 0), &shown(10, 10)), 80);
        assert_eq!(policy.roots(None, &shown(10, 10), &shown(10, 0)), 90);
        assert_eq!(policy.roots(Some(9), &shown(20, 17), &shown(20, 3)), 85);
        assert_eq!(policy.roots(Some(0), &shown(10, 10), &shown(10, 0)), 25);
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        assert!(shown(1_000, 100).per_mille() < 10);
    }
}
