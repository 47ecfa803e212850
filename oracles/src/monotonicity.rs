//! What must not go back (Figure 2): term and vote over all lives of a server, commit index and applied index in
//! each.
//!
//! "Persistent state on all servers (updated on stable storage before responding to RPCs)": currentTerm, "increases
//! monotonically", and votedFor. So a server that restarts must find at least what it has shown to others or what
//! its disk had confirmed. commitIndex and lastApplied "increase monotonically" and are volatile.
//!
//! Looked at before the shadow is told, because the question is what was known until now.

use raft_async::trace::{CommitAdvanced, Recovered};
use sim_runtime::NodeId;

use crate::cluster::Cluster;
use crate::property::{Property, Report};
use crate::records::Applied;
use crate::shadow::HardState;

/// How a server bound itself.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
enum Bond {
    #[default]
    None,
    Sent,
    Synced,
}

/// The least that a server may come back with.
#[derive(Copy, Clone, Debug, Default)]
struct Floor {
    hard: HardState,
    bond: Bond,
}

impl Floor {
    #[inline]
    fn raise(&mut self, hard: HardState, bond: Bond) {
        let later_term = hard.term > self.hard.term;
        let vote_given = hard.term == self.hard.term && hard.vote != 0 && hard.vote != self.hard.vote;
        if later_term || vote_given {
            *self = Self { hard, bond };
        }
    }
}

/// Floors of all servers.
#[derive(Debug)]
pub struct Monotonicity {
    floors: Vec<Floor>,
}

impl Monotonicity {
    /// Of so many servers.
    pub fn new(servers: usize) -> Self {
        Self { floors: vec![Floor::default(); servers] }
    }

    /// A message that shows this term, and this vote unless it is 0, leaves.
    #[inline]
    pub fn sends(&mut self, at: usize, hard: HardState) {
        self.floors[at].raise(hard, Bond::Sent);
    }

    /// The device confirmed term and vote.
    #[inline]
    pub fn syncs(&mut self, at: usize, now: HardState) {
        self.floors[at].raise(now, Bond::Synced);
    }

    /// A server restarted.
    pub fn recovers(&self, at: usize, node: NodeId, found: &Recovered, report: &mut Report<'_>) {
        let Floor { hard: floor, bond } = self.floors[at];
        let found = HardState { term: found.term, vote: found.vote };
        let (term_shape, vote_shape) = match bond {
            Bond::Synced => ("a durable term is forgotten", "a durable vote is forgotten"),
            Bond::None | Bond::Sent => {
                ("a term that was sent is forgotten", "a vote that was sent is forgotten")
            }
        };
        let shape = if found.term < floor.term { term_shape } else { vote_shape };
        if found.falls_short_of(floor) {
            report.violation(Property::Monotonicity, shape, || {
                let deed = if bond == Bond::Synced { "had made durable" } else { "had told others" };
                format!("{node} {deed} {floor}, and restarted with {found}")
            });
        }
    }

    /// A server's commit index moves.
    #[inline]
    pub fn commits(cluster: &Cluster, at: usize, moved: &CommitAdvanced, report: &mut Report<'_>) {
        let server = cluster.server(at);
        if moved.index < server.commit {
            report.violation(Property::Monotonicity, "the commit index goes back", || {
                format!(
                    "the commit index of {} goes from {} back to {}",
                    server.node(),
                    server.commit,
                    moved.index
                )
            });
        }
    }

    /// A server applies an entry: the one after the last.
    #[inline]
    pub fn applies(cluster: &Cluster, at: usize, applied: &Applied, report: &mut Report<'_>) {
        let server = cluster.server(at);
        if applied.index != server.applied + 1 {
            let shape = if applied.index <= server.applied {
                "the applied index goes back"
            } else {
                "the applied index skips entries"
            };
            report.violation(Property::Monotonicity, shape, || {
                format!("{} applies entry {} after entry {}", server.node(), applied.index, server.applied)
            });
        }
    }
}
