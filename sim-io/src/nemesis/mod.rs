//! The nemesis: faults as data, plans from a seed, and the task that drives them.
//!
//! | module | what it owns |
//! |---|---|
//! | [`fault`] | what can go wrong, when and to whom, as values |
//! | [`kind`] | kinds of faults, and how they are counted |
//! | [`plan`] | a list of faults from a seed, and its simpler variants |
//! | `choose` | one fault of a plan: kind, moment, victim |
//! | `milder` | what to try in place of a fault |
//! | `merge` | two faults in one, and faults that come sooner |
//! | `vary` | plans with faults varied at random |
//! | [`lively`] | which conditions have a say, so that they can be calmed |
//! | `concrete` | plans for the nodes that were meant, and for other nodes |
//! | `edit` | changes of a plan from a moment on, for a guided search |
//! | `driver` | [`run`]: applies faults and takes them back |
//!
//! Invariants: whatever the nemesis did is undone when [`run`] returns; a plan decides nothing while it runs
//! except which node a role or a window means.
//! Not here: what a fault does to sockets and disks (they are told by the runtime).

pub mod fault;
pub mod kind;
pub mod plan;
mod choose;
mod milder;
mod merge;
mod vary;
pub mod lively;
mod concrete;
mod edit;
mod driver;

pub use driver::run;
pub use edit::PlanEdit;
pub use fault::{Fault, Links, PlannedFault, Target, When};
pub use kind::FaultKind;
pub use plan::{Aim, Plan, PlanConfig};
