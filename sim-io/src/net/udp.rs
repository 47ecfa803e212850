//! Datagram sockets as programs hold them, under the names of `std::net` and `tokio::net`.
//!
//! A socket belongs to the incarnation that bound it: when that dies the socket is gone, and a handle that
//! outlives it (in shared memory of a test, say) returns errors and does nothing.
//!
//! Invariants: sending never waits; a datagram is received whole, once per copy, and cut off at the end of
//! the caller's buffer as UDP does; nobody learns of a datagram that did not arrive.
//! Not here: the way of a datagram (`device.rs`).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use sim_runtime::{Handle, NodeId, Owner};

use super::addr::{addr_of, node_of};
use super::device::{Inbound, Letter, Net, Received, gone};
use super::socket::SocketKey;

/// What fits into one datagram over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// A bound datagram socket.
pub struct UdpSocket {
    backend: Backend,
}

/// Where the datagrams go. A real network will be a second variant: nothing is chosen by `cfg`.
enum Backend {
    Simulated(Simulated),
}

struct Simulated {
    world: Handle,
    net: Rc<Net>,
    owner: Owner,
    key: SocketKey,
    port: u16,
}

impl UdpSocket {
    /// Binds a port of the caller's node: its own address or 0.0.0.0, and any free port from 49,152 on for
    /// port 0.
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
        let net = world.device::<Net>();
        let (key, port) = net.bind(owner, addr.port())?;
        Ok(Self { backend: Backend::Simulated(Simulated { world, net, owner, key, port }) })
    }

    /// The address that others reach this socket under.
    ///
    /// # Errors
    /// None in a simulation.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let Backend::Simulated(socket) = &self.backend;
        Ok(addr_of(socket.owner.node, socket.port))
    }

    /// Sends `bytes` as one datagram. Success says that it left, not that it arrives.
    ///
    /// # Errors
    /// EMSGSIZE above 65,507 bytes, `InvalidInput` for port 0, `NetworkUnreachable` outside 10.0.0.0/16,
    /// `NotConnected` when the incarnation that bound the socket is dead.
    // Not `async`, which would add a state to look up at every poll; nor are `recv_from` and `recv`.
    pub fn send_to(
        &self,
        bytes: &[u8],
        to: impl Into<SocketAddr>,
    ) -> impl Future<Output = io::Result<usize>> {
        let to = to.into();
        let mut socket = Some(self);
        poll_fn(move |_| Poll::Ready(socket.take().expect(ENDED).try_send_to(bytes, to)))
    }

    /// [`UdpSocket::send_to`] without `await`: sending never waits.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`].
    #[inline]
    pub fn try_send_to(&self, bytes: &[u8], to: impl Into<SocketAddr>) -> io::Result<usize> {
        let Backend::Simulated(socket) = &self.backend;
        socket.send_to(bytes, to.into())
    }

    /// Waits for a datagram, copies what fits into `buffer` and returns how much that is, and the sender.
    ///
    /// # Errors
    /// `NotConnected` when the incarnation that bound the socket is dead.
    pub fn recv_from(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> {
        once(self, move |socket, cx| socket.poll_recv_from(cx, buffer))
    }

    /// Waits for a datagram and returns it whole, and the sender.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn recv(&self) -> impl Future<Output = io::Result<(Vec<u8>, SocketAddr)>> {
        once(self, |socket, cx| {
            let Backend::Simulated(socket) = &socket.backend;
            socket.poll_receive(Some(cx.waker()), |datagram| datagram.take_bytes())
        })
    }

    /// [`UdpSocket::recv_from`] for futures written by hand.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    #[inline]
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let Backend::Simulated(socket) = &self.backend;
        socket.poll_receive(Some(cx.waker()), |datagram| copy(datagram, buffer))
    }

    /// Polls for the next datagram, which replaces what `buffer` held. Unlike [`UdpSocket::poll_recv_from`] it needs
    /// no room beforehand and cuts nothing off.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn poll_recv_into(&self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<SocketAddr>> {
        let Backend::Simulated(socket) = &self.backend;
        let take = |datagram: &mut Inbound<'_>| datagram.swap_bytes(buffer);
        socket.poll_receive(Some(cx.waker()), take).map_ok(|((), from)| from)
    }

    /// [`UdpSocket::recv_from`] if a datagram is there already.
    ///
    /// # Errors
    /// `WouldBlock` if none is, else as [`UdpSocket::recv_from`].
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let Backend::Simulated(socket) = &self.backend;
        match socket.poll_receive(None, |datagram| copy(datagram, buffer)) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// What a future says that is polled after its end, as one of an `async fn` would.
const ENDED: &str = "a future of a socket is not polled after its end";

/// The future of `poll`, which ends once.
#[inline]
fn once<T>(
    socket: &UdpSocket,
    mut poll: impl FnMut(&UdpSocket, &mut Context<'_>) -> Poll<T>,
) -> impl Future<Output = T> {
    let mut socket = Some(socket);
    poll_fn(move |cx| {
        let polled = poll(socket.expect(ENDED), cx);
        if polled.is_ready() {
            socket = None;
        }
        polled
    })
}

#[inline]
fn copy(datagram: &mut Inbound<'_>, buffer: &mut [u8]) -> usize {
    let bytes = datagram.bytes();
    let fits = bytes.len().min(buffer.len());
    buffer[..fits].copy_from_slice(&bytes[..fits]);
    fits
}

impl Simulated {
    #[inline]
    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        if bytes.len() > MAX_DATAGRAM_BYTES {
            return Err(message_too_long());
        }
        let Some(node) = node_of(to.ip()) else { return Err(io::ErrorKind::NetworkUnreachable.into()) };
        if to.port() == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !self.world.is_live(self.owner) {
            return Err(gone());
        }
        let letter = Letter { from: self.owner, from_port: self.port, to: node, to_port: to.port(), bytes };
        self.net.send(&self.world, &letter);
        Ok(bytes.len())
    }

    #[inline]
    fn poll_receive<T>(
        &self,
        waker: Option<&Waker>,
        take: impl FnOnce(&mut Inbound<'_>) -> T,
    ) -> Poll<io::Result<(T, SocketAddr)>> {
        // The device drops the sockets of a dead incarnation, so a socket that is there is alive.
        let received = self.net.receive(self.key, waker, take);
        if received.is_pending() {
            self.world.note_waiting("a datagram");
        }
        let with_addr = |(value, node, port): Received<T>| (value, addr_of(node, port));
        received.map(|result| result.map(with_addr))
    }
}

/// Linux's EMSGSIZE, on whatever system the simulation runs.
#[cold]
fn message_too_long() -> io::Error {
    const EMSGSIZE: i32 = 90;
    io::Error::from_raw_os_error(EMSGSIZE)
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.net.close(self.key);
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backend::Simulated(Simulated { owner: Owner { node, incarnation }, port, .. }) = &self.backend;
        let NodeId(number) = node;
        write!(f, "UdpSocket({}, node {number}, incarnation {incarnation})", addr_of(*node, *port))
    }
}
