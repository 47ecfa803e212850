//! The table at the end of a campaign.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};

use sim_runtime::campaign::Summary;
use sim_runtime::verdict::Category;

use crate::cli::CampaignArgs;
use crate::out::Out;
use crate::raft::coverage::{self, OPERATIONS_OK};
use crate::say;

/// Runs a second, rounded down; at least the time of one microsecond is assumed.
pub(super) fn per_second(runs: u64, elapsed: Duration) -> u64 {
    let per_second = u128::from(runs) * 1_000_000 / elapsed.as_micros().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Prints the summary.
pub(super) fn print(args: &CampaignArgs, summary: &Summary, elapsed: Duration, jobs: usize, out: &mut Out) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "", "total", "a run"]);
    for category in Category::ALL {
        add(
            &mut table,
            if category == Category::Pass { "verdicts" } else { "" },
            category.name(),
            summary.count(category),
            None,
        );
    }
    for (title, rows) in coverage::by_section(&summary.coverage) {
        for (at, (name, count)) in rows.into_iter().enumerate() {
            add(&mut table, if at == 0 { title } else { "" }, name, count, Some(summary.runs));
        }
    }
    add(&mut table, "trace", "records", summary.records, Some(summary.runs));
    add(&mut table, "", "steps", summary.steps, Some(summary.runs));
    for line in table.lines() {
        say!(out, "{}", line.trim_end());
    }

    say!(out);
    let completed = summary.distributions.get(OPERATIONS_OK).map_or(&[][..], Vec::as_slice);
    let (fewest, median) = fewest_and_median(completed);
    say!(out, "operations completed in a run: fewest {fewest}, median {median}");
    for (property, runs) in &summary.premise {
        say!(out, "premise broken in {runs} runs: {property}");
    }
    print_unreached(summary, out);
    let seconds = elapsed.as_secs_f64();
    let virtual_s = summary.virtual_ns / 1_000_000_000;
    say!(
        out,
        "{} runs of {} ({} each) in {seconds:.1} s on {jobs} threads: {} seeds a second; {virtual_s} s of virtual time",
        summary.runs,
        args.shape.profile,
        messages(summary),
        per_second(summary.runs, elapsed)
    );
    if summary.interrupted {
        say!(out, "interrupted: {} of {} seeds were run", summary.runs, args.seeds.count());
        say!(out, "digest {:016x} over the seeds that were run", summary.digest);
    } else {
        say!(out, "digest {:016x} over seeds {}", summary.digest, args.seeds);
    }
    let failed = summary.failed();
    if failed > 0 {
        say!(out, "{failed} of {} runs failed", summary.runs);
    }
}

fn messages(summary: &Summary) -> String {
    let runs = summary.runs.max(1);
    format!(
        "{} messages, {} fsyncs, {} records",
        summary.coverage.get("datagrams sent") / runs,
        summary.coverage.get("fsyncs") / runs,
        summary.records / runs
    )
}

fn print_unreached(summary: &Summary, out: &mut Out) {
    let unreached = coverage::unreached(&summary.coverage);
    if unreached.is_empty() {
        say!(out, "every kind of fault and event that is on was reached");
    }
    for name in unreached {
        say!(out, "NOT REACHED: {name}: it is on, and it never happened in these runs");
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

fn fewest_and_median(values: &[u64]) -> (u64, u64) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    (sorted.first().copied().unwrap_or(0), median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_medians() {
        assert_eq!(average(5, 2), "2.50");
        assert_eq!(average(1, 3), "0.33");
        assert_eq!(average(7, 0), "7.00");
        assert_eq!(fewest_and_median(&[9, 1, 5]), (1, 5));
        assert_eq!(fewest_and_median(&[]), (0, 0));
        assert_eq!(per_second(10, Duration::from_secs(2)), 5);
    }
}
