//! The promise of footprints: from a legal history, all operations that touch some values may be deleted, and a
//! single unknown write may be if nobody sees a value that it writes.

mod common;

use common::{Mix, Mixed, Rng, Shape, Subject, generate};
use linearizability::models::{CasRegister, Mutex, Queue, Register, Set};
use linearizability::spec::{Footprint, Role, Touch};
use linearizability::{Operation, Outcome, brute};

type Atom = (bool, u64);

fn atoms(touch: Touch<'_>) -> Vec<Atom> {
    match touch {
        Touch::Nothing => Vec::new(),
        Touch::Value(value) => vec![(false, value)],
        Touch::Elements(elements) => elements.iter().map(|element| (true, *element)).collect(),
    }
}

fn touched(print: &Footprint<'_>) -> Vec<Atom> {
    [atoms(print.sees), atoms(print.writes)].concat()
}

fn output<K, I, O>(op: &Operation<K, I, O>) -> Option<&O> {
    match &op.outcome {
        Outcome::Ok(output) => Some(output),
        Outcome::Failed | Outcome::Unknown => None,
    }
}

/// How many deletions were tried.
fn delete_at_random<S: Subject>(spec: &S, seeds: u64) -> u64
where
    S::Input: Clone,
{
    let mut tried = 0;
    for seed in 0..seeds {
        let mut rng = Rng(seed);
        let shape = Shape {
            ops: 3 + rng.below(6) as usize,
            clients: 1 + rng.below(4),
            keys: 1,
            unique: rng.one_in(2),
            unknown_per_million: 150_000,
            failed_per_million: 0,
            lies_per_million: 0,
        };
        let history = generate(spec, shape, &mut rng);
        let ops: Vec<_> = history.operations().iter().collect();
        let prints: Vec<_> = ops.iter().map(|op| spec.footprint(&op.input, output(op))).collect();
        let keep = |kept: &dyn Fn(usize) -> bool| -> Vec<_> {
            ops.iter().enumerate().filter(|(at, _)| kept(*at)).map(|(_, op)| *op).collect()
        };
        // Everything that hangs together with some operation.
        let first = rng.below(ops.len() as u64) as usize;
        let mut out = vec![first];
        let mut values = touched(&prints[first]);
        while let Some(next) = (0..ops.len())
            .find(|at| !out.contains(at) && touched(&prints[*at]).iter().any(|atom| values.contains(atom)))
        {
            out.push(next);
            values.extend(touched(&prints[next]));
        }
        let is_read = prints[first].role == Role::Read;
        let is_group = out.iter().all(|at| prints[*at].role != Role::Fixed)
            && (0..ops.len()).all(|at| out.contains(&at) || !prints[at].opaque);
        if is_read {
            let left = keep(&|at| at != first);
            assert!(brute::is_linearizable(spec, &left), "seed {seed}: without read {first} of {ops:#?}");
        }
        if is_group {
            let left = keep(&|at| !out.contains(&at));
            assert!(brute::is_linearizable(spec, &left), "seed {seed}: without {out:?} of {ops:#?}");
        }
        tried += u64::from(is_read) + u64::from(is_group);
    }
    tried
}

#[test]
fn what_is_left_of_a_legal_history_is_legal() {
    const EACH: u64 = 2_000;
    let tried = [
        delete_at_random(&Register::default(), EACH),
        delete_at_random(&CasRegister::default(), EACH),
        delete_at_random(&Set, EACH),
        delete_at_random(&Queue, EACH),
        delete_at_random(&Mutex, EACH),
        delete_at_random(&Mixed(Mix::REGISTER), EACH),
        delete_at_random(&Mixed(Mix::LIST), EACH),
        delete_at_random(&Mixed(Mix::ALL), 3 * EACH),
        delete_at_random(&Mixed(Mix::HIDING), 3 * EACH),
    ];
    assert!(tried.iter().all(|tried| *tried > EACH / 4), "{tried:?}");
}
