//! Meaning: calls of a file become calls of a model.
//!
//! Values of a file may be anything; they are numbered in the order of their appearance, integers that can be
//! numbers stay what they are. [`Names`] gives them back.
//!
//! Invariants: an unknown function, a missing value or one of the wrong kind is an error with its line.
//! Not here: events and calls (`pairing.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::datum::{Datum, Event, Kind};
use super::pairing::{Step, pair};
use super::{FailedCas, File, Malformed, Model, Reading, Recorded, malformed};
use crate::history::{History, OpId};
use crate::models::collections::{QueueInput, QueueOutput, SetInput};
use crate::models::{kv, mutex, register};

/// Numbers from here on stand for values that are no small natural numbers.
const NAMED: u64 = 1 << 63;

/// Values by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    numbers: BTreeMap<Datum, u64>,
    values: Vec<String>,
}

impl Names {
    fn number(&mut self, value: &Datum) -> u64 {
        if let Datum::Int(number @ 0..) = value {
            return *number as u64;
        }
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = NAMED + self.values.len() as u64;
        let text = if let Datum::Text(text) = value { format!("{text:?}") } else { value.to_string() };
        self.values.push(text);
        self.numbers.insert(value.clone(), number);
        number
    }

    /// A text in which numbers stand for values, with the values.
    pub fn restore(&self, text: &str) -> String {
        if self.values.is_empty() {
            return text.to_owned();
        }
        let mut restored = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(at);
            let digits = from.len() - from.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let name = from[..digits].parse::<u64>().ok().and_then(|number| number.checked_sub(NAMED));
            let name = name.and_then(|at| self.values.get(at as usize));
            restored.push_str(before);
            restored.push_str(name.map_or(&from[..digits], String::as_str));
            rest = &from[digits..];
        }
        restored + rest
    }
}

/// The outcome of a call, as the model has it.
enum End<O> {
    Ok(O),
    Failed,
    Unknown,
}

pub fn history(events: Vec<Event>, reading: &Reading) -> Result<File, Malformed> {
    let (steps, processes) = pair(events)?;
    let mut table = Names::default();
    let first = reading.first.map_or(Datum::Nil, Datum::Int);
    let first = table.number(&first);
    let model = reading.model;
    // A call and its end are never read at the same time.
    let names = RefCell::new(&mut table);
    let history = match model {
        Model::Register | Model::CasRegister => {
            let call = |event: &Event| register_call(event, model, &mut names.borrow_mut());
            let end = |input: &_, event: &Event| register_end(input, event, reading, &mut names.borrow_mut());
            Recorded::Register { history: build(steps, call, end)?, first }
        }
        Model::Kv | Model::List => {
            let call = |event: &Event| kv_call(event, model, &mut names.borrow_mut());
            let end = |input: &_, event: &Event| kv_end(input, event, reading, &mut names.borrow_mut());
            Recorded::Kv(build(steps, call, end)?)
        }
        Model::Set => {
            let call = |event: &Event| set_call(event, &mut names.borrow_mut());
            Recorded::Set(build(steps, call, set_end)?)
        }
        Model::Queue => {
            let call = |event: &Event| queue_call(event, &mut names.borrow_mut());
            let end = |input: &_, event: &Event| queue_end(*input, event, &mut names.borrow_mut());
            Recorded::Queue(build(steps, call, end)?)
        }
        Model::Mutex => Recorded::Mutex(build(steps, mutex_call, |_, event| Ok(success(event)))?),
    };
    let names = table;
    Ok(File { history, names, processes })
}

/// Records the steps, as `call` and `end` understand them.
fn build<I, O>(
    steps: Vec<Step>,
    mut call: impl FnMut(&Event) -> Result<I, Malformed>,
    mut end: impl FnMut(&I, &Event) -> Result<End<O>, Malformed>,
) -> Result<History<String, I, O>, Malformed> {
    let mut history = History::new();
    for step in steps {
        let (Step::Call { event, .. } | Step::End { event, .. }) = &step;
        if let Some(time_ns) = event.time_ns {
            history.tick(time_ns);
        }
        match step {
            Step::Call { event, process } => {
                let input = call(&event)?;
                history.invoke(process, event.key, input);
            }
            Step::End { call, event } => {
                let op = OpId(call);
                let input = &history.get(op).expect("calls are numbered as they are recorded").input;
                match end(input, &event)? {
                    End::Ok(output) => history.complete(op, output),
                    End::Failed => history.fail(op),
                    End::Unknown => history.unknown(op),
                }
            }
        }
    }
    Ok(history)
}

fn unknown_function<T>(event: &Event, known: &str) -> Result<T, Malformed> {
    malformed(event.line, format!("{known} expected as f, not `{}`", event.f))
}

fn a_value(event: &Event) -> Result<&Datum, Malformed> {
    match &event.value {
        Datum::Nil => malformed(event.line, format!("a value for `{}` expected", event.f)),
        value => Ok(value),
    }
}

/// What a value of a key-value store is.
fn whole(value: &Datum, model: Model, names: &mut Names) -> Option<kv::Value> {
    match value {
        Datum::Nil => None,
        Datum::List(items) => Some(kv::Value::List(items.iter().map(|item| names.number(item)).collect())),
        Datum::Text(text) if model == Model::List => {
            // Appended strings end in `y`, as Porcupine's do.
            let parts = text.split_inclusive('y').map(|part| names.number(&Datum::Text(part.to_owned())));
            let parts: Vec<u64> = parts.collect();
            (!parts.is_empty()).then_some(kv::Value::List(parts))
        }
        other => Some(kv::Value::Register(names.number(other))),
    }
}

fn register_call(event: &Event, model: Model, names: &mut Names) -> Result<register::Input, Malformed> {
    let is_cas = model == Model::CasRegister;
    Ok(match event.f.as_str() {
        "read" => register::Input::Read,
        "write" => register::Input::Write(names.number(a_value(event)?)),
        "cas" if is_cas => match &event.value {
            Datum::List(pair) if pair.len() == 2 => {
                register::Input::CompareAndSwap(names.number(&pair[0]), names.number(&pair[1]))
            }
            other => {
                return malformed(
                    event.line,
                    format!("[expected, new] expected as the value, not `{other}`"),
                );
            }
        },
        _ => return unknown_function(event, if is_cas { "read, write or cas" } else { "read or write" }),
    })
}

fn register_end(
    input: &register::Input,
    event: &Event,
    reading: &Reading,
    names: &mut Names,
) -> Result<End<register::Output>, Malformed> {
    use register::{Input, Output};
    Ok(match (event.kind, input) {
        (Kind::Info | Kind::Invoke, _) => End::Unknown,
        // Where a register always holds something, this answer says nothing.
        (Kind::Ok, Input::Read) if event.value == Datum::Nil && reading.first.is_some() => End::Unknown,
        (Kind::Ok, Input::Read) => End::Ok(Output::Value(names.number(&event.value))),
        (Kind::Ok, Input::Write(_)) => End::Ok(Output::Written),
        (Kind::Ok, Input::CompareAndSwap(..)) => End::Ok(Output::Swapped(true)),
        (Kind::Fail, Input::CompareAndSwap(..)) if reading.failed_cas == FailedCas::FoundAnother => {
            End::Ok(Output::Swapped(false))
        }
        (Kind::Fail, _) => End::Failed,
    })
}

fn kv_call(event: &Event, model: Model, names: &mut Names) -> Result<kv::Input, Malformed> {
    let mut whole = |value: &Datum| whole(value, model, names);
    Ok(match event.f.as_str() {
        "read" | "get" => kv::Input::Get,
        "write" | "put" => whole(a_value(event)?).map_or(kv::Input::Delete, kv::Input::Put),
        "append" => match whole(a_value(event)?) {
            Some(kv::Value::Register(element)) => kv::Input::Append(element),
            Some(kv::Value::List(list)) if list.len() == 1 => kv::Input::Append(list[0]),
            _ => return malformed(event.line, "one element to append expected"),
        },
        "delete" => kv::Input::Delete,
        "cas" if model == Model::Kv => match &event.value {
            Datum::List(pair) if pair.len() == 2 => {
                let expected = whole(&pair[0]);
                let Some(new) = whole(&pair[1]) else {
                    return malformed(event.line, "a value to swap in expected, not nil");
                };
                kv::Input::CompareAndSwap { expected, new }
            }
            other => {
                let what = format!("[expected, new] expected as the value of cas, not `{other}`");
                return malformed(event.line, what);
            }
        },
        _ => {
            let is_list = model == Model::List;
            let known =
                if is_list { "get, put, append or delete" } else { "get, put, append, cas or delete" };
            return unknown_function(event, known);
        }
    })
}

fn kv_end(
    input: &kv::Input,
    event: &Event,
    reading: &Reading,
    names: &mut Names,
) -> Result<End<kv::Output>, Malformed> {
    let mut whole = |value: &Datum| whole(value, reading.model, names);
    Ok(match (event.kind, input) {
        (Kind::Info | Kind::Invoke, _) => End::Unknown,
        (Kind::Ok, kv::Input::Get) => End::Ok(kv::Output::Value(whole(&event.value))),
        (Kind::Ok, kv::Input::CompareAndSwap { .. }) => End::Ok(kv::Output::Swapped),
        (Kind::Ok, _) => End::Ok(kv::Output::Written),
        (Kind::Fail, kv::Input::CompareAndSwap { expected, new }) => {
            let repeats = matches!(&event.value, Datum::List(pair)
                if pair.len() == 2 && whole(&pair[0]) == *expected && whole(&pair[1]).as_ref() == Some(new));
            match reading.failed_cas {
                FailedCas::DidNotHappen => End::Failed,
                FailedCas::FoundAnother if event.value == Datum::Nil || repeats => {
                    End::Ok(kv::Output::Refused)
                }
                FailedCas::FoundAnother => End::Ok(kv::Output::Unequal(whole(&event.value))),
            }
        }
        (Kind::Fail, _) => End::Failed,
    })
}

/// An answer that says whether something was done.
fn success(event: &Event) -> End<bool> {
    match (event.kind, &event.value) {
        (Kind::Ok, Datum::Bool(answer)) => End::Ok(*answer),
        (Kind::Ok, _) => End::Ok(true),
        (Kind::Fail, _) => End::Failed,
        (Kind::Info | Kind::Invoke, _) => End::Unknown,
    }
}

fn set_call(event: &Event, names: &mut Names) -> Result<SetInput, Malformed> {
    let element = names.number(a_value(event)?);
    match event.f.as_str() {
        "add" => Ok(SetInput::Add(element)),
        "remove" => Ok(SetInput::Remove(element)),
        "contains" => Ok(SetInput::Contains(element)),
        _ => unknown_function(event, "add, remove or contains"),
    }
}

fn set_end(input: &SetInput, event: &Event) -> Result<End<bool>, Malformed> {
    let says = matches!(event.value, Datum::Bool(_));
    if event.kind == Kind::Ok && matches!(input, SetInput::Contains(_)) && !says {
        let what = format!("true or false expected as the answer of contains, not `{}`", event.value);
        return malformed(event.line, what);
    }
    Ok(success(event))
}

fn queue_call(event: &Event, names: &mut Names) -> Result<QueueInput, Malformed> {
    match event.f.as_str() {
        "enqueue" => Ok(QueueInput::Enqueue(names.number(a_value(event)?))),
        "dequeue" => Ok(QueueInput::Dequeue),
        _ => unknown_function(event, "enqueue or dequeue"),
    }
}

fn queue_end(input: QueueInput, event: &Event, names: &mut Names) -> Result<End<QueueOutput>, Malformed> {
    Ok(match (event.kind, input) {
        (Kind::Ok, QueueInput::Enqueue(_)) => End::Ok(QueueOutput::Enqueued),
        (Kind::Ok, QueueInput::Dequeue) => {
            let is_empty = event.value == Datum::Nil;
            End::Ok(QueueOutput::Dequeued((!is_empty).then(|| names.number(&event.value))))
        }
        (Kind::Fail, _) => End::Failed,
        (Kind::Info | Kind::Invoke, _) => End::Unknown,
    })
}

fn mutex_call(event: &Event) -> Result<mutex::Input, Malformed> {
    match event.f.as_str() {
        "acquire" => Ok(mutex::Input::Acquire),
        "release" => Ok(mutex::Input::Release),
        _ => unknown_function(event, "acquire or release"),
    }
}
