//! What guided search is worth on Paxos: runs until an invariant objects, plain seeds against `explore`, from the same
//! roots.
//!
//!     cargo run --release -p paxos --example explored -- [MUTANT,..] [ROOTS] [MOST RUNS]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use paxos::{Mutant, Planted};
use sim_runtime::campaign;
use sim_runtime::explore::{Settings, explore};
use sim_runtime::verdict::Category;

/// Roots lie so far apart that searches have no seed in common.
const APART: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mutants: Vec<Mutant> = match words.next() {
        Some(names) => names.split(',').map(str::parse).collect::<Result<_, _>>()?,
        None => Mutant::ALL.to_vec(),
    };
    let roots: u64 = words.next().map_or(Ok(20), |word| word.parse())?;
    let most_runs: u64 = words.next().map_or(Ok(10_000), |word| word.parse())?;
    println!("runs to the first catch, {roots} roots, {most_runs} runs at most");
    println!("{:>18} {:>30} {:>30}", "", "plain seeds", "explore");
    for mutant in mutants {
        let firsts = || (0..roots).map(|root| root * APART + 1);
        let plain = firsts().map(|first| by_seeds(mutant, first, most_runs)).collect();
        let guided = firsts().map(|first| by_search(mutant, first, most_runs)).collect();
        println!("{:>18} {:>30} {:>30}", mutant.name().0, told(plain), told(guided));
    }
    Ok(())
}

/// Runs of seeds from `first` on, one after the other.
fn by_seeds(mutant: Mutant, first: u64, most_runs: u64) -> Option<u64> {
    let settings = campaign::Settings::default();
    let failed = settings.failed.clone();
    let seeds = (first..first + most_runs).take_while(move |_| !failed.load(Ordering::Relaxed));
    let scenario = Arc::new(paxos::simulation(Planted(Some(mutant))));
    let summary = campaign::run(&scenario, seeds, &settings, |_, _| {});
    summary.failures.first().map(|run| run.seed - first + 1)
}

/// Runs of a search that begins with the same seeds.
fn by_search(mutant: Mutant, first_root: u64, max_runs: u64) -> Option<u64> {
    let settings = Settings {
        first_root,
        max_runs,
        max_roots: max_runs,
        plateau_roots: max_runs,
        stops_at_first: true,
        ..Settings::default()
    };
    let scenario = Arc::new(paxos::simulation(Planted(Some(mutant))));
    let explored = explore(&scenario, &settings, |_| {});
    let finding = explored.findings.first().filter(|found| found.failure.category == Category::Invariant);
    finding.map(|found| found.runs_before + 1)
}

/// Where none was caught, more than all runs were needed.
fn told(mut needed: Vec<Option<u64>>) -> String {
    needed.sort_unstable_by_key(|runs| runs.unwrap_or(u64::MAX));
    let caught = needed.iter().flatten().count();
    let at = |place: usize| needed[place].map_or("more".to_owned(), |runs| runs.to_string());
    format!("{caught} of {}, median {}, most {}", needed.len(), at(needed.len() / 2), at(needed.len() - 1))
}
