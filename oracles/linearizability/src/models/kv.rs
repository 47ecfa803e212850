//! Key-value: one key of a store whose values are registers or append-only lists.
//!
//! ```text
//!   absent ──put v──► register v ──cas v→w──► register w       append to a register is refused
//!     ▲  └──append e──► list [e] ──append f──► list [e, f]     put [..] starts a new list
//!     └── delete, from anywhere (a tombstone reads as absent)
//! ```
//!
//! Invariants: a compare-and-swap that fails reports what it found ([`Output::Unequal`]), which makes it a get;
//! one that does not ([`Output::Refused`]) is accepted, but keeps the checker from forgetting unknown writes.
//! Not here: the fast form of the same rules (`kv_machine.rs`), several keys (`check.rs` splits them).

use std::slice;

use super::kv_machine::KvMachine;
use crate::spec::{Call, Footprint, Phrase, Role, Shape, Spec, Touch, Whole};

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// One number.
    Register(u64),
    /// Elements in the order in which they were appended.
    List(Vec<u64>),
}

/// What a client asks of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// What is there?
    Get,
    /// Store this, whatever is there.
    Put(Value),
    /// Add an element at the end; an absent key counts as an empty list.
    Append(u64),
    /// Store `new` if `expected` is there (`None`: if nothing is).
    CompareAndSwap {
        /// What must be there.
        expected: Option<Value>,
        /// What is stored then.
        new: Value,
    },
    /// Make the key absent, whatever is there.
    Delete,
}

/// What the store answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// Of a get: what is there.
    Value(Option<Value>),
    /// Of a put, an append or a delete: done.
    Written,
    /// Of a compare-and-swap: done.
    Swapped,
    /// Of a compare-and-swap: not done, this was there instead.
    Unequal(Option<Value>),
    /// Of a compare-and-swap: not done, something else was there. Of an append: not done, a register was there.
    Refused,
}

/// The specification of one key, absent at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kv;

impl Spec for Kv {
    type Input = Input;
    type Output = Output;
    type State = Option<Value>;
    type Machine<'h> = KvMachine;

    fn initial(&self) -> Option<Value> {
        None
    }

    fn step(&self, state: &Option<Value>, input: &Input, output: Option<&Output>) -> Option<Option<Value>> {
        let (next, answer) = apply(state, input);
        let as_answered = match output {
            None => true,
            Some(Output::Refused) => matches!(answer, Output::Refused | Output::Unequal(_)),
            Some(output) => *output == answer,
        };
        as_answered.then_some(next)
    }

    fn footprint<'a>(&self, input: &'a Input, output: Option<&'a Output>) -> Footprint<'a> {
        let read = |sees| Footprint { sees, writes: Touch::Nothing, role: Role::Read, opaque: false };
        match (input, output) {
            (Input::Get, None) => read(Touch::Nothing),
            (_, Some(Output::Value(seen) | Output::Unequal(seen))) => read(touch(seen.as_ref())),
            (_, Some(Output::Refused)) => Footprint { opaque: true, ..read(Touch::Nothing) },
            // An answer that belongs to another question: legal nowhere, so it changes nothing.
            (Input::Get, Some(_)) => read(Touch::Nothing),
            (Input::Put(value), _) => store(Touch::Nothing, value),
            (Input::Append(element), _) => write(Touch::Nothing, Touch::Elements(slice::from_ref(element))),
            (Input::CompareAndSwap { expected, new }, _) => store(touch(expected.as_ref()), new),
            (Input::Delete, _) => Footprint { role: Role::Fixed, ..write(Touch::Nothing, Touch::Nothing) },
        }
    }

    fn compile<'h>(&'h self, calls: Vec<Call<'h, Input, Output>>) -> KvMachine {
        KvMachine::new(&calls)
    }

    fn shape<'a>(&self, input: &'a Input, output: Option<&'a Output>) -> Shape<'a> {
        match (input, output) {
            (Input::Get, None) => Shape::Idle,
            (Input::Get, Some(Output::Value(seen))) => Shape::Read(whole(seen.as_ref())),
            (Input::Put(value), Some(Output::Written) | None) => Shape::Store(whole(Some(value))),
            (Input::Delete, Some(Output::Written) | None) => Shape::Store(Whole::Absent),
            (Input::Append(element), Some(Output::Written) | None) => Shape::Append(*element),
            (Input::Append(_), Some(Output::Refused)) => Shape::MetNumber,
            (Input::CompareAndSwap { expected, new }, Some(Output::Swapped) | None) => {
                match (whole(expected.as_ref()), whole(Some(new))) {
                    (from, to) if from != to => Shape::Swap(from, to),
                    (from, _) if output.is_some() => Shape::Read(from),
                    _ => Shape::Idle,
                }
            }
            (Input::CompareAndSwap { expected, .. }, Some(Output::Unequal(seen))) if seen != expected => {
                Shape::Read(whole(seen.as_ref()))
            }
            (Input::CompareAndSwap { expected, .. }, Some(Output::Refused)) => {
                Shape::Missed(whole(expected.as_ref()))
            }
            (_, Some(_)) => Shape::Never,
        }
    }

    fn phrase(&self, input: &Input, output: Option<&Output>) -> Phrase {
        let (verb, argument) = match input {
            Input::Get => ("get", String::new()),
            Input::Put(value) => ("put", shown(Some(value))),
            Input::Append(element) => ("append", element.to_string()),
            Input::CompareAndSwap { expected, new } => {
                ("cas", format!("{} to {}", shown(expected.as_ref()), shown(Some(new))))
            }
            Input::Delete => ("delete", String::new()),
        };
        let saw = match output {
            Some(Output::Value(seen)) => Some(shown(seen.as_ref())),
            Some(Output::Unequal(seen)) => Some(format!("{} instead", shown(seen.as_ref()))),
            Some(Output::Refused) => Some("something else".to_owned()),
            Some(Output::Written | Output::Swapped) | None => None,
        };
        Phrase { verb, argument, saw }
    }
}

/// The rules: what happens, and what is answered.
fn apply(state: &Option<Value>, input: &Input) -> (Option<Value>, Output) {
    match input {
        Input::Get => (state.clone(), Output::Value(state.clone())),
        Input::Put(value) => (Some(value.clone()), Output::Written),
        Input::Delete => (None, Output::Written),
        Input::Append(element) => match state {
            None => (Some(Value::List(vec![*element])), Output::Written),
            Some(Value::List(list)) => {
                let longer = list.iter().chain([element]).copied().collect();
                (Some(Value::List(longer)), Output::Written)
            }
            Some(Value::Register(_)) => (state.clone(), Output::Refused),
        },
        Input::CompareAndSwap { expected, new } if state == expected => (Some(new.clone()), Output::Swapped),
        Input::CompareAndSwap { .. } => (state.clone(), Output::Unequal(state.clone())),
    }
}

fn whole(value: Option<&Value>) -> Whole<'_> {
    match value {
        None => Whole::Absent,
        Some(Value::Register(number)) => Whole::Number(*number),
        Some(Value::List(list)) => Whole::List(list),
    }
}

fn touch(value: Option<&Value>) -> Touch<'_> {
    match value {
        Some(Value::Register(number)) => Touch::Value(*number),
        Some(Value::List(list)) if !list.is_empty() => Touch::Elements(list),
        Some(Value::List(_)) | None => Touch::Nothing,
    }
}

fn write<'a>(sees: Touch<'a>, writes: Touch<'a>) -> Footprint<'a> {
    Footprint { sees, writes, role: Role::Write, opaque: false }
}

/// A register can be deleted with those who saw it. A list, or absence, is a base on which later appends stand
/// without seeing it: they start from it, and they could not have been done on a register. So it stays.
fn store<'a>(sees: Touch<'a>, value: &'a Value) -> Footprint<'a> {
    let role = match value {
        Value::Register(_) => Role::Write,
        Value::List(_) => Role::Fixed,
    };
    Footprint { role, ..write(sees, touch(Some(value))) }
}

/// A value in words; of a long list, the ends.
fn shown(value: Option<&Value>) -> String {
    const ENDS: usize = 3;
    let joined = |part: &[u64]| part.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match value {
        None => "nothing".to_owned(),
        Some(Value::Register(number)) => number.to_string(),
        Some(Value::List(list)) if list.len() <= 4 * ENDS => format!("[{}]", joined(list)),
        Some(Value::List(list)) => {
            let (first, last) = (&list[..ENDS], &list[list.len() - ENDS..]);
            format!("[{}, ... {}] ({} elements)", joined(first), joined(last), list.len())
        }
    }
}
