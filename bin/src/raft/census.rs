//! What the cluster did, counted from its records; and how far it has come, for whoever waits for it.
//!
//! Not a judge: nothing that is counted here is right or wrong.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use oracles::records::Applied;
use raft_async::trace::{Became, CommitAdvanced, EntryWritten, RoleKind};
use sim_runtime::NodeId;
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::trace::{Kind, NodeDown, NodeUp, OPEN_KINDS, Payload, Record};
use sim_runtime::verdict::Findings;

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
    /// Apart from `observe`, which passes by most records.
    #[inline(never)]
    fn count(&mut self, record: &Record) {
        let Record { aux, words, .. } = record;
        match record.kind {
            Applied::KIND => self.progress.set_applied(record.node, Applied::decode(*aux, words).index),
            EntryWritten::KIND => self.entries += 1,
            CommitAdvanced::KIND => {
                let commit = CommitAdvanced::decode(*aux, words).index;
                self.progress.commit.set(self.progress.commit.get().max(commit));
            }
            Became::KIND => self.count_role(record.node, Became::decode(*aux, words)),
            NodeUp::KIND => self.restarts += u64::from(record.incarnation > 1),
            NodeDown::KIND => self.progress.set_applied(record.node, 0),
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

/// Which kinds are counted: most are not, and every record is asked.
static COUNTED: [bool; OPEN_KINDS as usize] = {
    let mut counted = [false; OPEN_KINDS as usize];
    counted[Became::KIND.0 as usize] = true;
    counted[CommitAdvanced::KIND.0 as usize] = true;
    counted[Applied::KIND.0 as usize] = true;
    counted[EntryWritten::KIND.0 as usize] = true;
    counted[NodeUp::KIND.0 as usize] = true;
    counted[NodeDown::KIND.0 as usize] = true;
    counted
};

#[inline]
fn is_counted(kind: Kind) -> bool {
    COUNTED.get(usize::from(kind.0)).copied().unwrap_or(false)
}

impl Invariant for Census {
    fn name(&self) -> &'static str {
        "census"
    }

    fn concerns(&self, kind: Kind) -> bool {
        is_counted(kind)
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        for record in view.fresh() {
            if is_counted(record.kind) {
                self.count(record);
            }
        }
    }

    fn finish(&mut self, view: &View<'_>, _found: &mut Findings) {
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
