//! Searches of a program from its parts: plan edits, recipes, coverage, assertions of the program's crate.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sim_io::nemesis::{Fault, FaultKind, Plan, PlanConfig, PlanEdit, PlannedFault, Target, When};
use sim_io::net::{UdpSocket, addr_of};
use sim_io::simulation::Simulation;
use sim_runtime::explore::{Exploration, Settings};
use sim_runtime::rng::Stream;
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::time::timeout;
use sim_runtime::{NodeId, assert_always_less_than, assert_reachable};

const SERVER: SocketAddr = addr_of(NodeId(1), 7_000);

/// Repeats what it hears, as long as fewer than two copies of a request come in a row.
async fn server() -> io::Result<()> {
    let socket = UdpSocket::bind(SERVER).await?;
    let (mut latest, mut copies) = (0, 0);
    loop {
        let (request, client) = socket.recv().await?;
        copies = if request[0] == latest { copies + 1 } else { 0 };
        latest = request[0];
        tracing::info!(copies, "heard");
        assert_always_less_than!(copies, 3, "few copies");
        socket.send_to(&request, client).await?;
    }
}

async fn client(id: NodeId) -> io::Result<()> {
    let socket = UdpSocket::bind(addr_of(id, 0)).await?;
    for number in 1..=10 {
        loop {
            socket.send_to(&[number], SERVER).await?;
            let answer = timeout(Duration::from_millis(10), socket.recv()).await;
            if answer.is_ok_and(|received| received.is_ok_and(|(answer, _)| answer == [number])) {
                break;
            }
        }
    }
    Ok(())
}

fn echo() -> Simulation {
    Simulation::new("echo")
        .processes(1, |_| server())
        .workloads(1, client)
        .faults(PlanConfig::only(&[FaultKind::Pause, FaultKind::LossBurst, FaultKind::SlowLinks]))
        .duration(Duration::from_millis(500))
}

fn settings(workers: usize) -> Settings {
    let exploration = Exploration { workers, ..Exploration::default() };
    Settings { exploration, max_runs: 120, max_roots: 20, ..Settings::default() }
}

#[test]
fn a_search_finds_the_same_for_any_number_of_workers_and_its_recipes_are_replayed() {
    let (alone, together) = (echo().explore_as(&settings(1)), echo().explore_as(&settings(3)));
    assert_eq!(format!("{alone:?}"), format!("{together:?}"));
    let finding = alone.findings.iter().find(|finding| finding.failure.property == "few copies");
    let finding = finding.expect("a loss burst makes copies");
    let report = echo().replay_timeline(finding.root, &finding.recipe).expect("its moments come");
    assert_eq!(report.findings.first(), Some(&finding.failure));
    assert_eq!(report.digest(), echo().run(&finding.timeline, Watch::default()).0.digest());
}

#[test]
fn every_edit_of_a_plan_changes_nothing_up_to_its_moment() {
    let simulation = echo();
    let mut kinds = BTreeSet::new();
    for seed in 1..=200 {
        let timeline = simulation.timeline(seed);
        let at_ns = 300_000_000 + seed * 500_000;
        let mut stream = Stream::derive(seed, "edits");
        let Some(edit) = simulation.plan_edit(&timeline, NodeId(1), at_ns, &mut stream) else { continue };
        let edited = simulation.edit_plan(&timeline, NodeId(1), at_ns, &edit).expect("its own edit");
        let before = |plan: &Plan| -> Vec<PlannedFault> {
            plan.faults.iter().filter(|fault| fault.when.earliest_ns() <= at_ns).cloned().collect()
        };
        assert_eq!(before(&edited), before(&timeline.plan), "seed {seed}: {edit}");
        let ids: BTreeSet<u32> = edited.faults.iter().map(|fault| fault.id).collect();
        assert_eq!(ids.len(), edited.faults.len(), "seed {seed}: {edit}");
        assert!(edited.faults.iter().all(|fault| timeline.plan.kinds.contains(&fault.what.kind())));
        kinds.extend(edit.as_object().into_iter().flat_map(|object| object.keys().cloned()));
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["insert", "move", "redraw", "remove"]);
}

#[test]
fn an_inserted_fault_goes_with_its_moment_and_strikes_the_node_of_the_moment() {
    let what = Fault::Kill { target: Target::Hit };
    let edit = PlanEdit::Insert(PlannedFault { id: 0, when: When::At { at_ns: 5 }, what, lasts_us: 1 });
    let struck = |node, at_ns| {
        let plan = edit.apply(&Plan::none(1_000), &PlanConfig::none(), node, at_ns).expect("there is a plan");
        (plan.faults[0].id, plan.faults[0].when.clone(), plan.faults[0].what.clone())
    };
    let kill = |node| Fault::Kill { target: Target::Nodes(vec![node]) };
    assert_eq!(struck(NodeId(2), 100), (1, When::At { at_ns: 106 }, kill(NodeId(2))));
    assert_eq!(struck(NodeId(3), 200), (1, When::At { at_ns: 206 }, kill(NodeId(3))));
    let nobody = PlanEdit::Remove { nth: 0 };
    assert_eq!(nobody.apply(&Plan::none(1_000), &PlanConfig::none(), NodeId(1), 5), None);
}

#[test]
fn a_run_that_is_to_end_soon_after_a_moment_does_and_is_the_same_up_to_there() {
    let simulation = echo();
    let timeline = simulation.timeline(1);
    let (early_ns, late_ns) = (1_000_000, timeline.plan.heal_at_ns - 1_000);
    let mut stream = Stream::derive(1, "ends");
    assert_eq!(simulation.plan_end(&timeline, late_ns, &mut stream), None, "it ends soon anyway");
    let faults = PlanConfig { every_max_ms: 10, ..timeline.config.faults.clone() };
    let edit =
        PlanEdit::draw_end(&timeline.plan, &faults, early_ns, &mut stream).expect("there is time to save");
    let edited = simulation.edit_plan(&timeline, NodeId(1), early_ns, &edit).expect("its own edit");
    assert!((11_000_000..42_000_000).contains(&edited.heal_at_ns), "{}", edited.heal_at_ns);
    let kept = timeline.plan.faults.iter().filter(|fault| fault.when.earliest_ns() < edited.heal_at_ns);
    assert_eq!(edited.faults, kept.cloned().collect::<Vec<_>>());
}

#[test]
fn coverage_of_a_program_gets_flat_by_its_states_or_the_cap_is_named() {
    let flat = echo().until_coverage_stable(30, 3_000);
    assert!(flat.is_flat && flat.seen >= 3, "{}", flat.line());
    let capped = echo().until_coverage_stable(30, 10);
    assert!(!capped.is_flat && capped.line().contains("CAP"), "{}", capped.line());
}

/// Referred to, never run.
fn unused() {
    assert_reachable!("nobody calls this");
}

#[test]
fn the_assertions_of_the_crate_that_makes_the_processes_are_the_programs() {
    assert_ne!(std::hint::black_box(unused as fn()) as usize, 0);
    let simulation = echo();
    assert_eq!(simulation.asserting(), ["searching"]);
    let gaps = simulation.run_seed(1).assertions.gaps(&simulation.asserting());
    assert!(gaps.iter().any(|gap| gap.contains("nobody calls this")), "{gaps:?}");
    assert!(!gaps.iter().any(|gap| gap.contains("few copies")), "{gaps:?}");
    assert_eq!(simulation.asserting_in("another").asserting(), ["another", "searching"]);
}

#[test]
fn the_builder_checks_determinism() {
    echo().check_determinism(1..=1).expect_deterministic();
}
