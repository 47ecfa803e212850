//! `shrink`: the smallest timeline with the same failure, as a file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use serde_json::{Value, json};

use sim_runtime::shrink::{self, Settings, Shrunk};
use sim_runtime::words::counted;

use super::corpus::timeline_of;
use super::replay::tell_briefly;
use crate::cli::{ShrinkArgs, Status, Unusable, create, write_json, write_saved};
use crate::out::{Out, complain};
use crate::raft::{Config, Raft, RaftTimeline, Saved};
use crate::{say, signals};

use sim_io::nemesis::Plan;

/// Shrinks a seed or a file.
///
/// # Errors
/// When the timeline passes, or a file cannot be read or written.
#[expect(clippy::disallowed_methods, reason = "how long it took is real time")]
pub fn run(args: &ShrinkArgs, out: &mut Out) -> Result<Status, Unusable> {
    let json_file = create(args.result.json.as_deref())?;
    let scenario = args.shape.scenario();
    let start = timeline_of(&args.what, &args.shape)?.timeline();
    let seed = start.seed;
    let file = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("shrunk-{seed}.json")));
    let settings = settings(args.workers.jobs);
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let began = Instant::now();
    let before = size(&start);
    let Some(shrunk) = shrink_to(&scenario, start, &settings, &file, false, out)? else {
        return Err(Unusable::Passes(args.what.clone()));
    };
    let wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    tell_briefly(&shrunk.timeline, out);
    let value = json!({
        "seed": seed,
        "verdict": shrunk.failure.category.name(),
        "property": shrunk.failure.property,
        "before": before,
        "after": size(&shrunk.timeline),
        "tried": shrunk.tried,
        "wall_ms": wall_ms,
        "file": file,
    });
    write_json(json_file, &value)?;
    Ok(Status::Failed)
}

/// Shrinks `start` into `file` and says what came of it; `None` when it passes.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn shrink_to(
    scenario: &Raft,
    start: RaftTimeline,
    settings: &Settings,
    file: &Path,
    quiet: bool,
    out: &mut Out,
) -> Result<Option<Shrunk<Config, Plan>>, Unusable> {
    let was_there = file.exists();
    // The place is tried before the work is done.
    let place = create(Some(file))?;
    let seed = start.seed;
    let before = size(&start);
    let mut progress = Progress::new(quiet);
    let shrunk = shrink::shrink(scenario, start, settings, |best| progress.tell(best));
    progress.finish();
    let Some(shrunk) = shrunk else {
        drop(place);
        if !was_there {
            let _ = std::fs::remove_file(file);
        }
        return Ok(None);
    };
    write_saved(place, &Saved::with_outcome(shrunk.timeline.clone()))?;
    say!(out, "seed {seed}: {}: {}", shrunk.failure.category, shrunk.failure.property);
    say!(out, "  {}", shrunk.failure.evidence);
    let interrupted = if shrunk.interrupted { " (interrupted)" } else { "" };
    let (runs, steps) = (counted(shrunk.tried, "run"), counted(shrunk.steps, "step"));
    say!(out, "  {runs}, {steps}{interrupted}");
    say!(out, "  from {}", describe(&before));
    say!(out, "  to   {}", describe(&size(&shrunk.timeline)));
    say!(out, "  reproduce: cargo run --release -p bin -- replay {}", file.display());
    Ok(Some(shrunk))
}

/// Where the small timeline of `file` goes, where nothing else is said: X.json becomes X-shrunk.json.
pub(super) fn beside(file: &Path) -> PathBuf {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!("{name}-shrunk.json"))
}

pub(super) fn settings(jobs: Option<u16>) -> Settings {
    let usual = Settings::default();
    Settings { jobs: jobs.unwrap_or(usual.jobs), ..usual }
}

/// How large a timeline is.
fn size(timeline: &RaftTimeline) -> Value {
    let Config { servers, clients, operations, faults_ms, .. } = &timeline.config;
    let lanes: u64 = (1..=*clients).map(|n| u64::from(timeline.config.lanes_of(n))).sum();
    let planned =
        operations.map(|n| n.saturating_mul(lanes).saturating_sub(timeline.config.skipped.len() as u64));
    json!({
        "nodes": servers,
        "clients": clients,
        "operations": planned,
        "final_reads": timeline.config.final_reads,
        "faults": timeline.plan.faults.len(),
        "overrides": timeline.overrides.len(),
        "duration_ms": faults_ms,
    })
}

fn describe(size: &Value) -> String {
    let of = |name: &str, noun: &str| match size[name].as_u64() {
        None => format!("any number of {noun}s"),
        Some(n) => counted(n, noun),
    };
    let [servers, clients] = [of("nodes", "server"), of("clients", "client")];
    let [operations, faults] = [of("operations", "operation"), of("faults", "fault")];
    format!("{servers}, {clients}, {operations}, {faults}, {} ms", size["duration_ms"])
}

/// A live line on a terminal, a plain one now and then elsewhere.
enum Progress {
    Silent,
    Spinner(ProgressBar),
    Plain(Instant),
}

const PLAIN_EVERY: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "progress is about real time")]
impl Progress {
    fn new(quiet: bool) -> Self {
        if quiet {
            return Self::Silent;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Plain(Instant::now());
        }
        let style =
            ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("the template is well-formed");
        let spinner = ProgressBar::new_spinner().with_style(style).with_message("shrinking");
        spinner.enable_steady_tick(Duration::from_millis(100));
        Self::Spinner(spinner)
    }

    fn tell(&mut self, best: &Shrunk<Config, Plan>) {
        let line = || format!("{}, {}", counted(best.tried, "run"), describe(&size(&best.timeline)));
        match self {
            Self::Silent => {}
            Self::Spinner(spinner) => spinner.set_message(line()),
            Self::Plain(last) => {
                if last.elapsed() >= PLAIN_EVERY {
                    *last = Instant::now();
                    complain(&line());
                }
            }
        }
    }

    fn finish(&self) {
        if let Self::Spinner(spinner) = self {
            spinner.finish_and_clear();
        }
    }
}
