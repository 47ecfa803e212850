//! Check: one verdict for a whole history.
//!
//! ```text
//!   history ─ split by key ─► ranks ─► searches of what is left ─ round-robin, growing slices ─► verdict
//! ```
//!
//! The slices grow by four, so that an easy key never waits for a hard one and a hard one gets most of what is
//! left. The first key that is known to be illegal ends the check.
//!
//! Invariants: keys are visited in their order; the budget counts nodes of all keys together.
//! Not here: the near-linear path (`ranks/`), which costs no nodes; the search (`search.rs`).

use crate::case::{CaseOp, prepare};
use crate::evidence::{Budget, find_evidence};
use crate::explain::explain;
use crate::history::{History, OpId};
use crate::ranks;
use crate::schedule::Schedule;
use crate::search::{Progress, Search, search};
use crate::spec::Spec;
use crate::verdict::{Verdict, Violation, Witness};

/// How hard to try, and what to hand back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nodes that all searches of a check may visit together. A node takes some 50-200 ns and 100 bytes.
    pub budget_nodes: u64,
    /// Nodes for cutting a violation down to the operations that matter. It never changes the verdict.
    pub evidence_nodes: u64,
    /// Whether a linearizable history comes with an order for every key.
    pub witness: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { budget_nodes: 2_000_000, evidence_nodes: 1_000_000, witness: false }
    }
}

const FIRST_SLICE: u64 = 4_096;

/// Judges a history: at any time, as often as wanted; a running recorder need not be stopped or copied.
///
/// O(n log n) for n operations, plus the length of the lists seen, on keys whose observed values are unique, whatever
/// the number of clients and of unknown outcomes. Other keys are searched, which is linear in practice where few
/// operations are in flight at once; the problem is NP-complete. Memory is linear in the history and in the budget.
///
/// [`Verdict::Undecided`] means that the budget ended first: nothing is known then of the keys that it names. It depends
/// on history and options only.
pub fn check<K, S>(spec: &S, history: &History<K, S::Input, S::Output>, options: &Options) -> Verdict<K>
where
    K: Ord + Clone,
    S: Spec,
{
    let mut budget = Budget::of(options.budget_nodes);
    let mut witnesses = Vec::new();
    let mut open = Vec::new();
    let mut slice = FIRST_SLICE;
    for ids in split(history) {
        let key = &history.operations()[ids[0].0 as usize].key;
        let mut trial = Trial::new(spec, history, key, ids);
        match trial.go_on(&mut budget, slice) {
            Progress::Legal if options.witness => witnesses.push(trial.witness()),
            Progress::Legal => {}
            Progress::Illegal => return trial.violation(spec, history, options),
            Progress::OutOfNodes => open.push(trial),
        }
    }
    while !open.is_empty() && budget.left() > 0 {
        slice *= 4;
        let mut still_open = Vec::new();
        for mut trial in open {
            match trial.go_on(&mut budget, slice) {
                Progress::Legal if options.witness => witnesses.push(trial.witness()),
                Progress::Legal => {}
                Progress::Illegal => return trial.violation(spec, history, options),
                Progress::OutOfNodes => still_open.push(trial),
            }
        }
        open = still_open;
    }
    if open.is_empty() {
        witnesses.sort_by(|a, b| a.key.cmp(&b.key));
        Verdict::Linearizable(witnesses)
    } else {
        Verdict::Undecided(open.into_iter().map(|trial| trial.key.clone()).collect())
    }
}

/// Judges every key of a history for itself, in the order of the keys; the verdict of each speaks only of it. The
/// budget is shared as in [`check`], but a violation does not end the check of the others.
pub fn check_keys<K, S>(
    spec: &S,
    history: &History<K, S::Input, S::Output>,
    options: &Options,
) -> Vec<(K, Verdict<K>)>
where
    K: Ord + Clone,
    S: Spec,
{
    let mut budget = Budget::of(options.budget_nodes);
    let mut slice = FIRST_SLICE;
    let mut trials: Vec<_> = split(history)
        .into_iter()
        .map(|ids| Trial::new(spec, history, &history.operations()[ids[0].0 as usize].key, ids))
        .collect();
    let mut progress = vec![Progress::OutOfNodes; trials.len()];
    loop {
        for (trial, progress) in trials.iter_mut().zip(&mut progress) {
            if *progress == Progress::OutOfNodes {
                *progress = trial.go_on(&mut budget, slice);
            }
        }
        if budget.left() == 0 || !progress.contains(&Progress::OutOfNodes) {
            break;
        }
        slice *= 4;
    }
    let verdict = |(trial, progress): (&Trial<'_, K>, &Progress)| {
        let verdict = match progress {
            Progress::Legal if options.witness => Verdict::Linearizable(vec![trial.witness()]),
            Progress::Legal => Verdict::Linearizable(Vec::new()),
            Progress::Illegal => trial.violation(spec, history, options),
            Progress::OutOfNodes => Verdict::Undecided(vec![trial.key.clone()]),
        };
        (trial.key.clone(), verdict)
    };
    trials.iter().zip(&progress).map(verdict).collect()
}

/// An order of what had happened at `key` before event `end`, with operations that had not returned as unknown; `None`
/// if there is none or the budget does not suffice.
pub fn order_before<K, S>(
    spec: &S,
    history: &History<K, S::Input, S::Output>,
    key: &K,
    end: u32,
    options: &Options,
) -> Option<Vec<OpId>>
where
    K: Ord,
    S: Spec,
{
    let last = end.checked_sub(1)?;
    let operations = history.operations().iter().enumerate().filter(|(_, op)| op.key == *key);
    let mut ops: Vec<_> = operations
        .filter_map(|(at, op)| CaseOp::of(OpId(at as u32), op))
        .filter_map(|op| op.until(last))
        .collect();
    let mut search = decide(spec, &mut ops);
    let is_legal = search.run(options.budget_nodes) == Progress::Legal;
    is_legal.then(|| search.order().iter().map(|op| ops[*op as usize].id).collect())
}

/// The operations of each key, keys in order, operations in the order of their invocations. O(n log n).
fn split<K: Ord, I, O>(history: &History<K, I, O>) -> Vec<Vec<OpId>> {
    let operations = history.operations();
    let key = |id: &OpId| &operations[id.0 as usize].key;
    let mut ids: Vec<OpId> = (0..operations.len() as u32).map(OpId).collect();
    // Stable: ids of a key stay in order.
    ids.sort_by(|a, b| key(a).cmp(key(b)));
    ids.chunk_by(|a, b| key(a) == key(b)).map(<[OpId]>::to_vec).collect()
}

/// One key on its way to a verdict.
struct Trial<'h, K> {
    key: &'h K,
    /// All operations of the key.
    ids: Vec<OpId>,
    /// Those that the search knows, by position.
    kept: Vec<OpId>,
    search: Box<dyn Search + 'h>,
}

impl<'h, K: Ord + Clone> Trial<'h, K> {
    fn new<S: Spec>(
        spec: &'h S,
        history: &'h History<K, S::Input, S::Output>,
        key: &'h K,
        ids: Vec<OpId>,
    ) -> Self {
        let mut ops = case_of(history, &ids);
        let search = decide(spec, &mut ops);
        Trial { key, ids, kept: ops.iter().map(|op| op.id).collect(), search }
    }

    fn go_on(&mut self, budget: &mut Budget, slice: u64) -> Progress {
        let before = self.search.nodes();
        let progress = self.search.run(slice.min(budget.left()));
        budget.spend(self.search.nodes() - before);
        progress
    }

    fn witness(&self) -> Witness<K> {
        let order = self.search.order().iter().map(|op| self.kept[*op as usize]).collect();
        Witness { key: self.key.clone(), order }
    }

    fn violation<S: Spec>(
        &self,
        spec: &S,
        history: &History<K, S::Input, S::Output>,
        options: &Options,
    ) -> Verdict<K> {
        let mut budget = Budget::of(options.evidence_nodes);
        let ops = case_of(history, &self.ids);
        let evidence = find_evidence(spec, &ops, &*self.search, &self.kept, &mut budget);
        let explanation = explain(spec, history, &evidence);
        Verdict::Violation(Box::new(Violation {
            key: self.key.clone(),
            last: evidence.last,
            last_event: evidence.last_event,
            operations: evidence.operations,
            culprits: evidence.culprits,
            explanation,
        }))
    }
}

fn case_of<'h, K, I, O>(history: &'h History<K, I, O>, ids: &[OpId]) -> Vec<CaseOp<'h, I, O>> {
    let operations = history.operations();
    ids.iter().filter_map(|id| CaseOp::of(*id, &operations[id.0 as usize])).collect()
}

/// What will decide the case, of which it leaves the operations that matter: ranks where they can, else a search.
pub(crate) fn decide<'s, 'h: 's, S: Spec>(
    spec: &'s S,
    ops: &mut Vec<CaseOp<'h, S::Input, S::Output>>,
) -> Box<dyn Search + 's> {
    if let Some(ranked) = ranks::judge(spec, ops) {
        return Box::new(ranked);
    }
    prepare(spec, ops);
    let schedule = Schedule::new(ops);
    let machine = spec.compile(ops.iter().map(|op| op.call).collect());
    search(schedule, machine)
}
