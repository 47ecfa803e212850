//! A folder of timelines that failed once: run first, and kept up with what fails now.
//!
//!   FOLDER/*.json ──► run each, in order of name ──► CorpusOutcome
//!   failing seeds ──► one timeline a fingerprint ──► FOLDER/FINGERPRINT-SEED.json
//!
//! Invariant: a file that cannot be read ends the campaign before it begins.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use sim_io::nemesis::Plan;
use sim_runtime::campaign::{self, Settings, Summary};
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::verdict::{Category, Failure, RunReport};

use super::outcome::Shard;
use crate::cli::{SeedOrFile, Shape, Unusable};
use crate::raft::{Config, Raft, RaftTimeline, Saved};

/// A file whose run was not a pass.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedFile {
    /// The file.
    pub file: PathBuf,
    /// The verdict.
    pub verdict: Category,
    /// The property that objected first.
    pub property: String,
    /// What happened.
    pub evidence: String,
    /// The line that runs it again.
    pub reproduce: String,
}

/// What the files of a corpus came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusOutcome {
    /// How many were run.
    pub files: u64,
    /// Those that were not a pass, by name.
    pub failures: Vec<FailedFile>,
    /// Those that failed once and pass now, by name.
    pub mended: Vec<PathBuf>,
}

impl CorpusOutcome {
    /// Files in which something is wrong.
    pub fn failed(&self) -> usize {
        self.failures.iter().filter(|failed| failed.verdict.is_failure()).count()
    }

    /// Adds what other files came to.
    pub fn merge(&mut self, other: Self) {
        self.files += other.files;
        self.failures.extend(other.failures);
        self.failures.sort_unstable();
        self.mended.extend(other.mended);
        self.mended.sort_unstable();
    }
}

/// Timelines under the names of their files.
pub(super) struct Corpus {
    folder: PathBuf,
    timelines: Vec<(PathBuf, Saved)>,
}

impl Corpus {
    /// Reads the files of `folder` that belong to `shard`; a folder that is not there is made.
    ///
    /// # Errors
    /// As [`read_timeline`], and [`Unusable::Write`].
    pub(super) fn read(folder: &Path, shard: Shard) -> Result<Self, Unusable> {
        let unreadable = |error| Unusable::Read(folder.to_owned(), error);
        // Failures go there in the end: a place where they cannot is told before the work is done.
        std::fs::create_dir_all(folder).map_err(|error| Unusable::Write(folder.to_owned(), error))?;
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            if file.extension().is_some_and(|extension| extension == "json") {
                files.push(file);
            }
        }
        files.sort_unstable();
        let mine = files.into_iter().enumerate().filter(|(index, _)| shard.has(*index));
        let read = |(_, file): (usize, PathBuf)| Ok((file.clone(), read_timeline(&file)?));
        Ok(Self { folder: folder.to_owned(), timelines: mine.map(read).collect::<Result<_, _>>()? })
    }

    /// Runs every timeline, and says what came of it.
    pub(super) fn run(self, settings: &Settings) -> CorpusOutcome {
        let files = Arc::new(self);
        let count = files.timelines.len() as u64;
        let mut mended = Vec::new();
        let summary = campaign::run(&files, 0..count, settings, |report, _| {
            let passes = report.filter(|report| report.findings.category() == Category::Pass);
            let known = passes.map(|report| &files.timelines[report.seed as usize]);
            mended.extend(known.filter(|(_, saved)| saved.is_failure()).map(|(file, _)| file.clone()));
        });
        mended.sort_unstable();
        let failed = |run: &campaign::FailedRun| {
            let file = files.timelines[run.seed as usize].0.clone();
            FailedFile {
                reproduce: format!("cargo run --release -p bin -- replay {}", file.display()),
                file,
                verdict: run.first.category,
                property: run.first.property.clone(),
                evidence: run.first.evidence.clone(),
            }
        };
        CorpusOutcome { files: summary.runs, failures: summary.failures.iter().map(failed).collect(), mended }
    }
}

/// A corpus is a scenario whose seeds are places in it.
impl Scenario for Corpus {
    type Config = Config;
    type Plan = Plan;

    fn config(&self, place: u64) -> Config {
        self.timeline(place).config
    }

    fn plan(&self, place: u64, _config: &Config) -> Plan {
        self.timeline(place).plan
    }

    fn timeline(&self, place: u64) -> RaftTimeline {
        self.timelines[place as usize].1.timeline()
    }

    fn run(&self, timeline: &RaftTimeline, watch: Watch) -> (RunReport, Vec<String>) {
        Raft::default().run(timeline, watch)
    }

    fn run_seed(&self, place: u64) -> RunReport {
        let report = self.run(&self.timeline(place), Watch::default()).0;
        RunReport { seed: place, ..report }
    }
}

/// The timeline that is meant: that of a seed under `shape`, or a file, which says all by itself.
///
/// # Errors
/// As [`read_timeline`], and [`Unusable::FlagsWithFile`].
pub(super) fn timeline_of(what: &SeedOrFile, shape: &Shape) -> Result<Saved, Unusable> {
    match what {
        SeedOrFile::Seed(seed) => Ok(Saved::new(shape.scenario().timeline(*seed))),
        SeedOrFile::File(path) => {
            let flags = shape.flags();
            if !flags.is_empty() {
                return Err(Unusable::FlagsWithFile(flags.trim().to_owned()));
            }
            read_timeline(path)
        }
    }
}

/// Reads a timeline, and what came of it.
///
/// # Errors
/// [`Unusable::Read`], [`Unusable::Timeline`].
pub fn read_timeline(file: &Path) -> Result<Saved, Unusable> {
    let text = std::fs::read_to_string(file).map_err(|error| Unusable::Read(file.to_owned(), error))?;
    Saved::parse(&text).map_err(|why| Unusable::Timeline(file.to_owned(), why))
}

/// Keeps one timeline of each kind of failure in `folder`, that of the lowest seed.
///
/// # Errors
/// [`Unusable::Write`].
#[expect(clippy::disallowed_methods, reason = "a corpus is made of real files")]
pub(super) fn keep_failures(folder: &Path, raft: &Raft, summary: &Summary) -> Result<Vec<PathBuf>, Unusable> {
    let mut kinds = BTreeSet::new();
    let mut kept = Vec::new();
    for run in summary.failures.iter().filter(|run| run.first.category.is_failure()) {
        let kind = run.first.fingerprint();
        if kinds.insert(kind) {
            let file = folder.join(file_name(kind, run.seed));
            std::fs::write(&file, saved(raft.timeline(run.seed), &run.first).to_text())
                .map_err(|error| Unusable::Write(file.clone(), error))?;
            kept.push(file);
        }
    }
    Ok(kept)
}

/// What the timeline of a seed that failed in this way is called.
pub(super) fn file_name(fingerprint: u64, seed: u64) -> String {
    format!("{fingerprint:016x}-{seed}.json")
}

/// The timeline with what came of it, where that can be had again. A run that hangs would take this thread with it, and one
/// that panicked outside its world may do so again.
fn saved(timeline: RaftTimeline, failure: &Failure) -> Saved {
    if failure.category == Category::Hung {
        return Saved::new(timeline);
    }
    let run = || Saved::with_outcome(timeline.clone());
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Saved::new(timeline))
}

impl std::fmt::Debug for Corpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} timelines of {}", self.timelines.len(), self.folder.display())
    }
}
