//! Sweep: whether blocks and ranks agree with real time, and the order that shows it.
//!
//! ```text
//!   block a   ├─put 1─┤ ........................ ├─get 1─┤      f(a) < s(b): a's put returned before b's ended to
//!   block b             ├─put 2─┤                               be invoked, so a is first; f(b) < s(a): so is b
//!                    f(a)      f(b)             s(a)
//! ```
//!
//! With f the first return of a block and s its last invocation, a must precede b iff f(a) < s(b). Two blocks that
//! must precede each other are a violation; where no two do, there is no longer circle either (from a circle without
//! such a pair follows f(a) < f(a)).
//!
//! Of several contradictions the one that is complete first is told: the shortest illegal prefix mostly ends there,
//! and who looks for that prefix need not look twice.
//!
//! Invariants: events are distinct; the first block comes before all others, as if it had returned before time.
//! Not here: how blocks come about (`chains.rs`).

use super::chains::Chains;
use super::{Ops, Stop, Why, illegal};
use crate::case::NEVER;
use crate::schedule::NONE;
use crate::spec::Shape;

/// A block in time. Times are events plus one; 0 is before all.
struct Zone {
    block: u32,
    first_return: u32,
    returns_first: u32,
    last_invocation: u32,
}

/// A legal order of all operations in play. O(n + b log b) for b blocks.
pub fn order(ops: &Ops<'_>, chains: &Chains) -> Result<Vec<u32>, Stop> {
    let mut zones = Vec::with_capacity(chains.begins.len());
    let mut found = Contradiction { complete: NONE, culprits: [NONE; 4], why: Why::TooEarly };
    for block in 0..chains.begins.len() - 1 {
        let range = chains.begins[block] as usize..chains.begins[block + 1] as usize;
        if !range.is_empty() {
            zones.push(zone(ops, chains, block, range, &mut found));
        }
    }
    zones.sort_unstable_by_key(|zone| zone.first_return);
    find_conflict(ops, chains, &zones, &mut found);
    if found.complete != NONE {
        return illegal(&found.culprits, found.why);
    }
    zones.sort_unstable_by_key(|zone| zone.first_return.min(zone.last_invocation));
    let mut order = Vec::with_capacity(chains.order.len());
    for zone in zones {
        let (from, to) = (chains.begins[zone.block as usize], chains.begins[zone.block as usize + 1]);
        order.extend_from_slice(&chains.order[from as usize..to as usize]);
    }
    Ok(order)
}

/// Operations that contradict each other.
struct Contradiction {
    /// When the last of them had been answered or, where nobody knows that it was, invoked; [`NONE`] without any.
    complete: u32,
    culprits: [u32; 4],
    why: Why,
}

impl Contradiction {
    /// Takes these instead, if they were complete before.
    fn or<const N: usize>(&mut self, ops: &Ops<'_>, culprits: [u32; N], why: Why) {
        let end = |op: &u32| match ops.returned[*op as usize] {
            NEVER => ops.invoked[*op as usize],
            returned => returned,
        };
        let complete = culprits.iter().filter(|op| **op != NONE).map(end).max().unwrap_or(0);
        if complete < self.complete {
            self.complete = complete;
            self.culprits = std::array::from_fn(|at| culprits.get(at).copied().unwrap_or(NONE));
            self.why = why;
        }
    }
}

/// Sweeps a block by rank: nobody may have returned before somebody of a lower rank was invoked.
fn zone(
    ops: &Ops<'_>,
    chains: &Chains,
    block: usize,
    range: std::ops::Range<usize>,
    found: &mut Contradiction,
) -> Zone {
    let mut zone = Zone { block: block as u32, first_return: NONE, returns_first: NONE, last_invocation: 0 };
    // The last to be invoked, and the last of strictly lower ranks.
    let mut invoked_last = NONE;
    let (mut lower, mut lower_invoked) = (NONE, 0);
    let mut slot = NONE;
    for at in range {
        if chains.slots[at] != slot {
            slot = chains.slots[at];
            (lower, lower_invoked) = (invoked_last, zone.last_invocation);
        }
        let op = chains.order[at];
        let invoked = ops.invoked[op as usize] + 1;
        let returned = ops.returned[op as usize].saturating_add(1);
        if returned < lower_invoked {
            found.or(ops, [op, lower], Why::TooEarly);
        }
        if returned < zone.first_return {
            (zone.first_return, zone.returns_first) = (returned, op);
        }
        if invoked > zone.last_invocation {
            (zone.last_invocation, invoked_last) = (invoked, op);
        }
    }
    if block == 0 {
        (zone.first_return, zone.returns_first) = (0, NONE);
    }
    zone
}

/// Zones are in the order of their first returns.
fn find_conflict(ops: &Ops<'_>, chains: &Chains, zones: &[Zone], found: &mut Contradiction) {
    let mut is_known = vec![false; zones.len()];
    // By position: the zone up to it that is invoked last.
    let mut latest: Vec<usize> = Vec::with_capacity(zones.len());
    for (at, zone) in zones.iter().enumerate() {
        let best = latest.last().copied().unwrap_or(at);
        latest.push(if zone.last_invocation > zones[best].last_invocation { at } else { best });
    }
    for (at, zone) in zones.iter().enumerate() {
        // Those that must come before this one: for a zone that goes forward, all that return first before it (the
        // later ones will find it when it is their turn).
        let before = if zone.last_invocation > zone.first_return {
            at
        } else {
            zones.partition_point(|other| other.first_return < zone.last_invocation)
        };
        if before == 0 {
            continue;
        }
        let other = &zones[latest[before - 1]];
        let is_conflict = other.last_invocation > zone.first_return && other.block != zone.block;
        // Its conflicts with zones that return first later are complete later.
        if is_conflict && !std::mem::replace(&mut is_known[latest[before - 1]], true) {
            conflict(ops, chains, other, zone, found);
        }
    }
}

/// Two blocks each of which must come first. O(operations in them).
fn conflict(ops: &Ops<'_>, chains: &Chains, a: &Zone, b: &Zone, found: &mut Contradiction) {
    // One operation does for both ends of its block where it can.
    let begun_after = |zone: &Zone, time: u32| {
        let first = zone.returns_first;
        if first != NONE && ops.invoked[first as usize] + 1 > time {
            return first;
        }
        let (from, to) = (chains.begins[zone.block as usize], chains.begins[zone.block as usize + 1]);
        let late = chains.order[from as usize..to as usize].iter().copied();
        let late = late.filter(|op| ops.invoked[*op as usize] + 1 > time);
        // Rather one whose own answer shows that it belongs here.
        let says_nothing = |op: u32| matches!(ops.shapes[op as usize], Shape::Store(_) | Shape::Append(_));
        late.min_by_key(|op| (says_nothing(*op), ops.returned[*op as usize])).unwrap_or(NONE)
    };
    let (late_b, late_a) = (begun_after(b, a.first_return), begun_after(a, b.first_return));
    // The beginning needs nobody to be first.
    if a.returns_first == NONE {
        found.or(ops, [b.returns_first, late_a], Why::Overwritten);
    } else if b.returns_first == NONE {
        found.or(ops, [a.returns_first, late_b], Why::Overwritten);
    } else {
        found.or(ops, [a.returns_first, late_b, b.returns_first, late_a], Why::EachFirst);
    }
}
