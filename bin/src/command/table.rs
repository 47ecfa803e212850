//! The table at the end of a campaign.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};

use sim_runtime::verdict::Category;
use sim_runtime::words::counted;

use super::outcome::{Outcome, Shard, Stopped};
use crate::cli::CampaignArgs;
use crate::out::Out;
use crate::raft::coverage::{self, OPERATIONS_OK};
use crate::say;

/// Runs a second, rounded down; at least the time of one microsecond is assumed.
pub(super) fn per_second(runs: u64, elapsed: Duration) -> u64 {
    let per_second = u128::from(runs) * 1_000_000 / elapsed.as_micros().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Prints the outcome.
pub(super) fn print(args: &CampaignArgs, outcome: &Outcome, elapsed: Duration, jobs: usize, out: &mut Out) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "", "total", "a run"]);
    for category in Category::ALL {
        add(
            &mut table,
            if category == Category::Pass { "verdicts" } else { "" },
            category.name(),
            outcome.count(category),
            None,
        );
    }
    for (title, rows) in coverage::by_section(&outcome.coverage) {
        for (at, (name, count)) in rows.into_iter().enumerate() {
            add(&mut table, if at == 0 { title } else { "" }, name, count, Some(outcome.runs));
        }
    }
    add(&mut table, "trace", "records", outcome.records, Some(outcome.runs));
    add(&mut table, "", "steps", outcome.steps, Some(outcome.runs));
    for line in table.lines() {
        say!(out, "{}", line.trim_end());
    }

    say!(out);
    if let Some(completed) = outcome.distributions.get(OPERATIONS_OK) {
        let (fewest, median) = (completed.fewest, completed.median);
        say!(out, "operations completed in a run: fewest {fewest}, median {median}");
    }
    for (property, runs) in &outcome.premise {
        say!(out, "premise broken in {}: {property}", counted(*runs, "run"));
    }
    print_unreached(outcome, out);
    if let Some(corpus) = &outcome.corpus {
        let mended = match corpus.mended.len() {
            0 => String::new(),
            1 => ", 1 that failed once passes now".to_owned(),
            n => format!(", {n} that failed once pass now"),
        };
        let timelines = counted(corpus.files, "timeline");
        say!(out, "corpus: {timelines}, {} failed{mended}", corpus.failed());
    }
    let seconds = elapsed.as_secs_f64();
    let virtual_s = outcome.virtual_ns / 1_000_000_000;
    say!(
        out,
        "{} of {} ({} each) in {seconds:.1} s on {}: {} a second; {virtual_s} s of virtual time",
        counted(outcome.runs, "run"),
        args.shape.kind.profile,
        messages(outcome),
        counted(jobs as u64, "thread"),
        counted(per_second(outcome.runs, elapsed), "seed")
    );
    let wanted = outcome.shard.unwrap_or(Shard::WHOLE).share(args.seeds.count());
    let shard = outcome.shard.map(|shard| format!(", shard {shard}")).unwrap_or_default();
    if let Some(stopped) = outcome.stopped {
        let why = match stopped {
            Stopped::Time => "the time is over",
            Stopped::Failure => "stopped at the first failure",
            Stopped::Interrupt => "interrupted",
        };
        let were = if outcome.runs == 1 { "was" } else { "were" };
        say!(out, "{why}: {} of {} {were} run{shard}", outcome.runs, counted(wanted, "seed"));
        say!(out, "digest {} over the seeds that were run", outcome.digest);
    } else {
        say!(out, "digest {} over seeds {}{shard}", outcome.digest, args.seeds);
    }
    let failed = outcome.failed();
    if failed > 0 {
        say!(out, "{failed} of {} failed", counted(outcome.runs, "run"));
    }
}

fn messages(outcome: &Outcome) -> String {
    let runs = outcome.runs.max(1);
    format!(
        "{}, {}, {}",
        counted(outcome.coverage.get("datagrams sent") / runs, "message"),
        counted(outcome.coverage.get("fsyncs") / runs, "fsync"),
        counted(outcome.records / runs, "record")
    )
}

fn print_unreached(outcome: &Outcome, out: &mut Out) {
    for line in &outcome.assertion_limits {
        say!(out, "{line}");
    }
    for gap in &outcome.assertions_unreached {
        say!(out, "NOT REACHED: {gap}: never reached, or never so");
    }
    let unreached = coverage::unreached(&outcome.coverage);
    if outcome.runs == 0 {
        say!(out, "nothing was run");
    } else if unreached.is_empty() {
        say!(out, "every kind of fault and event that is on was reached");
    }
    for name in unreached {
        say!(out, "NOT REACHED: {name}: it is on, and it never happened in these runs");
    }
    for name in coverage::void(&outcome.coverage) {
        say!(out, "does not apply: {name}: with this transport no datagrams are sent");
    }
}

fn add(table: &mut Table, section: &str, name: &str, total: u64, runs: Option<u64>) {
    let average = runs.map(|runs| average(total, runs)).unwrap_or_default();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    table.add_row([Cell::new(section), Cell::new(name), right(total.to_string()), right(average)]);
}

/// Two decimals, without floats.
fn average(total: u64, runs: u64) -> String {
    let hundredths = u128::from(total) * 100 / u128::from(runs.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_rates() {
        assert_eq!(average(5, 2), "2.50");
        assert_eq!(average(1, 3), "0.33");
        assert_eq!(average(7, 0), "7.00");
        assert_eq!(per_second(10, Duration::from_secs(2)), 5);
    }
}
