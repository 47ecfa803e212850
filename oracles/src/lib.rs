//! Oracles: Raft's properties, judged from the trace, the devices and the clients; never from Raft's internals.
//!
//! ```text
//!   witness, clients ─┐
//!   Raft's records ───┼─► Event ─► Judge ─► shadow ─► one oracle for each property ─► Report ─► Findings
//!   devices ──────────┘                        │
//!                                              └─► premises (a tier of their own)
//! ```
//!
//! | property | in the paper | file |
//! |---|---|---|
//! | election safety: one leader a term | §5.2, Figure 3 | [`election_safety`] |
//! | leader append-only | §5.3, Figure 3 | [`leader_append_only`] |
//! | log matching: an entry determines what precedes it | §5.3, Figure 3 | [`log_matching`] |
//! | leader completeness: what is committed stays in leaders' logs | §5.4, Figure 3 | [`leader_completeness`] |
//! | state machine safety: one entry an index | §5.4.3, Figure 3 | [`state_machine_safety`] |
//! | monotonicity: terms, votes, commit and applied index do not go back | §5.1, Figure 2 | [`monotonicity`] |
//! | durability: what a client was told stays | §8 | [`durability`] |
//! | exactly once: a command takes effect once | §8 | [`exactly_once`] |
//! | liveness: without faults, everything completes | §5.6 | [`liveness`] |
//! | fidelity: shadow, node and disk agree | | [`fidelity`] |
//! | linearizability | §8 | [`clients`], crate `linearizability` |
//! | premises: claimed ⊆ chosen, durable before answered, … | §5.2, §5.4, Figure 2 | [`premises`] |
//!
//! What they rest on, in the order in which data passes: [`records`] of the harness, of [`witness`] and [`clients`];
//! [`event`]; the [`judge`], which knows who hears of what, with its [`config`] and the [`clerk`] beside it; [`truth`]
//! from the disks; `dense` lists; [`log_tree`], [`chosen`], [`shadow`], [`cluster`] and [`executions`]; [`property`],
//! the names and the way out.
//!
//! What the system says of itself may be a lie. So durability comes from the device, application from a wrapper
//! around the state machine, acknowledgement from the client; and where the system's word is all there is, it is
//! compared with the disk. An oracle that is never told of a fact stays silent about it: whether runs reach what
//! oracles judge is a question for coverage.

pub mod records;
pub mod witness;
pub mod clients;
pub mod event;
pub mod config;
pub mod clerk;
pub mod judge;
pub mod truth;
mod dense;
pub mod log_tree;
pub mod chosen;
pub mod shadow;
pub mod cluster;
pub mod executions;
pub mod election_safety;
pub mod leader_append_only;
pub mod log_matching;
pub mod leader_completeness;
pub mod state_machine_safety;
pub mod monotonicity;
pub mod durability;
pub mod exactly_once;
pub mod liveness;
pub mod fidelity;
pub mod premises;
pub mod property;

pub use clerk::Clerk;
pub use clients::{Call, Recorder};
pub use config::JudgeConfig;
pub use fidelity::Sweeps;
pub use judge::Judge;
pub use property::{Premise, Property};
pub use witness::Witness;
