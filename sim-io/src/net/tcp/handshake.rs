//! How a connection begins.
//!
//!   client ──request──► nobody listens: reset, "refused" · backlog full: dropped · else SynReceived
//!          ◄──answer─── server
//!   Open   ──hello────► Open, and in the listener's queue until somebody accepts it
//!
//! A request that gets no answer is sent again, after twice as long each time, until the client's patience ends. The
//! hello is the first flight of the client's lane, so it is sent again as bytes are.
//!
//! Invariants: what stands between request and `accept` never exceeds the backlog; a connection can be used
//! by its client before anybody accepts it.
//! Not here: who listens (`ports.rs`).

use std::io::ErrorKind;

use sim_runtime::device::Device;

use super::Tcp;
use super::connection::{CLIENT, Connection, Event, Outside, Phase, SERVER};
use super::lane::Lane;
use crate::records::{ConnectionOpened, Ended, FlightLost, Lost};

const MS: u64 = 1_000_000;

impl Connection {
    /// The client sends its request (SYN), for the first time or again.
    pub(super) fn request(&mut self, out: &mut Outside<'_>) {
        let now_ns = out.world.now_ns();
        match self.segment(CLIENT, out) {
            Ok(after_ns) => {
                out.world.at(now_ns + after_ns, Tcp::ID, self.token(Event::Request, CLIENT));
            }
            Err(why) => self.note_lost(CLIENT, why, out),
        }
        let retry_ns =
            out.wires.config.tcp.syn_retry_ms.saturating_mul(MS).saturating_mul(1 << self.requests.min(30));
        self.requests += 1;
        let again_ns = now_ns.saturating_add(retry_ns.max(1)).min(self.connect_until_ns);
        let token = self.token(Event::RequestAgain, CLIENT);
        self.request_again = Some(out.world.at(again_ns, Tcp::ID, token));
    }

    /// No answer has come.
    pub(super) fn request_again(&mut self, out: &mut Outside<'_>) {
        self.request_again = None;
        if self.sides[CLIENT].end.phase != Phase::SynSent {
            return;
        }
        if out.world.now_ns() >= self.connect_until_ns {
            return self.finish(CLIENT, Ended::TimedOut, Some(ErrorKind::TimedOut), out);
        }
        out.kernel.counts.syns_again += 1;
        self.request(out);
    }

    /// A request arrives at the server's machine.
    pub(super) fn request_arrives(&mut self, out: &mut Outside<'_>) {
        if let Some(why) = self.lost_on_arrival(CLIENT, out) {
            return self.note_lost(CLIENT, why, out);
        }
        let server = &self.sides[SERVER].end;
        match server.phase {
            Phase::SynReceived => return self.answer(out),
            Phase::Open => return,
            Phase::SynSent | Phase::Done | Phase::Gone => {}
        }
        if self.sides[CLIENT].end.phase != Phase::SynSent {
            return;
        }
        let Some(key) = out.kernel.listeners.at(server.owner.node, server.port) else {
            return self.send_reset(SERVER, out);
        };
        let listener = out.kernel.listeners.get(key).expect("it was found just now");
        if listener.half_done as usize + listener.queue.len() >= out.wires.config.tcp.backlog as usize {
            out.kernel.counts.backlog_full += 1;
            return self.note_lost(CLIENT, Lost::BufferFull, out);
        }
        listener.half_done += 1;
        let owner = listener.owner;
        let server = &mut self.sides[SERVER].end;
        (server.owner, server.phase, server.listener) = (owner, Phase::SynReceived, Some(key));
        server.vanished = false;
        self.answer(out);
    }

    /// The server answers (SYN-ACK). When that is lost, the client asks again.
    fn answer(&mut self, out: &mut Outside<'_>) {
        match self.segment(SERVER, out) {
            Ok(after_ns) => {
                let arrives_ns = out.world.now_ns() + after_ns;
                out.world.at(arrives_ns, Tcp::ID, self.token(Event::Answer, SERVER));
            }
            Err(why) => self.note_lost(SERVER, why, out),
        }
    }

    /// The answer arrives at the client's machine.
    pub(super) fn answer_arrives(&mut self, out: &mut Outside<'_>) {
        if let Some(why) = self.lost_on_arrival(SERVER, out) {
            return self.note_lost(SERVER, why, out);
        }
        match self.sides[CLIENT].end.phase {
            Phase::SynSent => {
                if let Some(timer) = self.request_again.take() {
                    out.world.cancel(timer);
                }
                let window_bytes = out.wires.config.tcp.receive_buffer_bytes.max(1);
                self.sides[CLIENT].lane = Lane::new(0, window_bytes);
                self.sides[SERVER].lane = Lane::new(1, window_bytes);
                self.open(CLIENT, out);
                self.push(CLIENT, out);
            }
            Phase::Gone => self.send_reset(CLIENT, out),
            Phase::SynReceived | Phase::Open | Phase::Done => {}
        }
    }

    /// From now on `side` takes the connection for established.
    fn open(&mut self, side: usize, out: &mut Outside<'_>) {
        let end = &mut self.sides[side].end;
        end.phase = Phase::Open;
        end.write_waiting.move_to(&mut out.kernel.woken);
        out.kernel.counts.opened += u64::from(side == CLIENT);
        out.world.emit_for(end.owner, ConnectionOpened { connection: self.id, side: side as u64 });
    }

    /// The handshake is complete for the server: the connection waits to be accepted.
    #[cold]
    pub(super) fn enqueue(&mut self, out: &mut Outside<'_>) {
        self.open(SERVER, out);
        let key = self.key(SERVER);
        let end = &mut self.sides[SERVER].end;
        end.held = true;
        let listener = end.listener.take().expect("it stands at a listener while half done");
        let listener =
            out.kernel.listeners.get(listener).expect("a listener takes what is half done with it");
        listener.half_done -= 1;
        listener.queue.push_back(key);
        listener.waiting.move_to(&mut out.kernel.woken);
    }

    /// The server has waited long enough for a client that is gone.
    pub(super) fn give_up_half_done(&mut self, out: &mut Outside<'_>) {
        if self.sides[SERVER].end.phase == Phase::SynReceived {
            self.finish(SERVER, Ended::TimedOut, None, out);
        }
    }

    /// Why a segment of `side` that has come to the end of its way did not arrive, if it did not.
    #[inline]
    pub(super) fn lost_on_arrival(&self, side: usize, out: &mut Outside<'_>) -> Option<Lost> {
        let (from, to) = self.way(side);
        if out.wires.links.is_cut(from, to) {
            Some(Lost::Cut)
        } else {
            (!out.wires.answers(out.world, to)).then_some(Lost::NoReceiver)
        }
    }

    /// A segment of `side` is lost.
    #[cold]
    pub(super) fn note_lost(&self, side: usize, why: Lost, out: &mut Outside<'_>) {
        out.kernel.counts.lost += u64::from(why == Lost::Loss);
        let (connection, (_, to)) = (self.id, self.way(side));
        let begin = self.sides[side].lane.delivered;
        out.world.emit_for(self.sides[side].end.owner, FlightLost { connection, to, why, begin });
    }
}
