//! Log matching: "if two logs contain an entry with the same index and term, then the logs are identical in all
//! entries up through the given index" (§5.3, Figure 3).
//!
//! Since equal logs have one name in the tree, the property says that no name has a rival. Only a log that nobody
//! had before can bring one, so replication costs nothing here.

use crate::cluster::Cluster;
use crate::log_tree::Prefix;
use crate::property::{Property, Report};

/// Server `at` holds `log`, which nobody held before (or which a change in the middle brought about).
pub fn holds(cluster: &Cluster, at: usize, log: Prefix, report: &mut Report<'_>) {
    let tree = &cluster.tree;
    let Some(rival) = tree.rival(log) else { return };
    let same_entry = tree.command(rival) == tree.command(log);
    let shape = if same_entry {
        "one entry follows two different logs"
    } else {
        "two entries have one index and term"
    };
    report.violation(Property::LogMatching, shape, || {
        let (node, index, term) = (cluster.server(at).node(), tree.index(log), tree.term(log));
        let parts = (1..=index).find(|i| tree.first(log, *i) != tree.first(rival, *i)).unwrap_or(index);
        let other = cluster.servers().iter().find(|s| s.log_to(index) == Some(rival));
        let other = other.map_or_else(|| "a log from before".to_owned(), |s| format!("that of {}", s.node()));
        format!("the log of {node} and {other} both have entry {index} of term {term}, yet they differ from entry {parts} on")
    });
}

/// Server `at` recovered `log` from its disk, and nobody saw it being written.
pub fn recovers(cluster: &Cluster, at: usize, report: &mut Report<'_>) {
    let mut log = cluster.server(at).log();
    while log != Prefix::EMPTY {
        holds(cluster, at, log, report);
        log = cluster.tree.parent(log);
    }
}
