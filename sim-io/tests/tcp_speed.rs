//! How fast streams are: the twin of `net_speed.rs`.
//! Not a test: `cargo test --release -p sim-io --test tcp_speed -- --ignored --nocapture`.
//!
//! A message is 64 bytes that one program writes and another reads, with a call each, so that what is measured
//! is comparable with datagrams. A run is measured in slices, and the fastest slice counts.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, TcpListener, TcpStream, addr_of};
use sim_runtime::{NodeId, Options, World, spawn, time};

const SERVER: NodeId = NodeId(1);
const PORT: u16 = 7;
const SLICES: u32 = 40;

async fn echo(count: Rc<Cell<u64>>) {
    let listener = TcpListener::bind(addr_of(SERVER, PORT)).await.expect("the port is free");
    while let Ok((mut stream, _)) = listener.accept().await {
        let count = count.clone();
        drop(spawn(async move {
            let mut message = [0; 64];
            while stream.read_exact(&mut message).await.is_ok() {
                count.set(count.get() + 1);
                stream.write_all(&message).await.expect("nobody kills it");
            }
        }));
    }
}

/// Keeps `outstanding` requests on their way.
async fn ask(outstanding: u32, count: Rc<Cell<u64>>) {
    let mut stream = TcpStream::connect(addr_of(SERVER, PORT)).await.expect("it listens");
    let mut message = [0; 64];
    for _ in 0..outstanding {
        stream.write_all(&message).await.expect("nobody kills it");
    }
    loop {
        stream.read_exact(&mut message).await.expect("nobody kills it");
        count.set(count.get() + 1);
        stream.write_all(&message).await.expect("nobody kills it");
    }
}

/// A server and clients that each keep so many requests on their way; what is read is counted.
fn world(nodes: u16, outstanding: u32, config: NetConfig) -> (World, Rc<Cell<u64>>) {
    let world = World::new(7, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(config);
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    handle.add_node("server", move || echo(counted.clone()));
    for client in 2..=nodes {
        let counted = count.clone();
        handle.add_node(&format!("client {client}"), move || ask(outstanding, counted.clone()));
    }
    (1..=nodes).for_each(|id| handle.boot(NodeId(id)));
    (world, count)
}

/// Nanoseconds per message in the fastest slice, and messages per flight.
fn speed(nodes: u16, outstanding: u32, config: NetConfig) -> (f64, f64) {
    let (mut world, count) = world(nodes, outstanding, config);
    // A request and its answer take 4 ms on average.
    let slice = Duration::from_millis(200_000 / u64::from((u32::from(nodes) - 1) * outstanding));
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    let one = |_| {
        let begin = Instant::now();
        world.run(time::sleep(slice)).expect("the time comes");
        let wall = begin.elapsed();
        wall.as_nanos() as f64 / count.replace(0).max(1) as f64
    };
    let fastest = (0..SLICES).map(one).fold(f64::MAX, f64::min);
    let coverage = world.report().coverage;
    let messages = coverage.get("bytes delivered") as f64 / 64.0;
    (fastest, messages / coverage.get("flights delivered") as f64)
}

#[test]
#[ignore = "a measurement"]
fn messages_per_second() {
    for (nodes, outstanding) in [(5, 1), (5, 8), (5, 32), (101, 1), (1_000, 1)] {
        for (name, config) in [("calm", NetConfig::calm()), ("rough", NetConfig::default())] {
            let (each_ns, per_flight) = speed(nodes, outstanding, config);
            let millions = 1e3 / each_ns;
            println!(
                "{nodes} nodes, {outstanding} outstanding a client, {name}: {millions:.2} M/s, {each_ns:.0} ns each, \
                 {per_flight:.1} messages a flight"
            );
        }
    }
}

/// 1 GB through one connection.
#[test]
#[ignore = "a measurement"]
fn bytes_per_second() {
    const BYTES: u64 = 1 << 30;
    let mut world = World::new(7, Options::default());
    let handle = world.handle();
    let server = handle.add_node("server", || async {
        let listener = TcpListener::bind(addr_of(SERVER, PORT)).await.expect("the port is free");
        let (mut stream, _) = listener.accept().await.expect("it lives");
        let chunk = vec![7; 65_536];
        let mut left = BYTES;
        while left > 0 {
            let count = stream.write(&chunk).await.expect("the reader lives");
            left = left.saturating_sub(count as u64);
        }
    });
    handle.boot(server);
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    let begin = Instant::now();
    world.run(async move {
        let mut stream = TcpStream::connect(addr_of(server, PORT)).await.expect("it listens");
        let mut buffer = vec![0; 65_536];
        while stream.read(&mut buffer).await.expect("the writer lives") > 0 {}
    });
    println!("{:.2} GB/s", BYTES as f64 / begin.elapsed().as_nanos() as f64);
}
