//! What the behaviour of a run was up to some moments of it, so that two runs can be compared without their traces.
//!
//!   run ──after a step──► digest of all records so far, once in each slot of virtual time ──► Milestones (a line of text)
//!
//! There are at most [`MOST`]: when there are more, every second goes and slots become twice as long. The last step of
//! all is one more, so that a difference behind the last slot's first step is seen, too.
//!
//! Not here: what a difference means (`command/replay.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::trace::Kind;
use sim_runtime::verdict::Findings;

/// More than this many are thinned out.
const MOST: usize = 64;

/// Slots are at least so long.
const SLOT_MS: u64 = 2;

/// Digests of behaviour by slot. Written as `SLOT_MS: NUMBER=DIGEST .. end:MS=DIGEST`, of the digests the lower half.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Milestones {
    slot_ms: u64,
    digests: BTreeMap<u64, u32>,
    /// The time of the last step in milliseconds, and what the digest was then.
    end: Option<(u64, u32)>,
}

impl Default for Milestones {
    fn default() -> Self {
        Self { slot_ms: SLOT_MS, digests: BTreeMap::new(), end: None }
    }
}

impl Milestones {
    fn note(&mut self, now_ns: u64, digest: u64) {
        let slot = now_ns / 1_000_000 / self.slot_ms;
        if self.digests.last_key_value().is_none_or(|(last, _)| *last < slot) {
            self.digests.insert(slot, digest as u32);
        }
        while self.digests.len() > MOST {
            self.coarsen();
        }
        self.end = Some((now_ns / 1_000_000, digest as u32));
    }

    fn coarsen(&mut self) {
        let mut coarse = BTreeMap::new();
        for (slot, digest) in &self.digests {
            coarse.entry(slot / 2).or_insert(*digest);
        }
        *self = Self { slot_ms: self.slot_ms * 2, digests: coarse, end: self.end };
    }

    /// Where this run and `other` part ways: after the first time in milliseconds, and not after the second where that is
    /// known. `None` when no milestone differs.
    pub fn first_difference(&self, other: &Self) -> Option<(u64, u64)> {
        let (mut ours, mut theirs) = (self.clone(), other.clone());
        while ours.slot_ms < theirs.slot_ms {
            ours.coarsen();
        }
        while theirs.slot_ms < ours.slot_ms {
            theirs.coarsen();
        }
        let mut alike_ms = 0;
        let slots: std::collections::BTreeSet<u64> =
            ours.digests.keys().chain(theirs.digests.keys()).copied().collect();
        for slot in slots {
            // A milestone comes with the first step of its slot.
            if ours.digests.get(&slot) != theirs.digests.get(&slot) {
                return Some((alike_ms, (slot + 1) * ours.slot_ms));
            }
            alike_ms = slot * ours.slot_ms;
        }
        let last_ms = ours.end.max(theirs.end).map_or(alike_ms, |(end_ms, _)| end_ms + 1);
        (ours.end != theirs.end).then_some((alike_ms, last_ms))
    }
}

impl fmt::Display for Milestones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.slot_ms)?;
        self.digests.iter().try_for_each(|(slot, digest)| write!(f, " {slot}={digest:08x}"))?;
        self.end.map_or(Ok(()), |(end_ms, digest)| write!(f, " end:{end_ms}={digest:08x}"))
    }
}

impl FromStr for Milestones {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` are no milestones");
        let (slot_ms, digests) = text.split_once(':').ok_or_else(wrong)?;
        let slot_ms = slot_ms.parse().ok().filter(|ms: &u64| ms.is_power_of_two() && *ms < 1 << 40);
        let digest = |one: &str, most: u64| {
            let (at, digest) = one.split_once('=')?;
            Some((at.parse().ok().filter(|at| *at < most)?, u32::from_str_radix(digest, 16).ok()?))
        };
        let (digests, end) = match digests.split_once("end:") {
            Some((digests, end)) => (digests, Some(digest(end, 1 << 50).ok_or_else(wrong)?)),
            None => (digests, None),
        };
        let digests: Option<BTreeMap<u64, u32>> =
            digests.split_whitespace().map(|one| digest(one, 1 << 20)).collect();
        Ok(Self { slot_ms: slot_ms.ok_or_else(wrong)?, digests: digests.ok_or_else(wrong)?, end })
    }
}

impl From<Milestones> for String {
    fn from(milestones: Milestones) -> Self {
        milestones.to_string()
    }
}

impl TryFrom<String> for Milestones {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Takes down milestones during a run, and changes nothing in it: it looks when others do.
#[derive(Clone, Default)]
pub(super) struct Surveyor(Rc<RefCell<Milestones>>);

impl Surveyor {
    pub(super) fn take(&self) -> Milestones {
        self.0.take()
    }
}

impl Invariant for Surveyor {
    fn name(&self) -> &'static str {
        "milestones"
    }

    fn concerns(&self, _kind: Kind) -> bool {
        false
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        self.0.borrow_mut().note(view.now_ns(), view.behaviour());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose records differ from those of others from `changed_ms` on.
    fn run(lasts_ms: u64, changed_ms: u64) -> Milestones {
        let mut milestones = Milestones::default();
        for ms in 0..lasts_ms {
            let digest = if ms < changed_ms { ms } else { ms + 1_000_000 };
            milestones.note(ms * 1_000_000, digest);
        }
        milestones
    }

    #[test]
    fn there_are_few_and_the_place_of_a_difference_is_known() {
        for (lasts_ms, changed_ms) in [(20, 7), (500, 100), (6_000, 4_321), (100_000, 99_000)] {
            let (before, after) = (run(lasts_ms, u64::MAX), run(lasts_ms, changed_ms));
            assert!(before.digests.len() <= MOST && before.digests.len() >= lasts_ms.min(60) as usize / 2);
            let (from_ms, to_ms) = before.first_difference(&after).expect("they differ");
            assert!(from_ms <= changed_ms && changed_ms <= to_ms, "{changed_ms} in {from_ms}..{to_ms}");
            assert!(to_ms - from_ms <= (lasts_ms / 10).max(4), "{from_ms}..{to_ms} of {lasts_ms}");
            assert_eq!(before.first_difference(&before), None);
        }
    }

    #[test]
    fn runs_of_different_length_are_compared_as_far_as_both_went() {
        let (short, long) = (run(100, u64::MAX), run(10_000, u64::MAX));
        let (from_ms, to_ms) = short.first_difference(&long).expect("one goes on");
        assert!(from_ms <= 100 && 100 <= to_ms, "{from_ms}..{to_ms}");
        let (from_ms, to_ms) = short.first_difference(&run(10_000, 40)).expect("they differ");
        assert!(from_ms <= 40 && 40 <= to_ms, "{from_ms}..{to_ms}");
    }

    #[test]
    fn what_is_written_is_read_and_nonsense_is_not() {
        let milestones = run(300, 200);
        assert_eq!(milestones.to_string().parse(), Ok(milestones));
        for text in ["", "2", "0: 1=a", "3: 1=a", "2: 1", "2: 1=xyz", "2: -1=0"] {
            assert!(text.parse::<Milestones>().is_err(), "{text}");
        }
    }
}
