//! Tasks: who they are, and how to start, await and abort one.
//!
//! A task belongs to an incarnation of a node and has an **identity**: a hash of (node, the spawning task's
//! identity, its name and key). No counter enters it, so a task keeps its identity when others come and go;
//! two tasks with the same name and key under one parent share it, and are told apart by order of waking.
//! Unnamed tasks are named by their spawn place (file, line, column): name what should survive an edit.
//!
//! Invariants: a task is polled only by its world's thread; dropping a `JoinHandle` detaches the task.
//! Not here: which task runs next (`schedule.rs`), the end of a node's tasks (`executor.rs`).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures::future::LocalBoxFuture;
use pin_project_lite::pin_project;

use crate::context;
use crate::node::Owner;
use crate::rng::{hash_name, mix};
use crate::schedule::TaskInfo;
use crate::waker::{MOST_TASKS, TaskRef};
use crate::world::Handle;

/// What the world knows of a living task.
pub(crate) struct TaskEntry {
    /// `None` while it is being polled or dropped.
    pub(crate) body: Option<LocalBoxFuture<'static, ()>>,
    pub(crate) turn: Cell<Turn>,
    /// Number of the spawn in this world.
    pub(crate) born: u64,
    pub(crate) info: TaskInfo,
    pub(crate) name: &'static str,
    pub(crate) key: u64,
    pub(crate) place: &'static Location<'static>,
    /// What its last poll ended waiting for.
    pub(crate) waiting: Cell<&'static str>,
    pub(crate) polled_at_ns: u64,
    pub(crate) polls_at_instant: u32,
    pub(crate) aborted: Cell<bool>,
}

/// Where a task stands between two polls.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It waits to be woken.
    Asleep,
    /// It is in exactly one queue.
    Queued,
    /// It is being polled or dropped.
    Running,
    /// The same, and was woken meanwhile.
    RunningAndWoken,
}

/// Why a task gave no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinError {
    /// It was aborted, or its node went down.
    #[error("the task was cancelled")]
    Cancelled,
    /// It panicked, with this message.
    #[error("the task panicked: {0}")]
    Panicked(String),
}

/// What came of a task, between the task and who joins it.
struct Joint<T>(RefCell<Outcome<T>>);

enum Outcome<T> {
    /// Nothing yet; who waits for it.
    Open(Option<Waker>),
    Came(Result<T, JoinError>),
    Taken,
}

impl<T> Joint<T> {
    fn is_open(&self) -> bool {
        matches!(&*self.0.borrow(), Outcome::Open(_))
    }

    /// Puts down what came of it, unless something did; who is to be woken.
    fn close(&self, result: Result<T, JoinError>) -> Option<Waker> {
        let mut outcome = self.0.borrow_mut();
        let Outcome::Open(waiting) = &mut *outcome else { return None };
        let waiting = waiting.take();
        *outcome = Outcome::Came(result);
        waiting
    }
}

/// A task that was started; resolves to what it returned.
pub struct JoinHandle<T> {
    /// `None` when it was never started.
    joint: Option<Rc<Joint<T>>>,
    slot: u32,
    handle: Handle,
}

impl<T> JoinHandle<T> {
    /// Drops the task at the await point where it stands, as soon as the executor gets to it.
    pub fn abort(&self) {
        if !self.is_finished() {
            self.handle.abort_task(self.slot);
        }
    }

    /// Whether it has returned, panicked or been dropped.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.joint.as_ref().is_none_or(|joint| !joint.is_open())
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(joint) = &self.joint else { return Poll::Ready(Err(JoinError::Cancelled)) };
        let mut outcome = joint.0.borrow_mut();
        match &mut *outcome {
            Outcome::Open(waiting) => {
                match waiting {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waiting = Some(cx.waker().clone()),
                }
                self.handle.note_waiting("join");
                Poll::Pending
            }
            Outcome::Came(_) => match std::mem::replace(&mut *outcome, Outcome::Taken) {
                Outcome::Came(result) => Poll::Ready(result),
                Outcome::Open(_) | Outcome::Taken => unreachable!("it came a line ago"),
            },
            Outcome::Taken => Poll::Ready(Err(JoinError::Cancelled)),
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}

/// Starts a task on the caller's node incarnation.
///
/// # Panics
/// Outside a run.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    task("").spawn(future)
}

/// A task with a name: `task("replicator").key(3).spawn(..)`.
pub fn task(name: &'static str) -> Builder {
    Builder { name, key: 0 }
}

/// Names a task before it is spawned.
#[derive(Copy, Clone, Debug)]
#[must_use = "nothing runs before spawn()"]
pub struct Builder {
    name: &'static str,
    key: u64,
}

impl Builder {
    /// Tells tasks of one name apart: the peer that a replicator serves, say.
    pub fn key(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// Starts it on the caller's node incarnation. On a dead one nothing starts, and the handle says so.
    ///
    /// # Panics
    /// Outside a run.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let handle = context::current();
        handle.spawn_task(handle.owner(), Location::caller(), self.name, self.key, future)
    }
}

impl Handle {
    /// Starts a task on `owner`. If that incarnation is dead nothing starts, and the handle says so.
    #[track_caller]
    pub fn spawn_on<F>(&self, owner: Owner, name: &'static str, key: u64, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_task(owner, Location::caller(), name, key, future)
    }

    /// The same, as if `place` had done it.
    pub(crate) fn spawn_task<F>(
        &self,
        owner: Owner,
        place: &'static Location<'static>,
        name: &'static str,
        key: u64,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        if !self.is_live(owner) {
            return JoinHandle { joint: None, slot: 0, handle: self.clone() };
        }
        let name_hash = if name.is_empty() { self.core.hash_of_place(place) } else { hash_name(name) };
        let path = mix(u64::from(owner.node.0), self.current_identity());
        let identity = mix(path, mix(name_hash, key));
        let joint = Rc::new(Joint(RefCell::new(Outcome::Open(None))));
        let body = Body { future: Some(future), closing: Closing { joint: joint.clone(), came: None } };
        let born = self.core.born.replace(self.core.born.get() + 1);
        let entry = TaskEntry {
            body: Some(Box::pin(body)),
            turn: Cell::new(Turn::Queued),
            born,
            info: TaskInfo { identity, owner },
            name,
            key,
            place,
            waiting: Cell::new("its first poll"),
            polled_at_ns: u64::MAX,
            polls_at_instant: 0,
            aborted: Cell::new(false),
        };
        let slot = {
            let mut tasks = self.core.tasks.borrow_mut();
            let vacant = tasks.vacant_entry();
            let slot = vacant.key();
            assert!(slot < MOST_TASKS, "fewer than 2^24 tasks are alive at once");
            let slot = slot as u32;
            if let Some(tape) = &self.core.tape {
                tape.spawned(slot, &entry);
            }
            let _ = vacant.insert(entry);
            slot
        };
        self.core.schedule(TaskRef::new(self.core.number(), slot, born), TaskInfo { identity, owner });
        JoinHandle { joint: Some(joint), slot, handle: self.clone() }
    }
}

/// Tells who joins a task what came of it, when the task's future is gone.
struct Closing<T> {
    joint: Rc<Joint<T>>,
    /// `None` until the future is done; one that goes before was cancelled.
    came: Option<Result<T, JoinError>>,
}

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        let came = self.came.take().unwrap_or(Err(JoinError::Cancelled));
        if let Some(waiting) = self.joint.close(came) {
            waiting.wake();
        }
    }
}

pin_project! {
    struct Body<F: Future> {
        // `None` only while the body itself is being dropped.
        #[pin]
        future: Option<F>,
        closing: Closing<F::Output>,
    }

    impl<F: Future> PinnedDrop for Body<F> {
        // The future goes before who waits for it is told. A panic in its drop is a finding.
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
                let text = format!("while it was dropped: {}", payload_text(&*payload));
                context::current().note_panic(&text);
            }
        }
    }
}

impl<F: Future> Future for Body<F> {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // A panic leaves the future in an unknown state; it is dropped and never polled again.
        let future = this.future.as_pin_mut().expect("a body that is polled has its future");
        this.closing.came = Some(match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(JoinError::Panicked(context::current().note_panic(payload_text(&*payload)))),
        });
        Poll::Ready(())
    }
}

/// The text that a panic carried.
pub(crate) fn payload_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a panic without text"
    }
}
