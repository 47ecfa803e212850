//! What datagrams and streams share: the links, how harsh they are, and which machines have no power; and the cell that
//! all of a world's network stands in.
//!
//! Invariants: the devices do their work within one borrow; `Net` owns the calls that cut, heal and configure; both
//! devices only read what follows from it.
//! Not here: what a link does to a message (`link.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use sim_runtime::{Handle, NodeId};

use super::config::NetConfig;
use super::contents::Contents;
use super::device::Datagrams;
use super::link::{Fate, Links};
use super::tcp::Streams;
use crate::records::Lost;

/// The network, as the devices of one world hold it.
pub(super) type SharedNetwork = Rc<RefCell<Network>>;

/// What the devices of a world do their work on.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) wires: Wires,
    pub(super) datagrams: Datagrams,
    pub(super) streams: Streams,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Wires {
    pub(super) config: NetConfig,
    pub(super) links: Links,
    /// By node: its power failed, and it has not been booted since.
    unpowered: Vec<bool>,
    /// Machines that stand still.
    frozen: Vec<NodeId>,
    /// By node: it is known that its machine answers. Of others that has to be found out each time.
    answering: Vec<bool>,
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
        self.forget_answering(node);
    }

    pub(super) fn set_frozen(&mut self, node: NodeId, frozen: bool) {
        self.frozen.retain(|known| *known != node);
        if frozen {
            self.frozen.push(node);
        }
        self.forget_answering(node);
    }

    fn forget_answering(&mut self, node: NodeId) {
        if let Some(known) = self.answering.get_mut(node.index()) {
            *known = false;
        }
    }

    /// Whether the machine answers at all. A killed process leaves a kernel that does, a frozen machine does not.
    #[inline]
    pub(super) fn answers(&mut self, world: &Handle, node: NodeId) -> bool {
        self.answering.get(node.index()).is_some_and(|known| *known) || self.find_answering(world, node)
    }

    #[cold]
    fn find_answering(&mut self, world: &Handle, node: NodeId) -> bool {
        let lost_power = self.unpowered.get(node.index()).is_some_and(|off| *off);
        let answers = !lost_power
            && !self.frozen.contains(&node)
            && node.0 < world.node_count()
            && world.incarnation(node) > 0;
        if answers {
            if self.answering.len() <= node.index() {
                self.answering.resize(node.index() + 1, false);
            }
            self.answering[node.index()] = true;
        }
        answers
    }

    /// How long a segment that is sent now takes from `from` to `to`, over the link at `place`, or why it gets lost.
    /// Copies mean nothing to a stream.
    #[inline(always)]
    pub(super) fn segment(
        &mut self,
        world: &Handle,
        (from, to): (NodeId, NodeId),
        place: u32,
    ) -> Result<u64, Lost> {
        if self.links.is_cut(from, to) {
            return Err(Lost::Cut);
        }
        // A kernel that stands still sends nothing; for its peer that is as if it had been lost.
        if !self.frozen.is_empty() && self.frozen.contains(&from) {
            return Err(Lost::Frozen);
        }
        let link = self.links.link(place);
        link.look(world, &self.config, world.now_ns());
        match link.fate() {
            Fate::Arrives { after_ns, .. } => Ok(after_ns),
            Fate::Lost => Err(Lost::Loss),
        }
    }
}
