//! What the command line can do.

pub mod campaign;
pub mod replay;
mod table;
