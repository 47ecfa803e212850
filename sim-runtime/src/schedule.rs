//! Which ready task runs next.
//!
//! A [`Scheduler`] gives each task that becomes ready a rank; the highest runs first, ties in order of waking.
//! The default ranks by a field of (task identity, time bucket), so that the order of two tasks at one moment
//! does not depend on what else ran before.
//!
//!   wake ──rank──► Ready (heap) ──highest──► executor
//!
//! Invariants: a rank is taken when the task becomes ready or when it gets a competitor, and time does not move while
//! any is ready, so all ranks that compete belong to one bucket; equal ranks are first come, first served.
//! Not here: holding wakes back (`world.rs`), without which two tasks are almost never ready at once.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use async_task::Runnable;
use serde::{Deserialize, Serialize};

use crate::node::Owner;
use crate::rng::{BUCKET_NS, hash_name, mix};
use crate::task::Meta;

/// What a scheduler may know of a task.
#[derive(Copy, Clone, Debug)]
pub struct TaskInfo {
    /// Hash of (node, spawn path, name, key): the same in every run in which the task exists.
    pub identity: u64,
    /// The incarnation that it belongs to.
    pub owner: Owner,
}

/// Ranks tasks as they become ready. A value: schedulers wrap each other.
pub trait Scheduler {
    /// The rank of `task`, which became ready at `now_ns`; the highest runs first.
    fn rank(&mut self, task: TaskInfo, now_ns: u64) -> u64;
}

/// Which scheduler a run uses, as data.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// By hash of (task identity, bucket of 2 ms).
    #[default]
    Field,
    /// In order of waking.
    Fifo,
}

/// The scheduler in use; the given ones are called directly.
pub(crate) enum Ranking {
    Field(u64),
    Fifo,
    Custom(Box<dyn Scheduler>),
}

impl Ranking {
    pub(crate) fn new(schedule: Schedule, seed: u64) -> Self {
        match schedule {
            Schedule::Field => Self::Field(mix(seed, hash_name("schedule"))),
            Schedule::Fifo => Self::Fifo,
        }
    }

    /// Whether a rank depends on nothing but the task and the bucket, so that it may be asked for later or never.
    #[inline]
    fn is_pure(&self) -> bool {
        !matches!(self, Self::Custom(_))
    }

    #[inline]
    fn rank(&mut self, task: TaskInfo, now_ns: u64) -> u64 {
        match self {
            Self::Field(seed) => mix(mix(*seed, task.identity), now_ns / BUCKET_NS),
            Self::Fifo => 0,
            Self::Custom(scheduler) => scheduler.rank(task, now_ns),
        }
    }
}

struct Entry {
    rank: u64,
    order: u64,
    runnable: Runnable<Meta>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (self.rank, other.order).cmp(&(other.rank, self.order))
    }
}

/// The tasks that can run now.
#[derive(Default)]
pub(crate) struct Ready {
    /// The only one, as is nearly always the case: it needs no rank.
    alone: Option<Runnable<Meta>>,
    /// All of them, when they are several.
    heap: BinaryHeap<Entry>,
    pushed: u64,
}

impl Ready {
    /// Adds a task that became ready at `now_ns`.
    #[inline]
    pub(crate) fn push(&mut self, runnable: Runnable<Meta>, ranking: &mut Ranking, now_ns: u64) {
        if self.alone.is_none() && self.heap.is_empty() && ranking.is_pure() {
            self.alone = Some(runnable);
        } else {
            self.compete(runnable, ranking, now_ns);
        }
    }

    fn compete(&mut self, runnable: Runnable<Meta>, ranking: &mut Ranking, now_ns: u64) {
        for runnable in self.alone.take().into_iter().chain([runnable]) {
            let Meta { identity, owner, .. } = *runnable.metadata();
            let rank = ranking.rank(TaskInfo { identity, owner }, now_ns);
            self.heap.push(Entry { rank, order: self.pushed, runnable });
            self.pushed += 1;
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Runnable<Meta>> {
        if self.alone.is_some() {
            return self.alone.take();
        }
        self.heap.pop().map(|entry| entry.runnable)
    }

    /// Takes out what `owner` has here, in order of waking.
    pub(crate) fn extract(&mut self, mut taken: impl FnMut(&Meta) -> bool) -> Vec<Runnable<Meta>> {
        if let Some(alone) = self.alone.take_if(|runnable| taken(runnable.metadata())) {
            return vec![alone];
        }
        if !self.heap.iter().any(|entry| taken(entry.runnable.metadata())) {
            return Vec::new();
        }
        let (mut out, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.heap).into_vec().into_iter().partition(|e| taken(e.runnable.metadata()));
        self.heap = kept.into();
        out.sort_by_key(|entry| entry.order);
        out.into_iter().map(|entry| entry.runnable).collect()
    }
}
