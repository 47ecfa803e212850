//! The ambient world: one thread-local slot, so that programs can use free functions.
//!
//! The slot is set while a world runs, is built or is dropped, and holds what it held before afterwards.
//! Inside the crates of this repository, code takes a [`Handle`] instead.

use std::cell::RefCell;
use std::rc::Rc;

use crate::world::{Core, Handle};

thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Makes a world the current one until it is dropped.
pub(crate) struct Entered {
    before: Option<Handle>,
}

pub(crate) fn enter(core: &Rc<Core>) -> Entered {
    Entered { before: CURRENT.with(|slot| slot.replace(Some(Handle::of(core.clone())))) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        // The world that leaves is dropped outside the borrow: its drop may ask for the current one.
        drop(CURRENT.with(|slot| slot.replace(before)));
    }
}

/// The world that runs on this thread.
///
/// # Panics
/// When there is none.
#[track_caller]
pub(crate) fn current() -> Handle {
    try_current().expect("no simulation runs on this thread: call this from a task of a World")
}

#[inline]
pub(crate) fn try_current() -> Option<Handle> {
    CURRENT.try_with(|slot| slot.borrow().clone()).ok().flatten()
}

/// Lends the world that runs on this thread, if any. `f` must not enter or leave a world, nor run code that might.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Handle) -> R) -> Option<R> {
    CURRENT.try_with(|slot| slot.borrow().as_ref().map(f)).ok().flatten()
}
