//! The key-value rules over a tree of states, so that an append is one step whatever the length of the list.
//!
//! ```text
//!   ABSENT   EMPTY ──5──► [5] ──9──► [5, 9]        a list is a path; its number is the number of the last node
//!                     └───7──► [7]                 a register hangs below REGISTER
//! ```
//!
//! The longest list that anybody saw is laid down first: it is the *spine*, with consecutive numbers. Any other
//! list that was seen is compared with it as a slice, which costs a `memcmp` instead of a walk.
//!
//! Where a key knows only appends and gets, a state only grows, so it must be a prefix of every list that is yet
//! to be seen: of their common prefix, the *future* of a get. That leaves next to nothing to search.
//!
//! Invariants: equal values have equal numbers; answers are numbered when the machine is built, so that a legal
//! get is a comparison of two integers.
//! Not here: the meaning (`kv.rs`); a test below holds the two together.

use super::kv::{Input, Output, Value};
use crate::intern::Interner;
use crate::spec::{Call, Machine, StateId};

const ABSENT: StateId = 0;
const EMPTY: StateId = 1;
/// Numbers of the tree follow those of the two states that it does not hold.
const FIRST: StateId = 2;
/// The parent of registers; no state has this number.
const REGISTER: StateId = u32::MAX;

/// The future without reads: any state will do.
const ANY: StateId = u32::MAX;
/// The future with an answer that no state gives: none will do.
const NONE: StateId = u32::MAX - 1;

/// What a call does, in numbers.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Legal where the state is this.
    Read(StateId),
    /// Legal where the state is not this, or everywhere but on registers or lists.
    ReadOther(StateId),
    Write(StateId),
    Append(u64),
    /// An append that may have met a register.
    AppendUnknown(u64),
    AppendRefused,
    Swap(StateId, StateId),
    /// A swap that may have met something else.
    SwapUnknown(StateId, StateId),
    /// An unknown get.
    Nothing,
    /// An answer that is legal nowhere.
    Never,
}

/// One key of a key-value history, ready for the search. Steps are O(1) expected.
pub struct KvMachine {
    tree: Interner<(u32, u64)>,
    /// By node of the tree: how many elements its list has.
    lengths: Vec<u32>,
    acts: Vec<Act>,
    /// By act: the common prefix of all lists seen by it and later ones. Empty unless states only grow.
    futures: Vec<StateId>,
    /// How many elements the longest list has; its nodes are `FIRST..FIRST + spine`.
    spine: u32,
}

impl KvMachine {
    /// O(elements of the answers) comparisons, of which those equal to the spine are a `memcmp`.
    pub(super) fn new(calls: &[Call<'_, Input, Output>]) -> Self {
        let longest = calls.iter().filter_map(seen_list).max_by_key(|list| list.len()).unwrap_or(&[]);
        let tree = Interner::with_capacity(longest.len() + calls.len());
        let mut machine = KvMachine {
            tree,
            lengths: Vec::with_capacity(longest.len() + calls.len()),
            acts: Vec::with_capacity(calls.len()),
            futures: Vec::new(),
            spine: 0,
        };
        let mut grows_only = true;
        machine.grow_list(EMPTY, longest);
        machine.spine = machine.tree.len() as u32;
        for call in calls {
            let act = machine.act(call, longest);
            grows_only &= !matches!(act, Act::Write(_) | Act::Swap(..) | Act::SwapUnknown(..));
            machine.acts.push(act);
        }
        if grows_only {
            machine.foresee();
        }
        machine
    }

    fn foresee(&mut self) {
        self.futures = vec![ANY; self.acts.len()];
        let mut future = ANY;
        for op in (0..self.acts.len()).rev() {
            future = match (self.acts[op], future) {
                (Act::Never | Act::AppendRefused, _) | (_, NONE) => NONE,
                (Act::Read(seen), ANY) => seen,
                (Act::Read(seen), future) => self.common_prefix(seen, future),
                (_, future) => future,
            };
            self.futures[op] = future;
        }
    }

    fn act(&mut self, call: &Call<'_, Input, Output>, spine: &[u64]) -> Act {
        match (call.input, call.output) {
            (Input::Get, Some(Output::Value(seen))) => Act::Read(self.number(seen.as_ref(), spine)),
            (Input::Get, None) => Act::Nothing,
            (Input::Put(value), Some(Output::Written) | None) => Act::Write(self.number(Some(value), spine)),
            (Input::Delete, Some(Output::Written) | None) => Act::Write(ABSENT),
            (Input::Append(element), Some(Output::Written)) => Act::Append(*element),
            (Input::Append(element), None) => Act::AppendUnknown(*element),
            (Input::Append(_), Some(Output::Refused)) => Act::AppendRefused,
            (Input::CompareAndSwap { expected, new }, answer) => {
                let from = self.number(expected.as_ref(), spine);
                match answer {
                    Some(Output::Swapped) => Act::Swap(from, self.number(Some(new), spine)),
                    None => Act::SwapUnknown(from, self.number(Some(new), spine)),
                    Some(Output::Refused) => Act::ReadOther(from),
                    Some(Output::Unequal(seen)) if seen != expected => {
                        Act::Read(self.number(seen.as_ref(), spine))
                    }
                    Some(_) => Act::Never,
                }
            }
            (_, Some(_)) => Act::Never,
        }
    }

    fn number(&mut self, value: Option<&Value>, spine: &[u64]) -> StateId {
        match value {
            None => ABSENT,
            Some(Value::Register(number)) => self.child(REGISTER, *number),
            Some(Value::List(list)) => {
                let shared = if spine.starts_with(list) {
                    list.len()
                } else {
                    spine.iter().zip(list).take_while(|(ours, theirs)| ours == theirs).count()
                };
                // The spine has numbers only once it is laid down, which is before anything else.
                let fork = if shared == 0 { EMPTY } else { FIRST + shared as u32 - 1 };
                self.grow_list(fork, &list[shared..])
            }
        }
    }

    fn grow_list(&mut self, from: StateId, elements: &[u64]) -> StateId {
        elements.iter().fold(from, |node, element| self.child(node, *element))
    }

    fn child(&mut self, parent: StateId, label: u64) -> StateId {
        let node = self.tree.intern((parent, label));
        if node as usize == self.lengths.len() {
            let length = if parent == REGISTER { 1 } else { self.length(parent) + 1 };
            self.lengths.push(length);
        }
        FIRST + node
    }

    fn length(&self, state: StateId) -> u32 {
        if state < FIRST { 0 } else { self.lengths[(state - FIRST) as usize] }
    }

    /// The state whose last append made this one. Registers, which nothing appends to, count as absent before.
    fn parent(&self, state: StateId) -> StateId {
        let parent = if state < FIRST { ABSENT } else { self.tree.key(state - FIRST).0 };
        if parent == REGISTER || parent == EMPTY { ABSENT } else { parent }
    }

    /// O(1) on the spine, where numbers grow with lengths, else O(elements off it).
    fn common_prefix(&self, mut a: StateId, mut b: StateId) -> StateId {
        while a != b && !(self.is_on_spine(a) && self.is_on_spine(b)) {
            let (shorter, longer) = if self.length(a) < self.length(b) { (a, b) } else { (b, a) };
            if longer < FIRST {
                return ABSENT;
            }
            a = shorter;
            b = if self.is_on_spine(longer) { self.shortened(longer, shorter) } else { self.parent(longer) };
        }
        a.min(b)
    }

    fn may_become(&self, state: StateId, longer: StateId) -> bool {
        self.length(state) <= self.length(longer) && self.common_prefix(state, longer) == state
    }

    /// The beginning of a list on the spine that is as long as `other`, or, where they are equally long, shorter.
    fn shortened(&self, on_spine: StateId, other: StateId) -> StateId {
        match self.length(other).min(self.length(on_spine) - 1) {
            0 => ABSENT,
            length => FIRST + length - 1,
        }
    }

    fn is_register(&self, state: StateId) -> bool {
        state >= FIRST && self.tree.key(state - FIRST).0 == REGISTER
    }

    fn append(&mut self, state: StateId, element: u64) -> StateId {
        let base = if state == ABSENT { EMPTY } else { state };
        self.child(base, element)
    }

    fn is_on_spine(&self, state: StateId) -> bool {
        (FIRST..FIRST + self.spine).contains(&state)
    }
}

impl Machine for KvMachine {
    fn initial(&mut self) -> StateId {
        ABSENT
    }

    fn step(&mut self, state: StateId, op: u32) -> Option<StateId> {
        match self.acts[op as usize] {
            Act::Read(seen) => (state == seen).then_some(state),
            Act::ReadOther(expected) => (state != expected).then_some(state),
            Act::Write(value) => Some(value),
            Act::Append(_) if self.is_register(state) => None,
            Act::Append(element) => Some(self.append(state, element)),
            Act::AppendUnknown(_) if self.is_register(state) => Some(state),
            Act::AppendUnknown(element) => Some(self.append(state, element)),
            Act::AppendRefused => self.is_register(state).then_some(state),
            Act::Swap(expected, new) => (state == expected).then_some(new),
            Act::SwapUnknown(expected, new) => Some(if state == expected { new } else { state }),
            Act::Nothing => Some(state),
            Act::Never => None,
        }
    }

    fn out_of_reach(&self, state: StateId, op: u32) -> bool {
        if self.futures.is_empty() {
            return false;
        }
        match self.acts[op as usize] {
            Act::Read(seen) => !self.may_become(state, seen),
            // There are no registers.
            Act::AppendRefused | Act::Never => true,
            _ => false,
        }
    }

    fn future_out_of_reach(&self, state: StateId, op: u32) -> bool {
        match self.futures.get(op as usize).copied().unwrap_or(ANY) {
            ANY => false,
            NONE => true,
            future => !self.may_become(state, future),
        }
    }
}

fn seen_list<'h>(call: &Call<'h, Input, Output>) -> Option<&'h [u64]> {
    match call.output {
        Some(Output::Value(Some(Value::List(list))) | Output::Unequal(Some(Value::List(list)))) => Some(list),
        _ => None,
    }
}
