//! `bench`: how many seeds a second, on one thread and on all, and what a seed is.
//!
//! A machine that others use gives two threads less than twice what it gives one, and more or less of it from minute to
//! minute. So each round also measures what threads reach that do nothing but count in registers: scaling is the gain
//! of all threads over one in seeds, as a share of their gain in counting.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use sim_runtime::campaign::{self, Settings, Summary};

use crate::cli::{BenchArgs, Status, Unusable, create, write_json};
use crate::out::Out;
use crate::raft::Raft;
use crate::{say, signals};

/// How long threads count.
const SPIN: Duration = Duration::from_millis(500);

/// What one round measured.
#[derive(Serialize)]
struct Round {
    seeds_per_second_one_thread: f64,
    seeds_per_second_all_threads: f64,
    /// Counts of all threads together, over those of one alone.
    spin_gain: f64,
}

impl Round {
    fn scaling(&self) -> f64 {
        self.seeds_per_second_all_threads / self.seeds_per_second_one_thread / self.spin_gain
    }
}

/// Measures, and prints medians.
///
/// # Errors
/// When a file cannot be written, or the system refuses signal handlers.
pub fn run(args: &BenchArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    let scenario = Arc::new(args.shape.scenario());
    let mut settings = Settings::default();
    if let Some(jobs) = args.workers.jobs {
        settings.jobs = usize::from(jobs);
    }
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let all = settings.jobs;
    // The first run also warms up.
    let (_, summary) = seeds_per_second(&scenario, args, &settings, all);
    let mut rounds = Vec::new();
    while rounds.len() < usize::from(args.rounds) && !settings.stop.load(Ordering::Relaxed) {
        let round = Round {
            seeds_per_second_one_thread: seeds_per_second(&scenario, args, &settings, 1).0,
            seeds_per_second_all_threads: seeds_per_second(&scenario, args, &settings, all).0,
            spin_gain: spins_per_second(all) / spins_per_second(1),
        };
        say!(
            out,
            "round {}: {:.1} seeds a second on one thread, {:.1} on {all}; {all} spins reach {:.2} of one",
            rounds.len() + 1,
            round.seeds_per_second_one_thread,
            round.seeds_per_second_all_threads,
            round.spin_gain
        );
        rounds.push(round);
    }
    if settings.stop.load(Ordering::Relaxed) || rounds.is_empty() {
        return Ok(Status::NotAPass);
    }
    let one = median(rounds.iter().map(|round| round.seeds_per_second_one_thread));
    let many = median(rounds.iter().map(|round| round.seeds_per_second_all_threads));
    let scaling = median(rounds.iter().map(Round::scaling));
    let a_seed = |count: u64| count as f64 / summary.runs as f64;
    let messages = a_seed(summary.coverage.get("datagrams sent"));
    let fsyncs = a_seed(summary.coverage.get("fsyncs"));
    let (records, steps) = (a_seed(summary.records), a_seed(summary.steps));
    say!(
        out,
        "medians of {}: {one:.1} seeds a second on one thread, {many:.1} on {all}: {:.1} % of what spins reach",
        rounds.len(),
        100.0 * scaling
    );
    say!(
        out,
        "a seed: {messages:.0} datagrams, {fsyncs:.0} fsyncs, {records:.0} records, {steps:.0} steps ({} seeds)",
        summary.runs
    );
    let result = serde_json::json!({
        "seeds": summary.runs,
        "threads": all,
        "seeds_per_second_one_thread": one,
        "seeds_per_second_all_threads": many,
        "scaling": scaling,
        "datagrams_a_seed": messages,
        "fsyncs_a_seed": fsyncs,
        "records_a_seed": records,
        "steps_a_seed": steps,
        "rounds": rounds,
    });
    write_json(file, &result)?;
    Ok(if summary.failed() > 0 { Status::Failed } else { Status::Clean })
}

#[expect(clippy::disallowed_methods, reason = "seeds per second are about real time")]
fn seeds_per_second(
    scenario: &Arc<Raft>,
    args: &BenchArgs,
    settings: &Settings,
    jobs: usize,
) -> (f64, Summary) {
    let settings = Settings { jobs, stop: settings.stop.clone(), ..Settings::default() };
    let begin = Instant::now();
    let summary = campaign::run(scenario, args.seeds.iter(false), &settings, |_, _| {});
    (summary.runs as f64 / begin.elapsed().as_secs_f64(), summary)
}

/// How far so many threads count together.
#[expect(clippy::disallowed_methods, reason = "real threads, for a while of real time")]
fn spins_per_second(threads: usize) -> f64 {
    let over = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let spinning: Vec<_> = (0..threads)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || {
                let mut count = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    for _ in 0..10_000 {
                        count = black_box(count + 1);
                    }
                }
                count
            })
        })
        .collect();
    std::thread::sleep(SPIN);
    over.store(true, Ordering::Relaxed);
    let counts: u64 = spinning.into_iter().map(|thread| thread.join().expect("a spin cannot panic")).sum();
    counts as f64 / begin.elapsed().as_secs_f64()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_is_measured_by_what_the_machine_gives() {
        let round = |all, spin_gain| Round {
            seeds_per_second_one_thread: 100.0,
            seeds_per_second_all_threads: all,
            spin_gain,
        };
        assert_eq!(round(150.0, 1.5).scaling(), 1.0);
        assert_eq!(round(150.0, 2.0).scaling(), 0.75);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }
}
