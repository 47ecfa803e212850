//! Looks for bugs: `cargo run -p paxos --example hunt -- [MUTANT] [SEEDS]`.
//!
//! Without a mutant, or with `-`, the correct Paxos. Prints verdicts and what happened; of the first failure the
//! smallest timeline and its story.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use paxos::{Mutant, Planted};
use sim_io::story::{Reach, Style};
use sim_runtime::scenario::Scenario;
use sim_runtime::{campaign, shrink};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mutant = words.next().filter(|word| word != "-").map(|word| word.parse::<Mutant>()).transpose()?;
    let seeds: u64 = words.next().map_or(Ok(1_000), |word| word.parse())?;

    let scenario = Arc::new(paxos::simulation(Planted(mutant)));
    let settings = campaign::Settings::default();
    // It ends with the first failure.
    let failed = settings.failed.clone();
    let seeds = (1..=seeds).take_while(move |_| !failed.load(Ordering::Relaxed));
    let summary = campaign::run(&scenario, seeds, &settings, |_, _| {});
    for (name, count) in summary.coverage.iter() {
        println!("{name:>60} {count:>10}");
    }
    for (site, hits) in summary.assertions.iter().filter(|(site, _)| site.module.starts_with("paxos")) {
        let range = hits.range.map(|(least, greatest)| format!(", from {least} to {greatest}"));
        println!("{:>60} {:>10}{}", site.message, hits.so, range.unwrap_or_default());
    }
    summary.assertions.gaps(&["paxos"]).iter().for_each(|gap| println!("{gap}"));
    println!("{} runs: {:?}", summary.runs, summary.verdicts);
    println!("rules broken: {:?}", summary.premise);

    let Some(run) = summary.failures.first() else { return Ok(()) };
    println!("seed {}: {}: {}", run.seed, run.first.property, run.first.evidence);
    let settings = shrink::Settings::default();
    let shrunk = shrink::shrink(&*scenario, scenario.timeline(run.seed), &settings, |_| {});
    let timeline = shrunk.expect("the seed fails again").timeline;
    println!("{}", serde_json::to_string_pretty(&timeline)?);
    for line in scenario.tell(&timeline, Reach::default(), Style::default()).1 {
        println!("{line}");
    }
    std::process::exit(1);
}
