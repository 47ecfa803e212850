//! Collections: a set of numbers, and a first-in first-out queue of numbers.
//!
//! Invariants: those of `models`. Deleting every call that touches an element leaves a legal sequence: in the set
//! because elements do not meet, in the queue because what is left keeps its order.
//! Not here: lists that are read as a whole (`kv.rs`).

use std::collections::{BTreeSet, VecDeque};
use std::slice;

use crate::spec::{Call, Footprint, Phrase, Role, Spec, Touch};
use crate::table::Table;

/// What a client asks of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetInput {
    /// Put it in. Answers whether it was not in.
    Add(u64),
    /// Take it out. Answers whether it was in.
    Remove(u64),
    /// Is it in?
    Contains(u64),
}

/// A set, empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Set;

impl Spec for Set {
    type Input = SetInput;
    type Output = bool;
    type State = BTreeSet<u64>;
    type Machine<'h> = Table<'h, Self>;

    fn initial(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    fn step(&self, state: &BTreeSet<u64>, input: &SetInput, output: Option<&bool>) -> Option<BTreeSet<u64>> {
        let mut next = state.clone();
        let answer = match input {
            SetInput::Add(element) => next.insert(*element),
            SetInput::Remove(element) => next.remove(element),
            SetInput::Contains(element) => next.contains(element),
        };
        output.is_none_or(|output| *output == answer).then_some(next)
    }

    fn footprint<'a>(&self, input: &'a SetInput, output: Option<&'a bool>) -> Footprint<'a> {
        let (SetInput::Add(element) | SetInput::Remove(element) | SetInput::Contains(element)) = input;
        let element = Touch::Elements(slice::from_ref(element));
        let sees = if output.is_some() { element } else { Touch::Nothing };
        let (writes, role) = match (input, output) {
            (SetInput::Contains(_), _) | (_, Some(false)) => (Touch::Nothing, Role::Read),
            _ => (element, Role::Write),
        };
        Footprint { sees, writes, role, opaque: false }
    }

    fn compile<'h>(&'h self, calls: Vec<Call<'h, SetInput, bool>>) -> Table<'h, Self> {
        Table::new(self, calls)
    }

    fn phrase(&self, input: &SetInput, output: Option<&bool>) -> Phrase {
        let (verb, element) = match input {
            SetInput::Add(element) => ("add", element),
            SetInput::Remove(element) => ("remove", element),
            SetInput::Contains(element) => ("contains", element),
        };
        let was_in = output.map(|answer| *answer != matches!(input, SetInput::Add(_)));
        let saw = was_in.map(|was_in| if was_in { "it" } else { "it missing" }.to_owned());
        Phrase { verb, argument: element.to_string(), saw }
    }
}

/// What a client asks of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueInput {
    /// Add at the end.
    Enqueue(u64),
    /// Take from the front.
    Dequeue,
}

/// What a queue answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueOutput {
    /// Of an enqueue: done.
    Enqueued,
    /// Of a dequeue: what was in front, `None` if the queue was empty.
    Dequeued(Option<u64>),
}

/// A queue, empty at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue;

impl Spec for Queue {
    type Input = QueueInput;
    type Output = QueueOutput;
    type State = VecDeque<u64>;
    type Machine<'h> = Table<'h, Self>;

    fn initial(&self) -> VecDeque<u64> {
        VecDeque::new()
    }

    fn step(
        &self,
        state: &VecDeque<u64>,
        input: &QueueInput,
        output: Option<&QueueOutput>,
    ) -> Option<VecDeque<u64>> {
        let mut next = state.clone();
        let answer = match input {
            QueueInput::Enqueue(element) => {
                next.push_back(*element);
                QueueOutput::Enqueued
            }
            QueueInput::Dequeue => QueueOutput::Dequeued(next.pop_front()),
        };
        output.is_none_or(|output| *output == answer).then_some(next)
    }

    fn footprint<'a>(&self, input: &'a QueueInput, output: Option<&'a QueueOutput>) -> Footprint<'a> {
        let (sees, writes, role) = match (input, output) {
            (QueueInput::Enqueue(element), _) => {
                (Touch::Nothing, Touch::Elements(slice::from_ref(element)), Role::Write)
            }
            (QueueInput::Dequeue, Some(QueueOutput::Dequeued(Some(element)))) => {
                (Touch::Elements(slice::from_ref(element)), Touch::Nothing, Role::Write)
            }
            (QueueInput::Dequeue, Some(_)) => (Touch::Nothing, Touch::Nothing, Role::Read),
            (QueueInput::Dequeue, None) => (Touch::Nothing, Touch::Nothing, Role::Fixed),
        };
        Footprint { sees, writes, role, opaque: false }
    }

    fn compile<'h>(&'h self, calls: Vec<Call<'h, QueueInput, QueueOutput>>) -> Table<'h, Self> {
        Table::new(self, calls)
    }

    fn phrase(&self, input: &QueueInput, output: Option<&QueueOutput>) -> Phrase {
        let (verb, argument) = match input {
            QueueInput::Enqueue(element) => ("enqueue", element.to_string()),
            QueueInput::Dequeue => ("dequeue", String::new()),
        };
        let saw = match output {
            Some(QueueOutput::Dequeued(Some(element))) => Some(element.to_string()),
            Some(QueueOutput::Dequeued(None)) => Some("an empty queue".to_owned()),
            Some(QueueOutput::Enqueued) | None => None,
        };
        Phrase { verb, argument, saw }
    }
}
