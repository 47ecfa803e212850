//! Listening sockets as programs hold them, under the names of `std::net` and `tokio::net`.
//!
//! Invariants: a listener belongs to the incarnation that bound it, and is inert when that is dead; a connection
//! that nobody accepted is reset when its listener goes.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures::Stream;
use sim_runtime::{Handle, Owner};

use super::device::Tcp;
use super::ports::ListenerKey;
use super::stream::TcpStream;
use crate::net::addr::{addr_of, node_of};
use crate::net::device::gone;

/// A port at which connections are accepted.
pub struct TcpListener {
    backend: Backend,
}

/// Where the connections come from. A real network will be a second variant: nothing is chosen by `cfg`.
enum Backend {
    Simulated(Simulated),
}

struct Simulated {
    world: Handle,
    tcp: Rc<Tcp>,
    owner: Owner,
    key: ListenerKey,
    port: u16,
}

impl TcpListener {
    /// Listens at a port of the caller's node: its own address or 0.0.0.0, and any free port from 49,152 on for
    /// port 0. A port whose listener is gone is free at once, as with SO_REUSEADDR. From now on clients can
    /// connect, whether or not anybody accepts.
    ///
    /// # Errors
    /// `AddrInUse`, and `AddrNotAvailable` for an address of another node.
    ///
    /// # Panics
    /// Outside a run.
    pub async fn bind(addr: impl Into<SocketAddr>) -> io::Result<Self> {
        let addr = addr.into();
        let world = Handle::current();
        let owner = world.owner();
        if !addr.ip().is_unspecified() && node_of(addr.ip()) != Some(owner.node) || !addr.is_ipv4() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if !world.is_live(owner) {
            return Err(gone());
        }
        let tcp = world.device::<Tcp>();
        let (key, port) = tcp.bind(owner, addr.port())?;
        Ok(Self { backend: Backend::Simulated(Simulated { world, tcp, owner, key, port }) })
    }

    /// Waits for a connection; returns it and the client's address.
    ///
    /// # Errors
    /// `NotConnected` when the incarnation that bound the listener is dead.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// [`TcpListener::accept`] for futures written by hand.
    ///
    /// # Errors
    /// As [`TcpListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let Backend::Simulated(listener) = &self.backend;
        listener.poll_accept(cx)
    }

    /// All connections, one after the other; it never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address that others reach this listener under.
    ///
    /// # Errors
    /// None in a simulation.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let Backend::Simulated(listener) = &self.backend;
        Ok(addr_of(listener.owner.node, listener.port))
    }
}

impl Simulated {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        if !self.world.is_live(self.owner) {
            return Poll::Ready(Err(gone()));
        }
        let accepted = self.tcp.poll_accept(self.key, cx);
        if accepted.is_pending() {
            self.world.note_waiting("a connection to accept");
        }
        accepted.map_ok(|(key, client, client_port)| {
            let (world, tcp) = (self.world.clone(), self.tcp.clone());
            let peer = addr_of(client, client_port);
            (TcpStream::simulated(world, tcp, self.owner, key, (self.port, peer)), peer)
        })
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // The kernel closes the listeners of a dead process.
        if self.world.is_live(self.owner) {
            self.tcp.close_listener(&self.world, self.key);
        }
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backend::Simulated(Simulated { owner, port, .. }) = &self.backend;
        write!(f, "TcpListener({}, incarnation {})", addr_of(owner.node, *port), owner.incarnation)
    }
}

/// See [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Stream for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.listener.poll_accept(cx).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
    }
}
