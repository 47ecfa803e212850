//! The workloads on moonpool-sim: its executor and world, stepped by the loop of its orchestrator without what that
//! does beside (observation, restarts), which is to its advantage; chaos is off. It has no datagrams, and a listener
//! remembers one connection that was not accepted yet: clients connect one after the other.

use std::process::ExitCode;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use moonpool_sim::executor::{Executor, spawn, until_stalled};
use moonpool_sim::providers::SimTimeProvider;
use moonpool_sim::{
    LatencyDistribution, NetworkConfiguration, NetworkProvider, SimNetworkProvider, SimWorld,
    TcpListenerTrait, TimeProvider,
};
use workload::{MESSAGE_BYTES, Net, PORT, Peer, Transport};

struct Moonpool;

fn addr(node: u64) -> String {
    format!("10.0.0.{}:{PORT}", node + 1)
}

async fn serve_streams(node: u64, network: SimNetworkProvider) {
    let listener = network.bind(&addr(node)).await.expect("the port is free");
    loop {
        let (mut stream, _) = listener.accept().await.expect("the node lives");
        drop(spawn("connection", async move {
            let mut message = [0; MESSAGE_BYTES];
            while stream.read_exact(&mut message).await.is_ok() {
                workload::delivered(&message);
                stream.write_all(&message).await.expect("the client lives");
            }
        }));
    }
}

async fn ask_by_stream(node: u64, client: u64, net: Net, network: SimNetworkProvider, time: SimTimeProvider) {
    let server = addr(workload::server_of(node, client));
    let turn = (client * workload::NODES + node) as u32;
    time.sleep(turn * workload::PATIENCE).await.expect("the world lives");
    let mut stream = loop {
        match network.connect(&server).await {
            Ok(stream) => break stream,
            Err(_) => time.sleep(workload::PATIENCE).await.expect("the world lives"),
        }
    };
    let mut answer = [0; MESSAGE_BYTES];
    for k in 0..net.round_trips {
        stream.write_all(&workload::request(node, client, k)).await.expect("the server lives");
        stream.read_exact(&mut answer).await.expect("the server lives");
        workload::delivered(&answer);
    }
}

/// Runs tasks until none can go on, then takes a step of the world, until `main` has ended.
fn run<F: Future<Output = ()> + Send + 'static>(mut sim: SimWorld, seed: u64, main: F) -> Duration {
    Executor::new(seed).block_on(async {
        let main = spawn("main", main);
        until_stalled().await;
        while !main.is_finished() {
            assert!(sim.pending_event_count() > 0, "tasks wait for what cannot come");
            sim.step();
            until_stalled().await;
        }
        main.await.expect("no task fails");
    });
    sim.current_time()
}

fn uniform(start: Duration, end: Duration) -> LatencyDistribution {
    LatencyDistribution::Uniform { start, end }
}

impl Peer for Moonpool {
    const NAME: &'static str = "moonpool";

    fn timers() -> Duration {
        let sim = SimWorld::new_with_network_config_and_seed(NetworkConfiguration::fast_local(), 1);
        let time = sim.time_provider();
        run(sim, 1, async move {
            let sleepers = (0..workload::SLEEPERS).map(|i| {
                let time = time.clone();
                spawn("sleeper", async move {
                    for k in 0..workload::SLEEPS {
                        let duration = workload::sleep_of(i, k);
                        time.sleep(duration).await.expect("the world lives");
                        workload::note(duration.as_micros() as u64);
                    }
                })
            });
            for sleeper in sleepers.collect::<Vec<_>>() {
                sleeper.await.expect("no sleeper fails");
            }
        })
    }

    /// By the driver itself: in one turn of it, the executor polls no more than a million times.
    fn spawn() -> Duration {
        Executor::new(1).block_on(async {
            for batch in 0..workload::BATCHES {
                let tasks: Vec<_> =
                    (0..workload::BATCH).map(|n| spawn("task", async move { batch + n })).collect();
                for task in tasks {
                    workload::note(task.await.expect("no task fails"));
                }
            }
        });
        Duration::ZERO
    }

    fn net(seed: u64, net: Net) -> Result<Duration, &'static str> {
        if net.transport == Transport::Udp {
            return Err("it has no datagrams");
        }
        let latency = uniform(workload::LATENCY_MIN, workload::LATENCY_MAX);
        // A connection takes as long as a message; what is not a message takes next to no time.
        let config = NetworkConfiguration {
            connect_latency: latency.clone(),
            write_latency: latency,
            ..NetworkConfiguration::fast_local()
        };
        let sim = SimWorld::new_with_network_config_and_seed(config, seed);
        let (network, time) = (sim.network_provider(), sim.time_provider());
        Ok(run(sim, seed, async move {
            for node in 0..workload::NODES {
                drop(spawn("server", serve_streams(node, network.clone())));
            }
            let clients =
                (0..workload::NODES).flat_map(|node| (0..net.clients).map(move |client| (node, client)));
            let clients: Vec<_> = clients
                .map(|(node, client)| {
                    spawn("client", ask_by_stream(node, client, net, network.clone(), time.clone()))
                })
                .collect();
            for client in clients {
                client.await.expect("no client fails");
            }
        }))
    }
}

fn main() -> ExitCode {
    workload::main::<Moonpool>()
}
