//! `check-determinism`: whether runs of one seed are one, and what is to blame if not.

use std::time::Instant;

use serde_json::{Value, json};

use sim_runtime::ambient::Standing;
use sim_runtime::determinism::{self, Checked, Divergence, Fresh, Settings, Side};
use sim_runtime::scenario::Scenario;
use sim_runtime::verdict::Failure;
use sim_runtime::words::counted;

use crate::cli::{CheckDeterminismArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::{say, signals};

/// Checks the seeds and prints what differs.
///
/// # Errors
/// When a file cannot be written, or the system refuses signal handlers.
pub fn run(args: &CheckDeterminismArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    // A process of its own is this command; what it is to run, it is told in another way.
    let fresh = Fresh::Command(["check-determinism", "--seeds", "1"].map(Into::into).to_vec());
    let settings = Settings { jobs: jobs(args), fresh, ..Settings::default() };
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let (status, value) = check(&args.shape.scenario(), args, &settings, out);
    write_json(file, &value)?;
    Ok(status)
}

fn jobs(args: &CheckDeterminismArgs) -> usize {
    match args.workers.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

#[expect(clippy::disallowed_methods, reason = "how long it takes is real time")]
fn check<S>(scenario: &S, args: &CheckDeterminismArgs, settings: &Settings, out: &mut Out) -> (Status, Value)
where
    S: Scenario,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    let (started, total) = (Instant::now(), args.seeds.count());
    let told = |done: u64| {
        if !args.quiet && done.is_multiple_of(PLAIN_EVERY) && done < total {
            complain(&format!("{done} of {}", counted(total, "seed")));
        }
    };
    let checked = determinism::check(scenario, args.seeds.iter(false), settings, told);
    let wall_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if !args.quiet || !checked.divergences.is_empty() {
        say!(out, "{}", checked.to_string().trim_end());
        if let Some(first) = checked.divergences.first() {
            say!(out, "  reproduce: {}", reproduce(args, first.seed));
        }
        say!(out, "in {}.{} s", wall_ms / 1_000, wall_ms / 100 % 10);
        if checked.interrupted {
            say!(out, "interrupted: {} of {} were checked", checked.seeds, counted(total, "seed"));
        }
    }
    (status(&checked), to_json(args, &checked, wall_ms))
}

fn status(checked: &Checked) -> Status {
    if !checked.divergences.is_empty() {
        Status::Failed
    } else if checked.interrupted || !checked.skipped.is_empty() {
        Status::NotAPass
    } else {
        Status::Clean
    }
}

/// After so many seeds a line says how far it is.
const PLAIN_EVERY: u64 = 50;

fn reproduce(args: &CheckDeterminismArgs, seed: u64) -> String {
    let flags = args.shape.flags();
    format!("cargo run --release -p bin -- check-determinism --seeds {seed}..{}{flags}", seed + 1)
}

fn to_json(args: &CheckDeterminismArgs, checked: &Checked, wall_ms: u64) -> Value {
    let names: Vec<_> = checked.perturbations.iter().map(|perturbation| perturbation.name()).collect();
    let skipped: Vec<_> = (checked.skipped.iter())
        .map(|(perturbation, why)| json!({"perturbation": perturbation.name(), "why": why}))
        .collect();
    let divergence = |divergence: &Divergence| {
        json!({
            "seed": divergence.seed,
            "verdict": divergence.failure().category.name(),
            "perturbation": divergence.perturbation.name(),
            "record": divergence.record,
            "cause": divergence.cause.kind.name(),
            "place": divergence.cause.place,
            "evidence": divergence.cause.to_string(),
            "timeline": divergence.timeline,
            "first": side(&divergence.first),
            "second": side(&divergence.second),
            "reproduce": reproduce(args, divergence.seed),
        })
    };
    json!({
        "seeds": checked.seeds,
        "runs": checked.runs,
        "wall_ms": wall_ms,
        "verdict": checked.category().name(),
        "interrupted": checked.interrupted,
        "perturbations": names,
        "guard": Standing::here().caveat().unwrap_or("tested on this platform"),
        "skipped": skipped,
        "divergences": checked.divergences.iter().map(divergence).collect::<Vec<_>>(),
    })
}

/// One of two runs: its verdict, all that was found wrong in it, and how it goes on where they part.
fn side(side: &Side) -> Value {
    let failure = |failure: &Failure| {
        let Failure { category, property, evidence, .. } = failure;
        json!({"verdict": category, "property": property, "evidence": evidence})
    };
    json!({
        "verdict": side.verdict,
        "failures": side.failures.iter().map(failure).collect::<Vec<_>>(),
        "entries": side.entries,
        "differs": side.differing().map(|line| line.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sim_runtime::determinism::Perturbation;
    use sim_runtime::scenario::{Timeline, Watch};
    use sim_runtime::verdict::{Category, RunReport};
    use sim_runtime::{Handle, Options, World};

    use super::*;

    /// Violates a property that has the number of the run in its name.
    struct Counted;

    impl Scenario for Counted {
        type Config = ();
        type Plan = ();

        fn config(&self, _seed: u64) {}

        fn plan(&self, _seed: u64, _config: &()) {}

        fn run(&self, timeline: &Timeline<(), ()>, _watch: Watch) -> (RunReport, Vec<String>) {
            static RUNS: AtomicU64 = AtomicU64::new(0);
            let runs = RUNS.fetch_add(1, Ordering::Relaxed);
            let mut world = World::new(timeline.seed, Options::default());
            let main = async move {
                Handle::current().fail(Category::Invariant, &format!("property {runs}"), "", String::new());
            };
            world.run(main);
            (world.report(), Vec::new())
        }
    }

    #[test]
    fn a_divergence_is_a_failure_and_the_failures_of_both_runs_are_written() {
        let args = CheckDeterminismArgs::of_line("--seeds 2 --quiet");
        let perturbations = vec![Perturbation::Again];
        let settings = Settings { perturbations, fresh: Fresh::Never, ..Settings::default() };
        let (status, value) = check(&Counted, &args, &settings, &mut Out::default());
        assert_eq!(status, Status::Failed);
        assert_eq!((&value["seeds"], &value["verdict"]), (&json!(2), &json!("nondeterministic")));
        let first = &value["divergences"][0];
        assert_eq!((&first["seed"], &first["perturbation"]), (&json!(1), &json!("the same again")));
        assert_eq!((&first["cause"], &first["record"]), (&json!("surviving state"), &json!(0)));
        let property = |run: &str| first[run]["failures"][0]["property"].clone();
        assert_eq!((property("first"), property("second")), (json!("property 0"), json!("property 1")));
    }
}
