//! The command line. All of it is in the library, so that tests run what users run.

use std::process::ExitCode;

fn main() -> ExitCode {
    raft_sim::cli::main(std::env::args_os())
}
