//! Deterministic simulation: one thread runs a whole cluster, and a run is a pure function of its timeline.
//!
//! Modules in the order in which a run passes through them:
//!
//! | module | what it owns |
//! |---|---|
//! | [`mod@rng`] | seeds, fields (conditions over virtual time), streams, overrides |
//! | [`time`] | `Instant`, `sleep`, `timeout`, `interval`, per-node clocks |
//! | [`timer`] | which timer fires next |
//! | [`mod@task`] | a task's identity, `spawn`, `JoinHandle` |
//! | [`schedule`] | which ready task runs next |
//! | [`executor`] | the loop: poll, fire, observe |
//! | [`node`] | nodes, incarnations, what outlives what |
//! | `lifecycle` | boot, kill, power off, restart, pause, as calls |
//! | [`device`] | what sockets and disks are to the runtime |
//! | [`ambient`] | what code gets that asks the process for the time, random bytes and the like |
//! | [`world`] | the owner of one run, and the handle that everyone else holds |
//! | [`sync`] | channels, oneshot, notify, watch, mutex, race |
//! | [`trace`] | fixed-size records and the behaviour digest |
//! | [`event`] | `tracing` events of user code, in the same order |
//! | [`probe`] | windows and points that the nemesis aims at |
//! | [`invariant`] | what is checked after every step |
//! | [`verdict`] | what a run is found to be |
//! | [`scenario`] | timelines as data, and what can run one |
//! | [`campaign`] | one scenario under many seeds |
//! | [`shrink`] | a failing timeline made smaller |
//! | [`determinism`] | whether runs of one timeline are one, and what is to blame if not |
//!
//! Programs use the free functions ([`spawn`], [`task()`], [`time::sleep`], [`rng()`], [`trace::emit`]), which find
//! the running world through one thread-local slot; devices and harnesses hold a [`Handle`].

pub mod rng;
pub mod time;
pub mod timer;
pub mod task;
pub mod schedule;
pub mod executor;
pub mod node;
mod lifecycle;
pub mod device;
pub mod ambient;
pub mod world;
mod context;
pub mod sync;
pub mod trace;
pub mod event;
pub mod probe;
pub mod invariant;
pub mod verdict;
pub mod scenario;
pub mod campaign;
pub mod shrink;
pub mod determinism;

pub use determinism::check_determinism;
pub use node::{NodeId, Owner};
pub use rng::{rng, rng_named};
pub use task::{JoinError, JoinHandle, spawn, task};
pub use world::{Handle, Options, World};
