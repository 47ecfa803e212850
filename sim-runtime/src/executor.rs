//! The loop: poll a ready task, else move time to the next timer and fire it; after each step, observe.
//!
//!   ┌─► a timer is due now? ──yes──► fire it ──────────┐
//!   │        │ no                                      │
//!   │   a task is ready? ──yes──► poll it ─────────────┼──► new records? ──► invariants ──┐
//!   │        │ no                                      │                                  │
//!   │        └──► earliest timer ──► clock ──► fire it ┘                                  │
//!   └─────────────────────────────────────────────────────────────────────────────────────┘
//!
//! It ends when the main task has finished, when a panic ends the run, at the time limit, or when nothing can
//! ever run again.
//!
//! Invariants: time moves only while no task is ready; a dead incarnation's tasks are dropped before anything
//! else happens.
//! Not here: what a timer or a record means.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};

use async_task::Runnable;

use crate::campaign;
use crate::context;
use crate::device::Coverage;
use crate::invariant::{Invariant, View};
use crate::node::{NodeId, Owner};
use crate::task::{Meta, TaskEntry, payload_text};
use crate::timer::Fire;
use crate::trace::{ForeignWake, TaskPanicked};
use crate::verdict::{Category, Findings, RunReport};
use crate::world::{Core, Current, Handle, World};

/// Where wakes from foreign threads wait.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The world's own thread: a wake from there is none of a foreign thread, only out of turn.
    owner: ThreadId,
    filled: AtomicBool,
    runnables: Mutex<Vec<(Runnable<Meta>, Origin)>>,
}

/// From where a task was woken.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// From the world's thread, while another world or none was running on it.
    OwnThread,
    ForeignThread,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { owner: thread::current().id(), filled: AtomicBool::default(), runnables: Mutex::default() }
    }
}

impl Inbox {
    pub(crate) fn push(&self, runnable: Runnable<Meta>) {
        let is_own = thread::current().id() == self.owner;
        let origin = if is_own { Origin::OwnThread } else { Origin::ForeignThread };
        self.runnables.lock().unwrap_or_else(PoisonError::into_inner).push((runnable, origin));
        self.filled.store(true, Ordering::Release);
    }

    fn take(&self) -> Vec<(Runnable<Meta>, Origin)> {
        self.filled.store(false, Ordering::Release);
        std::mem::take(&mut *self.runnables.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What one turn of the loop did.
enum Step {
    Ran,
    /// Nothing is ready and no timer is pending.
    Dry,
    /// The next timer lies beyond the limit.
    Limit,
}

impl World {
    /// Runs `main` on the host until it finishes; `None` when the run had to end before.
    ///
    /// Everything found, by invariants too, is in [`World::report`]. May be called again: the world goes on. The
    /// caller's line is shown as the place where `main` is spawned.
    #[track_caller]
    pub fn run<F>(&mut self, main: F) -> Option<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.run_from(Location::caller(), main)
    }

    /// The same for a harness that was given `main` at another line than its own.
    pub(crate) fn run_from<F>(&mut self, place: &'static Location<'static>, main: F) -> Option<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        capture_panics();
        let handle = self.handle.clone();
        let core = handle.core.clone();
        let _entered = context::enter(&core);
        sim_guard::link();
        let _subscribed = crate::event::subscribe();
        let done = Rc::new(Cell::new(None));
        let main = {
            let done = done.clone();
            handle.spawn_task(Owner::HOST, place, "main", 0, async move { done.set(Some(main.await)) })
        };
        let progress = campaign::progress();
        // Tasks, their drops and invariants catch their own panics; this one is for devices.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            while !main.is_finished() && !core.ended.get() {
                match self.step() {
                    Step::Ran => {}
                    Step::Dry if core.inbox().filled.load(Ordering::Acquire) => {}
                    Step::Dry => self.end_as_stuck("nothing can run again"),
                    Step::Limit => {
                        core.now_ns.set(core.options.limit_ns);
                        self.end_as_stuck("time limit");
                    }
                }
                if let Some(progress) = &progress {
                    progress.store(self.steps, Ordering::Relaxed);
                }
            }
        }));
        if let Err(payload) = ran {
            handle.note_panic(payload_text(&*payload));
            core.ended.set(true);
        }
        done.take()
    }

    fn end_as_stuck(&self, property: &str) {
        let core = &self.handle.core;
        let mut evidence = waiting_list(core);
        for device in self.handle.devices() {
            let mut held = String::new();
            device.describe(&mut held);
            if !held.is_empty() {
                evidence = format!("{evidence}\n{held}");
            }
        }
        self.handle.fail(Category::Stuck, property, "", evidence);
        core.ended.set(true);
    }

    /// One turn of the loop.
    #[inline]
    fn step(&mut self) -> Step {
        let core = &self.handle.core;
        if core.inbox().filled.load(Ordering::Relaxed) {
            take_foreign_wakes(&self.handle);
        }
        let is_ready = !core.ready.borrow().is_empty();
        // All that is due at this instant fires before any task runs, so that tasks compete.
        let until_ns = if is_ready { core.now_ns.get() } else { core.options.limit_ns };
        let next = {
            let mut timers = core.timers.borrow_mut();
            if is_ready { timers.pop_due(until_ns) } else { timers.pop(until_ns) }
        };
        if let Some((deadline_ns, fire)) = next {
            core.now_ns.set(deadline_ns);
            if let Some(tape) = &core.tape {
                tape.fired(deadline_ns, &fire);
            }
            self.handle.fire(fire);
        } else if is_ready {
            let runnable = core.ready.borrow_mut().pop().expect("there is one");
            poll_task(&self.handle, runnable);
        } else if core.timers.borrow().len() > 0 {
            return Step::Limit;
        } else {
            return Step::Dry;
        }
        self.steps += 1;
        let now_ns = core.now_ns.get();
        if self.instant.1 != now_ns {
            self.instant = (self.steps, now_ns);
        } else if self.steps - self.instant.0 > u64::from(core.options.steps_at_instant) {
            let evidence = format!("tasks at the time: {}", waiting_list(core));
            self.handle.fail(Category::Livelock, "steps without end while time stands still", "", evidence);
            core.ended.set(true);
        }
        if !core.reap.borrow().is_empty() {
            self.handle.drop_reaped();
        }
        if core.trace.borrow().wants_look() {
            self.observe();
        }
        if let Some(scout) = &self.handle.core.scout {
            scout.look(&self.handle);
            if scout.is_over(self.steps) {
                self.handle.core.ended.set(true);
            }
        }
        Step::Ran
    }

    fn observe(&mut self) {
        let upto = self.handle.core.trace.borrow().len();
        self.ask_invariants(|invariant, view, findings| invariant.observe(view, findings));
        let core = &self.handle.core;
        core.trace.borrow_mut().mark_seen(upto);
        core.events.borrow_mut().forget_distant(core.options.keep_trace);
    }

    /// Asks each invariant. One that panics is a finding, and none is asked any more.
    #[inline]
    fn ask_invariants(&mut self, mut ask: impl FnMut(&mut dyn Invariant, &View<'_>, &mut Findings)) {
        let core = &self.handle.core;
        let mut asked = "";
        let panicked = {
            let trace = core.trace.borrow();
            let events = core.events.borrow();
            let mut findings = core.findings.borrow_mut();
            let view = View::new(&self.handle, &trace, &events);
            findings.at(core.now_ns.get(), trace.len());
            core.observing.set(true);
            let asking = catch_unwind(AssertUnwindSafe(|| {
                for invariant in &mut self.invariants {
                    asked = invariant.name();
                    ask(&mut **invariant, &view, &mut findings);
                }
            }));
            core.observing.set(false);
            asking.err()
        };
        self.handle.complain_of_postponed();
        if let Some(payload) = panicked {
            self.handle.note_panic(&format!("in invariant {asked:?}: {}", payload_text(&*payload)));
            self.handle.core.ended.set(true);
            self.invariants.clear();
        }
    }

    /// Lets the invariants have their last word, and sums up. Devices add their counters here.
    pub fn report(&mut self) -> RunReport {
        let core = self.handle.core.clone();
        let _entered = context::enter(&core);
        if core.trace.borrow().has_fresh() {
            self.observe();
        }
        if core.ambient.has_alarm() {
            self.handle.end_as_forbidden();
        }
        self.ask_invariants(|invariant, view, findings| invariant.finish(view, findings));
        let mut coverage = Coverage::default();
        core.counters.borrow().iter().for_each(|(name, count)| coverage.add(name, *count));
        self.handle.devices().for_each(|device| device.coverage(&mut coverage));
        core.windows.borrow().coverage(&mut coverage);
        let trace = core.trace.borrow();
        RunReport {
            seed: core.seed,
            behaviour: trace.digest(),
            draws: core.draws.digest(),
            records: trace.len(),
            steps: self.steps,
            virtual_ns: core.now_ns.get(),
            coverage,
            assertions: core.sites.borrow().report(),
            findings: core.findings.borrow().clone(),
            doors: core.ambient.uses(),
        }
    }
}

impl Drop for World {
    /// Drops every task, so that the handles which they hold go too.
    fn drop(&mut self) {
        let core = self.handle.core.clone();
        let _entered = context::enter(&core);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let nodes: Vec<Owner> = {
                let mut nodes = core.nodes.borrow_mut();
                let owners = nodes.iter_mut().enumerate().map(|(at, node)| {
                    node.up = false;
                    node.boot = None;
                    Owner { node: NodeId(at as u16), incarnation: node.incarnation }
                });
                owners.collect()
            };
            for owner in nodes {
                self.handle.drop_tasks_of(owner);
            }
            self.handle.drop_reaped();
            drop(core.inbox().take());
            self.handle.devices().for_each(|device| device.clear());
            let leftovers = core.timers.borrow_mut().clear();
            drop(leftovers);
            let waiters = core.windows.borrow_mut().clear();
            drop(waiters);
        }));
    }
}

#[inline]
fn poll_task(handle: &Handle, runnable: Runnable<Meta>) {
    let core = &handle.core;
    let meta = runnable.metadata();
    let id = meta.id;
    let doom = note_poll(core, id);
    if doom == Doom::Aborted {
        let owner = meta.owner;
        handle.acting_for(owner, || sim_guard::watched(&**core, || drop(runnable)));
        return;
    }
    core.current.set(Current { owner: meta.owner, task: id + 1, identity: meta.identity });
    core.draws.note_choice(meta.identity);
    if let Some(tape) = &core.tape {
        tape.polled(id);
    }
    if doom == Doom::Livelock {
        let what = describe(core, id);
        handle.fail(Category::Livelock, "a task is polled endlessly while time stands still", "poll", what);
        core.ended.set(true);
    }
    core.waiting.set("something outside the simulation");
    sim_guard::watched(&**core, || runnable.run());
    if core.ambient.has_alarm() {
        handle.end_as_forbidden();
    }
    if let Some(Some(entry)) = core.tasks.borrow().get(id as usize) {
        entry.waiting.set(core.waiting.get());
    }
    core.current.set(Current::HOST);
    if let Some(tape) = &core.tape {
        tape.idle();
    }
}

/// What a task that is about to be polled is in for.
#[derive(PartialEq, Eq)]
enum Doom {
    None,
    Aborted,
    Livelock,
}

/// Counts polls of one task at one instant. A million different tasks at an instant are fine.
#[inline]
fn note_poll(core: &Core, id: u32) -> Doom {
    let tasks = core.tasks.borrow();
    let Some(Some(entry)) = tasks.get(id as usize) else { return Doom::None };
    if entry.aborted.get() {
        return Doom::Aborted;
    }
    let now_ns = core.now_ns.get();
    if entry.polled_at_ns.replace(now_ns) != now_ns {
        entry.polls_at_instant.set(0);
    }
    let polls = entry.polls_at_instant.get() + 1;
    entry.polls_at_instant.set(polls);
    if polls > core.options.polls_at_instant { Doom::Livelock } else { Doom::None }
}

fn take_foreign_wakes(handle: &Handle) {
    for (runnable, origin) in handle.core.inbox().take() {
        if origin == Origin::ForeignThread {
            let (owner, id) = (runnable.metadata().owner, runnable.metadata().id);
            handle.emit_for(owner, ForeignWake);
            let what = format!("{} was woken by a thread outside the simulation", describe(&handle.core, id));
            handle.fail(Category::Nondeterministic, "foreign wake", "foreign wake", what);
        }
        handle.core.schedule(runnable);
    }
}

/// A task as the reader of a report knows it.
pub(crate) fn describe(core: &Core, id: u32) -> String {
    match core.tasks.borrow().get(id as usize) {
        Some(Some(TaskEntry { owner, name, key, place, .. })) => {
            let name = if name.is_empty() { "unnamed task" } else { name };
            let key = if *key == 0 { String::new() } else { format!("({key})") };
            format!("{name}{key} of {} (incarnation {}), spawned at {place}", owner.node, owner.incarnation)
        }
        _ => "a task that is gone".to_owned(),
    }
}

/// Who waits for what, for a run in which nothing moves.
fn waiting_list(core: &Core) -> String {
    let ids: Vec<(u64, u32)> = {
        let tasks = core.tasks.borrow();
        let mut ids: Vec<_> =
            tasks.iter().filter_map(|(id, entry)| Some((entry.as_ref()?.born, id as u32))).collect();
        ids.sort_unstable();
        ids
    };
    const SHOWN: usize = 40;
    let mut lines: Vec<String> = ids
        .iter()
        .take(SHOWN)
        .map(|(_, id)| {
            let waiting = match core.tasks.borrow().get(*id as usize) {
                Some(Some(entry)) => entry.waiting.get(),
                _ => "",
            };
            format!("{} waits for {waiting}", describe(core, *id))
        })
        .collect();
    if ids.len() > SHOWN {
        lines.push(format!("and {} more tasks", ids.len() - SHOWN));
    }
    lines.join("; ")
}

thread_local! {
    static CAPTURED: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
}

/// Panics of simulated code are findings, not noise on the terminal: the hook notes the place and is silent
/// while a world runs on the thread; elsewhere the previous hook speaks.
fn capture_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if context::try_current().is_none() {
                return before(info);
            }
            let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
            let _ = CAPTURED.try_with(|slot| slot.replace(Some(place)));
        }));
    });
}

impl Handle {
    /// A panic was caught: the run's verdict. Returns the text with its place.
    pub(crate) fn note_panic(&self, message: &str) -> String {
        let core = &self.core;
        let place = CAPTURED.with(|slot| slot.take()).unwrap_or_else(|| "an unknown place".to_owned());
        let current = core.current.get();
        let who = match current.task.checked_sub(1) {
            Some(id) => describe(core, id),
            None => format!("code outside any task, on behalf of {}", current.owner.node),
        };
        let text = format!("{who}: panicked at {place}: {message}");
        self.emit(TaskPanicked { digest: crate::rng::hash_bytes(0, text.as_bytes()) });
        self.fail(Category::Crash, "panic", &place, text.clone());
        core.ended.set(core.ended.get() || core.options.panic_ends_run);
        text
    }

    #[inline]
    pub(crate) fn fire(&self, fire: Fire) {
        match fire {
            Fire::Wake(waker) => waker.wake(),
            Fire::Device(device, token) => self.fire_device(device, token),
            Fire::Release(node) => self.release(node),
        }
    }

    /// Lets the held wakes of a node go.
    pub(crate) fn release(&self, id: NodeId) {
        let held = {
            let mut nodes = self.core.nodes.borrow_mut();
            let node = &mut nodes[id.index()];
            node.release_armed = false;
            if node.paused { Vec::new() } else { std::mem::take(&mut node.held) }
        };
        self.queue_all(held);
    }

    fn queue_all(&self, runnables: Vec<Runnable<Meta>>) {
        let now_ns = self.now_ns();
        for runnable in runnables {
            self.core.queue(runnable, now_ns);
        }
    }

    pub(crate) fn schedule(&self, runnable: Runnable<Meta>) {
        self.core.schedule(runnable);
    }

    pub(crate) fn reserve_task(&self) -> u32 {
        u32::try_from(self.core.tasks.borrow_mut().insert(None)).expect("fewer than 2^32 tasks live at once")
    }

    pub(crate) fn register_task(&self, id: u32, mut entry: TaskEntry) {
        entry.born = self.core.born.replace(self.core.born.get() + 1);
        if let Some(tape) = &self.core.tape {
            tape.spawned(id, &entry);
        }
        self.core.tasks.borrow_mut()[id as usize] = Some(entry);
    }

    pub(crate) fn forget_task(&self, id: u32) {
        let entry = self.core.tasks.borrow_mut().try_remove(id as usize);
        drop(entry);
    }

    /// Marks a task to be dropped at its next turn, and gives it that turn.
    pub(crate) fn abort_task(&self, id: u32) {
        let waker = match self.core.tasks.borrow().get(id as usize) {
            Some(Some(entry)) => {
                entry.aborted.set(true);
                Some(entry.waker.clone())
            }
            _ => None,
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Drops the futures of a dead incarnation, in the order of their spawning.
    pub(crate) fn drop_tasks_of(&self, owner: Owner) {
        let core = &self.core;
        let mut wakers: Vec<_> = core
            .tasks
            .borrow()
            .iter()
            .filter_map(|(_, entry)| entry.as_ref())
            .filter(|entry| entry.owner == owner)
            .map(|entry| (entry.born, entry.waker.clone()))
            .collect();
        wakers.sort_unstable_by_key(|(born, _)| *born);
        // A task that is woken while its incarnation is dead goes to `reap`; one that had been woken before
        // is in a queue already.
        let held = std::mem::take(&mut core.nodes.borrow_mut()[owner.node.index()].held);
        let ready = core.ready.borrow_mut().extract(|meta| meta.owner == owner);
        core.reap.borrow_mut().extend(held.into_iter().chain(ready));
        for (_, waker) in wakers {
            waker.wake();
        }
        self.drop_reaped();
    }

    /// Drops what belongs to dead incarnations. Their drops may wake others of them, hence the loop.
    pub(crate) fn drop_reaped(&self) {
        loop {
            let reaped = std::mem::take(&mut *self.core.reap.borrow_mut());
            if reaped.is_empty() {
                return;
            }
            for runnable in reaped {
                let owner = runnable.metadata().owner;
                self.acting_for(owner, || sim_guard::watched(&*self.core, || drop(runnable)));
            }
        }
    }
}
