//! `campaign`: many seeds, and what they came to.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use sim_runtime::campaign::{self, Settings, Summary};
use sim_runtime::verdict::Category;

use super::table;
use crate::cli::{CampaignArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::raft::coverage::{self, OPERATIONS_OK};
use crate::{say, signals};

/// Runs the campaign and prints its summary.
///
/// # Errors
/// When the JSON file cannot be written or the system refuses signal handlers.
#[expect(clippy::disallowed_methods, reason = "seeds per second are about real time")]
pub fn run(args: &CampaignArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.json.as_deref())?;
    let mut settings = Settings {
        hung_after: Duration::from_secs(args.hung_after_s),
        distributions: vec![OPERATIONS_OK],
        ..Settings::default()
    };
    if let Some(jobs) = args.jobs {
        settings.jobs = usize::from(jobs);
    }
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;

    let total = args.seeds.count();
    let mut progress = Progress::new(total, args.quiet);
    let started = Instant::now();
    let scenario = Arc::new(args.shape.scenario());
    let mut digests = Vec::new();
    let summary = campaign::run(&scenario, args.seeds.iter(args.reverse), &settings, |report, summary| {
        digests.extend(report.filter(|_| total <= DIGESTS_KEPT).map(|report| (report.seed, report.digest())));
        progress.tell(summary);
    });
    digests.sort_unstable();
    let elapsed = started.elapsed();
    progress.finish();

    print_failures(args, &summary, out);
    if !args.quiet {
        table::print(args, &summary, elapsed, settings.jobs, out);
    }
    write_json(file, &as_json(args, &summary, &digests, elapsed))?;
    Ok(status(&summary, args.idle_allowed))
}

/// What the exit status says about a summary.
fn status(summary: &Summary, idle_allowed_per_million: u32) -> Status {
    let idle = summary.count(Category::Idle);
    let too_idle =
        u128::from(idle) * 1_000_000 > u128::from(summary.runs) * u128::from(idle_allowed_per_million);
    if summary.failed() > 0 {
        Status::Failed
    } else if summary.count(Category::Undecided) > 0 || too_idle || summary.interrupted || summary.runs == 0 {
        Status::NotAPass
    } else {
        Status::Clean
    }
}

/// At most this many failures are printed; the JSON has them all.
const PRINTED: usize = 20;

fn print_failures(args: &CampaignArgs, summary: &Summary, out: &mut Out) {
    for run in summary.failures.iter().take(PRINTED) {
        let first = &run.first;
        say!(out, "seed {}: {}: {}: {}", run.seed, first.category, first.property, first.evidence);
        let others: BTreeSet<_> =
            run.properties.iter().filter(|p| **p != first.property).map(String::as_str).collect();
        let others: Vec<_> = others.into_iter().collect();
        if !others.is_empty() {
            say!(out, "  also: {}", others.join(", "));
        }
        say!(out, "  reproduce: {}", args.shape.reproduce(run.seed));
    }
    let more = summary.failures.len().saturating_sub(PRINTED);
    if more > 0 {
        say!(out, "and {more} more runs that were not a pass");
    }
}

/// In campaigns of up to so many seeds, the JSON has the digest of each, to be compared with `replay`.
const DIGESTS_KEPT: u64 = 10_000;

fn as_json(
    args: &CampaignArgs,
    summary: &Summary,
    digests: &[(u64, u64)],
    elapsed: Duration,
) -> serde_json::Value {
    let run_digests: serde_json::Map<_, _> =
        digests.iter().map(|(seed, digest)| (seed.to_string(), json!(format!("{digest:016x}")))).collect();
    let verdicts: serde_json::Map<_, _> =
        Category::ALL.iter().map(|c| (c.name().to_owned(), json!(summary.count(*c)))).collect();
    let failures: Vec<_> = summary
        .failures
        .iter()
        .map(|run| {
            json!({
                "seed": run.seed,
                "verdict": run.first.category.name(),
                "property": run.first.property,
                "properties": run.properties,
                "fingerprint": format!("{:016x}", run.first.fingerprint()),
                "evidence": run.first.evidence,
                "reproduce": args.shape.reproduce(run.seed),
            })
        })
        .collect();
    json!({
        "seeds": args.seeds.to_string(),
        "runs": summary.runs,
        "digest": format!("{:016x}", summary.digest),
        "seeds_per_second": table::per_second(summary.runs, elapsed),
        "run_digests": run_digests,
        "interrupted": summary.interrupted,
        "verdicts": verdicts,
        "coverage": summary.coverage,
        "unreached": coverage::unreached(&summary.coverage),
        "premise": summary.premise,
        "records": summary.records,
        "steps": summary.steps,
        "failures": failures,
    })
}

/// A live line on a terminal, a plain one now and then elsewhere.
enum Progress {
    Silent,
    Bar(ProgressBar),
    Plain { total: u64, last: Instant },
}

const PLAIN_EVERY: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "progress is about real time")]
impl Progress {
    fn new(total: u64, quiet: bool) -> Self {
        if quiet {
            return Self::Silent;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Plain { total, last: Instant::now() };
        }
        let style = "{bar:30} {pos}/{len} seeds, {per_sec}, {msg} (eta {eta})";
        let style = ProgressStyle::with_template(style).expect("the template is well-formed");
        Self::Bar(ProgressBar::new(total).with_style(style).with_message("no failures"))
    }

    fn tell(&mut self, summary: &Summary) {
        match self {
            Self::Silent => {}
            Self::Bar(bar) => {
                bar.set_position(summary.runs);
                if summary.failed() > 0 {
                    bar.set_message(format!("{} failures", summary.failed()));
                }
            }
            Self::Plain { total, last } => {
                if last.elapsed() >= PLAIN_EVERY {
                    *last = Instant::now();
                    complain(&format!("{} of {total} seeds, {} failures", summary.runs, summary.failed()));
                }
            }
        }
    }

    fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(verdicts: &[(Category, u64)]) -> Summary {
        let runs = verdicts.iter().map(|(_, n)| n).sum();
        Summary { runs, verdicts: verdicts.iter().copied().collect(), ..Summary::default() }
    }

    #[test]
    fn only_passes_and_a_few_idle_runs_are_clean() {
        use Category::{Idle, Invariant, Nondeterministic, Pass, Undecided};
        let of = |verdicts: &[(Category, u64)]| status(&summary(verdicts), 10_000);
        assert_eq!(of(&[(Pass, 100)]), Status::Clean);
        assert_eq!(of(&[(Pass, 99), (Idle, 1)]), Status::Clean);
        assert_eq!(of(&[(Pass, 98), (Idle, 2)]), Status::NotAPass);
        assert_eq!(of(&[(Pass, 999), (Undecided, 1)]), Status::NotAPass);
        assert_eq!(of(&[(Pass, 999), (Undecided, 1), (Invariant, 1)]), Status::Failed);
        assert_eq!(of(&[(Pass, 999), (Nondeterministic, 1)]), Status::Failed);
        assert_eq!(of(&[]), Status::NotAPass);
        let interrupted = Summary { interrupted: true, ..summary(&[(Pass, 5)]) };
        assert_eq!(status(&interrupted, 10_000), Status::NotAPass);
    }
}
