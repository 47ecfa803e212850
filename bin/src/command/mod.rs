//! What the command line can do.

pub mod campaign;
pub mod check_determinism;
pub mod check_history;
pub mod corpus;
pub mod merge;
pub mod outcome;
pub mod replay;
pub mod mutants;
pub mod shrink;
mod table;
