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
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use crate::agenda::Agenda;
use crate::body::Body;
use crate::campaign;
use crate::context;
use crate::device::Coverage;
use crate::fire::Fire;
use crate::invariant::{Invariant, View};
use crate::node::Owner;
use crate::panics::{capture_panics, payload_text};
use crate::schedule::TaskInfo;
use crate::task::JoinHandle;
use crate::tasks::{TaskNote, Turn, mark_of};
use crate::trace::ForeignWake;
use crate::verdict::{Category, Findings, RunReport};
use crate::waker::{Origin, TaskRef};
use crate::world::{Core, Current, Handle, World};

/// A task that was taken from its queue, and its body.
struct Picked {
    task: TaskRef,
    number: u32,
    info: TaskInfo,
    body: Body,
    /// It is polled over and over while time stands still.
    is_livelocked: bool,
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
            async move { done.set(Some(main.await)) }
        };
        let progress = campaign::progress();
        // Tasks, their drops and invariants catch their own panics; this one is for devices and schedulers.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let main = handle.spawn_task(Owner::HOST, place, "main", 0, main);
            self.drive(&main, progress.as_deref());
        }));
        if let Err(payload) = ran {
            handle.note_panic(payload_text(&*payload));
            core.end();
        }
        done.take()
    }

    /// Goes on until `main` has finished or the run has to end.
    fn drive(&mut self, main: &JoinHandle<()>, progress: Option<&AtomicU64>) {
        let core = self.handle.core.clone();
        core.main.set(main.task());
        core.attention.set(true);
        loop {
            if core.attention.replace(false) && self.attend(main) {
                return;
            }
            self.step(&core);
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
        if !self.handle.core.agenda.borrow().reap.is_empty() {
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

    /// One turn of the loop: moves time and wakes tasks, each of that a step, until something runs that nobody knows.
    #[inline]
    fn step(&mut self, core: &Core) {
        if core.inbox().is_filled() {
            take_foreign_wakes(&self.handle);
        }
        let mut agenda = core.agenda.borrow_mut();
        loop {
            // All that is due at this instant fires before any task runs, so that tasks compete.
            let now_ns = core.now_ns.get();
            let due = if agenda.ready.is_empty() {
                agenda.timers.pop(core.options.limit_ns)
            } else {
                agenda.timers.pop_due(now_ns)
            };
            let Some((deadline_ns, fire)) = due else {
                let Some(task) = agenda.ready.pop() else {
                    let is_dry = agenda.timers.len() == 0;
                    drop(agenda);
                    return self.halt(is_dry);
                };
                self.steps += 1;
                let picked = pick(core, &mut agenda, task, self.instants);
                drop(agenda);
                match picked {
                    Some(picked) => poll_task(&self.handle, picked),
                    None => self.handle.drop_task(task),
                }
                break;
            };
            if deadline_ns != now_ns {
                core.now_ns.set(deadline_ns);
                self.instants = self.instants.wrapping_add(1);
                self.instant_began = self.steps + 1;
            }
            self.steps += 1;
            if let Some(tape) = &core.tape {
                tape.fired(deadline_ns, &fire);
            }
            match fire {
                Fire::Task(task) => agenda.wake(core, task),
                Fire::Release(node) => agenda.release(node, deadline_ns),
                Fire::Device(device, token) => {
                    drop(agenda);
                    self.handle.fire_device(device, token);
                    break;
                }
                Fire::Wake(waker) => {
                    drop(agenda);
                    waker.wake();
                    break;
                }
            }
            if core.scout.is_some() || core.attention.get() {
                return;
            }
        }
        if self.steps - self.instant_began > u64::from(core.options.steps_at_instant) {
            self.end_as_endless();
        }
    }

    #[cold]
    fn end_as_endless(&self) {
        let core = &self.handle.core;
        let evidence = format!("tasks at the time: {}", waiting_list(core));
        self.handle.fail(Category::Livelock, "steps without end while time stands still", "", evidence);
        core.end();
    }

    /// There is nothing to be done: at all, or before the time limit.
    #[cold]
    fn halt(&self, is_dry: bool) {
        let core = &self.handle.core;
        if !is_dry {
            core.now_ns.set(core.options.limit_ns);
            self.end_as_stuck("time limit");
        } else if !core.inbox().is_filled() {
            self.end_as_stuck("nothing can run again");
        }
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

/// Takes a task's body out to be polled; `None` when the task was aborted. A million different tasks at an instant are fine, a million polls of one are not.
#[inline]
fn pick(core: &Core, agenda: &mut Agenda, task: TaskRef, instant: u32) -> Option<Picked> {
    let entry = agenda.tasks.of_mut(task);
    if entry.aborted {
        return None;
    }
    if entry.instant != instant {
        (entry.instant, entry.polls_at_instant) = (instant, 0);
    }
    entry.polls_at_instant += 1;
    entry.turn = Turn::Running;
    Some(Picked {
        task,
        number: entry.number,
        info: entry.info,
        body: entry.body.take().expect("a task that is not running has its body"),
        is_livelocked: entry.polls_at_instant > core.options.polls_at_instant,
    })
}

#[inline]
fn poll_task(handle: &Handle, picked: Picked) {
    let Picked { task, number, info, mut body, is_livelocked } = picked;
    let core = &handle.core;
    debug_assert!(core.agenda.borrow().is_live(info.owner), "a dead incarnation has no tasks in the queue");
    core.current.set(Current::task(task, number, info));
    core.alive.set(info.owner.bits());
    core.draws.note_choice(info.identity);
    if let Some(tape) = &core.tape {
        tape.polled(task.slot());
    }
    if is_livelocked {
        let what = describe(core, task.slot());
        handle.fail(Category::Livelock, "a task is polled endlessly while time stands still", "poll", what);
        core.end();
    }
    core.waiting.set("something outside the simulation");
    // There is nothing to be dropped in a task's waker.
    let waker = ManuallyDrop::new(task.waker());
    let pending =
        sim_guard::watched(&**core, || match body.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => Some(body),
            Poll::Ready(()) => {
                core.end_task(task, body);
                None
            }
        });
    if let Some(body) = pending {
        put_back(core, task, info, body);
    }
    if core.ambient.has_alarm() {
        handle.end_as_forbidden();
    }
    core.current.set(Current::HOST);
    if let Some(tape) = &core.tape {
        tape.idle();
    }
}

/// After a poll: the task goes to sleep, or to its queue when it was woken meanwhile.
#[inline]
fn put_back(core: &Core, task: TaskRef, info: TaskInfo, body: Body) {
    let mut agenda = core.agenda.borrow_mut();
    let entry = agenda.tasks.of_mut(task);
    entry.body = Some(body);
    let is_woken = entry.turn == Turn::RunningAndWoken;
    entry.turn = if is_woken { Turn::Queued } else { Turn::Asleep };
    // Mostly it is the same as before.
    let waiting = core.waiting.get();
    let waiting_at = mark_of(waiting);
    if waiting_at != entry.waiting_at {
        entry.waiting_at = waiting_at;
        agenda.tasks.note_mut(task).waiting = waiting;
    }
    if is_woken {
        agenda.schedule(core, task, info.owner);
    }
}

#[cold]
fn take_foreign_wakes(handle: &Handle) {
    let core = &handle.core;
    for (task, origin) in core.inbox().take() {
        let asleep = match core.agenda.borrow_mut().tasks.get_mut(task) {
            Some(entry) if entry.turn == Turn::Asleep => Some(entry.info.owner),
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
pub(crate) fn describe(core: &Core, slot: u32) -> String {
    match core.agenda.borrow().tasks.at(slot) {
        Some((entry, TaskNote { name, key, place, .. })) => {
            let owner = entry.info.owner;
            let name = if name.is_empty() { "unnamed task" } else { name };
            let key = if *key == 0 { String::new() } else { format!("({key})") };
            format!("{name}{key} of {} (incarnation {}), spawned at {place}", owner.node, owner.incarnation)
        }
        _ => "a task that is gone".to_owned(),
    }
}

/// Who waits for what, for a run in which nothing moves.
fn waiting_list(core: &Core) -> String {
    let mut tasks: Vec<(u64, u32, &str)> = {
        let agenda = core.agenda.borrow();
        agenda.tasks.iter().map(|(entry, note)| (note.born, entry.task.slot(), note.waiting)).collect()
    };
    tasks.sort_unstable();
    const SHOWN: usize = 40;
    let shown = tasks.iter().take(SHOWN);
    let mut lines: Vec<String> =
        shown.map(|(_, slot, waiting)| format!("{} waits for {waiting}", describe(core, *slot))).collect();
    if tasks.len() > SHOWN {
        lines.push(format!("and {} more tasks", tasks.len() - SHOWN));
    }
    lines.join("; ")
}
