//! Echo: 5 nodes, a server on one, a client on each other that keeps 32 requests of 64 bytes under way. An item is
//! a message that arrives.

use divan::counter::ItemsCount;
use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, TcpListener, TcpStream, UdpSocket, addr_of};
use sim_runtime::sync::mpsc::{self, Sender};
use sim_runtime::{NodeId, Options, World, node, spawn};

const SERVER: NodeId = NodeId(1);
const PORT: u16 = 7;
const NODES: u16 = 5;
const CLIENTS: u64 = NODES as u64 - 1;
const OUTSTANDING: u64 = 32;
const ROUND_TRIPS: u64 = 12_500;
const DELIVERIES: u64 = 2 * CLIENTS * ROUND_TRIPS;

async fn serve_datagrams() {
    let socket = UdpSocket::bind(addr_of(SERVER, PORT)).await.expect("the port is free");
    let mut message = [0; 64];
    loop {
        let (_, from) = socket.recv_from(&mut message).await.expect("the node lives");
        socket.send_to(&message, from).await.expect("it is short");
    }
}

async fn ask_by_datagrams(done: Sender<()>) {
    let socket = UdpSocket::bind(addr_of(node::id(), 0)).await.expect("a port is free");
    let mut message = [0; 64];
    for n in 0..ROUND_TRIPS + OUTSTANDING {
        if n >= OUTSTANDING {
            socket.recv_from(&mut message).await.expect("the node lives");
        }
        if n < ROUND_TRIPS {
            socket.send_to(&message, addr_of(SERVER, PORT)).await.expect("it is short");
        }
    }
    done.send(()).expect("the host waits");
}

async fn serve_streams() {
    let listener = TcpListener::bind(addr_of(SERVER, PORT)).await.expect("the port is free");
    while let Ok((mut stream, _)) = listener.accept().await {
        drop(spawn(async move {
            let mut message = [0; 64];
            while stream.read_exact(&mut message).await.is_ok() {
                stream.write_all(&message).await.expect("the client lives");
            }
        }));
    }
}

async fn ask_by_stream(done: Sender<()>) {
    let mut stream = TcpStream::connect(addr_of(SERVER, PORT)).await.expect("it listens");
    let mut message = [0; 64];
    for n in 0..ROUND_TRIPS + OUTSTANDING {
        if n >= OUTSTANDING {
            stream.read_exact(&mut message).await.expect("the server lives");
        }
        if n < ROUND_TRIPS {
            stream.write_all(&message).await.expect("the server lives");
        }
    }
    done.send(()).expect("the host waits");
}

fn echo<S, C>(server: fn() -> S, client: fn(Sender<()>) -> C)
where
    S: Future<Output = ()> + 'static,
    C: Future<Output = ()> + 'static,
{
    let mut world = World::new(7, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    let (done, mut finished) = mpsc::unbounded();
    handle.add_node("server", server);
    for n in 2..=NODES {
        let done = done.clone();
        handle.add_node(&format!("client {n}"), move || client(done.clone()));
    }
    (1..=NODES).for_each(|id| handle.boot(NodeId(id)));
    let ended = world.run(async move {
        for _ in 0..CLIENTS {
            finished.recv().await.expect("a client tells when it is done");
        }
    });
    ended.expect("all round trips are made");
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn datagrams(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(DELIVERIES)).bench(|| echo(serve_datagrams, ask_by_datagrams));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn streams(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(DELIVERIES)).bench(|| echo(serve_streams, ask_by_stream));
}
