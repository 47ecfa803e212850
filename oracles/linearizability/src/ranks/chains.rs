//! Chains: nodes that build on each other become one block, with a slot for each writer and one for its readers.
//!
//! ```text
//!   put 1 ◄── cas 1→2 ◄── cas 2→3        slots 0 1 2 3 4 5: writer, readers, writer, readers, ...
//! ```
//!
//! Invariants: slots of a block are contiguous and in the order of its ranks; the first block is that of the
//! beginning, which has no writer.
//! Not here: real time (`sweep.rs`).

use super::origins::{ANYTHING, Origins};
use super::{Ops, Stop, Why, illegal};
use crate::schedule::NONE;

/// All operations in play, by block and rank.
pub struct Chains {
    /// Operations, by slot, and in a slot in the order of their invocations.
    pub order: Vec<u32>,
    /// By position in `order`: the slot.
    pub slots: Vec<u32>,
    /// By block: where its operations begin in `order`; and one more, the end.
    pub begins: Vec<u32>,
}

/// Builds the blocks. O(n).
pub fn build(ops: &Ops<'_>, origins: &Origins<'_, '_>) -> Result<Chains, Stop> {
    let n = ops.len();
    let mut next = vec![NONE; n as usize + 1];
    let mut nodes = 1;
    for op in 0..n {
        match origins.parent[op as usize] {
            NONE => continue,
            ANYTHING => {}
            parent => {
                let other = std::mem::replace(&mut next[parent as usize], op);
                if other != NONE {
                    // A value was built upon twice.
                    return illegal(&[other, op], Why::BuiltTwice);
                }
            }
        }
        nodes += 1;
    }
    let mut place = vec![NONE; n as usize + 1];
    let mut placed = 0;
    let mut first_slots = Vec::new();
    let roots = (0..n).filter(|op| origins.parent[*op as usize] == ANYTHING);
    for root in std::iter::once(n).chain(roots) {
        first_slots.push(2 * placed);
        let mut node = root;
        while node != NONE {
            place[node as usize] = placed;
            placed += 1;
            node = next[node as usize];
        }
    }
    if placed < nodes {
        return illegal(&circle(origins, &place), Why::Circle);
    }
    Ok(sort(origins, &place, 2 * placed, &first_slots))
}

/// Swaps each of which needs what another one left.
fn circle(origins: &Origins<'_, '_>, place: &[u32]) -> Vec<u32> {
    let is_lost = |op: &u32| origins.parent[*op as usize] != NONE && place[*op as usize] == NONE;
    let first = (0..origins.beginning()).find(is_lost).expect("some node has no root");
    let mut circle = vec![first];
    let mut node = origins.parent[first as usize];
    while node != first {
        circle.push(node);
        node = origins.parent[node as usize];
    }
    circle
}

/// Operations by slot; those of a slot stay in the order of their invocations.
fn sort(origins: &Origins<'_, '_>, place: &[u32], slots: u32, first_slots: &[u32]) -> Chains {
    let n = origins.beginning();
    let slot_of = |op: u32| match (origins.parent[op as usize], origins.read[op as usize]) {
        (NONE, NONE) => NONE,
        (NONE, node) => 2 * place[node as usize] + 1,
        _ => 2 * place[op as usize],
    };
    let mut ends = vec![0_u32; slots as usize + 1];
    for op in 0..n {
        let slot = slot_of(op);
        if slot != NONE {
            ends[slot as usize + 1] += 1;
        }
    }
    for slot in 0..slots as usize {
        ends[slot + 1] += ends[slot];
    }
    let total = ends[slots as usize];
    let mut begins: Vec<u32> = first_slots.iter().map(|slot| ends[*slot as usize]).collect();
    begins.push(total);
    let mut chains = Chains { order: vec![NONE; total as usize], slots: vec![0; total as usize], begins };
    for op in 0..n {
        let slot = slot_of(op);
        if slot != NONE {
            let at = ends[slot as usize] as usize;
            ends[slot as usize] += 1;
            chains.order[at] = op;
            chains.slots[at] = slot;
        }
    }
    chains
}
