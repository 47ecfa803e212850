//! What carries frames: datagrams, or connections. Chosen by configuration; nobody else knows which.
//!
//!   frame ──transmit──► Link ──► socket or connection ─ ─ ─► Link ──poll_receive──► frame, and where it came from
//!
//! Sending never waits and never fails as far as a sender is concerned: what is lost is sent again by whoever still needs
//! it. An answer goes back to the address that the question came from; on connections that means on the same one.
//!
//! Not here: what is in a frame (`wire.rs`), connections (`streams.rs`).

use crate::streams::Streams;
use crate::wire::MAX_FRAME_BYTES;
use serde::{Deserialize, Serialize};
use sim_io::net::{MAX_DATAGRAM_BYTES, UdpSocket};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

/// How servers and clients are connected.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// One datagram a frame (UDP).
    #[default]
    Datagrams,
    /// Connections (TCP): from each server to each other one, and from each client to the servers that it asks.
    Streams,
}

impl Carrier {
    const NAMES: [(&'static str, Self); 2] = [("udp", Self::Datagrams), ("tcp", Self::Streams)];
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].0)
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, carrier)| *carrier).ok_or_else(|| "neither udp nor tcp".to_owned())
    }
}

/// One end of everything that a server or a client sends and receives.
#[derive(Debug)]
pub(crate) enum Link {
    Datagrams(UdpSocket),
    Streams(Streams),
}

impl Link {
    /// The end of a server, which is reached at `own` and sends to `servers` of its own accord. A server that does not
    /// take a connection within `patience` is tried again.
    pub(crate) async fn listen(
        carrier: Carrier,
        own: SocketAddr,
        servers: &[SocketAddr],
        patience: Duration,
    ) -> io::Result<Self> {
        Ok(match carrier {
            Carrier::Datagrams => Self::Datagrams(UdpSocket::bind(own).await?),
            Carrier::Streams => Self::Streams(Streams::listen(own, servers, patience).await?),
        })
    }

    /// The end of a client, which is answered and never asked.
    pub(crate) async fn open(
        carrier: Carrier,
        servers: &[SocketAddr],
        patience: Duration,
    ) -> io::Result<Self> {
        Ok(match carrier {
            Carrier::Datagrams => {
                Self::Datagrams(UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).await?)
            }
            Carrier::Streams => Self::Streams(Streams::new(servers, patience)),
        })
    }

    /// What cannot be sent is lost, as it could be anywhere on its way.
    pub(crate) fn transmit(&self, frame: &[u8], to: SocketAddr) {
        match self {
            Self::Datagrams(socket) => {
                let _ = socket.try_send_to(frame, to);
            }
            Self::Streams(streams) => streams.transmit(frame, to),
        }
    }

    /// Polls for the next frame, which replaces what `frame` held.
    ///
    /// # Errors
    /// When the incarnation that opened the link is dead.
    pub(crate) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        frame: &mut Vec<u8>,
    ) -> Poll<io::Result<SocketAddr>> {
        match self {
            Self::Datagrams(socket) => socket.poll_recv_into(cx, frame),
            Self::Streams(streams) => streams.poll_receive(cx, frame).map(Ok),
        }
    }
}

const _: () = assert!(MAX_FRAME_BYTES <= MAX_DATAGRAM_BYTES);
