//! Sockets from the network's side: a node's ports, receive buffers and who waits at them.
//!
//! Invariants: a port of a node has at most one socket; the sockets of an incarnation go with it, whether or
//! not somebody still holds a handle.

use std::io;
use std::task::Waker;

use sim_runtime::{Handle, NodeId, Owner};
use slab::Slab;

use super::queue::Queue;

/// Where ports that the network chooses begin.
const FIRST_EPHEMERAL: u16 = 49_152;

/// What a datagram takes in a receive buffer beside its bytes.
pub(super) const OVERHEAD_BYTES: usize = 256;

/// Names a socket. A stale key is recognised.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct SocketKey {
    slot: u32,
    serial: u64,
}

/// A bound socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) owner: Owner,
    pub(super) port: u16,
    serial: u64,
    /// Slots of datagrams that nobody has taken yet.
    pub(super) queue: Queue<u32>,
    pub(super) queued_bytes: usize,
    pub(super) waiting: Waiting,
}

/// Who waits for a datagram: nearly always one task.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Waiting {
    #[inline]
    pub(super) fn add(&mut self, waker: &Waker) {
        match &self.first {
            None => self.first = Some(waker.clone()),
            Some(first) if first.will_wake(waker) => {}
            Some(_) => {
                if !self.others.iter().any(|other| other.will_wake(waker)) {
                    self.others.push(waker.clone());
                }
            }
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // `others` are only there beside a first.
        self.first.is_none()
    }

    /// Takes all who wait out, to be woken outside borrows.
    #[inline]
    pub(super) fn move_to(&mut self, woken: &mut Woken) {
        if let Some(first) = self.first.take() {
            woken.add(first);
            if !self.others.is_empty() {
                self.others.drain(..).for_each(|waker| woken.add(waker));
            }
        }
    }

    /// Takes all who wait out, to be woken outside borrows.
    #[inline]
    pub(super) fn take(&mut self) -> Woken {
        if self.others.is_empty() {
            return Woken { first: self.first.take(), others: None };
        }
        Woken { first: self.first.take(), others: Some(std::mem::take(&mut self.others).into()) }
    }
}

/// Who is to be woken. Small, since it is made for every datagram.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Woken {
    first: Option<Waker>,
    others: Option<Box<[Waker]>>,
}

impl Woken {
    #[inline]
    fn add(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.add_other(waker);
        }
    }

    #[cold]
    fn add_other(&mut self, waker: Waker) {
        let others = self.others.take().unwrap_or_default();
        self.others = Some(others.into_iter().chain([waker]).collect());
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // `others` are only there beside a first.
        self.first.is_none()
    }

    /// Wakes all. Only outside borrows.
    #[inline]
    pub(super) fn wake(self, world: &Handle) {
        if let Some(waker) = self.first {
            world.wake(waker);
        }
        if let Some(others) = self.others {
            others.into_iter().for_each(|waker| world.wake(waker));
        }
    }
}

/// Ports of one node, sorted.
#[derive(Debug, Default)]
struct Ports {
    bound: Vec<(u16, u32)>,
    next_ephemeral: u16,
}

/// All sockets of a world.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    sockets: Slab<Socket>,
    nodes: Vec<Ports>,
    bound: u64,
}

impl Sockets {
    /// Binds `port`, or one of the network's choosing for 0.
    pub(super) fn bind(&mut self, owner: Owner, port: u16) -> io::Result<SocketKey> {
        let node = owner.node.index();
        if self.nodes.len() <= node {
            self.nodes.resize_with(node + 1, Ports::default);
        }
        let ports = &mut self.nodes[node];
        let port = if port == 0 { ports.choose()? } else { port };
        let Err(at) = ports.find(port) else { return Err(io::ErrorKind::AddrInUse.into()) };
        let serial = self.bound;
        self.bound += 1;
        let socket = Socket {
            owner,
            port,
            serial,
            queue: Queue::default(),
            queued_bytes: 0,
            waiting: Waiting::default(),
        };
        let slot = u32::try_from(self.sockets.insert(socket)).expect("fewer than 2^32 sockets are bound");
        ports.bound.insert(at, (port, slot));
        Ok(SocketKey { slot, serial })
    }

    /// The socket behind a handle; `None` when it is gone.
    #[inline]
    pub(super) fn get(&mut self, key: SocketKey) -> Option<&mut Socket> {
        self.sockets.get_mut(key.slot as usize).filter(|socket| socket.serial == key.serial)
    }

    /// The socket at a port.
    #[inline]
    pub(super) fn at(&mut self, node: NodeId, port: u16) -> Option<&mut Socket> {
        let ports = self.nodes.get(node.index())?;
        let at = ports.find(port).ok()?;
        Some(&mut self.sockets[ports.bound[at].1 as usize])
    }

    /// Takes a socket out, to be dropped outside borrows.
    pub(super) fn close(&mut self, key: SocketKey) -> Option<Socket> {
        let owner = self.get(key)?.owner;
        let socket = self.sockets.remove(key.slot as usize);
        let ports = &mut self.nodes[owner.node.index()];
        ports.bound.retain(|(_, slot)| *slot != key.slot);
        Some(socket)
    }

    /// Takes all sockets of a node out, to be dropped outside borrows.
    pub(super) fn close_all(&mut self, node: NodeId) -> Vec<Socket> {
        let Some(ports) = self.nodes.get_mut(node.index()) else { return Vec::new() };
        let bound = std::mem::take(&mut ports.bound);
        bound.into_iter().map(|(_, slot)| self.sockets.remove(slot as usize)).collect()
    }

    /// All sockets by node and port.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Socket> {
        let bound = self.nodes.iter().flat_map(|ports| &ports.bound);
        bound.map(|(_, slot)| &self.sockets[*slot as usize])
    }

    /// Takes everything, for the end of a world.
    pub(super) fn clear(&mut self) -> Slab<Socket> {
        self.nodes.clear();
        std::mem::take(&mut self.sockets)
    }
}

impl Ports {
    /// Where a port stands, or would. Ports that the network chose mostly follow each other, and a server has the lowest:
    /// both are looked at before a search, each step of which has to wait for the one before.
    #[inline]
    fn find(&self, port: u16) -> Result<usize, usize> {
        if let [(first, _), .., (last, _)] = self.bound[..] {
            let from_the_end = usize::from(last.wrapping_sub(port)) + 1;
            let guess = if port == first { Some(0) } else { self.bound.len().checked_sub(from_the_end) };
            if let Some(at) = guess
                && self.bound[at].0 == port
            {
                return Ok(at);
            }
        }
        self.bound.binary_search_by_key(&port, |(port, _)| *port)
    }

    /// Ephemeral ports go round, so that a port is not used again at once: a late answer to its former owner
    /// does not reach the next one.
    fn choose(&mut self) -> io::Result<u16> {
        for _ in FIRST_EPHEMERAL..=u16::MAX {
            let port = self.next_ephemeral.max(FIRST_EPHEMERAL);
            self.next_ephemeral = port.wrapping_add(1);
            if self.find(port).is_err() {
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}
