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

/// The steps of a history, and the names of its processes.
pub fn pair(events: Vec<Event>) -> Result<(Vec<Step>, Vec<String>), Malformed> {
    let mut processes: BTreeMap<String, u32> = BTreeMap::new();
    let mut names = Vec::new();
    // By process: the call that it waits for, its line, function and key.
    let mut open: Vec<Option<(u32, usize, String, String)>> = Vec::new();
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
                *waits = Some((calls, event.line, event.f.clone(), event.key.clone()));
                calls += 1;
                steps.push(Step::Call { event, process });
            }
            (Kind::Invoke, Some((_, line, ..))) => {
                let what =
                    format!("the return of process {name} expected, which still waits since line {line}");
                return malformed(event.line, what);
            }
            (_, None) => {
                let what = format!("an invocation by process {name} expected before its return");
                return malformed(event.line, what);
            }
            (_, Some((_, line, f, _))) if f != event.f => {
                let what = format!("the return of `{f}` (line {line}) expected, not of `{}`", event.f);
                return malformed(event.line, what);
            }
            (_, Some((_, line, _, key))) if key != event.key && !event.key.is_empty() => {
                let what = format!("key {key}, as in line {line}, expected, not {}", event.key);
                return malformed(event.line, what);
            }
            (_, Some((call, ..))) => {
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
