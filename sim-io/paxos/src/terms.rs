//! The terms of the paper: proposal numbers, values, proposals, majorities.

use std::fmt;

use serde::{Deserialize, Serialize};
use sim_runtime::NodeId;

use crate::mutant::{Mutant, Planted};

/// An instance of the consensus algorithm: the place of a command in the sequence, from 1.
pub type Slot = u64;

/// A proposal number; 302 is the third of server 2.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Ballot(pub u64);

impl Ballot {
    const PROPOSERS: u64 = 100;

    /// "Different proposers choose their numbers from disjoint sets of numbers" (§2.5). The least of `proposer`'s
    /// that is higher, by a round.
    pub fn next(self, proposer: NodeId) -> Self {
        Self((self.round() + 1) * Self::PROPOSERS + u64::from(proposer.0))
    }

    /// How many numbers of a proposer are not higher.
    pub fn round(self) -> u64 {
        self.0 / Self::PROPOSERS
    }

    /// Whose number it is; nobody's before the first.
    pub fn proposer(self) -> Option<NodeId> {
        Some(NodeId((self.0 % Self::PROPOSERS) as u16)).filter(|proposer| *proposer != NodeId::HOST)
    }

    /// The number of the same proposer before this one.
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(Self::PROPOSERS))
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ballot {}", self.0)
    }
}

/// A value: what a client wants done, as far as Paxos cares. The two numbers tell a retry from a new request.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Command {
    /// The client's node.
    pub client: u16,
    /// Which of the client's requests, from 1.
    pub number: u64,
}

impl Command {
    /// "A special `no-op` command that leaves the state unchanged" (§3).
    pub const NO_OP: Self = Self { client: 0, number: 0 };
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NO_OP => f.write_str("no-op"),
            Self { client, number } => write!(f, "c{client}#{number}"),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// "A proposal consists of a proposal number and a value" (§2.2), here for a slot.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Proposal {
    /// For which instance.
    pub slot: Slot,
    /// Its number.
    pub ballot: Ballot,
    /// Its value.
    pub value: Command,
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}: {}, {:?}", self.slot, self.value, self.ballot)
    }
}

/// "Any two majorities have at least one acceptor in common" (§2.2).
pub fn majority(acceptors: usize, planted: Planted) -> usize {
    if planted.has(Mutant::HalfIsEnough) { acceptors / 2 } else { acceptors / 2 + 1 }
}
