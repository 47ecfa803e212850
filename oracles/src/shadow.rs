//! What is known of each server without asking it: its log, its term and vote, and how much of them is durable.
//!
//! ```text
//!   EntryAppended, LogTruncated ──► log in memory   [1:t1][2:t1][3:t2][4:t2][5:t2]
//!   EntryWritten, FileResized ────► in the files ───────────────────────┘
//!   FsyncDone + Truth::is_durable ► durable ─────────────────┘
//!   HardStateWritten, FsyncDone ──► pending (term, vote) ──► durable (term, vote)
//!   NodeDown, Recovered ──────────► what survived
//! ```
//!
//! The code says which bytes an entry is; the device says which bytes are there and durable. Files follow memory at a
//! distance: what was cut in memory stays in them for a while, and an entry that was cut and appended again may lie
//! in bytes that are yet to be cut.
//!
//! What was pending when the power failed is unknown until the server says what it found; usually that is a prefix of
//! what was written, at times a tail that had been cut comes back, and what nobody has ever seen is read from the
//! decoded disk.
//!
//! Invariants: `durable` never exceeds what is in the files, nor that the log; a shadow that has lost track (`lost`)
//! says so, and nobody is judged by it until the next restart.
//! Not here: any judgement.

use std::fmt;

use raft_async::trace::{EntryAppended, EntryWritten, HardStateWritten, LogTruncated, Recovered, RoleKind};
use sim_io::records::FileResized;
use sim_runtime::trace::Down;
use sim_runtime::{NodeId, Owner};

use crate::chosen::Chosen;
use crate::log_tree::{LogTree, Prefix};
use crate::truth::Truth;

/// Term and vote; vote 0 is none.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct HardState {
    /// Term.
    pub term: u64,
    /// Vote in that term.
    pub vote: u64,
}

impl HardState {
    /// Whether a server that once had `earlier` must not have this now: the term is older, or the vote of that term
    /// is another or none.
    pub fn falls_short_of(self, earlier: Self) -> bool {
        let vote_lost = self.term == earlier.term && earlier.vote != 0 && self.vote != earlier.vote;
        self.term < earlier.term || vote_lost
    }
}

impl fmt::Display for HardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vote {
            0 => write!(f, "term {} without a vote", self.term),
            vote => write!(f, "term {} with a vote for n{vote}", self.term),
        }
    }
}

/// Where something is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Place {
    /// In memory only.
    Memory,
    /// In bytes of a file.
    File { file: u64, offset: u64, len: u64 },
    /// On the disk: it was found there, and nobody saw it being written. A server vouches for what it finds only
    /// after it has synced that, so it counts as durable.
    Found,
}

impl Place {
    fn is_durable(self, node: NodeId, truth: &impl Truth) -> bool {
        match self {
            Self::Memory => false,
            Self::File { file, offset, len } => truth.is_durable(node, file, offset..offset + len),
            Self::Found => true,
        }
    }

    /// Whether it lies in `file` and ends behind byte `len`.
    fn exceeds(self, cut_file: u64, cut_len: u64) -> bool {
        matches!(self, Self::File { file, offset, len } if file == cut_file && offset + len > cut_len)
    }
}

#[derive(Copy, Clone, Debug)]
struct Slot {
    prefix: Prefix,
    place: Place,
}

/// One server.
#[derive(Debug)]
pub struct Shadow {
    /// The server and its present, or last, life.
    pub owner: Owner,
    /// Whether it lives.
    pub up: bool,
    /// Its role in this life.
    pub role: RoleKind,
    /// Its latest term and vote, durable or not.
    pub hard: HardState,
    /// What of them is durable.
    pub durable_hard: HardState,
    /// Its commit index, and its term when it moved there; of this life.
    pub commit: u64,
    /// See `commit`.
    pub commit_term: u64,
    /// How far it has applied, in this life.
    pub applied: u64,
    /// Its log is not known: it recovered something that neither records nor disk explain.
    pub lost: bool,
    log: Vec<Slot>,
    durable: usize,
    pending_hard: Vec<(HardState, Place)>,
    /// Every vote that was ever durable, by term.
    votes: Vec<HardState>,
    /// The power failed, and it has not said yet what it found.
    power_failed: bool,
    /// It booted, and has not said yet what it found.
    recovering: bool,
}

impl Shadow {
    fn new(node: NodeId) -> Self {
        Self {
            owner: Owner { node, incarnation: 0 },
            up: false,
            role: RoleKind::Follower,
            hard: HardState::default(),
            durable_hard: HardState::default(),
            commit: 0,
            commit_term: 0,
            applied: 0,
            lost: false,
            log: Vec::new(),
            durable: 0,
            pending_hard: Vec::new(),
            votes: Vec::new(),
            power_failed: false,
            recovering: false,
        }
    }

    /// The server.
    pub fn node(&self) -> NodeId {
        self.owner.node
    }

    /// Its log.
    pub fn log(&self) -> Prefix {
        self.log.last().map_or(Prefix::EMPTY, |slot| slot.prefix)
    }

    /// The index of its last entry.
    pub fn last_index(&self) -> u64 {
        self.log.len() as u64
    }

    /// How much of its log is in its files.
    pub fn written_log(&self) -> Prefix {
        let in_memory = self.log[self.durable..].iter().position(|slot| slot.place == Place::Memory);
        let written = in_memory.map_or(self.log.len(), |n| self.durable + n);
        self.log_to(written as u64).expect("that many are in the log")
    }

    /// Its log up to `index`, if it is that long.
    pub fn log_to(&self, index: u64) -> Option<Prefix> {
        if index == 0 { Some(Prefix::EMPTY) } else { Some(self.log.get(index as usize - 1)?.prefix) }
    }

    /// The index of the last entry of the durable part of its log.
    pub fn durable_index(&self) -> u64 {
        self.durable as u64
    }

    /// The durable part of its log.
    pub fn durable_log(&self) -> Prefix {
        self.log_to(self.durable_index()).expect("durable never exceeds the log")
    }

    /// Whether its disk ever held this vote.
    pub fn has_cast(&self, vote: HardState) -> bool {
        self.votes.iter().rev().take_while(|v| v.term >= vote.term).any(|v| *v == vote)
    }

    /// Whether its disk may hold this: it is durable, or on its way, or nobody knows yet what survived.
    pub fn may_hold(&self, hard: HardState) -> bool {
        hard == self.durable_hard
            || self.pending_hard.iter().any(|(pending, _)| *pending == hard)
            || self.power_failed && self.recovering
    }

    /// Entries behind the first `kept` are in no file.
    fn forget_places(&mut self, kept: usize) {
        self.durable = self.durable.min(kept);
        for slot in &mut self.log[kept..] {
            slot.place = Place::Memory;
        }
    }

    fn save(&mut self, hard: HardState) {
        self.durable_hard = hard;
        if self.votes.last() != Some(&hard) {
            self.votes.push(hard);
        }
    }

    /// Moves durable term and vote to the last write that the device calls durable.
    fn sync_hard_state(&mut self, truth: &impl Truth) -> bool {
        let node = self.node();
        let Some(last) = self.pending_hard.iter().rposition(|(_, place)| place.is_durable(node, truth))
        else {
            return false;
        };
        let (hard, _) = self.pending_hard[last];
        self.pending_hard.drain(..=last);
        self.save(hard);
        true
    }
}

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

    /// A new life begins.
    pub fn booted(&mut self, at: usize, incarnation: u32) {
        let server = &mut self.servers[at];
        server.owner.incarnation = incarnation;
        server.up = true;
        server.recovering = true;
        if server.power_failed {
            server.pending_hard.clear();
        }
        server.role = RoleKind::Follower;
        (server.commit, server.commit_term, server.applied) = (0, 0, 0);
    }

    /// A life ended.
    pub fn went_down(&mut self, at: usize, how: Down) {
        let server = &mut self.servers[at];
        server.up = false;
        server.role = RoleKind::Follower;
        server.power_failed |= how == Down::PowerOff;
    }

    /// Term and vote were handed to the disk.
    pub fn hard_state_written(&mut self, at: usize, written: &HardStateWritten) {
        let server = &mut self.servers[at];
        server.hard = HardState { term: written.term, vote: written.vote };
        let place = Place::File { file: written.file, offset: written.offset, len: written.len };
        server.pending_hard.push((server.hard, place));
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

    /// An entry was handed to a file. It may have been cut from memory meanwhile; then nobody needs to know where
    /// it is.
    pub fn entry_written(&mut self, at: usize, entry: &EntryWritten) {
        let server = &mut self.servers[at];
        let position = entry.index as usize;
        let Some(slot) = server.log.get_mut(position.wrapping_sub(1)) else { return };
        let held = (self.tree.term(slot.prefix), self.tree.command(slot.prefix));
        if held == (entry.term, entry.digest) {
            slot.place =
                Place::File { file: entry.file, offset: entry.place >> 24, len: entry.place & 0xff_ffff };
            server.durable = server.durable.min(position - 1);
        }
    }

    /// A file was cut. What a booting server cuts is a torn tail, of which it has yet to tell.
    pub fn file_resized(&mut self, at: usize, resized: &FileResized) {
        let server = &mut self.servers[at];
        if server.recovering {
            return;
        }
        let exceeds = |slot: &Slot| slot.place.exceeds(resized.file, resized.len);
        if let Some(first) = server.log.iter().rposition(|slot| !exceeds(slot) && slot.place != Place::Memory)
        {
            server.forget_places(first + 1);
        } else {
            server.forget_places(0);
        }
    }

    /// A file lost its name: with it went the entries in it.
    pub fn file_removed(&mut self, at: usize, truth: &impl Truth) {
        let server = &mut self.servers[at];
        let node = server.node();
        while !server.recovering
            && let Some(last) = server.durable.checked_sub(1)
            && !server.log[last].place.is_durable(node, truth)
        {
            server.forget_places(last);
        }
    }

    /// A suffix of the log was removed.
    pub fn truncated(&mut self, at: usize, truncated: &LogTruncated) {
        let server = &mut self.servers[at];
        server.log.truncate(truncated.from.saturating_sub(1) as usize);
        server.durable = server.durable.min(server.log.len());
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
