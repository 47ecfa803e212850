//! What guided search is worth on Paxos: plain seeds against `explore`, from the same roots, one thread and the same CPU
//! time for both.
//!
//!     cargo run --release -p paxos --example explored -- [MUTANT,..] [ROOTS] [CPU SECONDS]
//!
//! Without a mutant, or with `-`, all six. The other way round, no alarm in so many runs on the correct Paxos:
//!
//!     cargo run --release -p paxos --example explored -- correct RUNS

use std::sync::Arc;
use std::time::Duration;

use paxos::{Mutant, Planted};
use rustix::time::{ClockId, clock_gettime};
use sim_runtime::explore::{Compared, Comparison, Exploration, Settings, compare, explore};
use sim_runtime::verdict::{Category, RunReport};

/// Roots lie so far apart that searches have no seed in common.
const APART: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mutants: Vec<Mutant> = match words.next().as_deref() {
        Some("correct") => {
            let found = search_the_correct(words.next().map_or(Ok(10_000), |word| word.parse())?);
            std::process::exit(i32::from(found));
        }
        Some("-") | None => Mutant::ALL.to_vec(),
        Some(names) => names.split(',').map(str::parse).collect::<Result<_, _>>()?,
    };
    let roots: u64 = words.next().map_or(Ok(20), |word| word.parse())?;
    let budget: u64 = words.next().map_or(Ok(10), |word| word.parse())?;
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
    Ok(())
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
