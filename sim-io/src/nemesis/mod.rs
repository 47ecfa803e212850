//! The nemesis: faults as data, plans from a seed, and the task that drives them.
//!
//! | module | what it owns |
//! |---|---|
//! | [`fault`] | what can go wrong, when and to whom, as values |
//! | [`plan`] | a list of faults from a seed, and its simpler variants |
//! | `driver` | [`run`]: applies faults and takes them back |
//!
//! Invariants: whatever the nemesis did is undone when [`run`] returns; a plan decides nothing while it runs
//! except which node a role or a window means.
//! Not here: what a fault does to sockets and disks (they are told by the runtime).

pub mod fault;
pub mod plan;
mod driver;

pub use driver::run;
pub use fault::{Fault, FaultKind, PlannedFault, Target, When};
pub use plan::{Aim, Plan, PlanConfig};
