//! The checker against brute force, on small histories of every model, true and false.
//!
//! Not only verdicts are compared: every witness is replayed, every piece of evidence is illegal on its own, and
//! the prefix that a violation names is the shortest.

mod common;

use common::{Mix, Mixed, Rng, Shape, Subject, generate};
use linearizability::models::{CasRegister, Mutex, Queue, Register, Set};
use linearizability::{History, Operation, Options, Outcome, Verdict, Violation, brute, check};

#[derive(Default, Debug)]
struct Tally {
    legal: u32,
    illegal: u32,
}

/// An operation as somebody saw it who stopped looking right after event `cut`.
fn until<I: Clone, O: Clone>(op: &Operation<u64, I, O>, cut: u32) -> Option<Operation<u64, I, O>> {
    let mut op = op.clone();
    if op.returned.is_some_and(|at| at.event > cut) && !matches!(op.outcome, Outcome::Failed) {
        op.returned = None;
        op.outcome = Outcome::Unknown;
    }
    (op.invoked.event <= cut).then_some(op)
}

fn hold_to_brute_force<S: Subject>(spec: &S, history: &History<u64, S::Input, S::Output>, seed: u64) -> bool
where
    S::Input: Clone,
    S::Output: Clone,
{
    let of_key = |key: u64| history.operations().iter().filter(move |op| op.key == key);
    let is_legal = |key: u64| brute::is_linearizable(spec, &of_key(key).collect::<Vec<_>>());
    let keys: Vec<u64> = (0..2).collect();
    match check(spec, history, &Options { witness: true, ..Options::default() }) {
        Verdict::Undecided(_) => panic!("seed {seed}: undecided"),
        Verdict::Linearizable(witnesses) => {
            assert!(keys.iter().all(|key| is_legal(*key)), "seed {seed}: {:#?}", history.operations());
            for witness in &witnesses {
                let is_witness = brute::is_witness(spec, history, &witness.key, &witness.order);
                assert!(is_witness, "seed {seed}: {witness:?} {:#?}", history.operations());
            }
            let keys_used = keys.iter().filter(|key| of_key(**key).count() > 0).count();
            assert_eq!(witnesses.len(), keys_used, "seed {seed}");
            true
        }
        Verdict::Violation(violation) => {
            assert!(!is_legal(violation.key), "seed {seed}: {:#?}", history.operations());
            hold_evidence_to_brute_force(spec, history, &violation, seed);
            false
        }
    }
}

fn hold_evidence_to_brute_force<S: Subject>(
    spec: &S,
    history: &History<u64, S::Input, S::Output>,
    violation: &Violation<u64>,
    seed: u64,
) where
    S::Input: Clone,
    S::Output: Clone,
{
    let window: Vec<_> = violation.operations.iter().map(|id| &history.operations()[id.0 as usize]).collect();
    assert!(window.iter().all(|op| op.key == violation.key), "seed {seed}");
    assert!(!brute::is_linearizable(spec, &window), "seed {seed}: {violation:?} {window:#?}");
    let is_part = violation.culprits.iter().all(|id| violation.operations.contains(id));
    assert!(is_part && violation.operations.is_sorted(), "seed {seed}: {violation:?}");
    assert!(!violation.explanation.is_empty());

    let prefix = |cut: u32| -> Vec<_> {
        let ops = history.operations().iter().filter(|op| op.key == violation.key);
        ops.filter_map(|op| until(op, cut)).collect()
    };
    let (with, without) = (prefix(violation.last_event), prefix(violation.last_event - 1));
    assert!(
        !brute::is_linearizable(spec, &with.iter().collect::<Vec<_>>()),
        "seed {seed}: {violation:?} {with:#?}"
    );
    assert!(brute::is_linearizable(spec, &without.iter().collect::<Vec<_>>()), "seed {seed}: {violation:?}");
}

fn fuzz<S: Subject>(spec: &S, seeds: std::ops::Range<u64>) -> Tally
where
    S::Input: Clone,
    S::Output: Clone,
{
    let mut tally = Tally::default();
    for seed in seeds {
        let mut rng = Rng(seed);
        let shape = Shape {
            ops: 2 + rng.below(8) as usize,
            clients: 1 + rng.below(5),
            keys: 1 + u64::from(rng.one_in(5)),
            unique: rng.one_in(2),
            unknown_per_million: [0, 100_000, 250_000, 500_000][rng.below(4) as usize],
            failed_per_million: [0, 50_000][rng.below(2) as usize],
            lies_per_million: [0, 100_000, 300_000][rng.below(3) as usize],
        };
        let history = generate(spec, shape, &mut rng);
        let is_legal = hold_to_brute_force(spec, &history, seed);
        assert!(is_legal || shape.lies_per_million > 0, "seed {seed}: a true history is legal");
        *(if is_legal { &mut tally.legal } else { &mut tally.illegal }) += 1;
    }
    tally
}

/// Both verdicts must be common, or the comparison is idle.
fn fuzz_all(each: u64) {
    let tallies = [
        ("register", fuzz(&Register::default(), 0..each)),
        ("cas register", fuzz(&CasRegister::default(), 0..each)),
        ("set", fuzz(&Set, 0..each)),
        ("queue", fuzz(&Queue, 0..each)),
        ("mutex", fuzz(&Mutex, 0..each)),
        ("kv registers", fuzz(&Mixed(Mix::REGISTER), 0..3 * each)),
        ("kv lists", fuzz(&Mixed(Mix::LIST), 0..3 * each)),
        ("kv all", fuzz(&Mixed(Mix::ALL), 0..6 * each)),
        ("kv lists started anew", fuzz(&Mixed(Mix { restart_one_in: 3, ..Mix::LIST }), 0..each)),
        ("kv lists and swaps", fuzz(&Mixed(Mix::BOTH), 0..2 * each)),
        ("kv lists and hiding swaps", fuzz(&Mixed(Mix { refusals: true, ..Mix::BOTH }), 0..each)),
        ("kv hiding", fuzz(&Mixed(Mix::HIDING), 0..3 * each)),
    ];
    for (model, tally) in tallies {
        println!("{model}: {tally:?}");
        let all = tally.legal + tally.illegal;
        assert!(tally.legal > all / 10 && tally.illegal > all / 20, "{model}: {tally:?}");
    }
}

#[test]
fn many_small_histories_get_the_verdict_of_brute_force() {
    fuzz_all(1_000);
}

/// `cargo test --release -p linearizability --test fuzz -- --ignored --nocapture`. `LIN_FUZZ_EACH` sets how many; 24 times as many are run.
#[test]
#[ignore = "a million histories take some seconds in release, longer in dev"]
#[expect(clippy::disallowed_methods, reason = "it says how long to test, not what")]
fn a_million_small_histories_get_the_verdict_of_brute_force() {
    let each = std::env::var("LIN_FUZZ_EACH").ok().and_then(|each| each.parse().ok());
    fuzz_all(each.unwrap_or(42_000));
}
