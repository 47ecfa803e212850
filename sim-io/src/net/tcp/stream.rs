//! Streams as programs hold them, under the names of `std::net` and `tokio::net`, with the traits of `futures::io`.
//!
//! A stream belongs to the incarnation that opened it: when that dies its kernel closes or resets it, and a
//! handle that outlives it (in shared memory of a test, say) returns errors and does nothing.
//!
//! Invariants: dropping a stream never waits; what had been written still goes out, unless unread bytes make
//! it a reset.
//! Not here: what happens on the way (`transmit.rs`).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::io::{AsyncRead, AsyncWrite};
use sim_runtime::{Handle, Owner};

use super::connection::Key;
use super::device::Tcp;
use super::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf, into_halves};
use crate::net::addr::{addr_of, node_of};
use crate::net::device::gone;

/// A byte stream to another node, or to the own one.
pub struct TcpStream {
    backend: Backend,
}

/// Where the bytes go. A real network will be a second variant: nothing is chosen by `cfg`.
enum Backend {
    Simulated(Simulated),
}

struct Simulated {
    world: Handle,
    tcp: Rc<Tcp>,
    owner: Owner,
    key: Key,
    local_port: u16,
    peer: SocketAddr,
}

impl TcpStream {
    /// Connects to a listener, from an ephemeral port. Done when the server's kernel has answered, whether or
    /// not its program has accepted.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens there, `TimedOut` when nobody answers for as long as the
    /// configuration says (on Linux: some two minutes), `NetworkUnreachable` outside 10.0.0.0/16, `AddrNotAvailable`
    /// when all ephemeral ports are in use, `NotConnected` for an incarnation that is dead.
    ///
    /// # Panics
    /// Outside a run.
    pub async fn connect(addr: impl Into<SocketAddr>) -> io::Result<Self> {
        Self::connect_within(addr.into(), None).await
    }

    /// [`TcpStream::connect`] with the caller's own patience.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub async fn connect_timeout(addr: impl Into<SocketAddr>, patience: Duration) -> io::Result<Self> {
        Self::connect_within(addr.into(), Some(patience)).await
    }

    async fn connect_within(addr: SocketAddr, patience: Option<Duration>) -> io::Result<Self> {
        let world = Handle::current();
        let owner = world.owner();
        // As Linux takes it, 0.0.0.0 is the caller's own node.
        let node = if addr.ip().is_unspecified() { Some(owner.node) } else { node_of(addr.ip()) };
        let Some(node) = node else { return Err(io::ErrorKind::NetworkUnreachable.into()) };
        if addr.port() == 0 {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if !world.is_live(owner) {
            return Err(gone());
        }
        let tcp = world.device::<Tcp>();
        let (key, port) = tcp.connect(&world, owner, (node, addr.port()), patience)?;
        let stream = Self::simulated(world, tcp, owner, key, (port, addr_of(node, addr.port())));
        poll_fn(|cx| stream.poll_connected(cx)).await?;
        Ok(stream)
    }

    pub(super) fn simulated(
        world: Handle,
        tcp: Rc<Tcp>,
        owner: Owner,
        key: Key,
        (local_port, peer): (u16, SocketAddr),
    ) -> Self {
        Self { backend: Backend::Simulated(Simulated { world, tcp, owner, key, local_port, peer }) }
    }

    fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let Backend::Simulated(stream) = &self.backend;
        let connected = stream.tcp.poll_connected(stream.key, cx);
        if connected.is_pending() {
            stream.world.note_waiting("an answer to connect");
        }
        connected
    }

    /// The own address.
    ///
    /// # Errors
    /// None in a simulation.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let Backend::Simulated(stream) = &self.backend;
        Ok(addr_of(stream.owner.node, stream.local_port))
    }

    /// The address of the other side.
    ///
    /// # Errors
    /// None in a simulation.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let Backend::Simulated(stream) = &self.backend;
        Ok(stream.peer)
    }

    /// Waits until there is something to read, and copies it without taking it; 0 at the end of the stream.
    ///
    /// # Errors
    /// As reading.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Backend::Simulated(stream) = &self.backend;
        poll_fn(|cx| stream.poll_read(cx, buffer, false)).await
    }

    /// Closes the stream by a reset, whatever has been read and written: what `close` does when SO_LINGER is 0.
    pub fn abort(self) {
        let Backend::Simulated(stream) = &self.backend;
        if stream.world.is_live(stream.owner) {
            stream.tcp.abort(&stream.world, stream.key);
        }
    }

    /// A reading and a writing half that borrow the stream. Not called `split`: that name is taken by
    /// `futures::AsyncReadExt`, whose halves own the stream and share it under a lock.
    pub fn split_borrowed(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf { stream: self }, WriteHalf { stream: self })
    }

    /// A reading and a writing half for two tasks. Dropping the writing half ends the stream in that direction.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        into_halves(self)
    }
}

impl Simulated {
    // Stands once, not wherever a program reads: it is large, and has few arguments.
    #[inline(never)]
    fn poll_read(&self, cx: &Context<'_>, buffer: &mut [u8], is_taken: bool) -> Poll<io::Result<usize>> {
        if !self.world.is_live(self.owner) {
            return Poll::Ready(Err(gone()));
        }
        let read = self.tcp.poll_read(&self.world, self.key, cx.waker(), buffer, is_taken);
        if read.is_pending() {
            self.world.note_waiting("bytes of a stream");
        }
        read
    }

    #[inline(never)]
    fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.world.is_live(self.owner) {
            return Poll::Ready(Err(gone()));
        }
        let written = self.tcp.poll_write(&self.world, self.key, cx.waker(), bytes);
        if written.is_pending() {
            self.world.note_waiting("room in a stream");
        }
        written
    }

    fn shut_down_write(&self) -> io::Result<()> {
        if !self.world.is_live(self.owner) {
            return Err(gone());
        }
        self.tcp.shut_down_write(&self.world, self.key)
    }
}

impl AsyncRead for &TcpStream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Backend::Simulated(stream) = &self.backend;
        stream.poll_read(cx, buffer, true)
    }
}

impl AsyncWrite for &TcpStream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Backend::Simulated(stream) = &self.backend;
        stream.poll_write(cx, bytes)
    }

    /// Nothing is held back: a write goes to the kernel.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the stream in this direction, as `shutdown(Write)` does; reading goes on.
    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Backend::Simulated(stream) = &self.backend;
        Poll::Ready(stream.shut_down_write())
    }
}

impl AsyncRead for TcpStream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TcpStream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(cx)
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // The kernel closes the streams of a dead process.
        if self.world.is_live(self.owner) {
            self.tcp.let_go(&self.world, self.key);
        }
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Backend::Simulated(Simulated { owner, local_port, peer, .. }) = &self.backend;
        let local = addr_of(owner.node, *local_port);
        write!(f, "TcpStream({local} -> {peer}, incarnation {})", owner.incarnation)
    }
}
