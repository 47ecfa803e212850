//! A timer that is moved far more often than it rings.
//!
//! Each message moves some deadline: the election timeout, the next heartbeat. Moving it later leaves the
//! running timer alone, which then rings too early once and is set anew; only moving it earlier touches the
//! timer.

use sim_runtime::time::{Instant, Sleep, sleep_until};

/// A movable deadline.
#[derive(Debug)]
pub(crate) struct Alarm {
    deadline: Instant,
    /// When the timer rings: not after the deadline.
    rings: Instant,
    timer: Sleep,
    /// The timer has rung and nothing runs.
    spent: bool,
}

impl Alarm {
    pub(crate) fn at(deadline: Instant) -> Self {
        Self { deadline, rings: deadline, timer: sleep_until(deadline), spent: false }
    }

    /// Moves the deadline.
    pub(crate) fn move_to(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if deadline < self.rings || self.spent {
            self.set();
        }
    }

    fn set(&mut self) {
        self.rings = self.deadline;
        self.timer = sleep_until(self.rings);
        self.spent = false;
    }

    /// Waits for the deadline. May be dropped and called again; once it has rung it rings until it is moved.
    pub(crate) async fn rung(&mut self) {
        loop {
            (&mut self.timer).await;
            if Instant::now() >= self.deadline {
                self.spent = true;
                return;
            }
            self.set();
        }
    }
}
