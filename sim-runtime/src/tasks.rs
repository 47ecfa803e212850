//! The list of a world's tasks.
//!
//!   start ──► place and number ──polls──► over: the number is free ──joined, or nobody will──► the place is free
//!
//! A task has a *place* in the list until nobody can ask any more what came of it, and a *number*, which its records
//! carry, while it runs. A body stays in its place, for the next task there ([`crate::body`]).
//!
//! Invariants: both are given out last freed first; the number of a task depends on which tasks run, not on who joins them.
//! Not here: whose turn it is (`agenda.rs`).

use std::panic::Location;
use std::task::Waker;

use crate::body::Body;
use crate::schedule::TaskInfo;
use crate::waker::{MOST_TASKS, TaskRef};

/// What the world knows of a task.
pub(crate) struct TaskEntry {
    pub(crate) task: TaskRef,
    /// `None` while it is being polled or dropped. Of a task that is over: what came of it, or nothing.
    pub(crate) body: Option<Body>,
    pub(crate) info: TaskInfo,
    /// How records name it, less one.
    pub(crate) number: u32,
    pub(crate) turn: Turn,
    pub(crate) aborted: bool,
    /// Nobody will ask what came of it.
    pub(crate) detached: bool,
    pub(crate) polls_at_instant: u32,
    pub(crate) polled_at_ns: u64,
    /// Who waits for its end.
    pub(crate) joiner: Option<Waker>,
    /// What its last poll ended waiting for.
    pub(crate) waiting: &'static str,
    /// Number of the spawn in this world.
    pub(crate) born: u64,
    pub(crate) name: &'static str,
    pub(crate) key: u64,
    pub(crate) place: &'static Location<'static>,
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
    /// Its future is gone.
    Over,
}

/// All tasks of a world, and the places of some that were.
#[derive(Default)]
pub(crate) struct Tasks {
    entries: Vec<TaskEntry>,
    vacant: Vec<u32>,
    /// Numbers below `numbers` that are free.
    free: Vec<u32>,
    numbers: u32,
}

impl Tasks {
    /// How many are alive.
    pub(crate) fn len(&self) -> usize {
        self.numbers as usize - self.free.len()
    }

    /// Those that are alive.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TaskEntry> {
        self.entries.iter().filter(|entry| entry.turn != Turn::Over)
    }

    /// The task in that place, if one is alive there.
    pub(crate) fn at(&self, slot: u32) -> Option<&TaskEntry> {
        self.entries.get(slot as usize).filter(|entry| entry.turn != Turn::Over)
    }

    /// The entry of `task`, unless its place has been given to another. Perhaps it is over.
    #[inline]
    pub(crate) fn get_mut(&mut self, task: TaskRef) -> Option<&mut TaskEntry> {
        self.entries.get_mut(task.slot() as usize).filter(|entry| entry.task == task)
    }

    /// The entry of a task that is known to have its place.
    #[inline]
    pub(crate) fn of(&self, task: TaskRef) -> &TaskEntry {
        &self.entries[task.slot() as usize]
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn of_mut(&mut self, task: TaskRef) -> &mut TaskEntry {
        &mut self.entries[task.slot() as usize]
    }

    /// The place of the next task, and the spent body there.
    #[inline]
    pub(crate) fn next_place(&mut self) -> (u32, Option<Body>) {
        match self.vacant.last() {
            Some(slot) => (*slot, self.entries[*slot as usize].body.take()),
            None => {
                assert!(self.entries.len() < MOST_TASKS, "fewer than 2^24 tasks are alive at once");
                (self.entries.len() as u32, None)
            }
        }
    }

    /// Adds a task at the place that was said to be the next, and gives it a number.
    #[inline]
    pub(crate) fn start(&mut self, mut entry: TaskEntry) -> &TaskEntry {
        entry.number = self.free.pop().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        });
        let slot = entry.task.slot() as usize;
        if slot == self.entries.len() {
            self.entries.push(entry);
        } else {
            let freed = self.vacant.pop();
            debug_assert_eq!(freed, Some(slot as u32));
            self.entries[slot] = entry;
        }
        &self.entries[slot]
    }

    /// A task's future is gone; `body` is what remains. Who is to be told.
    #[inline]
    pub(crate) fn end(&mut self, task: TaskRef, body: Body) -> Option<Waker> {
        let slot = task.slot();
        let entry = &mut self.entries[slot as usize];
        entry.body = Some(body);
        entry.turn = Turn::Over;
        self.free.push(entry.number);
        if entry.detached {
            self.vacant.push(slot);
        }
        entry.joiner.take()
    }

    /// Nobody will ask any more for what came of a task that is over.
    #[inline]
    pub(crate) fn vacate(&mut self, task: TaskRef) {
        self.vacant.push(task.slot());
    }
}
