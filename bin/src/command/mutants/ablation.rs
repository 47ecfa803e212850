//! What each feature of the swarm is worth: the same search without it, and which defects get dearer.
//!
//! The measure is seeds per catch, pooled over the ranges; a defect counts as dearer (or cheaper) when the 95 %
//! intervals of its catch rate, with the feature and without, have nothing in common.

use std::time::Instant;

use serde_json::{Value, json};
use sim_runtime::campaign::Settings;
use sim_runtime::words::counted;

use super::hunt::Quarry;
use super::report::pooled;
use super::{Searched, search, status};
use crate::cli::{MutantsArgs, Status, Unusable, create, write_json};
use crate::command::statistics::Rate;
use crate::out::Out;
use crate::raft::features::Feature;
use crate::say;

/// How one defect fared in one search.
struct Fare {
    name: &'static str,
    rate: Rate,
    runs: u64,
}

impl Fare {
    fn of(quarry: &Quarry) -> Self {
        let (rate, runs) = pooled(&quarry.ranges);
        Self { name: quarry.mutant.name(), rate, runs }
    }

    /// Seeds for a catch: "more than all that were run" where there was none.
    fn price(&self) -> String {
        if self.rate.is > 0.0 { format!("{:.0}", 1.0 / self.rate.is) } else { format!(">{}", self.runs) }
    }

    fn to_json(&self) -> Value {
        let Rate { is, low, high } = self.rate;
        json!({ "name": self.name, "runs": self.runs, "catch_rate": is, "catch_rate_low": low, "catch_rate_high": high })
    }
}

/// Searches with all features, then without each, and says what changed. A defect counts as missed when the search with
/// everything missed it: that others miss it is what is measured. An alarm is one in any of them.
///
/// # Errors
/// When the file cannot be written.
#[expect(clippy::disallowed_methods, reason = "how long it took is about real time")]
pub(super) fn run(args: &MutantsArgs, settings: &Settings, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    let started = Instant::now();
    let of = |searched: &Searched| searched.quarries.iter().map(Fare::of).collect::<Vec<_>>();
    let whole = search(args, &[], settings);
    let (with, mut interrupted) = (of(&whole), whole.interrupted);
    let mut ended = status(&whole.quarries, false);
    say!(
        out,
        "{} profile: seeds for a catch, over {} of at most {}",
        args.kind.profile,
        counted(args.repeat, "range"),
        counted(args.budget, "seed")
    );
    tell_alarms(&whole, out);
    let prices: Vec<_> = with.iter().map(|fare| format!("{} {}", fare.name, fare.price())).collect();
    say!(out, "with everything: {}", prices.join(", "));
    say!(out, "without a feature, defects whose price is surely another (95 % intervals apart):");
    let mut features = Vec::new();
    for &feature in Feature::ALL {
        if interrupted {
            break;
        }
        let searched = search(args, &[feature], settings);
        interrupted |= searched.interrupted;
        if status(&searched.quarries, false) == Status::Failed {
            ended = Status::Failed;
            tell_alarms(&searched, out);
        }
        let without = of(&searched);
        let pairs = || with.iter().zip(&without);
        let told = |(before, after): (&Fare, &Fare)| {
            format!("{} {} -> {}", before.name, before.price(), after.price())
        };
        let dearer: Vec<_> = pairs().filter(|(a, b)| b.rate.high < a.rate.low).map(told).collect();
        let cheaper: Vec<_> = pairs().filter(|(a, b)| b.rate.low > a.rate.high).map(told).collect();
        let list =
            |defects: &[String]| if defects.is_empty() { "none".to_owned() } else { defects.join(", ") };
        say!(out, "  {:<15} dearer: {}", feature.name(), list(&dearer));
        if !cheaper.is_empty() {
            say!(out, "  {:<15} cheaper: {}", "", list(&cheaper));
        }
        features.push(json!({
            "without": feature.name(),
            "mutants": without.iter().map(Fare::to_json).collect::<Vec<_>>(),
        }));
    }
    let threads = counted(settings.jobs as u64, "thread");
    say!(out, "{:.0} s on {threads}", started.elapsed().as_secs_f64());
    if interrupted {
        say!(out, "interrupted: features are missing, and ranges are cut short");
    }
    let all: Vec<_> = with.iter().map(Fare::to_json).collect();
    write_json(
        file,
        &json!({ "budget": args.budget, "ranges": args.repeat, "mutants": all, "features": features }),
    )?;
    Ok(if interrupted && ended == Status::Clean { Status::NotAPass } else { ended })
}

/// Controls in which anything objected.
fn tell_alarms(searched: &Searched, out: &mut Out) {
    for control in searched.quarries.iter().filter(|quarry| quarry.is_control()) {
        for catch in control.ranges.iter().filter_map(|range| range.catch.as_ref()) {
            say!(out, "ALARM: {}, seed {}", control.mutant.name(), catch.seed);
        }
    }
}
