//! The workloads on turmoil, whose time moves in ticks: each tick runs every host for that long.
//!
//! For the network a tick is 1 ms, the default and its unit of latency: longer ones are faster, but a message then
//! takes up to a tick longer than its latency. The latency of turmoil is exponential and cut off; the rate is the one
//! at which the mean is that of the uniform one, 5.5 ms. Where nothing is sent, a tick is a second. Within a tick
//! timers are tokio's, whose unit is 1 ms.

use std::cell::Cell;
use std::future::pending;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_local;
use tokio::time;
use turmoil::net::{TcpListener, TcpStream, UdpSocket};
use turmoil::{Builder, Sim};
use workload::{MESSAGE_BYTES, Net, PORT, Peer, Transport};

struct Turmoil;

const ANY: &str = "0.0.0.0";

/// The mean of an exponential with this rate, cut off at 1, is 1/2.
const RATE: f64 = 1.593_624;

fn name(node: u64) -> String {
    format!("n{node}")
}

async fn serve_datagrams() {
    let socket = UdpSocket::bind((ANY, PORT)).await.expect("the port is free");
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let (_, from) = socket.recv_from(&mut message).await.expect("the node lives");
        workload::delivered(&message);
        socket.send_to(&message, from).await.expect("it is short");
    }
}

async fn serve_streams() {
    let listener = TcpListener::bind((ANY, PORT)).await.expect("the port is free");
    loop {
        let (mut stream, _) = listener.accept().await.expect("the node lives");
        spawn_local(async move {
            let mut message = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut message).await.is_ok() {
                workload::delivered(&message);
                stream.write_all(&message).await.expect("the client lives");
            }
        });
    }
}

async fn ask_by_datagrams(node: u64, client: u64, net: Net) {
    let socket = UdpSocket::bind((ANY, 0)).await.expect("a port is free");
    let server = (turmoil::lookup(name(workload::server_of(node, client))), PORT);
    time::sleep(workload::PATIENCE).await;
    let mut answer = [0; MESSAGE_BYTES];
    for k in 0..net.round_trips {
        socket.send_to(&workload::request(node, client, k), server).await.expect("it is short");
        socket.recv_from(&mut answer).await.expect("the node lives");
        workload::delivered(&answer);
    }
}

async fn ask_by_stream(node: u64, client: u64, net: Net) {
    let server = (turmoil::lookup(name(workload::server_of(node, client))), PORT);
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

async fn machine(node: u64, net: Net) {
    let clients: Vec<_> = match net.transport {
        Transport::Udp => {
            spawn_local(serve_datagrams());
            (0..net.clients).map(|client| spawn_local(ask_by_datagrams(node, client, net))).collect()
        }
        Transport::Tcp => {
            spawn_local(serve_streams());
            (0..net.clients).map(|client| spawn_local(ask_by_stream(node, client, net))).collect()
        }
    };
    for client in clients {
        client.await.expect("no client fails");
    }
}

fn sim(seed: u64, tick: Duration) -> Sim<'static> {
    let sim = Builder::new()
        .tick_duration(tick)
        .simulation_duration(Duration::MAX)
        .min_message_latency(workload::LATENCY_MIN)
        .max_message_latency(workload::LATENCY_MAX)
        .udp_capacity(1_024)
        .rng_seed(seed)
        .build();
    sim.set_message_latency_curve(RATE);
    sim
}

fn run_alone<F: Future<Output = ()> + 'static>(main: F) -> Duration {
    let mut sim = sim(1, Duration::from_secs(1));
    sim.client("n0", async {
        main.await;
        Ok(())
    });
    sim.run().expect("it ends");
    sim.elapsed()
}

impl Peer for Turmoil {
    const NAME: &'static str = "turmoil";

    fn timers() -> Duration {
        run_alone(async {
            let sleepers = (0..workload::SLEEPERS).map(|i| {
                spawn_local(async move {
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
        run_alone(async {
            for batch in 0..workload::BATCHES {
                let tasks: Vec<_> =
                    (0..workload::BATCH).map(|n| spawn_local(async move { batch + n })).collect();
                for task in tasks {
                    workload::note(task.await.expect("no task fails"));
                }
            }
        })
    }

    fn net(seed: u64, net: Net) -> Result<Duration, &'static str> {
        let mut sim = sim(seed, Duration::from_millis(1));
        let done = Rc::new(Cell::new(0));
        for node in 0..workload::NODES {
            let done = done.clone();
            sim.host(name(node), move || {
                let done = done.clone();
                async move {
                    machine(node, net).await;
                    done.set(done.get() + 1);
                    // Others still ask.
                    pending().await
                }
            });
        }
        while done.get() < workload::NODES {
            sim.step().expect("no host fails");
        }
        Ok(sim.elapsed())
    }
}

fn main() -> ExitCode {
    workload::main::<Turmoil>()
}
