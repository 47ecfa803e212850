//! `explore`, and what it is worth: `explore-report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use raft_async::mutant::Mutant;
use sim_runtime::explore::{Exploration, Policy, Settings};

use super::campaign::duration;
use super::mutants::{Mutants, all_of, defects};
use super::shape::Shape;
use super::shared::{Features, Kind, ResultFile};

/// `explore`
#[derive(Args, Clone, Debug)]
pub struct ExploreArgs {
    /// What shapes the runs.
    #[command(flatten)]
    pub shape: Shape,
    /// Decides what is tried.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The first root; others follow it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub first_root: u64,
    /// No new root after so many.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub roots: u64,
    /// No new root after so many in a row that showed nothing new.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub plateau: u64,
    /// No run after so many in all.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: u64,
    /// Worker threads [default: all cores]; the search does not depend on it.
    #[arg(long, visible_alias = "jobs", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Runs for each root, its own included.
    #[arg(long, default_value_t = Exploration::default().max_runs_per_seed, value_parser = clap::value_parser!(u64).range(1..))]
    pub runs_per_root: u64,
    /// Runs from a state each time that it is picked.
    #[arg(long, default_value_t = Exploration::default().branching_factor, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub branching: u32,
    /// States that are kept to start from.
    #[arg(long, default_value_t = Exploration::default().max_frontier)]
    pub frontier: usize,
    /// Edits in a recipe.
    #[arg(long, default_value_t = Exploration::default().max_recipe_len)]
    pub recipe: usize,
    /// A run ends after so many steps; such runs are counted, and never findings.
    #[arg(long, default_value_t = Settings::default().most_steps, value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: u64,
    /// Abort the search after so long, as in 10m, with exit status 3 and what is known by then.
    #[arg(long, value_parser = duration)]
    pub time: Option<Duration>,
    /// End with the first finding.
    #[arg(long)]
    pub fail_fast: bool,
    /// Where the timelines of findings go; no file there is replaced by another one.
    #[arg(long, value_name = "FOLDER", default_value = "explored")]
    pub out: PathBuf,
    /// Shrink each finding, into the same folder: X.json becomes X-shrunk.json.
    #[arg(long)]
    pub shrink: bool,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
    /// Print nothing but findings.
    #[arg(long)]
    pub quiet: bool,
}

/// `explore-report`
#[derive(Args, Clone, Debug)]
pub struct ExploreReportArgs {
    /// These: names of defects, or parts of the catalogue (a, b, c).
    #[arg(long, value_delimiter = ',', default_value = "figure8,stale_vote,ack_before_fsync", value_parser = defects)]
    pub only: Vec<Mutants>,
    /// From how many roots each is looked for.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub repeat: u64,
    /// CPU time in which it has to be caught, for each search.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub budget: Duration,
    /// Runs from a state each time that it is picked.
    #[arg(long, default_value_t = Exploration::default().branching_factor)]
    pub branching: u32,
    /// Which kind of runs.
    #[command(flatten)]
    pub kind: Kind,
    /// What the swarm does without.
    #[command(flatten)]
    pub features: Features,
    /// How the search divides its runs, as JSON; what is left out is as usual.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = policy)]
    pub policy: Policy,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
}

impl ExploreReportArgs {
    /// Which are meant, in the order of the catalogue, each once.
    pub fn mutants(&self) -> Vec<Mutant> {
        all_of(&self.only)
    }
}

fn policy(text: &str) -> Result<Policy, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
