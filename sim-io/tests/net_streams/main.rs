//! Byte streams as programs see them. Each scene says in a comment what the real system (Linux) does.
//!
//! A scene is an async body that holds both ends of a connection and uses only what `std::net` and `futures::io` have
//! too, beside faults: the client is the host, the server's streams are handed over by a node that accepts.

mod opening;
mod closing;
mod bytes;
mod faults;
mod dying;
mod random;
mod windows;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, TcpListener, TcpStream, addr_of};
use sim_runtime::time::{Instant, sleep};
use sim_runtime::verdict::RunReport;
use sim_runtime::{Handle, NodeId, Options, World};

pub(crate) const PORT: u16 = 80;
pub(crate) const SERVER: NodeId = NodeId(1);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// What a node has accepted and nobody has taken.
#[derive(Clone, Default)]
pub(crate) struct Accepted(Rc<RefCell<VecDeque<TcpStream>>>);

impl Accepted {
    pub(crate) async fn next(&self) -> TcpStream {
        loop {
            if let Some(stream) = self.0.borrow_mut().pop_front() {
                return stream;
            }
            sleep(ms(1)).await;
        }
    }
}

/// What a scene may touch.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) handle: Handle,
    pub(crate) net: Rc<Net>,
    accepted: Accepted,
}

impl Stage {
    /// A connection from the host to the server: the client's end and the server's. Nothing is under way.
    pub(crate) async fn pair(&self) -> (TcpStream, TcpStream) {
        let client = dial().await.expect("the server listens");
        let server = self.accepted.next().await;
        sleep(ms(10)).await;
        (client, server)
    }

    /// Cuts both directions between host and server.
    pub(crate) fn part(&self) {
        self.net.cut(NodeId::HOST, SERVER);
        self.net.cut(SERVER, NodeId::HOST);
    }
}

/// Plays `scene` in a world with one server that listens and accepts; what happened.
pub(crate) fn play<F: Future<Output = ()> + 'static>(
    config: NetConfig,
    scene: impl FnOnce(Stage) -> F,
) -> RunReport {
    let limit_ns = secs(7 * 86_400).as_nanos() as u64;
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, limit_ns, ..Options::default() };
    let mut world = World::new(1, options);
    let handle = world.handle();
    let net = handle.device::<Net>();
    net.configure(config);
    let accepted = Accepted::default();
    let accepting = accepted.clone();
    let server = handle.add_node("server", move || {
        let accepting = accepting.clone();
        async move {
            let listener = listen(PORT).await;
            while let Ok((stream, _)) = listener.accept().await {
                accepting.0.borrow_mut().push_back(stream);
            }
        }
    });
    assert_eq!(server, SERVER);
    handle.boot(server);
    let played = world.run(scene(Stage { handle, net, accepted }));
    let report = world.report();
    assert_eq!(report.findings.failures, []);
    played.expect("the scene came to its end");
    report
}

/// [`play`] over links that take 1 to 3 ms and do nothing else.
pub(crate) fn play_calm<F: Future<Output = ()> + 'static>(scene: impl FnOnce(Stage) -> F) -> RunReport {
    play(NetConfig::calm(), scene)
}

pub(crate) async fn listen(port: u16) -> TcpListener {
    TcpListener::bind(addr_of(sim_runtime::node::id(), port)).await.expect("the port is free")
}

pub(crate) async fn dial() -> io::Result<TcpStream> {
    TcpStream::connect(addr_of(SERVER, PORT)).await
}

/// `count` bytes that tell their place.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

pub(crate) async fn write(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).await.expect("the stream is open");
}

pub(crate) async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await.expect("so many bytes come");
    bytes
}

/// All until the end of the stream.
pub(crate) async fn read_out(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("the stream comes to its end");
    bytes
}

/// What one read says: how many bytes, or which error.
pub(crate) async fn read_once(stream: &mut TcpStream) -> Result<usize, ErrorKind> {
    stream.read(&mut [0; 100]).await.map_err(|error| error.kind())
}

pub(crate) async fn write_once(stream: &mut TcpStream) -> Result<usize, ErrorKind> {
    stream.write(b"x").await.map_err(|error| error.kind())
}

/// What comes of `future`, and how long it took.
pub(crate) async fn timed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let begin = Instant::now();
    let value = future.await;
    (value, begin.elapsed())
}
