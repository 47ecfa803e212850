//! The doors through which the outside world reaches code that believes to be simulated, and who stands at them.
//!
//! std and most crates ask libc for the time, for random bytes, for threads, files and variables. This crate defines
//! those functions itself, so that the linker binds every caller in the executable to them:
//!
//!   Instant::now ──► clock_gettime (ours) ──watched now, on this thread?──no──► libc's, found by `dlsym(RTLD_NEXT)`
//!                                                      └──yes──► Watcher::clock_ns
//!
//! | module | what is in it |
//! |---|---|
//! | [`door`] | which doors there are |
//! | [`watch`] | who watches, on which thread, for how long |
//! | [`standing`] | on which platforms, and what is known of it there |
//! | `stand` | the functions that stand in for libc's |
//!
//! Invariants: without a watcher on the calling thread the real function answers, with its own result and `errno`;
//! while a watcher is asked, it is not watched itself; nothing is allocated here.
//!
//! What passes by: raw system calls (rustix, getrandom 0.2 and earlier where they make them), whoever reads the vDSO
//! without libc, calls from within shared libraries that bind to libc first (on macOS all of them do), processor
//! instructions (`rdtsc`, `rdrand`), and what the process knows already (thread ids, addresses).
//!
//! It stands with the feature `stand`, in executables, on Linux with glibc and on macOS. On macOS it is compiled only:
//! nobody has run it there ([`Standing`]). Elsewhere it compiles, [`STANDS`] is false and nothing is watched: calls of
//! [`watched()`] are calls of what they are given.
//!
//! `unsafe` is in `watch` (a borrow kept in a thread-local slot for the length of a call) and in `stand` (the C calling
//! convention); each use says why it holds.

pub mod door;
pub mod watch;
pub mod standing;
#[cfg(stands)]
mod stand;

pub use door::{Clock, Door};
pub use standing::Standing;
pub use watch::{Watcher, entropy_touched, watched};

/// Whether the doors are watched: with the feature `stand`, on a platform that has the functions.
pub const STANDS: bool = cfg!(stands);

/// Has the functions linked in. Without a caller the linker would leave them out with the files that they are in.
pub fn link() {
    #[cfg(stands)]
    stand::link();
}
