//! What it takes to find what; minutes, so not by default:
//!
//!     cargo test --release -p paxos --test measured -- --ignored --nocapture

use std::sync::Arc;
use std::sync::atomic::Ordering;

use paxos::{Mutant, Planted};
use sim_runtime::campaign;
use sim_runtime::verdict::Category;

const RANGES: u64 = 20;
const SEEDS_OF_A_RANGE: u64 = 50_000;

#[test]
#[ignore = "takes a minute"]
fn the_correct_paxos_passes_thousands_of_seeds() {
    let scenario = Arc::new(paxos::simulation(Planted::default()));
    let summary = campaign::run(&scenario, 1..=10_000, &campaign::Settings::default(), |_, _| {});
    println!("{} runs: {:?}, rules broken: {:?}", summary.runs, summary.verdicts, summary.premise);
    assert_eq!(summary.count(Category::Pass), summary.runs, "{:#?}", summary.failures.first());
}

#[test]
#[ignore = "takes minutes"]
fn every_planted_defect_is_found_in_every_range_of_seeds() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let found: Vec<_> = (0..RANGES)
            .map(|range| {
                let found = seeds_to_catch(mutant, range);
                println!("  {} from seed {}: {found:?}", mutant.name().0, range * SEEDS_OF_A_RANGE + 1);
                found
            })
            .collect();
        let mut needed: Vec<u64> = found.iter().flatten().map(|(seeds, _)| *seeds).collect();
        needed.sort_unstable();
        let mut properties: Vec<&str> =
            found.iter().flatten().map(|(_, property)| property.as_str()).collect();
        properties.sort_unstable();
        properties.dedup();
        println!(
            "{:18} found in {} of {RANGES} ranges, seeds needed: median {:?}, most {:?}, by {properties:?}",
            mutant.name().0,
            needed.len(),
            needed.get(needed.len() / 2),
            needed.last(),
        );
        if needed.len() as u64 != RANGES {
            missed.push(mutant);
        }
    }
    assert_eq!(missed, []);
}

/// How many seeds until the first failure, and which property objects.
fn seeds_to_catch(mutant: Mutant, range: u64) -> Option<(u64, String)> {
    let scenario = Arc::new(paxos::simulation(Planted(Some(mutant))));
    let settings = campaign::Settings::default();
    let failed = settings.failed.clone();
    let first = range * SEEDS_OF_A_RANGE + 1;
    let seeds = (first..first + SEEDS_OF_A_RANGE).take_while(move |_| !failed.load(Ordering::Relaxed));
    let summary = campaign::run(&scenario, seeds, &settings, |_, _| {});
    let run = summary.failures.first()?;
    Some((run.seed - first + 1, run.first.property.clone()))
}
