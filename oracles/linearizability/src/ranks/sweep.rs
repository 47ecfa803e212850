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
//! Invariants: events are distinct; the first block comes before all others, as if it had returned before time.
//! Not here: how blocks come about (`chains.rs`).

use super::chains::Chains;
use super::{Ops, Stop, Why, illegal};
use crate::schedule::NONE;

/// A block in time. Times are events plus one; 0 is before all.
struct Zone {
    block: u32,
    first_return: u32,
    returns_first: u32,
    last_invocation: u32,
    invoked_last: u32,
}

/// A legal order of all operations in play. O(n + b log b) for b blocks.
pub fn order(ops: &Ops<'_>, chains: &Chains) -> Result<Vec<u32>, Stop> {
    let mut zones = Vec::with_capacity(chains.begins.len());
    for block in 0..chains.begins.len() - 1 {
        let range = chains.begins[block] as usize..chains.begins[block + 1] as usize;
        if !range.is_empty() {
            zones.push(zone(ops, chains, block, range)?);
        }
    }
    zones.sort_unstable_by_key(|zone| zone.first_return);
    find_conflict(ops, &zones)?;
    zones.sort_unstable_by_key(|zone| zone.first_return.min(zone.last_invocation));
    let mut order = Vec::with_capacity(chains.order.len());
    for zone in zones {
        let (from, to) = (chains.begins[zone.block as usize], chains.begins[zone.block as usize + 1]);
        order.extend_from_slice(&chains.order[from as usize..to as usize]);
    }
    Ok(order)
}

/// Sweeps a block by rank: nobody may have returned before somebody of a lower rank was invoked.
fn zone(ops: &Ops<'_>, chains: &Chains, block: usize, range: std::ops::Range<usize>) -> Result<Zone, Stop> {
    let mut zone = Zone {
        block: block as u32,
        first_return: NONE,
        returns_first: NONE,
        last_invocation: 0,
        invoked_last: NONE,
    };
    // Of strictly lower ranks, the last to be invoked.
    let (mut lower, mut lower_invoked) = (NONE, 0);
    let mut slot = NONE;
    for at in range {
        if chains.slots[at] != slot {
            slot = chains.slots[at];
            (lower, lower_invoked) = (zone.invoked_last, zone.last_invocation);
        }
        let op = chains.order[at];
        let invoked = ops.invoked[op as usize] + 1;
        let returned = ops.returned[op as usize].saturating_add(1);
        if returned < lower_invoked {
            return illegal(&[op, lower], Why::TooEarly);
        }
        if returned < zone.first_return {
            (zone.first_return, zone.returns_first) = (returned, op);
        }
        if invoked > zone.last_invocation {
            (zone.last_invocation, zone.invoked_last) = (invoked, op);
        }
    }
    if block == 0 {
        (zone.first_return, zone.returns_first) = (0, NONE);
    }
    Ok(zone)
}

/// Zones are in the order of their first returns.
fn find_conflict(ops: &Ops<'_>, zones: &[Zone]) -> Result<(), Stop> {
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
        if other.last_invocation > zone.first_return && other.block != zone.block {
            return conflict(ops, other, zone);
        }
    }
    Ok(())
}

/// Two blocks each of which must come first.
fn conflict<T>(ops: &Ops<'_>, a: &Zone, b: &Zone) -> Result<T, Stop> {
    // One operation does for both ends of its block where it can.
    let begun_after = |zone: &Zone, time: u32| {
        let first = zone.returns_first;
        if first != NONE && ops.invoked[first as usize] + 1 > time { first } else { zone.invoked_last }
    };
    let (late_b, late_a) = (begun_after(b, a.first_return), begun_after(a, b.first_return));
    if a.returns_first == NONE {
        // The beginning needs nobody to be first.
        return illegal(&[b.returns_first, late_a], Why::Overwritten);
    }
    if b.returns_first == NONE {
        return illegal(&[a.returns_first, late_b], Why::Overwritten);
    }
    illegal(&[a.returns_first, late_b, b.returns_first, late_a], Why::EachFirst)
}
