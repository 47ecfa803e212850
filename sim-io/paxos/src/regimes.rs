//! What a search should have seen: each phase under each kind of fault. It never objects.

use std::collections::BTreeMap;

use sim_io::nemesis::FaultKind;
use sim_io::records::{FaultBegan, FaultEnded};
use sim_runtime::assert_sometimes_each;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::verdict::Findings;

/// Looks on.
#[derive(Default)]
pub struct Regimes {
    seen: Cursor,
    /// Faults under way, by id.
    faults: BTreeMap<u64, FaultKind>,
}

impl Invariant for Regimes {
    fn name(&self) -> &'static str {
        "regimes"
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        for record in view.fresh() {
            if let Some(FaultBegan { id, kind, .. }) = record.get() {
                self.faults.extend(FaultKind::of_hash(kind).map(|kind| (id, kind)));
            } else if let Some(FaultEnded { id, .. }) = record.get() {
                self.faults.remove(&id);
            }
        }
        for event in view.events(&mut self.seen) {
            let phase = match event.name.as_str() {
                "promised" => 1,
                "accepted" => 2,
                _ => continue,
            };
            for kind in self.faults.values() {
                assert_sometimes_each!("a phase under a fault", [("phase", phase), ("kind", *kind as u8)]);
            }
        }
    }
}
