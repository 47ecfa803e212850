//! How fast a history is judged, and in how much memory: `cargo run --release -p linearizability --example speed`.
//! A part of a row's name as argument runs only such rows.
//!
//! Histories like the simulator's (two keys, a register and a list, each with its mix) and longer ones. A time is CPU
//! time of the judging thread, where the system tells it (Linux), else wall time; the best of three rounds, so it says
//! what the code costs, not what else the machine was doing. Memory is the peak of the whole process, the history
//! included, while it was judged.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Mix, Mixed, Rng, Shape, generate};
use linearizability::models::kv::{Input, Output};
use linearizability::{History, Options, Verdict, check};

fn main() {
    println!("{:<56} {:>10} {:>10} {:>9} {:>8}", "history", "mean µs", "worst µs", "ns per op", "peak MB");
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
        ("register", Mix::PUTS, Shape { ops: 200_000, ..long }),
        ("register", Mix::PUTS, Shape { ops: 400_000, ..long }),
        ("unique swaps", Mix::REGISTER, Shape { ops: 10_000, ..long }),
        ("hiding swaps", Mix { refusals: true, ..Mix::REGISTER }, Shape { ops: 10_000, ..long }),
        ("lists, started anew", Mix::RESTARTED, long),
        ("list", Mix::LIST, Shape { ops: 10_000, ..long }),
        ("lists and swaps", Mix::BOTH, Shape { ops: 1_000, clients: 10, ..long }),
        (
            "five values",
            Mix::FIVE_VALUES,
            Shape { clients: 10, unique: false, unknown_per_million: 0, ..long },
        ),
        ("five values", Mix::FIVE_VALUES, Shape { clients: 10, unique: false, ..long }),
    ] {
        for (lies, lie) in [(0, "true"), (5_000_000 / shape.ops as u64, "with lies")] {
            let shape = Shape { lies_per_million: lies, ..shape };
            let unknown = if shape.unknown_per_million == 0 { ", none unknown" } else { "" };
            let name = format!("{} ops, {} clients, {name}{unknown}, {lie}", shape.ops, shape.clients);
            row(&name, Mixed(Mix { ..mix }), shape, 2);
        }
    }
}

fn row(name: &str, spec: Mixed, shape: Shape, seeds: u64) {
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let (mut total, mut worst, mut peak_mb) = (Duration::ZERO, Duration::ZERO, None);
    let (mut undecided, mut illegal, mut unknown) = (0, 0, 0);
    for seed in 0..seeds {
        let history = generate(&spec, shape, &mut Rng(seed));
        unknown +=
            history.operations().iter().filter(|op| op.outcome == linearizability::Outcome::Unknown).count();
        memory::forget_peak();
        // Short ones are judged often enough for the clock.
        let once = judge(&spec, &history, 1).max(Duration::from_micros(1));
        let rounds = (Duration::from_millis(5).as_nanos() / once.as_nanos()).clamp(1, 50) as u32;
        let best = (0..3).map(|_| judge(&spec, &history, rounds)).min().expect("three times");
        peak_mb = memory::peak_mb().map(|peak| peak.max(peak_mb.unwrap_or(0.0)));
        total += best;
        worst = worst.max(best);
        match check(&spec, &history, &Options::default()) {
            Verdict::Linearizable(_) => {}
            Verdict::Violation(_) => illegal += 1,
            Verdict::Undecided(_) => undecided += 1,
        }
    }
    let mean = total / seeds as u32;
    let (mean_us, worst_us) = (mean.as_nanos() as f64 / 1e3, worst.as_nanos() as f64 / 1e3);
    let per_op = mean.as_nanos() as usize / shape.ops;
    let peak_mb = peak_mb.map_or_else(|| "?".to_owned(), |peak: f64| format!("{peak:.0}"));
    print!("{name:<56} {mean_us:>10.1} {worst_us:>10.1} {per_op:>9} {peak_mb:>8}");
    let unknown = 100.0 * unknown as f64 / (shape.ops as f64 * seeds as f64);
    println!("   {unknown:.1} % unknown, {illegal} illegal, {undecided} undecided of {seeds}");
}

#[expect(clippy::disallowed_methods, reason = "it measures the checker, not a simulation")]
fn judge(spec: &Mixed, history: &History<u64, Input, Output>, rounds: u32) -> Duration {
    let (begun, cpu) = (Instant::now(), cpu_time());
    for _ in 0..rounds {
        black_box(check(spec, black_box(history), &Options::default()));
    }
    let spent = cpu.zip(cpu_time()).map(|(from, to)| to - from);
    spent.unwrap_or_else(|| begun.elapsed()) / rounds
}

/// CPU time of this thread so far.
fn cpu_time() -> Option<Duration> {
    // The kernel brings the number up to date when the thread yields.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// What the kernel says of this process's memory.
mod memory {
    /// Lets the peak begin anew from what is in use now.
    #[expect(clippy::disallowed_methods, reason = "it measures the checker, not a simulation")]
    pub fn forget_peak() {
        // Where this is refused, the peak is that of all rows so far.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }

    /// The peak, in units of 10^6 bytes.
    pub fn peak_mb() -> Option<f64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024.0 / 1e6)
    }
}
