//! The election timer: how long a server waits for a leader.
//!
//! "Raft uses randomized election timeouts to ensure that split votes are rare" (§5.2). The timeout is a field
//! over (server, time), not a draw from a stream: what else happens in a run does not change it, so that a
//! failing run keeps failing while it is being shrunk. It is one draw for as long as the shortest timeout: a heartbeat
//! that comes a little earlier, since somebody had an entry to send along, moves an election and does not reshuffle it.

use crate::config::Config;
use sim_runtime::Handle;
use sim_runtime::rng::Field;
use sim_runtime::time::{Instant, Sleep, sleep_until};
use std::time::Duration;

/// How long an election timeout is, by (server, time).
pub const ELECTION_TIMEOUT: Field = Field::new("election timeout");

/// A server's patience. It runs out a random time after it was last renewed.
///
/// It is renewed by nearly every message and hardly ever runs out. So renewing only notes the time; how long the
/// patience is from there is asked when a timer rings that cannot be late.
#[derive(Debug)]
pub(crate) struct Patience {
    world: Handle,
    key: u64,
    shortest: Duration,
    longest: Duration,
    renewed: Instant,
    /// The same in global time, where the field is read.
    renewed_ns: u64,
    timer: Sleep,
}

impl Patience {
    pub(crate) fn new(world: &Handle, config: &Config) -> Self {
        let shortest = Duration::from_millis(config.election_timeout_min_ms);
        let now = Instant::now();
        Self {
            world: world.clone(),
            key: config.id.0.into(),
            shortest,
            longest: Duration::from_millis(config.election_timeout_max_ms),
            renewed: now,
            renewed_ns: world.now_ns(),
            timer: sleep_until(now + shortest),
        }
    }

    /// A leader, or a candidate that got the vote, has been heard of.
    pub(crate) fn renew(&mut self) {
        self.renewed = Instant::now();
        self.renewed_ns = self.world.now_ns();
    }

    fn deadline(&self) -> Instant {
        let nanos =
            |duration: Duration| u64::try_from(duration.as_nanos()).expect("it was given in milliseconds");
        let (shortest, longest) = (nanos(self.shortest), nanos(self.longest));
        let since = self.renewed_ns - self.renewed_ns % shortest.max(1);
        let field = self.world.sample_at(ELECTION_TIMEOUT, self.key, since);
        self.renewed + Duration::from_nanos(field.range(shortest, longest))
    }

    /// Waits until it has run out. May be dropped and called again.
    pub(crate) async fn ran_out(&mut self) {
        loop {
            (&mut self.timer).await;
            let (now, deadline) = (Instant::now(), self.deadline());
            if now >= deadline {
                return;
            }
            // If it is renewed right now, it may run out this soon.
            self.timer = sleep_until(deadline.min(now + self.shortest));
        }
    }
}
