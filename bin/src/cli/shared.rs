//! Flags that several commands have.

use std::path::PathBuf;

use clap::Args;

use crate::raft::Profile;
use crate::raft::features::Feature;

/// On how many threads the work is done.
#[derive(Args, Copy, Clone, Debug)]
pub struct Workers {
    /// Worker threads [default: all cores]; what is found does not depend on them.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
}

/// Where the result goes, as data.
#[derive(Args, Clone, Debug)]
pub struct ResultFile {
    /// Write the result as JSON; `-` is standard output, and what else there is to say goes to standard error.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Which kind of runs, where nothing else shapes them.
#[derive(Args, Copy, Clone, Debug)]
pub struct Kind {
    /// Which kind of runs: swarm (everything drawn anew for each seed: finds most) or reference (always the same
    /// cluster: numbers compare).
    #[arg(long, default_value_t)]
    pub profile: Profile,
}

/// What the swarm does without.
#[derive(Args, Clone, Debug)]
pub struct Features {
    /// Features that the swarm does without, to see what they are worth: pursuit, aims, proportion, short-timeouts ..
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<Feature>,
}
