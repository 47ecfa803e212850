//! Verdict: what is said of a history, with what proves it.
//!
//! Invariants: a witness, replayed, is legal and respects real time; the operations of a violation are illegal
//! even if they were all that ever happened; undecided is neither.
//! Not here: how verdicts are found (`check.rs`, `evidence.rs`), the words (`explain.rs`).

use std::fmt;

use crate::history::OpId;

/// What the checker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<K> {
    /// Every key has a legal order. With [`crate::Options::witness`], here they are, by key; else nothing.
    Linearizable(Vec<Witness<K>>),
    /// Some key has none.
    Violation(Box<Violation<K>>),
    /// The budget was used up before these keys were decided; the other keys are linearizable.
    Undecided(Vec<K>),
}

/// One order that explains every answer of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness<K> {
    /// The key.
    pub key: K,
    /// All completed operations and those unknown ones that are taken to have happened.
    pub order: Vec<OpId>,
}

/// Why a key has no legal order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<K> {
    /// The key.
    pub key: K,
    /// The operation whose return ends the shortest offending prefix: until then, everything could be explained.
    pub last: OpId,
    /// The event of that return.
    pub last_event: u32,
    /// The offending window: operations that are illegal on their own, in the order of their invocations. As few
    /// as the evidence budget allowed to find.
    pub operations: Vec<OpId>,
    /// Where to look first: those of them without any one of which the rest would be legal, or, where finding that
    /// out would take long, those that contradict each other. May be empty.
    pub culprits: Vec<OpId>,
    /// The culprits in plain sentences.
    pub explanation: String,
}

impl<K> Verdict<K> {
    /// Whether the history is known to be linearizable.
    pub fn is_linearizable(&self) -> bool {
        matches!(self, Verdict::Linearizable(_))
    }

    /// The violation, if there is one.
    pub fn violation(&self) -> Option<&Violation<K>> {
        match self {
            Verdict::Violation(violation) => Some(violation),
            Verdict::Linearizable(_) | Verdict::Undecided(_) => None,
        }
    }
}

impl<K: fmt::Debug> fmt::Display for Verdict<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Linearizable(_) => write!(f, "linearizable"),
            Verdict::Violation(violation) => {
                write!(f, "not linearizable at key {:?}: {}", violation.key, violation.explanation)
            }
            Verdict::Undecided(keys) => write!(f, "undecided: the budget ended before keys {keys:?} were"),
        }
    }
}
