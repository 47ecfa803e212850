//! How bytes get from one end to the other, and how the sender learns that they have.
//!
//!   write ──► lane ──push──► flight ──latency──► arrive ──► receive buffer ──► read
//!               ▲               │ lost: hole                   │        │
//!               │               ▼                              └─ack────┴─window─┐
//!               └── retry: 200 ms, doubled ◄── no credit ◄── lost ◄──────────────┴──► credit
//!
//! A segment here is all that was sent at one instant. Loss becomes delay: what a lossy or cut link took, and all
//! after it, is sent again when the sender's patience ends. No timer runs for what goes well: the sender's
//! patience (RTO) is armed by whoever sees a segment or an acknowledgement lost, which the sender does not
//! know before the timer fires.
//!
//! Simpler than the real thing, and not to be seen from a program: no congestion window, no fast retransmit, no
//! delayed acknowledgements, a fixed window; an acknowledgement counts as arrived if its link was open when it left.
//!
//! Invariants: bytes arrive in order, once, or not at all; an end that is not open sends nothing but resets.
//! Not here: closing (`connection.rs`).

use std::io::ErrorKind;

use sim_runtime::device::Device;
use sim_runtime::rng::mix;

use super::Tcp;
use super::connection::{Connection, Event, Outside, Phase};
use super::lane::Flight;
use crate::records::{Ended, FlightDelivered, FlightSent, Lost};

const MS: u64 = 1_000_000;

impl Connection {
    /// Sends what the window lets out of the lane of `side`.
    pub(super) fn push(&mut self, side: usize, out: &mut Outside<'_>) {
        if let Some((begin, end)) = self.let_out(side, out) {
            self.launch_again(side, begin, end, out);
        }
    }

    /// The same, where it is done most.
    #[inline(always)]
    pub(super) fn push_written(&mut self, side: usize, out: &mut Outside<'_>) {
        if let Some((begin, end)) = self.let_out(side, out) {
            self.launch(side, begin, end, out);
        }
    }

    /// From where to where the window lets anything out that is not sent: it counts as sent from now on.
    #[inline]
    fn let_out(&mut self, side: usize, out: &mut Outside<'_>) -> Option<(u64, u64)> {
        let lane = &mut self.sides[side].lane;
        let all_fits = lane.written <= lane.window_end;
        let limit = if all_fits { lane.end() } else { lane.window_end };
        if all_fits {
            lane.window_full = false;
        } else if !lane.window_full {
            lane.window_full = true;
            out.kernel.counts.windows_filled += 1;
        }
        let begin = lane.sent;
        if begin >= limit {
            return None;
        }
        lane.sent = limit;
        Some((begin, limit))
    }

    /// Puts the places from `begin` to `end` on their way, or finds them lost.
    #[inline(always)]
    fn launch(&mut self, side: usize, begin: u64, end: u64, out: &mut Outside<'_>) {
        let now_ns = out.world.now_ns();
        let (_, to) = self.way(side);
        let token = self.token(Event::Arrive, side);
        let heard = self.sides[1 - side].lane.say(out.wires.config.tcp.receive_buffer_bytes.max(1));
        let lane = &self.sides[side].lane;
        let (len, hash) = lane.hash(begin, end);
        let (connection, owner) = (self.id, self.sides[side].end.owner);
        let sent = |arrives_ns| FlightSent { connection, to, len, payload: hash, begin, arrives_ns };
        // Behind a hole it would wait at the receiver for what is missing; it is sent again with that.
        let way = if lane.hole { Err(None) } else { self.segment(side, out).map_err(Some) };
        let after_ns = match way {
            Ok(after_ns) => after_ns,
            Err(why) => return self.launch_in_vain(side, end, sent(0), why, out),
        };
        let lane = &mut self.sides[side].lane;
        let latest_ns = lane.last_arrival_ns;
        let arrives_ns = (now_ns + after_ns).max(latest_ns);
        lane.last_arrival_ns = arrives_ns;
        out.world.emit_for(owner, sent(arrives_ns));
        if let Some(last) = lane.air.last_mut()
            && (last.sent_ns, latest_ns, last.end) == (now_ns, arrives_ns, begin)
        {
            last.end = end;
            last.hash = mix(last.hash, hash);
            last.heard = heard;
            return;
        }
        out.kernel.counts.flights += 1;
        lane.air.push(Flight { begin, end, sent_ns: now_ns, hash, heard });
        out.world.at(arrives_ns, Tcp::ID, token);
    }

    /// The same, where it is not done for every write.
    #[inline(never)]
    fn launch_again(&mut self, side: usize, begin: u64, end: u64, out: &mut Outside<'_>) {
        self.launch(side, begin, end, out);
    }

    /// A flight is not sent in truth, or gets lost at once.
    #[cold]
    fn launch_in_vain(
        &mut self,
        side: usize,
        end: u64,
        sent: FlightSent,
        why: Option<Lost>,
        out: &mut Outside<'_>,
    ) {
        out.world.emit_for(self.sides[side].end.owner, sent);
        if let Some(why) = why {
            out.kernel.counts.flights += 1;
            self.lose(side, (sent.begin, end), out.world.now_ns(), why, out);
        }
    }

    /// Places of the lane of `side` did not arrive. Its kernel will notice, if it still has one.
    #[cold]
    fn lose(
        &mut self,
        side: usize,
        (begin, end): (u64, u64),
        sent_ns: u64,
        why: Lost,
        out: &mut Outside<'_>,
    ) {
        self.note_lost(side, why, out);
        let lane = &mut self.sides[side].lane;
        // A probe that is lost leaves no hole.
        if begin < end && !lane.hole {
            lane.hole = true;
            out.kernel.counts.stalled += u64::from(why == Lost::Cut && lane.retries == 0);
        }
        self.arm_retry(side, sent_ns, out);
    }

    /// What `side` sent at `since_ns` will not be acknowledged: its patience runs.
    #[cold]
    pub(super) fn arm_retry(&mut self, side: usize, since_ns: u64, out: &mut Outside<'_>) {
        if self.sides[side].end.phase != Phase::Open || self.sides[side].lane.retry.is_some() {
            return;
        }
        let tcp = &out.wires.config.tcp;
        let lane = &self.sides[side].lane;
        // An acknowledgement that is under way will end the back-off before this wait is over.
        let retries = if lane.next_credit_ns().is_some() { 0 } else { lane.retries };
        let patience_ms = tcp.rto_min_ms.saturating_mul(1 << retries.min(30));
        let patience_ns = patience_ms.min(tcp.rto_max_ms).max(1) * MS;
        let token = self.token(Event::Retry, side);
        let lane = &mut self.sides[side].lane;
        lane.retry = Some(out.world.at(since_ns + patience_ns, Tcp::ID, token));
        lane.has_news = false;
        self.await_credit(side, out);
    }

    /// The patience of `side` has ended.
    pub(super) fn retry(&mut self, side: usize, out: &mut Outside<'_>) {
        let lane = &mut self.sides[side].lane;
        lane.retry = None;
        lane.settle(out.world.now_ns());
        if self.sides[side].end.phase != Phase::Open {
            return;
        }
        if lane.acked == lane.end() {
            lane.hole = false;
            return self.progress(side, out);
        }
        if lane.retries >= out.wires.config.tcp.retries {
            return self.finish(side, Ended::TimedOut, Some(ErrorKind::TimedOut), out);
        }
        lane.retries += 1;
        lane.hole = false;
        // Empty when only acknowledgements are missing, or the window is shut: a probe, to be answered.
        let (begin, end) = (lane.delivered, lane.sent);
        out.kernel.counts.sent_again += 1;
        self.launch_again(side, begin, end, out);
    }

    /// The first flight in the air of the lane of `side` has come to the end of its way.
    #[inline]
    pub(super) fn arrive(&mut self, side: usize, out: &mut Outside<'_>) {
        let flight = self.sides[side].lane.air.take_first().expect("each flight has one timer");
        if let Some(why) = self.lost_on_arrival(side, out) {
            return self.lose(side, (flight.begin, flight.end), flight.sent_ns, why, out);
        }
        let other = 1 - side;
        match self.sides[other].end.phase {
            Phase::SynReceived if flight.begin == 0 => self.enqueue(out),
            Phase::Open | Phase::Done => {}
            Phase::SynReceived | Phase::SynSent | Phase::Gone => {
                self.send_reset(other, out);
                // The reset may get lost.
                return self.arm_retry(side, flight.sent_ns, out);
            }
        }
        self.sides[other].lane.hear(flight.heard);
        if self.is_waiting(other) {
            self.progress(other, out);
        }
        let lane = &mut self.sides[side].lane;
        // Behind a hole it does not count: it is sent again with what fills the hole.
        if flight.begin <= lane.delivered && flight.end > lane.delivered {
            let had_bytes = lane.delivered.min(lane.written);
            lane.delivered = flight.end;
            let len = (flight.end.min(lane.written) - had_bytes.max(1).min(lane.written)) as u32;
            if lane.delivered == lane.sent {
                lane.hole = false;
            }
            if len > 0 && !self.sides[other].end.held {
                // Bytes for a program that has closed: as Linux, a reset says that nobody will read them.
                return self.abort(other, out);
            }
            self.sides[other].end.read_waiting.move_to(&mut out.kernel.woken);
            out.kernel.counts.delivered += 1;
            out.kernel.counts.bytes_delivered += u64::from(len);
            let (connection, (from, _)) = (self.id, self.way(side));
            let record = FlightDelivered { connection, from, len, payload: flight.hash, end: flight.end };
            out.world.emit_for(self.sides[other].end.owner, record);
        }
        self.acknowledge(side, flight.sent_ns, out);
        self.tidy(other, out);
    }

    /// The receiver of the lane of `side` says how far it is and what there is room for, because of what was
    /// sent at `since_ns`.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, side: usize, since_ns: u64, out: &mut Outside<'_>) {
        if self.sides[side].end.phase != Phase::Open {
            return;
        }
        let lane = &mut self.sides[side].lane;
        let heard = lane.say(out.wires.config.tcp.receive_buffer_bytes.max(1));
        lane.announced_end = lane.announced_end.max(heard.window_end);
        match self.segment(1 - side, out) {
            Ok(after_ns) => {
                let now_ns = out.world.now_ns();
                let lane = &mut self.sides[side].lane;
                lane.settle(now_ns);
                lane.credit(now_ns + after_ns, heard);
                self.await_credit(side, out);
            }
            Err(_) => self.arm_retry(side, since_ns, out),
        }
    }

    /// Whether `side` can do something with an acknowledgement.
    #[inline]
    fn is_waiting(&self, side: usize) -> bool {
        let (end, lane) = (&self.sides[side].end, &self.sides[side].lane);
        lane.sent < lane.end()
            || lane.retry.is_some()
            || !end.write_waiting.is_empty()
            || !end.held && lane.acked < lane.end()
    }

    /// Sets a timer for the next acknowledgement, if `side` waits for it.
    #[inline]
    pub(super) fn await_credit(&mut self, side: usize, out: &mut Outside<'_>) {
        if !self.sides[side].lane.credit_awaited && self.is_waiting(side) {
            self.set_credit_timer(side, out);
        }
    }

    fn set_credit_timer(&mut self, side: usize, out: &mut Outside<'_>) {
        let lane = &self.sides[side].lane;
        // All that was sent is acknowledged, the window is shut, and the receiver has said that it is open: that got
        // lost, and nothing on its way will repeat it. The sender asks (the persist timer of RFC 9293, 3.8.6.1).
        if lane.next_credit_ns().is_none()
            && lane.retry.is_none()
            && lane.acked == lane.sent
            && lane.sent < lane.end()
            && lane.announced_end > lane.window_end
        {
            return self.arm_retry(side, out.world.now_ns(), out);
        }
        if let Some(at_ns) = lane.next_credit_ns() {
            out.world.at(at_ns, Tcp::ID, self.token(Event::Credit, side));
            self.sides[side].lane.credit_awaited = true;
        }
    }

    /// An acknowledgement that `side` waits for arrives.
    pub(super) fn credit_arrives(&mut self, side: usize, out: &mut Outside<'_>) {
        self.sides[side].lane.credit_awaited = false;
        self.sides[side].lane.settle(out.world.now_ns());
        self.progress(side, out);
    }

    /// `side` does what its new knowledge allows.
    fn progress(&mut self, side: usize, out: &mut Outside<'_>) {
        if self.sides[side].end.phase != Phase::Open {
            return;
        }
        // Patience with what is still missing begins anew (RFC 6298, 5.3).
        let lane = &mut self.sides[side].lane;
        if std::mem::take(&mut lane.has_news)
            && let Some(timer) = lane.retry.take()
        {
            out.world.cancel(timer);
            if lane.acked < lane.end() {
                self.arm_retry(side, out.world.now_ns(), out);
            } else {
                lane.hole = false;
            }
        }
        if self.sides[side].lane.room(out.wires.config.tcp.send_buffer_bytes.max(1)) > 0 {
            self.sides[side].end.write_waiting.move_to(&mut out.kernel.woken);
        }
        self.push(side, out);
        self.tidy(side, out);
        self.await_credit(side, out);
    }
}
