//! `mutants`: how much searching it takes to find each planted defect.
//!
//!   defects x ranges of seeds ──► Hunt (a range ends with its first catch) ──► Spread, Rate ──► table, JSON
//!
//! A catch is an objection of an *outcome* oracle. Premises, fidelity and panics are told of, and are none.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim_runtime::campaign::Settings;

mod statistics;
mod hunt;
mod report;

use crate::cli::{MutantsArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::raft::Raft;
use crate::{say, signals};
use hunt::Hunt;
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
    let file = create(args.json.as_deref())?;
    let mut settings = Settings::default();
    if let Some(jobs) = args.jobs {
        settings.jobs = usize::from(jobs);
    }
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;

    let mutants = args.mutants();
    let raft = Raft { without: args.without.iter().collect(), ..Raft::of(args.profile) };
    let hunt = Arc::new(Hunt::new(raft, &mutants, args.budget, args.repeat));
    let started = Instant::now();
    let mut told = started;
    let (quarries, interrupted) = hunt.run(&settings, |done| {
        if !std::io::stderr().is_terminal() && told.elapsed() < Duration::from_secs(30) {
            return;
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            complain(&format!("{done} ranges done after {} s", started.elapsed().as_secs()));
        }
    });
    let report = Report::of(args, &quarries);
    report.print(out);
    let runs: u64 = quarries.iter().flat_map(|quarry| &quarry.ranges).map(|range| range.runs).sum();
    let seconds = started.elapsed().as_secs_f64();
    say!(out, "{runs} runs in {seconds:.0} s on {} threads", settings.jobs);
    if interrupted {
        say!(out, "interrupted: ranges are cut short, and the numbers are not those of the whole");
    }
    write_json(file, &report.to_json())?;
    Ok(if report.alarms() > 0 {
        Status::Failed
    } else if interrupted || report.missed() > 0 {
        Status::NotAPass
    } else {
        Status::Clean
    })
}
