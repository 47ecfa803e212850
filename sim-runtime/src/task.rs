//! Tasks: who they are, and how to start, await and abort one.
//!
//! A task belongs to an incarnation of a node and has an **identity**: a hash of (node, the spawning task's
//! identity, its name and key). No counter enters it, so a task keeps its identity when others come and go;
//! two tasks with the same name and key under one parent share it, and are told apart by order of waking.
//! Unnamed tasks are named by their spawn place (file, line, column): name what should survive an edit.
//!
//! Invariants: a task is polled only by its world's thread; dropping a `JoinHandle` detaches the task.
//! Not here: which task runs next (`schedule.rs`), the end of a node's tasks (`reap.rs`).

use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::body::embody;
use crate::context;
use crate::node::Owner;
use crate::rng::{hash_name, mix};
use crate::schedule::TaskInfo;
use crate::tasks::{TaskNote, Turn};
use crate::waker::TaskRef;
use crate::world::Handle;

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

/// A task that was started; resolves to what it returned. Who drops it has the task go on by itself, and is not woken
/// at its end.
pub struct JoinHandle<T> {
    /// `None` when it was never started, and when what came of it has been taken.
    task: Option<TaskRef>,
    handle: Handle,
    value: PhantomData<T>,
}

impl<T> JoinHandle<T> {
    /// Drops the task at the await point where it stands, as soon as the executor gets to it.
    pub fn abort(&self) {
        if let Some(task) = self.task
            && !self.is_finished()
        {
            self.handle.abort_task(task);
        }
    }

    /// The task, until what came of it has been taken.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        self.task
    }

    /// Whether it has returned, panicked or been dropped.
    #[inline]
    pub fn is_finished(&self) -> bool {
        let Some(task) = self.task else { return true };
        self.handle.core.agenda.borrow().tasks.of(task).turn == Turn::Over
    }
}

// What it resolves to is moved, and a pointer to a pinned one is never made.
impl<T> Unpin for JoinHandle<T> {}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = self.task else { return Poll::Ready(Err(JoinError::Cancelled)) };
        let core = &self.handle.core;
        let mut agenda = core.agenda.borrow_mut();
        let entry = agenda.tasks.of_mut(task);
        if entry.turn == Turn::Over {
            let mut came: Option<Self::Output> = None;
            entry.body.as_mut().expect("nobody else takes it").as_mut().give(&mut came);
            agenda.tasks.vacate(task);
            drop(agenda);
            self.task = None;
            return Poll::Ready(came.expect("something came of a task that is over"));
        }
        let joiner = &agenda.tasks.note_mut(task).joiner;
        let is_known = joiner.as_ref().is_some_and(|known| known.will_wake(cx.waker()));
        drop(agenda);
        if !is_known {
            let joiner = cx.waker().clone();
            let before = core.agenda.borrow_mut().tasks.note_mut(task).joiner.replace(joiner);
            drop(before);
        }
        self.handle.note_waiting("join");
        Poll::Pending
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let Some(task) = self.task else { return };
        let left = {
            let mut agenda = self.handle.core.agenda.borrow_mut();
            let entry = agenda.tasks.of_mut(task);
            entry.detached = true;
            let body = if entry.turn == Turn::Over { entry.body.take() } else { None };
            if body.is_some() {
                agenda.tasks.vacate(task);
            }
            (agenda.tasks.note_mut(task).joiner.take(), body)
        };
        drop(left);
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
        let core = &self.core;
        let mut agenda = core.agenda.borrow_mut();
        if !agenda.is_live(owner) {
            drop(agenda);
            return JoinHandle { task: None, handle: self.clone(), value: PhantomData };
        }
        let name_hash = if name.is_empty() { core.hash_of_place(place) } else { hash_name(name) };
        let path = mix(u64::from(owner.node.0), self.current_identity());
        let info = TaskInfo { identity: mix(path, mix(name_hash, key)), owner };
        let born = core.born.replace(core.born.get() + 1);
        let note = TaskNote { waiting: "its first poll", joiner: None, born, name, key, place };
        let (task, spent) = agenda.tasks.start(|slot| TaskRef::new(core.number(), slot, born), info, note);
        agenda.tasks.of_mut(task).body = Some(embody(spent, future));
        if let Some(tape) = &core.tape {
            tape.spawned(task.slot(), info, agenda.tasks.note_mut(task));
        }
        agenda.schedule(core, task, owner);
        drop(agenda);
        JoinHandle { task: Some(task), handle: self.clone(), value: PhantomData }
    }
}
