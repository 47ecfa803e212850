//! Table: the machine of any specification, by numbering the states as they appear.
//!
//! Invariants: it agrees with `Spec::step` by calling it; a transition is computed once.
//! Not here: specifications whose states are too large to copy (`models/kv_machine.rs`).

use std::collections::BTreeMap;

use crate::intern::Interner;
use crate::spec::{Call, Machine, Spec, StateId};

const ILLEGAL: u32 = u32::MAX;

/// A machine that calls the specification and remembers. A step costs O(1) expected when seen before, else one
/// `step`, one clone and O(log states) comparisons.
pub struct Table<'h, S: Spec> {
    spec: &'h S,
    calls: Vec<Call<'h, S::Input, S::Output>>,
    states: Vec<S::State>,
    numbers: BTreeMap<S::State, StateId>,
    transitions: Interner<(u32, u32)>,
    targets: Vec<StateId>,
}

impl<'h, S: Spec> Table<'h, S> {
    /// A table for these calls, with no states yet.
    pub fn new(spec: &'h S, calls: Vec<Call<'h, S::Input, S::Output>>) -> Self {
        let transitions = Interner::with_capacity(2 * calls.len());
        Table { spec, calls, states: Vec::new(), numbers: BTreeMap::new(), transitions, targets: Vec::new() }
    }

    fn number(&mut self, state: S::State) -> StateId {
        if let Some(known) = self.numbers.get(&state) {
            return *known;
        }
        let id = u32::try_from(self.states.len()).expect("budgets are far below 2^32 states");
        self.states.push(state.clone());
        self.numbers.insert(state, id);
        id
    }
}

impl<S: Spec> Machine for Table<'_, S> {
    fn initial(&mut self) -> StateId {
        self.number(self.spec.initial())
    }

    fn step(&mut self, state: StateId, op: u32) -> Option<StateId> {
        let transition = self.transitions.intern((state, op)) as usize;
        if transition == self.targets.len() {
            let call = self.calls[op as usize];
            let next = self.spec.step(&self.states[state as usize], call.input, call.output);
            let next = next.map_or(ILLEGAL, |next| self.number(next));
            self.targets.push(next);
        }
        let target = self.targets[transition];
        (target != ILLEGAL).then_some(target)
    }
}
