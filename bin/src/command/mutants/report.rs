//! What the search came to: a row for each defect, the kill matrix, the controls; as text and as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use oracles::property::{Premise, Property};
use raft_async::mutant::{Mutant, Part};
use sim_runtime::verdict::Category;
use sim_runtime::words::counted;

use super::hunt::{Quarry, Range};
use crate::cli::{Kind, MutantsArgs};
use crate::command::statistics::{Rate, Spread, wilson};
use crate::command::tabular::{left, print, right, table};
use crate::out::Out;
use crate::say;

/// What is known of one defect.
struct Row {
    mutant: Mutant,
    ranges: usize,
    caught: usize,
    /// Caught ranges in which an expected oracle was among those that objected.
    expected: usize,
    seeds: Spread,
    cpu_us: Spread,
    rate: Rate,
    runs: u64,
    first_seed: Option<u64>,
    by_oracle: BTreeMap<String, u64>,
    premise: BTreeMap<&'static str, u64>,
    unfaithful: u64,
    crashed: u64,
}

impl Row {
    fn of(quarry: &Quarry) -> Self {
        let ranges = &quarry.ranges;
        let catches = || ranges.iter().filter_map(|range| range.catch.as_ref());
        let until_catch = |what: fn(&Range) -> u64| {
            Spread::of(ranges.iter().map(|range| range.catch.is_some().then(|| what(range))))
        };
        let mut by_oracle = BTreeMap::new();
        for oracle in catches().flat_map(|catch| &catch.oracles) {
            *by_oracle.entry(oracle.clone()).or_default() += 1;
        }
        let mut premise = BTreeMap::new();
        for (name, runs) in ranges.iter().flat_map(|range| &range.premise) {
            *premise.entry(*name).or_default() += runs;
        }
        let caught = catches().count();
        let (rate, runs) = pooled(ranges);
        Self {
            mutant: quarry.mutant,
            ranges: ranges.len(),
            caught,
            expected: catches().filter(|catch| catch.expected).count(),
            seeds: until_catch(|range| range.runs),
            cpu_us: until_catch(|range| range.cpu_us),
            rate,
            runs,
            first_seed: catches().map(|catch| catch.seed).min(),
            by_oracle,
            premise,
            unfaithful: ranges.iter().map(|range| range.unfaithful).sum(),
            crashed: ranges.iter().map(|range| range.crashed).sum(),
        }
    }

    fn objected(&self, oracle: &str) -> u64 {
        self.by_oracle.get(oracle).copied().unwrap_or(0)
    }

    fn to_json(&self) -> Value {
        let row = self.mutant.row();
        json!({
            "name": row.name,
            "part": part(row.part),
            "expected": row.expected,
            "caught_ranges": self.caught,
            "caught_by_expected": self.expected,
            "runs": self.runs,
            "seeds_median": self.seeds.median(),
            "seeds_p90": self.seeds.p90(),
            "seeds_worst": self.seeds.worst(),
            "catch_rate": self.rate.is,
            "catch_rate_low": self.rate.low,
            "catch_rate_high": self.rate.high,
            "cpu_ms_median": self.cpu_us.median().map(|us| us as f64 / 1_000.0),
            "first_seed": self.first_seed,
            "by_oracle": self.by_oracle,
            "premise": self.premise,
            "fidelity_runs": self.unfaithful,
            "crash_runs": self.crashed,
        })
    }
}

/// How often a seed of these ranges is a catch, and how many there were.
pub(super) fn pooled(ranges: &[Range]) -> (Rate, u64) {
    let runs = ranges.iter().map(|range| range.runs).sum();
    let caught = ranges.iter().filter(|range| range.catch.is_some()).count();
    (wilson(caught as u64, runs), runs)
}

/// The whole report.
pub(super) struct Report<'a> {
    args: &'a MutantsArgs,
    rows: Vec<Row>,
    controls: Vec<(&'static str, &'a Range)>,
}

impl<'a> Report<'a> {
    pub(super) fn of(args: &'a MutantsArgs, quarries: &'a [Quarry]) -> Self {
        let (controls, defects): (Vec<_>, Vec<_>) = quarries.iter().partition(|quarry| quarry.is_control());
        let control = |quarry: &&'a Quarry| (quarry.mutant.name(), &quarry.ranges[0]);
        Self {
            args,
            rows: defects.into_iter().map(Row::of).collect(),
            controls: controls.iter().map(control).collect(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let control = |(name, range): &(&str, &Range)| json!({ "name": name, "seeds": range.runs, "alarms": range.failed, "premise": range.premise });
        json!({
            "profile": self.args.kind.profile.to_string(),
            "budget": self.args.budget,
            "ranges": self.args.repeat,
            "until_expected": self.args.expected,
            "without": self.args.features.without.iter().map(|feature| feature.name()).collect::<Vec<_>>(),
            "mutants": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "matrix": self.matrix_json(),
            "controls": self.controls.iter().map(control).collect::<Vec<_>>(),
        })
    }

    fn matrix_json(&self) -> Value {
        let row = |row: &Row| {
            let seen = row.by_oracle.keys().cloned().map(Value::from).collect();
            (row.mutant.name().to_owned(), Value::Array(seen))
        };
        Value::Object(self.rows.iter().map(row).collect::<Map<_, _>>())
    }

    pub(super) fn print(&self, out: &mut Out) {
        let MutantsArgs { budget, repeat, kind: Kind { profile }, .. } = self.args;
        say!(
            out,
            "{profile} profile: {} of {} each; a range ends with its first catch{}",
            counted(*repeat, "range"),
            counted(*budget, "seed"),
            if self.args.expected { " by an oracle that is expected to object" } else { "" }
        );
        if !self.args.features.without.is_empty() {
            let names: Vec<_> = self.args.features.without.iter().map(|feature| feature.name()).collect();
            say!(out, "without: {}", names.join(", "));
        }
        say!(out);
        self.print_headline(out);
        say!(out);
        self.print_matrix(out);
        self.print_invisible(out);
        say!(out);
        self.print_premises(out);
        if !self.controls.is_empty() {
            say!(out);
            self.print_controls(out);
        }
    }

    fn print_headline(&self, out: &mut Out) {
        let budget = self.args.budget;
        let mut table = table(&[
            "part",
            "defect",
            "caught",
            "median",
            "p90",
            "worst",
            "caught per 1000 seeds",
            "CPU ms",
            "first",
            "expected",
            "by expected",
        ]);
        for row in &self.rows {
            let Rate { is, low, high } = row.rate;
            let seeds =
                |seeds: Option<u64>| seeds.map_or_else(|| format!("not in {budget}"), |n| n.to_string());
            let known = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
            let cpu_ms = row.cpu_us.median().map(|us| us / 1_000);
            table.add_row([
                left(part(row.mutant.row().part)),
                left(row.mutant.name()),
                right(format!("{}/{}", row.caught, row.ranges)),
                right(seeds(row.seeds.median())),
                right(seeds(row.seeds.p90())),
                right(seeds(row.seeds.worst())),
                right(format!("{:.1} ({:.1}-{:.1})", is * 1e3, low * 1e3, high * 1e3)),
                right(known(cpu_ms)),
                right(known(row.first_seed)),
                left(&row.mutant.row().expected.join(" ")),
                right(format!("{}/{}", row.expected, row.caught)),
            ]);
        }
        print(&table, out);
        let flags = if self.args.kind.profile == crate::raft::Profile::default() {
            String::new()
        } else {
            format!(" --profile {}", self.args.kind.profile)
        };
        say!(out, "replay a catch: cargo run --release -p bin -- replay FIRST --mutant DEFECT{flags}");
    }

    /// In how many of the catching runs which oracle objected.
    fn print_matrix(&self, out: &mut Out) {
        let properties = Property::ALL.iter().map(|p| (p.abbreviation(), p.name()));
        let symptoms = [Category::Crash, Category::Stuck, Category::Livelock, Category::Hung];
        let columns: Vec<_> = properties.chain(symptoms.map(|c| (c.name(), c.name()))).collect();
        let titles: Vec<_> = ["defect"].into_iter().chain(columns.iter().map(|(title, _)| *title)).collect();
        let mut table = table(&titles);
        for row in &self.rows {
            let number = |(_, oracle): &(&str, &str)| match row.objected(oracle) {
                0 => right(".".to_owned()),
                runs => right(runs.to_string()),
            };
            table.add_row([left(row.mutant.name())].into_iter().chain(columns.iter().map(number)));
        }
        say!(
            out,
            "kill matrix: in how many of the catching runs each oracle objected (FID is no catch by itself)"
        );
        print(&table, out);
    }

    /// What Raft's own properties cannot see.
    fn print_invisible(&self, out: &mut Out) {
        let of_clients = [Property::Linearizability, Property::ExactlyOnce, Property::Liveness];
        let is_safety = |oracle: &str| {
            Property::ALL
                .iter()
                .any(|p| p.name() == oracle && !of_clients.contains(p) && *p != Property::Fidelity)
        };
        let invisible = |row: &&Row| row.caught > 0 && !row.by_oracle.keys().any(|oracle| is_safety(oracle));
        let names: Vec<_> = self.rows.iter().filter(invisible).map(|row| row.mutant.name()).collect();
        if !names.is_empty() {
            say!(out, "no safety property of Raft objects to: {}", names.join(", "));
        }
    }

    fn print_premises(&self, out: &mut Out) {
        let mut table = table(&["defect", "runs", "FID", "crash", "premises broken (runs)"]);
        for row in &self.rows {
            let in_order =
                Premise::ALL.iter().filter_map(|p| row.premise.get(p.name()).map(|n| (p.name(), n)));
            let premises: Vec<_> = in_order.map(|(name, runs)| format!("{name} {runs}")).collect();
            table.add_row([
                left(row.mutant.name()),
                right(row.runs.to_string()),
                right(row.unfaithful.to_string()),
                right(row.crashed.to_string()),
                left(&premises.join(", ")),
            ]);
        }
        say!(out, "in all runs, up to the catch: fidelity, panics and premises (none of them is a catch)");
        print(&table, out);
    }

    fn print_controls(&self, out: &mut Out) {
        let mut table = table(&["control", "seeds", "alarms", "premises broken (runs)"]);
        for (name, range) in &self.controls {
            let premises: Vec<_> =
                range.premise.iter().map(|(name, runs)| format!("{name} {runs}")).collect();
            table.add_row([
                left(name),
                right(range.runs.to_string()),
                right(range.failed.to_string()),
                left(&premises.join(", ")),
            ]);
            if let Some(catch) = &range.catch {
                let oracles: Vec<_> = catch.oracles.iter().map(String::as_str).collect();
                say!(out, "ALARM: {name}, seed {}: {}", catch.seed, oracles.join(", "));
            }
        }
        print(&table, out);
    }
}

fn part(part: Part) -> &'static str {
    match part {
        Part::A => "A",
        Part::B => "B",
        Part::C => "C",
        Part::Control => "control",
        Part::Canary => "canary",
    }
}
