//! Mutex: a lock without owners, as Jepsen models it.
//!
//! Invariants: those of `models`. Its calls write no values, so nothing of it can be forgotten or cut away but
//! attempts that failed.
//! Not here: fencing tokens, owners.

use crate::spec::{Call, Footprint, Phrase, Role, Spec, Touch};
use crate::table::Table;

/// What a client asks of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// Take it. Answers whether it was free.
    Acquire,
    /// Give it back. Answers whether it was held.
    Release,
}

/// A mutex, free at first. The state is whether it is held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutex;

impl Spec for Mutex {
    type Input = Input;
    type Output = bool;
    type State = bool;
    type Machine<'h> = Table<'h, Self>;

    fn initial(&self) -> bool {
        false
    }

    fn step(&self, held: &bool, input: &Input, output: Option<&bool>) -> Option<bool> {
        let wanted = *input == Input::Acquire;
        let answer = *held != wanted;
        output.is_none_or(|output| *output == answer).then_some(wanted)
    }

    fn footprint<'a>(&self, _: &'a Input, output: Option<&'a bool>) -> Footprint<'a> {
        let role = if output == Some(&false) { Role::Read } else { Role::Fixed };
        Footprint { sees: Touch::Nothing, writes: Touch::Nothing, role, opaque: false }
    }

    fn compile<'h>(&'h self, calls: Vec<Call<'h, Input, bool>>) -> Table<'h, Self> {
        Table::new(self, calls)
    }

    fn phrase(&self, input: &Input, output: Option<&bool>) -> Phrase {
        let verb = if *input == Input::Acquire { "acquire" } else { "release" };
        let was_held = output.map(|answer| *answer == (*input == Input::Release));
        let saw = was_held.map(|held| if held { "it held" } else { "it free" }.to_owned());
        Phrase { verb, argument: String::new(), saw }
    }
}
