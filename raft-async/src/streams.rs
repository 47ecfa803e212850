//! Frames over connections, with reconnecting.
//!
//! ```text
//!   transmit ──► Outbox ──task "connection to"──► TcpStream ─ ─ ► TcpStream ──task "connection from"──► Arrivals
//!                  └── no connection: connect first, again after a pause                                  │
//!                                                                                  poll_receive ◄─────────┘
//! ```
//!
//! A connection is opened when there is something to send, and used for one direction by servers among each other: each
//! opens its own. A client is answered on the connection that it asked on. After a connection broke, what it had
//! swallowed is lost; what its peer's kernel had received of it arrives nevertheless, beside what comes over the next
//! one. So messages of different ages and kinds are under way at once, as with datagrams.
//!
//! Invariants: a frame is sent whole, in order, once, or the connection ends; bytes that are no frame end it too; who does
//! not read slows the sender down (back to its outbox, where what does not fit is lost); all tasks end with the
//! [`Streams`].
//! Not here: what is in a frame.

use crate::wire::{self, FRAME_HEADER_BYTES, MAX_FRAME_BYTES};
use futures::io::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{TcpListener, TcpStream};
use sim_runtime::sync::{Notify, race};
use sim_runtime::time::sleep;
use sim_runtime::{JoinHandle, task};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What may wait to be sent on one connection.
const OUTBOX_BYTES: usize = 4 * MAX_FRAME_BYTES;

/// How many frames may wait to be received, of all connections together, before these are read no further.
const ARRIVALS: usize = 1_024;

/// More buffers, or larger ones, are not kept for frames to come.
const KEPT_BUFFERS: usize = 16;
const KEPT_BYTES: usize = 4_096;

/// Bytes of whole frames that are to be sent on one connection.
#[derive(Debug, Default)]
struct Outbox {
    bytes: RefCell<Vec<u8>>,
    filled: Notify,
}

impl Outbox {
    fn push(&self, frame: &[u8]) {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.len() + frame.len() <= OUTBOX_BYTES {
            bytes.extend_from_slice(frame);
            drop(bytes);
            self.filled.notify_one();
        }
    }

    /// Waits until there is something, and swaps it for `empty`, which is.
    async fn take(&self, empty: &mut Vec<u8>) {
        loop {
            std::mem::swap(&mut *self.bytes.borrow_mut(), empty);
            if !empty.is_empty() {
                return;
            }
            self.filled.notified().await;
        }
    }
}

/// Frames that have arrived, with where they came from.
#[derive(Debug, Default)]
struct Arrivals {
    frames: RefCell<VecDeque<(Vec<u8>, SocketAddr)>>,
    /// Buffers of frames that were taken, for the next ones.
    spent: RefCell<Vec<Vec<u8>>>,
    waiting: RefCell<Vec<Waker>>,
    room: Notify,
}

impl Arrivals {
    /// Takes the frame away, and leaves a buffer for the next one.
    async fn push(&self, frame: &mut Vec<u8>, from: SocketAddr) {
        while self.frames.borrow().len() >= ARRIVALS {
            self.room.notified().await;
        }
        let spent = self.spent.borrow_mut().pop().unwrap_or_default();
        self.frames.borrow_mut().push_back((std::mem::replace(frame, spent), from));
        let mut waiting = self.waiting.take();
        waiting.drain(..).for_each(Waker::wake);
        if self.waiting.borrow().is_empty() {
            self.waiting.replace(waiting);
        }
    }

    fn poll_next(&self, cx: &mut Context<'_>, frame: &mut Vec<u8>) -> Poll<SocketAddr> {
        let next = self.frames.borrow_mut().pop_front();
        match next {
            Some((arrived, from)) => {
                let spent = std::mem::replace(frame, arrived);
                let mut buffers = self.spent.borrow_mut();
                if buffers.len() < KEPT_BUFFERS && spent.capacity() <= KEPT_BYTES {
                    buffers.push(spent);
                }
                self.room.notify_one();
                Poll::Ready(from)
            }
            None => {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

/// A connection, or the intention to have one.
#[derive(Debug)]
struct Connection {
    outbox: Rc<Outbox>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// By the peer's address.
type Connections = Rc<RefCell<BTreeMap<SocketAddr, Connection>>>;

/// All connections of a server or a client.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Who is connected to when there is something to send.
    servers: Vec<SocketAddr>,
    patience: Duration,
    outgoing: Connections,
    incoming: Connections,
    arrivals: Rc<Arrivals>,
    acceptor: Option<JoinHandle<()>>,
}

impl Streams {
    /// Without a listener. A server that does not answer for `patience` is tried again after an eighth of that.
    pub(crate) fn new(servers: &[SocketAddr], patience: Duration) -> Self {
        Self {
            servers: servers.to_vec(),
            patience,
            outgoing: Rc::default(),
            incoming: Rc::default(),
            arrivals: Rc::default(),
            acceptor: None,
        }
    }

    /// Takes connections at `own`.
    pub(crate) async fn listen(
        own: SocketAddr,
        servers: &[SocketAddr],
        patience: Duration,
    ) -> io::Result<Self> {
        let mut streams = Self::new(servers, patience);
        let listener = TcpListener::bind(own).await?;
        let (incoming, arrivals) = (streams.incoming.clone(), streams.arrivals.clone());
        streams.acceptor = Some(task("acceptor").spawn(accept(listener, incoming, arrivals)));
        Ok(streams)
    }

    pub(crate) fn transmit(&self, frame: &[u8], to: SocketAddr) {
        if let Some(connection) = self.incoming.borrow().get(&to) {
            return connection.outbox.push(frame);
        }
        if !self.servers.contains(&to) {
            // A client whose connection is gone. It asks again on another one.
            return;
        }
        let mut outgoing = self.outgoing.borrow_mut();
        let connection = outgoing.entry(to).or_insert_with(|| {
            let outbox = Rc::new(Outbox::default());
            let key = u64::from(to.port()) << 32 | u64::from(ip_bits(to));
            let task = task("connection to").key(key).spawn(keep_connected(
                to,
                self.patience,
                outbox.clone(),
                self.arrivals.clone(),
            ));
            Connection { outbox, task }
        });
        connection.outbox.push(frame);
    }

    pub(crate) fn poll_receive(&self, cx: &mut Context<'_>, frame: &mut Vec<u8>) -> Poll<SocketAddr> {
        self.arrivals.poll_next(cx, frame)
    }
}

impl Drop for Streams {
    /// The tasks hold the lists in which they stand: these are taken apart here.
    fn drop(&mut self) {
        if let Some(acceptor) = &self.acceptor {
            acceptor.abort();
        }
        drop((self.outgoing.take(), self.incoming.take()));
    }
}

fn ip_bits(at: SocketAddr) -> u32 {
    match at {
        SocketAddr::V4(at) => at.ip().to_bits(),
        SocketAddr::V6(_) => 0,
    }
}

/// Takes connections for ever.
async fn accept(listener: TcpListener, incoming: Connections, arrivals: Rc<Arrivals>) {
    // A listener fails only when its incarnation is gone, and this task with it.
    while let Ok((stream, from)) = listener.accept().await {
        let outbox = Rc::new(Outbox::default());
        let carrying = {
            let (incoming, arrivals, outbox) = (incoming.clone(), arrivals.clone(), outbox.clone());
            async move {
                carry(&stream, from, &outbox, &arrivals).await;
                forget(&incoming, from, &outbox);
            }
        };
        let key = u64::from(from.port()) << 32 | u64::from(ip_bits(from));
        let task = task("connection from").key(key).spawn(carrying);
        let before = incoming.borrow_mut().insert(from, Connection { outbox, task });
        drop(before);
    }
}

/// A connection has ended. Its peer may have opened another one from the same port since.
fn forget(connections: &Connections, peer: SocketAddr, outbox: &Rc<Outbox>) {
    let gone = {
        let mut connections = connections.borrow_mut();
        let is_same = connections.get(&peer).is_some_and(|known| Rc::ptr_eq(&known.outbox, outbox));
        if is_same { connections.remove(&peer) } else { None }
    };
    drop(gone);
}

/// Connects whenever there is something to send, for ever.
async fn keep_connected(to: SocketAddr, patience: Duration, outbox: Rc<Outbox>, arrivals: Rc<Arrivals>) {
    loop {
        if outbox.bytes.borrow().is_empty() {
            outbox.filled.notified().await;
            continue;
        }
        match TcpStream::connect_timeout(to, patience).await {
            Ok(stream) => carry(&stream, to, &outbox, &arrivals).await,
            // Whoever sent these sends newer ones by the time somebody listens.
            Err(_) => outbox.bytes.borrow_mut().clear(),
        }
        sleep(patience / 8).await;
    }
}

/// Carries frames both ways until the connection ends, for whatever reason.
async fn carry(stream: &TcpStream, peer: SocketAddr, outbox: &Outbox, arrivals: &Arrivals) {
    let _ = race(read(stream, peer, arrivals), write(stream, outbox)).await;
}

async fn write(mut stream: &TcpStream, outbox: &Outbox) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        outbox.take(&mut bytes).await;
        stream.write_all(&bytes).await?;
        bytes.clear();
    }
}

async fn read(mut stream: &TcpStream, from: SocketAddr, arrivals: &Arrivals) -> io::Result<()> {
    let mut frame = Vec::new();
    loop {
        let mut header = [0; FRAME_HEADER_BYTES];
        stream.read_exact(&mut header).await?;
        let body = wire::body_bytes(header).map_err(|wire::Malformed| io::ErrorKind::InvalidData)?;
        frame.clear();
        frame.extend_from_slice(&header);
        frame.resize(FRAME_HEADER_BYTES + body, 0);
        stream.read_exact(&mut frame[FRAME_HEADER_BYTES..]).await?;
        arrivals.push(&mut frame, from).await;
    }
}
