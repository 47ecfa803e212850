//! Reason: why operations contradict each other, in a sentence that names them.
//!
//! Invariants: a reason speaks only of the operations of a proof, or says of a value that no other ones write it.
//! Not here: what each operation did (`explain.rs`).

use crate::case::{Atom, atoms};
use crate::explain::{Teller, at_time};
use crate::history::{OpId, Outcome};
use crate::ranks::Why;
use crate::spec::Spec;

impl<K: PartialEq, S: Spec> Teller<'_, K, S> {
    /// The reason in a sentence, after sentences that say what the operations did. `last` completes the contradiction.
    pub fn reason(&self, why: Why, parties: &[OpId], last: OpId) -> String {
        // Of those that were done before another began, the last.
        let pairs = parties.iter().flat_map(|x| parties.iter().map(move |y| (*x, *y)));
        let pair = pairs.filter(|(x, y)| self.precedes(*x, *y)).max_by_key(|(_, y)| (*y == last, *y));
        match (why, pair) {
            (Why::TooEarly, Some((x, y))) if self.shows(x, y) => {
                let (x, y) = (self.name(x), self.name(y));
                format!("{x} was done before {y} began, and yet saw what {y} wrote.")
            }
            (Why::TooEarly | Why::Overwritten, Some((x, y))) => {
                let missing = self.missing_element(x, y);
                let (x, after) = (self.name(x), self.name(y));
                if let Some(element) = missing {
                    format!("{x} was done before {after} began, and yet {after} did not see its {element}.")
                } else if self.saw(y) {
                    format!(
                        "{x} was done before {after} began, and yet {after} saw what was there without it."
                    )
                } else {
                    format!("{x} was done before {after} began, and yet {after} took effect before it.")
                }
            }
            (Why::TooEarly | Why::Overwritten, None) => {
                "What was done by then is missing from what was seen after it.".to_owned()
            }
            (Why::EachFirst, _) => self.each_first(parties, last),
            (Why::NeverWritten, _) => self.never_written(parties),
            (Why::BuiltTwice, _) => {
                let found = parties.iter().find_map(|id| self.values_seen(*id).first().copied());
                let found = found.map_or_else(|| "the same value".to_owned(), |value| value.to_string());
                format!(
                    "Both found {found} and replaced it, but it was there only once: one of them should have failed."
                )
            }
            (Why::Twice, _) => "What was appended once is in the list twice.".to_owned(),
            (Why::TwoLists, _) => {
                "Every element was appended once, and lists grow only at their end: of two lists \
                                   that share an element, one must be the beginning of the other."
                    .to_owned()
            }
            (Why::PartOfAList, _) => {
                "What was stored as one list is seen only in part, or inside another list.".to_owned()
            }
            (Why::Circle, _) => "Each of these would need the value that another one left.".to_owned(),
            (Why::WrongAnswer, _) => "No state allows that answer.".to_owned(),
        }
    }

    fn each_first(&self, parties: &[OpId], last: OpId) -> String {
        let mut values: Vec<u64> = parties.iter().flat_map(|id| self.touched(*id)).collect();
        values.sort_unstable();
        values.dedup();
        let seen = self.values_seen(last);
        match (&values[..], &seen[..]) {
            ([a, b], [again]) if a == again || b == again => {
                let other = if a == again { b } else { a };
                format!("{again} was seen again after {other} had replaced it, but it was written only once.")
            }
            ([a, b], _) => {
                format!(
                    "{a} must have been there before {b}, and {b} before {a}, but each was written only once."
                )
            }
            _ => "Each of two values must have been there before the other, but each was written only once."
                .to_owned(),
        }
    }

    /// Who, if anybody, wrote later or in vain what the last of `parties` saw too early.
    fn never_written(&self, parties: &[OpId]) -> String {
        let Some(reader) = parties.last() else {
            return "Nobody had begun to write what was seen.".to_owned();
        };
        let seen = self.seen_atoms(*reader);
        let operations = self.history.operations();
        let of_key = (0..operations.len() as u32)
            .map(OpId)
            .filter(|id| id != reader && self.operation(*id).key == self.operation(*reader).key);
        let writers = |atom: &Atom| {
            let atom = *atom;
            of_key.clone().filter(move |id| self.writes(*id, atom))
        };
        // What others had begun to write is not at fault.
        let returned = self.operation(*reader).returned.map_or(u32::MAX, |at| at.event);
        let had_begun = |id: OpId| {
            let writer = self.operation(id);
            !self.has_failed(id) && writer.invoked.event < returned
        };
        let Some(atom) = seen.iter().find(|atom| !writers(atom).any(had_begun)) else {
            return "Nobody had begun to write what was seen.".to_owned();
        };
        let (Atom::Value(value) | Atom::Element(value)) = atom;
        match writers(atom).min_by_key(|id| (self.has_failed(*id), *id)) {
            None => format!("No operation writes {value}."),
            Some(writer) if self.has_failed(writer) => {
                format!(
                    "Only {} would have written {value}, and it failed, so it did not happen.",
                    self.name(writer)
                )
            }
            Some(writer) => {
                let begun = at_time(self.operation(writer).invoked);
                format!(
                    "The first to write {value} was {}, begun {begun}, after it had been seen.",
                    self.name(writer)
                )
            }
        }
    }

    /// Whether `reader` saw something that `writer` writes.
    fn shows(&self, reader: OpId, writer: OpId) -> bool {
        self.seen_atoms(reader).into_iter().any(|atom| self.writes(writer, atom))
    }

    /// What `writer` added to a list, if `reader` saw a list without it.
    fn missing_element(&self, writer: OpId, reader: OpId) -> Option<u64> {
        let operation = self.operation(writer);
        let mut written = atoms(self.spec.footprint(&operation.input, None).writes);
        let Some(Atom::Element(element)) = written.next() else { return None };
        (self.saw(reader) && !self.seen_atoms(reader).contains(&Atom::Element(element))).then_some(element)
    }

    fn saw(&self, id: OpId) -> bool {
        let operation = self.operation(id);
        let Outcome::Ok(output) = &operation.outcome else { return false };
        self.spec.phrase(&operation.input, Some(output)).saw.is_some()
    }

    fn has_failed(&self, id: OpId) -> bool {
        matches!(self.operation(id).outcome, Outcome::Failed)
    }

    fn writes(&self, id: OpId, atom: Atom) -> bool {
        let operation = self.operation(id);
        // As if its outcome were unknown: it may have failed.
        atoms(self.spec.footprint(&operation.input, None).writes).any(|written| written == atom)
    }

    fn seen_atoms(&self, id: OpId) -> Vec<Atom> {
        let operation = self.operation(id);
        let Outcome::Ok(output) = &operation.outcome else { return Vec::new() };
        atoms(self.spec.footprint(&operation.input, Some(output)).sees).collect()
    }

    fn values_seen(&self, id: OpId) -> Vec<u64> {
        let value = |atom| if let Atom::Value(value) = atom { Some(value) } else { None };
        self.seen_atoms(id).into_iter().filter_map(value).collect()
    }

    /// Whole values that it saw or wrote.
    fn touched(&self, id: OpId) -> Vec<u64> {
        let operation = self.operation(id);
        let output = if let Outcome::Ok(output) = &operation.outcome { Some(output) } else { None };
        let print = self.spec.footprint(&operation.input, output);
        let value = |atom| if let Atom::Value(value) = atom { Some(value) } else { None };
        atoms(print.sees).chain(atoms(print.writes)).filter_map(value).collect()
    }
}
