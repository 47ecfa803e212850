//! A protocol that others wrote over `futures::io` runs over simulated streams: yamux, which multiplexes many streams
//! over one connection, under loss and cuts that heal.
//!
//! What yamux 0.12 takes from outside the seed: one random number a connection, which names it in the log and goes
//! nowhere else. It asks no clock. The digests below hold it to that.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, Tcp, TcpConfig, TcpListener, TcpStream, addr_of};
use sim_runtime::time::sleep;
use sim_runtime::verdict::RunReport;
use sim_runtime::{NodeId, Options, World, node, spawn};
use yamux::{Config, Connection, Mode};

const PORT: u16 = 80;
const STREAMS: u32 = 8;
const ROUNDS: u32 = 150;

async fn serve() {
    let listener = TcpListener::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
    while let Ok((socket, _)) = listener.accept().await {
        drop(spawn(async move {
            let mut connection = Connection::new(socket, Config::default(), Mode::Server);
            while let Some(Ok(stream)) = poll_fn(|cx| connection.poll_next_inbound(cx)).await {
                drop(spawn(async move {
                    let (reading, mut writing) = stream.split();
                    futures::io::copy(reading, &mut writing).await.expect("the client lives");
                    writing.close().await.expect("the client lives");
                }));
            }
        }));
    }
}

/// Asks over several streams of one connection; the answers must be the questions.
async fn ask(server: NodeId, answered: Rc<Cell<u32>>) {
    let socket = TcpStream::connect(addr_of(server, PORT)).await.expect("it listens");
    let mut connection = Connection::new(socket, Config::default(), Mode::Client);
    for number in 0..STREAMS {
        let opened = poll_fn(|cx| connection.poll_new_outbound(cx)).await;
        let mut stream = opened.expect("the connection is open");
        let answered = answered.clone();
        drop(spawn(async move {
            for round in 0..ROUNDS {
                let question = vec![(number * 31 + round) as u8; 1 + (round * 97 % 3_000) as usize];
                stream.write_all(&question).await.expect("the server lives");
                stream.flush().await.expect("the server lives");
                let mut answer = vec![0; question.len()];
                stream.read_exact(&mut answer).await.expect("the server lives");
                assert_eq!(answer, question);
                answered.set(answered.get() + 1);
            }
            stream.close().await.expect("the server lives");
        }));
    }
    // Whoever waits for the next stream drives all others.
    while let Some(Ok(_)) = poll_fn(|cx| connection.poll_next_inbound(cx)).await {}
}

fn run(seed: u64, config: NetConfig) -> RunReport {
    let mut world = World::new(seed, Options::default());
    let handle = world.handle();
    let net = handle.device::<Net>();
    net.configure(config);
    let server = handle.add_node("server", serve);
    let answered: Rc<Cell<u32>> = Rc::default();
    let counted = answered.clone();
    let client = handle.add_node("client", move || ask(server, counted.clone()));
    handle.boot(server);
    handle.boot(client);
    let done = world.run(async move {
        // Cuts of one or both directions for up to half a second, one after the other.
        for fault in 0_u64.. {
            if answered.get() == STREAMS * ROUNDS {
                return fault;
            }
            assert!(
                fault < 500,
                "{} answers in {fault} faults\n{}",
                answered.get(),
                handle.device::<Tcp>().sockets()
            );
            sleep(Duration::from_millis(200)).await;
            let ways = [(client, server), (server, client)];
            let cut = if fault % 3 == 2 { &ways[..] } else { &ways[fault as usize % 3..][..1] };
            cut.iter().for_each(|(from, to)| net.cut(*from, *to));
            sleep(Duration::from_millis(fault * 37 % 500)).await;
            net.heal_all();
        }
        0
    });
    let report = world.report();
    assert_eq!(report.findings.failures, [], "seed {seed}");
    assert!(done > Some(2), "faults while it ran: {done:?}");
    report
}

#[test]
fn yamux_runs_over_streams_that_stall_lose_and_cut_short() {
    let tcp = TcpConfig {
        partial_read_per_million: 200_000,
        partial_write_per_million: 200_000,
        ..TcpConfig::calm()
    };
    let config = NetConfig { loss_per_million: 20_000, tcp, ..NetConfig::default() };
    for seed in 1..=20 {
        let report = run(seed, config);
        assert_eq!(report.digest(), run(seed, config).digest(), "seed {seed}");
        for name in ["streams stalled by a cut", "flights sent again", "partial reads", "partial writes"] {
            assert!(report.coverage.get(name) > 0, "seed {seed}: no {name}");
        }
    }
}
