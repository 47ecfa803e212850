//! What `netstat` would say: one line a socket, for reports of runs in which nothing moves.

use std::fmt::Write;

use super::Tcp;
use super::connection::{CLIENT, Connection, Phase, SERVER};
use crate::net::addr::addr_of;

/// More lines than this are only counted.
const SHOWN: usize = 40;

impl Tcp {
    /// All sockets of streams, a line each: protocol, state, own and peer's address, bytes to be read, bytes
    /// not acknowledged, owner, and what its kernel waits for.
    pub fn sockets(&self) -> String {
        let state = &self.network.borrow().streams;
        let mut lines: Vec<String> = Vec::new();
        for listener in state.kernel.listeners.iter() {
            let (local, owner) = (addr_of(listener.owner.node, listener.port), listener.owner);
            let (half_done, queued) = (listener.half_done, listener.queue.len());
            lines.push(format!(
                "tcp {:<12} {local}, {queued} to accept, {half_done} half done, {} ({})",
                "LISTEN", owner.node, owner.incarnation
            ));
        }
        let mut connections: Vec<&Connection> = state.connections.iter().map(|(_, it)| it).collect();
        connections.sort_unstable_by_key(|connection| connection.id);
        for connection in connections {
            for side in [CLIENT, SERVER] {
                let end = &connection.sides[side].end;
                if end.held || !matches!(end.phase, Phase::Gone) {
                    lines.push(connection.line(side));
                }
            }
        }
        let more = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        let mut text = lines.join("\n");
        if more > 0 {
            let _ = write!(text, "\nand {more} more sockets");
        }
        text
    }
}

impl Connection {
    fn line(&self, side: usize) -> String {
        let (end, peer) = (&self.sides[side].end, &self.sides[1 - side].end);
        let (inbound, outbound) = (&self.sides[1 - side].lane, &self.sides[side].lane);
        let unacknowledged = outbound.end() - outbound.acked.max(1);
        let mut line = format!(
            "tcp {:<12} {} -> {}, to read {}, not acknowledged {unacknowledged}, {} ({}{})",
            self.state_name(side),
            addr_of(end.owner.node, end.port),
            addr_of(peer.owner.node, peer.port),
            inbound.available(),
            end.owner.node,
            end.owner.incarnation,
            if end.held { "" } else { ", kernel only" },
        );
        let waits = [
            (outbound.window_full, "window shut"),
            (outbound.retry.is_some(), "sends again"),
            (!end.read_waiting.is_empty(), "reader waits"),
            (!end.write_waiting.is_empty(), "writer waits"),
        ];
        for (_, what) in waits.iter().filter(|(holds, _)| *holds) {
            let _ = write!(line, ", {what}");
        }
        if outbound.retries > 0 {
            let _ = write!(line, ", try {} without an answer", outbound.retries);
        }
        line
    }

    /// The state under its name in RFC 9293.
    fn state_name(&self, side: usize) -> &'static str {
        let (outbound, inbound) = (&self.sides[side].lane, &self.sides[1 - side].lane);
        match self.sides[side].end.phase {
            Phase::SynSent => "SYN_SENT",
            Phase::SynReceived => "SYN_RECV",
            Phase::Done => "TIME_WAIT",
            Phase::Gone => "CLOSED",
            Phase::Open => match (outbound.fin, outbound.is_finished(), inbound.is_ended()) {
                (false, _, false) => "ESTABLISHED",
                (false, _, true) => "CLOSE_WAIT",
                (true, false, false) => "FIN_WAIT1",
                (true, true, false) => "FIN_WAIT2",
                (true, false, true) => "LAST_ACK",
                (true, true, true) => "TIME_WAIT",
            },
        }
    }
}
