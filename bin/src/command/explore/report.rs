//! `explore-report`: what a guided search is worth, against plain seeds that have the same CPU time.
//!
//! Each search ends with its first catch, in the sense of `mutants`, or when its CPU time is over.
//!
//! Not here: the searches, and how they are compared (`sim_runtime::explore`).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use raft_async::mutant::{Mutant, Planted};
use sim_runtime::explore::{Compared, Comparison, Exploration, Settings, compare};
use sim_runtime::verdict::RunReport;
use sim_runtime::words::counted;

use crate::cli::{ExploreReportArgs, Status, Unusable, create, write_json};
use crate::command::cpu::{Whose, cpu_us};
use crate::command::mutants::is_catch;
use crate::command::tabular::{left, print, right, table};
use crate::out::{Out, complain};
use crate::raft::Raft;
use crate::say;

/// Searches of one defect lie so many seeds apart: more than one has time for.
const APART: u64 = 1_000_000;

/// Searches, and prints a line for each defect.
///
/// # Errors
/// When the file cannot be written.
pub fn run(args: &ExploreReportArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    say!(
        out,
        "{} for each defect and kind of search, one thread, {:.1} s of CPU time each; runs and CPU time to the \
         first catch: medians; catches per second of CPU time: over all roots",
        counted(args.repeat, "root"),
        args.budget.as_secs_f64()
    );
    let headings = Compared::HEADINGS;
    let mut printed = table(&[&["defect"], headings.as_slice()].concat());
    let mut rows = Vec::new();
    for mutant in args.mutants() {
        let raft = Raft {
            planted: Planted::one(mutant),
            without: args.features.without.iter().collect(),
            ..Raft::of(args.kind.profile)
        };
        let compared = compare(&Arc::new(raft), &comparison(mutant, args));
        let cells = compared.cells();
        // The table comes when all is known.
        complain(&format!("{}: {}", mutant.name(), cells.join(" ")));
        let cells = cells.into_iter().map(right);
        printed.add_row([left(mutant.name())].into_iter().chain(cells));
        rows.push(json!({ "name": mutant.name(), "plain": compared.plain, "explore": compared.guided }));
    }
    print(&printed, out);
    let budget_ms = args.budget.as_millis() as u64;
    write_json(file, &json!({ "budget_cpu_ms": budget_ms, "roots": args.repeat, "mutants": rows }))?;
    Ok(Status::Clean)
}

fn comparison(mutant: Mutant, args: &ExploreReportArgs) -> Comparison<'static> {
    Comparison {
        roots: args.repeat,
        apart: APART,
        budget: args.budget,
        is_catch: Arc::new(move |report: &RunReport| is_catch(mutant, report)),
        settings: Settings {
            exploration: Exploration { branching_factor: args.branching, ..Exploration::default() },
            policy: args.policy,
            ..Settings::default()
        },
        clock: &|| Duration::from_micros(cpu_us(Whose::Process)),
    }
}
