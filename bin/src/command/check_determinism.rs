//! `check-determinism`: whether runs of one seed are one, and what is to blame if not.

use std::time::Instant;

use serde_json::{Value, json};

use sim_runtime::determinism::{self, Checked, Divergence, Fresh, Settings, Side};
use sim_runtime::verdict::Failure;

use crate::cli::{CheckDeterminismArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::{say, signals};

/// Checks the seeds and prints what differs.
///
/// # Errors
/// When a file cannot be written, or the system refuses signal handlers.
#[expect(clippy::disallowed_methods, reason = "how long it takes is real time")]
pub fn run(args: &CheckDeterminismArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.json.as_deref())?;
    let mut settings = Settings {
        // A process of its own is this command; what it is to run, it is told in another way.
        fresh: Fresh::Command(["check-determinism", "--seeds", "1"].map(Into::into).to_vec()),
        ..Settings::default()
    };
    settings.jobs = match args.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let (started, total) = (Instant::now(), args.seeds.count());
    let told = |done: u64| {
        if !args.quiet && done.is_multiple_of(PLAIN_EVERY) && done < total {
            complain(&format!("{done} of {total} seeds"));
        }
    };
    let checked = determinism::check(&args.shape.scenario(), args.seeds.iter(false), &settings, told);
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if !args.quiet || !checked.divergences.is_empty() {
        say!(out, "{}", checked.to_string().trim_end());
        if let Some(first) = checked.divergences.first() {
            say!(out, "  reproduce: {}", reproduce(args, first.seed));
        }
        say!(out, "in {}.{} s", elapsed_ms / 1_000, elapsed_ms / 100 % 10);
    }
    write_json(file, &to_json(args, &checked, elapsed_ms))?;
    Ok(if !checked.divergences.is_empty() {
        Status::Failed
    } else if checked.interrupted || !checked.skipped.is_empty() {
        Status::NotAPass
    } else {
        Status::Clean
    })
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
        "perturbations": names,
        "skipped": skipped,
        "divergences": checked.divergences.iter().map(divergence).collect::<Vec<_>>(),
    })
}

/// One of two runs: its verdict, all that was found wrong in it, and how it goes on where they part.
fn side(side: &Side) -> Value {
    let failure = |failure: &Failure| {
        json!({"verdict": failure.category, "property": failure.property, "evidence": failure.evidence})
    };
    json!({
        "verdict": side.verdict,
        "failures": side.failures.iter().map(failure).collect::<Vec<_>>(),
        "entries": side.entries,
        "differs": side.differing().map(|line| line.to_string()),
    })
}
