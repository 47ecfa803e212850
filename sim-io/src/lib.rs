//! Sockets, files and faults for simulated programs, under the names that the ecosystem uses.
//!
//! | module | what it owns |
//! |---|---|
//! | [`net`] | addresses, links and what happens to messages on them, datagram sockets, byte streams |
//! | [`fs`] | files and folders, and what a crash leaves of them |
//! | [`records`] | the trace records of both |
//! | [`nemesis`] | faults as data, plans from a seed, the task that drives them |
//! | [`story`] | what happened in a run, for a person |
//! | [`simulation`] | a whole program under test from processes, workloads, invariants and faults |

pub mod net;
pub mod fs;
pub mod records;
pub mod nemesis;
pub mod story;
pub mod simulation;
