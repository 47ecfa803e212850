//! What kernels do with byte streams, as data.

use serde::{Deserialize, Serialize};

/// Buffers, patience and whims of the TCP of all nodes. Latency, loss and cuts are those of the links.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpConfig {
    /// How many connections may stand between the first segment and `accept`; further ones are dropped.
    pub backlog: u32,
    /// What a sender's kernel holds of bytes that are not acknowledged; beyond it, a write waits.
    pub send_buffer_bytes: usize,
    /// What a receiver's kernel holds of bytes that nobody has read: the window. Beyond it, nothing is sent.
    pub receive_buffer_bytes: usize,
    /// After how long the first segment of a connection is sent again; then after twice as long, and so on.
    pub syn_retry_ms: u64,
    /// When `TcpStream::connect` gives up.
    pub connect_timeout_ms: u64,
    /// After how long a segment that is not acknowledged is sent again; then after twice as long, and so on.
    pub rto_min_ms: u64,
    /// The longest such wait.
    pub rto_max_ms: u64,
    /// How often in a row before the connection is given up.
    pub retries: u32,
    /// In how many buckets (2 ms) of a million a read returns less than there is.
    pub partial_read_per_million: u32,
    /// In how many buckets (2 ms) of a million a write takes less than there is room for.
    pub partial_write_per_million: u32,
    /// Of a million resets that arrive, how many destroy what had arrived before and was not read. Linux keeps it
    /// readable, other systems do not.
    pub reset_destroys_unread_per_million: u32,
    /// Of a million connections of a process that is killed, how many are reset even if it had read all that
    /// had arrived. The others are closed, as Linux does: what was written still goes out, and an end after it.
    pub kill_resets_per_million: u32,
}

impl TcpConfig {
    /// Linux's patience, and no whims: reads and writes are as large as can be. A kill resets.
    pub const fn calm() -> Self {
        Self {
            backlog: 128,
            send_buffer_bytes: 65_536,
            receive_buffer_bytes: 65_536,
            syn_retry_ms: 1_000,
            connect_timeout_ms: 127_000,
            rto_min_ms: 200,
            rto_max_ms: 120_000,
            retries: 15,
            partial_read_per_million: 0,
            partial_write_per_million: 0,
            reset_destroys_unread_per_million: 0,
            kill_resets_per_million: 1_000_000,
        }
    }

    /// All that a program may meet and seldom does: partial reads and writes in one bucket of twenty, half of
    /// the resets destroy what is unread, half of the connections of a killed process look closed.
    pub const fn rough() -> Self {
        Self {
            partial_read_per_million: 50_000,
            partial_write_per_million: 50_000,
            reset_destroys_unread_per_million: 500_000,
            kill_resets_per_million: 500_000,
            ..Self::calm()
        }
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self::calm()
    }
}
