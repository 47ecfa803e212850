//! Limits: budgets are kept, long histories are decided, runs agree.

mod common;

use common::{Mix, Mixed, Rng, Shape, generate};
use linearizability::models::kv::{Input, Kv, Output, Value};
use linearizability::{History, Options, Outcome, Verdict, brute, check};

const LONG: Shape = Shape {
    ops: 20_000,
    clients: 5,
    keys: 1,
    unique: true,
    // By step of a client, which makes 5 % of the operations.
    unknown_per_million: 26_000,
    failed_per_million: 0,
    lies_per_million: 0,
};

fn unknown_per_cent(history: &History<u64, Input, Output>) -> usize {
    let unknown = history.operations().iter().filter(|op| op.outcome == Outcome::Unknown).count();
    100 * unknown / history.len()
}

/// Forty concurrent puts, then reads that no order explains, for reasons that show only at the end.
fn hard_history() -> History<u64, Input, Output> {
    let mut history = History::new();
    let puts: Vec<_> = (0..40).map(|v| history.invoke(0, 0, Input::Put(Value::Register(v % 20)))).collect();
    let swaps: Vec<_> = (0..40)
        .map(|v| {
            let expected = Some(Value::Register(v % 20));
            history.invoke(0, 0, Input::CompareAndSwap { expected, new: Value::Register((v * 7 + 1) % 20) })
        })
        .collect();
    puts.into_iter().for_each(|op| history.complete(op, Output::Written));
    swaps.into_iter().for_each(|op| history.complete(op, Output::Swapped));
    let get = history.invoke(0, 0, Input::Get);
    history.complete(get, Output::Value(Some(Value::Register(99))));
    history
}

#[test]
fn a_budget_of_a_thousand_nodes_leaves_a_hard_history_undecided() {
    let options = Options { budget_nodes: 1_000, ..Options::default() };
    assert_eq!(check(&Kv, &hard_history(), &options), Verdict::Undecided(vec![0]));
}

#[test]
fn an_undecided_key_does_not_hide_a_violation_of_another() {
    let mut history = hard_history();
    let get = history.invoke(0, 1, Input::Get);
    history.complete(get, Output::Value(Some(Value::Register(1))));
    let options = Options { budget_nodes: 10_000, ..Options::default() };
    let verdict = check(&Kv, &history, &options);
    assert_eq!(verdict.violation().map(|violation| violation.key), Some(1));
}

#[test]
fn a_violation_is_one_even_when_nothing_may_be_spent_on_evidence() {
    let mut history = History::new();
    for value in [1, 2] {
        let put = history.invoke(0, 0, Input::Put(Value::Register(value)));
        history.complete(put, Output::Written);
    }
    let get = history.invoke(0, 0, Input::Get);
    history.complete(get, Output::Value(Some(Value::Register(1))));
    let verdict = check(&Kv, &history, &Options { evidence_nodes: 0, ..Options::default() });
    let violation = verdict.violation().expect("a stale read");
    assert_eq!((violation.operations.len(), violation.culprits.len()), (3, 3));
}

#[test]
fn twenty_thousand_operations_on_one_register_are_decided() {
    let spec = Mixed(Mix::REGISTER);
    let history = generate(&spec, LONG, &mut Rng(7));
    assert!(unknown_per_cent(&history) >= 4);
    let verdict = check(&spec, &history, &Options { witness: true, ..Options::default() });
    let Verdict::Linearizable(witnesses) = verdict else { panic!("{verdict}") };
    assert!(brute::is_witness(&spec, &history, &0, &witnesses[0].order));
}

#[test]
fn twenty_thousand_operations_on_ten_lists_are_decided() {
    let spec = Mixed(Mix::LIST);
    let history = generate(&spec, Shape { keys: 10, ..LONG }, &mut Rng(7));
    assert!(unknown_per_cent(&history) >= 4);
    let verdict = check(&spec, &history, &Options { witness: true, ..Options::default() });
    let Verdict::Linearizable(witnesses) = verdict else { panic!("{verdict}") };
    for witness in &witnesses {
        assert!(brute::is_witness(&spec, &history, &witness.key, &witness.order));
    }
}

#[test]
fn more_clients_than_bits_in_a_word_are_no_obstacle() {
    let spec = Mixed(Mix::LIST);
    let shape = Shape { ops: 2_000, clients: 200, unknown_per_million: 0, ..LONG };
    let history = generate(&spec, shape, &mut Rng(7));
    let verdict = check(&spec, &history, &Options { witness: true, ..Options::default() });
    let Verdict::Linearizable(witnesses) = verdict else { panic!("{verdict}") };
    assert!(brute::is_witness(&spec, &history, &0, &witnesses[0].order));
}

#[test]
fn the_same_history_gets_the_same_verdict_to_the_letter() {
    for seed in 0..50 {
        let spec = Mixed(Mix::ALL);
        let shape = Shape { ops: 100, lies_per_million: 20_000, keys: 2, ..LONG };
        let judge = || check(&spec, &generate(&spec, shape, &mut Rng(seed)), &Options::default());
        assert_eq!(judge(), judge(), "seed {seed}");
    }
}

/// What a violation shows is illegal when checked anew, as if nothing else had happened.
#[test]
fn evidence_from_long_histories_is_illegal_on_its_own() {
    let mut violations = 0;
    for seed in 0..60 {
        let spec = Mixed(if seed % 2 == 0 { Mix::REGISTER } else { Mix::LIST });
        let shape = Shape { ops: 600, keys: 2, lies_per_million: 5_000, ..LONG };
        let history = generate(&spec, shape, &mut Rng(seed));
        let Verdict::Violation(violation) = check(&spec, &history, &Options::default()) else { continue };
        violations += 1;
        let mut alone = History::new();
        let mut events = Vec::new();
        for id in &violation.operations {
            let op = history.get(*id).expect("of this history");
            events.push((op.invoked.event, *id, None));
            if let (Some(at), Outcome::Ok(output)) = (op.returned, &op.outcome) {
                events.push((at.event, *id, Some(output.clone())));
            }
        }
        events.sort_by_key(|(event, ..)| *event);
        let mut names = std::collections::BTreeMap::new();
        for (_, id, output) in events {
            match output {
                None => {
                    let input = history.get(id).expect("of this history").input.clone();
                    names.insert(id, alone.invoke(0, 0, input));
                }
                Some(output) => alone.complete(names[&id], output),
            }
        }
        let verdict = check(&spec, &alone, &Options::default());
        assert!(verdict.violation().is_some(), "seed {seed}: {violation:?}");
        assert!(!violation.culprits.is_empty(), "seed {seed}: {violation:?}");
    }
    assert!(violations > 10, "{violations}");
}

/// Where values are unique, no search is needed: a budget of nothing is enough for many clients on one key, a twentieth
/// of the operations unknown, true and false.
#[test]
fn unique_values_cost_no_nodes() {
    for (mix, ops) in [
        (Mix::PUTS, 100_000),
        (Mix::REGISTER, 10_000),
        (Mix { refusals: true, ..Mix::REGISTER }, 10_000),
        (Mix::RESTARTED, 100_000),
        (Mix::LIST, 10_000),
    ] {
        let spec = Mixed(mix);
        for lies in [0, 5_000_000 / ops as u64] {
            let shape = Shape { ops, clients: 50, lies_per_million: lies, ..LONG };
            let history = generate(&spec, shape, &mut Rng(1));
            let options = Options { budget_nodes: 0, ..Options::default() };
            let verdict = check(&spec, &history, &options);
            assert!(!matches!(verdict, Verdict::Undecided(_)), "{ops} operations");
            assert!(lies > 0 || verdict.is_linearizable(), "{ops} operations");
        }
    }
}

#[test]
fn five_values_and_ten_clients_are_decided() {
    let spec = Mixed(Mix::FIVE_VALUES);
    let shape = Shape { ops: 20_000, clients: 10, unique: false, unknown_per_million: 0, ..LONG };
    let history = generate(&spec, shape, &mut Rng(1));
    assert!(check(&spec, &history, &Options::default()).is_linearizable());
}
