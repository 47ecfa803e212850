//! One value, sent once.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::waits_for;

#[derive(Debug)]
struct Shared<T> {
    value: Option<T>,
    sender_gone: bool,
    receiver_gone: bool,
    waker: Option<Waker>,
}

/// The sending half.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The receiving half: a future.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The sender was dropped without sending.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the sender is gone")]
pub struct Canceled;

/// A channel for one value.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Shared { value: None, sender_gone: false, receiver_gone: false, waker: None };
    let shared = Rc::new(RefCell::new(shared));
    (Sender { shared: shared.clone() }, Receiver { shared })
}

impl<T> Sender<T> {
    /// Sends the value.
    ///
    /// # Errors
    /// Gives it back when the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut shared = self.shared.borrow_mut();
        if shared.receiver_gone {
            return Err(value);
        }
        shared.value = Some(value);
        Ok(())
        // Dropping `self` wakes the receiver.
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.borrow().receiver_gone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            shared.sender_gone = true;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Canceled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.borrow_mut();
        if let Some(value) = shared.value.take() {
            return Poll::Ready(Ok(value));
        }
        if shared.sender_gone {
            return Poll::Ready(Err(Canceled));
        }
        shared.waker = Some(cx.waker().clone());
        waits_for("a oneshot value");
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut shared = self.shared.borrow_mut();
            shared.receiver_gone = true;
            (shared.value.take(), shared.waker.take())
        };
        drop(left);
    }
}
