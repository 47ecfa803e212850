//! All servers together: whose log is whose, what majorities hold, and what a restart leaves.
//!
//! ```text
//!   EntryAppended ──► LogTree ──► Shadow of one server
//!   FsyncDone ──► durable entries of the durable term ──► Chosen
//!   Recovered ──► among what was written │ else what the decoded disk holds │ else lost
//! ```
//!
//! What was pending when the power failed is unknown until the server says what it found; usually that is a prefix of
//! what was written, at times a tail that had been cut comes back, and what nobody has ever seen is read from the
//! decoded disk.
//!
//! Not here: what is known of one server alone (`shadow.rs`); any judgement.

use raft_async::trace::{EntryAppended, EntryWritten, Recovered};
use sim_runtime::NodeId;

use crate::chosen::Chosen;
use crate::log_tree::{LogTree, Prefix};
use crate::shadow::{HardState, Place, Shadow, Slot};
use crate::truth::Truth;

/// What an entry did to a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Appended {
    /// It follows the last one.
    Behind {
        /// The log that it ends.
        prefix: Prefix,
        /// Whether nobody had that log before.
        new: bool,
    },
    /// The log holds that very entry there already.
    Again,
    /// Another entry was there; what follows it stayed. These are the logs that end with it and with those.
    Replaced(Vec<Prefix>),
    /// It does not follow the last one.
    Gap,
}

/// How the log that a server says it recovered is explained.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Explained {
    /// By what was seen being written.
    BySeenWrites,
    /// Only by the decoded disk.
    ByDisk,
    /// By nothing.
    Not,
}

/// A restart, as the shadow saw it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Restart {
    /// Where the recovered log comes from.
    pub explained: Explained,
    /// The durable log before, when the recovered one does not begin with it.
    pub lost_durable: Option<Prefix>,
}

/// All servers, the tree of their logs, and what majorities hold.
#[derive(Debug)]
pub struct Cluster {
    /// All logs.
    pub tree: LogTree,
    /// What majorities hold.
    pub chosen: Chosen,
    servers: Vec<Shadow>,
    /// Place in `servers` plus one, by node id.
    places: Vec<u8>,
}

impl Cluster {
    /// These servers, none of which has been booted.
    ///
    /// # Panics
    /// With more than 128 servers, for whose bits there is no room.
    pub fn new(servers: &[NodeId]) -> Self {
        assert!(servers.len() <= 128, "{} servers are more than a word has bits", servers.len());
        let mut places = Vec::new();
        for (place, node) in servers.iter().enumerate() {
            places.resize(places.len().max(node.index() + 1), 0);
            places[node.index()] = place as u8 + 1;
        }
        Self {
            tree: LogTree::default(),
            chosen: Chosen::new(servers.len()),
            servers: servers.iter().map(|node| Shadow::new(*node)).collect(),
            places,
        }
    }

    /// The place of a server in lists that have an element for each.
    #[inline]
    pub fn place(&self, node: NodeId) -> Option<usize> {
        usize::from(*self.places.get(node.index())?).checked_sub(1)
    }

    /// All of them.
    pub fn servers(&self) -> &[Shadow] {
        &self.servers
    }

    /// One of them.
    #[inline]
    pub fn server(&self, at: usize) -> &Shadow {
        &self.servers[at]
    }

    /// One of them, to be told something.
    #[inline]
    pub fn server_mut(&mut self, at: usize) -> &mut Shadow {
        &mut self.servers[at]
    }

    /// An entry entered the log in memory.
    pub fn entry_appended(&mut self, at: usize, entry: &EntryAppended) -> Appended {
        let server = &mut self.servers[at];
        let position = entry.index as usize;
        if position > server.log.len() + 1 || position == 0 {
            server.lost = true;
            return Appended::Gap;
        }
        let parent = if position == 1 { Prefix::EMPTY } else { server.log[position - 2].prefix };
        let (prefix, new) = self.tree.grow(parent, entry.term, entry.digest);
        let slot = Slot { prefix, place: Place::Memory };
        if position > server.log.len() {
            server.log.push(slot);
            return Appended::Behind { prefix, new };
        }
        if server.log[position - 1].prefix == prefix {
            return Appended::Again;
        }
        server.durable = server.durable.min(position - 1);
        server.log[position - 1] = slot;
        let mut logs = vec![prefix];
        for slot in &mut server.log[position..] {
            let last = logs[logs.len() - 1];
            let (term, command) = (self.tree.term(slot.prefix), self.tree.command(slot.prefix));
            slot.prefix = self.tree.grow(last, term, command).0;
            logs.push(slot.prefix);
        }
        Appended::Replaced(logs)
    }

    /// An entry was handed to a file.
    pub fn entry_written(&mut self, at: usize, entry: &EntryWritten) {
        self.servers[at].entry_written(&self.tree, entry);
    }

    /// A sync is done: asks the device how far the log, and term and vote, are durable now. Returns the latter when
    /// they changed.
    pub fn synced(&mut self, at: usize, truth: &impl Truth) -> Option<HardState> {
        let server = &mut self.servers[at];
        let before = server.durable_hard;
        let hard_changed = !server.pending_hard.is_empty() && server.sync_hard_state(truth);
        if hard_changed && server.durable_hard.term != before.term {
            let last = server.durable;
            self.accept_tail(at, last);
        }
        if !self.servers[at].power_failed {
            self.sync_log(at, truth);
        }
        hard_changed.then(|| self.servers[at].durable_hard)
    }

    fn sync_log(&mut self, at: usize, truth: &impl Truth) {
        let server = &mut self.servers[at];
        let node = server.node();
        while let Some(slot) = server.log.get(server.durable)
            && slot.place.is_durable(node, truth)
        {
            server.durable += 1;
            if self.tree.term(slot.prefix) == server.durable_hard.term {
                self.chosen.accept(&self.tree, slot.prefix, at);
            }
        }
    }

    /// Accepts what is durable and of the durable term, from entry number `last` backwards.
    fn accept_tail(&mut self, at: usize, last: usize) {
        let server = &self.servers[at];
        for slot in server.log[..last].iter().rev() {
            if self.tree.term(slot.prefix) != server.durable_hard.term {
                break;
            }
            self.chosen.accept(&self.tree, slot.prefix, at);
        }
    }

    /// A server says what it found on its disk.
    pub fn recovered(&mut self, at: usize, found: &Recovered, truth: &impl Truth) -> Restart {
        let before = self.servers[at].durable_log();
        let (log, explained) = self.explain(at, found, truth);
        let server = &mut self.servers[at];
        let power_failed = std::mem::take(&mut server.power_failed);
        server.recovering = false;
        server.hard = HardState { term: found.term, vote: found.vote };
        if power_failed {
            // What can be read after a power loss is on the platter.
            server.pending_hard.clear();
            server.save(server.hard);
        }
        server.lost = log.is_none();
        let Some(log) = log else {
            server.log.clear();
            server.durable = 0;
            return Restart { explained, lost_durable: None };
        };
        let lost_durable = (!self.tree.begins_with(log, before)).then_some(before);
        self.adopt(at, log, power_failed);
        self.sync_log(at, truth);
        self.accept_tail(at, self.servers[at].durable);
        Restart { explained, lost_durable }
    }

    /// Looks for the recovered log among what was written, then on the disk.
    fn explain(&mut self, at: usize, found: &Recovered, truth: &impl Truth) -> (Option<Prefix>, Explained) {
        let server = &self.servers[at];
        let own = server.log_to(found.last_index).filter(|p| self.tree.digest(*p) == found.log_digest);
        if let Some(log) = own.or_else(|| self.tree.with_digest(found.last_index, found.log_digest)) {
            return (Some(log), Explained::BySeenWrites);
        }
        let Some(Ok(image)) = truth.visible_image(server.node()) else { return (None, Explained::Not) };
        if image.entries.digest() != found.log_digest {
            return (None, Explained::Not);
        }
        let mut log = Prefix::EMPTY;
        for entry in image.entries.batch(raft_async::types::Index(1), usize::MAX) {
            log = self.tree.grow(log, entry.term.0, entry.command.digest()).0;
        }
        (Some(log), Explained::ByDisk)
    }

    /// Makes `log` the server's log. Entries that it held already keep their places; after a power loss, what is
    /// there is on the platter.
    fn adopt(&mut self, at: usize, log: Prefix, power_failed: bool) {
        let server = &mut self.servers[at];
        let mut new = Vec::new();
        let mut prefix = log;
        while prefix != Prefix::EMPTY && server.log_to(self.tree.index(prefix)) != Some(prefix) {
            new.push(Slot { prefix, place: Place::Found });
            prefix = self.tree.parent(prefix);
        }
        let kept = self.tree.index(prefix) as usize;
        server.log.truncate(kept);
        server.durable = server.durable.min(kept);
        for slot in &mut server.log[server.durable..] {
            if power_failed || slot.place == Place::Memory {
                slot.place = Place::Found;
            }
        }
        server.log.extend(new.into_iter().rev());
    }

    /// The log, in this server's hands or somewhere, that ends with this entry.
    pub fn entry(&self, at: usize, index: u64, term: u64) -> Option<Prefix> {
        let own = self.servers[at].log_to(index).filter(|p| self.tree.term(*p) == term);
        own.or_else(|| self.tree.ending_with(index, term))
    }
}
