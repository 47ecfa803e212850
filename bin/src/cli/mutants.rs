//! `mutants`, `shrink-report`, `stability`: what is measured with planted defects.

use std::path::PathBuf;

use clap::Args;

use raft_async::mutant::{Mutant, Part};

use super::shape::mutant;
use super::shared::{Features, Kind, ResultFile, Workers};

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
    #[command(flatten)]
    pub kind: Kind,
    /// What the swarm does without.
    #[command(flatten)]
    pub features: Features,
    /// Search on until an oracle objects of which the catalogue expects it.
    #[arg(long)]
    pub expected: bool,
    /// Search once with all features and once without each, and say which defects get dearer.
    #[arg(long, conflicts_with = "without")]
    pub ablation: bool,
    /// On how many threads.
    #[command(flatten)]
    pub workers: Workers,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
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

pub(super) fn all_of(only: &[Mutants]) -> Vec<Mutant> {
    let is_meant =
        |mutant: &Mutant| only.is_empty() || only.iter().any(|Mutants(named)| named.contains(mutant));
    Mutant::planted().filter(is_meant).collect()
}

/// Defects whose failing seeds are looked for, to be shrunk.
#[derive(Args, Clone, Debug)]
pub struct Hunted {
    /// In how many seeds, from 1 on, those are looked for.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub budget: u64,
    /// Only these: names of defects, or parts of the catalogue (a, b, c).
    #[arg(long, value_delimiter = ',', default_value = "a", value_parser = defects)]
    pub only: Vec<Mutants>,
}

impl Hunted {
    /// Which are meant, in the order of the catalogue, each once.
    pub fn mutants(&self) -> Vec<Mutant> {
        all_of(&self.only)
    }
}

/// `shrink-report`
#[derive(Args, Clone, Debug)]
pub struct ShrinkReportArgs {
    /// How many failing seeds of each defect are shrunk.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub seeds: u64,
    /// Which defects, and where their failures are looked for.
    #[command(flatten)]
    pub hunted: Hunted,
    /// Which kind of runs.
    #[command(flatten)]
    pub kind: Kind,
    /// Where the small timelines go [default: nowhere].
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// On how many threads.
    #[command(flatten)]
    pub workers: Workers,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
}

/// `stability`
#[derive(Args, Clone, Debug)]
pub struct StabilityArgs {
    /// How many failing seeds of each defect are shrunk and edited.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub files: u64,
    /// How many where conditions do not come from fields, for comparison; each is found and shrunk anew. As with --files
    /// where nothing is said.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub compared: Option<u64>,
    /// After how many candidates shrinking one of them ends [default: when nothing smaller is found].
    #[arg(long, value_name = "CANDIDATES", value_parser = clap::value_parser!(u64).range(1..))]
    pub most: Option<u64>,
    /// Which defects, and where their failures are looked for.
    #[command(flatten)]
    pub hunted: Hunted,
    /// What `shrink-report --out` wrote: what is there is not shrunk again.
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    /// On how many threads.
    #[command(flatten)]
    pub workers: Workers,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
}

/// What can be found: controls are right, and a search for their failures would only use up its budget.
pub(super) fn defects(text: &str) -> Result<Mutants, String> {
    let named = mutants(text)?;
    if named.0.iter().any(|mutant| mutant.row().part == Part::Control) {
        return Err(
            "controls are harmless changes, nothing is to be found in them; only `mutants` runs them"
                .to_owned(),
        );
    }
    Ok(named)
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
