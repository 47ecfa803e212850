//! Case: the operations of one key, with those that cannot matter forgotten.
//!
//! ```text
//!   Ok      ─► [invocation, return], with its answer
//!   Failed  ─► left out: it did not happen
//!   Unknown ─► [invocation, never]; left out if it reads, or if it writes a value that nobody saw
//! ```
//!
//! Why unknown writes may be forgotten: the operation need not have happened, and where it did, deleting it from
//! the order leaves everybody's answers as they were, by the promise of footprints. Elements inside a longer list
//! that somebody saw count as seen; an answer that says only "something else was there" (opaque) may have met any
//! unseen value, so then all are kept.
//!
//! Invariants: operations are in the order of their invocations; nothing of the history is copied.
//! Not here: slots, classes and the order of returns (`schedule.rs`).

use crate::history::{OpId, Operation, Outcome};
use crate::spec::{Call, Footprint, Role, Spec, Touch};

/// The return of an operation that nobody knows to have ended.
pub const NEVER: u32 = u32::MAX;

/// One operation of a case.
pub struct CaseOp<'h, I, O> {
    pub id: OpId,
    pub invoked: u32,
    /// [`NEVER`] when the outcome is unknown.
    pub returned: u32,
    pub call: Call<'h, I, O>,
    /// Changes no state.
    pub is_read: bool,
    /// The last return of an operation that sees what this writes; after it, an unknown write is of no use.
    pub useful_until: u32,
}

impl<I, O> Clone for CaseOp<'_, I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for CaseOp<'_, I, O> {}

impl<'h, I, O> CaseOp<'h, I, O> {
    /// The operation as a case sees it, unless it did not happen.
    pub fn of<K>(id: OpId, operation: &'h Operation<K, I, O>) -> Option<Self> {
        let (output, returned) = match (&operation.outcome, operation.returned) {
            (Outcome::Failed, _) => return None,
            (Outcome::Ok(output), Some(returned)) => (Some(output), returned.event),
            (Outcome::Ok(_) | Outcome::Unknown, _) => (None, NEVER),
        };
        let call = Call { input: &operation.input, output };
        let invoked = operation.invoked.event;
        Some(CaseOp { id, invoked, returned, call, is_read: false, useful_until: NEVER })
    }

    /// The operation as somebody saw it who stopped looking right after event `cut`.
    pub fn until(self, cut: u32) -> Option<Self> {
        if self.invoked > cut {
            return None;
        }
        if self.returned <= cut {
            return Some(self);
        }
        Some(CaseOp { returned: NEVER, call: Call { output: None, ..self.call }, ..self })
    }

    pub fn is_unknown(&self) -> bool {
        self.returned == NEVER
    }
}

/// A value that a write leaves and an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    Value(u64),
    Element(u64),
}

/// The values of a touch, one by one.
pub fn atoms(touch: Touch<'_>) -> impl Iterator<Item = Atom> + '_ {
    let (value, elements) = match touch {
        Touch::Nothing => (None, &[][..]),
        Touch::Value(value) => (Some(Atom::Value(value)), &[][..]),
        Touch::Elements(elements) => (None, elements),
    };
    value.into_iter().chain(elements.iter().map(|element| Atom::Element(*element)))
}

/// Marks reads, forgets unknown operations that cannot matter, and finds until when the others can.
///
/// O(n log u + elements seen) for n operations and u unknown writes; a list that is a prefix of one already
/// looked at costs a `memcmp`.
pub fn prepare<S: Spec>(spec: &S, ops: &mut Vec<CaseOp<'_, S::Input, S::Output>>) {
    let mut is_opaque = false;
    let mut has_unknown_write = false;
    ops.retain_mut(|op| {
        let print = spec.footprint(op.call.input, op.call.output);
        op.is_read = print.role == Role::Read;
        is_opaque |= print.opaque;
        has_unknown_write |= op.is_unknown() && print.role == Role::Write;
        !(op.is_unknown() && op.is_read)
    });
    if has_unknown_write && !is_opaque {
        let mut sightings = Sightings::of(spec, ops);
        while sightings.forget_unseen(ops) {}
    }
}

/// Who saw what unknown operations write.
struct Sightings<'h> {
    /// Sorted values written by unknown operations, and the last return of a completed operation that sees each.
    seen: Vec<(Atom, Option<u32>)>,
    /// Footprints of the unknown writes that are left, by the name of their operation.
    unknown: Vec<(OpId, Footprint<'h>)>,
}

impl<'h> Sightings<'h> {
    fn of<S: Spec>(spec: &S, ops: &[CaseOp<'h, S::Input, S::Output>]) -> Self {
        let unknown = ops.iter().filter(|op| op.is_unknown());
        let unknown: Vec<_> = unknown.map(|op| (op.id, spec.footprint(op.call.input, None))).collect();
        let mut seen: Vec<_> = unknown.iter().flat_map(|(_, print)| atoms(print.writes)).collect();
        seen.sort_unstable();
        seen.dedup();
        let mut sightings = Sightings { seen: seen.into_iter().map(|atom| (atom, None)).collect(), unknown };
        sightings.look(spec, ops);
        sightings
    }

    fn look<S: Spec>(&mut self, spec: &S, ops: &[CaseOp<'h, S::Input, S::Output>]) {
        let mut longest: &[u64] = &[];
        for op in ops.iter().filter(|op| !op.is_unknown()) {
            match spec.footprint(op.call.input, op.call.output).sees {
                Touch::Nothing => {}
                Touch::Value(value) => self.mark(Atom::Value(value), op.returned),
                // Elements stay in a list, so they are taken to be seen for ever. Lists mostly grow, so
                // of most only the end is new.
                Touch::Elements(list) if longest.starts_with(list) => {}
                Touch::Elements(list) => {
                    let news = list.strip_prefix(longest).unwrap_or(list);
                    news.iter().for_each(|element| self.mark(Atom::Element(*element), NEVER));
                    longest = if list.len() > longest.len() { list } else { longest };
                }
            }
        }
    }

    fn mark(&mut self, atom: Atom, returned: u32) {
        if let Ok(at) = self.seen.binary_search_by_key(&atom, |(atom, _)| *atom) {
            self.seen[at].1 = self.seen[at].1.max(Some(returned));
        }
    }

    /// One round: whether something was forgotten, which may leave more unseen.
    fn forget_unseen<I, O>(&mut self, ops: &mut Vec<CaseOp<'h, I, O>>) -> bool {
        // An unknown operation that happens to see a value may do so at any time.
        let mut seen = self.seen.clone();
        for (_, print) in &self.unknown {
            for atom in atoms(print.sees) {
                if let Ok(at) = seen.binary_search_by_key(&atom, |(atom, _)| *atom) {
                    seen[at].1 = Some(NEVER);
                }
            }
        }
        // The first value that nobody ever saw decides; so does, later, the one that nobody will see again.
        let last_use = |print: &Footprint<'_>| match print.role {
            Role::Fixed | Role::Read => Some(NEVER),
            Role::Write => atoms(print.writes)
                .map(|atom| {
                    seen.binary_search_by_key(&atom, |(atom, _)| *atom).ok().and_then(|at| seen[at].1)
                })
                .min()
                .unwrap_or(Some(NEVER)),
        };
        let before = self.unknown.len();
        let uses: Vec<_> = self.unknown.iter().map(|(id, print)| (*id, last_use(print))).collect();
        self.unknown.retain(|(id, _)| use_of(&uses, *id).is_some());
        ops.retain_mut(|op| match op.is_unknown().then(|| use_of(&uses, op.id)) {
            None => true,
            Some(None) => false,
            Some(Some(until)) => {
                op.useful_until = until;
                true
            }
        });
        self.unknown.len() < before
    }
}

/// Until when an unknown operation is of use, by its name; the table is in the order of names.
fn use_of(uses: &[(OpId, Option<u32>)], id: OpId) -> Option<u32> {
    let at = uses.binary_search_by_key(&id, |(id, _)| *id).ok()?;
    uses[at].1
}
