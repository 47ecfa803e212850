//! Models: the sequential objects that histories are judged against.
//!
//! Invariants: every model is total and deterministic, and keeps the promise of its footprints.
//! Not here: the search; objects of users (implement [`crate::Spec`], with [`crate::table::Table`] as the machine).

pub mod kv;
mod kv_machine;
pub mod register;
pub mod collections;
pub mod mutex;

pub use collections::{Queue, Set};
pub use kv::Kv;
pub use mutex::Mutex;
pub use register::{CasRegister, Register};
