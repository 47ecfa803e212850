//! How fast a history is judged: `cargo run --release -p linearizability --example speed`.
//!
//! Histories like the simulator's (two keys, a register and a list, each with its mix) and longer ones. Times are
//! the best of several rounds over many seeds, so they say what the code costs, not what the machine was doing.

use std::hint::black_box;
use std::time::Instant;

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Mix, Mixed, Rng, Shape, generate};
use linearizability::models::kv::{Input, Output};
use linearizability::{History, Options, Verdict, check};

fn main() {
    // A part of a name as the first argument: only such rows.
    println!("{:<44} {:>12} {:>12} {:>12}", "history", "mean µs", "worst µs", "ns per op");
    for (clients, ops) in [(3, 400), (3, 800), (5, 1_500)] {
        for (name, mix) in [("register", Mix::REGISTER), ("list", Mix::LIST), ("everything", Mix::ALL)] {
            for (lies, lie) in [(0, "true"), (2_000, "with lies")] {
                // Lists that are put and deleted as well are hard; a few of them say enough.
                let seeds = if name == "everything" { 10 } else { 200 };
                let shape = Shape {
                    ops,
                    clients,
                    keys: 2,
                    unique: true,
                    unknown_per_million: 16_000,
                    failed_per_million: 0,
                    lies_per_million: lies,
                };
                row(
                    &format!("{ops} ops, {clients} clients, {name}, {lie}"),
                    Mixed(Mix { ..mix }),
                    shape,
                    seeds,
                );
            }
        }
    }
    let long = Shape {
        ops: 100_000,
        clients: 50,
        keys: 1,
        unique: true,
        // By step of a client, which makes 5 % of the operations.
        unknown_per_million: 26_000,
        failed_per_million: 0,
        lies_per_million: 0,
    };
    for (name, mix, shape) in [
        ("register", Mix::PUTS, long),
        ("register and swaps", Mix::REGISTER, long),
        ("unique swaps", Mix::REGISTER, Shape { ops: 10_000, ..long }),
        ("hiding swaps", Mix { refusals: true, ..Mix::REGISTER }, Shape { ops: 10_000, ..long }),
        ("lists, started anew", Mix::RESTARTED, long),
        ("list", Mix::LIST, Shape { ops: 10_000, ..long }),
        ("lists and swaps", Mix::BOTH, Shape { ops: 10_000, ..long }),
        (
            "five values",
            Mix::FIVE_VALUES,
            Shape { clients: 10, unique: false, unknown_per_million: 0, ..long },
        ),
        ("five values", Mix::FIVE_VALUES, Shape { clients: 10, unique: false, ..long }),
    ] {
        for (lies, lie) in [(0, "true"), (5_000_000 / shape.ops as u64, "with lies")] {
            let shape = Shape { lies_per_million: lies, ..shape };
            let name = format!("{} ops, {} clients, {name}, {lie}", shape.ops, shape.clients);
            row(&name, Mixed(Mix { ..mix }), shape, 2);
        }
    }
}

fn row(name: &str, spec: Mixed, shape: Shape, seeds: u64) {
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let (mut total, mut worst, mut undecided, mut illegal, mut unknown) = (0, 0, 0, 0, 0);
    for seed in 0..seeds {
        let history = generate(&spec, shape, &mut Rng(seed));
        unknown +=
            history.operations().iter().filter(|op| op.outcome == linearizability::Outcome::Unknown).count();
        let best = (0..3).map(|_| judge(&spec, &history)).min().expect("three rounds");
        total += best;
        worst = worst.max(best);
        match check(&spec, &history, &Options::default()) {
            Verdict::Linearizable(_) => {}
            Verdict::Violation(_) => illegal += 1,
            Verdict::Undecided(_) => undecided += 1,
        }
    }
    let mean = total / u128::from(seeds);
    let (mean_us, worst_us) = (mean as f64 / 1e3, worst as f64 / 1e3);
    let per_op = mean as usize / shape.ops;
    print!("{name:<44} {mean_us:>12.1} {worst_us:>12.1} {per_op:>12}");
    let unknown = 100.0 * unknown as f64 / (shape.ops as f64 * seeds as f64);
    println!("   {unknown:.1} % unknown, {illegal} illegal, {undecided} undecided of {seeds}");
}

#[expect(clippy::disallowed_methods, reason = "it measures the checker, not a simulation")]
fn judge(spec: &Mixed, history: &History<u64, Input, Output>) -> u128 {
    let begun = Instant::now();
    black_box(check(spec, black_box(history), &Options::default()));
    begun.elapsed().as_nanos()
}
