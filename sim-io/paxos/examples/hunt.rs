//! Looks for bugs: `cargo run -p paxos --example hunt -- [MUTANT] [SEEDS]`.
//!
//! Without a mutant, or with `-`, the correct Paxos. Prints verdicts and what happened; of the first failure the
//! smallest timeline and its story. Exit status: 1 after a failure, 2 when an argument cannot be used.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use paxos::Planted;
use sim_io::story::{Reach, Style};
use sim_runtime::scenario::Scenario;
use sim_runtime::{campaign, shrink};

mod asked;

fn main() -> ExitCode {
    asked::ended(hunt(std::env::args().skip(1)))
}

/// Whether a failure was found.
fn hunt(mut words: impl Iterator<Item = String>) -> Result<bool, String> {
    let mutant = words.next().filter(|word| word != "-").map(|word| asked::mutant(&word)).transpose()?;
    let seeds = asked::number(words.next(), 1_000, "seeds")?;
    asked::nothing_more(words)?;

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

    let Some(run) = summary.failures.first() else { return Ok(false) };
    println!("seed {}: {}: {}", run.seed, run.first.property, run.first.evidence);
    let settings = shrink::Settings::default();
    let shrunk = shrink::shrink(&*scenario, scenario.timeline(run.seed), &settings, |_| {});
    let timeline = shrunk.expect("the seed fails again").timeline;
    println!("{}", serde_json::to_string_pretty(&timeline).expect("a timeline is plain data"));
    for line in scenario.tell(&timeline, Reach::default(), Style::default()).1 {
        println!("{line}");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_cannot_be_used_are_refused_in_one_line_with_status_2() {
        for line in
            ["nobody", "no\nbody", "half_is_enough many", "- 0", "- -1", "- 99999999999999999999", "- 1 1"]
        {
            let refused = hunt(line.split(' ').map(str::to_owned));
            assert!(refused.as_ref().is_err_and(|why| why.lines().count() == 1), "{line}: {refused:?}");
            assert_eq!(asked::ended(refused), ExitCode::from(2), "{line}");
        }
    }
}
