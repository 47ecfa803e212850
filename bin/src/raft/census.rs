//! What the cluster did, counted from its records; and how far it has come, for whoever waits for it.
//!
//! Not a judge: nothing that is counted here is right or wrong. It sits beside the one that there is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use oracles::Clerk;
use oracles::event::{Event, said};
use oracles::records::Applied;
use raft_async::trace::{Became, CommitAdvanced, RoleKind};
use sim_runtime::NodeId;
use sim_runtime::invariant::View;
use sim_runtime::trace::Record;

/// How far the cluster has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The highest commit index that any server has announced.
    commit: Cell<u64>,
    /// What each server has applied in its present life; by node.
    applied: RefCell<Vec<u64>>,
}

impl Progress {
    /// Whether each of `servers` has applied all that any has committed.
    pub(super) fn is_level(&self, mut servers: impl Iterator<Item = NodeId>) -> bool {
        let applied = self.applied.borrow();
        let of = |node: NodeId| applied.get(node.index()).copied().unwrap_or(0);
        servers.all(|node| of(node) >= self.commit.get())
    }

    /// How many entries all servers together have applied in their present lives. It cannot grow for ever while nothing new
    /// is committed.
    pub(super) fn applied_by_all(&self) -> u64 {
        self.applied.borrow().iter().sum()
    }

    fn commits(&self, index: u64) {
        self.commit.set(self.commit.get().max(index));
    }

    #[inline]
    fn set_applied(&self, node: NodeId, index: u64) {
        let mut applied = self.applied.borrow_mut();
        if applied.len() <= node.index() {
            applied.resize(node.index() + 1, 0);
        }
        applied[node.index()] = index;
    }
}

/// Counts.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) progress: Rc<Progress>,
    elections: u64,
    leaders: u64,
    leader_changes: u64,
    last_leader: Option<NodeId>,
    restarts: u64,
    entries: u64,
    highest_term: u64,
}

impl Census {
    #[inline(never)]
    fn note_rarely(&mut self, event: Event, record: &Record) {
        match event {
            Event::CommitAdvanced => self.progress.commits(said::<CommitAdvanced>(record).index),
            Event::Became => self.count_role(record.node, said(record)),
            Event::NodeUp => self.restarts += u64::from(record.incarnation > 1),
            Event::NodeDown => self.progress.set_applied(record.node, 0),
            _ => {}
        }
    }

    fn count_role(&mut self, node: NodeId, became: Became) {
        self.highest_term = self.highest_term.max(became.term);
        match became.role {
            RoleKind::Candidate => self.elections += 1,
            RoleKind::Leader => {
                self.leaders += 1;
                self.leader_changes += u64::from(self.last_leader.is_some_and(|last| last != node));
                self.last_leader = Some(node);
            }
            RoleKind::Follower => {}
        }
    }
}

impl Clerk for Census {
    #[inline]
    fn note(&mut self, event: Event, record: &Record) {
        match event {
            Event::Applied => self.progress.set_applied(record.node, said::<Applied>(record).index),
            Event::EntryWritten => self.entries += 1,
            Event::CommitAdvanced | Event::Became | Event::NodeUp | Event::NodeDown => {
                self.note_rarely(event, record);
            }
            _ => {}
        }
    }

    fn finish(&mut self, view: &View<'_>) {
        let counts = [
            ("elections begun", self.elections),
            ("leaders elected", self.leaders),
            ("leader changes", self.leader_changes),
            ("restarts", self.restarts),
            ("log entries written", self.entries),
            ("terms", self.highest_term),
        ];
        for (name, count) in counts {
            view.count(name, count);
        }
    }
}
