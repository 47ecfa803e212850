//! Arguments and exit statuses.
//!
//! | status | meaning |
//! |---|---|
//! | 0 | nothing was found |
//! | 1 | a failure was found, printed with its reproduction |
//! | 2 | arguments or input are unusable: one line says what and where |
//! | 3 | nothing failed, but something is not a pass |
//!
//! | module | what is in it |
//! |---|---|
//! | `shared` | flags that several commands have |
//! | `shape` | what shapes a run |
//! | `campaign` | `campaign`, `merge`, `check-determinism` |
//! | `mutants` | `mutants`, `shrink-report`, `stability` |
//! | `replay` | `replay`, `shrink` |
//! | `explore` | `explore`, `explore-report` |
//! | `history` | `check-history` |
//! | `bench` | `bench` |
//! | `files` | where results go |

mod shared;
mod shape;
mod campaign;
mod mutants;
mod replay;
mod explore;
mod history;
mod bench;
mod files;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::command;
use crate::command::outcome::Shard;
use crate::out::{Out, complain, escaped};
use crate::raft::{Profile, Unreadable};

pub use bench::BenchArgs;
pub use campaign::{CampaignArgs, CheckDeterminismArgs, MergeArgs};
pub use explore::{ExploreArgs, ExploreReportArgs};
pub use files::{create, write_json, write_saved, write_text};
pub use history::{CheckHistoryArgs, Initial};
pub use mutants::{Hunted, Mutants, MutantsArgs, ShrinkReportArgs, StabilityArgs};
pub use replay::{ReplayArgs, SeedOrFile, ShrinkArgs, StoryFormat};
pub use shape::Shape;
pub use shared::{Features, Kind, ResultFile, Workers};

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
    /// Standard output takes one result.
    #[error("only one result can go to standard output")]
    TwoResults,
    /// Standard output was refused.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// There is nothing to look for.
    #[error("no planted defects: this binary was built without the feature `mutants`")]
    NoMutants,
    /// What is the same for every seed has no features to leave out.
    #[error("--without and --ablation are of the swarm: the reference profile draws nothing")]
    NothingDrawn,
    /// The system refused something.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// Runs Raft under simulated faults: finds failures, replays and shrinks them; judges any histories.
///
/// One command also checks determinism, others measure all this with planted defects.
#[derive(Parser, Debug)]
#[command(name = "bin", version, disable_help_subcommand = true)]
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
    ///
    /// Exit status: 0 all were caught; 1 something objected to a control; 3 no range caught some defect (with --ablation: in
    /// the search with all features), or the search was interrupted.
    Mutants(MutantsArgs),
    /// Search from states that are worth having, and say what was found: guided random testing, no proof.
    Explore(ExploreArgs),
    /// Say for each planted defect how many runs a guided search takes, and how many plain seeds.
    ExploreReport(ExploreReportArgs),
    /// Put the JSON files of all shards of a campaign together.
    Merge(MergeArgs),
    /// Say whether recorded histories are linearizable, and if not, why.
    CheckHistory(CheckHistoryArgs),
    /// Measure seeds per second on one thread and on all, and say what a seed is.
    Bench(BenchArgs),
}

impl Command {
    /// Where its results go as data.
    fn results(&self) -> [Option<&Path>; 2] {
        let (first, second) = match self {
            Self::Campaign(args) => (&args.result.json, &None),
            Self::Replay(args) => (&args.result.json, &args.perfetto),
            Self::CheckDeterminism(args) => (&args.result.json, &None),
            Self::Mutants(args) => (&args.result.json, &None),
            Self::Merge(args) => (&args.json, &None),
            Self::Shrink(args) => (&args.result.json, &None),
            Self::Stability(args) => (&args.result.json, &None),
            Self::ShrinkReport(args) => (&args.result.json, &None),
            Self::Explore(args) => (&args.result.json, &None),
            Self::ExploreReport(args) => (&args.result.json, &None),
            Self::CheckHistory(args) => (&args.result.json, &args.html),
            Self::Bench(args) => (&args.result.json, &None),
        };
        [first.as_deref(), second.as_deref()]
    }

    /// Whether features are to be left out of a profile that has none.
    fn leaves_out_nothing(&self) -> bool {
        let of = |shape: &Shape| (shape.kind.profile, !shape.features.without.is_empty());
        let (profile, leaves_out) = match self {
            Self::Campaign(args) => of(&args.shape),
            Self::Replay(args) => of(&args.shape),
            Self::Shrink(args) => of(&args.shape),
            Self::CheckDeterminism(args) => of(&args.shape),
            Self::Explore(args) => of(&args.shape),
            Self::Bench(args) => of(&args.shape),
            Self::Mutants(args) => (args.kind.profile, args.ablation || !args.features.without.is_empty()),
            Self::ExploreReport(args) => (args.kind.profile, !args.features.without.is_empty()),
            Self::ShrinkReport(_) | Self::Stability(_) | Self::Merge(_) | Self::CheckHistory(_) => {
                return false;
            }
        };
        leaves_out && profile == Profile::Reference
    }

    fn run(&self, out: &mut Out) -> Result<Status, Unusable> {
        if self.leaves_out_nothing() {
            return Err(Unusable::NothingDrawn);
        }
        match self {
            Self::Campaign(args) => command::campaign::run(args, out),
            Self::Replay(args) => command::replay::run(args, out),
            Self::CheckDeterminism(args) => command::check_determinism::run(args, out),
            Self::Mutants(args) => command::mutants::run(args, out),
            Self::Merge(args) => command::merge::run(args, out),
            Self::Shrink(args) => command::shrink::run(args, out),
            Self::Stability(args) => command::stability::run(args, out),
            Self::ShrinkReport(args) => command::shrink_report::run(args, out),
            Self::Explore(args) => command::explore::run(args, out),
            Self::ExploreReport(args) => command::explore::run_report(args, out),
            Self::CheckHistory(args) => command::check_history::run(args, out),
            Self::Bench(args) => command::bench::run(args, out),
        }
    }
}

/// Runs the command, its data and its sentences kept apart where both are wanted on standard output.
fn run(command: &Command) -> Result<Status, Unusable> {
    let on_stdout = command.results().into_iter().flatten().filter(|path| files::is_stdout(path)).count();
    let mut out = match on_stdout {
        0 => Out::default(),
        1 => Out::on_stderr(),
        _ => return Err(Unusable::TwoResults),
    };
    let status = command.run(&mut out)?;
    out.finish().map_err(Unusable::Output)?;
    Ok(status)
}

/// Prints what was asked for instead of a command: help, or the version.
fn print(text: &str) -> Result<Status, Unusable> {
    let mut stdout = io::stdout();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Unusable::Output(error)),
        _ => Ok(Status::Clean),
    }
}

/// Runs the command line. Prints; returns the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ended = match Cli::try_parse_from(args) {
        Ok(cli) => run(&cli.command),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print(&error.to_string())
        }
        Err(error) => {
            complain(&escaped(&one_line(&error.to_string())));
            return ExitCode::from(Status::Unusable as u8);
        }
    };
    let status = ended.unwrap_or_else(|unusable| {
        complain(&escaped(&format!("error: {unusable}")));
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
            "error: a command is needed: campaign, replay, shrink, check-determinism, explore, merge, check-history, \
             mutants, shrink-report, stability or explore-report ({line})"
        )
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
