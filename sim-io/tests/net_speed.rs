//! How fast datagrams are. Not a test: `cargo test --release -p sim-io --test net_speed -- --ignored --nocapture`.
//!
//! A run is measured in slices of some 100,000 datagrams, and the fastest slice counts: the others say what
//! else the machine was doing.

use std::time::{Duration, Instant};

use sim_io::net::{Net, NetConfig, UdpSocket, addr_of};
use sim_runtime::{NodeId, Options, World, node, time};

const SERVER: NodeId = NodeId(1);
const PORT: u16 = 7;
const SLICES: u32 = 40;

async fn echo() {
    let socket = UdpSocket::bind(addr_of(SERVER, PORT)).await.expect("the port is free");
    let mut buffer = [0; 64];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await.expect("nobody kills it");
        socket.try_send_to(&buffer[..len], from).expect("it is short");
    }
}

/// Keeps `outstanding` requests on their way.
async fn ask(outstanding: u32) {
    let socket = UdpSocket::bind(addr_of(node::id(), 0)).await.expect("a port is free");
    let mut buffer = [0; 64];
    for _ in 0..outstanding {
        socket.try_send_to(&buffer, addr_of(SERVER, PORT)).expect("it is short");
    }
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await.expect("nobody kills it");
        socket.try_send_to(&buffer[..len], from).expect("it is short");
    }
}

/// A server and clients that each keep so many requests on their way.
fn world(nodes: u16, outstanding: u32, config: NetConfig) -> World {
    let world = World::new(7, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(config);
    handle.add_node("server", echo);
    for client in 2..=nodes {
        handle.add_node(&format!("client {client}"), move || ask(outstanding));
    }
    (1..=nodes).for_each(|id| handle.boot(NodeId(id)));
    world
}

/// Nanoseconds per datagram in the fastest slice.
fn speed(nodes: u16, outstanding: u32, config: NetConfig) -> f64 {
    let mut world = world(nodes, outstanding, config);
    // A request and its answer take 4 ms on average.
    let slice = Duration::from_millis(200_000 / u64::from((u32::from(nodes) - 1) * outstanding));
    let mut delivered = 0;
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    let one = |_| {
        let begin = Instant::now();
        world.run(time::sleep(slice)).expect("the time comes");
        let wall = begin.elapsed();
        let before = std::mem::replace(&mut delivered, world.report().coverage.get("datagrams delivered"));
        wall.as_nanos() as f64 / (delivered - before) as f64
    };
    (0..SLICES).map(one).fold(f64::MAX, f64::min)
}

#[test]
#[ignore = "a measurement"]
fn datagrams_per_second() {
    for (nodes, outstanding) in [(5, 8), (5, 32), (101, 1), (1_000, 1)] {
        // A copy would be echoed for ever, a loss would end a conversation.
        let rough = NetConfig { loss_per_million: 0, duplicate_per_million: 0, ..NetConfig::default() };
        for (name, config) in [("calm", NetConfig::calm()), ("tail, reordering", rough)] {
            let each_ns = speed(nodes, outstanding, config);
            let millions = 1e3 / each_ns;
            println!(
                "{nodes} nodes, {outstanding} outstanding a client, {name}: {millions:.2} M/s, {each_ns:.0} ns each"
            );
        }
    }
}

/// For `valgrind --tool=callgrind`, which counts instructions whatever else the machine does.
#[test]
#[ignore = "a measurement"]
fn four_hundred_thousand_datagrams() {
    world(5, 8, NetConfig::calm()).run(time::sleep(Duration::from_secs(25))).expect("the time comes");
}
