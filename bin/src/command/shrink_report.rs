//! `shrink-report`: how small failures of the planted defects become, and how long that takes.
//!
//!   defect ──► its first failing seeds ──► shrink each, run what is left alone ──► medians and 90th percentiles, JSON
//!
//! Not here: shrinking (`sim_runtime::shrink`), what is simpler than what (`raft/simpler.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use comfy_table::Table;
use serde_json::{Value, json};

use raft_async::mutant::{Mutant, Planted};
use sim_runtime::campaign;
use sim_runtime::rng::Set;
use sim_runtime::scenario::Scenario;
use sim_runtime::shrink::{self, Settings};
use sim_runtime::words::counted;

use super::cpu::{Whose, cpu_us};
use super::shrink::settings;
use super::statistics::Spread;
use super::tabular::{left, print, right, table};
use crate::cli::{ShrinkReportArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::raft::{Raft, RaftTimeline, Saved, operations_begun};
use crate::{say, signals};

/// Shrinks failures of every defect that is asked for, and reports.
///
/// # Errors
/// When a file cannot be written, the system refuses signal handlers, or no defect is compiled in.
pub fn run(args: &ShrinkReportArgs, out: &mut Out) -> Result<Status, Unusable> {
    if !cfg!(feature = "mutants") {
        return Err(Unusable::NoMutants);
    }
    let file = create(args.result.json.as_deref())?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|error| Unusable::Write(folder.clone(), error))?;
    }
    let settings = settings(args.workers.jobs);
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let mut rows = Vec::new();
    for mutant in args.hunted.mutants() {
        let raft = Raft { planted: Planted::one(mutant), ..Raft::of(args.kind.profile) };
        let mut small = Vec::new();
        for seed in failing_seeds(&raft, args.seeds, args.hunted.budget, &settings) {
            let Some(one) = shrink_one(&raft, seed, &settings, args.out.as_deref(), mutant)? else { break };
            complain(&format!("{mutant}, seed {seed}: {}", one.in_words()));
            small.push(one);
        }
        rows.push(Row { mutant, small });
        if settings.stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    report(args, &rows, settings.jobs, out);
    write_json(
        file,
        &json!({ "seeds": args.seeds, "defects": rows.iter().map(Row::to_json).collect::<Vec<_>>() }),
    )?;
    let is_whole = rows.len() == args.hunted.mutants().len()
        && rows.iter().all(|row| row.small.len() as u64 == args.seeds);
    let all_alike = rows.iter().all(|row| row.small.iter().all(|one| one.fails_alike));
    Ok(if is_whole && all_alike { Status::Clean } else { Status::NotAPass })
}

/// The first `count` seeds that fail, of at most `budget`.
pub(super) fn failing_seeds(raft: &Raft, count: u64, budget: u64, settings: &Settings) -> Vec<u64> {
    const AT_A_TIME: u64 = 100;
    let scenario = Arc::new(raft.clone());
    let mut failing = Vec::new();
    let searching = campaign::Settings {
        jobs: settings.jobs.into(),
        stop: settings.stop.clone(),
        ..campaign::Settings::default()
    };
    for from in (1..=budget).step_by(AT_A_TIME as usize) {
        if failing.len() as u64 >= count {
            break;
        }
        let to = (from + AT_A_TIME).min(budget + 1);
        let summary = campaign::run(&scenario, from..to, &searching, |_, _| {});
        failing.extend(
            summary.failures.iter().filter(|run| run.first.category.is_failure()).map(|run| run.seed),
        );
    }
    failing.truncate(count as usize);
    failing
}

/// What a failure became.
#[derive(Clone, Debug)]
struct Small {
    seed: u64,
    property: String,
    /// What is left, run again from its text, violates the same property.
    fails_alike: bool,
    nodes: u64,
    clients: u64,
    /// Operations that clients began, final reads included.
    operations: u64,
    faults: u64,
    /// Overrides that do not calm.
    overrides: u64,
    duration_ms: u64,
    runs: u64,
    wall_ms: u64,
    /// Of all threads.
    cpu_ms: u64,
}

impl Small {
    /// For whoever waits for the table.
    fn in_words(&self) -> String {
        let Self { property, duration_ms, wall_ms, .. } = self;
        let [servers, clients] = [counted(self.nodes, "server"), counted(self.clients, "client")];
        let [operations, faults] = [counted(self.operations, "operation"), counted(self.faults, "fault")];
        let overrides = match self.overrides {
            0 => String::new(),
            n => format!(", {}", counted(n, "override")),
        };
        let alone =
            if self.fails_alike { "" } else { ", and does not fail alike when it is run from its file" };
        format!(
            "{property}: {servers}, {clients}, {operations}, {faults}{overrides}, {duration_ms} ms; {} in {:.1} s{alone}",
            counted(self.runs, "run"),
            *wall_ms as f64 / 1e3
        )
    }
}

/// `None` when it was interrupted.
#[expect(clippy::disallowed_methods, reason = "how long it takes is about real time")]
fn shrink_one(
    raft: &Raft,
    seed: u64,
    settings: &Settings,
    folder: Option<&Path>,
    mutant: Mutant,
) -> Result<Option<Small>, Unusable> {
    let (started, before_us) = (Instant::now(), cpu_us(Whose::Process));
    let shrunk = shrink::shrink(raft, raft.timeline(seed), settings, |_| {});
    let wall_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let cpu_ms = cpu_us(Whose::Process).saturating_sub(before_us) / 1_000;
    let Some(shrunk) = shrunk.filter(|shrunk| !shrunk.interrupted) else { return Ok(None) };
    let saved = Saved::with_outcome(shrunk.timeline);
    let text = saved.to_text();
    if let Some(folder) = folder {
        let path: PathBuf = folder.join(format!("{mutant}-{seed}.json"));
        let file = create(Some(&path))?;
        crate::cli::write_saved(file, &saved)?;
    }
    let timeline = Saved::parse(&text).expect("what was written can be read").timeline();
    let report = Raft::default().run(&timeline, sim_runtime::scenario::Watch::default()).0;
    let now = report.findings.first();
    Ok(Some(Small {
        seed,
        fails_alike: now.is_some_and(|now| now.fingerprint() == shrunk.failure.fingerprint()),
        property: shrunk.failure.property,
        nodes: timeline.config.servers.into(),
        clients: timeline.config.clients.into(),
        operations: operations_begun(&timeline),
        faults: timeline.plan.faults.len() as u64,
        overrides: loud_overrides(&timeline),
        duration_ms: timeline.config.faults_ms,
        runs: shrunk.tried,
        wall_ms,
        cpu_ms,
    }))
}

/// Overrides that do something, and do not only calm.
fn loud_overrides(timeline: &RaftTimeline) -> u64 {
    timeline.overrides.iter().filter(|edit| edit.set != Set::Calm).count() as u64
}

struct Row {
    mutant: Mutant,
    small: Vec<Small>,
}

impl Row {
    fn spread(&self, of: impl Fn(&Small) -> u64) -> Spread {
        Spread::of(self.small.iter().map(|one| Some(of(one))))
    }

    fn to_json(&self) -> Value {
        let one = |one: &Small| {
            json!({
                "seed": one.seed, "property": one.property, "fails_alike": one.fails_alike, "nodes": one.nodes,
                "clients": one.clients, "operations": one.operations, "faults": one.faults,
                "overrides": one.overrides, "duration_ms": one.duration_ms, "runs": one.runs, "wall_ms": one.wall_ms,
                "cpu_ms": one.cpu_ms,
            })
        };
        json!({ "name": self.mutant.name(), "shrunk": self.small.iter().map(one).collect::<Vec<_>>() })
    }
}

fn report(args: &ShrinkReportArgs, rows: &[Row], jobs: u16, out: &mut Out) {
    say!(
        out,
        "{} profile: the first {} of each defect, shrunk on {}; median (90th percentile)",
        args.kind.profile,
        counted(args.seeds, "failing seed"),
        counted(jobs.into(), "thread")
    );
    say!(out, "operations: what clients began, final reads included; overrides: those that do not calm");
    say!(out);
    let titles = [
        "defect",
        "shrunk",
        "fail alike",
        "faults + overrides",
        "operations",
        "servers",
        "clients",
        "ms",
        "runs",
        "seconds",
        "CPU seconds",
    ];
    let mut table: Table = table(&titles);
    for row in rows {
        let pair = |of: fn(&Small) -> u64| {
            let spread = row.spread(of);
            let known = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
            right(format!("{} ({})", known(spread.median()), known(spread.p90())))
        };
        let seconds = |of: fn(&Small) -> u64| {
            let spread = row.spread(of);
            let known =
                |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.1}", ms as f64 / 1e3));
            right(format!("{} ({})", known(spread.median()), known(spread.p90())))
        };
        let alike = row.small.iter().filter(|one| one.fails_alike).count();
        table.add_row([
            left(row.mutant.name()),
            right(row.small.len().to_string()),
            right(alike.to_string()),
            pair(|one| one.faults + one.overrides),
            pair(|one| one.operations),
            pair(|one| one.nodes),
            pair(|one| one.clients),
            pair(|one| one.duration_ms),
            pair(|one| one.runs),
            seconds(|one| one.wall_ms),
            seconds(|one| one.cpu_ms),
        ]);
    }
    print(&table, out);
}
