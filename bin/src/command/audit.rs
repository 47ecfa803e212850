//! Whether the numbers of an outcome agree with each other: a file may have been edited, or written by two programs.
//!
//! Invariant: an outcome that `campaign` or `merge` has written passes.

use sim_runtime::rng::mix;
use sim_runtime::verdict::Category;
use sim_runtime::words::counted;

use super::outcome::{Outcome, Shard};
use crate::seeds::Seeds;

/// What contradicts what, in words; nothing if all agrees.
pub(super) fn contradiction(outcome: &Outcome) -> Option<String> {
    sizes(outcome).or_else(|| counts(outcome)).or_else(|| seeds(outcome)).or_else(|| digests(outcome))
}

/// More of anything than a campaign can have counted; sums of numbers up to this do not overflow.
const MOST: u64 = 1 << 50;

fn sizes(outcome: &Outcome) -> Option<String> {
    let sizes = [("runs", outcome.runs), ("records", outcome.records), ("steps", outcome.steps)];
    let premise = outcome.premise.iter().map(|(name, n)| (name.as_str(), *n));
    let verdicts = outcome.verdicts.iter().map(|(category, n)| (category.name(), *n));
    let valued = outcome.distributions.iter();
    let valued = valued.flat_map(|(name, d)| d.runs.values().map(move |n| (name.as_str(), *n)));
    let mut all =
        sizes.into_iter().chain(outcome.coverage.iter()).chain(premise).chain(verdicts).chain(valued);
    all.find(|(_, n)| *n > MOST).map(|(name, n)| format!("it counts {n} of \"{name}\", more than can be"))
}

/// Runs by verdict, by failure and by value.
fn counts(outcome: &Outcome) -> Option<String> {
    let Outcome { runs, verdicts, failures, .. } = outcome;
    let judged: u64 = verdicts.values().sum();
    if judged != *runs {
        return Some(format!("it says {}, and its verdicts are of {judged}", counted(*runs, "run")));
    }
    for category in Category::ALL.iter().filter(|category| **category != Category::Pass) {
        let (listed, of_verdict) =
            (failures.iter().filter(|failed| failed.verdict == *category).count(), outcome.count(*category));
        if listed as u64 != of_verdict {
            return Some(format!(
                "it counts {} with verdict {category}, and lists {listed}",
                counted(of_verdict, "run")
            ));
        }
    }
    // A run that was given up has no counters.
    let lost = failures.iter().filter(|failed| is_lost(failed.verdict)).count() as u64;
    for (name, distribution) in &outcome.distributions {
        let valued: u64 = distribution.runs.values().sum();
        if valued > *runs || valued + lost < *runs {
            return Some(format!(
                "it says {}, and its values of \"{name}\" are of {valued}",
                counted(*runs, "run")
            ));
        }
    }
    None
}

/// Whether a run of that verdict may have ended without a report: it hung, or its scenario panicked.
fn is_lost(verdict: Category) -> bool {
    matches!(verdict, Category::Hung | Category::Crash)
}

/// How many runs there can be.
fn seeds(outcome: &Outcome) -> Option<String> {
    let Ok(seeds) = outcome.seeds.parse::<Seeds>() else {
        return Some(format!("`{}` are no seeds", outcome.seeds));
    };
    let share = outcome.shard.unwrap_or(Shard::WHOLE).share(seeds.count());
    let is_short = outcome.runs < share && outcome.stopped.is_none();
    let is_long = outcome.runs > share;
    (is_short || is_long)
        .then(|| format!("it says {} of {}", counted(outcome.runs, "run"), counted(share, "seed")))
}

/// The digest over all runs is made of those of single runs, where they are there.
fn digests(outcome: &Outcome) -> Option<String> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let Some(whole) = hex(&outcome.digest) else {
        return Some(format!("`{}` is not a digest", outcome.digest));
    };
    if outcome.run_digests.is_empty() {
        return None;
    }
    let without = outcome.failures.iter().filter(|failed| !outcome.run_digests.contains_key(&failed.seed));
    let mut parts: Vec<_> = without.map(|failed| (failed.seed, &failed.fingerprint)).collect();
    parts.extend(outcome.run_digests.iter().map(|(seed, digest)| (*seed, digest)));
    if parts.len() as u64 != outcome.runs {
        return Some(format!("it says {}, and has digests of {}", counted(outcome.runs, "run"), parts.len()));
    }
    let mut sum = 0_u64;
    for (seed, digest) in parts {
        let Some(digest) = hex(digest) else { return Some(format!("`{digest}` is not a digest")) };
        sum = sum.wrapping_add(mix(digest, seed));
    }
    (sum != whole).then(|| format!("its digest is {whole:016x}, and the digests of its runs make {sum:016x}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use sim_runtime::campaign::{self, Settings};

    use super::*;
    use crate::cli::CampaignArgs;

    /// Of three short runs, one of which violates a property.
    fn outcome() -> Outcome {
        let args = CampaignArgs::of_line("--seeds 3 --profile reference --duration-ms 300 --mutant canary");
        let scenario = std::sync::Arc::new(args.shape.scenario());
        let mut digests = BTreeMap::new();
        let settings = Settings { distributions: vec!["operations ok"], jobs: 1, ..Settings::default() };
        let summary = campaign::run(&scenario, 1..4, &settings, |report, _| {
            digests.extend(report.map(|report| (report.seed, report.digest())));
        });
        Outcome::of(&args, &summary, digests, Duration::ZERO, None)
    }

    #[test]
    fn numbers_that_do_not_agree_are_found() {
        let whole = outcome();
        assert_eq!(contradiction(&whole), None);
        assert!(!whole.failures.is_empty(), "the defect is caught at once");
        let found = |edit: &dyn Fn(&mut Outcome)| {
            let mut edited = whole.clone();
            edit(&mut edited);
            contradiction(&edited).unwrap_or_default()
        };
        assert!(found(&|o| o.runs = 4).contains("its verdicts are of 3"));
        assert!(found(&|o| drop(o.failures.pop())).contains("and lists"));
        let more = |o: &mut Outcome| {
            o.runs += 1;
            *o.verdicts.get_mut(&Category::Pass).expect("all are listed") += 1;
        };
        assert!(found(&more).contains("its values of \"operations ok\" are of 3"));
        assert!(found(&|o| o.seeds = "1..9".to_owned()).contains("3 runs of 8 seeds"));
        assert!(found(&|o| o.digest = "0".repeat(16)).contains("the digests of its runs make"));
        assert!(found(&|o| o.digest = "x".to_owned()).contains("not a digest"));
        assert!(found(&|o| drop(o.run_digests.pop_last())).contains("digest"));
    }
}
