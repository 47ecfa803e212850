//! Arguments and exit statuses.
//!
//! | status | meaning |
//! |---|---|
//! | 0 | nothing was found |
//! | 1 | a failure was found, printed with its reproduction |
//! | 2 | arguments or input are unusable: one line says what and where |
//! | 3 | nothing failed, but something is not a pass |

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::command;
use crate::command::outcome::Shard;
use crate::out::{Out, complain};
use crate::raft::features::Feature;
use crate::raft::{Profile, Raft, Saved, Unreadable};
use crate::seeds::Seeds;
use linearizability::read::{FailedCas, Format, Model};
use raft_async::Carrier;
use raft_async::mutant::{Mutant, Part, Planted};
use sim_io::story::Reach;

/// How a command ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Nothing was found.
    Clean = 0,
    /// A failure was found.
    Failed = 1,
    /// Arguments or input are unusable.
    Unusable = 2,
    /// Nothing failed, but something is not a pass.
    NotAPass = 3,
}

/// Why a command could not be carried out, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A file could not be written.
    #[error("cannot write {0}: {1}")]
    Write(PathBuf, io::Error),
    /// A file could not be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, io::Error),
    /// A file holds no timeline that can be run.
    #[error("cannot run {0}: {1}")]
    Timeline(PathBuf, Unreadable),
    /// A file holds no outcome of a campaign.
    #[error("{0} is not the JSON of a campaign: {1}")]
    Outcome(PathBuf, serde_json::Error),
    /// A file does not belong to the others.
    #[error("{0} cannot be merged: {1}")]
    Parts(PathBuf, String),
    /// A line of a file belongs to no history.
    #[error("{0}:{1}: {2}")]
    History(PathBuf, usize, String),
    /// A part of the whole was not given.
    #[error("shard {0} is missing")]
    Missing(Shard),
    /// A timeline says all by itself.
    #[error("a file says all about its run: `{0}` cannot be added")]
    FlagsWithFile(String),
    /// There is nothing to shrink.
    #[error("{0} passes: there is nothing to shrink")]
    Passes(SeedOrFile),
    /// There is nothing to look for.
    #[error("no planted defects: this binary was built without the feature `mutants`")]
    NoMutants,
    /// The system refused something.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// Deterministic simulation of a Raft cluster: many seeds, or one.
#[derive(Parser, Debug)]
#[command(name = "bin", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run many seeds and say what was found, and what was never exercised.
    Campaign(CampaignArgs),
    /// Run one seed or timeline again: verdict, digests and, on request, its story.
    Replay(ReplayArgs),
    /// Make a failing seed or timeline smaller for as long as the same check fails.
    Shrink(ShrinkArgs),
    /// Say for each planted defect how small its failures become by shrinking, and how long that takes.
    ShrinkReport(ShrinkReportArgs),
    /// Say how many shrunk failures survive edits that have nothing to do with them.
    Stability(StabilityArgs),
    /// Run each seed many times, each time with one thing changed that a deterministic program cannot see, and compare.
    CheckDeterminism(CheckDeterminismArgs),
    /// Say for each planted defect how many seeds and how much CPU time it takes to catch it.
    Mutants(MutantsArgs),
    /// Put the JSON files of all shards of a campaign together.
    Merge(MergeArgs),
    /// Say whether recorded histories are linearizable, and if not, why.
    CheckHistory(CheckHistoryArgs),
}

/// What shapes a run, beside its seed.
#[derive(Args, Clone, Debug)]
pub struct Shape {
    /// Which kind of runs: swarm (everything drawn anew for each seed: finds most) or reference (always the same
    /// cluster: numbers compare).
    #[arg(long, default_value_t)]
    pub profile: Profile,
    /// Plant this defect in every server.
    #[arg(long, value_parser = mutant)]
    pub mutant: Option<Mutant>,
    /// Servers, instead of what the profile says (1 to 101).
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=101))]
    pub nodes: Option<u16>,
    /// Clients, instead of what the profile says (1 to 50).
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub clients: Option<u16>,
    /// Milliseconds of virtual time with faults, instead of what the profile says (1 to 3,600,000).
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub duration_ms: Option<u64>,
    /// How servers and clients are connected (udp or tcp), instead of what the profile says.
    #[arg(long)]
    pub transport: Option<Carrier>,
    /// Disks report a sync as done and keep nothing: no code can be right on them.
    #[arg(long)]
    pub lying_fsync: bool,
    /// A minority of the disks fails syncs, reads and writes, fills up, or rots: its servers halt, the others go on.
    #[arg(long)]
    pub disk_errors: bool,
    /// Features that the swarm does without, to see what they are worth: pursuit, aims, proportion, short-timeouts ..
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<Feature>,
    /// The servers' clocks run up to so many percent fast or slow (0 to 50).
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=50))]
    pub clock_drift: u8,
}

impl Shape {
    /// The scenario that is meant.
    pub fn scenario(&self) -> Raft {
        Raft {
            profile: self.profile,
            planted: self.mutant.map_or(Planted::NONE, Planted::one),
            servers: self.nodes,
            clients: self.clients,
            duration_ms: self.duration_ms,
            carrier: self.transport,
            lying_fsync: self.lying_fsync,
            disk_errors: self.disk_errors,
            without: self.without.iter().collect(),
            clock_drift_percent: self.clock_drift,
            ..Raft::default()
        }
    }

    /// The flags that reproduce it.
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |text: String| {
            flags.push(' ');
            flags.push_str(&text);
        };
        if self.profile != Profile::default() {
            add(format!("--profile {}", self.profile));
        }
        if let Some(mutant) = self.mutant {
            add(format!("--mutant {}", mutant.name()));
        }
        if let Some(nodes) = self.nodes {
            add(format!("--nodes {nodes}"));
        }
        if let Some(clients) = self.clients {
            add(format!("--clients {clients}"));
        }
        if let Some(duration_ms) = self.duration_ms {
            add(format!("--duration-ms {duration_ms}"));
        }
        if let Some(transport) = self.transport {
            add(format!("--transport {transport}"));
        }
        if self.lying_fsync {
            add("--lying-fsync".to_owned());
        }
        if self.disk_errors {
            add("--disk-errors".to_owned());
        }
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(|feature| feature.name()).collect();
            add(format!("--without {}", names.join(",")));
        }
        if self.clock_drift > 0 {
            add(format!("--clock-drift {}", self.clock_drift));
        }
        flags
    }

    /// The line that reproduces `seed`.
    pub fn reproduce(&self, seed: u64) -> String {
        format!("cargo run --release -p bin -- replay {seed}{}", self.flags())
    }
}

fn mutant(text: &str) -> Result<Mutant, String> {
    if !cfg!(feature = "mutants") {
        return Err("this binary was built without the feature `mutants`".to_owned());
    }
    let mutant: Mutant = text.parse().map_err(|_| {
        let names: Vec<_> = Mutant::planted().map(Mutant::name).collect();
        format!("no such defect; there are {}", names.join(", "))
    })?;
    if Mutant::planted().any(|planted| planted == mutant) {
        Ok(mutant)
    } else {
        Err("this defect is listed but not planted yet".to_owned())
    }
}

/// `campaign`
#[derive(Args, Clone, Debug)]
pub struct CampaignArgs {
    /// How many seeds from 1 on, or a half-open range A..B.
    #[arg(long, default_value = "2000")]
    pub seeds: Seeds,
    /// What shapes the runs.
    #[command(flatten)]
    pub shape: Shape,
    /// Worker threads [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Take the seeds from the last to the first; the result is the same.
    #[arg(long)]
    pub reverse: bool,
    /// Write the result as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Print nothing but failures.
    #[arg(long)]
    pub quiet: bool,
    /// Run only every Nth seed, from the Ith on, as in 2/3; `merge` puts the JSON of all together.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Start no seed after so long, as in 10m; how many were run is reported.
    #[arg(long, value_parser = duration)]
    pub time: Option<Duration>,
    /// Start no seed after the first failure. With several threads, which failure is the first may vary.
    #[arg(long)]
    pub fail_fast: bool,
    /// Run the timelines (*.json) of this folder first, and add one of each kind of failure that is found.
    #[arg(long, value_name = "FOLDER")]
    pub corpus: Option<PathBuf>,
    /// Shrink the first failure of each kind, into the folder of the corpus or else into `shrunk`.
    #[arg(long)]
    pub shrink: bool,
    /// How many idle runs in a million are accepted before the exit status is 3.
    #[arg(long, default_value_t = 10_000)]
    pub idle_allowed: u32,
    /// Seconds of real time without a step after which a run is given up as hung.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub hung_after_s: u64,
}

/// `mutants`
#[derive(Args, Clone, Debug)]
pub struct MutantsArgs {
    /// Seeds in which a defect has to be caught; as many for each control.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub budget: u64,
    /// How many ranges of so many seeds, which have none in common, each defect is looked for in.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeat: u64,
    /// Only these: names of defects and controls, or parts of the catalogue (a, b, c, controls).
    #[arg(long, value_delimiter = ',', value_parser = mutants)]
    pub only: Vec<Mutants>,
    /// Which kind of runs.
    #[arg(long, default_value_t)]
    pub profile: Profile,
    /// Features that the swarm does without, to see what they are worth: pursuit, aims, proportion, short-timeouts ..
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<Feature>,
    /// Search on until an oracle objects of which the catalogue expects it.
    #[arg(long)]
    pub expected: bool,
    /// Search once with all features and once without each, and say which defects get dearer.
    #[arg(long, conflicts_with = "without")]
    pub ablation: bool,
    /// Worker threads [default: all cores]; what is found does not depend on them.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Write the result as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Defects that go by one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutants(Vec<Mutant>);

impl MutantsArgs {
    /// Which are meant, in the order of the catalogue, each once.
    pub fn mutants(&self) -> Vec<Mutant> {
        all_of(&self.only)
    }
}

fn all_of(only: &[Mutants]) -> Vec<Mutant> {
    let is_meant =
        |mutant: &Mutant| only.is_empty() || only.iter().any(|Mutants(named)| named.contains(mutant));
    Mutant::planted().filter(is_meant).collect()
}

/// `shrink-report`
#[derive(Args, Clone, Debug)]
pub struct ShrinkReportArgs {
    /// How many failing seeds of each defect are shrunk.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub seeds: u64,
    /// In how many seeds, from 1 on, those are looked for.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub budget: u64,
    /// Only these: names of defects, or parts of the catalogue (a, b, c).
    #[arg(long, value_delimiter = ',', default_value = "a", value_parser = mutants)]
    pub only: Vec<Mutants>,
    /// Which kind of runs.
    #[arg(long, default_value_t)]
    pub profile: Profile,
    /// Where the small timelines go [default: nowhere].
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Worker threads [default: all cores]; only times depend on them.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Write the result as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// `stability`
#[derive(Args, Clone, Debug)]
pub struct StabilityArgs {
    /// How many failing seeds of each defect are shrunk and edited.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub files: u64,
    /// In how many seeds, from 1 on, those are looked for.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub budget: u64,
    /// Only these: names of defects, or parts of the catalogue (a, b, c).
    #[arg(long, value_delimiter = ',', default_value = "a", value_parser = mutants)]
    pub only: Vec<Mutants>,
    /// What `shrink-report --out` wrote: what is there is not shrunk again.
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    /// Worker threads [default: all cores]; what is found does not depend on them.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Write the result as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

impl StabilityArgs {
    /// Which are meant, in the order of the catalogue, each once.
    pub fn mutants(&self) -> Vec<Mutant> {
        all_of(&self.only)
    }
}

impl ShrinkReportArgs {
    /// Which are meant, in the order of the catalogue, each once.
    pub fn mutants(&self) -> Vec<Mutant> {
        all_of(&self.only)
    }
}

fn mutants(text: &str) -> Result<Mutants, String> {
    let of = |part: Part| Mutants(Mutant::planted().filter(|mutant| mutant.row().part == part).collect());
    Ok(match text {
        "a" | "A" => of(Part::A),
        "b" | "B" => of(Part::B),
        "c" | "C" => of(Part::C),
        "controls" => of(Part::Control),
        name => Mutants(vec![mutant(name)?]),
    })
}

/// What is to be run again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SeedOrFile {
    /// The timeline that a seed stands for.
    Seed(u64),
    /// The timeline in a file.
    File(PathBuf),
}

impl fmt::Display for SeedOrFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "seed {seed}"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for SeedOrFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(seed) = text.parse()
            && seed < 1 << 63
        {
            Ok(Self::Seed(seed))
        } else if Path::new(text).extension().is_some_and(|extension| extension == "json") {
            Ok(Self::File(text.into()))
        } else {
            Err("neither a whole number below 2^63 nor a file named *.json".to_owned())
        }
    }
}

/// `10m`, `90s`, `2h`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("a number with its unit (ms, s, m, h) is wanted, as in 10m".to_owned()),
    };
    let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_ms));
    ms.filter(|ms| *ms > 0)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is no time to run for"))
}

/// `merge`
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// What `campaign --shard I/N --json FILE` wrote, for every I.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Write the result here and not to standard output.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// How many idle runs in a million are accepted before the exit status is 3.
    #[arg(long, default_value_t = 10_000)]
    pub idle_allowed: u32,
}

/// `shrink`
#[derive(Args, Clone, Debug)]
pub struct ShrinkArgs {
    /// The seed, or a file with a timeline.
    #[arg(value_name = "SEED|FILE.json")]
    pub what: SeedOrFile,
    /// What shapes the run.
    #[command(flatten)]
    pub shape: Shape,
    /// Where the small timeline goes [default: shrunk-SEED.json].
    #[arg(long, value_name = "FILE.json")]
    pub out: Option<PathBuf>,
    /// Worker threads [default: all cores]. The result does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Write what it came to as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// `replay`
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The seed, or a file with a timeline.
    #[arg(value_name = "SEED|FILE.json")]
    pub what: SeedOrFile,
    /// What shapes the run.
    #[command(flatten)]
    pub shape: Shape,
    /// Tell what happened: what led to the violation, a column a node, and what proves it.
    #[arg(long)]
    pub trace: bool,
    /// Tell everything, a line a record.
    #[arg(long, requires = "trace")]
    pub all: bool,
    /// Tell nothing that came after this record.
    #[arg(long, value_name = "RECORD", requires = "trace")]
    pub until: Option<u64>,
    /// About how many lines are told, where not everything is.
    #[arg(long, value_name = "LINES", requires = "trace", default_value_t = Reach::default().lines)]
    pub lines: usize,
    /// How it is told: text, or json (one object a line, and nothing else on standard output).
    #[arg(long, value_enum, requires = "trace", default_value_t)]
    pub format: StoryFormat,
    /// Write the whole run in the trace event format, for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Print the timeline that the seed stands for, and do not run it.
    #[arg(long, conflicts_with_all = ["trace", "json", "perfetto"])]
    pub plan: bool,
    /// Write the result as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// `check-determinism`
#[derive(Args, Clone, Debug)]
pub struct CheckDeterminismArgs {
    /// How many seeds from 1 on, or a half-open range A..B.
    #[arg(long, default_value = "20")]
    pub seeds: Seeds,
    /// What shapes the runs.
    #[command(flatten)]
    pub shape: Shape,
    /// Worker threads [default: all cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Write what differs as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Print nothing but what differs.
    #[arg(long)]
    pub quiet: bool,
}

/// How a story is told.
#[derive(clap::ValueEnum, Copy, Clone, PartialEq, Eq, Default, Debug)]
pub enum StoryFormat {
    /// Columns and sentences.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// `check-history`
#[derive(Args, Clone, Debug)]
pub struct CheckHistoryArgs {
    /// Recorded histories.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// What was called [default: as the functions in the file suggest].
    #[arg(long, value_parser = model)]
    pub model: Option<Model>,
    /// How it is written down: jsonl, edn or log [default: as the file begins].
    #[arg(long, value_parser = format)]
    pub format: Option<Format>,
    /// What a failed compare-and-swap says: did-not-happen (Jepsen) or found-another (Porcupine's etcd model)
    /// [default: did-not-happen; of logs, found-another].
    #[arg(long, value_parser = failed_cas)]
    pub failed_cas: Option<FailedCas>,
    /// What a register holds at first: a number or nothing [default: nothing, or in EDN, where no read found nothing
    /// and it matters, Knossos's 0].
    #[arg(long, allow_hyphen_values = true, value_parser = initial)]
    pub initial: Option<Initial>,
    /// How many nodes the searches may visit together before a key is undecided.
    #[arg(long, value_name = "NODES", default_value_t = 20_000_000)]
    pub budget: u64,
    /// Draw the history on a page of its own; of several files, the first that is not linearizable.
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Write the result as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

fn model(text: &str) -> Result<Model, String> {
    let found = Model::ALL.iter().find(|(name, _)| *name == text);
    let names = || Model::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, model)| *model).ok_or_else(|| format!("no such model; there are {}", names()))
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "jsonl" => Ok(Format::JsonLines),
        "edn" => Ok(Format::Edn),
        "log" => Ok(Format::JepsenLog),
        _ => Err("no such format; there are jsonl, edn, log".to_owned()),
    }
}

/// What a register holds at first.
#[derive(Clone, Copy, Debug)]
pub struct Initial(pub Option<i64>);

fn initial(text: &str) -> Result<Initial, String> {
    match text {
        "nothing" => Ok(Initial(None)),
        _ => text
            .parse()
            .map(|number| Initial(Some(number)))
            .map_err(|_| "a number or nothing is wanted".to_owned()),
    }
}

fn failed_cas(text: &str) -> Result<FailedCas, String> {
    match text {
        "did-not-happen" => Ok(FailedCas::DidNotHappen),
        "found-another" => Ok(FailedCas::FoundAnother),
        _ => Err("did-not-happen or found-another is wanted".to_owned()),
    }
}

/// Runs the command line. Prints; returns the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let _ = write!(io::stdout(), "{error}");
            return ExitCode::from(Status::Clean as u8);
        }
        Err(error) => {
            complain(&one_line(&error.to_string()));
            return ExitCode::from(Status::Unusable as u8);
        }
    };
    let mut out = Out::default();
    let ended = match &cli.command {
        Command::Campaign(args) => command::campaign::run(args, &mut out),
        Command::Replay(args) => command::replay::run(args, &mut out),
        Command::CheckDeterminism(args) => command::check_determinism::run(args, &mut out),
        Command::Mutants(args) => command::mutants::run(args, &mut out),
        Command::Merge(args) => command::merge::run(args, &mut out),
        Command::Shrink(args) => command::shrink::run(args, &mut out),
        Command::Stability(args) => command::stability::run(args, &mut out),
        Command::ShrinkReport(args) => command::shrink_report::run(args, &mut out),
        Command::CheckHistory(args) => command::check_history::run(args, &mut out),
    };
    let status = ended.unwrap_or_else(|unusable| {
        complain(&format!("error: {unusable}"));
        Status::Unusable
    });
    ExitCode::from(status as u8)
}

/// The first paragraph of clap's message, in one line.
fn one_line(message: &str) -> String {
    let first = message.lines().take_while(|line| !line.trim().is_empty());
    let line = first.map(str::trim).collect::<Vec<_>>().join(" ");
    if line.starts_with("error:") {
        line
    } else {
        format!(
            "error: a command is needed: campaign, replay, shrink, check-determinism, mutants, merge or \
             check-history ({line})"
        )
    }
}

/// Opens a file for a result before the work begins, so that a wrong path costs nothing. What it held stays until there is
/// a result: it may be what is to be read.
///
/// # Errors
/// [`Unusable::Write`].
pub fn create(path: Option<&Path>) -> Result<Option<(PathBuf, File)>, Unusable> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let open = |path: &Path| match options.open(path) {
        Ok(file) => Ok((path.to_owned(), file)),
        Err(error) => Err(Unusable::Write(path.to_owned(), error)),
    };
    path.map(open).transpose()
}

/// Writes a timeline.
///
/// # Errors
/// [`Unusable::Write`]; a closed pipe is none.
pub fn write_saved(file: Option<(PathBuf, File)>, saved: &Saved) -> Result<(), Unusable> {
    write_text(file, &saved.to_text())
}

/// Writes a result as JSON.
///
/// # Errors
/// [`Unusable::Write`]; a closed pipe is none.
pub fn write_json(file: Option<(PathBuf, File)>, value: &serde_json::Value) -> Result<(), Unusable> {
    write_text(file, &format!("{value:#}\n"))
}

fn write_text(file: Option<(PathBuf, File)>, text: &str) -> Result<(), Unusable> {
    let Some((path, mut file)) = file else { return Ok(()) };
    // What is no regular file cannot be cut, and need not be.
    let _ = file.set_len(0);
    match file.write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Unusable::Write(path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
impl CheckDeterminismArgs {
    /// What `check-determinism` with these arguments means.
    pub(crate) fn of_line(line: &str) -> Self {
        let args = ["bin", "check-determinism"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(args) {
            Ok(Cli { command: Command::CheckDeterminism(args) }) => args,
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[cfg(test)]
impl CampaignArgs {
    /// What `campaign` with these arguments means.
    pub(crate) fn of_line(line: &str) -> Self {
        let args = ["bin", "campaign"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(args) {
            Ok(Cli { command: Command::Campaign(args) }) => args,
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_refused_is_refused_in_one_line() {
        for line in [
            "bin",
            "bin nothing",
            "bin campaign --seeds 0",
            "bin campaign --seeds 5..3",
            "bin campaign --seeds many",
            "bin campaign --seeds 99999999999999999999",
            "bin campaign --jobs 0",
            "bin campaign --mutant nobody",
            "bin campaign --unknown",
            "bin campaign --nodes 0",
            "bin campaign --shard 0/3",
            "bin campaign --shard 4/3",
            "bin campaign --time 10",
            "bin campaign --time 0s",
            "bin campaign --clock-drift 80",
            "bin merge",
            "bin mutants --budget 0",
            "bin mutants --repeat 0",
            "bin mutants --only nobody",
            "bin replay",
            "bin replay x",
            "bin replay 18446744073709551615",
        ] {
            let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
            let message = one_line(&error.to_string());
            assert!(message.starts_with("error: ") && !message.contains('\n'), "{line}: {message}");
            assert!(message.len() > 15, "{line}: {message}");
        }
    }

    #[test]
    fn the_flags_reproduce_the_shape() {
        let line = "bin replay 7 --profile reference --mutant canary --nodes 3 --disk-errors --clock-drift 5";
        let Ok(Cli { command: Command::Replay(args) }) = Cli::try_parse_from(line.split(' ')) else {
            panic!("{line} is a replay");
        };
        let again = args.shape.reproduce(7);
        assert_eq!(again, line.replace("bin", "cargo run --release -p bin --"));
    }
}
