//! What the swarm draws, run: silent on the correct Raft, also on bad disks and by drifting clocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use raft_sim::raft::{Profile, Raft};
use sim_runtime::campaign::{self, Settings, Summary};
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::verdict::Category;

fn passes(raft: Raft, seeds: u64) -> Summary {
    let settings = Settings { jobs: 2, ..Settings::default() };
    let summary = campaign::run(&Arc::new(raft), 1..seeds + 1, &settings, |_, _| {});
    assert_eq!(summary.count(Category::Pass), seeds, "{:?}", summary.failures);
    assert!(summary.premise.is_empty(), "{:?}", summary.premise);
    summary
}

#[test]
fn a_correct_raft_passes_whatever_is_drawn() {
    let summary = passes(Raft::of(Profile::Swarm), 300);
    for fault in
        ["power losses: all", "crashes: several", "pauses", "partitions with a bridge", "disk stalls"]
    {
        assert!(summary.coverage.get(fault) > 0, "{fault}");
    }
}

/// A failed disk halts its server with a reason, and the others go on.
#[test]
fn bad_disks_halt_their_servers_and_nothing_else() {
    let summary = passes(Raft { disk_errors: true, ..Raft::of(Profile::Swarm) }, 300);
    for event in [
        "fsyncs failed",
        "disk io errors",
        "writes to a full disk",
        "sectors: rotten",
        "servers halted: disk failed",
        "servers halted: files corrupt",
        "servers started again after a halt",
    ] {
        assert!(summary.coverage.get(event) > 0, "{event}");
    }
}

#[test]
fn bad_disks_are_a_minority() {
    let raft = Raft { disk_errors: true, ..Raft::of(Profile::Swarm) };
    for seed in 1..200 {
        let config = raft.config(seed);
        let bad = config.bad_disks.len();
        assert!(bad > 0 && 2 * bad < usize::from(config.servers), "seed {seed}: {bad} of {}", config.servers);
    }
}

#[test]
fn clocks_that_drift_do_no_harm() {
    let raft = Raft { clock_drift_percent: 10, ..Raft::of(Profile::Swarm) };
    let drifts: BTreeSet<i32> = raft.config(1).drift_ppm.into_values().collect();
    assert!(drifts.len() > 1 && drifts.iter().all(|ppm| ppm.abs() <= 100_000), "{drifts:?}");
    passes(raft, 150);
}

/// "Clients … several operations outstanding": the second of a session begins before the first has ended.
#[test]
fn operations_of_a_session_overlap_where_that_is_drawn() {
    let raft = Raft::of(Profile::Swarm);
    let has_lanes = |seed: &u64| raft.config(*seed).outstanding.iter().any(|lanes| *lanes >= 4);
    let seed = (1..100).find(has_lanes).expect("some client has four operations outstanding");
    let (_, story) = raft.run(&raft.timeline(seed), Watch { story: true });
    let mut outstanding = BTreeSet::new();
    let mut most = 0;
    for line in story {
        // c2s4#3 is the third operation of a session.
        let named = |verb: &str| {
            let call = line.split_once(verb)?.1.split(' ').next()?;
            let (session, sequence) = call.split_once('#')?;
            Some((session.to_owned(), sequence.to_owned()))
        };
        if let Some(call) = named(" calls ") {
            outstanding.insert(call.clone());
            most = most.max(outstanding.iter().filter(|(session, _)| *session == call.0).count());
        } else if let Some(call) = named(" is answered: ").or_else(|| named(" gives up ")) {
            outstanding.remove(&call);
        }
    }
    assert!(most >= 4, "{most} at a time in seed {seed}");
}
