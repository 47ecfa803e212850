//! What is checked after every step.
//!
//!   step ──records──► View ──► Invariant::observe ──► Findings
//!
//! An invariant keeps its own state and looks only at what is new, so that a check costs the same after an
//! hour as after a second. It may ask devices for what they know, and must not change anything: what it finds it
//! says through [`Findings`], what it logs through `tracing` is not captured, and a panic in it ends the run as
//! `crash`.

use crate::device::Device;
use crate::event::{Event, Events};
use crate::node::{NodeId, Owner};
use crate::trace::{Kind, Record, Trace};
use crate::verdict::Findings;
use crate::world::Handle;
use std::rc::Rc;

/// A property that is checked after every step which left records.
pub trait Invariant {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Whether it looks at records of this kind. Steps that leave none which any invariant looks at are not shown
    /// to anybody by themselves: their records come with those of the next step that is. Asked once for each kind
    /// below [`crate::trace::OPEN_KINDS`], when the invariant is registered; kinds from there on are always of concern.
    fn concerns(&self, kind: Kind) -> bool {
        let _ = kind;
        true
    }

    /// Looks at what is new: [`View::fresh`], [`View::since`].
    fn observe(&mut self, view: &View<'_>, found: &mut Findings);

    /// The run is over.
    fn finish(&mut self, view: &View<'_>, found: &mut Findings) {
        let _ = (view, found);
    }
}

/// Where a reader of `tracing` events stands. Starts at the beginning.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Cursor(u64);

/// What an invariant may look at.
pub struct View<'a> {
    handle: &'a Handle,
    trace: &'a Trace,
    events: &'a Events,
}

impl<'a> View<'a> {
    pub(crate) fn new(handle: &'a Handle, trace: &'a Trace, events: &'a Events) -> Self {
        Self { handle, trace, events }
    }

    /// The records that are new since the last look: those of the last step, and of earlier ones that concerned
    /// nobody.
    #[inline]
    pub fn fresh(&self) -> &'a [Record] {
        self.trace.fresh().1
    }

    /// The ordinal of the first of [`View::fresh`].
    pub fn first_fresh(&self) -> u64 {
        self.trace.fresh().0
    }

    /// The records that are still held, with the ordinal of the first: the recent past, or all of them in a
    /// run that keeps its trace.
    pub fn held(&self) -> (u64, &'a [Record]) {
        self.trace.held()
    }

    /// The `tracing` events named `name` that have come since `cursor`, which moves to the end.
    ///
    /// # Panics
    /// When some of them are gone, in a run that keeps only the recent past: a cursor is to be moved at every look.
    /// (Without that an invariant would miss what it is there to see.)
    pub fn since<'n>(
        &self,
        name: &'n str,
        cursor: &mut Cursor,
    ) -> impl Iterator<Item = &'a Event> + use<'a, 'n> {
        self.events(cursor).iter().filter(move |event| event.name == name)
    }

    /// All `tracing` events that have come since `cursor`, which moves to the end.
    ///
    /// # Panics
    /// As [`View::since`].
    pub fn events(&self, cursor: &mut Cursor) -> &'a [Event] {
        let from = std::mem::replace(&mut cursor.0, self.events.len());
        let first_held = self.events.first_held();
        assert!(
            from >= first_held,
            "a cursor stands at event {from}, and those before {first_held} are forgotten: move each cursor at every look"
        );
        self.events.since(from)
    }

    /// Global virtual time.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.handle.now_ns()
    }

    /// The digest of all records so far.
    pub fn behaviour(&self) -> u64 {
        self.trace.digest()
    }

    /// The world's device of type `D`, to look at.
    pub fn device<D: Device>(&self) -> Rc<D> {
        self.handle.device()
    }

    /// Counts something for the coverage table; see [`Handle::count`].
    pub fn count(&self, name: &'static str, n: u64) {
        self.handle.count(name, n);
    }

    /// Whether that incarnation is alive.
    pub fn is_live(&self, owner: Owner) -> bool {
        self.handle.is_live(owner)
    }

    /// Whether the node is up.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.handle.is_up(node)
    }

    /// How many nodes there are, the host included.
    pub fn node_count(&self) -> u16 {
        self.handle.node_count()
    }
}
