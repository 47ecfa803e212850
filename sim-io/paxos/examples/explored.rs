//! What guided search is worth on Paxos: plain seeds against `explore`, from the same roots, one thread and the same CPU
//! time for both.
//!
//!     cargo run --release -p paxos --example explored -- [MUTANT,..] [ROOTS] [CPU SECONDS]
//!
//! Without a mutant, or with `-`, all six. The other way round, no alarm in so many runs on the correct Paxos:
//!
//!     cargo run --release -p paxos --example explored -- correct RUNS
//!
//! Exit status: 1 after such an alarm, 2 when an argument cannot be used.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use paxos::{Mutant, Planted};
use rustix::time::{ClockId, clock_gettime};
use sim_runtime::explore::{Compared, Comparison, Exploration, Settings, compare, explore};
use sim_runtime::verdict::{Category, RunReport};

/// Roots lie so far apart that searches have no seed in common.
const APART: u64 = 1_000_000;

mod asked;

fn main() -> ExitCode {
    asked::ended(explored(std::env::args().skip(1)))
}

/// Whether there was a false alarm.
fn explored(mut words: impl Iterator<Item = String>) -> Result<bool, String> {
    let mutants: Vec<Mutant> = match words.next().as_deref() {
        Some("correct") => {
            let runs = asked::number(words.next(), 10_000, "runs")?;
            asked::nothing_more(words)?;
            return Ok(search_the_correct(runs));
        }
        Some("-") | None => Mutant::ALL.to_vec(),
        Some(names) => names.split(',').map(asked::mutant).collect::<Result<_, _>>()?,
    };
    let roots = asked::number(words.next(), 20, "roots")?;
    let budget = asked::number(words.next(), 10, "seconds")?;
    asked::nothing_more(words)?;
    println!("{roots} roots for each defect and kind of search, one thread, {budget} s of CPU time each;");
    println!("runs and CPU time to the first catch: medians; catches per second of CPU time: over all roots");
    line("defect", &Compared::HEADINGS);
    for mutant in mutants {
        let comparison = Comparison {
            roots,
            apart: APART,
            budget: Duration::from_secs(budget),
            is_catch: Arc::new(|report: &RunReport| report.findings.category() == Category::Invariant),
            settings: Settings::default(),
            clock: &cpu_time,
        };
        let scenario = Arc::new(paxos::simulation(Planted(Some(mutant))));
        line(mutant.name().0, &compare(&scenario, &comparison).cells());
    }
    Ok(false)
}

fn line(name: &str, cells: &[impl AsRef<str>]) {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{:>8}", cell.as_ref())).collect();
    println!("{name:18} {}", cells.join(" "));
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Whether anything is found, which would be a false alarm.
fn search_the_correct(max_runs: u64) -> bool {
    let exploration = Exploration { workers: 1, ..Exploration::default() };
    let settings = Settings {
        exploration,
        max_runs,
        max_roots: max_runs,
        plateau_roots: max_runs,
        ..Settings::default()
    };
    let explored = explore(&Arc::new(paxos::simulation(Planted::default())), &settings, |_| {});
    explored.lines(&["paxos"]).iter().for_each(|line| println!("{line}"));
    for finding in &explored.findings {
        println!("FOUND: root {}: {:?}", finding.root, finding.failure);
    }
    println!("{} findings in {} runs", explored.findings.len(), explored.runs);
    !explored.findings.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_cannot_be_used_are_refused_in_one_line_with_status_2() {
        for line in
            ["nobody", "half_is_enough,nobody", "correct many", "correct 1 1", "- 0", "- 1 soon", "- 1 1 1"]
        {
            let refused = explored(line.split(' ').map(str::to_owned));
            assert!(refused.as_ref().is_err_and(|why| why.lines().count() == 1), "{line}: {refused:?}");
            assert_eq!(asked::ended(refused), ExitCode::from(2), "{line}");
        }
    }
}
