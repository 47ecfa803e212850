//! How fast a history is judged, and in how much memory: `cargo run --release -p linearizability --example speed`.
//! A part of a row's name as argument runs only such rows.
//!
//! Histories like the simulator's (two keys, a register and a list, each with its mix) and longer ones. A time is CPU
//! time of the judging thread, where the system tells it (Linux), else wall time; the best of three rounds, so it says
//! what the code costs, not what else the machine was doing. Memory is the peak of the whole process while a history was
//! judged, with that history and what the allocator kept of rows before it: for a row's own, run that row alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Mix, Mixed, Rng, Shape, generate};
use linearizability::models::kv::{Input, Output};
use linearizability::{History, OpId, Options, Outcome, Verdict, check};

fn main() {
    println!("{:<56} {:>10} {:>10} {:>9} {:>8}", "history", "mean µs", "worst µs", "ns per op", "peak MB");
    for (clients, ops) in [(3, 100), (3, 400), (3, 1_000), (5, 1_000)] {
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
    // What the simulator pays for a run: recording and judging.
    for ops in [100, 400, 1_000] {
        for (name, mix) in [("register", Mix::REGISTER), ("list", Mix::LIST)] {
            recorded_and_judged(name, &Mixed(mix), ops);
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
            if lies == 0 {
                let name = name.replace("true", "violated at its end");
                let spec = Mixed(Mix { ..mix });
                row_of(&name, &spec, shape, 2, |seed| violated_at_its_end(&spec, shape, seed));
            }
        }
    }
}

fn row(name: &str, spec: Mixed, shape: Shape, seeds: u64) {
    row_of(name, &spec, shape, seeds, |seed| generate(&spec, shape, &mut Rng(seed)));
}

/// One stale read after all else, which is the longest way to a shortest prefix.
fn violated_at_its_end(spec: &Mixed, shape: Shape, seed: u64) -> History<u64, Input, Output> {
    let mut history = generate(spec, shape, &mut Rng(seed));
    let is_seen = |op: &&linearizability::Operation<u64, Input, Output>| {
        matches!(&op.outcome, Outcome::Ok(Output::Value(Some(_))))
    };
    let early = history.operations().iter().find(is_seen).expect("somebody read something").outcome.clone();
    let Outcome::Ok(early) = early else { unreachable!("that was asked for") };
    let get = history.invoke(0, 0, Input::Get);
    history.complete(get, early);
    history
}

fn row_of(
    name: &str,
    spec: &Mixed,
    shape: Shape,
    seeds: u64,
    history: impl Fn(u64) -> History<u64, Input, Output>,
) {
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let (mut total, mut worst, mut peak_mb) = (Duration::ZERO, Duration::ZERO, None);
    let (mut undecided, mut illegal, mut unknown) = (0, 0, 0);
    for seed in 0..seeds {
        let history = history(seed);
        unknown += history.operations().iter().filter(|op| op.outcome == Outcome::Unknown).count();
        memory::forget_peak();
        // Short ones are judged often enough for the clock.
        let once = judge(spec, &history, 1).max(Duration::from_micros(1));
        let rounds = (Duration::from_millis(5).as_nanos() / once.as_nanos()).clamp(1, 50) as u32;
        let best = (0..3).map(|_| judge(spec, &history, rounds)).min().expect("three times");
        peak_mb = memory::peak_mb().map(|peak| peak.max(peak_mb.unwrap_or(0.0)));
        total += best;
        worst = worst.max(best);
        match check(spec, &history, &Options::default()) {
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

/// The mean of recording the events of a run and judging them, over many runs.
fn recorded_and_judged(name: &str, spec: &Mixed, ops: usize) {
    let name = format!("{ops} ops, 3 clients, {name}, recorded and judged");
    if std::env::args().nth(1).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let shape = Shape {
        ops,
        clients: 3,
        keys: 2,
        unique: true,
        unknown_per_million: 16_000,
        failed_per_million: 0,
        lies_per_million: 0,
    };
    let runs: Vec<_> = (0..200).map(|seed| told(&generate(spec, shape, &mut Rng(seed)))).collect();
    let pass = || {
        let runs = runs.clone();
        let begun = cpu_time().expect("Linux tells CPU time");
        for run in runs {
            black_box(check(spec, &recorded(run), &Options::default()));
        }
        (cpu_time().expect("it did before") - begun) / 200
    };
    let mean_us = (0..5).map(|_| pass()).min().expect("five passes").as_nanos() as f64 / 1e3;
    println!("{name:<56} {mean_us:>10.1}");
}

/// An event as a client tells it.
#[derive(Clone)]
enum Event {
    Begins { process: u32, key: u64, input: Input },
    Ends(OpId, Outcome<Output>),
}

/// The events of a history, each with its time.
fn told(history: &History<u64, Input, Output>) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for (id, op) in history.operations().iter().enumerate() {
        let begins = Event::Begins { process: op.process, key: op.key, input: op.input.clone() };
        events.push((op.invoked, begins));
        events.extend(op.returned.map(|at| (at, Event::Ends(OpId(id as u32), op.outcome.clone()))));
    }
    events.sort_by_key(|(at, _)| at.event);
    events.into_iter().map(|(at, event)| (at.time_ns.expect("it was generated with time"), event)).collect()
}

/// The same events, told to a new history.
fn recorded(events: Vec<(u64, Event)>) -> History<u64, Input, Output> {
    let mut history = History::new();
    for (time_ns, event) in events {
        history.tick(time_ns);
        match event {
            Event::Begins { process, key, input } => {
                history.invoke(process, key, input);
            }
            Event::Ends(id, Outcome::Ok(output)) => history.complete(id, output),
            Event::Ends(id, Outcome::Failed) => history.fail(id),
            Event::Ends(id, Outcome::Unknown) => history.unknown(id),
        }
    }
    history
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
