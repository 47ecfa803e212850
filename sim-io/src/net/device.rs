//! `Net`: the device that carries datagrams.
//!
//!   send ──► link says: lost, or arrives at t (and a copy at u) ──timer──► arrive ──► receive buffer ──► wake
//!
//! A datagram is lost to a cut when its link is cut at the moment when it is sent or at the moment when it
//! would arrive. A cut that begins and ends in between does not touch it; one that is healed before it arrives
//! lets it through only if it was sent before the cut. What reaches a frozen machine waits in the ring of its
//! network card until it goes on; what does not fit there is lost.
//!
//! Invariants: a sent datagram leaves a `DatagramSent` and, for itself and each copy, exactly one of
//! `DatagramDelivered` and `DatagramLost` (unless the run ends before); nothing is allocated per datagram once
//! buffers have grown.
//! Not here: what a link does (`link.rs`), when links are cut (`nemesis`).

use std::collections::VecDeque;
use std::io;
use std::task::{Poll, Waker};

use sim_runtime::device::{Coverage, Device, DeviceId};
use sim_runtime::rng::hash_bytes;
use sim_runtime::trace::Down;
use sim_runtime::{Handle, NodeId, Owner};

use super::addr::addr_of;
use super::config::{Burst, NetConfig};
use super::contents::Contents;
use super::counts::Counts;
use super::packet::{COPY, Header, Packet, Packets};
use super::socket::{OVERHEAD_BYTES, Socket, SocketKey, Sockets, Woken};
use super::wires::{Network, SharedNetwork, Wires};
use crate::records::{DatagramDelivered, DatagramSent, Lost};

/// The network of a world: `handle.device::<Net>()`.
#[derive(Debug)]
pub struct Net {
    network: SharedNetwork,
}

/// Sockets, and what is under way to them.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    packets: Packets,
    sockets: Sockets,
    /// Machines that stand still, and what waits in the rings of their network cards.
    frozen: Vec<(NodeId, VecDeque<u32>)>,
    counts: Counts,
}

/// How many datagrams the ring of a network card holds: the default of virtio-net.
const RING: usize = 256;

/// A datagram that somebody sends.
pub(super) struct Letter<'a> {
    pub(super) from: Owner,
    pub(super) from_port: u16,
    pub(super) to: NodeId,
    pub(super) to_port: u16,
    pub(super) bytes: &'a [u8],
}

/// What was received, and from which port of which node.
pub(super) type Received<T> = (T, NodeId, u16);

impl Net {
    /// Sets how harsh the links are from now on.
    pub fn configure(&self, config: NetConfig) {
        let wires = &mut self.network.borrow_mut().wires;
        wires.config = config;
        wires.links.forget_conditions();
    }

    /// How harsh the links are.
    pub fn config(&self) -> NetConfig {
        self.network.borrow().wires.config
    }

    /// Keeps a copy of all that is sent from now on, on streams too, for one who tells the run's story.
    pub fn keep_contents(&self) {
        self.network.borrow_mut().wires.contents.get_or_insert_default();
    }

    /// What was kept since [`Net::keep_contents`]; nothing more is kept.
    pub fn take_contents(&self) -> Contents {
        self.network.borrow_mut().wires.contents.take().map(|contents| *contents).unwrap_or_default()
    }

    /// Cuts the link from `from` to `to`, in this direction. Cuts count: the link is open again when each has
    /// been healed.
    ///
    /// # Panics
    /// If `from` is `to`.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        let wires = &mut self.network.borrow_mut().wires;
        wires.links.cut(from, to);
        wires.cuts_made += 1;
    }

    /// Takes one cut back.
    ///
    /// # Panics
    /// If the link is not cut.
    pub fn heal(&self, from: NodeId, to: NodeId) {
        self.network.borrow_mut().wires.links.heal(from, to);
    }

    /// Takes all cuts back, also those of faults that are under way.
    pub fn heal_all(&self) {
        self.network.borrow_mut().wires.links.heal_all();
    }

    /// From now on until [`Net::calm`], `fault` does this to the link from `from` to `to`, in this direction.
    ///
    /// # Panics
    /// If `from` is `to`.
    pub fn burst(&self, fault: u64, from: NodeId, to: NodeId, burst: Burst) {
        self.network.borrow_mut().wires.links.burst(fault, from, to, burst);
    }

    /// Ends all bursts of `fault`.
    pub fn calm(&self, fault: u64) {
        self.network.borrow_mut().wires.links.calm(fault);
    }

    /// Whether messages from `from` to `to` are cut off now.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.network.borrow().wires.links.is_cut(from, to)
    }

    /// For streams.
    pub(super) fn network(&self) -> SharedNetwork {
        self.network.clone()
    }

    pub(super) fn bind(&self, owner: Owner, port: u16) -> io::Result<(SocketKey, u16)> {
        let sockets = &mut self.network.borrow_mut().datagrams.sockets;
        let key = sockets.bind(owner, port)?;
        let port = sockets.get(key).expect("it was bound just now").port;
        Ok((key, port))
    }

    pub(super) fn close(&self, key: SocketKey) {
        let closed = {
            let state = &mut self.network.borrow_mut().datagrams;
            let closed = state.sockets.close(key);
            if let Some(socket) = &closed {
                socket.queue.iter().for_each(|slot| state.packets.free(*slot));
            }
            closed
        };
        drop(closed);
    }

    #[inline]
    pub(super) fn send(&self, world: &Handle, letter: &Letter<'_>) {
        let Network { wires, datagrams: state, .. } = &mut *self.network.borrow_mut();
        let Wires { config, links, contents, .. } = wires;
        let Letter { from, from_port, to, to_port, bytes } = *letter;
        let now_ns = world.now_ns();
        let id = state.counts.sent;
        state.counts.sent += 1;
        if let Some(contents) = contents {
            contents.sent(id, bytes);
        }
        let payload_hash = hash_bytes(0, bytes);
        let place = links.place(from.node, to);
        let is_cut = links.is_cut(from.node, to);
        let link = links.link(place);
        link.look(world, config, now_ns);
        let way = match link.plain(now_ns) {
            Some(after_ns) if !is_cut => Ok((after_ns, None)),
            _ => state.counts.find_way(link, is_cut),
        };
        let sent = |arrives_ns| DatagramSent {
            to,
            len: bytes.len() as u32,
            payload: payload_hash,
            ports: (from_port, to_port),
            arrives_ns,
            id,
        };
        let (after_ns, copy_ns) = match way {
            Ok(way) => way,
            Err(why) => {
                world.emit_for(from, sent(0));
                return state.counts.lose(world, from, to, id, why);
            }
        };
        link.sent += 1;
        let number = link.sent;
        world.emit_for(from, sent(now_ns + after_ns));
        let Owner { node, incarnation } = from;
        let header =
            Header { id, payload_hash, number, link: place, incarnation, from: node, to, from_port, to_port };
        let slot = state.packets.insert(header, bytes);
        world.at(now_ns + after_ns, Self::ID, u64::from(slot));
        if let Some(copy_ns) = copy_ns {
            state.copy(world, slot, now_ns + copy_ns);
        }
    }

    /// Takes the first datagram that waits at the socket. With none there, `waker` will be woken.
    #[inline]
    pub(super) fn receive<T>(
        &self,
        key: SocketKey,
        waker: Option<&Waker>,
        take: impl FnOnce(&mut Inbound<'_>) -> T,
    ) -> Poll<io::Result<Received<T>>> {
        let state = &mut self.network.borrow_mut().datagrams;
        let Some(socket) = state.sockets.get(key) else { return Poll::Ready(Err(gone())) };
        let Some(slot) = socket.queue.take_first() else {
            if let Some(waker) = waker {
                socket.waiting.add(waker);
            }
            return Poll::Pending;
        };
        let packet = state.packets.get(slot);
        socket.queued_bytes -= packet.bytes.len() + OVERHEAD_BYTES;
        let (from, port) = (packet.header.from, packet.header.from_port);
        let mut inbound = Inbound { packets: &mut state.packets, slot, taken: false };
        let value = take(&mut inbound);
        if !inbound.taken {
            state.packets.free(slot);
        }
        Poll::Ready(Ok((value, from, port)))
    }
}

/// A datagram that is being taken out of a receive buffer.
pub(super) struct Inbound<'a> {
    packets: &'a mut Packets,
    slot: u32,
    taken: bool,
}

impl Inbound<'_> {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.packets.get(self.slot).bytes
    }

    /// Gives the bytes away, for a buffer that will do for another datagram.
    #[inline]
    pub(super) fn swap_bytes(&mut self, buffer: &mut Vec<u8>) {
        self.packets.swap_bytes(self.slot, buffer);
    }

    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        self.taken = true;
        self.packets.take_bytes(self.slot)
    }
}

/// The error of a handle whose incarnation is dead.
#[cold]
pub(super) fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the incarnation that bound this socket is dead")
}

impl Datagrams {
    /// A datagram has come to the end of its way. Returns who is to be woken.
    #[inline]
    fn arrive(&mut self, world: &Handle, wires: &mut Wires, slot: u32) -> Woken {
        let Header { from, to, .. } = self.packets.get(slot).header;
        if wires.links.is_cut(from, to) {
            self.lose(world, slot, Lost::Cut);
            return Woken::default();
        }
        if !self.frozen.is_empty() && self.is_held(world, to, slot) {
            return Woken::default();
        }
        self.deliver(world, wires, slot)
    }

    /// A datagram arrives while some machine is frozen: whether it was this one, so that it waits, or is lost.
    #[cold]
    fn is_held(&mut self, world: &Handle, to: NodeId, slot: u32) -> bool {
        let Some((_, ring)) = self.frozen.iter_mut().find(|(node, _)| *node == to) else { return false };
        if ring.len() < RING {
            ring.push_back(slot);
            self.counts.frozen_held += 1;
        } else {
            self.lose(world, slot, Lost::Frozen);
        }
        true
    }

    /// A second datagram like one that was just sent.
    #[cold]
    fn copy(&mut self, world: &Handle, of: u32, arrives_ns: u64) {
        let Packet { header, bytes } = self.packets.get(of);
        let (header, bytes) = (Header { number: header.number | COPY, ..*header }, bytes.clone());
        let slot = self.packets.insert(header, &bytes);
        world.at(arrives_ns, Net::ID, u64::from(slot));
        self.counts.duplicated += 1;
    }

    /// The machine takes a datagram. Returns who is to be woken.
    #[inline]
    fn deliver(&mut self, world: &Handle, wires: &mut Wires, slot: u32) -> Woken {
        let Packet { header: packet, bytes } = self.packets.get(slot);
        let len = bytes.len();
        let full = |queued_bytes| queued_bytes + len + OVERHEAD_BYTES > wires.config.receive_buffer_bytes;
        let why = match self.sockets.at(packet.to, packet.to_port) {
            None => Lost::NoReceiver,
            Some(socket) if full(socket.queued_bytes) => Lost::BufferFull,
            Some(socket) => {
                socket.queue.push(slot);
                socket.queued_bytes += len + OVERHEAD_BYTES;
                let woken = socket.waiting.take();
                let link = wires.links.link(packet.link);
                self.counts.delivered += 1;
                // A copy overtakes nobody, and is far above all numbers.
                self.counts.reordered += u64::from(packet.number < link.arrived);
                link.arrived = link.arrived.max(packet.number & !COPY);
                let record = DatagramDelivered {
                    from: packet.from,
                    len: len as u32,
                    payload: packet.payload_hash,
                    id: packet.id,
                };
                world.emit_for(socket.owner, record);
                return woken;
            }
        };
        self.lose(world, slot, why);
        Woken::default()
    }

    #[cold]
    fn lose(&mut self, world: &Handle, slot: u32, why: Lost) {
        let header = self.packets.get(slot).header;
        self.packets.free(slot);
        self.counts.lose(world, header.sender(), header.to, header.id, why);
    }

    /// What waits in the ring of a machine that was frozen until now.
    fn take_ring(&mut self, node: NodeId) -> VecDeque<u32> {
        let at = self.frozen.iter().position(|(frozen, _)| *frozen == node);
        at.map(|at| self.frozen.remove(at).1).unwrap_or_default()
    }
}

impl Device for Net {
    const ID: DeviceId = DeviceId(0);

    fn new(_world: &Handle) -> Self {
        Self { network: SharedNetwork::default() }
    }

    #[inline]
    fn fire(&self, world: &Handle, token: u64) {
        let woken = {
            let Network { wires, datagrams, .. } = &mut *self.network.borrow_mut();
            datagrams.arrive(world, wires, token as u32)
        };
        woken.wake(world);
    }

    fn node_frozen(&self, world: &Handle, node: NodeId, frozen: bool) {
        let woken: Vec<Woken> = {
            let Network { wires, datagrams: state, .. } = &mut *self.network.borrow_mut();
            wires.set_frozen(node, frozen);
            if frozen {
                state.frozen.push((node, VecDeque::new()));
            }
            let ring = if frozen { VecDeque::new() } else { state.take_ring(node) };
            ring.into_iter().map(|slot| state.deliver(world, wires, slot)).collect()
        };
        woken.into_iter().for_each(|woken| woken.wake(world));
    }

    fn node_up(&self, _world: &Handle, node: NodeId) {
        self.network.borrow_mut().wires.set_powered(node, true);
    }

    fn node_down(&self, world: &Handle, node: NodeId, how: Down, _fault: u64) {
        {
            let wires = &mut self.network.borrow_mut().wires;
            wires.set_frozen(node, false);
            if how == Down::PowerOff {
                wires.set_powered(node, false);
            }
        }
        let closed = {
            let state = &mut self.network.borrow_mut().datagrams;
            for slot in state.take_ring(node) {
                state.lose(world, slot, Lost::NoReceiver);
            }
            let closed = state.sockets.close_all(node);
            for socket in &closed {
                socket.queue.iter().for_each(|slot| state.packets.free(*slot));
            }
            closed
        };
        drop(closed);
    }

    fn coverage(&self, into: &mut Coverage) {
        let Network { wires, datagrams, .. } = &*self.network.borrow();
        datagrams.counts.coverage(&wires.config, wires.cuts_made, into);
    }

    /// A line a socket, as `netstat` has it: protocol, own address, what can be read, owner.
    fn describe(&self, into: &mut String) {
        const SHOWN: usize = 40;
        let sockets = &self.network.borrow().datagrams.sockets;
        let line = |socket: &Socket| {
            let (local, Owner { node, incarnation }) =
                (addr_of(socket.owner.node, socket.port), socket.owner);
            let (count, bytes) = (socket.queue.len(), socket.queued_bytes);
            format!(
                "udp {local}, {count} datagrams to read ({bytes} bytes with overhead), {node} ({incarnation})"
            )
        };
        let mut lines: Vec<String> = sockets.iter().take(SHOWN).map(line).collect();
        let more = sockets.iter().count().saturating_sub(SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more sockets"));
        }
        into.push_str(&lines.join("\n"));
    }

    fn clear(&self) {
        let sockets = self.network.borrow_mut().datagrams.sockets.clear();
        drop(sockets);
    }
}
