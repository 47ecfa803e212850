//! Which doors there are.

use std::fmt;

/// A way by which something outside the seed can reach a program.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Door {
    /// Random bytes of the system for the keys of std's `RandomState`: 16 at a time, and not to be waited for.
    HashKeys,
    /// Other random bytes of the system: `getrandom`, `getentropy`.
    Entropy,
    /// A clock that only moves forward: behind `std::time::Instant`.
    Monotonic,
    /// The time of day: behind `std::time::SystemTime`.
    WallClock,
    /// `pthread_create`: behind `std::thread::spawn`.
    Thread,
    /// `open` and the like.
    File,
    /// `socket` and `connect`.
    Socket,
    /// `getenv`.
    Environment,
    /// `getcwd`.
    Folder,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::HashKeys,
        Self::Entropy,
        Self::Monotonic,
        Self::WallClock,
        Self::Thread,
        Self::File,
        Self::Socket,
        Self::Environment,
        Self::Folder,
    ];

    /// Its name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::HashKeys => "hash keys",
            Self::Entropy => "entropy",
            Self::Monotonic => "monotonic clock",
            Self::WallClock => "wall clock",
            Self::Thread => "thread",
            Self::File => "file",
            Self::Socket => "socket",
            Self::Environment => "environment",
            Self::Folder => "working directory",
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which clock is read.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Clock {
    /// One that only moves forward, from an arbitrary start.
    Monotonic,
    /// Time since the Unix epoch.
    Wall,
}
