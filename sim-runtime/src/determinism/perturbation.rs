//! What is changed between two runs: one thing at a time, so that the report can say which matters.

use std::fmt;

use serde::{Deserialize, Serialize};
use sim_guard::Standing;

use crate::ambient::Salts;
use crate::rng::mix;

use super::perform::Conditions;
use super::process::Surroundings;

/// What is different in the second run. A deterministic program cannot see any of it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Perturbation {
    /// Nothing but that it is the second: on another thread of the same process, whose heap is laid out alike.
    Again,
    /// It runs on a thread that has run other seeds before.
    AfterOthers,
    /// It runs in a process of its own.
    FreshProcess,
    /// The keys of std's `RandomState` are others.
    HashKeys,
    /// Other random bytes come from the system.
    Entropy,
    /// Blocks come from the heap in another order of addresses.
    HeapOrder,
    /// `std::time::Instant` starts elsewhere and moves on between readings.
    MonotonicClock,
    /// `std::time::SystemTime` is 400 days ahead and moves on between readings; another time zone, in a process of its
    /// own.
    WallClock,
    /// The environment has other variables, in a process of its own.
    Environment,
    /// The working directory is another, in a process of its own.
    Folder,
    /// Three other threads run other seeds meanwhile.
    Workers,
    /// Other threads compute and allocate meanwhile.
    Busy,
}

impl Perturbation {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 12] = [
        Self::Again,
        Self::AfterOthers,
        Self::FreshProcess,
        Self::HashKeys,
        Self::Entropy,
        Self::HeapOrder,
        Self::MonotonicClock,
        Self::WallClock,
        Self::Environment,
        Self::Folder,
        Self::Workers,
        Self::Busy,
    ];

    /// Its name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Again => "the same again",
            Self::AfterOthers => "after other runs",
            Self::FreshProcess => "fresh process",
            Self::HashKeys => "hash keys",
            Self::Entropy => "entropy",
            Self::HeapOrder => "heap order",
            Self::MonotonicClock => "monotonic clock",
            Self::WallClock => "wall clock and time zone",
            Self::Environment => "environment",
            Self::Folder => "working directory",
            Self::Workers => "worker threads",
            Self::Busy => "busy threads",
        }
    }

    /// Why it cannot be tried, if it cannot.
    pub(super) fn obstacle(self, has_processes: bool) -> Option<&'static str> {
        let in_process = self.surroundings() == Surroundings::SameProcess;
        let by_guard =
            matches!(self, Self::HashKeys | Self::Entropy | Self::MonotonicClock | Self::WallClock);
        if by_guard && !sim_guard::STANDS {
            // What the guard would hold still differs in every run by itself.
            Standing::here().caveat()
        } else if !in_process && !has_processes {
            Some("nothing says how to start this test or command in a process of its own")
        } else {
            None
        }
    }

    /// Where it runs.
    pub(super) fn surroundings(self) -> Surroundings {
        match self {
            Self::FreshProcess => Surroundings::Process,
            Self::WallClock => Surroundings::TimeZone,
            Self::Environment => Surroundings::Environment,
            Self::Folder => Surroundings::Folder,
            _ => Surroundings::SameProcess,
        }
    }

    /// Under which conditions it runs.
    pub(super) fn conditions(self, seed: u64) -> Conditions {
        let salt = mix(seed, 0x5A17) | 1;
        let usual = Conditions::default();
        let salted = |salts| Conditions { salts, ..Conditions::default() };
        match self {
            Self::Again | Self::FreshProcess | Self::Environment | Self::Folder => usual,
            Self::AfterOthers => Conditions { before: 2, ..usual },
            Self::HashKeys => salted(Salts { hash_keys: salt, ..Salts::default() }),
            Self::Entropy => salted(Salts { entropy: salt, ..Salts::default() }),
            Self::HeapOrder => Conditions { heap: Some(salt), ..usual },
            Self::MonotonicClock => salted(Salts { monotonic: salt, ..Salts::default() }),
            Self::WallClock => salted(Salts { wall: salt, ..Salts::default() }),
            Self::Workers => Conditions { beside: 3, ..usual },
            Self::Busy => Conditions { busy: 2, ..usual },
        }
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
