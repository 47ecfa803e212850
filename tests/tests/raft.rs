//! The whole on the reference profile: silent on the correct Raft, loud on planted defects, one run a seed.

use std::collections::BTreeSet;

use raft_sim::raft::{Profile, Raft, RaftTimeline};
use sim_runtime::rng::{BUCKET_NS, Override, Set};
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::verdict::{Category, RunReport};
use tests::{campaign, with};

fn properties(summary: &sim_runtime::campaign::Summary) -> BTreeSet<&str> {
    summary.failures.iter().flat_map(|run| run.properties.iter().map(String::as_str)).collect()
}

#[test]
fn the_correct_raft_is_never_accused() {
    let summary = campaign(Raft::of(Profile::Reference), 1..601, 2);
    assert_eq!((summary.runs, summary.count(Category::Pass)), (600, 600), "{:?}", summary.failures);
    assert!(summary.premise.is_empty(), "{:?}", summary.premise);
}

#[test]
fn the_digest_does_not_depend_on_threads_order_or_earlier_runs() {
    let one = campaign(Raft::of(Profile::Reference), 1..41, 1);
    let two = campaign(Raft::of(Profile::Reference), 1..41, 2);
    let reverse = campaign(Raft::of(Profile::Reference), (1..41).rev(), 2);
    assert_eq!((one.digest, one.digest), (two.digest, reverse.digest));
    let alone = Raft::of(Profile::Reference).run_seed(17);
    campaign(with("double_vote"), 1..5, 1);
    assert_eq!(alone.digest(), Raft::of(Profile::Reference).run_seed(17).digest());
}

#[test]
fn watching_a_run_does_not_change_it() {
    let raft = Raft::of(Profile::Reference);
    let timeline = raft.timeline(3);
    let (plain, none) = raft.run(&timeline, Watch::default());
    let (watched, story) = raft.run(&timeline, Watch { story: true });
    assert_eq!(plain.digest(), watched.digest());
    assert!(none.is_empty());
    assert_eq!(story.len() as u64, watched.records, "a line a record");
}

#[test]
fn a_timeline_survives_being_written_down() {
    let raft = with("stale_vote");
    let timeline = raft.timeline(5);
    let text = serde_json::to_string(&timeline).expect("a timeline is plain data");
    let read = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(timeline, read);
    assert_eq!(
        raft.run(&timeline, Watch::default()).0.digest(),
        raft.run(&read, Watch::default()).0.digest()
    );
}

fn edited(overrides: Vec<Override>) -> RunReport {
    let raft = Raft::of(Profile::Reference);
    let mut timeline = raft.timeline(11);
    timeline.overrides = overrides;
    raft.run(&timeline, Watch::default()).0
}

/// One field for a tenth of a second: what the network does to all links.
fn at_three_seconds(field: &str, set: Set) -> Override {
    let from_ns = 1_500 * BUCKET_NS;
    Override { field: field.to_owned(), key: None, from_ns, to_ns: from_ns + 50 * BUCKET_NS, set }
}

#[test]
fn an_edit_of_one_fate_changes_both_digests_and_one_without_effect_changes_neither() {
    let plain = edited(Vec::new());
    let other = edited(vec![at_three_seconds("net latency", Set::Reseed(1))]);
    assert_ne!((plain.behaviour, plain.draws), (other.behaviour, other.draws));
    assert_ne!(plain.behaviour, other.behaviour);
    assert_ne!(plain.draws, other.draws);
    let idle = edited(vec![at_three_seconds("no such field", Set::Calm)]);
    assert_eq!((plain.behaviour, plain.draws), (idle.behaviour, idle.draws));
}

#[test]
fn removing_one_fault_leaves_the_run_before_it_as_it_was() {
    let raft = Raft::of(Profile::Reference);
    let story = |timeline: &RaftTimeline| raft.run(timeline, Watch { story: true }).1;
    let mut parted = 0;
    for seed in 1..=4 {
        let timeline = raft.timeline(seed);
        let last = timeline.plan.faults.last().expect("there are faults").clone();
        let mut shorter = timeline.clone();
        shorter.plan = timeline.plan.without(last.id);
        let (whole, without) = (story(&timeline), story(&shorter));
        let same = whole.iter().zip(&without).take_while(|(a, b)| a == b).count();
        // Some faults find nobody to strike.
        let Some(differs) = whole.get(same) else { continue };
        parted += 1;
        let time_ns = last.when.earliest_ns();
        let ms: u64 = differs
            .split_whitespace()
            .nth(1)
            .and_then(|t| t.split('.').next()?.parse().ok())
            .expect("a time");
        assert!(ms >= time_ns / 1_000_000 - 1, "the runs part at {ms} ms, before the fault at {time_ns} ns");
    }
    assert!(parted >= 2, "in {parted} of 4 runs the last fault did something");
}

#[test]
fn the_canary_dies_at_once() {
    let summary = campaign(with("canary"), 1..4, 2);
    assert_eq!(summary.failed(), 3);
    assert!(properties(&summary).contains("election safety"), "{:?}", properties(&summary));
}

#[test]
fn planted_defects_are_caught_by_the_oracles_that_should() {
    for (mutant, seeds, expected) in [
        ("ack_before_fsync", 120, "leader completeness"),
        ("double_vote", 20, "election safety"),
        ("local_read", 60, "linearizability"),
        ("kv_no_dedup", 20, "exactly once"),
        ("vote_no_log_check", 20, "leader completeness"),
        ("append_no_prev_check", 120, "log matching"),
    ] {
        let summary = campaign(with(mutant), 1..seeds + 1, 2);
        assert!(properties(&summary).contains(expected), "{mutant}: {:?}", properties(&summary));
    }
}

/// Reading from local state breaks no rule of Raft: only what clients saw can tell.
#[test]
fn a_local_read_is_invisible_to_every_safety_property() {
    let summary = campaign(with("local_read"), 1..101, 2);
    assert_eq!(properties(&summary), BTreeSet::from(["linearizability"]));
}

#[test]
fn controls_raise_no_alarm() {
    for control in [
        "control_extra_fsync",
        "control_redundant_truncate",
        "control_slow_heartbeat",
        "control_duplicate_send",
        "control_late_reply",
    ] {
        let summary = campaign(with(control), 1..61, 2);
        assert_eq!(summary.count(Category::Pass), 60, "{control}: {:?}", summary.failures);
    }
}

/// No code can keep what the disk only pretends to have: the model's boundary, not a defect of Raft.
#[test]
fn on_disks_that_lie_acknowledged_data_is_lost_and_that_is_noticed() {
    let raft = Raft { lying_fsync: true, ..Raft::of(Profile::Reference) };
    assert!(properties(&campaign(raft, 1..11, 2)).contains("durability"));
}

#[test]
fn a_hundred_and_one_nodes_work() {
    let raft = Raft { servers: Some(101), duration_ms: Some(1_000), ..Raft::of(Profile::Reference) };
    let report = raft.run_seed(1);
    assert_eq!(report.findings.category(), Category::Pass, "{:?}", report.findings.failures);
    assert!(report.coverage.get("leaders elected") > 0 && report.coverage.get("operations ok") > 0);
}

#[test]
fn one_node_and_one_client_work() {
    let raft = Raft { servers: Some(1), clients: Some(1), ..Raft::of(Profile::Reference) };
    let summary = campaign(raft, 1..21, 2);
    assert_eq!(summary.count(Category::Pass), 20, "{:?}", summary.failures);
}
