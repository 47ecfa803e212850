//! `explore`: guided search, from states that are worth having.
//!
//! What is found is written as timelines, which `replay` and `shrink` take. Beside each the recipe: how it came of its
//! root, in moments rather than times.
//!
//! Not here: the search (`sim_runtime::explore`), what it is worth (`report.rs`).

mod report;

pub use report::run as run_report;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use sim_io::nemesis::Plan;
use sim_runtime::explore::{self, Exploration, Explored, Finding, Settings};
use sim_runtime::scenario::Scenario;
use sim_runtime::verdict::Category;
use sim_runtime::words::counted;

use super::shrink;
use crate::cli::{ExploreArgs, Status, Unusable, create, write_json, write_saved};
use crate::out::{Out, complain};
use crate::raft::{Config, Saved};
use crate::{say, signals};

impl ExploreArgs {
    fn settings(&self) -> Settings {
        let usual = Exploration::default();
        Settings {
            exploration: Exploration {
                workers: self.workers.map_or(usual.workers, usize::from),
                max_runs_per_seed: self.runs_per_root,
                branching_factor: self.branching,
                max_frontier: self.frontier,
                max_recipe_len: self.recipe,
            },
            seed: self.seed,
            first_root: self.first_root,
            max_roots: self.roots,
            plateau_roots: self.plateau,
            max_runs: self.runs,
            most_steps: self.steps,
            stops_at_first: self.fail_fast,
            deadline: self.time,
            ..Settings::default()
        }
    }
}

/// Explores, and says what was found.
///
/// # Errors
/// When a file cannot be written, or the system refuses signal handlers.
pub fn run(args: &ExploreArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    let settings = args.settings();
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let scenario = Arc::new(args.shape.scenario());
    let explored = explore::explore(&scenario, &settings, |known| {
        const EVERY_ROUNDS: usize = 50;
        if !args.quiet && known.frontier.len().is_multiple_of(EVERY_ROUNDS) {
            let (runs, states) = (counted(known.runs, "run"), counted(known.states, "state"));
            complain(&format!("{runs}, {states}, {}", counted(known.findings.len() as u64, "finding")));
        }
    });
    let mut files = Vec::new();
    for (at, finding) in explored.findings.iter().enumerate() {
        files.push(keep(args, at, finding, out)?);
    }
    if !files.is_empty() {
        say!(out, "findings: {}, as timelines in {}", files.len(), args.out.display());
    }
    if !args.quiet {
        explored.lines(&scenario.asserting()).iter().for_each(|line| say!(out, "{line}"));
    }
    if args.shrink {
        let settings = shrink::settings(args.workers);
        signals::install(&settings.stop)
            .map_err(|error| Unusable::System("install signal handlers", error))?;
        // A run that hangs would hang again, and take this process with it.
        let is_shrunk = |finding: &Finding<Config, Plan>| finding.failure.category != Category::Hung;
        for (finding, file) in explored.findings.iter().zip(&files).filter(|(finding, _)| is_shrunk(finding))
        {
            let shrunk = shrink::beside(file);
            shrink::shrink_to(&scenario, finding.timeline.clone(), &settings, &shrunk, args.quiet, out)?;
        }
    }
    write_json(file, &as_json(&explored, &scenario.asserting(), &files))?;
    Ok(if !explored.findings.is_empty() {
        Status::Failed
    } else if explored.stopped.is_abort() || explored.pruned == explored.runs {
        Status::NotAPass
    } else {
        Status::Clean
    })
}

/// Writes the timeline of a finding, and says what it is.
fn keep(
    args: &ExploreArgs,
    at: usize,
    finding: &Finding<Config, Plan>,
    out: &mut Out,
) -> Result<PathBuf, Unusable> {
    let Finding { failure, root, recipe, runs_before, times, .. } = finding;
    std::fs::create_dir_all(&args.out).map_err(|error| Unusable::Write(args.out.clone(), error))?;
    let saved = Saved::with_outcome(finding.timeline.clone());
    let path = free_path(&args.out, &format!("{:016x}-{root}", failure.fingerprint()), &saved.to_text());
    write_saved(create(Some(&path))?, &saved)?;
    let number = at + 1;
    say!(out, "finding {number}: {}: {}: {}", failure.category, failure.property, failure.evidence);
    let (after, met) = (counted(*runs_before, "run"), counted(*times, "time"));
    say!(out, "  after {after}, met {met}; root {root}");
    if !recipe.0.is_empty() {
        say!(out, "  {recipe}");
    }
    say!(out, "  reproduce: {}", reproduce(&path));
    Ok(path)
}

/// Where `text` may be written in `folder` under that name: where there is nothing, or the same; with a number behind the
/// name where another search has left something else.
fn free_path(folder: &Path, name: &str, text: &str) -> PathBuf {
    let names =
        std::iter::once(format!("{name}.json")).chain((2_u64..).map(|nth| format!("{name}-{nth}.json")));
    let is_free =
        |path: &PathBuf| std::fs::read_to_string(path).map_or(!path.exists(), |there| there == text);
    names.map(|name| folder.join(name)).find(is_free).expect("there are more numbers than files")
}

fn reproduce(path: &Path) -> String {
    format!("cargo run --release -p bin -- replay {}", path.display())
}

fn as_json(explored: &Explored<Config, Plan>, crates: &[&str], files: &[PathBuf]) -> Value {
    let finding = |(finding, file): (&Finding<Config, Plan>, &PathBuf)| {
        let Finding { root, recipe, failure, runs_before, times, .. } = finding;
        json!({
            "timeline": file,
            "verdict": failure.category.name(),
            "property": failure.property,
            "runs_before": runs_before,
            "times": times,
            "root": root,
            "recipe": recipe,
            "fingerprint": format!("{:016x}", failure.fingerprint()),
            "reproduce": reproduce(file),
        })
    };
    let root = |root: &explore::RootReport| {
        json!({
            "seed": root.seed,
            "runs": root.runs,
            "virtual_ms": (root.virtual_ns / 1_000_000) as u64,
            "new": root.fresh,
            "failed": root.failed,
        })
    };
    json!({
        "roots": explored.roots.len(),
        "by_root": explored.roots.iter().map(root).collect::<Vec<_>>(),
        "runs": explored.runs,
        "virtual_ms": (explored.virtual_ns / 1_000_000) as u64,
        "states": explored.states,
        "near_misses": explored.near_misses,
        "assertion_steps": explored.assertion_steps,
        "findings": explored.findings.iter().zip(files).map(finding).collect::<Vec<_>>(),
        "first_hits": explored.first_hits.iter().map(|hit| {
            json!({ "site": hit.site.to_string(), "root": hit.root, "run": hit.run })
        }).collect::<Vec<_>>(),
        "unreached": explored.assertions.gaps(crates),
        "limits_met": explored.assertions.limits_met(),
        "frontier": explored.frontier,
        "evicted": explored.evicted,
        "pruned": explored.pruned,
        "dropped": explored.dropped,
        "stopped": explored.stopped.why(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the folder is a real one")]
    fn what_another_search_has_left_is_not_replaced() {
        let folder = std::env::temp_dir().join(format!("explored-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let free = |text| free_path(&folder, "kind-1", text);
        let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(name(free("one")), "kind-1.json");
        std::fs::write(free("one"), "one").expect("it can be written");
        assert_eq!(name(free("one")), "kind-1.json", "the same may be written again");
        std::fs::write(free("two"), "two").expect("it can be written");
        assert_eq!(
            (name(free("two")), name(free("three"))),
            ("kind-1-2.json".into(), "kind-1-3.json".into())
        );
        std::fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
