//! Small workloads whose instructions are counted: see `tests/benches/instructions`, which runs this under valgrind.
//!
//! `counted WORKLOAD` runs one and prints how many events it was, and of what; `counted nothing` is what a process
//! costs that does nothing.

use std::process::ExitCode;

use raft_sim::raft::{Profile, Raft};
use sim_io::fs::File;
use sim_io::net::{Net, NetConfig, UdpSocket, addr_of};
use sim_runtime::scenario::Scenario;
use sim_runtime::time::{Duration, sleep};
use sim_runtime::verdict::Category;
use sim_runtime::{NodeId, Options, World, spawn};

fn in_a_world<F: Future + 'static>(main: F) -> F::Output {
    World::new(1, Options::default()).run(main).expect("it ends")
}

/// 100 tasks that sleep 1,000 times each, for up to 97 ms.
fn timers() -> u64 {
    in_a_world(async {
        let sleepers = (1..=100).map(|i| {
            spawn(async move {
                for k in 1..=1_000 {
                    sleep(Duration::from_micros(i * k * 7_919 % 97_000 + 1)).await;
                }
            })
        });
        for sleeper in sleepers.collect::<Vec<_>>() {
            sleeper.await.expect("no sleeper fails");
        }
    });
    100 * 1_000
}

/// 50 batches of 1,000 trivial tasks.
fn tasks() -> u64 {
    in_a_world(async {
        for batch in 0..50 {
            let tasks: Vec<_> = (0..1_000).map(|n| spawn(async move { batch + n })).collect();
            for task in tasks {
                task.await.expect("no task fails");
            }
        }
    });
    50 * 1_000
}

/// A request and its answer, 25,000 times.
fn datagrams() -> u64 {
    const PORT: u16 = 7;
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    let server = handle.add_node("server", || async {
        let socket = UdpSocket::bind(addr_of(NodeId(1), PORT)).await.expect("the port is free");
        let mut message = [0; 64];
        loop {
            let (_, from) = socket.recv_from(&mut message).await.expect("the node lives");
            socket.send_to(&message, from).await.expect("it is short");
        }
    });
    handle.boot(server);
    let ended = world.run(async move {
        let socket = UdpSocket::bind(addr_of(NodeId::HOST, 0)).await.expect("a port is free");
        let mut message = [0; 64];
        for _ in 0..25_000 {
            socket.send_to(&message, addr_of(server, PORT)).await.expect("it is short");
            socket.recv_from(&mut message).await.expect("the socket lives");
        }
    });
    ended.expect("all round trips are made");
    50_000
}

/// 128 bytes at the end of a log and a sync, 20,000 times.
fn syncs() -> u64 {
    in_a_world(async {
        let log = File::create("/log").await.expect("the folder is there");
        for n in 0..20_000 {
            log.write_all_at(&[7; 128], n * 128).await.expect("the disk has room");
            log.sync_data().await.expect("the disk is sound");
        }
    });
    20_000
}

/// One seed of Raft under the reference profile; an event is a step of the executor.
fn raft() -> u64 {
    let report = Raft::of(Profile::Reference).run_seed(1);
    assert_eq!(report.findings.category(), Category::Pass);
    report.steps
}

fn main() -> ExitCode {
    // The bench harness of cargo adds flags of its own.
    let workload = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let (events, unit) = match workload.as_deref() {
        Some("nothing") => (0, "none"),
        Some("timers") => (timers(), "sleeps"),
        Some("tasks") => (tasks(), "tasks"),
        Some("datagrams") => (datagrams(), "datagrams"),
        Some("syncs") => (syncs(), "syncs"),
        Some("raft") => (raft(), "steps"),
        _ => {
            eprintln!(
                "workloads: nothing timers tasks datagrams syncs raft (see tests/benches/instructions)"
            );
            // `cargo test --benches` and `cargo bench` run everything without a name, and must not fail for that.
            return ExitCode::SUCCESS;
        }
    };
    println!("{events} {unit}");
    ExitCode::SUCCESS
}
