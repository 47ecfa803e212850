//! Pairing: events of processes become calls with their ends.
//!
//! Invariants: a process has one call at a time; a call that ends in `info` leaves its process busy for ever in
//! Jepsen, but files exist that go on, so it may call again.
//! Not here: what was called (`meaning.rs`).

use std::collections::BTreeMap;

use super::datum::{Datum, Event, Kind};
use super::{Malformed, malformed};

/// What happens next in a history. Calls are numbered from 0.
pub enum Step {
    Call { event: Event, process: u32 },
    End { call: u32, event: Event },
}

/// What a process waits for.
struct Asked {
    line: usize,
    f: String,
    key: String,
    /// The value, where the call and not the answer says what it is.
    written: Option<Datum>,
}

impl Asked {
    fn of(event: &Event) -> Self {
        const WRITES: [&str; 7] = ["write", "put", "append", "cas", "add", "remove", "enqueue"];
        let is_write = WRITES.contains(&event.f.as_str());
        let written = is_write.then(|| event.value.clone());
        Self { line: event.line, f: event.f.clone(), key: event.key.clone(), written }
    }
}

/// Whether an answer tells of another write than the one that was called. Jepsen's answers repeat the value; others say
/// nothing, that it went well, or something of another kind: then the call says what was written.
fn contradicts(answer: &Datum, written: &Datum) -> bool {
    match (answer, written) {
        (Datum::Text(answer), Datum::Text(_)) if answer.eq_ignore_ascii_case("ok") => false,
        (Datum::Int(_), Datum::Int(_))
        | (Datum::Literal(_), Datum::Literal(_))
        | (Datum::Text(_), Datum::Text(_))
        | (Datum::List(_), Datum::List(_)) => answer != written,
        _ => false,
    }
}

/// The steps of a history, and the names of its processes.
pub fn pair(events: Vec<Event>) -> Result<(Vec<Step>, Vec<String>), Malformed> {
    let mut processes: BTreeMap<String, u32> = BTreeMap::new();
    let mut names = Vec::new();
    // By process: the number of the call that it waits for, and the call.
    let mut open: Vec<Option<(u32, Asked)>> = Vec::new();
    let mut steps = Vec::with_capacity(events.len());
    let mut calls = 0;
    for mut event in events {
        let process = *processes.entry(event.process.clone()).or_insert_with(|| {
            names.push(event.process.clone());
            open.push(None);
            open.len() as u32 - 1
        });
        let waits = &mut open[process as usize];
        let name = &event.process;
        match (event.kind, waits.take()) {
            (Kind::Invoke, None) => {
                *waits = Some((calls, Asked::of(&event)));
                calls += 1;
                steps.push(Step::Call { event, process });
            }
            (Kind::Invoke, Some((_, Asked { line, .. }))) => {
                let what =
                    format!("the return of process {name} expected, which still waits since line {line}");
                return malformed(event.line, what);
            }
            (_, None) => {
                let what = format!("an invocation by process {name} expected before its return");
                return malformed(event.line, what);
            }
            (_, Some((_, Asked { line, f, .. }))) if f != event.f => {
                let what = format!("the return of `{f}` (line {line}) expected, not of `{}`", event.f);
                return malformed(event.line, what);
            }
            (_, Some((_, Asked { line, key, .. }))) if key != event.key && !event.key.is_empty() => {
                let what = format!("key {key}, as in line {line}, expected, not {}", event.key);
                return malformed(event.line, what);
            }
            (Kind::Ok, Some((_, Asked { line, written: Some(value), .. })))
                if contradicts(&event.value, &value) =>
            {
                let what = format!(
                    "value {value} of `{}`, as in line {line}, or none expected, not {}",
                    event.f, event.value
                );
                return malformed(event.line, what);
            }
            (_, Some((call, _))) => {
                if matches!(event.value, Datum::Keyword(_)) {
                    // A reason, like `:timed-out`.
                    event.value = Datum::Nil;
                }
                steps.push(Step::End { call, event });
            }
        }
    }
    Ok((steps, names))
}
