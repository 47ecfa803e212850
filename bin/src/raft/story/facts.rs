//! Facts: what a proof may have to name, gathered on the way. All `u64` named `at` are ordinals of records.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::words::Call;

/// Somebody acts as a leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Leads {
    pub term: u64,
    pub node: u16,
    pub life: u32,
    pub at: u64,
    /// It says so; else it only sends AppendEntries.
    pub elected: bool,
    /// Voters that it counted, and when.
    pub votes: Vec<(u64, u64)>,
    /// Its log: terms and digests.
    pub log: Rc<Vec<(u64, u64)>>,
}

impl Leads {
    /// Whether that server elected it, as far as it counted.
    pub fn has_vote_of(&self, node: u16) -> bool {
        self.node == node || self.votes.iter().any(|(voter, _)| *voter == u64::from(node))
    }
}

/// Somebody takes an entry for committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claims {
    pub node: u16,
    /// In which term.
    pub term: u64,
    pub at: u64,
    /// The log up to the entry.
    pub log: Rc<Vec<(u64, u64)>>,
}

/// Somebody applies an entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Applies {
    pub node: u16,
    pub index: u64,
    pub term: u64,
    pub digest: u64,
    pub reply: u32,
    pub at: u64,
}

/// An entry enters a log, or leaves it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Logged {
    pub node: u16,
    pub index: u64,
    pub term: u64,
    pub digest: u64,
    /// Over the log up to it.
    pub prefix: u64,
    pub at: u64,
}

/// Somebody comes back.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Recovers {
    pub node: u16,
    pub at: u64,
    pub found: (u64, u64),
    /// The latest term and vote that it had shown or synced, and when.
    pub bound: ((u64, u64), Option<u64>),
}

/// A client's operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub call: Call,
    pub invoked: u64,
    pub answered: Option<u64>,
    pub write: bool,
}

/// What happened to a server, or what it did, to be found again by kind.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Note {
    /// It wrote term and vote.
    HardWritten,
    Down,
    /// A power loss had a share in one of its files.
    Crashed,
    Recovered,
    /// It answered an AppendEntries.
    Answered,
    Halted,
}

/// Everything that a proof may name.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub leads: Vec<Leads>,
    pub claims: Vec<Claims>,
    pub applies: Vec<Applies>,
    pub appended: Vec<Logged>,
    pub dropped: Vec<Logged>,
    /// (node, life, operation, index, at).
    pub executes: Vec<(u16, u32, Call, u64, u64)>,
    pub recovers: Vec<Recovers>,
    pub asked: Vec<Asked>,
    pub panics: Vec<u64>,
    /// (server, term and vote that it wrote, at).
    pub hard: Vec<(u16, (u64, u64), u64)>,
    /// Answers to AppendEntries that vouch for a log: (server, up to which index, at).
    pub vouched: Vec<(u16, u64, u64)>,
    /// (what, server, at).
    pub notes: Vec<(Note, u16, u64)>,
    /// By operation: what it is.
    pub calls: BTreeMap<Call, String>,
    /// By operation: what its client was told.
    pub outcomes: BTreeMap<Call, String>,
    /// By digest of a command: what it is, and of which operation.
    pub commands: BTreeMap<u64, (String, Call)>,
}

impl Facts {
    /// The answer in which a server vouched for an entry that it lost later.
    pub fn vouched_for(&self, lost: &Logged) -> Option<u64> {
        let appended = self.appended.iter().filter(|entry| {
            (entry.node, entry.index, entry.term) == (lost.node, lost.index, lost.term) && entry.at < lost.at
        });
        let appended = appended.map(|entry| entry.at).max()?;
        let mut answers = self.vouched.iter().filter(|(node, index, at)| {
            *node == lost.node && *index >= lost.index && (appended..lost.at).contains(at)
        });
        answers.next().map(|(.., at)| *at)
    }

    /// How a server lost an entry: the records, and a sentence.
    pub fn loss(&self, lost: &Logged) -> (Vec<u64>, String) {
        let entry = super::words::entry(lost.index, lost.term);
        match self.vouched_for(lost) {
            Some(vouched) => {
                let sentence = format!(
                    "n{} had vouched for {entry} (#{vouched}) and lost it (#{}).",
                    lost.node, lost.at
                );
                (vec![vouched, lost.at], sentence)
            }
            None => (vec![lost.at], format!("n{} had {entry} and lost it (#{}).", lost.node, lost.at)),
        }
    }

    /// What the command of an entry is called.
    pub fn command(&self, digest: u64) -> String {
        self.commands.get(&digest).map_or_else(|| "no-op".to_owned(), |(text, _)| text.clone())
    }

    pub fn call(&self, call: Call) -> String {
        let name = super::words::call(call);
        self.calls.get(&call).map_or_else(|| name.clone(), |op| format!("{name} {op}"))
    }

    pub fn asked_mut(&mut self, call: Call) -> Option<&mut Asked> {
        self.asked.iter_mut().rev().find(|asked| asked.call == call)
    }
}
