//! The latest value of something, to any number of watchers.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::waits_for;

#[derive(Debug)]
struct Shared<T> {
    value: T,
    version: u64,
    sender_gone: bool,
    waiting: Vec<Waker>,
}

/// Sets the value.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// Sees the value.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
    seen: u64,
}

/// The sender is gone.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the sender is gone")]
pub struct Closed;

/// A value and its first watcher, who has seen it.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let shared = Shared { value, version: 0, sender_gone: false, waiting: Vec::new() };
    let shared = Rc::new(RefCell::new(shared));
    (Sender { shared: shared.clone() }, Receiver { shared, seen: 0 })
}

impl<T> Sender<T> {
    /// Sets the value and wakes the watchers.
    pub fn send(&self, value: T) {
        self.send_modify(|slot| *slot = value);
    }

    /// Changes the value in place and wakes the watchers.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        let waiting = {
            let mut shared = self.shared.borrow_mut();
            change(&mut shared.value);
            shared.version += 1;
            std::mem::take(&mut shared.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Another watcher, who has seen the present value.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: self.shared.clone(), seen: self.shared.borrow().version }
    }
}

impl<T: Clone> Sender<T> {
    /// The value.
    pub fn get(&self) -> T {
        self.shared.borrow().value.clone()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waiting = {
            let mut shared = self.shared.borrow_mut();
            shared.sender_gone = true;
            std::mem::take(&mut shared.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// Waits until the value was set since this watcher last looked. A change that came before the call is
    /// not missed.
    ///
    /// # Errors
    /// [`Closed`] when the sender is gone and there is nothing new.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        poll_fn(|cx| {
            let mut shared = self.shared.borrow_mut();
            if shared.version != self.seen {
                self.seen = shared.version;
                return Poll::Ready(Ok(()));
            }
            if shared.sender_gone {
                return Poll::Ready(Err(Closed));
            }
            if !shared.waiting.iter().any(|known| known.will_wake(cx.waker())) {
                shared.waiting.push(cx.waker().clone());
            }
            waits_for("a watched value");
            Poll::Pending
        })
        .await
    }
}

impl<T: Clone> Receiver<T> {
    /// The value; it counts as seen.
    pub fn get(&mut self) -> T {
        let shared = self.shared.borrow();
        self.seen = shared.version;
        shared.value.clone()
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}
