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
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_task::FallibleTask;
use pin_project_lite::pin_project;

use crate::context;
use crate::executor::Inbox;
use crate::node::Owner;
use crate::rng::{hash_name, mix};
use crate::world::Handle;

/// What a task carries along.
#[derive(Debug)]
pub(crate) struct Meta {
    /// Where it goes when it is woken from outside its world. Here and not in the schedule function, which
    /// `async_task` calls with fewer atomic operations when it captures nothing.
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) id: u32,
    pub(crate) owner: Owner,
    pub(crate) identity: u64,
}

/// What the world knows of a living task.
pub(crate) struct TaskEntry {
    pub(crate) waker: Waker,
    pub(crate) owner: Owner,
    /// Number of the spawn in this world.
    pub(crate) born: u64,
    pub(crate) name: &'static str,
    pub(crate) key: u64,
    pub(crate) place: &'static Location<'static>,
    /// What its last poll ended waiting for.
    pub(crate) waiting: Cell<&'static str>,
    pub(crate) polled_at_ns: Cell<u64>,
    pub(crate) polls_at_instant: Cell<u32>,
    pub(crate) aborted: Cell<bool>,
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

/// A task that was started; resolves to what it returned.
pub struct JoinHandle<T> {
    task: Option<FallibleTask<Result<T, String>, Meta>>,
    id: u32,
    handle: Handle,
}

impl<T> JoinHandle<T> {
    /// Drops the task at the await point where it stands, as soon as the executor gets to it.
    pub fn abort(&self) {
        if let Some(task) = &self.task
            && !task.is_finished()
        {
            self.handle.abort_task(self.id);
        }
    }

    /// Whether it has returned, panicked or been dropped.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = &mut self.task else { return Poll::Ready(Err(JoinError::Cancelled)) };
        match Pin::new(task).poll(cx) {
            Poll::Pending => {
                self.handle.note_waiting("join");
                Poll::Pending
            }
            Poll::Ready(result) => {
                self.task = None;
                Poll::Ready(match result {
                    Some(Ok(value)) => Ok(value),
                    Some(Err(message)) => Err(JoinError::Panicked(message)),
                    None => Err(JoinError::Cancelled),
                })
            }
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
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
            return JoinHandle { task: None, id: 0, handle: self.clone() };
        }
        let name_hash = if name.is_empty() {
            mix(hash_name(place.file()), u64::from(place.line()) << 32 | u64::from(place.column()))
        } else {
            hash_name(name)
        };
        let path = mix(u64::from(owner.node.0), self.current_identity());
        let identity = mix(path, mix(name_hash, key));
        let id = self.reserve_task();
        let meta = Meta { inbox: self.core.inbox().clone(), id, owner, identity };
        let registered = Registered { handle: self.clone(), id };
        let body = Body { future: Some(future), registered };
        let (runnable, task) =
            async_task::Builder::new().metadata(meta).spawn_local(move |_| body, context::schedule);
        let entry = TaskEntry {
            waker: runnable.waker(),
            owner,
            born: 0,
            name,
            key,
            place,
            waiting: Cell::new("its first poll"),
            polled_at_ns: Cell::new(u64::MAX),
            polls_at_instant: Cell::new(0),
            aborted: Cell::new(false),
        };
        self.register_task(id, entry);
        self.schedule(runnable);
        JoinHandle { task: Some(task.fallible()), id, handle: self.clone() }
    }
}

/// Takes the task off the world's list when its future goes away, however that happens.
struct Registered {
    handle: Handle,
    id: u32,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.handle.forget_task(self.id);
    }
}

pin_project! {
    struct Body<F> {
        // `None` only while the body itself is being dropped.
        #[pin]
        future: Option<F>,
        registered: Registered,
    }

    impl<F> PinnedDrop for Body<F> {
        // `async_task` aborts the process when the drop of a future panics, so that is caught here.
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
                let text = format!("while it was dropped: {}", payload_text(&*payload));
                this.registered.handle.note_panic(&text);
            }
        }
    }
}

impl<F: Future> Future for Body<F> {
    type Output = Result<F::Output, String>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // A panic leaves the future in an unknown state; it is dropped and never polled again.
        let future = this.future.as_pin_mut().expect("a body that is polled has its future");
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(this.registered.handle.note_panic(payload_text(&*payload)))),
        }
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
