//! The judge as a whole.

use crate::script::Script;
use oracles::{Premise, Property};
use sim_runtime::trace::Down;

/// One long scene with everything that goes wrong in a healthy cluster.
#[test]
fn a_cluster_that_survives_its_faults_is_not_accused() {
    let mut s = Script::new(3, &[], None);
    s.invoke(1);
    s.vote(1, 1, 1);
    s.ask(1, 2);
    s.vote(2, 1, 1);
    s.answer_vote(2, 1, true);
    s.count_vote(1, 2);
    s.elect(1, 1);
    s.adopt([3], 1);
    s.replicate(1..=2, &[(1, 0), (1, 1)]);
    s.answer_append(2, 1, 2);
    s.commit(1, 2);
    s.apply(1);
    s.apply(1);
    s.acknowledge(1, 2);
    s.told(1, 1);
    s.send_append(1, 3, 1);
    // Two entries that nobody else gets, one of them synced; then the leader's power fails.
    s.append(1, &[(1, 2)]);
    s.append_unsynced(1, &[(1, 3)]);
    s.power_cycle(1, &[(1, 0), (1, 1), (1, 2)], 1, 1);
    // n2 leads and goes its own way.
    s.elect(2, 2);
    s.adopt([3], 2);
    s.send_append(2, 1, 2);
    s.append_unsynced(3, &[(1, 0), (1, 1)]);
    s.sync(3, 1);
    s.sync(3, 2);
    s.replicate(2..=3, &[(2, 0)]);
    s.answer_append(3, 2, 3);
    s.commit(2, 3);
    // n1 comes round: its tail is cut in memory, and the cut does not reach the disk.
    s.vote(1, 2, 0);
    s.truncate(1, 3);
    s.append_unsynced(1, &[(2, 0)]);
    s.power_cycle(1, &[(1, 0), (1, 1), (1, 2)], 2, 0);
    s.truncate(1, 3);
    s.cut_file(1, 3);
    s.append(1, &[(2, 0)]);
    s.down(3, Down::Kill);
    s.boot(3);
    s.recover(3);
    for n in 1..=3 {
        s.commit(n, 3);
        for _ in 0..3 {
            s.apply(n);
        }
        if n == 1 {
            s.heal(200);
        }
    }
    s.invoke(2);
    s.replicate(1..=3, &[(2, 2)]);
    for n in [2, 1, 3] {
        s.commit(n, 4);
        s.apply(n);
    }
    s.told(2, 2);
    s.quiesce();
    s.settle();
    s.end();
    assert_eq!(s.found().failures, []);
    assert_eq!(s.found().premise, Default::default(), "{:?}", s.found().premise_evidence);
}

/// A cause that objects at every step is one failure.
#[test]
fn one_kind_of_failure_is_reported_once() {
    let mut s = Script::new(3, &[], None);
    s.elect(1, 2);
    s.elect(2, 2);
    for _ in 0..10 {
        s.send_append(1, 3, 2);
        s.send_append(2, 3, 2);
    }
    assert_eq!(s.violated(), [Property::ElectionSafety.name()].into());
    assert_eq!(s.found().failures.len(), 2, "elected twice; and sends in the other's term");
}

/// The cost of a sync does not grow with the log.
#[test]
fn devices_are_asked_as_often_as_something_becomes_durable() {
    let mut s = Script::new(3, &[], None);
    s.adopt([1], 1);
    let before = s.questions();
    for number in 0..1_000 {
        s.append(1, &[(1, number)]);
    }
    assert!(s.questions() - before <= 3_000, "{}", s.questions() - before);
}

/// Nobody is judged by a log that is not known.
#[test]
fn a_server_that_lost_track_is_accused_once() {
    let mut s = Script::new(3, &[], None);
    s.append(1, &[(1, 0)]);
    s.power_cycle(1, &[(1, 0), (1, 1)], 0, 0);
    assert_eq!(s.violated(), [Property::Fidelity.name()].into());
    s.elect(2, 1);
    s.append(2, &[(1, 0), (1, 2)]);
    s.commit(2, 2);
    s.elect(1, 2);
    s.append(1, &[(2, 2)]);
    s.answer_append(1, 2, 3);
    assert_eq!(s.found().failures.len(), 1, "{:?}", s.found().failures);
    assert!(!s.found().premise.contains_key(Premise::AppendAnsweredEarly.name()));
}

/// Clients and other nodes are not servers, whatever they say.
#[test]
fn what_strangers_say_is_not_judged() {
    let mut s = Script::new(3, &[], None);
    s.elect(1, 2);
    s.send_append(7, 1, 2);
    s.send_append(200, 1, 2);
    assert_eq!(s.found().failures, []);
}
