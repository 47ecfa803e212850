//! How harsh the links are, as data.

use serde::{Deserialize, Serialize};

use super::tcp::TcpConfig;

/// What links do to messages. Chances are per link and time bucket, not per message: a bucket of 2 ms that is
/// lossy loses all that is sent in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetConfig {
    /// The shortest latency, one way.
    pub latency_min_us: u64,
    /// The longest latency outside the tail.
    pub latency_max_us: u64,
    /// In how many buckets of a million latency is in the tail.
    pub tail_per_million: u32,
    /// What latency is multiplied by there.
    pub tail_factor: u64,
    /// In how many buckets of a million messages are lost.
    pub loss_per_million: u32,
    /// In how many buckets of a million messages arrive twice.
    pub duplicate_per_million: u32,
    /// In how many finer buckets (100 µs) of a million messages are held up, so that later ones overtake them.
    pub reorder_per_million: u32,
    /// For how long at most.
    pub reorder_extra_max_us: u64,
    /// In how many longer buckets (250 ms) of a million a link is slow.
    pub slow_per_million: u32,
    /// What latency is multiplied by on a slow link.
    pub slow_factor: u64,
    /// What a datagram socket holds before it drops; every datagram counts as its bytes plus 256.
    pub receive_buffer_bytes: usize,
    /// Byte streams. Timelines that were written before there were any have none.
    #[serde(default)]
    pub tcp: TcpConfig,
}

/// What a fault does to a link while it lasts, on top of the configuration. Where several do, the worst counts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Burst {
    /// Latency is multiplied.
    Slow {
        /// By this.
        factor: u32,
    },
    /// Messages are lost.
    Loss {
        /// In how many buckets of a million.
        per_million: u32,
    },
    /// Messages arrive twice.
    Duplication {
        /// In how many buckets of a million.
        per_million: u32,
    },
}

impl NetConfig {
    /// Links that only take their time: 1-3 ms.
    pub const fn calm() -> Self {
        Self {
            latency_min_us: 1_000,
            latency_max_us: 3_000,
            tail_per_million: 0,
            tail_factor: 10,
            loss_per_million: 0,
            duplicate_per_million: 0,
            reorder_per_million: 0,
            reorder_extra_max_us: 5_000,
            slow_per_million: 0,
            slow_factor: 10,
            receive_buffer_bytes: 212_992,
            tcp: TcpConfig::calm(),
        }
    }
}

impl Default for NetConfig {
    /// A mildly bad network: 1-3 ms with a tail of 1 in 100 × 10, half a percent lost, as much duplicated, one
    /// percent held up.
    fn default() -> Self {
        Self {
            tail_per_million: 10_000,
            loss_per_million: 5_000,
            duplicate_per_million: 5_000,
            reorder_per_million: 10_000,
            slow_per_million: 2_000,
            tcp: TcpConfig::rough(),
            ..Self::calm()
        }
    }
}
