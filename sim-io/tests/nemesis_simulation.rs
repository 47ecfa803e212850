//! A whole program from parts: what runs share, when they end, what their reports say.

use std::time::Duration;

use sim_io::nemesis::{Plan, PlanConfig};
use sim_io::net::{NetConfig, UdpSocket, addr_of};
use sim_io::simulation::{Simulation, SimulationConfig};
use sim_runtime::NodeId;
use sim_runtime::rng::{Override, Set};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::time::{sleep, timeout};
use sim_runtime::verdict::Category;

const PORT: u16 = 7;

async fn echo(id: NodeId) -> std::io::Result<()> {
    let socket = UdpSocket::bind(addr_of(id, PORT)).await?;
    loop {
        let (request, from) = socket.recv().await?;
        socket.send_to(&request, from).await?;
    }
}

/// Asks one of three servers after the other, thirty times.
async fn ask(id: NodeId) -> std::io::Result<()> {
    let socket = UdpSocket::bind(addr_of(id, 0)).await?;
    for n in 0..30 {
        let server = NodeId(1 + n % 3);
        while timeout(Duration::from_millis(20), socket.recv()).await.is_err() {
            socket.send_to(&n.to_le_bytes(), addr_of(server, PORT)).await?;
        }
        tracing::info!(n, "answered");
    }
    Ok(())
}

fn echo_service() -> Simulation {
    Simulation::new("echo").processes(3, echo).workloads(2, ask).faults(PlanConfig::all())
}

#[test]
fn one_seed_is_one_run_on_any_thread_and_after_any_other() {
    let service = echo_service();
    let alone: Vec<_> = (1..=6).map(|seed| service.run_seed(seed)).collect();
    assert!(alone.iter().all(|report| report.findings.category() == Category::Pass));
    std::thread::scope(|scope| {
        for report in &alone {
            let again = scope.spawn(|| service.run_seed(report.seed)).join().expect("no run panics");
            assert_eq!((again.digest(), &again.coverage), (report.digest(), &report.coverage));
        }
    });
    assert_ne!(alone[0].digest(), alone[1].digest());
}

#[test]
fn a_watched_run_is_the_same_run_and_tells_its_story() {
    let service = echo_service();
    let (report, story) = service.run(&service.timeline(7), Watch { story: true });
    assert_eq!(report.digest(), service.run_seed(7).digest());
    let tells = |what: &str| story.iter().any(|line| line.contains(what));
    assert!(tells("up again (life 2)") && tells(" fault ") && tells("answered n=29"), "{story:#?}");
}

#[test]
fn a_timeline_survives_a_file_and_can_be_edited() {
    let service = echo_service();
    let timeline = service.timeline(7);
    let text = serde_json::to_string(&timeline).expect("a timeline is plain data");
    let read: Timeline<SimulationConfig, Plan> = serde_json::from_str(&text).expect("written just now");
    let run = |timeline: &Timeline<_, _>| service.run(timeline, Watch::default()).0;
    assert_eq!(run(&read).digest(), run(&timeline).digest());
    let calm = |field: &str| Override {
        field: field.to_owned(),
        key: None,
        from_ns: 0,
        to_ns: u64::MAX,
        set: Set::Calm,
    };
    let calmed = Timeline { overrides: vec![calm("net loss"), calm("net reordering")], ..timeline };
    let report = run(&calmed);
    let counted = ["datagrams lost", "datagrams held up"].map(|name| report.coverage.get(name));
    assert_eq!(counted, [0, 0]);
    assert!(report.coverage.get("datagrams duplicated") > 0);
}

#[test]
fn a_workload_that_does_not_finish_in_its_time_is_stuck() {
    let sleeper = |_| sleep(Duration::from_secs(30));
    let patient = Simulation::new("sleeper").processes(1, echo).workloads(1, sleeper);
    assert_eq!(patient.run_seed(1).findings.category(), Category::Pass);
    let strict = patient.duration(Duration::from_secs(2)).grace(Duration::from_secs(20));
    let report = strict.run_seed(1);
    assert_eq!((report.findings.category(), report.virtual_ns), (Category::Stuck, 22_000_000_000));
}

#[test]
fn an_error_that_a_program_does_not_handle_is_a_finding() {
    let refused = |id| async move {
        let _first = UdpSocket::bind(addr_of(id, PORT)).await?;
        UdpSocket::bind(addr_of(id, PORT)).await.map(drop)
    };
    let report = Simulation::new("refused").processes(1, refused).network(NetConfig::calm()).run_seed(1);
    let first = report.findings.first().expect("it is noticed");
    assert_eq!((first.category, first.property.as_str()), (Category::Crash, "a process failed"));
    assert_eq!(first.evidence, "n1 returned Kind(AddrInUse)");
}
