//! Why a server stopped.

use crate::image::Corrupt;
use std::io;

/// Why a server stopped: one variant for each thing that its operator does next.
#[derive(Debug, thiserror::Error)]
pub enum Halt {
    /// Its files hold less than it promised. It must not start again from them: replace the server.
    #[error("refusing to start: {0}")]
    Corrupt(#[from] Corrupt),
    /// A write or sync failed, and what the disk holds now is not known. Fix the disk, then start again: only
    /// what is read back and written anew is trusted then.
    #[error("the disk failed: {0}")]
    DiskFailed(io::Error),
    /// Its address cannot be used: correct the configuration.
    #[error("cannot listen: {0}")]
    NoAddress(io::Error),
    /// A task of the server panicked or was aborted, and the others are of no use without it. Start it again, and
    /// report the panic.
    #[error("a task of the server ended on its own")]
    TaskFailed,
    /// It was asked to. Start it again at will.
    #[error("shut down on request")]
    Shutdown,
}

impl Halt {
    /// The number by which [`crate::trace::Halted`] names the reason.
    pub fn code(&self) -> u64 {
        match self {
            Self::Corrupt(_) => 1,
            Self::DiskFailed(_) => 2,
            Self::NoAddress(_) => 3,
            Self::Shutdown => 4,
            Self::TaskFailed => 5,
        }
    }
}
