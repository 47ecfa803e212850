//! `Tcp`: the device that carries byte streams.
//!
//!   handles ──key──► Connection ◄──token── timers
//!                        │ acts on the links, ports and counters outside of it
//!                        └──► who is to be woken, when no borrow is left
//!
//! Invariants: one call acts on one connection, but for a node that goes down; a connection that is over is
//! forgotten in the call that ends it; nobody is woken, and nothing dropped, within a borrow.
//! Not here: what connections do (`connection.rs`), links and cuts (`Net`, whose wires these are).

use std::io::{self, ErrorKind};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sim_runtime::device::{Coverage, Device, DeviceId};
use sim_runtime::rng::Field;
use sim_runtime::trace::Down;
use sim_runtime::{Handle, NodeId, Owner};
use slab::Slab;

use super::connection::{CLIENT, Connection, End, Event, KILL_RESETS, Key, Outside, Phase, SERVER, Side};
use super::counters::Counters;
use super::lane::Lane;
use super::ports::{Listener, ListenerKey, Listeners};
use crate::net::device::{Net, gone};
use crate::net::socket::Woken;
use crate::net::wires::{Network, SharedNetwork};
use crate::records::ConnectionStarted;

/// Whether reads return less than there is, by [`super::stream_key`].
pub const PARTIAL_READ: Field = Field::new("tcp partial read");
/// Whether writes take less than there is room for, by [`super::stream_key`].
pub const PARTIAL_WRITE: Field = Field::new("tcp partial write");

/// The streams of a world: `handle.device::<Tcp>()`.
#[derive(Debug)]
pub struct Tcp {
    pub(super) network: SharedNetwork,
}

/// All connections, and what they touch beside the wires.
#[derive(Debug, Default)]
pub(in crate::net) struct Streams {
    pub(super) connections: Slab<Connection>,
    pub(super) kernel: Kernel,
}

/// What the kernels of all nodes know beside connections.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) listeners: Listeners,
    pub(super) counts: Counters,
    /// To be woken when no borrow is left; empty between calls.
    pub(super) woken: Woken,
}

/// An accepted connection: its key, the client, the client's port.
pub(super) type Accepted = (Key, NodeId, u16);

impl Tcp {
    pub(super) fn bind(&self, owner: Owner, port: u16) -> io::Result<(ListenerKey, u16)> {
        self.network.borrow_mut().streams.kernel.listeners.bind(owner, port)
    }

    pub(super) fn close_listener(&self, world: &Handle, key: ListenerKey) {
        let closed = self.network.borrow_mut().streams.kernel.listeners.close(key);
        if let Some(listener) = closed {
            self.reset_unaccepted(world, key, listener);
        }
    }

    /// Nobody will accept what waits at a listener: the clients are told.
    fn reset_unaccepted(&self, world: &Handle, key: ListenerKey, listener: Listener) {
        for queued in &listener.queue {
            self.with(world, *queued, |connection, out| {
                connection.sides[SERVER].end.held = false;
                if connection.sides[SERVER].end.phase == Phase::Open {
                    connection.abort(SERVER, out);
                }
            });
        }
        if listener.half_done > 0 {
            self.for_each(world, |connection, out| {
                if connection.sides[SERVER].end.listener == Some(key) {
                    connection.abort(SERVER, out);
                }
            });
        }
        listener.wake(world);
    }

    pub(super) fn poll_accept(&self, key: ListenerKey, cx: &Context<'_>) -> Poll<io::Result<Accepted>> {
        let state = &mut self.network.borrow_mut().streams;
        let Some(listener) = state.kernel.listeners.get(key) else { return Poll::Ready(Err(gone())) };
        let Some(key) = listener.queue.pop_front() else {
            listener.waiting.add(cx.waker());
            return Poll::Pending;
        };
        let client = &state.connections[key.slot as usize].sides[CLIENT].end;
        Poll::Ready(Ok((key, client.owner.node, client.port)))
    }

    /// Begins to connect; returns the client's end and port.
    pub(super) fn connect(
        &self,
        world: &Handle,
        owner: Owner,
        (to, port): (NodeId, u16),
        patience: Option<Duration>,
    ) -> io::Result<(Key, u16)> {
        let (key, from_port) = {
            let Network { wires, streams: state, .. } = &mut *self.network.borrow_mut();
            let tcp = wires.config.tcp;
            let from_port = state.kernel.listeners.occupy(owner.node)?;
            let patience = patience.unwrap_or(Duration::from_millis(tcp.connect_timeout_ms));
            let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
            let entry = state.connections.vacant_entry();
            let slot = u32::try_from(entry.key()).ok().filter(|slot| *slot < 1 << 24);
            let id = state.kernel.counts.started;
            let lane = |place| Lane::new(place, tcp.receive_buffer_bytes.max(1));
            let nobody = Owner { node: to, incarnation: 0 };
            let connection = Connection {
                id,
                slot: slot.expect("fewer than 2^24 connections at once"),
                serial: id as u32,
                sides: [
                    Side::new(End::new(owner, from_port, Phase::SynSent), lane(0)),
                    Side::new(End::new(nobody, port, Phase::Gone), lane(1)),
                ],
                request_again: None,
                requests: 0,
                connect_until_ns: world.now_ns().saturating_add(patience_ns),
            };
            state.kernel.counts.started += 1;
            (entry.insert(connection).key(CLIENT), from_port)
        };
        let ports = u64::from(from_port) << 16 | u64::from(port);
        self.with(world, key, |connection, out| {
            let started = ConnectionStarted { connection: connection.id, to: u64::from(to.0), ports };
            world.emit_for(owner, started);
            connection.request(out);
        });
        Ok((key, from_port))
    }

    pub(super) fn poll_connected(&self, key: Key, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut self.network.borrow_mut().streams;
        let Some(connection) = state.held(key) else { return Poll::Ready(Err(gone())) };
        let end = &mut connection.sides[usize::from(key.side)].end;
        if end.phase == Phase::SynSent {
            end.write_waiting.add(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(end.error.take().map_or(Ok(()), |kind| Err(kind.into())))
    }

    /// Copies the bytes that can be read to `buffer`, and takes them if that is wanted.
    #[inline]
    pub(super) fn poll_read(
        &self,
        world: &Handle,
        key: Key,
        waker: &Waker,
        buffer: &mut [u8],
        is_taken: bool,
    ) -> Poll<io::Result<usize>> {
        let side = usize::from(key.side);
        let result = self.with(world, key, |connection, out| {
            let there = connection.sides[1 - side].lane.available().min(buffer.len());
            if there > 0 || buffer.is_empty() {
                let count = connection.granted_read(1 - side, there, out);
                let lane = &mut connection.sides[1 - side].lane;
                buffer[..count].copy_from_slice(&lane.bytes.rest()[..count]);
                if is_taken {
                    lane.consume(count);
                }
                let window_bytes = out.wires.config.tcp.receive_buffer_bytes.max(1) as u64;
                // Linux too is silent about small amounts of new room.
                if lane.read + window_bytes >= lane.announced_end + (window_bytes / 4).max(1) {
                    connection.announce_room(1 - side, out);
                }
                return Poll::Ready(Ok(count));
            }
            let (end, lane) = (&mut connection.sides[side].end, &connection.sides[1 - side].lane);
            // As Linux: who has read to the end reads no error; it is kept for a write.
            if lane.is_ended() {
                return Poll::Ready(Ok(0));
            }
            if let Some(kind) = end.error.take() {
                return Poll::Ready(Err(kind.into()));
            }
            if end.phase != Phase::Open {
                return Poll::Ready(Ok(0));
            }
            end.read_waiting.add(waker);
            Poll::Pending
        });
        result.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    #[inline]
    pub(super) fn poll_write(
        &self,
        world: &Handle,
        key: Key,
        waker: &Waker,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let side = usize::from(key.side);
        let result = self.with(world, key, |connection, out| {
            let (end, lane) = (&mut connection.sides[side].end, &mut connection.sides[side].lane);
            if let Some(kind) = end.error.take() {
                return Poll::Ready(Err(kind.into()));
            }
            if lane.fin || end.phase != Phase::Open {
                return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
            }
            lane.settle(world.now_ns());
            let fits = lane.room(out.wires.config.tcp.send_buffer_bytes.max(1)).min(bytes.len());
            if fits == 0 && !bytes.is_empty() {
                out.kernel.counts.writers_stalled += 1;
                end.write_waiting.add(waker);
                connection.await_credit(side, out);
                return Poll::Pending;
            }
            let count = connection.granted_write(side, fits, out);
            let lane = &mut connection.sides[side].lane;
            lane.bytes.append(&bytes[..count]);
            lane.written += count as u64;
            if let Some(contents) = &mut out.wires.contents {
                let (_, to) = connection.way(side);
                contents.written(connection.id, to, &bytes[..count]);
            }
            connection.push_written(side, out);
            // What the window keeps back waits for room that may have been announced already.
            connection.await_credit(side, out);
            Poll::Ready(Ok(count))
        });
        result.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    pub(super) fn shut_down_write(&self, world: &Handle, key: Key) -> io::Result<()> {
        let side = usize::from(key.side);
        let result = self.with(world, key, |connection, out| match connection.sides[side].end.phase {
            Phase::Open => {
                connection.shut_down(side, out);
                Ok(())
            }
            Phase::Done => Ok(()),
            Phase::SynSent | Phase::SynReceived | Phase::Gone => Err(ErrorKind::NotConnected.into()),
        });
        result.unwrap_or_else(|| Err(gone()))
    }

    pub(super) fn let_go(&self, world: &Handle, key: Key) {
        self.with(world, key, |connection, out| connection.let_go(usize::from(key.side), out));
    }

    pub(super) fn abort(&self, world: &Handle, key: Key) {
        let side = usize::from(key.side);
        self.with(world, key, |connection, out| {
            connection.sides[side].end.held = false;
            if connection.sides[side].end.phase == Phase::Open {
                connection.abort(side, out);
            }
        });
    }

    /// Lets an end that somebody holds act.
    #[inline]
    fn with<R>(
        &self,
        world: &Handle,
        key: Key,
        act: impl FnOnce(&mut Connection, &mut Outside<'_>) -> R,
    ) -> Option<R> {
        self.act(world, key.slot, act, |connection| {
            connection.serial == key.serial && connection.sides[usize::from(key.side)].end.held
        })
    }

    /// Lets a connection act if it is still the one that is `meant`, and then does what must be done outside
    /// of borrows.
    #[inline]
    fn act<R>(
        &self,
        world: &Handle,
        slot: u32,
        act: impl FnOnce(&mut Connection, &mut Outside<'_>) -> R,
        is_meant: impl FnOnce(&Connection) -> bool,
    ) -> Option<R> {
        let (result, is_over, wakes) = {
            let Network { wires, streams: Streams { connections, kernel }, .. } =
                &mut *self.network.borrow_mut();
            let connection = connections.get_mut(slot as usize).filter(|connection| is_meant(connection))?;
            let result = act(connection, &mut Outside { world, wires, kernel });
            (result, connection.is_over(), !kernel.woken.is_empty())
        };
        if is_over {
            self.forget(slot);
        }
        if wakes {
            self.wake(world);
        }
        Some(result)
    }

    /// Not a part of [`Tcp::act`]: most calls wake nobody.
    #[inline(never)]
    fn wake(&self, world: &Handle) {
        let woken = std::mem::take(&mut self.network.borrow_mut().streams.kernel.woken);
        woken.wake(world);
    }

    /// Not a part of [`Tcp::act`], where a whole connection would have to find room at every call.
    #[cold]
    fn forget(&self, slot: u32) {
        let over = self.network.borrow_mut().streams.connections.remove(slot as usize);
        drop(over);
    }

    /// Lets all connections act, in the order of their slots.
    fn for_each(&self, world: &Handle, mut act: impl FnMut(&mut Connection, &mut Outside<'_>)) {
        let slots: Vec<usize> =
            self.network.borrow().streams.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.act(world, slot as u32, &mut act, |_| true);
        }
    }
}

impl Streams {
    fn held(&mut self, key: Key) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(key.slot as usize)?;
        (connection.serial == key.serial && connection.sides[usize::from(key.side)].end.held)
            .then_some(connection)
    }
}

impl Device for Tcp {
    const ID: DeviceId = DeviceId(2);

    fn new(world: &Handle) -> Self {
        Self { network: world.device::<Net>().network() }
    }

    #[inline]
    fn fire(&self, world: &Handle, token: u64) {
        let (slot, serial, event, side) = Event::of(token);
        let act = |connection: &mut Connection, out: &mut Outside<'_>| match event {
            Event::Arrive => connection.arrive(side, out),
            _ => connection.experience(event, side, out),
        };
        self.act(world, slot, act, |connection| connection.serial == serial);
    }

    fn node_down(&self, world: &Handle, node: NodeId, how: Down, _fault: u64) {
        let listeners = self.network.borrow_mut().streams.kernel.listeners.close_all(node);
        if how == Down::PowerOff {
            self.for_each(world, |connection, out| {
                for side in [CLIENT, SERVER] {
                    if connection.sides[side].end.owner.node == node {
                        connection.vanish(side, out);
                    }
                }
            });
            return drop(listeners);
        }
        for (key, listener) in listeners {
            self.reset_unaccepted(world, key, listener);
        }
        self.for_each(world, |connection, out| {
            for side in [CLIENT, SERVER] {
                if connection.sides[side].end.owner.node == node && connection.sides[side].end.held {
                    connection.bury(side, how == Down::Kill, out);
                }
            }
        });
    }

    fn coverage(&self, into: &mut Coverage) {
        let Network { wires, streams, .. } = &*self.network.borrow();
        streams.kernel.counts.report(wires, into);
    }

    fn clear(&self) {
        let streams = std::mem::take(&mut self.network.borrow_mut().streams);
        drop(streams);
    }

    fn describe(&self, into: &mut String) {
        into.push_str(&self.sockets());
    }
}

impl Connection {
    /// How many of the bytes that a read of the lane of `side` could have it gets: nearly always all.
    #[inline]
    fn granted_read(&mut self, side: usize, there: usize, out: &mut Outside<'_>) -> usize {
        let chance = out.wires.config.tcp.partial_read_per_million;
        if chance == 0 || there < 2 {
            return there;
        }
        let key = self.field_key(side);
        let count = self.sides[side].lane.read_whim.shorten(out.world, PARTIAL_READ, key, chance, there);
        out.kernel.counts.partial_reads += u64::from(count < there);
        count
    }

    /// How many of the bytes that there is room for a write to the lane of `side` takes: nearly always all.
    #[inline]
    fn granted_write(&mut self, side: usize, fits: usize, out: &mut Outside<'_>) -> usize {
        let chance = out.wires.config.tcp.partial_write_per_million;
        if chance == 0 || fits < 2 {
            return fits;
        }
        let key = self.field_key(side);
        let count = self.sides[side].lane.write_whim.shorten(out.world, PARTIAL_WRITE, key, chance, fits);
        out.kernel.counts.partial_writes += u64::from(count < fits);
        count
    }

    /// The receiver of the lane of `side` says that there is much room again.
    #[inline(never)]
    fn announce_room(&mut self, side: usize, out: &mut Outside<'_>) {
        self.acknowledge(side, out.world.now_ns(), out);
    }

    /// What is rarer than a flight that arrives.
    #[cold]
    fn experience(&mut self, event: Event, side: usize, out: &mut Outside<'_>) {
        match event {
            Event::Arrive => self.arrive(side, out),
            Event::Credit => self.credit_arrives(side, out),
            Event::Retry => self.retry(side, out),
            Event::Request => self.request_arrives(out),
            Event::RequestAgain => self.request_again(out),
            Event::Answer => self.answer_arrives(out),
            Event::Reset => self.reset_arrives(side, out),
            Event::HalfDone => self.give_up_half_done(out),
        }
    }

    /// The process of `side` is dead: its kernel closes what it held.
    fn bury(&mut self, side: usize, is_killed: bool, out: &mut Outside<'_>) {
        let chance = out.wires.config.tcp.kill_resets_per_million;
        let is_reset = is_killed
            && self.sides[side].end.phase == Phase::Open
            && out.world.sample(KILL_RESETS, self.field_key(side)).chance(chance);
        if is_reset {
            self.sides[side].end.held = false;
            self.abort(side, out);
        } else {
            self.let_go(side, out);
        }
    }
}
