//! Byte streams over the links of the network: TCP as programs see it.
//!
//! Modules in the order in which a byte passes through them:
//!
//! | module | what it owns |
//! |---|---|
//! | `config` | buffers, patience and whims, as data |
//! | `listener`, `stream`, `split` | what programs hold |
//! | `device` | `Tcp`: calls from handles, timers, nodes that go down |
//! | `ports` | listeners, backlogs, who occupies which port |
//! | `connection` | two ends and two lanes; how an end comes to its end |
//! | `handshake` | how a connection begins |
//! | `transmit` | flights, acknowledgements, windows, sending again |
//! | `lane`, `stretch` | one direction: how far its bytes have come, and the bytes |
//! | `counters`, `dump` | what happened, and what `netstat` would say |
//!
//! What a program can rely on is what Linux gives it. Inside a live stream bytes are never lost, reordered or
//! duplicated: loss becomes delay, a cut stalls the stream, and after healing it goes on with the next
//! retransmission, or the connection has timed out. A write succeeds when its bytes are in the kernel; whether
//! they arrive, nobody says. A peer whose power failed is silent for ever; only who sends finds out.
//!
//! ```
//! use futures::{AsyncReadExt, AsyncWriteExt};
//! use sim_io::net::{TcpListener, TcpStream, addr_of};
//! use sim_runtime::{NodeId, World};
//!
//! let mut world = World::new(7, Default::default());
//! let handle = world.handle();
//! let server = handle.add_node("server", || async {
//!     let listener = TcpListener::bind(addr_of(sim_runtime::node::id(), 80)).await.expect("the port is free");
//!     while let Ok((mut stream, _)) = listener.accept().await {
//!         let mut request = Vec::new();
//!         stream.read_to_end(&mut request).await.expect("the client lives");
//!         stream.write_all(&request).await.expect("the client lives");
//!     }
//! });
//! handle.boot(server);
//! let echoed = world.run(async move {
//!     let mut stream = TcpStream::connect(addr_of(server, 80)).await.expect("it listens");
//!     stream.write_all(b"hello").await.expect("it lives");
//!     stream.close().await.expect("it is open");
//!     let mut answer = Vec::new();
//!     stream.read_to_end(&mut answer).await.expect("it lives");
//!     answer
//! });
//! assert_eq!(echoed.as_deref(), Some(&b"hello"[..]));
//! ```
//!
//! Not here: links, cuts (`net`), options that nothing asks for (`set_nodelay`, urgent data).

mod config;
mod listener;
mod stream;
mod split;
mod device;
mod ports;
mod connection;
mod handshake;
mod transmit;
mod lane;
mod stretch;
mod counters;
mod dump;

pub use config::TcpConfig;
pub use connection::{KILL_RESETS, RESET_DESTROYS, stream_key};
pub(super) use device::Streams;
pub use device::{PARTIAL_READ, PARTIAL_WRITE, Tcp};
pub use listener::{Incoming, TcpListener};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
pub use stream::TcpStream;
