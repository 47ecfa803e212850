//! `replay` and `shrink`: what is done with one run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use sim_io::story::Reach;

use super::shape::Shape;
use super::shared::{ResultFile, Workers};

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
    #[arg(long, value_name = "FILE.json", value_parser = a_file)]
    pub out: Option<PathBuf>,
    /// On how many threads.
    #[command(flatten)]
    pub workers: Workers,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
}

/// A timeline is for `replay`, which takes a file.
fn a_file(text: &str) -> Result<PathBuf, String> {
    if text == "-" { Err("a file is wanted, not standard output".to_owned()) } else { Ok(text.into()) }
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
    /// Write the whole run in the trace event format, for ui.perfetto.dev or chrome://tracing; `-` as with `--json`.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Print the timeline that the seed stands for, and do not run it.
    #[arg(long, conflicts_with_all = ["trace", "json", "perfetto"])]
    pub plan: bool,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
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
