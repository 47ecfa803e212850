//! State machine safety: "if a server has applied a log entry at a given index to its state machine, no other
//! server will ever apply a different log entry for the same index" (§5.4.3, Figure 3).
//!
//! Judged by what the witness around the state machine saw; the log is not asked. The same goes for replies: state
//! machines that applied the same entries and answer differently are not the same any more.

use sim_runtime::NodeId;

use crate::dense::Dense;
use crate::property::{Property, Report};
use crate::records::Applied;

#[derive(Copy, Clone, Debug)]
struct First {
    applied: Applied,
    by: NodeId,
}

/// What was first applied at each index.
#[derive(Debug)]
pub struct StateMachineSafety {
    /// By index.
    first: Dense<Option<First>>,
}

impl Default for StateMachineSafety {
    fn default() -> Self {
        Self { first: Dense::of(None) }
    }
}

impl StateMachineSafety {
    /// A server applied an entry.
    pub fn applies(&mut self, by: NodeId, applied: &Applied, report: &mut Report<'_>) {
        let index = applied.index;
        let first = self.first.entry(index as usize).get_or_insert_with(|| First { applied: *applied, by });
        let entry = |a: &Applied| (a.term, a.digest);
        if entry(&first.applied) != entry(applied) {
            let shape = "different entries are applied at one index";
            report.violation(Property::StateMachineSafety, shape, || {
                let say = |a: &Applied| match a.session {
                    0 => format!("an entry of no client, of term {}", a.term),
                    session => format!("operation {} of session {session}, of term {}", a.sequence, a.term),
                };
                let (one, other) = (say(&first.applied), say(applied));
                format!("at index {index}, {} applied {one}, and {by} {other}", first.by)
            });
        } else if first.applied.reply != applied.reply {
            let shape = "the same entry has different replies";
            report.violation(Property::StateMachineSafety, shape, || {
                let Applied { session, sequence, .. } = *applied;
                format!("at index {index}, {} and {by} answer operation {sequence} of session {session} differently", first.by)
            });
        }
    }
}
