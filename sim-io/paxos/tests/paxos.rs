//! Paxos under the generic machinery: campaign, shrinking, story and `check_determinism`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use paxos::{Mutant, Planted};
use sim_io::simulation::Simulation;
use sim_io::story::{Reach, Style};
use sim_runtime::campaign::{self, FailedRun, Summary};
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::shrink::{self, shrink};
use sim_runtime::verdict::Category;

fn correct() -> Simulation {
    paxos::simulation(Planted::default())
}

fn with(mutant: Mutant) -> Simulation {
    paxos::simulation(Planted(Some(mutant)))
}

/// Runs seeds from 1 on until one fails.
fn hunt(mutant: Mutant, seeds: u64) -> FailedRun {
    let settings = campaign::Settings::default();
    let failed = settings.failed.clone();
    let seeds = (1..=seeds).take_while(move |_| !failed.load(Ordering::Relaxed));
    let summary = campaign::run(&Arc::new(with(mutant)), seeds, &settings, |_, _| {});
    summary.failures.into_iter().next().unwrap_or_else(|| panic!("{mutant:?} is not found"))
}

fn campaign_of_the_correct(jobs: usize) -> Summary {
    let settings = campaign::Settings { jobs, ..campaign::Settings::default() };
    campaign::run(&Arc::new(correct()), 1..=60, &settings, |_, _| {})
}

#[test]
fn a_campaign_of_the_correct_paxos_passes_whatever_the_number_of_threads() {
    let summary = campaign_of_the_correct(2);
    assert_eq!(summary.count(Category::Pass), 60, "{:#?}", summary.failures.first());
    assert_eq!(summary.premise.get("learned means chosen"), None);
    assert_eq!(summary.digest, campaign_of_the_correct(1).digest);
}

#[test]
fn a_campaign_reaches_what_makes_paxos_hard() {
    let summary = campaign_of_the_correct(2);
    let gaps = summary.assertions.gaps(&["paxos"]);
    assert!(gaps.is_empty(), "{gaps:#?}");
    for name in ["power losses: all", "partitions with a bridge", "torn writes", "window hit: phase 1"] {
        assert!(summary.coverage.get(name) > 0, "{name} was not reached");
    }
}

/// The others take hundreds of seeds and more: see `measured.rs`.
#[test]
fn defects_that_are_not_hard_are_found_by_a_few_seeds() {
    for (mutant, property) in [
        (Mutant::ForgottenPromise, "acceptor persistence"),
        (Mutant::HalfIsEnough, "agreement"),
        (Mutant::BelowPromise, "agreement"),
    ] {
        assert_eq!(hunt(mutant, 300).first.property, property, "{mutant:?}");
    }
}

#[test]
fn a_failure_shrinks_and_its_story_ends_with_what_is_wrong() {
    let seed = hunt(Mutant::HalfIsEnough, 100).seed;
    let scenario = with(Mutant::HalfIsEnough);
    let start = scenario.timeline(seed);
    let settings = shrink::Settings { seeds: 2, many_seeds: 4, ..shrink::Settings::default() };
    let shrunk = shrink(&scenario, start.clone(), &settings, |_| {}).expect("it fails");
    let small = &shrunk.timeline;
    assert!(
        small.plan.faults.len() <= 2,
        "{} of {} faults",
        small.plan.faults.len(),
        start.plan.faults.len()
    );
    assert!(small.config.workloads <= 2 && small.config.parameters["requests"] <= 4, "{:#?}", small.config);
    assert!(small.plan.heal_at_ns < start.plan.heal_at_ns);

    let again = scenario.run(small, Watch::default()).0;
    assert_eq!(again.findings.first().map(|f| f.fingerprint()), Some(shrunk.failure.fingerprint()));

    let (_, story) = scenario.tell(small, Reach::default(), Style::default());
    assert!(story.len() <= 70, "{} lines", story.len());
    for said in ["Leading(ballot ", "Accepted(slot ", "accepted slot=", &shrunk.failure.evidence] {
        assert!(story.iter().any(|line| line.contains(said)), "{said} in\n{}", story.join("\n"));
    }
}

#[test]
fn runs_are_deterministic() {
    correct().check_determinism(1..=2).expect_deterministic();
}

#[test]
fn a_timeline_survives_its_file() {
    let scenario = with(Mutant::HalfIsEnough);
    let timeline = scenario.timeline(3);
    let text = serde_json::to_string(&timeline).expect("it is plain data");
    let read = serde_json::from_str(&text).expect("it was written so");
    assert_eq!(timeline, read);
    let digest = |timeline| scenario.run(timeline, Watch::default()).0.digest();
    assert_eq!(digest(&timeline), digest(&read));
}
