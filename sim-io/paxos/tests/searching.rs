//! Guided search of Paxos: the same for any number of workers, and what it finds is found again.

use std::sync::Arc;

use paxos::{Mutant, Planted};
use sim_runtime::explore::{Exploration, Settings, explore};
use sim_runtime::scenario::{Scenario, Watch};

#[test]
fn any_number_of_workers_finds_the_same_and_its_timelines_fail_again() {
    let scenario = Arc::new(paxos::simulation(Planted(Some(Mutant::HalfIsEnough))));
    let of = |workers| {
        let exploration = Exploration { workers, ..Exploration::default() };
        explore(
            &scenario,
            &Settings { exploration, max_runs: 60, max_roots: 20, ..Settings::default() },
            |_| {},
        )
    };
    let (alone, together) = (of(1), of(2));
    assert_eq!(alone.lines(&["paxos"]), together.lines(&["paxos"]));
    assert_eq!(format!("{:?}", alone.findings), format!("{:?}", together.findings));
    assert!(!alone.findings.is_empty());
    for finding in &alone.findings {
        let again = scenario.run(&finding.timeline, Watch::default()).0;
        assert_eq!(again.findings.first().map(|f| f.fingerprint()), Some(finding.failure.fingerprint()));
    }
}
