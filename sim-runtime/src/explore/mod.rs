//! Guided search: states that are worth having become places to start from.
//!
//! ```text
//!   root seeds ──► runs, each with a scout ──► what is new: states, near misses, steps of assertions
//!                    ▲                                         │
//!                    └── recipes: edits after a moment ◄── frontier (bounded, fair, by energy)
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | [`Signature`] | what a state is: of any program by default ([`General`]) |
//! | `scout` | watches a run: moments by name, what is new after each |
//! | [`Recipe`] | edits of a timeline, anchored to what happens ("after n2's third vote grant") |
//! | `frontier` | where to start from, and how often |
//! | [`Policy`] | how runs are divided, and what is changed |
//! | `pool` | worker threads |
//! | [`explore`] | the rounds |
//! | [`Explored`] | what came of it |
//! | [`compare()`] | what it is worth, against plain seeds |
//! | [`until_coverage_stable`] | bare seeds until nothing new is seen |
//!
//! A run is a function of its timeline, and is what its parent was up to the moment of the edit; so "start from this
//! state" is to run the same timeline with something else from then on: conditions re-seeded, a fault more, less or
//! elsewhere. Nothing is saved or restored.
//!
//! This is guided random testing: neither model checking nor a proof.

mod frontier;
mod policy;
mod pool;
mod recipe;
mod report;
mod scout;
mod search;
mod signature;
mod stable;
mod compare;

pub use compare::{Compared, Comparison, Took, compare};
pub use policy::{Changes, Policy, Shares};
pub use recipe::{Change, Edit, Lost, Recipe};
pub use report::{Explored, Finding, FirstHit, LIMITS, RootReport, Stopped};
pub use scout::{Anchor, Novelty, Scouted, Sighting};
pub(crate) use scout::{Scout, sent};
pub use search::{Exploration, IsFinding, Settings, explore};
pub use signature::{General, Glimpse, Seen, Signature, unordered};
pub use stable::{Stable, until_coverage_stable};
