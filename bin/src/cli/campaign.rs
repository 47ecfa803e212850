//! `campaign`, and what is done with many seeds: `merge`, `check-determinism`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shape::Shape;
use super::shared::{ResultFile, Workers};
use crate::command::outcome::Shard;
use crate::seeds::Seeds;

/// `campaign`
#[derive(Args, Clone, Debug)]
pub struct CampaignArgs {
    /// How many seeds from 1 on, or a half-open range A..B.
    #[arg(long, default_value = "2000")]
    pub seeds: Seeds,
    /// What shapes the runs.
    #[command(flatten)]
    pub shape: Shape,
    /// On how many threads.
    #[command(flatten)]
    pub workers: Workers,
    /// Take the seeds from the last to the first; the result is the same.
    #[arg(long)]
    pub reverse: bool,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
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
    /// Run the timelines (*.json) of this folder first, and add one of each kind of failure that is found; it is made if
    /// it is not there.
    #[arg(long, value_name = "FOLDER")]
    pub corpus: Option<PathBuf>,
    /// Shrink the first failure of each kind, into the folder of the corpus or else into `shrunk`, as X-shrunk.json.
    #[arg(long)]
    pub shrink: bool,
    /// How many idle runs in a million are accepted before the exit status is 3.
    #[arg(long, default_value_t = 10_000)]
    pub idle_allowed: u32,
    /// Seconds of real time without a step after which a run is given up as hung.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub hung_after_s: u64,
}

/// `10m`, `90s`, `2h`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
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

/// `check-determinism`
#[derive(Args, Clone, Debug)]
pub struct CheckDeterminismArgs {
    /// How many seeds from 1 on, or a half-open range A..B.
    #[arg(long, default_value = "20")]
    pub seeds: Seeds,
    /// What shapes the runs.
    #[command(flatten)]
    pub shape: Shape,
    /// On how many threads.
    #[command(flatten)]
    pub workers: Workers,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
    /// Print nothing but what differs.
    #[arg(long)]
    pub quiet: bool,
}
