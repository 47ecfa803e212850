//! `campaign`: many seeds, and what they came to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use sim_runtime::campaign::{self, FailedRun, Settings, Summary};
use sim_runtime::scenario::Scenario;
use sim_runtime::verdict::Category;
use sim_runtime::words::counted;

use super::corpus::{self, Corpus, FailedFile};
use super::outcome::{Failed, Outcome, Shard, Stopped};
use super::shrink;
use super::table;
use crate::cli::{CampaignArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::raft::Raft;
use crate::raft::coverage::OPERATIONS_OK;
use crate::{say, signals};

/// Runs the campaign and prints its summary.
///
/// # Errors
/// When a file cannot be read or written, or the system refuses signal handlers.
#[expect(clippy::disallowed_methods, reason = "seeds per second are about real time")]
pub fn run(args: &CampaignArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let corpus = args.corpus.as_deref().map(|folder| Corpus::read(folder, shard)).transpose()?;
    let mut settings = Settings {
        hung_after: Duration::from_secs(args.hung_after_s),
        distributions: vec![OPERATIONS_OK],
        ..Settings::default()
    };
    if let Some(jobs) = args.workers.jobs {
        settings.jobs = usize::from(jobs);
    }
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;

    let corpus = corpus.map(|corpus| corpus.run(&settings));
    let total = args.seeds.count();
    let mut progress = Progress::new(shard.share(total), args.quiet);
    let started = Instant::now();
    let brake = Brake::new(args, started, &settings);
    let scenario = Arc::new(args.shape.scenario());
    let mut digests = BTreeMap::new();
    let mine = args.seeds.iter(args.reverse).enumerate().filter(move |(index, _)| shard.has(*index));
    let seeds = brake.hold(mine.map(|(_, seed)| seed));
    let summary = campaign::run(&scenario, seeds, &settings, |report, summary| {
        let kept = report.filter(|_| total <= DIGESTS_KEPT);
        digests.extend(kept.map(|report| (report.seed, report.digest())));
        progress.tell(summary);
    });
    let elapsed = started.elapsed();
    progress.finish();

    let stopped = if summary.interrupted { Some(Stopped::Interrupt) } else { brake.why() };
    let outcome = Outcome { corpus, ..Outcome::of(args, &summary, digests, elapsed, stopped) };
    print_failures(&outcome, out);
    if let Some(folder) = &args.corpus {
        for kept in corpus::keep_failures(folder, &scenario, &summary)? {
            say!(out, "kept: {}", kept.display());
        }
    }
    if args.shrink {
        shrink_failures(args, &scenario, &summary, out)?;
    }
    if !args.quiet {
        table::print(args, &outcome, elapsed, settings.jobs, out);
    }
    write_json(file, &serde_json::to_value(&outcome).expect("an outcome is plain data"))?;
    Ok(outcome.status(args.idle_allowed))
}

/// Shrinks the failure of the lowest seed of each kind.
fn shrink_failures(
    args: &CampaignArgs,
    scenario: &Raft,
    summary: &Summary,
    out: &mut Out,
) -> Result<(), Unusable> {
    let folder = args.corpus.clone().unwrap_or_else(|| PathBuf::from("shrunk"));
    let settings = shrink::settings(args.workers.jobs);
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let mut kinds = BTreeSet::new();
    // A run that hangs would hang again, and take this process with it.
    let is_shrunk =
        |run: &&FailedRun| run.first.category.is_failure() && run.first.category != Category::Hung;
    for run in summary.failures.iter().filter(is_shrunk) {
        let kind = run.first.fingerprint();
        if !kinds.insert(kind) || settings.stop.load(Ordering::Relaxed) {
            continue;
        }
        std::fs::create_dir_all(&folder).map_err(|error| Unusable::Write(folder.clone(), error))?;
        let file = shrink::beside(&folder.join(corpus::file_name(kind, run.seed)));
        shrink::shrink_to(scenario, scenario.timeline(run.seed), &settings, &file, args.quiet, out)?;
    }
    Ok(())
}

/// Ends the supply of seeds when the time is over, or on the first failure where that is wanted. What is under way then
/// is finished, so which failures are known in the end may differ from one time to the next.
#[derive(Clone)]
struct Brake {
    started: Instant,
    time: Option<Duration>,
    fail_fast: bool,
    failed: Arc<AtomicBool>,
    why: Arc<Mutex<Option<Stopped>>>,
}

impl Brake {
    fn new(args: &CampaignArgs, started: Instant, settings: &Settings) -> Self {
        let failed = settings.failed.clone();
        Self { started, time: args.time, fail_fast: args.fail_fast, failed, why: Arc::default() }
    }

    /// `seeds`, as long as the brake is not pulled.
    fn hold(
        &self,
        seeds: impl Iterator<Item = u64> + Send + 'static,
    ) -> impl Iterator<Item = u64> + Send + 'static {
        let brake = self.clone();
        seeds.take_while(move |_| {
            let pulled = brake.pulled();
            *brake.why.lock().unwrap_or_else(PoisonError::into_inner) = pulled;
            pulled.is_none()
        })
    }

    fn pulled(&self) -> Option<Stopped> {
        if self.fail_fast && self.failed.load(Ordering::Relaxed) {
            return Some(Stopped::Failure);
        }
        self.time.is_some_and(|time| self.started.elapsed() >= time).then_some(Stopped::Time)
    }

    /// Why seeds were left out, if any were.
    fn why(&self) -> Option<Stopped> {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most this many failures are printed; the JSON has them all.
const PRINTED: usize = 20;

fn print_failures(outcome: &Outcome, out: &mut Out) {
    for failed in outcome.corpus.iter().flat_map(|corpus| &corpus.failures) {
        let FailedFile { file, verdict, property, evidence, reproduce } = failed;
        say!(out, "{}: {verdict}: {property}: {evidence}", file.display());
        say!(out, "  reproduce: {reproduce}");
    }
    for failed in outcome.failures.iter().take(PRINTED) {
        let Failed { seed, verdict, property, evidence, reproduce, .. } = failed;
        say!(out, "seed {seed}: {verdict}: {property}: {evidence}");
        let others: BTreeSet<_> =
            failed.properties.iter().filter(|p| *p != property).map(String::as_str).collect();
        let others: Vec<_> = others.into_iter().collect();
        if !others.is_empty() {
            say!(out, "  also: {}", others.join(", "));
        }
        say!(out, "  reproduce: {reproduce}");
    }
    let more = outcome.failures.len().saturating_sub(PRINTED);
    if more > 0 {
        let were = if more == 1 { "was" } else { "were" };
        say!(out, "and {} that {were} not a pass", counted(more as u64, "more run"));
    }
    print_kinds(&outcome.failures, out);
}

/// Failures by fingerprint, the most frequent kind first.
fn print_kinds(failures: &[Failed], out: &mut Out) {
    let mut kinds: BTreeMap<&str, Vec<&Failed>> = BTreeMap::new();
    for failed in failures.iter().filter(|failed| failed.verdict.is_failure()) {
        kinds.entry(&failed.fingerprint).or_default().push(failed);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, runs)| (std::cmp::Reverse(runs.len()), runs[0].seed));
    let total: usize = kinds.iter().map(|(_, runs)| runs.len()).sum();
    if total > 0 {
        say!(out, "{}, {}:", counted(total as u64, "failure"), counted(kinds.len() as u64, "kind"));
    }
    for (fingerprint, runs) in kinds {
        let Failed { verdict, property, seed, .. } = runs[0];
        say!(out, "{:>6}  {verdict}: {property} ({fingerprint}), first in seed {seed}", runs.len());
    }
}

/// In campaigns of up to so many seeds, the JSON has the digest of each, to be compared with `replay`.
const DIGESTS_KEPT: u64 = 10_000;

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
                    bar.set_message(counted(summary.failed(), "failure"));
                }
            }
            Self::Plain { total, last } => {
                if last.elapsed() >= PLAIN_EVERY {
                    *last = Instant::now();
                    let failures = counted(summary.failed(), "failure");
                    complain(&format!("{} of {}, {failures}", summary.runs, counted(*total, "seed")));
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
