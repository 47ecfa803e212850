//! What a world is given beside its seed.

use crate::ambient::Policy;
use crate::rng::{Chance, Override};
use crate::schedule::Schedule;

/// How a world is set up, beside its seed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Edits of the fields.
    pub overrides: Vec<Override>,
    /// Where conditions come from: fields, but for comparisons.
    pub chance: Chance,
    /// Which ready task runs next.
    pub schedule: Schedule,
    /// Keep every record, not just the recent ones (for `replay --trace`).
    pub keep_trace: bool,
    /// In how many (node, bucket) of a million wakes are held back for up to 50 µs.
    pub hold_per_million: u32,
    /// In how many (node, bucket) of a million wakes are held back for tens of milliseconds.
    pub long_hold_per_million: u32,
    /// Whether a panic in a task ends the run; otherwise only the task is gone.
    pub panic_ends_run: bool,
    /// The run ends as `stuck` when its main task has not finished by then.
    pub limit_ns: u64,
    /// One task polled this often without time moving is a livelock.
    pub polls_at_instant: u32,
    /// What code gets that asks the process for the time, random bytes and the like.
    pub ambient: Policy,
    /// So are this many steps of any tasks and timers without time moving.
    pub steps_at_instant: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            overrides: Vec::new(),
            chance: Chance::Fields,
            schedule: Schedule::Field,
            keep_trace: false,
            hold_per_million: 50_000,
            long_hold_per_million: 100,
            panic_ends_run: true,
            limit_ns: u64::MAX,
            polls_at_instant: 10_000_000,
            ambient: Policy::default(),
            steps_at_instant: 50_000_000,
        }
    }
}
