//! Wakers: the name of a task in one word, and how a wake finds its way.
//!
//!   Waker ──wake──► the world of this thread is the task's? ──yes──► its queue
//!                                                └──no──► the inbox of the task's world, if it still runs
//!
//! A waker holds no pointer and counts nothing: its data is a number, so that cloning, dropping and comparing one cost
//! nothing, on whatever thread. What it names may be gone; then waking does nothing.
//!
//! Invariants: a wake runs no code of programs but a scheduler's; the number of a world enters nothing that a run can see. Worlds are
//! numbered modulo 2^20, and tasks that use one slot after the other too: a waker that is kept for as long as it takes
//! to come round again wakes a stranger once for nothing, which every future has to bear.
//! Not here: what a woken task waits for (`agenda.rs`, `schedule.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::thread::{self, ThreadId};
use std::{mem, ptr};

use crate::context;
use crate::world::Handle;

const SLOT_BITS: u32 = 24;
const BORN_BITS: u32 = 20;
const WORLD_BITS: u32 = 20;

const _: () = assert!(usize::BITS >= SLOT_BITS + BORN_BITS + WORLD_BITS, "a waker's word has 64 bits");

/// How many tasks can be alive at once.
pub(crate) const MOST_TASKS: usize = 1 << SLOT_BITS;

/// Names a task: which world, which slot of its list, and the number of its spawn, which tells those apart that used the
/// slot.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct TaskRef(u64);

impl TaskRef {
    #[inline]
    pub(crate) fn new(world: WorldNumber, slot: u32, born: u64) -> Self {
        let born = born % (1 << BORN_BITS);
        Self(u64::from(world.0) << (SLOT_BITS + BORN_BITS) | born << SLOT_BITS | u64::from(slot))
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        (self.0 % (1 << SLOT_BITS)) as u32
    }

    #[inline]
    pub(crate) fn world(self) -> WorldNumber {
        WorldNumber((self.0 >> (SLOT_BITS + BORN_BITS)) as u32)
    }

    /// Whose waker it is, if it is a task's.
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Option<Self> {
        ptr::eq(waker.vtable(), &VTABLE).then(|| Self(waker.data().addr() as u64))
    }

    #[inline]
    pub(crate) fn waker(self) -> Waker {
        let data = ptr::without_provenance(self.0 as usize);
        #[expect(
            unsafe_code,
            reason = "wakers that count nothing: a task is started and joined in a fifth less time"
        )]
        // SAFETY: the functions of the table take the data for a number and never for a place in memory, so whatever it
        // is, on whatever thread, as often as one likes, they are sound; and there is nothing to be freed.
        unsafe {
            Waker::from_raw(RawWaker::new(data, &VTABLE))
        }
    }
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), wake_data, wake_data, |_| {});

fn wake_data(data: *const ()) {
    wake(TaskRef(data.addr() as u64));
}

/// A task is woken, from wherever.
#[inline]
pub(crate) fn wake(task: TaskRef) {
    let is_here = context::with(|handle| {
        let is_here = handle.core.number() == task.world();
        if is_here {
            handle.core.wake(task);
        }
        is_here
    });
    if is_here != Some(true) {
        wake_elsewhere(task);
    }
}

impl Handle {
    /// Wakes whom `waker` wakes. For devices, which know the world: it has not to be found, as by [`Waker::wake`].
    #[inline]
    pub fn wake(&self, waker: Waker) {
        match TaskRef::of(&waker) {
            Some(task) if task.world() == self.core.number() => {
                // It counts nothing, and to drop it is a call nevertheless.
                mem::forget(waker);
                self.core.wake(task);
            }
            _ => waker.wake(),
        }
    }
}

#[cold]
fn wake_elsewhere(task: TaskRef) {
    let inbox = WORLDS.lock().unwrap_or_else(PoisonError::into_inner).inboxes.get(&task.world().0).cloned();
    if let Some(inbox) = inbox {
        inbox.push(task);
    }
}

/// Tells worlds of the process apart.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct WorldNumber(u32);

/// The inboxes of all worlds that are alive: for wakes from other threads, which know nothing but a number.
struct Worlds {
    next: u32,
    inboxes: BTreeMap<u32, Arc<Inbox>>,
}

static WORLDS: Mutex<Worlds> = Mutex::new(Worlds { next: 0, inboxes: BTreeMap::new() });

/// Where wakes from foreign threads wait.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The world's own thread: a wake from there is none of a foreign thread, only out of turn.
    owner: ThreadId,
    filled: AtomicBool,
    woken: Mutex<Vec<(TaskRef, Origin)>>,
}

/// From where a task was woken.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// From the world's thread, while another world or none was running on it.
    OwnThread,
    ForeignThread,
}

impl Inbox {
    fn push(&self, task: TaskRef) {
        let is_own = thread::current().id() == self.owner;
        let origin = if is_own { Origin::OwnThread } else { Origin::ForeignThread };
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push((task, origin));
        self.filled.store(true, Ordering::Release);
    }

    /// Whether anything waits.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<(TaskRef, Origin)> {
        self.filled.store(false, Ordering::Release);
        std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A world's place among those of the process, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) number: WorldNumber,
    pub(crate) inbox: Arc<Inbox>,
}

impl Registered {
    pub(crate) fn new() -> Self {
        let inbox = Arc::new(Inbox {
            owner: thread::current().id(),
            filled: AtomicBool::default(),
            woken: Mutex::default(),
        });
        let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(worlds.inboxes.len() < 1 << WORLD_BITS, "fewer than 2^20 worlds are alive at once");
        while worlds.inboxes.contains_key(&worlds.next) {
            worlds.next = (worlds.next + 1) % (1 << WORLD_BITS);
        }
        let number = worlds.next;
        worlds.next = (worlds.next + 1) % (1 << WORLD_BITS);
        worlds.inboxes.insert(number, inbox.clone());
        Self { number: WorldNumber(number), inbox }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
        let inbox = worlds.inboxes.remove(&self.number.0);
        drop(worlds);
        drop(inbox);
    }
}
