//! A connection: two ends, a lane in each direction, and how an end comes to its end.
//!
//!   client  SynSent ────────► Open ──FIN both ways──► Done ─┐
//!                                └──RST, time, power──► Gone ├─► nobody holds either end: forgotten
//!   server  Gone ► SynReceived ► Open ──────────────────────┘
//!
//! Both ends stand in one place, and yet each knows only what has reached it: that an end is gone, its peer learns
//! from a segment that arrives, or never (half-open).
//!
//! Invariants: an end acts only while its phase says so; what a program still holds of an end that is gone
//! answers errors; an end without a program (closed, not finished) is carried on by the kernel alone.
//! Not here: beginning (`handshake.rs`), bytes (`transmit.rs`).

use std::io::ErrorKind;

use sim_runtime::device::Device;
use sim_runtime::rng::Field;
use sim_runtime::timer::TimerKey;
use sim_runtime::{Handle, NodeId, Owner};

use super::Tcp;
use super::device::Kernel;
use super::lane::Lane;
use super::ports::ListenerKey;
use crate::net::link::link_key;
use crate::net::socket::Waiting;
use crate::net::wires::Wires;
use crate::records::{ConnectionEnded, Ended, Lost};

/// Whether a reset destroys what is unread, by [`stream_key`].
pub const RESET_DESTROYS: Field = Field::new("tcp reset destroys");
/// Whether a killed process resets a connection that it has read to the end, by [`stream_key`].
pub const KILL_RESETS: Field = Field::new("tcp kill resets");

/// The key of a stream in the fields of TCP. The client's port is no part of it: that would be a count of the
/// connections before.
#[inline]
pub const fn stream_key(from: NodeId, to: NodeId, server_port: u16) -> u64 {
    link_key(from, to) << 16 | server_port as u64
}

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// How long a server waits for the end of a handshake whose client is gone: five retries on Linux.
const HALF_DONE_NS: u64 = 63_000_000_000;

/// Names an end of a connection. A stale key is recognised.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) slot: u32,
    pub(super) serial: u32,
    pub(super) side: u8,
}

/// What happens to a connection at a point in virtual time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Event {
    /// What `side` sent arrives at the other.
    Arrive = 0,
    /// An acknowledgement arrives at `side`, which waits for it.
    Credit = 1,
    /// `side` sends again what was not acknowledged.
    Retry = 2,
    Request = 3,
    RequestAgain = 4,
    Answer = 5,
    /// A reset by `side` arrives at the other.
    Reset = 6,
    /// The server stops waiting for the end of a handshake.
    HalfDone = 7,
}

/// What the kernel of an end thinks of the connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    SynSent,
    SynReceived,
    Open,
    /// Over in both directions. Segments that come late are acknowledged (TIME_WAIT).
    Done,
    /// The kernel knows nothing of it. Segments are answered with a reset.
    Gone,
}

/// One side of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) owner: Owner,
    pub(super) port: u16,
    pub(super) phase: Phase,
    /// A program holds it, or a listener for whoever accepts.
    pub(super) held: bool,
    /// Its machine lost power: the peer was not told.
    pub(super) vanished: bool,
    /// While `SynReceived`.
    pub(super) listener: Option<ListenerKey>,
    /// What the next call will be told, once.
    pub(super) error: Option<ErrorKind>,
    pub(super) read_waiting: Waiting,
    pub(super) write_waiting: Waiting,
}

/// An end, and what it sends.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) end: End,
    pub(super) lane: Lane,
    /// The link that its lane leads over, once it is known.
    pub(super) place: Option<u32>,
}

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Connection {
    /// In records.
    pub(super) id: u64,
    pub(super) slot: u32,
    pub(super) serial: u32,
    pub(super) sides: [Side; 2],
    pub(super) request_again: Option<TimerKey>,
    pub(super) requests: u32,
    pub(super) connect_until_ns: u64,
}

/// What a connection touches outside of itself.
pub(super) struct Outside<'a> {
    pub(super) world: &'a Handle,
    pub(super) wires: &'a mut Wires,
    pub(super) kernel: &'a mut Kernel,
}

impl Side {
    pub(super) fn new(end: End, lane: Lane) -> Self {
        Self { end, lane, place: None }
    }
}

impl End {
    pub(super) fn new(owner: Owner, port: u16, phase: Phase) -> Self {
        Self {
            owner,
            port,
            phase,
            held: phase == Phase::SynSent,
            vanished: false,
            listener: None,
            error: None,
            read_waiting: Waiting::default(),
            write_waiting: Waiting::default(),
        }
    }

    fn is_over(&self) -> bool {
        !self.held && matches!(self.phase, Phase::Done | Phase::Gone)
    }
}

impl Connection {
    pub(super) fn key(&self, side: usize) -> Key {
        Key { slot: self.slot, serial: self.serial, side: side as u8 }
    }

    /// The nodes that the lane of `side` leads from and to.
    #[inline]
    pub(super) fn way(&self, side: usize) -> (NodeId, NodeId) {
        (self.sides[side].end.owner.node, self.sides[1 - side].end.owner.node)
    }

    /// How long a segment that `side` sends now takes, or why it gets lost.
    #[inline(always)]
    pub(super) fn segment(&mut self, side: usize, out: &mut Outside<'_>) -> Result<u64, Lost> {
        let (from, to) = self.way(side);
        let place = *self.sides[side].place.get_or_insert_with(|| out.wires.links.place(from, to));
        out.wires.segment(out.world, (from, to), place)
    }

    pub(super) fn field_key(&self, side: usize) -> u64 {
        let (from, to) = self.way(side);
        stream_key(from, to, self.sides[SERVER].end.port)
    }

    /// Whether neither kernel nor program has anything to do with it any more.
    pub(super) fn is_over(&self) -> bool {
        self.sides.iter().all(|side| side.end.is_over())
    }

    /// The program lets go of its end, as `close` does: unread bytes make it a reset, else the end of the
    /// stream follows what was written.
    pub(super) fn let_go(&mut self, side: usize, out: &mut Outside<'_>) {
        self.sides[side].end.held = false;
        match self.sides[side].end.phase {
            // A request under way finds nobody who wants its answer.
            Phase::SynSent => self.finish(side, Ended::Aborted, None, out),
            Phase::SynReceived => self.abort(side, out),
            Phase::Open => {
                self.sides[side].lane.settle(out.world.now_ns());
                let all_over = self.sides[side].lane.is_finished() && self.sides[1 - side].lane.is_ended();
                if self.sides[1 - side].lane.available() > 0 && !all_over {
                    return self.abort(side, out);
                }
                self.shut_down(side, out);
                self.tidy(side, out);
            }
            Phase::Done | Phase::Gone => {}
        }
    }

    /// Ends the lane of `side` after what was written.
    pub(super) fn shut_down(&mut self, side: usize, out: &mut Outside<'_>) {
        let lane = &mut self.sides[side].lane;
        if !lane.fin {
            lane.fin = true;
            // A write that waits in another task finds out.
            self.sides[side].end.write_waiting.move_to(&mut out.kernel.woken);
            self.push(side, out);
        }
        self.await_credit(side, out);
    }

    /// An end that only the kernel carries on is done when all has been said.
    #[inline]
    pub(super) fn tidy(&mut self, side: usize, out: &mut Outside<'_>) {
        let end = &self.sides[side].end;
        if !end.held
            && end.phase == Phase::Open
            && self.sides[side].lane.is_finished()
            && self.sides[1 - side].lane.is_ended()
        {
            self.finish(side, Ended::Closed, None, out);
        }
    }

    /// Ends the connection for `side` and tells the other by a reset.
    #[cold]
    pub(super) fn abort(&mut self, side: usize, out: &mut Outside<'_>) {
        self.send_reset(side, out);
        self.finish(side, Ended::Aborted, None, out);
    }

    /// The machine of `side` loses power: what it has sent goes on, and nobody is told.
    pub(super) fn vanish(&mut self, side: usize, out: &mut Outside<'_>) {
        self.sides[side].end.held = false;
        match self.sides[side].end.phase {
            Phase::Gone => {}
            Phase::Done => self.sides[side].end.phase = Phase::Gone,
            Phase::SynSent | Phase::SynReceived | Phase::Open => {
                self.finish(side, Ended::PowerLost, None, out);
            }
        }
    }

    /// The end of `side`.
    #[cold]
    pub(super) fn finish(
        &mut self,
        side: usize,
        how: Ended,
        error: Option<ErrorKind>,
        out: &mut Outside<'_>,
    ) {
        let field_key = self.field_key(1 - side);
        let end = &mut self.sides[side].end;
        if let Some(listener) = end.listener.take()
            && let Some(listener) = out.kernel.listeners.get(listener)
        {
            listener.half_done -= 1;
        }
        end.phase = if how == Ended::Closed { Phase::Done } else { Phase::Gone };
        end.vanished = how == Ended::PowerLost;
        end.error = error;
        end.read_waiting.move_to(&mut out.kernel.woken);
        end.write_waiting.move_to(&mut out.kernel.woken);
        let timers = [self.sides[side].lane.retry.take(), self.request_again.take_if(|_| side == CLIENT)];
        for timer in timers.into_iter().flatten() {
            out.world.cancel(timer);
        }
        if side == CLIENT {
            out.kernel.listeners.release(end.owner.node, end.port);
        }

        let inbound = &mut self.sides[1 - side].lane;
        let unread = inbound.available();
        let is_read_on = end.held && how == Ended::Reset && unread > 0 && {
            let destroys = out.wires.config.tcp.reset_destroys_unread_per_million;
            destroys == 0 || !out.world.sample(RESET_DESTROYS, field_key).chance(destroys)
        };
        let is_read_on = is_read_on || end.held && how == Ended::TimedOut;
        let destroyed = if is_read_on { 0 } else { unread };
        inbound.consume(destroyed);
        let counts = &mut out.kernel.counts;
        let count = match how {
            Ended::Refused => &mut counts.refused,
            Ended::TimedOut => &mut counts.timed_out,
            Ended::Reset => &mut counts.reset,
            Ended::Aborted => &mut counts.aborted,
            Ended::Closed => &mut counts.closed,
            Ended::PowerLost => &mut counts.power_lost,
        };
        *count += 1;
        if how == Ended::Reset {
            counts.destroyed += destroyed as u64;
        }
        let (connection, destroyed) = (self.id, destroyed as u64);
        out.world.emit_for(end.owner, ConnectionEnded { connection, how, side: side as u64, destroyed });
        if self.sides[1 - side].end.phase == Phase::SynReceived {
            let at_ns = out.world.now_ns() + HALF_DONE_NS;
            out.world.at(at_ns, Tcp::ID, self.token(Event::HalfDone, SERVER));
        }
        // A peer that has something to say will say it again until it finds out, should it not be told.
        let outbound = &self.sides[1 - side].lane;
        if how != Ended::Closed && outbound.acked < outbound.end() {
            self.arm_retry(1 - side, out.world.now_ns(), out);
        }
    }

    /// Tells the other side that this one wants nothing more. Nobody sends a reset again.
    #[cold]
    pub(super) fn send_reset(&mut self, side: usize, out: &mut Outside<'_>) {
        match self.segment(side, out) {
            Ok(after_ns) => {
                let arrives_ns = (out.world.now_ns() + after_ns).max(self.sides[side].lane.last_arrival_ns);
                out.world.at(arrives_ns, Tcp::ID, self.token(Event::Reset, side));
            }
            Err(_) => out.kernel.counts.lost += 1,
        }
    }

    /// A reset that `side` sent arrives.
    pub(super) fn reset_arrives(&mut self, side: usize, out: &mut Outside<'_>) {
        let (from, to) = self.way(side);
        if out.wires.links.is_cut(from, to) || !out.wires.answers(out.world, to) {
            out.kernel.counts.lost += 1;
            return;
        }
        match self.sides[1 - side].end.phase {
            Phase::SynSent => {
                self.finish(1 - side, Ended::Refused, Some(ErrorKind::ConnectionRefused), out);
            }
            Phase::SynReceived | Phase::Open => {
                out.kernel.counts.half_open_found += u64::from(self.sides[side].end.vanished);
                // As Linux: whoever knew that the other will write no more is told that nobody reads, either.
                let ended = self.sides[side].lane.is_ended();
                let error = if ended { ErrorKind::BrokenPipe } else { ErrorKind::ConnectionReset };
                self.finish(1 - side, Ended::Reset, Some(error), out);
            }
            Phase::Done | Phase::Gone => {}
        }
    }

    #[inline]
    pub(super) fn token(&self, event: Event, side: usize) -> u64 {
        u64::from(self.slot) << 40 | u64::from(self.serial) << 8 | (event as u64) << 1 | side as u64
    }
}

impl Event {
    /// The slot, serial number, event and side of a token.
    #[inline]
    pub(super) fn of(token: u64) -> (u32, u32, Self, usize) {
        let event = match token >> 1 & 7 {
            0 => Self::Arrive,
            1 => Self::Credit,
            2 => Self::Retry,
            3 => Self::Request,
            4 => Self::RequestAgain,
            5 => Self::Answer,
            6 => Self::Reset,
            _ => Self::HalfDone,
        };
        ((token >> 40) as u32, (token >> 8) as u32, event, (token & 1) as usize)
    }
}
