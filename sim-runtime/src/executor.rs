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
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::future::LocalBoxFuture;

use crate::campaign;
use crate::context;
use crate::device::Coverage;
use crate::invariant::{Invariant, View};
use crate::node::{NodeId, Owner};
use crate::schedule::TaskInfo;
use crate::task::{JoinHandle, TaskEntry, Turn, payload_text};
use crate::timer::Fire;
use crate::trace::{ForeignWake, TaskPanicked};
use crate::verdict::{Category, Findings, RunReport};
use crate::waker::{Origin, TaskRef};
use crate::world::{Core, Current, Handle, World};

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
        let ran = catch_unwind(AssertUnwindSafe(|| self.drive(&main, progress.as_deref())));
        if let Err(payload) = ran {
            handle.note_panic(payload_text(&*payload));
            core.end();
        }
        done.take()
    }

    /// Goes on until `main` has finished or the run has to end.
    fn drive(&mut self, main: &JoinHandle<()>, progress: Option<&AtomicU64>) {
        let core = self.handle.core.clone();
        core.attention.set(true);
        loop {
            if core.attention.replace(false) && self.attend(main) {
                return;
            }
            match self.step(&core) {
                Step::Ran => {}
                Step::Dry if core.inbox().is_filled() => {}
                Step::Dry => self.end_as_stuck("nothing can run again"),
                Step::Limit => {
                    core.now_ns.set(core.options.limit_ns);
                    self.end_as_stuck("time limit");
                }
            }
            if let Some(scout) = &core.scout {
                // What happened is looked at first, as by the invariants.
                if core.attention.replace(false) {
                    core.attention.set(self.attend(main));
                }
                scout.look(&self.handle);
                if scout.is_over(self.steps) {
                    core.end();
                }
            }
            if let Some(progress) = progress {
                progress.store(self.steps, Ordering::Relaxed);
            }
        }
    }

    /// Does what is not done at every step; whether the run is over.
    fn attend(&mut self, main: &JoinHandle<()>) -> bool {
        if !self.handle.core.reap.borrow().is_empty() {
            self.handle.drop_reaped();
        }
        if self.handle.core.trace.borrow().wants_look() {
            self.observe();
        }
        main.is_finished() || self.handle.core.ended.get()
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
        core.end();
    }

    /// One turn of the loop.
    #[inline]
    fn step(&mut self, core: &Core) -> Step {
        if core.inbox().is_filled() {
            take_foreign_wakes(&self.handle);
        }
        // All that is due at this instant fires before any task runs, so that tasks compete.
        let is_ready = !core.ready.borrow().is_empty();
        let now_ns = core.now_ns.get();
        let next = {
            let mut timers = core.timers.borrow_mut();
            if is_ready { timers.pop_due(now_ns) } else { timers.pop(core.options.limit_ns) }
        };
        if let Some((deadline_ns, fire)) = next {
            if deadline_ns != now_ns {
                core.now_ns.set(deadline_ns);
                self.instant_began = self.steps + 1;
            }
            if let Some(tape) = &core.tape {
                tape.fired(deadline_ns, &fire);
            }
            self.handle.fire(fire);
        } else if is_ready {
            let task = core.ready.borrow_mut().pop().expect("there is one");
            poll_task(&self.handle, task);
        } else if core.timers.borrow().len() > 0 {
            return Step::Limit;
        } else {
            return Step::Dry;
        }
        self.steps += 1;
        if self.steps - self.instant_began > u64::from(core.options.steps_at_instant) {
            let evidence = format!("tasks at the time: {}", waiting_list(core));
            self.handle.fail(Category::Livelock, "steps without end while time stands still", "", evidence);
            core.end();
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
            self.handle.core.end();
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
        core.holds.coverage(&mut coverage);
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
fn poll_task(handle: &Handle, task: TaskRef) {
    let core = &handle.core;
    let slot = task.slot();
    let (body, info, doom) = {
        let mut tasks = core.tasks.borrow_mut();
        let entry = &mut tasks[slot as usize];
        let doom = note_poll(core, entry);
        if doom == Doom::Aborted {
            drop(tasks);
            handle.drop_task(task);
            return;
        }
        entry.turn.set(Turn::Running);
        (entry.body.take(), entry.info, doom)
    };
    let mut body = body.expect("a task that is not running has its body");
    core.current.set(Current { owner: info.owner, task: slot + 1, identity: info.identity });
    core.draws.note_choice(info.identity);
    if let Some(tape) = &core.tape {
        tape.polled(slot);
    }
    if doom == Doom::Livelock {
        let what = describe(core, slot);
        handle.fail(Category::Livelock, "a task is polled endlessly while time stands still", "poll", what);
        core.end();
    }
    core.waiting.set("something outside the simulation");
    let body =
        sim_guard::watched(&**core, || match body.as_mut().poll(&mut Context::from_waker(&task.waker())) {
            Poll::Pending => Some(body),
            Poll::Ready(()) => {
                drop(body);
                None
            }
        });
    put_back(core, task, info, body);
    if core.ambient.has_alarm() {
        handle.end_as_forbidden();
    }
    core.current.set(Current::HOST);
    if let Some(tape) = &core.tape {
        tape.idle();
    }
}

/// After a poll: the task goes to sleep, or to its queue when it was woken meanwhile, or off the list when it is done.
#[inline]
fn put_back(core: &Core, task: TaskRef, info: TaskInfo, body: Option<LocalBoxFuture<'static, ()>>) {
    let is_woken = {
        let mut tasks = core.tasks.borrow_mut();
        if body.is_none() {
            tasks.remove(task.slot() as usize);
            // Perhaps it was the main one.
            core.attention.set(true);
            return;
        }
        let entry = &mut tasks[task.slot() as usize];
        entry.body = body;
        // Mostly it is the same as before; and what was written by words is not to be read at once as a whole.
        let waiting = core.waiting.get();
        if !std::ptr::eq(waiting, entry.waiting.get()) {
            entry.waiting.set(waiting);
        }
        let is_woken = entry.turn.get() == Turn::RunningAndWoken;
        entry.turn.set(if is_woken { Turn::Queued } else { Turn::Asleep });
        is_woken
    };
    if is_woken {
        core.schedule(task, info);
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
fn note_poll(core: &Core, entry: &mut TaskEntry) -> Doom {
    if entry.aborted.get() {
        return Doom::Aborted;
    }
    let now_ns = core.now_ns.get();
    if entry.polled_at_ns != now_ns {
        (entry.polled_at_ns, entry.polls_at_instant) = (now_ns, 0);
    }
    entry.polls_at_instant += 1;
    if entry.polls_at_instant > core.options.polls_at_instant { Doom::Livelock } else { Doom::None }
}

fn take_foreign_wakes(handle: &Handle) {
    let core = &handle.core;
    for (task, origin) in core.inbox().take() {
        let asleep = match core.living(&core.tasks.borrow(), task) {
            Some(entry) if entry.turn.get() == Turn::Asleep => Some(entry.info.owner),
            _ => None,
        };
        if let (Some(owner), Origin::ForeignThread) = (asleep, origin) {
            handle.emit_for(owner, ForeignWake);
            let what =
                format!("{} was woken by a thread outside the simulation", describe(core, task.slot()));
            handle.fail(Category::Nondeterministic, "foreign wake", "foreign wake", what);
        }
        core.wake(task);
    }
}

/// A task as the reader of a report knows it.
pub(crate) fn describe(core: &Core, id: u32) -> String {
    match core.tasks.borrow().get(id as usize) {
        Some(TaskEntry { info: TaskInfo { owner, .. }, name, key, place, .. }) => {
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
        let mut ids: Vec<_> = tasks.iter().map(|(id, entry)| (entry.born, id as u32)).collect();
        ids.sort_unstable();
        ids
    };
    const SHOWN: usize = 40;
    let mut lines: Vec<String> = ids
        .iter()
        .take(SHOWN)
        .map(|(_, id)| {
            let waiting = match core.tasks.borrow().get(*id as usize) {
                Some(entry) => entry.waiting.get(),
                None => "",
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
        if core.options.panic_ends_run {
            core.end();
        }
        text
    }

    #[inline]
    pub(crate) fn fire(&self, fire: Fire) {
        match fire {
            Fire::Task(task) => self.core.wake(task),
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

    fn queue_all(&self, tasks: Vec<TaskRef>) {
        let now_ns = self.now_ns();
        for task in tasks {
            let info = self.core.tasks.borrow()[task.slot() as usize].info;
            self.core.queue(task, info, now_ns);
        }
    }

    /// Marks a task to be dropped at its next turn, and gives it that turn.
    pub(crate) fn abort_task(&self, slot: u32) {
        let task = {
            let tasks = self.core.tasks.borrow();
            let Some(entry) = tasks.get(slot as usize) else { return };
            entry.aborted.set(true);
            TaskRef::new(self.core.number(), slot, entry.born)
        };
        self.core.wake(task);
    }

    /// Drops the future of a task that is in no queue, as code of the task's node, and takes it off the list.
    fn drop_task(&self, task: TaskRef) {
        let core = &self.core;
        let (body, owner) = {
            let mut tasks = core.tasks.borrow_mut();
            let entry = &mut tasks[task.slot() as usize];
            entry.turn.set(Turn::Running);
            (entry.body.take(), entry.info.owner)
        };
        self.acting_for(owner, || sim_guard::watched(&**core, || drop(body)));
        core.tasks.borrow_mut().remove(task.slot() as usize);
        core.attention.set(true);
    }

    /// Drops the futures of a dead incarnation, in the order of their spawning.
    pub(crate) fn drop_tasks_of(&self, owner: Owner) {
        let core = &self.core;
        let mut tasks: Vec<(u64, TaskRef)> = core
            .tasks
            .borrow()
            .iter()
            .filter(|(_, entry)| entry.info.owner == owner)
            .map(|(slot, entry)| (entry.born, TaskRef::new(core.number(), slot as u32, entry.born)))
            .collect();
        tasks.sort_unstable_by_key(|(born, _)| *born);
        // A task that is woken while its incarnation is dead goes to `reap`; one that had been woken before
        // is in a queue already.
        let held = std::mem::take(&mut core.nodes.borrow_mut()[owner.node.index()].held);
        let ready = core.take_ready_of(owner);
        core.reap.borrow_mut().extend(held.into_iter().chain(ready));
        core.attention.set(true);
        for (_, task) in tasks {
            core.wake(task);
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
            reaped.into_iter().for_each(|task| self.drop_task(task));
        }
    }
}
