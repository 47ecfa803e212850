//! Plans with fewer, earlier or briefer faults: two faults that become one, faults that come sooner, or end.
//!
//! Invariants: only faults at a known time to known nodes are touched; each plan has one fault less, or its faults come
//! earlier by a millisecond or more, so shrinking ends.
//! Not here: leaving faults out (`plan.rs`), less of one (`milder.rs`).

use super::fault::{Fault, PlannedFault, Target, When};
use super::plan::Plan;

/// With more faults than this, no two are made one.
const FEW: usize = 16;

/// Faults that last no longer are brief enough.
const BRIEF_US: u64 = 2_000;

/// Faults are not moved by less.
const LEAST_SHIFT_NS: u64 = 1_000_000;

impl Fault {
    /// One fault for both: what happens to the nodes of either. `None` where there is no such fault.
    fn with(&self, other: &Self) -> Option<Self> {
        if self == other {
            return Some(self.clone());
        }
        let of = |target: &Target, another: &Target| match (target, another) {
            (Target::Nodes(some), Target::Nodes(others)) => {
                let mut nodes = [some.as_slice(), others].concat();
                nodes.sort_unstable();
                nodes.dedup();
                Some(Target::Nodes(nodes))
            }
            _ => None,
        };
        Some(match (self, other) {
            (Self::Kill { target }, Self::Kill { target: other }) => {
                Self::Kill { target: of(target, other)? }
            }
            (Self::PowerOff { target }, Self::PowerOff { target: other } | Self::Kill { target: other })
            | (Self::Kill { target }, Self::PowerOff { target: other }) => {
                Self::PowerOff { target: of(target, other)? }
            }
            (Self::Pause { target }, Self::Pause { target: other }) => {
                Self::Pause { target: of(target, other)? }
            }
            (Self::Freeze { target }, Self::Freeze { target: other } | Self::Pause { target: other })
            | (Self::Pause { target }, Self::Freeze { target: other }) => {
                Self::Freeze { target: of(target, other)? }
            }
            (Self::Isolate { target }, Self::Isolate { target: other }) => {
                Self::Isolate { target: of(target, other)? }
            }
            (Self::DiskStall { target }, Self::DiskStall { target: other }) => {
                Self::DiskStall { target: of(target, other)? }
            }
            _ => return None,
        })
    }
}

impl Plan {
    /// Plans in which two faults are one: at the time of the first, or at that of the second, until both are over.
    ///
    /// None where there are many: what does not matter goes first, and pairs of what is left are few.
    pub(super) fn merged(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        if self.faults.len() > FEW {
            return plans;
        }
        for (at, second) in self.faults.iter().enumerate() {
            for (place, first) in self.faults[..at].iter().enumerate() {
                let (When::At { at_ns: one }, When::At { at_ns: other }) = (&first.when, &second.when) else {
                    continue;
                };
                let Some(what) = first.what.with(&second.what) else { continue };
                let (early, late) = (*one.min(other), *one.max(other));
                let end_ns = end_ns(first).max(end_ns(second));
                for begin_ns in [early, late] {
                    let lasts_us = end_ns.saturating_sub(begin_ns) / 1_000;
                    let both = PlannedFault {
                        when: When::At { at_ns: begin_ns },
                        what: what.clone(),
                        lasts_us,
                        ..first.clone()
                    };
                    let mut plan = self.clone();
                    plan.faults[place] = both;
                    plan.faults.remove(at);
                    plans.push(plan);
                }
            }
        }
        plans
    }

    /// Plans in which a fault and all that come after it come earlier: by half and a quarter of the time that has passed
    /// since the one before.
    pub fn sooner(&self) -> Vec<Self> {
        let mut times: Vec<u64> = self.faults.iter().map(|fault| fault.when.earliest_ns()).collect();
        times.sort_unstable();
        times.dedup();
        let before = [0].into_iter().chain(times.iter().copied());
        let gaps: Vec<(u64, u64)> =
            times.iter().copied().zip(before).map(|(at, before)| (at, at - before)).collect();
        let shifts =
            gaps.into_iter().flat_map(|(from_ns, gap_ns)| [(from_ns, gap_ns / 2), (from_ns, gap_ns / 4)]);
        let shifts = shifts.filter(|(_, by_ns)| *by_ns >= LEAST_SHIFT_NS);
        shifts
            .map(|(from_ns, by_ns)| {
                let mut plan = self.clone();
                let later = plan.faults.iter_mut().filter(|fault| fault.when.earliest_ns() >= from_ns);
                later.for_each(|fault| fault.when = fault.when.moved(-(by_ns as i64)));
                plan
            })
            .collect()
    }

    /// Plans in which one fault lasts half as long.
    pub fn briefer(&self) -> Vec<Self> {
        let halve = |at: usize| {
            let mut briefer = self.clone();
            briefer.faults[at].lasts_us /= 2;
            briefer
        };
        (0..self.faults.len()).filter(|at| self.faults[*at].lasts_us > BRIEF_US).map(halve).collect()
    }

    /// The plan up to `heal_at_ns`.
    #[must_use]
    pub fn healed_at(mut self, heal_at_ns: u64) -> Self {
        self.heal_at_ns = heal_at_ns;
        self.faults.retain(|fault| fault.when.earliest_ns() < heal_at_ns);
        self
    }
}

fn end_ns(fault: &PlannedFault) -> u64 {
    fault.when.earliest_ns().saturating_add(fault.lasts_us.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use sim_runtime::NodeId;

    use super::*;

    fn fault(id: u32, at_ms: u64, what: Fault, lasts_ms: u64) -> PlannedFault {
        PlannedFault { id, when: When::At { at_ns: at_ms * 1_000_000 }, what, lasts_us: lasts_ms * 1_000 }
    }

    fn nodes(numbers: &[u16]) -> Target {
        Target::Nodes(numbers.iter().map(|n| NodeId(*n)).collect())
    }

    fn plan() -> Plan {
        let faults = vec![
            fault(1, 100, Fault::Kill { target: nodes(&[1]) }, 50),
            fault(2, 120, Fault::PowerOff { target: nodes(&[3, 1]) }, 10),
            fault(3, 300, Fault::Isolate { target: nodes(&[2]) }, 10),
        ];
        Plan { servers: 3, faults, ..Plan::none(1_000_000_000) }
    }

    #[test]
    fn two_faults_become_one_that_does_what_both_did() {
        let both = |at_ms, lasts_ms| fault(1, at_ms, Fault::PowerOff { target: nodes(&[1, 3]) }, lasts_ms);
        let merged: Vec<_> = plan().merged().into_iter().map(|plan| plan.faults[0].clone()).collect();
        assert_eq!(merged, [both(100, 50), both(120, 30)]);
        assert!(plan().merged().iter().all(|plan| plan.faults.len() == 2));
    }

    #[test]
    fn a_fault_comes_sooner_with_all_that_follow() {
        let times = |plan: &Plan| -> Vec<u64> {
            plan.faults.iter().map(|fault| fault.when.earliest_ns() / 1_000_000).collect()
        };
        let sooner: Vec<_> = plan().sooner().iter().map(times).collect();
        let expected: [[u64; 3]; 6] = [
            [50, 70, 250],
            [75, 95, 275],
            [100, 110, 290],
            [100, 115, 295],
            [100, 120, 210],
            [100, 120, 255],
        ];
        assert_eq!(sooner, expected);
    }
}
