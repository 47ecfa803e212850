//! `explore-report`: what a guided search is worth, against as many plain seeds.
//!
//! For each defect, both searches are made from the same roots: plain seeds one after the other, and `explore`, which
//! begins with the same seeds and turns to their states. Each ends with its first catch, in the sense of `mutants`, or
//! with its budget of runs.
//!
//! Not here: the searches.

use std::sync::Arc;

use serde_json::{Value, json};

use raft_async::mutant::{Mutant, Planted};
use sim_runtime::explore::{self, Exploration, Settings};
use sim_runtime::scenario::Scenario;
use sim_runtime::verdict::RunReport;

use crate::cli::{ExploreReportArgs, Status, Unusable, create, write_json};
use crate::command::cpu::{Whose, cpu_us};
use crate::command::mutants::is_catch;
use crate::out::Out;
use crate::raft::Raft;
use crate::say;

/// What a search took.
#[derive(Copy, Clone)]
struct Took {
    runs: u64,
    cpu_ms: u64,
    caught: bool,
}

/// Searches, and prints a line for each defect.
///
/// # Errors
/// When the file cannot be written.
pub fn run(args: &ExploreReportArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    say!(
        out,
        "{} roots for each defect, at most {} runs; runs and CPU ms to the first catch: median, worst",
        args.repeat,
        args.budget
    );
    let mut rows = Vec::new();
    for mutant in args.mutants() {
        let raft = Raft {
            planted: Planted::one(mutant),
            without: args.features.without.iter().collect(),
            ..Raft::of(args.kind.profile)
        };
        let raft = Arc::new(raft);
        let roots = || (0..args.repeat).map(|n| n * args.budget + 1);
        let compared = roots().filter(|_| !args.only_guided);
        let plain: Vec<Took> = compared.map(|root| plain(&raft, mutant, root, args.budget)).collect();
        let guided: Vec<Took> = roots().map(|root| guided(&raft, mutant, root, args)).collect();
        say!(out, "{:28} plain {}   explore {}", mutant.name(), told(&plain), told(&guided));
        rows.push(json!({ "name": mutant.name(), "plain": as_json(&plain), "explore": as_json(&guided) }));
    }
    write_json(file, &json!({ "budget": args.budget, "roots": args.repeat, "mutants": rows }))?;
    Ok(Status::Clean)
}

fn plain(raft: &Arc<Raft>, mutant: Mutant, root: u64, budget: u64) -> Took {
    let before_us = cpu_us(Whose::Process);
    let caught = (root..root + budget).position(|seed| is_catch(mutant, &raft.run_seed(seed)));
    let cpu_ms = (cpu_us(Whose::Process) - before_us) / 1_000;
    Took { runs: caught.map_or(budget, |at| at as u64 + 1), cpu_ms, caught: caught.is_some() }
}

fn guided(raft: &Arc<Raft>, mutant: Mutant, root: u64, args: &ExploreReportArgs) -> Took {
    let settings = Settings {
        exploration: Exploration { workers: 1, branching_factor: args.branching, ..Exploration::default() },
        policy: args.policy,
        first_root: root,
        max_roots: args.budget,
        plateau_roots: u64::MAX,
        max_runs: args.budget,
        stops_at_first: true,
        is_finding: Arc::new(move |report: &RunReport| is_catch(mutant, report)),
        ..Settings::default()
    };
    let before_us = cpu_us(Whose::Process);
    let explored = explore::explore(raft, &settings, |_| {});
    let cpu_ms = (cpu_us(Whose::Process) - before_us) / 1_000;
    let caught = explored.findings.first();
    Took { runs: caught.map_or(explored.runs, |f| f.runs_before + 1), cpu_ms, caught: caught.is_some() }
}

/// The one in the middle, with what was not caught as dearest; the lower of two.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

fn told(took: &[Took]) -> String {
    let caught = took.iter().filter(|took| took.caught).count();
    let runs = || took.iter().map(|took| took.runs);
    let cpu_ms = || took.iter().map(|took| took.cpu_ms);
    format!(
        "{caught:2}/{} runs {:5} {:5} cpu {:6} {:6}",
        took.len(),
        median(runs().collect()),
        runs().max().unwrap_or(0),
        median(cpu_ms().collect()),
        cpu_ms().max().unwrap_or(0)
    )
}

fn as_json(took: &[Took]) -> Value {
    json!({
        "caught": took.iter().filter(|took| took.caught).count(),
        "runs_median": median(took.iter().map(|took| took.runs).collect()),
        "cpu_ms_median": median(took.iter().map(|took| took.cpu_ms).collect()),
        "runs": took.iter().map(|took| took.runs).collect::<Vec<_>>(),
    })
}
