//! Integration tests and benchmarks of the whole; what they share.

use std::sync::Arc;

use raft_async::Planted;
use raft_async::mutant::Mutant;
use raft_sim::raft::{Profile, Raft};
use sim_runtime::campaign::{self, Settings, Summary};

/// Runs seeds of a scenario on all cores.
pub fn campaign(raft: Raft, seeds: impl Iterator<Item = u64> + Send + 'static, jobs: usize) -> Summary {
    let settings = Settings { jobs, ..Settings::default() };
    campaign::run(&Arc::new(raft), seeds, &settings, |_, _| {})
}

/// The reference profile with one defect in every server.
///
/// # Panics
/// If there is no such defect.
pub fn with(mutant: &str) -> Raft {
    let mutant: Mutant = mutant.parse().unwrap_or_else(|_| panic!("no defect is called {mutant}"));
    Raft { planted: Planted::one(mutant), ..Raft::of(Profile::Reference) }
}
