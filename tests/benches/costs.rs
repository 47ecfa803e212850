//! What an event costs as clusters and runs grow: `cargo bench -p tests --bench costs`. It should stay what it is for
//! few nodes and short runs.
//!
//! Gossip: every node sends a datagram of 64 bytes to one of the others, in turn, for each one that it receives, so
//! as many are under way as there are nodes. Raft: the reference profile with more servers, and with more time; an event is
//! a step of the executor or a record of the trace. In a longer run a step has more records: a server that restarts applies
//! its whole log anew, as nothing is compacted.

use std::time::{Duration, Instant};

use raft_sim::raft::{Profile, Raft};
use sim_io::net::{Net, NetConfig, UdpSocket, addr_of};
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::verdict::Category;
use sim_runtime::{NodeId, Options, World, node, time};

const PORT: u16 = 7;
const ROUNDS: usize = 5;

/// Median of some measurements of nanoseconds per event, each with its number of events.
fn median_ns(mut measure: impl FnMut() -> (Duration, u64)) -> f64 {
    let mut each: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (wall, events) = measure();
            wall.as_nanos() as f64 / events as f64
        })
        .collect();
    each.sort_unstable_by(f64::total_cmp);
    each[ROUNDS / 2]
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let result = run();
    (begin.elapsed(), result)
}

/// Whom a node sends its `k`-th datagram: each of the others in turn.
fn another(nodes: u16, k: u16) -> NodeId {
    NodeId((node::id().0 + k % (nodes - 1)) % nodes + 1)
}

async fn gossip(nodes: u16) {
    let socket = UdpSocket::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
    let mut message = [0; 64];
    // All have bound their ports by then.
    time::sleep(Duration::from_millis(100)).await;
    for k in (0..=u16::MAX).cycle() {
        socket.send_to(&message, addr_of(another(nodes, k), PORT)).await.expect("it is short");
        socket.recv_from(&mut message).await.expect("the node lives");
    }
}

/// For so long among so many nodes about 400,000 datagrams are delivered: one takes 2 ms on average, and there is one for
/// each node.
fn enough_for(nodes: u16) -> Duration {
    Duration::from_millis(800_000 / u64::from(nodes))
}

/// Real time and deliveries.
fn gossip_among(nodes: u16, virtual_time: Duration) -> (Duration, u64) {
    let mut world = World::new(7, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    for n in 1..=nodes {
        let id = handle.add_node(&format!("n{n}"), move || gossip(nodes));
        handle.boot(id);
    }
    let (wall, ended) = timed(|| world.run(time::sleep(Duration::from_millis(100) + virtual_time)));
    ended.expect("the time comes");
    (wall, world.report().coverage.get("datagrams delivered"))
}

/// Real time, steps and records.
fn raft(servers: u16, faults_ms: u64) -> (Duration, u64, u64) {
    let raft = Raft::of(Profile::Reference);
    let timeline = Raft { servers: Some(servers), duration_ms: Some(faults_ms), ..raft }.timeline(1);
    let (wall, (report, _)) = timed(|| raft.run(&timeline, Watch::default()));
    assert_eq!(report.findings.category(), Category::Pass);
    (wall, report.steps, report.records)
}

/// Nanoseconds a step and a record.
fn raft_ns(servers: u16, faults_ms: u64) -> (f64, f64) {
    let measured: Vec<_> = (0..ROUNDS).map(|_| raft(servers, faults_ms)).collect();
    let mut rounds = measured.iter();
    let step = median_ns(|| rounds.next().map(|(wall, steps, _)| (*wall, *steps)).expect("one a round"));
    let mut rounds = measured.iter();
    let record =
        median_ns(|| rounds.next().map(|(wall, _, records)| (*wall, *records)).expect("one a round"));
    (step, record)
}

fn compare(what: &str, small: f64, large: f64) {
    println!("{what:<54} {small:7.0} ns {large:7.0} ns {:6.2}", large / small);
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:<54} {:>10} {:>10} {:>6}", "per event", "before", "after", "ratio");
    let among = |nodes| median_ns(|| gossip_among(nodes, enough_for(nodes)));
    let three = among(3);
    compare("gossip, 3 nodes to 101", three, among(101));
    compare("gossip, 3 nodes to 1,000", three, among(1_000));
    let lasting = |seconds| median_ns(|| gossip_among(5, Duration::from_secs(seconds)));
    compare("gossip, 6 s to 600 s (5 nodes)", lasting(6), lasting(600));
    let (three, many) = (raft_ns(3, 6_000), raft_ns(101, 6_000));
    compare("Raft, a step, 3 servers to 101 (6 s)", three.0, many.0);
    compare("Raft, a record, 3 servers to 101 (6 s)", three.1, many.1);
    let (short, long) = (raft_ns(5, 6_000), raft_ns(5, 600_000));
    compare("Raft, a step, 6 s to 600 s (5 servers)", short.0, long.0);
    compare("Raft, a record, 6 s to 600 s (5 servers)", short.1, long.1);
}
