//! A wake that is not lost: a notification without a waiter is stored, one of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::waits_for;

#[derive(Debug, Default)]
struct Shared {
    permit: bool,
    /// In order of arrival.
    waiting: VecDeque<Ticket>,
    tickets: u64,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    told: Told,
    /// Taken when it is told.
    waker: Option<Waker>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Told {
    NotYet,
    /// As the one: passed on if its owner goes away.
    One,
    /// With all others.
    All,
}

impl Shared {
    /// Where a ticket stands: most often it is the only one.
    #[inline]
    fn place(&self, number: u64) -> Option<usize> {
        if self.waiting.front()?.number == number {
            return Some(0);
        }
        self.waiting.iter().position(|ticket| ticket.number == number)
    }

    #[inline]
    fn take_out(&mut self, at: usize) -> Option<Ticket> {
        if at == 0 { self.waiting.pop_front() } else { self.waiting.remove(at) }
    }
}

/// Wakes tasks. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Notify {
    shared: Rc<RefCell<Shared>>,
}

impl Notify {
    /// Without a stored permit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the task that has waited longest; if none waits, the next one that comes does not wait.
    pub fn notify_one(&self) {
        let waker = {
            let mut shared = self.shared.borrow_mut();
            match shared.waiting.iter_mut().find(|ticket| ticket.told == Told::NotYet) {
                Some(ticket) => {
                    ticket.told = Told::One;
                    ticket.waker.take()
                }
                None => {
                    shared.permit = true;
                    None
                }
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes all tasks that wait now; stores nothing.
    pub fn notify_waiters(&self) {
        let wakers: Vec<Waker> = {
            let mut shared = self.shared.borrow_mut();
            let unnotified = shared.waiting.iter_mut().filter(|ticket| ticket.told == Told::NotYet);
            unnotified
                .filter_map(|ticket| {
                    ticket.told = Told::All;
                    ticket.waker.take()
                })
                .collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for a notification. The place in the queue is taken at the first poll.
    pub fn notified(&self) -> Notified {
        Notified { notify: self.clone(), state: State::New }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    New,
    Waiting(u64),
    Done,
}

/// The future of [`Notify::notified`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Notified {
    notify: Notify,
    state: State,
}

impl Future for Notified {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { notify, state } = &mut *self;
        let mut shared = notify.shared.borrow_mut();
        match *state {
            State::Done => return Poll::Ready(()),
            State::New => {
                if std::mem::take(&mut shared.permit) {
                    *state = State::Done;
                    return Poll::Ready(());
                }
                let number = shared.tickets;
                shared.tickets += 1;
                shared.waiting.push_back(Ticket {
                    number,
                    told: Told::NotYet,
                    waker: Some(cx.waker().clone()),
                });
                *state = State::Waiting(number);
            }
            State::Waiting(number) => {
                let at = shared.place(number).expect("a ticket stays until its owner takes it out");
                let ticket = &mut shared.waiting[at];
                if ticket.told != Told::NotYet {
                    let ticket = shared.take_out(at);
                    *state = State::Done;
                    drop(shared);
                    drop(ticket);
                    return Poll::Ready(());
                }
                if !ticket.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    ticket.waker = Some(cx.waker().clone());
                }
            }
        }
        waits_for("a notification");
        Poll::Pending
    }
}

impl Drop for Notified {
    /// A notification that was given to a waiter who goes away is passed on.
    fn drop(&mut self) {
        let State::Waiting(number) = self.state else { return };
        let ticket = {
            let mut shared = self.notify.shared.borrow_mut();
            shared.place(number).and_then(|at| shared.take_out(at))
        };
        if ticket.is_some_and(|ticket| ticket.told == Told::One) {
            self.notify.notify_one();
        }
    }
}
