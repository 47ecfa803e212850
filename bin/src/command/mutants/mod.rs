//! `mutants`: how much searching it takes to find each planted defect.
//!
//!   defects x ranges of seeds ──► Hunt (a range ends with its first catch) ──► Spread, Rate ──► table, JSON
//!
//! A catch is an objection of an *outcome* oracle. Premises, fidelity and panics are told of, and are none.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim_runtime::campaign::Settings;
use sim_runtime::words::counted;

mod hunt;
mod report;
mod ablation;

use crate::cli::{MutantsArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::raft::Raft;
use crate::raft::features::Feature;
use crate::{say, signals};
pub(in crate::command) use hunt::is_catch;
use hunt::{Hunt, Quarry};
use report::Report;

/// Searches for every defect that is asked for, and reports.
///
/// # Errors
/// When a file cannot be written, the system refuses signal handlers, or no defect is compiled in.
#[expect(clippy::disallowed_methods, reason = "how long it took is about real time")]
pub fn run(args: &MutantsArgs, out: &mut Out) -> Result<Status, Unusable> {
    if !cfg!(feature = "mutants") {
        return Err(Unusable::NoMutants);
    }
    let mut settings = Settings::default();
    if let Some(jobs) = args.workers.jobs {
        settings.jobs = usize::from(jobs);
    }
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    if args.ablation {
        return ablation::run(args, &settings, out);
    }

    let file = create(args.result.json.as_deref())?;
    let started = Instant::now();
    let Searched { quarries, interrupted } = search(args, &args.features.without, &settings);
    let report = Report::of(args, &quarries);
    report.print(out);
    let runs: u64 = quarries.iter().flat_map(|quarry| &quarry.ranges).map(|range| range.runs).sum();
    let seconds = started.elapsed().as_secs_f64();
    let threads = counted(settings.jobs as u64, "thread");
    say!(out, "{} in {seconds:.0} s on {threads}", counted(runs, "run"));
    if interrupted {
        say!(out, "interrupted: ranges are cut short, and the numbers are not those of the whole");
    }
    write_json(file, &report.to_json())?;
    Ok(status(&quarries, interrupted))
}

/// A control in which anything objected is a failure; a defect that no range caught is no pass.
fn status(quarries: &[Quarry], interrupted: bool) -> Status {
    let of = |controls: bool| quarries.iter().filter(move |quarry| quarry.is_control() == controls);
    let is_alarm = of(true).flat_map(|control| &control.ranges).any(|range| range.failed > 0);
    let is_missed = of(false).any(|defect| defect.ranges.iter().all(|range| range.catch.is_none()));
    if is_alarm {
        Status::Failed
    } else if interrupted || is_missed {
        Status::NotAPass
    } else {
        Status::Clean
    }
}

/// What a search came to, and whether it was cut short.
struct Searched {
    quarries: Vec<Quarry>,
    interrupted: bool,
}

/// Looks for all that `args` ask for, in a swarm without these features.
#[expect(clippy::disallowed_methods, reason = "progress is told in real time")]
fn search(args: &MutantsArgs, without: &[Feature], settings: &Settings) -> Searched {
    let raft = Raft { without: without.iter().collect(), ..Raft::of(args.kind.profile) };
    let hunt = Hunt::new(raft, &args.mutants(), args.budget, args.repeat);
    let hunt = Arc::new(hunt.until_expected(args.expected));
    let started = Instant::now();
    let mut told = started;
    let (quarries, interrupted) = hunt.run(settings, |done| {
        if !std::io::stderr().is_terminal() && told.elapsed() < Duration::from_secs(30) {
            return;
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            complain(&format!(
                "{} done after {} s",
                counted(done as u64, "range"),
                started.elapsed().as_secs()
            ));
        }
    });
    Searched { quarries, interrupted }
}
