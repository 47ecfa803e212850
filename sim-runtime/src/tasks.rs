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

/// What each turn of a task needs: a line of the processor's cache.
#[repr(align(64))]
pub(crate) struct TaskEntry {
    pub(crate) task: TaskRef,
    /// `None` while it is being polled or dropped. Of a task that is over: what came of it, or nothing.
    pub(crate) body: Option<Body>,
    pub(crate) info: TaskInfo,
    /// Where the text `waiting` of its note is, and how long it is: see [`mark_of`].
    pub(crate) waiting_at: usize,
    /// In which instant, as the world counts them modulo 2^32, it was polled last, and how often.
    pub(crate) instant: u32,
    pub(crate) polls_at_instant: u32,
    /// How records name it, less one.
    pub(crate) number: u32,
    pub(crate) turn: Turn,
    pub(crate) aborted: bool,
    /// Nobody will ask what came of it.
    pub(crate) detached: bool,
}

const _: () = assert!(size_of::<TaskEntry>() == 64);

/// What else the world knows of a task.
pub(crate) struct TaskNote {
    /// What its last poll ended waiting for.
    pub(crate) waiting: &'static str,
    /// Who waits for its end.
    pub(crate) joiner: Option<Waker>,
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

/// Tells texts apart by where they are and how long. Addresses have 48 bits at most.
#[inline]
pub(crate) fn mark_of(text: &'static str) -> usize {
    text.as_ptr().addr() ^ text.len() << 48
}

/// All tasks of a world, and the places of some that were.
#[derive(Default)]
pub(crate) struct Tasks {
    /// By place.
    entries: Vec<TaskEntry>,
    /// By place.
    notes: Vec<TaskNote>,
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TaskEntry, &TaskNote)> {
        self.entries.iter().zip(&self.notes).filter(|(entry, _)| entry.turn != Turn::Over)
    }

    /// The latest task in that place; it may be over.
    pub(crate) fn at(&self, slot: u32) -> Option<(&TaskEntry, &TaskNote)> {
        Some((self.entries.get(slot as usize)?, self.notes.get(slot as usize)?))
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

    /// What else is known of such a task.
    #[inline]
    pub(crate) fn note_mut(&mut self, task: TaskRef) -> &mut TaskNote {
        &mut self.notes[task.slot() as usize]
    }

    /// Adds a task that is queued and has no body yet; also the spent body that is in its place.
    #[inline]
    pub(crate) fn start(
        &mut self,
        refer: impl FnOnce(u32) -> TaskRef,
        info: TaskInfo,
        note: TaskNote,
    ) -> (TaskRef, Option<Body>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        });
        let Some(slot) = self.vacant.pop() else {
            let slot = self.entries.len();
            assert!(slot < MOST_TASKS, "fewer than 2^24 tasks are alive at once");
            let task = refer(slot as u32);
            self.entries.push(TaskEntry {
                task,
                body: None,
                info,
                waiting_at: 0,
                instant: 0,
                polls_at_instant: 0,
                number,
                turn: Turn::Queued,
                aborted: false,
                detached: false,
            });
            self.notes.push(note);
            return (task, None);
        };
        // Field by field: what is written by words is not to be copied as a whole at once.
        let task = refer(slot);
        let entry = &mut self.entries[slot as usize];
        entry.task = task;
        entry.info = info;
        (entry.waiting_at, entry.polls_at_instant) = (0, 0);
        entry.number = number;
        entry.turn = Turn::Queued;
        (entry.aborted, entry.detached) = (false, false);
        let TaskNote { waiting, joiner, born, name, key, place } = note;
        let note = &mut self.notes[slot as usize];
        (note.waiting, note.joiner, note.born) = (waiting, joiner, born);
        (note.name, note.key, note.place) = (name, key, place);
        (task, entry.body.take())
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
        self.notes[slot as usize].joiner.take()
    }

    /// Nobody will ask any more for what came of a task that is over.
    #[inline]
    pub(crate) fn vacate(&mut self, task: TaskRef) {
        self.vacant.push(task.slot());
    }
}
