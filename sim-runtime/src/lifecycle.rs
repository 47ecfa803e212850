//! The life of a node: boot, kill, power off, exit, pause, shutdown, and the role that it plays.
//!
//!   boot ──► main task ──returns──► exit
//!               │ kill, power off: mark dead ──► drop its tasks ──► close its windows ──► tell the devices
//!               ├ pause, resume: its wakes are held meanwhile
//!               └ freeze, resume: that, and its devices take and finish nothing
//!
//! Invariants: all nodes that a fault takes down are dead before the first of their tasks is dropped; devices hear
//! of it when the tasks are gone.
//! Not here: what a node is made of (`node.rs`), dropping tasks (`reap.rs`).

use std::task::{Context, Poll};

use crate::node::{NodeId, Owner};
use crate::rng::{Stream, hash_name, mix};
use crate::trace::{Down, NodeDown, NodePaused, NodeUp};
use crate::world::Handle;

impl Handle {
    /// Boots a node that is down.
    ///
    /// # Panics
    /// If it is up.
    pub fn boot(&self, id: NodeId) {
        let (owner, boot, place, _unheard) = {
            let mut agenda = self.core.agenda.borrow_mut();
            let node = &mut agenda.nodes[id.index()];
            assert!(!node.up, "{id} is up already");
            node.incarnation += 1;
            node.up = true;
            (node.paused, node.frozen) = (false, false);
            node.clock.boot(self.now_ns());
            let unheard = std::mem::take(&mut node.shutdown);
            node.role = "";
            let owner = Owner { node: id, incarnation: node.incarnation };
            let key = mix(u64::from(id.0), u64::from(node.incarnation));
            let seed = mix(mix(self.core.seed, hash_name("program")), key);
            node.stream = Stream::new(seed, self.core.draws.clone());
            if let Some(tape) = &self.core.tape {
                tape.name_stream(seed, format!("the program's on {id}, incarnation {}", node.incarnation));
            }
            let boot = node.boot.clone().expect("every node but the host has a boot function");
            (owner, boot, node.place, unheard)
        };
        self.emit_for(owner, NodeUp);
        for device in self.devices() {
            device.node_up(self, id);
        }
        // The boot function itself runs as code of the node.
        let main = self.acting_for(owner, || sim_guard::watched(&*self.core, || boot()));
        let handle = self.clone();
        let main = async move {
            main.await;
            handle.exit(owner);
        };
        drop(self.acting_for(owner, || self.spawn_task(owner, place, "main", 0, main)));
    }

    /// Boots a node again; the same as [`Handle::boot`], under the name of the fault.
    pub fn restart(&self, id: NodeId) {
        self.boot(id);
    }

    /// Kills the process of a node at this instant: its tasks are dropped where they stand, what it had
    /// written stays in the page cache. Nothing happens when it is down. `fault` is the id of the fault that
    /// does it, for the record.
    ///
    /// # Panics
    /// If it is the host, or there is no such node.
    pub fn kill(&self, id: NodeId, fault: u64) {
        self.take_down(&[id], Down::Kill, fault);
    }

    /// Cuts the power of all `ids` at one instant: like [`Handle::kill`], and unsynced data is at risk, also that of
    /// machines whose process was down already.
    ///
    /// # Panics
    /// If the host is among them, or a node that does not exist; then none has lost its power.
    pub fn power_off(&self, ids: &[NodeId], fault: u64) {
        self.take_down(ids, Down::PowerOff, fault);
    }

    fn exit(&self, owner: Owner) {
        if self.is_live(owner) {
            self.take_down(&[owner.node], Down::Exit, 0);
        }
    }

    fn take_down(&self, ids: &[NodeId], how: Down, fault: u64) {
        for id in ids {
            assert_ne!(*id, NodeId::HOST, "the host never goes down");
            assert!(id.0 < self.node_count(), "there is no {id}");
        }
        self.core.alive.set(Owner::NOBODY);
        let mut owners = Vec::with_capacity(ids.len());
        let mut struck = Vec::with_capacity(ids.len());
        for id in ids {
            let mut agenda = self.core.agenda.borrow_mut();
            let node = &mut agenda.nodes[id.index()];
            let owner = Owner { node: *id, incarnation: node.incarnation };
            // A machine whose process is down already loses its page cache all the same when its power fails.
            if node.up || how == Down::PowerOff {
                struck.push(owner);
            }
            if node.up {
                node.up = false;
                (node.paused, node.frozen) = (false, false);
                node.role = "";
                owners.push(owner);
            }
        }
        for owner in &struck {
            self.emit_for(*owner, NodeDown { how, fault });
        }
        if how != Down::Exit {
            owners.iter().for_each(|owner| self.count_window_hits(*owner));
        }
        for owner in &owners {
            self.drop_tasks_of(*owner);
            self.close_windows_of(*owner);
        }
        for owner in &struck {
            for device in self.devices() {
                device.node_down(self, owner.node, how, fault);
            }
        }
    }

    /// Stops the tasks of a node; its devices go on. Timers that fire are held until [`Handle::resume`].
    pub fn pause(&self, id: NodeId) {
        self.set_paused(id, true);
    }

    /// Stops a whole machine, as a hypervisor does: its tasks, and its kernel and devices too, which take nothing
    /// and finish nothing until [`Handle::resume`]. One that is paused already stays as it is.
    pub fn freeze(&self, id: NodeId) {
        if self.set_paused(id, true) {
            self.core.agenda.borrow_mut().nodes[id.index()].frozen = true;
            self.devices().for_each(|device| device.node_frozen(self, id, true));
        }
    }

    /// Lets a paused or frozen node go on.
    pub fn resume(&self, id: NodeId) {
        if self.set_paused(id, false) {
            let was_frozen = std::mem::take(&mut self.core.agenda.borrow_mut().nodes[id.index()].frozen);
            if was_frozen {
                self.devices().for_each(|device| device.node_frozen(self, id, false));
            }
            self.core.agenda.borrow_mut().release(id, self.now_ns());
        }
    }

    /// False when there was nothing to change.
    fn set_paused(&self, id: NodeId, paused: bool) -> bool {
        assert_ne!(id, NodeId::HOST, "the host is never paused");
        let owner = {
            let mut agenda = self.core.agenda.borrow_mut();
            let node = &mut agenda.nodes[id.index()];
            if !node.up || node.paused == paused {
                return false;
            }
            node.paused = paused;
            Owner { node: id, incarnation: node.incarnation }
        };
        if paused {
            let mut agenda = self.core.agenda.borrow_mut();
            let ready = agenda.take_ready_of(owner);
            agenda.nodes[id.index()].held.extend(ready);
            drop(agenda);
            self.count_window_hits(owner);
        }
        self.emit_for(owner, NodePaused { paused });
        true
    }

    /// Asks a node to end by itself: see [`crate::node::shutdown_requested`].
    pub fn shutdown(&self, id: NodeId) {
        let waiting = {
            let shutdown = &mut self.core.agenda.borrow_mut().nodes[id.index()].shutdown;
            shutdown.requested = true;
            std::mem::take(&mut shutdown.waiting)
        };
        waiting.into_iter().for_each(std::task::Waker::wake);
    }

    pub(crate) fn poll_shutdown(&self, owner: Owner, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut agenda = self.core.agenda.borrow_mut();
        let node = &mut agenda.nodes[owner.node.index()];
        if !node.is_live(owner.incarnation) || node.shutdown.requested {
            return Poll::Ready(());
        }
        if !node.shutdown.waiting.iter().any(|known| known.will_wake(&waker)) {
            node.shutdown.waiting.push(waker);
        }
        self.note_waiting("shutdown request");
        Poll::Pending
    }

    /// Whether the node is up (paused counts as up).
    pub fn is_up(&self, id: NodeId) -> bool {
        self.core.agenda.borrow().nodes[id.index()].up
    }

    /// Whether the whole machine stands still; then [`Handle::is_paused`] too.
    #[inline]
    pub fn is_frozen(&self, id: NodeId) -> bool {
        self.core.agenda.borrow().nodes[id.index()].frozen
    }

    /// Whether the node is paused.
    pub fn is_paused(&self, id: NodeId) -> bool {
        self.core.agenda.borrow().nodes[id.index()].paused
    }

    /// The latest incarnation of a node; 0 before its first boot.
    pub fn incarnation(&self, id: NodeId) -> u32 {
        self.core.agenda.borrow().nodes[id.index()].incarnation
    }

    /// How many nodes there are, the host included.
    pub fn node_count(&self) -> u16 {
        self.core.agenda.borrow().nodes.len() as u16
    }

    /// The name that a node was added under.
    pub fn node_name(&self, id: NodeId) -> String {
        self.core.agenda.borrow().nodes[id.index()].name.clone()
    }

    /// Says which role the current node plays now, so that faults can aim at it.
    pub fn set_role(&self, role: &'static str) {
        let owner = self.owner();
        let since = self.core.roles_taken.get() + 1;
        self.core.roles_taken.set(since);
        let mut agenda = self.core.agenda.borrow_mut();
        let node = &mut agenda.nodes[owner.node.index()];
        if node.is_live(owner.incarnation) {
            (node.role, node.role_since) = (role, since);
        }
    }

    /// The node that took `role` last, among those that are up and still play it.
    pub fn latest_with_role(&self, role: &str) -> Option<NodeId> {
        let agenda = self.core.agenda.borrow();
        let players = agenda.nodes.iter().enumerate().filter(|(_, node)| node.up && node.role == role);
        players.max_by_key(|(_, node)| node.role_since).map(|(at, _)| NodeId(at as u16))
    }
}
