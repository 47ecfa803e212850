//! `bench`.

use clap::Args;

use super::shape::Shape;
use super::shared::{ResultFile, Workers};
use crate::seeds::Seeds;

/// `bench`
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Which seeds each measurement runs: how many from 1 on, or a half-open range A..B.
    #[arg(long, default_value = "400")]
    pub seeds: Seeds,
    /// How often everything is measured; medians count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub rounds: u16,
    /// What shapes the runs.
    #[command(flatten)]
    pub shape: Shape,
    /// How many threads are compared with one.
    #[command(flatten)]
    pub workers: Workers,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
}
