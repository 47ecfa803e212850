//! The ports of streams: who listens where, which ports clients occupy, who waits to be accepted.
//!
//! A port that a listener let go of can be bound at once, whatever connections it had (what SO_REUSEADDR gives on
//! Linux, and what servers set). Ports of datagram sockets are others.
//!
//! Invariants: a port of a node has at most one listener; a port that a client occupies has none; the listeners
//! of an incarnation go with it; the choice of ephemeral ports goes on over restarts, so that a port is not used
//! again at once.

use std::collections::VecDeque;
use std::io;

use sim_runtime::{Handle, NodeId, Owner};
use slab::Slab;

use super::connection::Key;
use crate::net::socket::Waiting;

/// Where ports that the kernel chooses begin.
const FIRST_EPHEMERAL: u16 = 49_152;

/// Names a listener. A stale key is recognised.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct ListenerKey {
    slot: u32,
    serial: u64,
}

/// A port at which connections are accepted.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) owner: Owner,
    pub(super) port: u16,
    serial: u64,
    /// Connections that have answered a first segment and not heard back.
    pub(super) half_done: u32,
    /// Established, and accepted by nobody yet.
    pub(super) queue: VecDeque<Key>,
    pub(super) waiting: Waiting,
}

/// Ports of one node, sorted.
#[derive(Debug, Default)]
struct Ports {
    listening: Vec<(u16, u32)>,
    occupied: Vec<u16>,
    next_ephemeral: u16,
}

/// All listeners of a world, and the ports of all nodes.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    listeners: Slab<Listener>,
    nodes: Vec<Ports>,
    bound: u64,
}

impl Listeners {
    fn ports(&mut self, node: NodeId) -> &mut Ports {
        if self.nodes.len() <= node.index() {
            self.nodes.resize_with(node.index() + 1, Ports::default);
        }
        &mut self.nodes[node.index()]
    }

    /// Listens at `port`, or at one of the kernel's choosing for 0.
    pub(super) fn bind(&mut self, owner: Owner, port: u16) -> io::Result<(ListenerKey, u16)> {
        let ports = self.ports(owner.node);
        let port = if port == 0 { ports.choose()? } else { port };
        if ports.is_taken(port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let serial = self.bound;
        self.bound += 1;
        let listener = Listener {
            owner,
            port,
            serial,
            half_done: 0,
            queue: VecDeque::new(),
            waiting: Waiting::default(),
        };
        let slot = u32::try_from(self.listeners.insert(listener)).expect("fewer than 2^32 listeners");
        let listening = &mut self.ports(owner.node).listening;
        let at = listening.partition_point(|(other, _)| *other < port);
        listening.insert(at, (port, slot));
        Ok((ListenerKey { slot, serial }, port))
    }

    /// Occupies an ephemeral port for a client.
    pub(super) fn occupy(&mut self, node: NodeId) -> io::Result<u16> {
        let ports = self.ports(node);
        let port = ports.choose()?;
        let at = ports.occupied.partition_point(|other| *other < port);
        ports.occupied.insert(at, port);
        Ok(port)
    }

    pub(super) fn release(&mut self, node: NodeId, port: u16) {
        let occupied = &mut self.ports(node).occupied;
        if let Ok(at) = occupied.binary_search(&port) {
            occupied.remove(at);
        }
    }

    /// The listener behind a handle; `None` when it is gone.
    pub(super) fn get(&mut self, key: ListenerKey) -> Option<&mut Listener> {
        self.listeners.get_mut(key.slot as usize).filter(|listener| listener.serial == key.serial)
    }

    /// Who listens at a port.
    pub(super) fn at(&self, node: NodeId, port: u16) -> Option<ListenerKey> {
        let listening = &self.nodes.get(node.index())?.listening;
        let at = listening.binary_search_by_key(&port, |(port, _)| *port).ok()?;
        let slot = listening[at].1;
        Some(ListenerKey { slot, serial: self.listeners[slot as usize].serial })
    }

    /// Takes a listener out.
    pub(super) fn close(&mut self, key: ListenerKey) -> Option<Listener> {
        let node = self.get(key)?.owner.node;
        self.ports(node).listening.retain(|(_, slot)| *slot != key.slot);
        Some(self.listeners.remove(key.slot as usize))
    }

    /// Takes all listeners of a node out.
    pub(super) fn close_all(&mut self, node: NodeId) -> Vec<(ListenerKey, Listener)> {
        let listening = std::mem::take(&mut self.ports(node).listening);
        let take = |(_, slot)| {
            let listener = self.listeners.remove(slot as usize);
            (ListenerKey { slot, serial: listener.serial }, listener)
        };
        listening.into_iter().map(take).collect()
    }

    /// All listeners by node and port.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Listener> {
        let listening = self.nodes.iter().flat_map(|ports| &ports.listening);
        listening.map(|(_, slot)| &self.listeners[*slot as usize])
    }
}

impl Listener {
    /// Wakes who waits, to learn that it is gone. Only outside borrows.
    pub(super) fn wake(mut self, world: &Handle) {
        self.waiting.take().wake(world);
    }
}

impl Ports {
    fn is_taken(&self, port: u16) -> bool {
        self.listening.binary_search_by_key(&port, |(port, _)| *port).is_ok()
            || self.occupied.binary_search(&port).is_ok()
    }

    fn choose(&mut self) -> io::Result<u16> {
        for _ in FIRST_EPHEMERAL..=u16::MAX {
            let port = self.next_ephemeral.max(FIRST_EPHEMERAL);
            self.next_ephemeral = port.wrapping_add(1);
            if !self.is_taken(port) {
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrNotAvailable.into())
    }
}
