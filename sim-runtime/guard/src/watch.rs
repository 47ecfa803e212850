//! Who watches, on which thread, for how long.
//!
//! The slot is a thread-local of constant initial value without a destructor: reading it takes an instruction or two,
//! and is allowed wherever libc's functions are.
#![allow(unsafe_code, reason = "a borrow is kept in a thread-local slot for the length of a call")]

use std::cell::Cell;
use std::ptr::NonNull;

use crate::door::{Clock, Door};

/// Answers in the place of the outside world.
pub trait Watcher {
    /// Fills `buffer` as the system would with random bytes. `door` is [`Door::HashKeys`] or [`Door::Entropy`].
    fn entropy(&self, door: Door, buffer: &mut [u8]);

    /// What a clock shows, in nanoseconds.
    fn clock_ns(&self, clock: Clock) -> u64;

    /// Another door is used; the real function answers afterwards. `what` is the name of a file or variable, if there
    /// is one.
    fn passed(&self, door: Door, what: &[u8]);
}

thread_local! {
    static WATCHER: Cell<Option<NonNull<dyn Watcher>>> = const { Cell::new(None) };
    static ENTROPY_TOUCHED: Cell<bool> = const { Cell::new(false) };
}

/// Puts back what the slot held.
struct Restore(Option<NonNull<dyn Watcher>>);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        WATCHER.set(self.0);
    }
}

/// Has `watcher` stand at the doors for this thread while `f` runs.
#[inline]
pub fn watched<R>(watcher: &(dyn Watcher + '_), f: impl FnOnce() -> R) -> R {
    if !crate::STANDS {
        return f();
    }
    // SAFETY: only the lifetime of the trait object is changed, so the layout is the same. The pointer is in the slot
    // for no longer than this call, during which `watcher` is borrowed: `Restore` takes it out when `f` returns and
    // when it unwinds. It is used on this thread only, as the slot is the thread's.
    let pointer =
        unsafe { std::mem::transmute::<NonNull<dyn Watcher + '_>, NonNull<dyn Watcher>>(watcher.into()) };
    let _restore = Restore(WATCHER.replace(Some(pointer)));
    f()
}

/// Has the watcher of this thread, if any, answer. It is not watched meanwhile.
#[inline]
#[cfg_attr(not(stands), expect(dead_code, reason = "nobody asks"))]
pub(crate) fn ask<R>(f: impl FnOnce(&dyn Watcher) -> R) -> Option<R> {
    let pointer = WATCHER.get()?;
    let _restore = Restore(WATCHER.replace(None));
    // SAFETY: a pointer in the slot belongs to a call of `watched` on this thread that has not returned, so what it
    // points to is alive and borrowed shared.
    Some(f(unsafe { pointer.as_ref() }))
}

/// Notes that this thread has asked for random bytes, watched or not.
#[cfg_attr(not(stands), expect(dead_code, reason = "nobody touches it"))]
pub(crate) fn touch_entropy() {
    ENTROPY_TOUCHED.set(true);
}

/// Whether this thread has ever asked the system for random bytes. Then std may have initialised the thread's hash
/// keys, and nothing can reset them: a later run on the thread would inherit them.
pub fn entropy_touched() -> bool {
    ENTROPY_TOUCHED.get()
}
