//! Explanations of ten kinds of violation, as a reader meets them. `explanations.txt` holds the texts; with
//! `UPDATE_SNAPSHOTS=1` it is written anew.

use std::fmt::Write;

use linearizability::models::kv::{Input, Kv, Output, Value};
use linearizability::models::mutex;
use linearizability::models::{Mutex, Queue, collections};
use linearizability::{History, Options, Spec, check};

/// Calls as (process, begun at, done at or never, question, answer).
type Told<S> = Vec<(u32, u64, Option<u64>, <S as Spec>::Input, <S as Spec>::Output)>;

fn explain<S: Spec>(spec: &S, told: Told<S>) -> String
where
    S::Input: Clone,
    S::Output: Clone,
{
    let mut events = Vec::new();
    for (at, (_, from, to, ..)) in told.iter().enumerate() {
        events.push((*from, at, false));
        events.extend(to.map(|to| (to, at, true)));
    }
    events.sort_unstable();
    let mut history = History::new();
    let mut ids = vec![None; told.len()];
    for (ms, at, is_end) in events {
        history.tick(ms * 1_000_000);
        if is_end {
            history.complete(ids[at].expect("begun"), told[at].4.clone());
        } else {
            ids[at] = Some(history.invoke(told[at].0, "x", told[at].3.clone()));
        }
    }
    let verdict = check(spec, &history, &Options::default());
    verdict.violation().unwrap_or_else(|| panic!("{verdict:?}")).explanation.clone()
}

fn put(value: u64) -> (Input, Output) {
    (Input::Put(Value::Register(value)), Output::Written)
}

fn get(value: u64) -> (Input, Output) {
    (Input::Get, Output::Value(Some(Value::Register(value))))
}

fn append(element: u64) -> (Input, Output) {
    (Input::Append(element), Output::Written)
}

fn get_list(list: &[u64]) -> (Input, Output) {
    (Input::Get, Output::Value(Some(Value::List(list.to_vec()))))
}

fn cas(expected: u64, new: u64) -> (Input, Output) {
    let (expected, new) = (Some(Value::Register(expected)), Value::Register(new));
    (Input::CompareAndSwap { expected, new }, Output::Swapped)
}

fn kv(calls: &[(u64, u64, (Input, Output))]) -> String {
    let told = calls.iter().enumerate().map(|(process, (from, to, (input, output)))| {
        (process as u32, *from, (*to > 0).then_some(*to), input.clone(), output.clone())
    });
    explain(&Kv, told.collect())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "snapshots are real files")]
fn ten_kinds_of_violation_are_explained() {
    let dequeue =
        |element| (collections::QueueInput::Dequeue, collections::QueueOutput::Dequeued(Some(element)));
    let enqueue = (collections::QueueInput::Enqueue(4), collections::QueueOutput::Enqueued);
    let swap_that_found = |found| {
        let (input, _) = cas(9, 10);
        (input, Output::Unequal(Some(Value::Register(found))))
    };
    let acquire = mutex::Input::Acquire;
    let kinds = [
        ("stale read", kv(&[(10, 80, put(7)), (95, 100, put(8)), (110, 120, get(8)), (130, 140, get(7))])),
        ("value from the future", kv(&[(10, 20, get(5)), (30, 40, put(5))])),
        ("value never written", kv(&[(10, 20, put(1)), (30, 40, get(9))])),
        ("lost update", kv(&[(10, 20, put(1)), (30, 50, cas(1, 2)), (30, 60, cas(1, 3))])),
        (
            "lost append",
            kv(&[(10, 20, append(1)), (30, 40, append(2)), (50, 60, append(3)), (70, 80, get_list(&[1, 3]))]),
        ),
        (
            "stale list (a later one shows what was there)",
            kv(&[
                (10, 20, append(1)),
                (30, 40, append(2)),
                (50, 60, get_list(&[1])),
                (70, 80, append(3)),
                (90, 99, get_list(&[1, 2, 3])),
            ]),
        ),
        (
            "read of a value whose write began later",
            kv(&[(10, 20, get(5)), (15, 40, put(4)), (30, 40, put(5))]),
        ),
        (
            "resurrected value (of an operation that never answered)",
            kv(&[(10, 0, put(1)), (20, 30, get(1)), (40, 50, put(2)), (60, 70, get(2)), (80, 90, get(1))]),
        ),
        (
            "two reads in conflict",
            kv(&[
                (10, 50, append(1)),
                (10, 50, append(2)),
                (60, 70, get_list(&[1, 2])),
                (80, 90, get_list(&[2, 1])),
            ]),
        ),
        ("duplicate element of a list", kv(&[(10, 20, append(4)), (30, 40, get_list(&[4, 4]))])),
        (
            "duplicate element of a queue",
            explain(
                &Queue,
                vec![
                    (0, 10, Some(20), enqueue.0, enqueue.1),
                    (1, 30, Some(40), dequeue(4).0, dequeue(4).1),
                    (2, 50, Some(60), dequeue(4).0, dequeue(4).1),
                ],
            ),
        ),
        ("wrong swap result", kv(&[(10, 20, put(1)), (30, 40, put(2)), (50, 60, swap_that_found(1))])),
        (
            "non-exclusive lock",
            explain(&Mutex, vec![(0, 10, Some(20), acquire, true), (1, 30, Some(40), acquire, true)]),
        ),
    ];
    let mut all = String::new();
    for (kind, text) in kinds {
        let sentences = text.replace(". ", ".\n    ");
        writeln!(all, "{kind}\n    {sentences}\n").expect("a string takes it");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/explanations.txt");
    if std::env::var("UPDATE_SNAPSHOTS").is_ok() {
        std::fs::write(path, &all).expect("a snapshot can be written");
    }
    assert_eq!(all, std::fs::read_to_string(path).expect("a snapshot"), "{all}");
}
