//! What is known of a server without asking it: its log, its term and vote, and how much of them is durable.
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
//! Invariants: `durable` never exceeds what is in the files, nor that the log; a shadow that has lost track (`lost`)
//! says so, and nobody is judged by it until the next restart.
//! Not here: what several servers hold together, restarts (`cluster.rs`); any judgement.

use std::fmt;

use raft_async::trace::{EntryWritten, HardStateWritten, LogTruncated, RoleKind};
use sim_io::records::FileResized;
use sim_runtime::trace::Down;
use sim_runtime::{NodeId, Owner};

use crate::dense::FIRST_ROOM;
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
pub(crate) enum Place {
    /// In memory only.
    Memory,
    /// In bytes of a file.
    File { file: u64, offset: u64, len: u64 },
    /// On the disk: it was found there, and nobody saw it being written. A server vouches for what it finds only
    /// after it has synced that, so it counts as durable.
    Found,
}

impl Place {
    pub(crate) fn is_durable(self, node: NodeId, truth: &impl Truth) -> bool {
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
pub(crate) struct Slot {
    pub(crate) prefix: Prefix,
    pub(crate) place: Place,
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
    pub(crate) log: Vec<Slot>,
    pub(crate) durable: usize,
    pub(crate) pending_hard: Vec<(HardState, Place)>,
    /// Every vote that was ever durable, by term.
    votes: Vec<HardState>,
    /// The power failed, and it has not said yet what it found.
    pub(crate) power_failed: bool,
    /// It booted, and has not said yet what it found.
    pub(crate) recovering: bool,
}

impl Shadow {
    pub(crate) fn new(node: NodeId) -> Self {
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
            log: Vec::with_capacity(FIRST_ROOM),
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

    /// A new life begins.
    pub fn booted(&mut self, incarnation: u32) {
        self.owner.incarnation = incarnation;
        self.up = true;
        self.recovering = true;
        if self.power_failed {
            self.pending_hard.clear();
        }
        self.role = RoleKind::Follower;
        (self.commit, self.commit_term, self.applied) = (0, 0, 0);
    }

    /// A life ended.
    pub fn went_down(&mut self, how: Down) {
        self.up = false;
        self.role = RoleKind::Follower;
        self.power_failed |= how == Down::PowerOff;
    }

    /// Term and vote were handed to the disk.
    pub fn hard_state_written(&mut self, written: &HardStateWritten) {
        self.hard = HardState { term: written.term, vote: written.vote };
        let place = Place::File { file: written.file, offset: written.offset, len: written.len };
        self.pending_hard.push((self.hard, place));
    }

    /// An entry was handed to a file. It may have been cut from memory meanwhile; then nobody needs to know where
    /// it is.
    pub fn entry_written(&mut self, tree: &LogTree, entry: &EntryWritten) {
        let position = entry.index as usize;
        let Some(slot) = self.log.get_mut(position.wrapping_sub(1)) else { return };
        let held = (tree.term(slot.prefix), tree.command(slot.prefix));
        if held == (entry.term, entry.digest) {
            slot.place =
                Place::File { file: entry.file, offset: entry.place >> 24, len: entry.place & 0xff_ffff };
            self.durable = self.durable.min(position - 1);
        }
    }

    /// A file was cut. What a booting server cuts is a torn tail, of which it has yet to tell.
    pub fn file_resized(&mut self, resized: &FileResized) {
        if self.recovering {
            return;
        }
        let exceeds = |slot: &Slot| slot.place.exceeds(resized.file, resized.len);
        if let Some(first) = self.log.iter().position(exceeds) {
            self.forget_places(first);
        }
    }

    /// A file lost its name: with it went the entries in it.
    pub fn file_removed(&mut self, truth: &impl Truth) {
        let node = self.node();
        while !self.recovering
            && let Some(last) = self.durable.checked_sub(1)
            && !self.log[last].place.is_durable(node, truth)
        {
            self.forget_places(last);
        }
    }

    /// A suffix of the log was removed.
    pub fn truncated(&mut self, truncated: &LogTruncated) {
        self.log.truncate(truncated.from.saturating_sub(1) as usize);
        self.durable = self.durable.min(self.log.len());
    }

    /// Entries behind the first `kept` are in no file.
    fn forget_places(&mut self, kept: usize) {
        self.durable = self.durable.min(kept);
        for slot in &mut self.log[kept..] {
            slot.place = Place::Memory;
        }
    }

    pub(crate) fn save(&mut self, hard: HardState) {
        self.durable_hard = hard;
        if self.votes.last() != Some(&hard) {
            self.votes.push(hard);
        }
    }

    /// Moves durable term and vote to the last write that the device calls durable.
    pub(crate) fn sync_hard_state(&mut self, truth: &impl Truth) -> bool {
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
