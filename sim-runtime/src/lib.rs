//! Deterministic simulation: one thread runs a whole cluster, and a run is a pure function of its timeline.
//!
//! Modules in the order in which a run passes through them:
//!
//! | module | what it owns |
//! |---|---|
//! | [`mod@rng`] | seeds, fields (conditions over virtual time), streams, overrides |
//! | [`time`] | `Instant`, `sleep`, `timeout`, `interval`, per-node clocks |
//! | [`timer`] | which timer fires next |
//! | `fire` | what a timer does then |
//! | [`mod@task`] | a task's identity, `spawn`, `JoinHandle` |
//! | `tasks` | the list of tasks: places and numbers |
//! | `body` | a task's future, and what came of it |
//! | `waker` | a task's name in a word, and how a wake finds its way |
//! | [`schedule`] | which ready task runs next |
//! | `agenda` | tasks, timers and nodes, as the loop goes by them: waking, holding back |
//! | [`executor`] | the loop: poll, fire, observe |
//! | [`node`] | nodes, incarnations, what outlives what |
//! | `lifecycle` | boot, kill, power off, restart, pause, as calls |
//! | `reap` | the end of tasks that do not end by themselves |
//! | `panics` | panics of simulated code as findings |
//! | [`device`] | what sockets and disks are to the runtime |
//! | [`ambient`] | what code gets that asks the process for the time, random bytes and the like |
//! | `options` | what a world is given beside its seed |
//! | [`world`] | the owner of one run, and the handle that everyone else holds |
//! | [`sync`] | channels, oneshot, notify, watch, mutex, race |
//! | [`trace`] | fixed-size records and the behaviour digest |
//! | [`event`] | `tracing` events of user code, in the same order |
//! | [`probe`] | windows and points that the nemesis aims at |
//! | [`mod@assert`] | assertions: what is always so, what is to be seen once, and what never was |
//! | [`invariant`] | what is checked after every step |
//! | [`verdict`] | what a run is found to be |
//! | [`scenario`] | timelines as data, and what can run one |
//! | [`campaign`] | one scenario under many seeds |
//! | [`shrink`] | a failing timeline made smaller |
//! | [`explore`] | guided search: from states that are worth having |
//! | [`determinism`] | whether runs of one timeline are one, and what is to blame if not |
//! | [`testing`] | many seeds of a program as one test: [`macro@test`] |
//! | [`words`] | counts as people say them |
//!
//! Programs use the free functions ([`spawn`], [`task()`], [`time::sleep`], [`rng()`], [`trace::emit`]), which find
//! the running world through one thread-local slot; devices and harnesses hold a [`Handle`].

pub mod rng;
pub mod time;
pub mod timer;
mod fire;
pub mod task;
mod tasks;
mod body;
mod waker;
pub mod schedule;
mod agenda;
pub mod executor;
pub mod node;
mod lifecycle;
mod reap;
mod panics;
pub mod device;
pub mod ambient;
pub mod world;
mod options;
mod context;
pub mod sync;
pub mod trace;
pub mod event;
pub mod probe;
pub mod assert;
pub mod invariant;
pub mod verdict;
pub mod scenario;
pub mod campaign;
pub mod shrink;
pub mod explore;
pub mod determinism;
pub mod testing;
pub mod words;

pub use determinism::check_determinism;
/// A test of a program under many seeds.
///
/// On an `async fn`, its future is the main task of a world on the host; it fails by a panic or an `Err`. On a `fn`
/// that returns a [`scenario::Scenario`], that is what runs. `seeds = N` says how many (100), `check_determinism` has
/// the first 3 of them checked by [`check_determinism`](crate::check_determinism()), `check_determinism = N` the first
/// N.
///
/// On a failure the message names the seed and the command that runs it again; `SIM_SEED` and `SIM_SEEDS` set seed and
/// count.
///
/// ```
/// use std::time::Duration;
///
/// #[sim_runtime::test(seeds = 20, check_determinism)]
/// async fn a_sleep_takes_as_long_as_it_says() {
///     let begun = sim_runtime::time::Instant::now();
///     sim_runtime::time::sleep(Duration::from_millis(5)).await;
///     assert_eq!(begun.elapsed(), Duration::from_millis(5));
/// }
/// ```
pub use sim_macros::test;

pub use node::{NodeId, Owner};
pub use rng::{rng, rng_named};
pub use task::{JoinError, JoinHandle, spawn, task};
pub use world::{Handle, Options, World};
