//! A queue from many senders to one receiver.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures::Stream;

use super::waits_for;

#[derive(Debug)]
struct Shared<T> {
    queue: VecDeque<T>,
    /// `None` is without bound.
    capacity: Option<usize>,
    senders: usize,
    receiver_gone: bool,
    receiver: Option<Waker>,
    /// Senders that wait for room, in order of arrival.
    blocked: VecDeque<Waker>,
}

/// The sending half; clones share the queue.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The receiving half; also a [`Stream`].
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Rc<RefCell<Shared<T>>>,
}

/// The receiver is gone; here is the value.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the receiver is gone")]
pub struct Closed<T>(pub T);

/// Why a value was not sent at once.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrySendError<T> {
    /// The queue is full; here is the value.
    #[error("the queue is full")]
    Full(T),
    /// The receiver is gone; here is the value.
    #[error("the receiver is gone")]
    Closed(T),
}

fn channel<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let shared = Shared {
        queue: VecDeque::new(),
        capacity,
        senders: 1,
        receiver_gone: false,
        receiver: None,
        blocked: VecDeque::new(),
    };
    let shared = Rc::new(RefCell::new(shared));
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// A queue without bound.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(None)
}

/// A queue of at most `capacity` values.
///
/// # Panics
/// If `capacity` is 0.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a queue of 0 values could never be used");
    channel(Some(capacity))
}

impl<T> Sender<T> {
    /// Puts a value into the queue at once. In a bounded queue it may stand beyond the bound: a sender that
    /// should wait uses [`Sender::send_when_free`], one that should not, [`Sender::try_send`].
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub fn send(&self, value: T) -> Result<(), Closed<T>> {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            if shared.receiver_gone {
                return Err(Closed(value));
            }
            shared.queue.push_back(value);
            shared.receiver.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Puts a value into the queue if there is room.
    ///
    /// # Errors
    /// [`TrySendError`] with the value when there is none, or the receiver is gone.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.is_full() && !self.is_closed() {
            return Err(TrySendError::Full(value));
        }
        self.send(value).map_err(|Closed(value)| TrySendError::Closed(value))
    }

    /// Waits until there is room, then puts the value into the queue.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    pub async fn send_when_free(&self, value: T) -> Result<(), Closed<T>> {
        poll_fn(|cx| {
            if !self.is_full() || self.is_closed() {
                return Poll::Ready(());
            }
            let blocked = &mut self.shared.borrow_mut().blocked;
            if !blocked.iter().any(|known| known.will_wake(cx.waker())) {
                blocked.push_back(cx.waker().clone());
            }
            waits_for("room in a channel");
            Poll::Pending
        })
        .await;
        self.send(value)
    }

    fn is_full(&self) -> bool {
        let shared = self.shared.borrow();
        shared.capacity.is_some_and(|capacity| shared.queue.len() >= capacity)
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.borrow().receiver_gone
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.borrow_mut().senders += 1;
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            shared.senders -= 1;
            if shared.senders == 0 { shared.receiver.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next value, or `None` when all senders are gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// The next value if there is one now.
    pub fn try_recv(&mut self) -> Option<T> {
        let (value, blocked) = {
            let mut shared = self.shared.borrow_mut();
            let value = shared.queue.pop_front()?;
            (value, std::mem::take(&mut shared.blocked))
        };
        // All of them: the one that has waited longest may have given up since.
        blocked.into_iter().for_each(Waker::wake);
        Some(value)
    }

    /// Polls for the next value.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.try_recv() {
            return Poll::Ready(Some(value));
        }
        let mut shared = self.shared.borrow_mut();
        if shared.senders == 0 {
            return Poll::Ready(None);
        }
        if shared.receiver.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            shared.receiver = Some(cx.waker().clone());
        }
        waits_for("a channel value");
        Poll::Pending
    }

    /// How many values are in the queue.
    pub fn len(&self) -> usize {
        self.shared.borrow().queue.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_recv(cx)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let (values, receiver, blocked) = {
            let mut shared = self.shared.borrow_mut();
            shared.receiver_gone = true;
            let values = std::mem::take(&mut shared.queue);
            (values, shared.receiver.take(), std::mem::take(&mut shared.blocked))
        };
        drop((values, receiver));
        blocked.into_iter().for_each(Waker::wake);
    }
}
