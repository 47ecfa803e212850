//! Channels and the like for tasks of one world: single-threaded, fair in order of arrival, deterministic.
//!
//! | module | for |
//! |---|---|
//! | [`mpsc`] | many senders, one receiver, bounded or not |
//! | [`oneshot`] | one value, once |
//! | [`watch`] | the latest value, to many |
//! | [`Notify`] | a wake with a stored permit |
//! | [`Mutex`] | exclusive access across awaits |
//! | [`race`], [`crate::select!`] | the first of several futures, tried in the order written |
//!
//! Every wait says what it waits for, for the list of a run in which nothing can run any more.

pub mod mpsc;
mod mutex;
mod notify;
pub mod oneshot;
mod race;
pub mod watch;

pub use mutex::{Mutex, MutexGuard};
pub use notify::{Notified, Notify};
pub use race::{Either, Race, race};

use crate::context;

/// Notes what the current task waits for; outside a world nothing happens.
fn waits_for(what: &'static str) {
    context::with(|handle| handle.note_waiting(what));
}
