//! Worker threads that run batches of timelines, each under the eyes of a scout.
//!
//!   batch ──queue──► workers (one world at a time each) ──► results, in the order of the batch
//!
//! Invariants: what comes back does not depend on how many workers there are; a batch is complete, or the search is
//! over: there is no run that is given up while others go on.
//! Not here: what is run, and what is made of it (`search.rs`).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::scout::{self, Scouted};
use crate::panics::payload_text;
use crate::scenario::{Scenario, Timeline, Watch};
use crate::verdict::RunReport;

/// What a run came to.
pub(super) struct Ran {
    /// Its report, or why there is none: the harness panicked.
    pub(super) report: Result<RunReport, String>,
    pub(super) scouted: Scouted,
}

/// Why a batch is not complete.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Aborted {
    Deadline,
    /// No run ended for as long as that.
    Hung,
    Interrupt,
}

/// A timeline, with its place in all that was asked for.
type Job<S> = (usize, Timeline<<S as Scenario>::Config, <S as Scenario>::Plan>);

struct Queue<S: Scenario> {
    jobs: VecDeque<Job<S>>,
    closed: bool,
}

struct Shared<S: Scenario> {
    scenario: Arc<S>,
    most_steps: u64,
    queue: Mutex<Queue<S>>,
    filled: Condvar,
}

impl<S: Scenario> Shared<S> {
    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Job<S>> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            match queue.jobs.pop_front() {
                Some(job) => return Some(job),
                None => queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// When to stop waiting.
pub(super) struct Patience {
    /// The whole search ends then.
    pub(super) deadline: Option<Instant>,
    /// A run that takes so long hangs.
    pub(super) hung_after: Duration,
    pub(super) stop: Arc<AtomicBool>,
}

/// The workers.
pub(super) struct Pool<S: Scenario> {
    shared: Arc<Shared<S>>,
    results: Receiver<(usize, Ran)>,
    /// How many runs it was asked for.
    asked: Cell<usize>,
}

impl<S> Pool<S>
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send,
    S::Plan: Send,
{
    pub(super) fn new(scenario: Arc<S>, workers: usize, most_steps: u64) -> Self {
        let queue = Mutex::new(Queue { jobs: VecDeque::new(), closed: false });
        let shared = Arc::new(Shared { scenario, most_steps, queue, filled: Condvar::new() });
        let (tell, results) = channel();
        (0..workers).for_each(|_| start(shared.clone(), tell.clone()));
        Self { shared, results, asked: Cell::new(0) }
    }

    /// Runs all of `batch`, or is aborted. Where one comes to something that is `enough`, those behind it are not run,
    /// or not waited for: what comes back ends with it, however many workers there are.
    #[expect(
        clippy::disallowed_methods,
        reason = "a deadline is about real time; it decides nothing but the end"
    )]
    pub(super) fn run(
        &self,
        batch: Vec<Timeline<S::Config, S::Plan>>,
        patience: &Patience,
        enough: impl Fn(&Ran) -> bool,
    ) -> Result<Vec<Ran>, Aborted> {
        let first = self.asked.get();
        let mut total = batch.len();
        self.asked.set(first + total);
        self.shared.queue().jobs.extend((first..).zip(batch));
        self.shared.filled.notify_all();
        let mut ran: BTreeMap<usize, Ran> = BTreeMap::new();
        let mut latest = Instant::now();
        while ran.len() < total {
            match self.results.recv_timeout(Duration::from_millis(100)) {
                // Of an earlier batch that had enough.
                Ok((place, _)) if place < first => {}
                Ok((place, result)) => {
                    let place = place - first;
                    if enough(&result) && place < total {
                        total = place + 1;
                        ran.split_off(&total);
                        self.shared.queue().jobs.retain(|(other, _)| *other < first + total);
                    }
                    if place < total {
                        ran.insert(place, result);
                    }
                    latest = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("workers end after the pool"),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let aborted = if patience.stop.load(Ordering::Relaxed) {
                Aborted::Interrupt
            } else if patience.deadline.is_some_and(|deadline| now >= deadline) {
                Aborted::Deadline
            } else if now.duration_since(latest) >= patience.hung_after {
                Aborted::Hung
            } else {
                continue;
            };
            if ran.len() < total {
                return Err(aborted);
            }
        }
        Ok(ran.into_values().collect())
    }
}

impl<S: Scenario> Drop for Pool<S> {
    /// Workers end after what they are at; nobody waits for one that hangs.
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.filled.notify_all();
    }
}

fn start<S>(shared: Arc<Shared<S>>, tell: Sender<(usize, Ran)>)
where
    S: Scenario + Send + Sync + 'static,
    S::Config: Send,
    S::Plan: Send,
{
    let work = move || {
        while let Some((place, timeline)) = shared.next() {
            let ran = scouted_run(&*shared.scenario, &timeline, shared.most_steps);
            if tell.send((place, ran)).is_err() {
                return;
            }
            if sim_guard::entropy_touched() {
                // std may have made keys for its hash maps, which the next run would inherit.
                return start(shared, tell);
            }
        }
    };
    let builder = thread::Builder::new().name("explorer".to_owned()).stack_size(8 << 20);
    builder.spawn(work).expect("the system can start a thread");
}

/// Runs `timeline` on this thread.
pub(super) fn scouted_run<S: Scenario>(
    scenario: &S,
    timeline: &Timeline<S::Config, S::Plan>,
    most_steps: u64,
) -> Ran {
    let play = || catch_unwind(AssertUnwindSafe(|| scenario.run(timeline, Watch::default()).0));
    let (result, scouted) = scout::watched(scenario.signature(), most_steps, BTreeSet::new(), play);
    Ran { report: result.map_err(|payload| payload_text(&*payload).to_owned()), scouted }
}
