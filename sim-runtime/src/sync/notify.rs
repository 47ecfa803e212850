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
    waker: Waker,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Told {
    NotYet,
    /// As the one: passed on if its owner goes away.
    One,
    /// With all others.
    All,
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
                    Some(ticket.waker.clone())
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
                .map(|ticket| {
                    ticket.told = Told::All;
                    ticket.waker.clone()
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
                shared.waiting.push_back(Ticket { number, told: Told::NotYet, waker: cx.waker().clone() });
                *state = State::Waiting(number);
            }
            State::Waiting(number) => {
                let at = shared.waiting.iter().position(|ticket| ticket.number == number);
                let at = at.expect("a ticket stays until its owner takes it out");
                let ticket = &mut shared.waiting[at];
                if ticket.told != Told::NotYet {
                    let ticket = shared.waiting.remove(at);
                    *state = State::Done;
                    drop(shared);
                    drop(ticket);
                    return Poll::Ready(());
                }
                if !ticket.waker.will_wake(cx.waker()) {
                    ticket.waker.clone_from(cx.waker());
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
            let at = shared.waiting.iter().position(|ticket| ticket.number == number);
            at.and_then(|at| shared.waiting.remove(at))
        };
        if ticket.is_some_and(|ticket| ticket.told == Told::One) {
            self.notify.notify_one();
        }
    }
}
