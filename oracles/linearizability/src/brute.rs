//! Brute force: every order, for a handful of operations. The oracle of the oracle, for tests only.
//!
//! Invariants: it shares nothing with the checker but `Spec::step`: no machine, no footprints, no classes.
//! Not here: anything fast.

use crate::history::{History, OpId, Operation, Outcome};
use crate::spec::Spec;

/// Whether some order of these operations is legal. They are taken to be of one key. Exponential.
pub fn is_linearizable<K, S: Spec>(spec: &S, ops: &[&Operation<K, S::Input, S::Output>]) -> bool {
    let happened: Vec<_> = ops.iter().copied().filter(|op| !matches!(op.outcome, Outcome::Failed)).collect();
    extend(spec, &spec.initial(), &happened)
}

/// Replays an order of operations of one key: whether it is legal, respects real time, and leaves out only what
/// may not have happened. `all` are the operations of the key.
pub fn is_witness<K: PartialEq, S: Spec>(
    spec: &S,
    history: &History<K, S::Input, S::Output>,
    key: &K,
    order: &[OpId],
) -> bool {
    let operations = history.operations();
    let mut state = spec.initial();
    let mut placed = vec![false; operations.len()];
    let mut latest_invocation = 0;
    for id in order {
        let op = &operations[id.0 as usize];
        let output = match &op.outcome {
            Outcome::Ok(output) => Some(output),
            Outcome::Failed => return false,
            Outcome::Unknown => None,
        };
        latest_invocation = latest_invocation.max(op.invoked.event);
        let is_in_time = returned(op) >= latest_invocation;
        let is_new = !std::mem::replace(&mut placed[id.0 as usize], true);
        match spec.step(&state, &op.input, output) {
            Some(next) if is_in_time && is_new && op.key == *key => state = next,
            _ => return false,
        }
    }
    operations
        .iter()
        .enumerate()
        .all(|(id, op)| placed[id] || op.key != *key || !matches!(op.outcome, Outcome::Ok(_)))
}

fn extend<K, S: Spec>(spec: &S, state: &S::State, left: &[&Operation<K, S::Input, S::Output>]) -> bool {
    let first_return = left.iter().map(|op| returned(op)).min().unwrap_or(u32::MAX);
    if first_return == u32::MAX {
        return true;
    }
    (0..left.len()).filter(|at| left[*at].invoked.event < first_return).any(|at| {
        let output = match &left[at].outcome {
            Outcome::Ok(output) => Some(output),
            Outcome::Failed | Outcome::Unknown => None,
        };
        let rest: Vec<_> = left[..at].iter().chain(&left[at + 1..]).copied().collect();
        spec.step(state, &left[at].input, output).is_some_and(|next| extend(spec, &next, &rest))
    })
}

fn returned<K, I, O>(op: &Operation<K, I, O>) -> u32 {
    match (&op.outcome, op.returned) {
        (Outcome::Ok(_), Some(at)) => at.event,
        _ => u32::MAX,
    }
}
