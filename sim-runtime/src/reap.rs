//! The end of tasks that do not end by themselves: aborted ones, those of a dead incarnation, those of a world.
//!
//! Invariants: a task is dropped as code of its node, and in no queue; those of an incarnation are dropped in the order of
//! their spawning.
//! Not here: when a node goes down (`lifecycle.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::body::{Body, kept};
use crate::context;
use crate::node::{NodeId, Owner};
use crate::tasks::Turn;
use crate::waker::TaskRef;
use crate::world::{Core, Handle, World};

impl Core {
    /// A task's future is gone: its place or what came of it goes to whom it belongs.
    pub(crate) fn end_task(&self, task: TaskRef, body: Body) {
        let mut body = kept(body);
        let mut agenda = self.agenda.borrow_mut();
        if agenda.tasks.of(task).detached {
            drop(agenda);
            body.as_mut().forget();
            agenda = self.agenda.borrow_mut();
        }
        let joiner = agenda.tasks.end(task, body);
        drop(agenda);
        if let Some(joiner) = joiner {
            joiner.wake();
        }
        if self.main.get() == Some(task) {
            self.attention.set(true);
        }
    }
}

impl Handle {
    /// Marks a task to be dropped at its next turn, and gives it that turn.
    pub(crate) fn abort_task(&self, task: TaskRef) {
        let mut agenda = self.core.agenda.borrow_mut();
        if let Some(entry) = agenda.tasks.get_mut(task) {
            entry.aborted = true;
            agenda.wake(&self.core, task);
        }
    }

    /// Drops the future of a task that is in no queue, as code of the task's node, and takes it off the list.
    pub(crate) fn drop_task(&self, task: TaskRef) {
        let core = &self.core;
        let (body, owner) = {
            let mut agenda = core.agenda.borrow_mut();
            let entry = agenda.tasks.of_mut(task);
            entry.turn = Turn::Running;
            (entry.body.take(), entry.info.owner)
        };
        let mut body = body.expect("a task that is not running has its body");
        self.acting_for(owner, || {
            sim_guard::watched(&**core, || {
                body.as_mut().cancel();
                core.end_task(task, body);
            });
        });
    }

    /// Drops the futures of a dead incarnation, in the order of their spawning.
    pub(crate) fn drop_tasks_of(&self, owner: Owner) {
        let core = &self.core;
        {
            let mut agenda = core.agenda.borrow_mut();
            let its = agenda.tasks.iter().filter(|(entry, _)| entry.info.owner == owner);
            let mut tasks: Vec<(u64, TaskRef)> = its.map(|(entry, note)| (note.born, entry.task)).collect();
            tasks.sort_unstable_by_key(|(born, _)| *born);
            // A task that is woken while its incarnation is dead goes to `reap`; one that had been woken before
            // is in a queue already.
            let held = std::mem::take(&mut agenda.nodes[owner.node.index()].held);
            let ready = agenda.take_ready_of(owner);
            agenda.reap.extend(held.into_iter().chain(ready));
            core.attention.set(true);
            tasks.into_iter().for_each(|(_, task)| agenda.wake(core, task));
        }
        self.drop_reaped();
    }

    /// Drops what belongs to dead incarnations. Their drops may wake others of them, hence the loop.
    pub(crate) fn drop_reaped(&self) {
        loop {
            let reaped = std::mem::take(&mut self.core.agenda.borrow_mut().reap);
            if reaped.is_empty() {
                return;
            }
            reaped.into_iter().for_each(|task| self.drop_task(task));
        }
    }
}

impl Drop for World {
    /// Drops every task, so that the handles which they hold go too.
    fn drop(&mut self) {
        let core = self.handle.core.clone();
        let _entered = context::enter(&core);
        core.alive.set(Owner::NOBODY);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let (nodes, boots): (Vec<Owner>, Vec<_>) = {
                let mut agenda = core.agenda.borrow_mut();
                let owners = agenda.nodes.iter_mut().enumerate().map(|(at, node)| {
                    node.up = false;
                    (Owner { node: NodeId(at as u16), incarnation: node.incarnation }, node.boot.take())
                });
                owners.unzip()
            };
            drop(boots);
            for owner in nodes {
                self.handle.drop_tasks_of(owner);
            }
            self.handle.drop_reaped();
            drop(core.inbox().take());
            self.handle.devices().for_each(|device| device.clear());
            let leftovers = core.agenda.borrow_mut().timers.take_wakers();
            drop(leftovers);
            let waiters = core.windows.borrow_mut().clear();
            drop(waiters);
        }));
    }
}
