//! What datagrams and streams share: the links, how harsh they are, and which machines have no power.
//!
//! Invariants: `Net` owns the calls that cut, heal and configure; both devices only read what follows from it.
//! Not here: what a link does to a message (`link.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use sim_runtime::{Handle, NodeId};

use super::config::NetConfig;
use super::contents::Contents;
use super::link::{Fate, Links};
use crate::records::Lost;

/// The wires, as the devices of one world hold them.
pub(super) type SharedWires = Rc<RefCell<Wires>>;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Wires {
    pub(super) config: NetConfig,
    pub(super) links: Links,
    /// By node: its power failed, and it has not been booted since.
    unpowered: Vec<bool>,
    /// Machines that stand still.
    frozen: Vec<NodeId>,
    pub(super) cuts_made: u64,
    /// What is sent, if somebody wants to know.
    pub(super) contents: Option<Box<Contents>>,
}

impl Wires {
    pub(super) fn set_powered(&mut self, node: NodeId, powered: bool) {
        if self.unpowered.len() <= node.index() {
            self.unpowered.resize(node.index() + 1, false);
        }
        self.unpowered[node.index()] = !powered;
    }

    pub(super) fn set_frozen(&mut self, node: NodeId, frozen: bool) {
        self.frozen.retain(|known| *known != node);
        if frozen {
            self.frozen.push(node);
        }
    }

    /// Whether the machine answers at all. A killed process leaves a kernel that does, a frozen machine does not.
    #[inline]
    pub(super) fn answers(&self, world: &Handle, node: NodeId) -> bool {
        let lost_power = self.unpowered.get(node.index()).is_some_and(|off| *off);
        !lost_power
            && !self.frozen.contains(&node)
            && node.0 < world.node_count()
            && world.incarnation(node) > 0
    }

    /// How long a segment that is sent now takes from `from` to `to`, or why it gets lost. Copies mean nothing
    /// to a stream.
    #[inline]
    pub(super) fn segment(&mut self, world: &Handle, (from, to): (NodeId, NodeId)) -> Result<u64, Lost> {
        if self.links.is_cut(from, to) {
            return Err(Lost::Cut);
        }
        // A kernel that stands still sends nothing; for its peer that is as if it had been lost.
        if self.frozen.contains(&from) {
            return Err(Lost::Frozen);
        }
        let place = self.links.place(from, to);
        match self.links.link(place).fate(world, &self.config, world.now_ns()) {
            Fate::Arrives { after_ns, .. } => Ok(after_ns),
            Fate::Lost => Err(Lost::Loss),
        }
    }
}
