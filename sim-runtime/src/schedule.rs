//! Which ready task runs next.
//!
//! A [`Scheduler`] gives each task that becomes ready a rank; the highest runs first, ties in order of waking.
//! The default ranks by a field of (task identity, time bucket), so that the order of two tasks at one moment
//! does not depend on what else ran before.
//!
//!   wake ──rank──► Ready ──highest──► executor
//!
//! Invariants: a rank is taken when the task becomes ready or when it gets a competitor, and time does not move while
//! any is ready, so all ranks that compete belong to one bucket; equal ranks are first come, first served.
//! Not here: holding wakes back (`agenda.rs`), without which two tasks are almost never ready at once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};

use crate::node::Owner;
use crate::rng::{BUCKET_NS, Chance, Stream, hash_name, mix};
use crate::tasks::Tasks;
use crate::waker::TaskRef;

/// What a scheduler may know of a task.
#[derive(Copy, Clone, Debug)]
pub struct TaskInfo {
    /// Hash of (node, spawn path, name, key): the same in every run in which the task exists.
    pub identity: u64,
    /// The incarnation that it belongs to.
    pub owner: Owner,
}

/// Ranks tasks as they become ready. A value: schedulers wrap each other.
///
/// It is asked while the executor's queues are in use, so it must not call the world: that panics, which ends the run.
pub trait Scheduler {
    /// The rank of `task`, which became ready at `now_ns`; the highest runs first.
    fn rank(&mut self, task: TaskInfo, now_ns: u64) -> u64;
}

/// Which scheduler a run uses, as data.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// By hash of (task identity, bucket of 2 ms).
    #[default]
    Field,
    /// In order of waking.
    Fifo,
    /// By priorities that hold for the whole run, and drop at a few moments: see [`Pct`].
    Pct {
        /// How many ordering constraints the bugs that are looked for need; `depth - 1` priorities drop.
        depth: u32,
        /// Within how much virtual time, from the beginning of the run, they drop.
        horizon_ms: u64,
    },
}

/// The scheduler in use; the given ones are called directly.
pub(crate) enum Ranking {
    Field(u64),
    Fifo,
    Pct(Box<Pct>),
    Custom(Box<dyn Scheduler>),
}

impl Ranking {
    pub(crate) fn new(schedule: Schedule, chance: Chance, seed: u64) -> Self {
        let field = mix(seed, hash_name("schedule"));
        match schedule {
            Schedule::Field if chance != Chance::Fields => Self::Custom(Box::new(Drawn::new(chance, field))),
            Schedule::Field => Self::Field(field),
            Schedule::Fifo => Self::Fifo,
            Schedule::Pct { depth, horizon_ms } => Self::Pct(Box::new(Pct::new(seed, depth, horizon_ms))),
        }
    }

    /// Whether a rank depends on nothing but the task and the bucket, so that it may be asked for later or never.
    #[inline]
    fn is_pure(&self) -> bool {
        matches!(self, Self::Field(_) | Self::Fifo)
    }

    #[inline]
    fn rank(&mut self, task: TaskInfo, now_ns: u64) -> u64 {
        match self {
            Self::Field(seed) => mix(mix(*seed, task.identity), now_ns / BUCKET_NS),
            Self::Fifo => 0,
            Self::Pct(pct) => pct.rank(task, now_ns),
            Self::Custom(scheduler) => scheduler.rank(task, now_ns),
        }
    }
}

/// What [`Schedule::Field`] is where conditions come from streams: each rank is the next number, of one stream or of the
/// task's own.
struct Drawn {
    chance: Chance,
    seed: u64,
    taken: BTreeMap<u64, u64>,
}

impl Drawn {
    fn new(chance: Chance, seed: u64) -> Self {
        Self { chance, seed, taken: BTreeMap::new() }
    }
}

impl Scheduler for Drawn {
    fn rank(&mut self, task: TaskInfo, _now_ns: u64) -> u64 {
        let stream = if self.chance == Chance::Stream { 0 } else { task.identity };
        let taken = self.taken.entry(stream).or_default();
        *taken += 1;
        mix(mix(self.seed, stream), *taken)
    }
}

/// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with
/// Probabilistic Guarantees of Finding Bugs", ASPLOS 2010), in virtual time.
///
/// Each task has a priority for the whole run, a hash of its identity; of the ready tasks the one of the
/// highest runs. At `depth - 1` moments, drawn evenly from the horizon before the run, a priority drops: that of
/// the task which becomes ready first from then on, below all that have none of these drops (to the k-th lowest
/// at the k-th moment drawn). A bug of depth d, one that needs d pairs of events in a certain order, is met by
/// d - 1 well-placed drops. [`Schedule::Field`], which draws a new order in every bucket, meets shallow bugs as
/// soon, and never keeps one task behind all others for long; this one does.
///
/// What differs from the paper. The moments are points in virtual time and not numbers of steps, so that they
/// stay where they are when the program is edited; the guarantee, 1 in (tasks × steps^(depth - 1)), is therefore
/// one over moments at which tasks compete and not over steps. Tasks of one identity share a priority, in their
/// next incarnation too.
#[derive(Clone, Debug)]
pub struct Pct {
    seed: u64,
    /// Moments that are still to come, the next one last: when, and what the priority becomes.
    drops: Vec<(u64, u64)>,
    /// Identities that have dropped, the latest last.
    dropped: Vec<(u64, u64)>,
}

impl Pct {
    /// For the run of `seed`. A depth of 0 or 1 has priorities and no drops.
    pub fn new(seed: u64, depth: u32, horizon_ms: u64) -> Self {
        let mut stream = Stream::derive(seed, "pct drops");
        let horizon_ns = horizon_ms.saturating_mul(1_000_000);
        let mut drops: Vec<_> = (1..depth).map(|k| (stream.range(0, horizon_ns), u64::from(k))).collect();
        drops.sort_unstable_by(|one, other| other.cmp(one));
        Self { seed: mix(seed, hash_name("pct priorities")), drops, dropped: Vec::new() }
    }
}

impl Scheduler for Pct {
    fn rank(&mut self, task: TaskInfo, now_ns: u64) -> u64 {
        if let Some((at_ns, priority)) = self.drops.last().copied()
            && at_ns <= now_ns
        {
            self.drops.pop();
            self.dropped.push((task.identity, priority));
        }
        match self.dropped.iter().rev().find(|(identity, _)| *identity == task.identity) {
            Some((_, priority)) => *priority,
            None => mix(self.seed, task.identity) | TOP_BIT,
        }
    }
}

/// Above every priority that has dropped.
const TOP_BIT: u64 = 1 << 63;

/// A ready task with its rank, and the number of its coming.
#[derive(Debug)]
struct Entry {
    rank: u64,
    order: u64,
    task: TaskRef,
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
    alone: Option<TaskRef>,
    /// What came when there were several, since the last one was taken.
    fresh: Vec<Entry>,
    /// Those that came at once, the highest last: they are sorted faster than they are taken from a heap.
    sorted: Vec<Entry>,
    /// What came while there were any of those.
    heap: BinaryHeap<Entry>,
    /// How many there are in all.
    len: usize,
    pushed: u64,
}

impl Ready {
    /// Adds a task that became ready at `now_ns`.
    #[inline]
    pub(crate) fn push(&mut self, task: TaskRef, tasks: &Tasks, ranking: &mut Ranking, now_ns: u64) {
        self.len += 1;
        if self.len == 1 && ranking.is_pure() {
            self.alone = Some(task);
        } else {
            self.compete(task, tasks, ranking, now_ns);
        }
    }

    fn compete(&mut self, task: TaskRef, tasks: &Tasks, ranking: &mut Ranking, now_ns: u64) {
        if let Some(alone) = self.alone.take() {
            self.add(alone, tasks, ranking, now_ns);
        }
        self.add(task, tasks, ranking, now_ns);
    }

    #[inline]
    fn add(&mut self, task: TaskRef, tasks: &Tasks, ranking: &mut Ranking, now_ns: u64) {
        let rank = ranking.rank(tasks.of(task).info, now_ns);
        self.fresh.push(Entry { rank, order: self.pushed, task });
        self.pushed += 1;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<TaskRef> {
        self.len = self.len.checked_sub(1)?;
        if let Some(task) = self.alone.take() {
            return Some(task);
        }
        self.pop_highest()
    }

    fn pop_highest(&mut self) -> Option<TaskRef> {
        if !self.fresh.is_empty() {
            self.take_in();
        }
        let from_heap = match (self.heap.peek(), self.sorted.last()) {
            (Some(in_heap), Some(sorted)) => in_heap > sorted,
            (in_heap, _) => in_heap.is_some(),
        };
        let highest = if from_heap { self.heap.pop() } else { self.sorted.pop() };
        highest.map(|entry| entry.task)
    }

    fn take_in(&mut self) {
        if self.sorted.is_empty() {
            std::mem::swap(&mut self.sorted, &mut self.fresh);
            self.sorted.sort_unstable();
        } else {
            self.heap.extend(self.fresh.drain(..));
        }
    }

    /// Takes out those for which `taken` holds, in order of waking.
    pub(crate) fn extract(&mut self, taken: impl Fn(TaskRef) -> bool) -> Vec<TaskRef> {
        if let Some(alone) = self.alone.take_if(|task| taken(*task)) {
            self.len = 0;
            return vec![alone];
        }
        let mut out: Vec<Entry> = self.sorted.extract_if(.., |entry| taken(entry.task)).collect();
        out.extend(self.fresh.extract_if(.., |entry| taken(entry.task)));
        if self.heap.iter().any(|entry| taken(entry.task)) {
            let all = std::mem::take(&mut self.heap).into_vec();
            let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|entry| taken(entry.task));
            self.heap = kept.into();
            out.extend(gone);
        }
        self.len -= out.len();
        out.sort_by_key(|entry| entry.order);
        out.into_iter().map(|entry| entry.task).collect()
    }
}
