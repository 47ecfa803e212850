//! Leader append-only: "a leader never overwrites or deletes entries in its log; it only appends new entries"
//! (§5.3, Figure 3).
//!
//! Looked at before the shadow is told, because the question is what the log held until now.

use raft_async::trace::{EntryAppended, LogTruncated, RoleKind};

use crate::cluster::Cluster;
use crate::property::{Property, Report};

/// A server is about to remove a suffix of its log.
pub fn truncates(cluster: &Cluster, at: usize, cut: &LogTruncated, report: &mut Report<'_>) {
    let server = cluster.server(at);
    if server.role == RoleKind::Leader && cut.from <= server.last_index() {
        report.violation(Property::LeaderAppendOnly, "a leader removes entries of its log", || {
            let (node, term, last) = (server.node(), server.hard.term, server.last_index());
            format!("{node}, leading in term {term}, removes entries {} to {last} of its log", cut.from)
        });
    }
}

/// A server is about to append an entry.
#[inline]
pub fn appends(cluster: &Cluster, at: usize, entry: &EntryAppended, report: &mut Report<'_>) {
    let server = cluster.server(at);
    if server.role != RoleKind::Leader || entry.index > server.last_index() {
        return;
    }
    let Some(held) = server.log_to(entry.index) else { return };
    let held = (cluster.tree.term(held), cluster.tree.command(held));
    if held != (entry.term, entry.digest) {
        report.violation(Property::LeaderAppendOnly, "a leader overwrites an entry of its log", || {
            let (node, term) = (server.node(), server.hard.term);
            let index = entry.index;
            format!(
                "{node}, leading in term {term}, overwrites its entry {index} of term {} by one of term {}",
                held.0, entry.term
            )
        });
    }
}
