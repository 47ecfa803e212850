//! What a server is told when it starts: plain data, so that a timeline can carry it.

use crate::link::Carrier;
use crate::mutant::Planted;
use crate::types::ServerId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A server's configuration. Times are integers that name their unit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// This server.
    pub id: ServerId,
    /// All servers of the cluster, this one included, and where they listen.
    pub servers: BTreeMap<ServerId, SocketAddr>,
    /// Where the server keeps its files.
    pub dir: PathBuf,
    /// How servers and clients are connected.
    pub carrier: Carrier,
    /// The shortest time without a leader after which a server campaigns (§5.2).
    pub election_timeout_min_ms: u64,
    /// The longest.
    pub election_timeout_max_ms: u64,
    /// A leader is silent towards a follower for at most so long.
    pub heartbeat_ms: u64,
    /// A candidate repeats unanswered vote requests so often (§5.1: "Servers retry RPCs if they do not receive
    /// a response in a timely manner").
    pub vote_retransmit_ms: u64,
    /// A leader sends again what a follower has not acknowledged for so long; doubled at each repetition.
    pub append_retransmit_ms: u64,
    /// Entries in one AppendEntries, 1 or more; a frame bounds it as well.
    pub max_entries_per_append: usize,
    /// AppendEntries that may be unacknowledged by one follower, 1 or more.
    pub max_inflight_appends: usize,
    /// A log segment that has reached this size is followed by a new one.
    pub segment_bytes: u64,
    /// A leader that has not heard from a majority for so long steps down; `None`: it never does.
    pub step_down_after_ms: Option<u64>,
    /// Applying lags so far behind commitment.
    pub apply_delay_us: u64,
    /// Every so often the server sends the others a message that nobody heeds; `None`: never. Only for tests of what such a
    /// message does to pinned runs.
    pub chatter_ms: Option<u64>,
    /// The defect that is planted, if any.
    pub planted: Planted,
}

impl Config {
    /// The configuration of server `id` with the paper's timeouts.
    pub fn new(id: ServerId, servers: BTreeMap<ServerId, SocketAddr>) -> Self {
        Self {
            id,
            servers,
            dir: PathBuf::from("/raft"),
            carrier: Carrier::default(),
            election_timeout_min_ms: 150,
            election_timeout_max_ms: 300,
            heartbeat_ms: 50,
            vote_retransmit_ms: 40,
            append_retransmit_ms: 30,
            max_entries_per_append: 64,
            max_inflight_appends: 8,
            segment_bytes: 64 * 1024,
            step_down_after_ms: Some(600),
            apply_delay_us: 0,
            chatter_ms: None,
            planted: Planted::NONE,
        }
    }

    /// # Panics
    /// When a server could not run with this: the mistake of whoever wrote it.
    pub(crate) fn assert_usable(&self) {
        let Self { id, servers, election_timeout_min_ms: min, election_timeout_max_ms: max, .. } = self;
        assert!(servers.contains_key(id), "server {id} is not one of {servers:?}");
        assert!(min <= max, "election timeouts from {min} ms to {max} ms");
        assert!(self.heartbeat_ms > 0, "a heartbeat every 0 ms");
        assert!(self.vote_retransmit_ms > 0, "vote requests repeated every 0 ms");
        assert!(self.append_retransmit_ms > 0, "appends repeated every 0 ms");
        assert!(self.chatter_ms != Some(0), "chatter every 0 ms");
        assert!(self.max_entries_per_append > 0, "appends of 0 entries");
        assert!(self.max_inflight_appends > 0, "a window of 0 appends");
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    pub(crate) fn append_retransmit(&self) -> Duration {
        Duration::from_millis(self.append_retransmit_ms)
    }
}
