//! Messages, and the socket of a role. They may be lost, come late, twice, in any order.

use std::future::poll_fn;
use std::io;

use serde::{Deserialize, Serialize};
use sim_io::net::{UdpSocket, addr_of, node_of};
use sim_runtime::NodeId;
use sim_runtime::time::{Instant, timeout};

use crate::terms::{Ballot, Command, Proposal, Slot};

/// What roles say to each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Message {
    /// A client to a proposer: do this.
    Request(Command),
    /// A proposer or learner to a client: it is done.
    Done(Command),
    /// Phase 1a, for this slot and all after it (§3).
    Prepare(Ballot, Slot),
    /// Phase 1b: nothing below that number any more; and what is accepted in those slots.
    Promise(Ballot, Vec<Proposal>),
    /// Phase 2a.
    Accept(Proposal),
    /// Phase 2b, to all learners.
    Accepted(Proposal),
    /// There is a promise of a higher number: "it should probably inform the proposer, who should then abandon its
    /// proposal" (§2.2).
    Refused(Ballot),
    /// The distinguished proposer to the others: it is alive.
    Leading(Ballot),
    /// A learner asks acceptors and learners what they know of this slot and those after it.
    Report(Slot),
    /// A learner to another: this is chosen.
    Chosen(Slot, Command),
}

impl Message {
    /// In words, for a story.
    pub fn read(bytes: &[u8]) -> Option<String> {
        serde_json::from_slice(bytes).ok().map(|message: Self| format!("{message:?}"))
    }
}

/// Who has a port of its own on a node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// Takes requests, issues proposals.
    Proposer = 7_001,
    /// Accepts them.
    Acceptor,
    /// Learns what is chosen.
    Learner,
    /// Sends requests.
    Client,
}

/// Where a role receives, and sends from.
pub struct Mailbox(UdpSocket);

impl Mailbox {
    /// That of `role` on the node `me`.
    pub async fn of(role: Role, me: NodeId) -> io::Result<Self> {
        Ok(Self(UdpSocket::bind(addr_of(me, role as u16)).await?))
    }

    /// The next message, and from whom.
    pub async fn receive(&self) -> io::Result<(Message, NodeId)> {
        let mut bytes = Vec::new();
        loop {
            let from = poll_fn(|cx| self.0.poll_recv_into(cx, &mut bytes)).await?;
            if let (Ok(message), Some(node)) = (serde_json::from_slice(&bytes), node_of(from.ip())) {
                return Ok((message, node));
            }
        }
    }

    /// The next message, or `None` when there is none until then.
    pub async fn receive_until(&self, deadline: Instant) -> io::Result<Option<(Message, NodeId)>> {
        let patience = deadline.duration_since(Instant::now());
        timeout(patience, self.receive()).await.map_or(Ok(None), |received| received.map(Some))
    }

    /// Sends to the role on each of those nodes.
    pub fn send(&self, role: Role, to: &[NodeId], message: &Message) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        to.iter().try_for_each(|node| self.0.try_send_to(&bytes, addr_of(*node, role as u16)).map(drop))
    }
}
