//! The workloads on `sim-runtime` and `sim-io`: default options (schedule by field, wakes held back now and then),
//! trace and digests on.

use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{self, NetConfig, TcpListener, TcpStream, UdpSocket, addr_of};
use sim_runtime::sync::mpsc::{self, Sender};
use sim_runtime::{NodeId, Options, World, spawn, time};
use workload::{MESSAGE_BYTES, Net, PORT, Peer, Transport};

struct Ours;

/// Node 0 of the runtime is the host.
fn id(node: u64) -> NodeId {
    NodeId(node as u16 + 1)
}

async fn serve_datagrams(node: u64) {
    let socket = UdpSocket::bind(addr_of(id(node), PORT)).await.expect("the port is free");
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let (_, from) = socket.recv_from(&mut message).await.expect("the node lives");
        workload::delivered(&message);
        socket.send_to(&message, from).await.expect("it is short");
    }
}

async fn serve_streams(node: u64) {
    let listener = TcpListener::bind(addr_of(id(node), PORT)).await.expect("the port is free");
    loop {
        let (mut stream, _) = listener.accept().await.expect("the node lives");
        drop(spawn(async move {
            let mut message = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut message).await.is_ok() {
                workload::delivered(&message);
                stream.write_all(&message).await.expect("the client lives");
            }
        }));
    }
}

async fn ask_by_datagrams(node: u64, client: u64, net: Net) {
    let socket = UdpSocket::bind(addr_of(id(node), 0)).await.expect("a port is free");
    let server = addr_of(id(workload::server_of(node, client)), PORT);
    time::sleep(workload::PATIENCE).await;
    let mut answer = [0; MESSAGE_BYTES];
    for k in 0..net.round_trips {
        socket.send_to(&workload::request(node, client, k), server).await.expect("it is short");
        socket.recv_from(&mut answer).await.expect("the node lives");
        workload::delivered(&answer);
    }
}

async fn ask_by_stream(node: u64, client: u64, net: Net) {
    let server = addr_of(id(workload::server_of(node, client)), PORT);
    let mut stream = loop {
        match TcpStream::connect(server).await {
            Ok(stream) => break stream,
            Err(_) => time::sleep(workload::PATIENCE).await,
        }
    };
    let mut answer = [0; MESSAGE_BYTES];
    for k in 0..net.round_trips {
        stream.write_all(&workload::request(node, client, k)).await.expect("the server lives");
        stream.read_exact(&mut answer).await.expect("the server lives");
        workload::delivered(&answer);
    }
}

async fn machine(node: u64, net: Net, done: Sender<()>) {
    let clients: Vec<_> = match net.transport {
        Transport::Udp => {
            drop(spawn(serve_datagrams(node)));
            (0..net.clients).map(|client| spawn(ask_by_datagrams(node, client, net))).collect()
        }
        Transport::Tcp => {
            drop(spawn(serve_streams(node)));
            (0..net.clients).map(|client| spawn(ask_by_stream(node, client, net))).collect()
        }
    };
    for client in clients {
        client.await.expect("no client fails");
    }
    done.send(()).expect("the host waits");
    // Others still ask.
    pending().await
}

fn run<F: Future + 'static>(mut world: World, main: F) -> Duration {
    world.run(main).expect("it ends");
    Duration::from_nanos(world.handle().now_ns())
}

impl Peer for Ours {
    const NAME: &'static str = "ours";

    fn timers() -> Duration {
        run(World::new(1, Options::default()), async {
            let sleepers = (0..workload::SLEEPERS).map(|i| {
                spawn(async move {
                    for k in 0..workload::SLEEPS {
                        let duration = workload::sleep_of(i, k);
                        time::sleep(duration).await;
                        workload::note(duration.as_micros() as u64);
                    }
                })
            });
            for sleeper in sleepers.collect::<Vec<_>>() {
                sleeper.await.expect("no sleeper fails");
            }
        })
    }

    fn spawn() -> Duration {
        run(World::new(1, Options::default()), async {
            for batch in 0..workload::BATCHES {
                let tasks: Vec<_> = (0..workload::BATCH).map(|n| spawn(async move { batch + n })).collect();
                for task in tasks {
                    workload::note(task.await.expect("no task fails"));
                }
            }
        })
    }

    fn net(seed: u64, net: Net) -> Result<Duration, &'static str> {
        let world = World::new(seed, Options::default());
        let handle = world.handle();
        let (min, max) = (workload::LATENCY_MIN.as_micros() as u64, workload::LATENCY_MAX.as_micros() as u64);
        let config = NetConfig { latency_min_us: min, latency_max_us: max, ..NetConfig::calm() };
        handle.device::<net::Net>().configure(config);
        let (done, mut finished) = mpsc::unbounded();
        for node in 0..workload::NODES {
            let done = done.clone();
            let id = handle.add_node(&format!("n{node}"), move || machine(node, net, done.clone()));
            handle.boot(id);
        }
        Ok(run(world, async move {
            for _ in 0..workload::NODES {
                finished.recv().await.expect("a node tells when its clients are done");
            }
        }))
    }
}

fn main() -> ExitCode {
    workload::main::<Ours>()
}
