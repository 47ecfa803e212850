//! Whoever hears what the judge hears, and judges nothing: one pass over the records serves both.

use sim_runtime::invariant::View;
use sim_runtime::trace::Record;

use crate::event::Event;

/// Sits beside the judge.
pub trait Clerk {
    /// The judge has heard of `event`, of which `record` tells.
    fn note(&mut self, event: Event, record: &Record);

    /// The run is over, and the judge has had its last word.
    fn finish(&mut self, view: &View<'_>) {
        let _ = view;
    }
}

/// Nobody.
impl Clerk for () {
    #[inline]
    fn note(&mut self, _event: Event, _record: &Record) {}
}
