//! Raft under simulation, and the command line that runs it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`raft`] | the scenario: configuration, cluster, clients, judges |
//! | [`cli`] | arguments, exit statuses |
//! | [`command`] | what it can do: `campaign`, `replay`, `shrink`, `explore`, `check-history` and others |
//! | [`seeds`] | which seeds are meant by `--seeds` |
//! | [`out`] | output that survives a closed pipe |
//! | [`signals`] | Ctrl-C, and the seeds in flight when the process dies |

pub mod raft;
pub mod cli;
pub mod command;
pub mod seeds;
pub mod out;
pub mod signals;
