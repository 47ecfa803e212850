//! Leftovers: answers that only say what was not there, put into an order that is otherwise complete.
//!
//! ```text
//!   order      put 1 . put 2 . get 2 .          the earliest gap that real time allows and where the answer holds
//!   missed 1                 ▲
//! ```
//!
//! They change nothing, so each is placed for itself; by invocation and as early as possible, which leaves the most
//! room to those after it. If one finds no room, another order of the blocks might still have some: unsure.
//! The same holds for an append that nobody saw and that the order has put onto a number.
//!
//! Invariants: an order that is returned is legal.
//! Not here: the order itself (`sweep.rs`).

use super::{Ops, Stop};
use crate::schedule::NONE;
use crate::spec::{Shape, Whole};

/// The order with all leftovers in it. O(n + l log n) for l leftovers, as long as values do not come back.
pub fn place(ops: &Ops<'_>, first: Whole<'static>, order: Vec<u32>) -> Result<Vec<u32>, Stop> {
    let is_left = |op: &u32| matches!(ops.shapes[*op as usize], Shape::Missed(_) | Shape::MetNumber);
    let mut left: Vec<u32> = (0..ops.len()).filter(is_left).collect();
    let has_numbers = |shape: &Shape<'_>| {
        matches!(shape, Shape::Store(Whole::Number(_)) | Shape::Swap(_, Whole::Number(_)))
    };
    if left.is_empty() && !(ops.has_appends && ops.shapes.iter().any(has_numbers)) {
        return Ok(order);
    }
    let gaps = Gaps::new(ops, first, &order)?;
    if left.is_empty() {
        return Ok(order);
    }
    left.sort_unstable_by_key(|op| ops.invoked[*op as usize]);
    let mut placed: Vec<(u32, u32)> = Vec::with_capacity(left.len());
    // Leftovers in the order of their returns, each with the largest gap up to it.
    let mut returns: Vec<u32> = left.clone();
    returns.sort_unstable_by_key(|op| ops.returned[*op as usize]);
    let mut gap_of = vec![0_u32; ops.shapes.len()];
    let (mut returned, mut floor) = (0, 0);
    for op in left {
        while returns
            .get(returned)
            .is_some_and(|other| ops.returned[*other as usize] < ops.invoked[op as usize])
        {
            floor = floor.max(gap_of[returns[returned] as usize]);
            returned += 1;
        }
        let gap = gaps.find(ops, op, floor).ok_or(Stop::Unsure)?;
        gap_of[op as usize] = gap;
        placed.push((gap, op));
    }
    placed.sort_by_key(|(gap, _)| *gap);
    let mut whole = Vec::with_capacity(order.len() + placed.len());
    let mut placed = placed.into_iter().peekable();
    for gap in 0..=order.len() {
        while let Some((_, op)) = placed.next_if(|(at, _)| *at as usize == gap) {
            whole.push(op);
        }
        whole.extend(order.get(gap));
    }
    Ok(whole)
}

/// What was there before each operation of an order, and after the last.
struct Gaps<'h> {
    held: Vec<Whole<'h>>,
    /// By gap: the next one where something else is there.
    next_change: Vec<u32>,
    /// By gap: the next one with a number.
    next_number: Vec<u32>,
    /// By gap: the first return after it.
    first_return: Vec<u32>,
    /// By gap: the last invocation before it.
    last_invocation: Vec<u32>,
}

impl<'h> Gaps<'h> {
    fn new(ops: &Ops<'h>, first: Whole<'h>, order: &[u32]) -> Result<Self, Stop> {
        let mut held = Vec::with_capacity(order.len() + 1);
        let mut last_invocation = Vec::with_capacity(order.len() + 1);
        let (mut now, mut invoked) = (first, 0);
        for op in order {
            held.push(now);
            last_invocation.push(invoked);
            now = match (ops.shapes[*op as usize], now) {
                (Shape::Store(value) | Shape::Swap(_, value), _) => value,
                (Shape::Append(_), Whole::Number(_)) => return Err(Stop::Unsure),
                // Which list it is does not matter here, only that it is one.
                (Shape::Append(_), _) => Whole::List(&[]),
                _ => now,
            };
            invoked = invoked.max(ops.invoked[*op as usize]);
        }
        held.push(now);
        last_invocation.push(invoked);
        let end = order.len();
        let mut gaps = Gaps {
            next_change: vec![NONE; end + 1],
            next_number: vec![NONE; end + 1],
            first_return: vec![NONE; end + 1],
            held,
            last_invocation,
        };
        for gap in (0..=end).rev() {
            if gap < end {
                gaps.next_change[gap] = if gaps.held[gap] == gaps.held[gap + 1] {
                    gaps.next_change[gap + 1]
                } else {
                    gap as u32 + 1
                };
                gaps.first_return[gap] = gaps.first_return[gap + 1].min(ops.returned[order[gap] as usize]);
            }
            gaps.next_number[gap] = match gaps.held[gap] {
                Whole::Number(_) => gap as u32,
                _ if gap < end => gaps.next_number[gap + 1],
                _ => NONE,
            };
        }
        Ok(gaps)
    }

    /// The first gap from `floor` on that has room for `op`.
    fn find(&self, ops: &Ops<'_>, op: u32, floor: u32) -> Option<u32> {
        let (invoked, returned) = (ops.invoked[op as usize], ops.returned[op as usize]);
        // After all that returned before it was invoked; `first_return` grows with the gaps.
        let earliest = self.first_return.partition_point(|first| *first < invoked) as u32;
        // Not after one that was invoked when it had returned.
        let end = self.last_invocation.partition_point(|last| *last < returned) as u32;
        let mut gap = earliest.max(floor);
        while gap < end {
            gap = match (ops.shapes[op as usize], self.held[gap as usize]) {
                (Shape::MetNumber, Whole::Number(_)) => return Some(gap),
                (Shape::MetNumber, _) => self.next_number[gap as usize],
                (Shape::Missed(Whole::List(_)), Whole::List(_)) => return None,
                (Shape::Missed(expected), held) if held != expected => return Some(gap),
                _ => self.next_change[gap as usize],
            };
        }
        None
    }
}
