//! Explain: a violation in sentences that a tired engineer can follow.
//!
//! ```text
//!   put#12(7), begun at 10 ms, was done at 20 ms. put#50(8), begun at 95 ms after put#12 was done, was done at
//!   100 ms. get#66, begun at 130 ms after put#50 was done, saw 7, done at 140 ms. 7 was seen again after 8 had
//!   replaced it, but it was written only once.
//! ```
//!
//! Invariants: names are `verb#id`, ids are positions in the history; times are the recorder's, else event indices.
//! Not here: which operations matter (`evidence.rs`), reasons (`reason.rs`).

use crate::case::{Atom, CaseOp, atoms};
use crate::evidence::Evidence;
use crate::history::{History, Moment, OpId, Operation, Outcome};
use crate::ranks;
use crate::spec::Spec;

/// More sentences than this are not read.
const SENTENCES: usize = 8;

/// More names than this are counted instead.
const NAMES: usize = 12;

/// The culprits, or, where there are none, the last operations of the window, one sentence each.
pub fn explain<K: PartialEq, S: Spec>(
    spec: &S,
    history: &History<K, S::Input, S::Output>,
    evidence: &Evidence,
) -> String {
    let small = evidence.operations.len() <= SENTENCES / 2;
    let told = if small || evidence.culprits.is_empty() { &evidence.operations } else { &evidence.culprits };
    let told = &told[told.len().saturating_sub(SENTENCES)..];
    let teller = Teller { spec, history, all: &evidence.operations };
    let mut sentences: Vec<String> = (0..told.len()).map(|at| teller.sentence(told, at)).collect();
    sentences.extend(evidence.why.as_ref().map(|(why, parties)| teller.reason(*why, parties, evidence.last)));
    let rest: Vec<String> =
        evidence.operations.iter().filter(|id| !told.contains(id)).map(|id| teller.name(*id)).collect();
    sentences.push(match (told.len(), &rest[..]) {
        (_, []) if evidence.why.is_some() => String::new(),
        (1, []) => "Nothing can explain that answer.".to_owned(),
        (_, []) => {
            "No order of these operations explains every answer, and no other operation helps.".to_owned()
        }
        (_, rest) if rest.len() <= NAMES => {
            format!("With {}, which belong to it, no order explains every answer.", rest.join(", "))
        }
        (_, rest) => {
            format!("With {} more operations that belong to it, no order explains every answer.", rest.len())
        }
    });
    let answered = teller.operation(evidence.last).returned.map_or_else(String::new, at_time);
    sentences.push(format!(
        "Without the answer of {} {answered}, all that had been answered by then can be explained.",
        teller.name(evidence.last),
    ));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

/// Unknown operations that a legal order has, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Of the first of them, a sentence each.
    pub sentences: Vec<String>,
    /// How many others there are.
    pub more: usize,
}

/// Which unknown operations a legal order of a key has, the first `most` of them in sentences.
///
/// Where the order was forced ("ranks"), no order does without them: `linearizable only if unknown put#17(5) took effect
/// between 10 ms and 30 ms`, which is from its invocation to the first return of an operation that saw it. Where it was
/// searched for, others might do as well: `in the order found, unknown put#17(5) took effect between 20 ms and 30 ms`,
/// the time that this order leaves it. O(n log n) for n operations of the key, and O(n) a sentence.
pub fn conditions<K: PartialEq, S: Spec>(
    spec: &S,
    history: &History<K, S::Input, S::Output>,
    order: &[OpId],
    most: usize,
) -> Conditions {
    let teller = Teller { spec, history, all: order };
    let is_unknown = |id: &OpId| !matches!(teller.operation(*id).outcome, Outcome::Ok(_));
    let unknown: Vec<usize> = (0..order.len()).filter(|at| is_unknown(&order[*at])).collect();
    let told = &unknown[..unknown.len().min(most)];
    let Some(first) = told.first() else { return Conditions { sentences: Vec::new(), more: unknown.len() } };
    let is_forced = {
        let key = &teller.operation(order[*first]).key;
        let of_key = (0..history.len() as u32).map(OpId).filter(|id| teller.operation(*id).key == *key);
        let ops: Vec<_> = of_key.filter_map(|id| CaseOp::of(id, teller.operation(id))).collect();
        ranks::judge(spec, &ops).is_some()
    };
    let sentence = |at: &usize| {
        let id = order[*at];
        let operation = teller.operation(id);
        let phrase = spec.phrase(&operation.input, None);
        let argument =
            if phrase.argument.is_empty() { String::new() } else { format!("({})", phrase.argument) };
        let (from, until) =
            if is_forced { (operation.invoked, teller.shown_at(id)) } else { teller.room(order, *at) };
        let when = match until {
            Some(until) => format!("between {} and {}", bare(&at_time(from)), bare(&at_time(until))),
            None => format!("after {}", bare(&at_time(from))),
        };
        let how = if is_forced { "linearizable only if" } else { "in the order found," };
        format!("{how} unknown {}{id}{argument} took effect {when}", phrase.verb)
    };
    Conditions { sentences: told.iter().map(sentence).collect(), more: unknown.len() - told.len() }
}

fn bare(time: &str) -> &str {
    time.trim_start_matches("at ")
}

/// An operation in a few words: `get#66 saw 7`.
pub(crate) fn label<K, S: Spec>(spec: &S, id: OpId, operation: &Operation<K, S::Input, S::Output>) -> String {
    let output = match &operation.outcome {
        Outcome::Ok(output) => Some(output),
        Outcome::Failed | Outcome::Unknown => None,
    };
    let phrase = spec.phrase(&operation.input, output);
    let argument = if phrase.argument.is_empty() { String::new() } else { format!("({})", phrase.argument) };
    let saw = phrase.saw.map_or_else(String::new, |saw| format!(" saw {saw}"));
    format!("{}{id}{argument}{saw}", phrase.verb)
}

pub(crate) struct Teller<'a, K, S: Spec> {
    pub spec: &'a S,
    pub history: &'a History<K, S::Input, S::Output>,
    /// Who may have seen what an unknown operation did.
    all: &'a [OpId],
}

impl<K, S: Spec> Teller<'_, K, S> {
    pub fn operation(&self, id: OpId) -> &Operation<K, S::Input, S::Output> {
        &self.history.operations()[id.0 as usize]
    }

    pub fn name(&self, id: OpId) -> String {
        let phrase = self.spec.phrase(&self.operation(id).input, None);
        format!("{}{id}", phrase.verb)
    }

    /// What operation `told[at]` did, and after which of the others it began.
    fn sentence(&self, told: &[OpId], at: usize) -> String {
        let id = told[at];
        let operation = self.operation(id);
        let output = match &operation.outcome {
            Outcome::Ok(output) => Some(output),
            Outcome::Failed | Outcome::Unknown => None,
        };
        let phrase = self.spec.phrase(&operation.input, output);
        let argument = match phrase.argument.as_str() {
            "" => String::new(),
            argument => format!("({argument})"),
        };
        let done_before = told.iter().filter(|other| self.precedes(**other, id));
        let after = done_before.max_by_key(|other| self.operation(**other).returned.map(|at| at.event));
        let after = after.map_or_else(String::new, |other| format!(" after {} was done", self.name(*other)));
        let outcome = match (operation.returned, output, phrase.saw) {
            (Some(at), Some(_), Some(saw)) => format!("saw {saw}, done {}", at_time(at)),
            (Some(at), Some(_), None) => format!("was done {}", at_time(at)),
            _ => match self.seen_by(id) {
                Some(by) => format!(
                    "never answered, and took effect before {} was done {}, which shows it",
                    self.name(by),
                    self.operation(by).returned.map_or_else(String::new, at_time)
                ),
                None => "never answered".to_owned(),
            },
        };
        format!("{}{id}{argument}, begun {}{after}, {outcome}.", phrase.verb, at_time(operation.invoked))
    }

    /// Of those that saw what an operation wrote, the first to return.
    fn seen_by(&self, id: OpId) -> Option<OpId> {
        let written: Vec<Atom> = atoms(self.spec.footprint(&self.operation(id).input, None).writes).collect();
        let sees = |other: &&OpId| match &self.operation(**other).outcome {
            Outcome::Ok(output) if **other != id && !self.precedes(**other, id) => {
                let print = self.spec.footprint(&self.operation(**other).input, Some(output));
                atoms(print.sees).any(|atom| written.contains(&atom))
            }
            _ => false,
        };
        let returned = |other: &&OpId| self.operation(**other).returned.map(|at| at.event);
        self.all.iter().filter(sees).min_by_key(returned).copied()
    }

    /// When what an operation did had been seen.
    fn shown_at(&self, id: OpId) -> Option<Moment> {
        self.seen_by(id).and_then(|by| self.operation(by).returned)
    }

    /// When an operation may have taken effect if this is the order: after all before it in the order were invoked,
    /// before one after it returned.
    fn room(&self, order: &[OpId], at: usize) -> (Moment, Option<Moment>) {
        let invoked = order[..=at].iter().map(|id| self.operation(*id).invoked);
        let returned = order[at..].iter().filter_map(|id| {
            let operation = self.operation(*id);
            operation.returned.filter(|_| matches!(operation.outcome, Outcome::Ok(_)))
        });
        let from = invoked.max_by_key(|at| at.event).expect("it is in the order itself");
        (from, returned.min_by_key(|at| at.event))
    }

    pub fn precedes(&self, first: OpId, second: OpId) -> bool {
        let first = self.operation(first);
        let done = first.returned.filter(|_| matches!(first.outcome, Outcome::Ok(_)));
        done.is_some_and(|done| done.event < self.operation(second).invoked.event)
    }
}

/// `at 90 ms`, `at 90.25 ms`, `at event 17`.
pub(crate) fn at_time(moment: Moment) -> String {
    let Some(ns) = moment.time_ns else { return format!("at event {}", moment.event) };
    let (ms, below) = (ns / 1_000_000, ns % 1_000_000);
    let decimals = format!("{below:06}");
    match decimals.trim_end_matches('0') {
        "" => format!("at {ms} ms"),
        decimals => format!("at {ms}.{decimals} ms"),
    }
}
