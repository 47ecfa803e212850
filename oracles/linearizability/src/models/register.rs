//! Registers: a number that is read, written and, in the second model, compared and swapped.
//!
//! The compare-and-swap register says only whether it swapped, as Jepsen's does; where the value found is known,
//! prefer [`super::kv::Kv`], which can use it.
//!
//! Invariants: those of `models`.
//! Not here: absent values and lists (`kv.rs`).

use crate::spec::{Call, Footprint, Phrase, Role, Shape, Spec, Touch, Whole};
use crate::table::Table;

/// What a client asks of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// What is there?
    Read,
    /// Store this.
    Write(u64),
    /// Store the second if the first is there. Only a [`CasRegister`] does so; a [`Register`] never answers it.
    CompareAndSwap(u64, u64),
}

/// What a register answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// Of a read: what is there.
    Value(u64),
    /// Of a write: done.
    Written,
    /// Of a compare-and-swap: whether it did.
    Swapped(bool),
}

/// A register with reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Register {
    /// What is there at first.
    pub initial: u64,
}

/// A register with compare-and-swap.
#[derive(Clone, Copy, Debug, Default)]
pub struct CasRegister {
    /// What is there at first.
    pub initial: u64,
}

fn apply(state: u64, input: Input) -> (u64, Output) {
    match input {
        Input::Read => (state, Output::Value(state)),
        Input::Write(value) => (value, Output::Written),
        Input::CompareAndSwap(expected, new) if expected == state => (new, Output::Swapped(true)),
        Input::CompareAndSwap(..) => (state, Output::Swapped(false)),
    }
}

fn footprint_of(input: Input, output: Option<&Output>) -> Footprint<'static> {
    let read = |sees| Footprint { sees, writes: Touch::Nothing, role: Role::Read, opaque: false };
    let write =
        |sees, value| Footprint { sees, writes: Touch::Value(value), role: Role::Write, opaque: false };
    match (input, output) {
        (Input::Read, Some(Output::Value(seen))) => read(Touch::Value(*seen)),
        (Input::Read, _) => read(Touch::Nothing),
        (Input::Write(value), _) => write(Touch::Nothing, value),
        (Input::CompareAndSwap(..), Some(Output::Swapped(false))) => {
            Footprint { opaque: true, ..read(Touch::Nothing) }
        }
        (Input::CompareAndSwap(expected, new), _) => write(Touch::Value(expected), new),
    }
}

/// What the calls of a [`CasRegister`] do.
fn shape_of(input: Input, output: Option<&Output>) -> Shape<'static> {
    let number = Whole::Number;
    match (input, output) {
        (Input::Read, None) => Shape::Idle,
        (Input::Read, Some(Output::Value(seen))) => Shape::Read(number(*seen)),
        (Input::Write(value), Some(Output::Written) | None) => Shape::Store(number(value)),
        (Input::CompareAndSwap(same, new), None) if same == new => Shape::Idle,
        (Input::CompareAndSwap(same, new), Some(Output::Swapped(true))) if same == new => {
            Shape::Read(number(same))
        }
        (Input::CompareAndSwap(expected, new), Some(Output::Swapped(true)) | None) => {
            Shape::Swap(number(expected), number(new))
        }
        (Input::CompareAndSwap(expected, _), Some(Output::Swapped(false))) => Shape::Missed(number(expected)),
        (_, Some(_)) => Shape::Never,
    }
}

fn phrase_of(input: Input, output: Option<&Output>) -> Phrase {
    let (verb, argument) = match input {
        Input::Read => ("read", String::new()),
        Input::Write(value) => ("write", value.to_string()),
        Input::CompareAndSwap(expected, new) => ("cas", format!("{expected} to {new}")),
    };
    let saw = match output {
        Some(Output::Value(value)) => Some(value.to_string()),
        Some(Output::Swapped(false)) => Some("something else".to_owned()),
        _ => None,
    };
    Phrase { verb, argument, saw }
}

impl Spec for Register {
    type Input = Input;
    type Output = Output;
    type State = u64;
    type Machine<'h> = Table<'h, Self>;

    fn initial(&self) -> u64 {
        self.initial
    }

    fn step(&self, state: &u64, input: &Input, output: Option<&Output>) -> Option<u64> {
        match (input, output) {
            (Input::CompareAndSwap(..), Some(_)) => None,
            (Input::CompareAndSwap(..), None) => Some(*state),
            _ => {
                let (next, answer) = apply(*state, *input);
                output.is_none_or(|output| *output == answer).then_some(next)
            }
        }
    }

    fn footprint<'a>(&self, input: &'a Input, output: Option<&'a Output>) -> Footprint<'a> {
        footprint_of(*input, output)
    }

    fn compile<'h>(&'h self, calls: Vec<Call<'h, Input, Output>>) -> Table<'h, Self> {
        Table::new(self, calls)
    }

    fn shape<'a>(&self, input: &'a Input, output: Option<&'a Output>) -> Shape<'a> {
        match (input, output) {
            (Input::CompareAndSwap(..), Some(_)) => Shape::Never,
            (Input::CompareAndSwap(..), None) => Shape::Idle,
            _ => shape_of(*input, output),
        }
    }

    fn first_value(&self) -> Whole<'static> {
        Whole::Number(self.initial)
    }

    fn phrase(&self, input: &Input, output: Option<&Output>) -> Phrase {
        phrase_of(*input, output)
    }
}

impl Spec for CasRegister {
    type Input = Input;
    type Output = Output;
    type State = u64;
    type Machine<'h> = Table<'h, Self>;

    fn initial(&self) -> u64 {
        self.initial
    }

    fn step(&self, state: &u64, input: &Input, output: Option<&Output>) -> Option<u64> {
        let (next, answer) = apply(*state, *input);
        output.is_none_or(|output| *output == answer).then_some(next)
    }

    fn footprint<'a>(&self, input: &'a Input, output: Option<&'a Output>) -> Footprint<'a> {
        footprint_of(*input, output)
    }

    fn compile<'h>(&'h self, calls: Vec<Call<'h, Input, Output>>) -> Table<'h, Self> {
        Table::new(self, calls)
    }

    fn shape<'a>(&self, input: &'a Input, output: Option<&'a Output>) -> Shape<'a> {
        shape_of(*input, output)
    }

    fn first_value(&self) -> Whole<'static> {
        Whole::Number(self.initial)
    }

    fn phrase(&self, input: &Input, output: Option<&Output>) -> Phrase {
        phrase_of(*input, output)
    }
}
