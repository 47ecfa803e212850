//! The election timer: how long a server waits for a leader.
//!
//! "Raft uses randomized election timeouts to ensure that split votes are rare" (§5.2). The timeout is a field
//! over (server, time), not a draw from a stream: what else happens in a run does not change it, so that a
//! failing run keeps failing while it is being shrunk.

use crate::alarm::Alarm;
use crate::config::Config;
use sim_runtime::Handle;
use sim_runtime::rng::Field;
use sim_runtime::time::Instant;
use std::time::Duration;

/// How long an election timeout is, by (server, time).
pub const ELECTION_TIMEOUT: Field = Field::new("election timeout");

/// A server's patience. It runs out a random time after it was last renewed.
#[derive(Debug)]
pub(crate) struct Patience {
    world: Handle,
    key: u64,
    shortest_ns: u64,
    longest_ns: u64,
    alarm: Alarm,
}

impl Patience {
    pub(crate) fn new(world: &Handle, config: &Config) -> Self {
        let mut patience = Self {
            world: world.clone(),
            key: config.id.0.into(),
            shortest_ns: config.election_timeout_min_ms * 1_000_000,
            longest_ns: config.election_timeout_max_ms * 1_000_000,
            alarm: Alarm::at(Instant::now()),
        };
        patience.alarm = Alarm::at(patience.timeout());
        patience
    }

    /// A leader, or a candidate that got the vote, has been heard of.
    pub(crate) fn renew(&mut self) {
        self.alarm.move_to(self.timeout());
    }

    fn timeout(&self) -> Instant {
        let field = self.world.sample(ELECTION_TIMEOUT, self.key);
        Instant::now() + Duration::from_nanos(field.range(self.shortest_ns, self.longest_ns))
    }

    /// Waits until it has run out. May be dropped and called again.
    pub(crate) async fn ran_out(&mut self) {
        self.alarm.rung().await;
    }
}
