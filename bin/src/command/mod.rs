//! What the command line can do.

mod audit;
pub mod bench;
pub mod campaign;
pub mod check_determinism;
pub mod check_history;
pub mod corpus;
pub mod explore;
pub mod merge;
pub mod outcome;
pub mod replay;
pub mod mutants;
mod cpu;
mod recall;
pub mod shrink;
pub mod shrink_report;
pub mod stability;
mod statistics;
mod table;
mod tabular;
