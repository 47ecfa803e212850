//! Linearizability of recorded histories: is there one order of all operations, consistent with real time,
//! that a single copy of the data could have produced?
//!
//! ```text
//! history ─► case (one key) ─► ranks: near-linear, where values are unique ─────────────┐
//!               └─► schedule (events, slots, classes) ─► search over a compiled machine ─┤
//!                          verdict: witness │ violation with evidence │ undecided ◄──────┘
//! ```
//!
//! Linearizability is local: a history is linearizable iff its restriction to every key is (Herlihy and Wing,
//! 1990), so keys are judged one by one. The search is the just-in-time one of Lowe ("Testing for
//! linearizability", 2017) with a memo whose entries do not grow with the history.
//!
//! ```
//! use linearizability::{check, History, Options, Verdict};
//! use linearizability::models::kv::{Input, Kv, Output, Value};
//!
//! let mut history = History::new();
//! let put = history.invoke(0, "x", Input::Put(Value::Register(7)));
//! history.complete(put, Output::Written);
//! let get = history.invoke(1, "x", Input::Get);
//! history.complete(get, Output::Value(None));
//!
//! let verdict = check(&Kv, &history, &Options::default());
//! assert!(matches!(verdict, Verdict::Violation(_)), "the get began after the put was done");
//! ```
//!
//! Invariants: a verdict is a function of history and options, on any machine (budgets count nodes, never time;
//! nothing is hashed by address or ambient seed); running out of budget is [`Verdict::Undecided`], never a pass
//! and never a failure; a wrong history is a verdict, never a panic.
//! Not here: recording clients (the simulator's), Raft's own safety properties (crate `oracles`).

pub mod history;
pub mod spec;
pub mod models;
mod case;
mod ranks;
mod schedule;
mod intern;
mod bits;
pub mod table;
mod memo;
mod moves;
mod search;
mod evidence;
mod explain;
mod reason;
pub mod verdict;
pub mod read;
pub mod html;
pub mod check;
#[doc(hidden)]
pub mod brute;

pub use check::{Options, check, check_keys, order_before};
pub use explain::{Conditions, conditions};
pub use history::{History, Moment, OpId, Operation, Outcome};
pub use spec::Spec;
pub use verdict::{Verdict, Violation, Witness};
