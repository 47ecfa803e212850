//! Raft as async tasks: one concept of the paper a file.
//!
//! Modules in the order in which a command passes through them, from a client to the state machine:
//!
//! | module | the paper's | what it owns |
//! |---|---|---|
//! | [`types`] | §5.1, §5.3 | terms, indices, entries, operations |
//! | [`client`] | §8 | a session: one number an operation, retries, leader hints |
//! | `codec`, [`wire`] | Figure 2, the RPCs | messages as frames |
//! | `transport` | | sending, and the one inbox |
//! | [`link`], `streams` | | what carries frames: datagrams or connections |
//! | [`server`] | §5.1 | a server's life: recover, then role after role |
//! | [`config`], [`halt`] | | what a server is told, and why it stops |
//! | `node` | Figure 2, state | what the roles share |
//! | [`rules`] | Figure 2, Figure 8 | every safety decision, as a pure function |
//! | `follower`, `voter`, `patience`, `alarm` | §5.2, §5.3, §5.4.1 | answering leaders and candidates, the election timer |
//! | `candidate` | §5.2 | campaigns |
//! | `leader`, `replicator`, [`progress`] | §5.3, §5.4.2 | commands, replication, commitment |
//! | `reads` | §8 | linearizable reads by a quorum round |
//! | [`entries`] | §5.3 | the log in memory |
//! | `log`, `storage` | Figure 2, persistent state | the log writer, files, syncs |
//! | [`wal`], [`hard_state`], [`image`] | | formats on disk, and recovery from any bytes |
//! | `applier` | §5.3 | committed entries to the machine, results to clients |
//! | [`machine`], [`sessions`], [`kv`] | §8 | exactly-once, and the store |
//! | [`trace`] | | what a server says of itself |
//! | [`mutant`], `planted` | | defects that can be planted |
//!
//! A server is [`run`] on a node of a simulation, a client is a [`Client`]:
//!
//! ```
//! use raft_async::{Client, ClientConfig, Config, Kv, Planted, Sessions, run};
//! use raft_async::types::{Key, Op, OpReply, ServerId, SessionId};
//! use sim_runtime::{NodeId, World};
//! use std::time::Duration;
//!
//! let mut world = World::new(7, Default::default());
//! let servers: std::collections::BTreeMap<_, _> =
//!     (1..=3).map(|id| (ServerId(id), sim_io::net::addr_of(NodeId(id), 7000))).collect();
//! for id in 1..=3 {
//!     let config = Config::new(ServerId(id), servers.clone());
//!     let node = world.handle().add_node("server", move || {
//!         let config = config.clone();
//!         async move {
//!             let halt = run(config, Sessions::new(Kv::default(), Planted::NONE)).await;
//!             eprintln!("{halt}");
//!         }
//!     });
//!     world.handle().boot(node);
//! }
//! let reply = world.run(async move {
//!     let client = Client::new(ClientConfig::new(SessionId(1), servers)).await.expect("a port is free");
//!     client.call(Op::Put { key: Key(1), value: 5 }, Duration::from_secs(5)).await
//! });
//! assert_eq!(reply, Some(Ok(OpReply::Done { version: 1 })));
//! ```

pub mod types;
pub mod client;
mod codec;
pub mod wire;
mod transport;
mod chatter;
pub mod link;
mod streams;
pub mod server;
pub mod config;
pub mod halt;
mod node;
pub mod rules;
mod follower;
mod voter;
mod patience;
mod alarm;
mod candidate;
mod leader;
mod replicator;
pub mod progress;
mod reads;
pub mod entries;
mod log;
mod storage;
pub mod wal;
pub mod hard_state;
pub mod image;
mod applier;
pub mod machine;
pub mod sessions;
pub mod kv;
pub mod trace;
pub mod mutant;
mod planted;

pub use client::{Client, ClientConfig, Unknown};
pub use config::Config;
pub use halt::Halt;
pub use kv::Kv;
pub use link::Carrier;
pub use machine::{Machine, Origin, StateMachine};
pub use mutant::{Mutant, Planted};
pub use patience::ELECTION_TIMEOUT;
pub use server::run;
pub use sessions::Sessions;
