//! The network: addresses, links and what happens to messages on them, datagram sockets, byte streams.
//!
//! Modules in the order in which a datagram passes through them:
//!
//! | module | what it owns |
//! |---|---|
//! | [`config`] | how harsh the links are, as data |
//! | [`addr`] | nodes as IP addresses |
//! | [`udp`] | `UdpSocket`, what a program holds |
//! | [`device`] | `Net`: sending, arriving, a node's ports |
//! | `counts` | what became of datagrams, in numbers |
//! | [`contents`] | what was sent, byte for byte, for one who tells a story |
//! | `wires` | what datagrams and streams share: links, configuration, which machines have power |
//! | `link` | the fate of a message on a link, cuts |
//! | `packet` | datagrams under way and in receive buffers |
//! | `socket` | receive buffers and who waits at them |
//! | `queue` | what is taken in the order in which it came |
//! | [`tcp`] | byte streams over the same links: `TcpListener`, `TcpStream` |
//!
//! ```
//! use sim_io::net::{UdpSocket, addr_of};
//! use sim_runtime::{NodeId, World};
//!
//! let mut world = World::new(7, Default::default());
//! let handle = world.handle();
//! let server = handle.add_node("server", || async {
//!     let socket = UdpSocket::bind(addr_of(sim_runtime::node::id(), 7000)).await.expect("the port is free");
//!     while let Ok((request, from)) = socket.recv().await {
//!         socket.send_to(&request, from).await.expect("the socket lives as long as its node");
//!     }
//! });
//! handle.boot(server);
//! let echoed = world.run(async move {
//!     let socket = UdpSocket::bind(addr_of(NodeId::HOST, 0)).await.expect("an ephemeral port is free");
//!     socket.send_to(b"hello", addr_of(server, 7000)).await.expect("it is short");
//!     socket.recv().await.expect("the socket is alive").0
//! });
//! assert_eq!(echoed.as_deref(), Some(&b"hello"[..]));
//! ```
//!
//! Not here: who cuts links (`nemesis`).

pub mod config;
pub mod addr;
pub mod udp;
pub mod device;
pub mod contents;
pub(crate) mod counts;
mod wires;
mod link;
mod packet;
mod socket;
mod queue;
pub mod tcp;

pub use addr::{addr_of, ip_of, node_of};
pub use config::{Burst, NetConfig};
pub use contents::Contents;
pub use device::Net;
pub use link::{DUPLICATION, LATENCY, LOSS, REORDERING, SLOWNESS, link_key};
pub use std::net::SocketAddr;
pub use tcp::{
    Incoming, OwnedReadHalf, OwnedWriteHalf, ReadHalf, Tcp, TcpConfig, TcpListener, TcpStream, WriteHalf,
};
pub use udp::{MAX_DATAGRAM_BYTES, UdpSocket};
