//! Scenes: what goes wrong in key-value stores, told by hand.
//!
//! Every scene is also put to brute force, so that the scene itself is right.

use linearizability::models::kv::{Input, Kv, Output, Value};
use linearizability::{History, OpId, Options, Verdict, Violation, brute, check};

/// A history of one key, told in milliseconds.
#[derive(Default)]
struct Scene {
    history: History<&'static str, Input, Output>,
}

impl Scene {
    fn call(&mut self, at_ms: u64, input: Input) -> OpId {
        self.history.tick(at_ms * 1_000_000);
        self.history.invoke(0, "x", input)
    }

    fn answer(&mut self, at_ms: u64, op: OpId, output: Output) {
        self.history.tick(at_ms * 1_000_000);
        self.history.complete(op, output);
    }

    /// An operation that overlaps nothing told between its two times.
    fn done(&mut self, from_ms: u64, to_ms: u64, input: Input, output: Output) -> OpId {
        let op = self.call(from_ms, input);
        self.answer(to_ms, op, output);
        op
    }

    /// An operation that nobody knows the outcome of.
    fn lost(&mut self, at_ms: u64, input: Input) -> OpId {
        let op = self.call(at_ms, input);
        self.history.unknown(op);
        op
    }

    fn put(&mut self, from_ms: u64, to_ms: u64, value: u64) -> OpId {
        self.done(from_ms, to_ms, Input::Put(Value::Register(value)), Output::Written)
    }

    fn append(&mut self, from_ms: u64, to_ms: u64, element: u64) -> OpId {
        self.done(from_ms, to_ms, Input::Append(element), Output::Written)
    }

    fn get(&mut self, from_ms: u64, to_ms: u64, seen: Option<Value>) -> OpId {
        self.done(from_ms, to_ms, Input::Get, Output::Value(seen))
    }

    fn verdict(&self) -> Verdict<&'static str> {
        let verdict = check(&Kv, &self.history, &Options { witness: true, ..Options::default() });
        let all: Vec<_> = self.history.operations().iter().collect();
        assert_eq!(verdict.is_linearizable(), brute::is_linearizable(&Kv, &all), "{verdict}");
        verdict
    }

    #[track_caller]
    fn is_legal(&self) -> Vec<OpId> {
        match self.verdict() {
            Verdict::Linearizable(mut witnesses) => witnesses.pop().expect("one key").order,
            verdict => panic!("{verdict}"),
        }
    }

    #[track_caller]
    fn is_illegal(&self) -> Violation<&'static str> {
        let verdict = self.verdict();
        verdict.violation().cloned().unwrap_or_else(|| panic!("{verdict}"))
    }
}

fn register(value: u64) -> Value {
    Value::Register(value)
}

fn list<const N: usize>(elements: [u64; N]) -> Option<Value> {
    Some(Value::List(elements.to_vec()))
}

fn cas(expected: u64, new: u64) -> Input {
    Input::CompareAndSwap { expected: Some(register(expected)), new: register(new) }
}

#[test]
fn a_key_never_written_reads_as_nothing() {
    let mut s = Scene::default();
    s.get(0, 1, None);
    let put = s.put(2, 3, 7);
    let get = s.get(4, 5, Some(register(7)));
    s.done(6, 7, Input::Delete, Output::Written);
    s.get(8, 9, None);
    assert_eq!(s.is_legal()[1..3], [put, get]);
}

#[test]
fn a_stale_read_is_shown_with_the_write_that_it_missed_and_nothing_else() {
    let mut s = Scene::default();
    for value in 1..=3 {
        s.put(value * 10, value * 10 + 5, value);
        s.get(value * 10 + 6, value * 10 + 7, Some(register(value)));
    }
    let old = s.put(70, 80, 7);
    let new = s.put(95, 100, 8);
    let stale = s.get(130, 140, Some(register(7)));
    s.get(150, 160, Some(register(8)));

    let violation = s.is_illegal();
    assert_eq!(violation.last, stale);
    assert_eq!(violation.operations, [old, new, stale]);
    assert_eq!(
        violation.explanation,
        "put#6(7), begun at 70 ms, was done at 80 ms. put#7(8), begun at 95 ms after put#6 was done, was done at \
         100 ms. get#8, begun at 130 ms after put#7 was done, saw 7, done at 140 ms. 7 was seen again after 8 had \
         replaced it, but it was written only once. Without the answer of get#8 at 140 ms, all that had been answered \
         by then can be explained."
    );
}

#[test]
fn two_swaps_from_one_value_are_a_lost_update() {
    let mut s = Scene::default();
    s.put(0, 1, 1);
    let first = s.call(2, cas(1, 2));
    let second = s.call(2, cas(1, 3));
    s.answer(5, first, Output::Swapped);
    s.answer(6, second, Output::Swapped);
    let violation = s.is_illegal();
    assert!(violation.culprits.contains(&first) && violation.culprits.contains(&second));
}

#[test]
fn an_acknowledged_append_that_a_later_list_lacks_is_lost() {
    let mut s = Scene::default();
    s.append(0, 1, 10);
    let lost = s.append(2, 3, 11);
    s.append(4, 5, 12);
    let get = s.get(6, 7, list([10, 12]));
    assert_eq!(s.is_illegal().culprits, [lost, get], "the other appends are only scenery");
}

#[test]
fn nobody_reads_a_value_before_somebody_writes_it() {
    let mut s = Scene::default();
    let get = s.get(0, 1, Some(register(5)));
    s.put(2, 3, 5);
    let violation = s.is_illegal();
    assert_eq!(violation.operations, [get]);
    assert!(
        violation.explanation.contains("The first to write 5 was put#1, begun at 2 ms"),
        "{}",
        violation.explanation
    );
}

#[test]
fn an_element_appended_once_is_not_there_twice() {
    let mut s = Scene::default();
    s.append(0, 1, 10);
    s.get(2, 3, list([10, 10]));
    s.is_illegal();
}

#[test]
fn an_overwritten_value_does_not_come_back() {
    let mut s = Scene::default();
    let put = s.call(0, Input::Put(register(1)));
    let other = s.call(0, Input::Put(register(2)));
    s.answer(10, put, Output::Written);
    s.answer(10, other, Output::Written);
    s.get(20, 30, Some(register(2)));
    s.get(40, 50, Some(register(1)));
    assert_eq!(s.is_illegal().last, OpId(3));
}

#[test]
fn a_lost_put_took_effect_if_somebody_saw_it() {
    let mut s = Scene::default();
    let lost = s.lost(0, Input::Put(register(1)));
    s.put(1, 2, 2);
    s.get(3, 4, Some(register(2)));
    s.get(5, 6, Some(register(1)));
    assert!(s.is_legal().contains(&lost), "it took effect late");
}

#[test]
fn a_lost_put_takes_effect_at_most_once() {
    let mut s = Scene::default();
    s.lost(0, Input::Put(register(1)));
    s.get(1, 2, Some(register(1)));
    s.put(3, 4, 2);
    s.get(5, 6, Some(register(1)));
    assert_eq!(s.is_illegal().last, OpId(3));
}

#[test]
fn two_lost_puts_of_one_value_may_take_effect_twice() {
    let mut s = Scene::default();
    s.lost(0, Input::Put(register(1)));
    s.get(1, 2, Some(register(1)));
    s.put(3, 4, 2);
    s.lost(4, Input::Put(register(1)));
    s.get(5, 6, Some(register(1)));
    s.is_legal();
}

/// Two lost operations can lead to the same state, and only one choice leaves the other where it is needed.
#[test]
fn which_of_two_lost_operations_was_used_is_reconsidered() {
    let mut s = Scene::default();
    s.put(0, 1, 0);
    let put = s.lost(2, Input::Put(register(1)));
    let swap = s.lost(3, cas(0, 1));
    s.done(4, 5, cas(1, 2), Output::Swapped);
    s.put(6, 7, 3);
    s.get(8, 9, Some(register(1)));
    let order = s.is_legal();
    assert_eq!((order[1], order[4]), (swap, put));
}

#[test]
fn a_lost_append_inside_a_longer_list_was_seen() {
    let mut s = Scene::default();
    let lost = s.lost(0, Input::Append(1));
    s.append(1, 2, 2);
    s.get(3, 4, list([1, 2]));
    assert!(s.is_legal().contains(&lost));
}

#[test]
fn a_lost_write_cannot_take_effect_before_it_was_asked_for() {
    let mut s = Scene::default();
    s.get(0, 1, Some(register(1)));
    s.lost(2, Input::Put(register(1)));
    s.is_illegal();
}

#[test]
fn a_failed_put_did_not_happen() {
    let mut s = Scene::default();
    let failed = s.call(0, Input::Put(register(1)));
    s.history.fail(failed);
    s.get(2, 3, Some(register(1)));
    s.is_illegal();
}

#[test]
fn a_failed_swap_is_a_get_of_what_it_found() {
    let mut s = Scene::default();
    s.put(0, 1, 1);
    s.put(2, 3, 2);
    s.done(4, 5, cas(9, 10), Output::Unequal(Some(register(2))));
    s.is_legal();
    s.done(6, 7, cas(9, 10), Output::Unequal(Some(register(1))));
    s.is_illegal();
}

#[test]
fn a_swap_does_not_fail_for_having_found_what_it_expected() {
    let mut s = Scene::default();
    s.put(0, 1, 1);
    s.done(2, 3, cas(1, 2), Output::Unequal(Some(register(1))));
    s.is_illegal();
}

#[test]
fn a_swap_that_hides_what_it_found_may_have_met_a_lost_put_that_nobody_saw() {
    let mut s = Scene::default();
    s.put(0, 1, 1);
    let lost = s.lost(2, Input::Put(register(5)));
    s.done(3, 4, cas(1, 2), Output::Refused);
    assert!(s.is_legal().contains(&lost));
}

#[test]
fn an_append_that_was_done_did_not_meet_a_register_so_a_lost_delete_came_between() {
    let mut s = Scene::default();
    s.put(0, 1, 1);
    let lost = s.lost(2, Input::Delete);
    s.append(3, 4, 9);
    s.put(5, 6, 2);
    assert!(s.is_legal().contains(&lost));
}

/// Evidence is cut down only where that is sound. Without what may not be deleted, `put(2)` and the append alone
/// would look like a contradiction, which they are not.
#[test]
fn evidence_keeps_the_base_that_an_append_stands_on() {
    let mut s = Scene::default();
    s.put(0, 1, 8);
    s.put(2, 3, 9);
    let one = s.call(4, Input::Put(register(1)));
    let two = s.call(4, Input::Put(register(2)));
    s.answer(5, one, Output::Written);
    s.answer(5, two, Output::Written);
    let base = Input::CompareAndSwap { expected: Some(register(1)), new: Value::List(vec![5]) };
    s.done(6, 7, base, Output::Swapped);
    let append = s.append(8, 9, 6);
    let stale = s.get(10, 11, Some(register(8)));
    let violation = s.is_illegal();
    assert!(
        violation.operations.contains(&stale) && !violation.operations.contains(&append),
        "{violation:?}"
    );
}

/// "Something else was there" is about everything that was written, so everything stays.
#[test]
fn evidence_keeps_all_writes_where_an_answer_hides_what_it_found() {
    let mut s = Scene::default();
    let swap = Input::CompareAndSwap { expected: None, new: register(9) };
    s.put(0, 1, 5);
    s.done(2, 3, Input::Delete, Output::Written);
    s.done(4, 5, swap, Output::Refused);
    assert_eq!(s.is_illegal().operations.len(), 3);
}

#[test]
fn keys_do_not_meet() {
    let mut history = History::new();
    for key in ["a", "b"] {
        let put = history.invoke(0, key, Input::Put(register(1)));
        history.complete(put, Output::Written);
    }
    let get = history.invoke(0, "b", Input::Get);
    history.complete(get, Output::Value(None));
    let verdict = check(&Kv, &history, &Options::default());
    assert_eq!(verdict.violation().map(|violation| violation.key), Some("b"));
}

#[test]
fn an_operation_still_pending_is_unknown() {
    let mut s = Scene::default();
    s.call(0, Input::Put(register(1)));
    s.get(1, 2, Some(register(1)));
    s.is_legal();
}

#[test]
fn an_empty_history_is_linearizable() {
    let history: History<u64, Input, Output> = History::new();
    assert_eq!(check(&Kv, &history, &Options::default()), Verdict::Linearizable(Vec::new()));
}

#[test]
#[should_panic(expected = "operation #0 ended twice")]
fn ending_an_operation_twice_is_a_defect_of_the_recorder() {
    let mut s = Scene::default();
    let put = s.put(0, 1, 1);
    s.history.unknown(put);
}

#[test]
fn what_an_order_relies_on_is_said_and_whether_another_might_do_without() {
    let conditions = |scene: &Scene| {
        linearizability::conditions(&Kv, &scene.history, &scene.is_legal(), 9).sentences.join("; ")
    };
    let mut forced = Scene::default();
    forced.lost(10, Input::Put(register(5)));
    forced.get(20, 30, Some(register(5)));
    forced.get(40, 50, Some(register(5)));
    let only = "linearizable only if unknown put#0(5) took effect between 10 ms and 30 ms";
    assert_eq!(conditions(&forced), only);

    // Either of two puts of one value will do.
    let mut free = Scene::default();
    free.lost(10, Input::Put(register(5)));
    free.lost(11, Input::Put(register(5)));
    free.put(12, 13, 6);
    free.get(20, 30, Some(register(5)));
    let found = "in the order found, unknown put#0(5) took effect between 12 ms and 30 ms";
    assert_eq!(conditions(&free), found);

    let none = linearizability::conditions(&Kv, &free.history, &free.is_legal(), 0);
    assert_eq!((none.sentences.len(), none.more), (0, 1));
}
