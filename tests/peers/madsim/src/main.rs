//! The workloads on madsim, in its simulation (`--cfg madsim`). Its network's defaults are the workload's: 1-10 ms,
//! nothing lost.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use madsim::net::{TcpListener, TcpStream, UdpSocket};
use madsim::runtime::Runtime;
use madsim::{Config, task, time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use workload::{MESSAGE_BYTES, Net, PORT, Peer, Transport};

struct Madsim;

fn addr(node: u64, port: u16) -> SocketAddr {
    (IpAddr::from([10, 0, 0, node as u8 + 1]), port).into()
}

async fn serve_datagrams(node: u64) {
    let socket = UdpSocket::bind(addr(node, PORT)).await.expect("the port is free");
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let (_, from) = socket.recv_from(&mut message).await.expect("the node lives");
        workload::delivered(&message);
        socket.send_to(from, &message).await.expect("it is short");
    }
}

async fn serve_streams(node: u64) {
    let listener = TcpListener::bind(addr(node, PORT)).await.expect("the port is free");
    loop {
        let (mut stream, _) = listener.accept().await.expect("the node lives");
        task::spawn(async move {
            let mut message = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut message).await.is_ok() {
                workload::delivered(&message);
                stream.write_all(&message).await.expect("the client lives");
                stream.flush().await.expect("the client lives");
            }
        });
    }
}

async fn ask_by_datagrams(node: u64, client: u64, net: Net) {
    let socket = UdpSocket::bind(addr(node, 0)).await.expect("a port is free");
    let server = addr(workload::server_of(node, client), PORT);
    time::sleep(workload::PATIENCE).await;
    let mut answer = [0; MESSAGE_BYTES];
    for k in 0..net.round_trips {
        socket.send_to(server, &workload::request(node, client, k)).await.expect("it is short");
        socket.recv_from(&mut answer).await.expect("the node lives");
        workload::delivered(&answer);
    }
}

async fn ask_by_stream(node: u64, client: u64, net: Net) {
    let server = addr(workload::server_of(node, client), PORT);
    let mut stream = loop {
        match TcpStream::connect(server).await {
            Ok(stream) => break stream,
            Err(_) => time::sleep(workload::PATIENCE).await,
        }
    };
    let mut answer = [0; MESSAGE_BYTES];
    for k in 0..net.round_trips {
        stream.write_all(&workload::request(node, client, k)).await.expect("the server lives");
        stream.flush().await.expect("the server lives");
        stream.read_exact(&mut answer).await.expect("the server lives");
        workload::delivered(&answer);
    }
}

async fn machine(node: u64, net: Net) {
    let clients: Vec<_> = match net.transport {
        Transport::Udp => {
            task::spawn(serve_datagrams(node));
            (0..net.clients).map(|client| task::spawn(ask_by_datagrams(node, client, net))).collect()
        }
        Transport::Tcp => {
            task::spawn(serve_streams(node));
            (0..net.clients).map(|client| task::spawn(ask_by_stream(node, client, net))).collect()
        }
    };
    for client in clients {
        client.await.expect("no client fails");
    }
}

fn run<F: Future>(runtime: &Runtime, main: F) -> Duration {
    runtime.block_on(async {
        let begin = time::Instant::now();
        main.await;
        begin.elapsed()
    })
}

fn runtime(seed: u64) -> Runtime {
    Runtime::with_seed_and_config(seed, Config::default())
}

impl Peer for Madsim {
    const NAME: &'static str = "madsim";

    fn timers() -> Duration {
        run(&runtime(1), async {
            let sleepers = (0..workload::SLEEPERS).map(|i| {
                task::spawn(async move {
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
        run(&runtime(1), async {
            for batch in 0..workload::BATCHES {
                let tasks: Vec<_> =
                    (0..workload::BATCH).map(|n| task::spawn(async move { batch + n })).collect();
                for task in tasks {
                    workload::note(task.await.expect("no task fails"));
                }
            }
        })
    }

    fn net(seed: u64, net: Net) -> Result<Duration, &'static str> {
        let runtime = runtime(seed);
        assert_eq!(Config::default().net.send_latency, workload::LATENCY_MIN..workload::LATENCY_MAX);
        Ok(run(&runtime, async {
            let machines = (0..workload::NODES).map(|node| {
                let handle = madsim::runtime::Handle::current();
                let handle = handle.create_node().name(format!("n{node}")).ip(addr(node, 0).ip()).build();
                let (told, done) = tokio::sync::oneshot::channel();
                handle.spawn(async move {
                    machine(node, net).await;
                    told.send(()).expect("the supervisor waits");
                    // Others still ask.
                    pending::<()>().await
                });
                done
            });
            for done in machines.collect::<Vec<_>>() {
                done.await.expect("no machine fails");
            }
        }))
    }
}

fn main() -> ExitCode {
    workload::main::<Madsim>()
}
