//! Leader completeness: "if a log entry is committed in a given term, then that entry will be present in the logs
//! of the leaders for all higher-numbered terms" (§5.4, Figure 3).
//!
//! *Committed* is what somebody took for committed. claimed(i, t, T): entry (i, t) was covered by a server's commit
//! index, applied or acknowledged while that server's term was T. A claim covers what precedes the entry.
//!
//! ```text
//!   claim of (i, t) in T ──► against the log at election of every leader of a later term so far
//!   election in T' ────────► against every claim of an earlier term so far
//! ```
//!
//! Both directions are needed: a deposed leader may commit long after its successor was elected.
//!
//! Invariants: of the claims of one term only the longest logs are kept, so an election costs as many comparisons
//! as there were terms with claims; a claim that is repeated in a later term says nothing new.
//! Not here: whether a claim is justified (`premises.rs`).

use std::collections::BTreeMap;

use raft_async::trace::Became;
use sim_runtime::NodeId;

use crate::cluster::Cluster;
use crate::dense::Dense;
use crate::log_tree::{LogTree, Prefix};
use crate::property::{Property, Report};

/// How a server took an entry for committed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum How {
    /// Its commit index covered it.
    Committed,
    /// It applied it.
    Applied,
    /// It told a client so.
    Acknowledged,
}

#[derive(Copy, Clone, Debug)]
struct Claim {
    /// The earliest term in which it was made; `u64::MAX` for none.
    term: u64,
    by: NodeId,
    how: How,
}

impl Claim {
    const NONE: Self = Self { term: u64::MAX, by: NodeId::HOST, how: How::Committed };
}

#[derive(Copy, Clone, Debug)]
struct Leader {
    node: NodeId,
    /// Its log at its election.
    log: Prefix,
}

/// All claims and all leaders.
#[derive(Debug)]
pub struct LeaderCompleteness {
    /// By prefix.
    claims: Dense<Claim>,
    /// By term: the longest claimed logs, none of which begins with another.
    longest: BTreeMap<u64, Vec<Prefix>>,
    leaders: BTreeMap<u64, Vec<Leader>>,
}

impl Default for LeaderCompleteness {
    fn default() -> Self {
        Self { claims: Dense::of(Claim::NONE), longest: BTreeMap::new(), leaders: BTreeMap::new() }
    }
}

impl LeaderCompleteness {
    /// A server took everything in `log` for committed while its term was `term`. Returns whether nobody had
    /// claimed the last entry before.
    #[inline]
    pub fn claim(
        &mut self,
        cluster: &Cluster,
        at: usize,
        log: Prefix,
        term: u64,
        how: How,
        report: &mut Report<'_>,
    ) -> bool {
        // An entry is committed in its own term at the earliest, whatever the server believes.
        let term = term.max(cluster.tree.term(log));
        let known = self.claims.get(log.slot()).term;
        if known <= term || log == Prefix::EMPTY {
            return false;
        }
        let claim = Claim { term, by: cluster.server(at).node(), how };
        self.claim_anew(cluster, log, claim, report);
        known == u64::MAX
    }

    fn claim_anew(&mut self, cluster: &Cluster, log: Prefix, claim: Claim, report: &mut Report<'_>) {
        self.mark(&cluster.tree, log, claim);
        let term = claim.term;
        let longest = self.longest.entry(term).or_default();
        longest.retain(|other| !cluster.tree.begins_with(log, *other));
        longest.push(log);

        let later = self.leaders.range(term + 1..);
        for (leaders_term, leader) in later.flat_map(|(term, all)| all.iter().map(move |l| (*term, *l))) {
            if !contains(&cluster.tree, leader.log, log) {
                let shape = "an entry is claimed in a term although a later leader lacks it";
                self.object(&cluster.tree, shape, leaders_term, leader, log, report);
            }
        }
    }

    fn mark(&mut self, tree: &LogTree, log: Prefix, claim: Claim) {
        let mut at = log;
        while at != Prefix::EMPTY && self.claims.get(at.slot()).term > claim.term {
            *self.claims.entry(at.slot()) = claim;
            at = tree.parent(at);
        }
    }

    /// A server was elected. (Nothing is said of one whose log is not known.)
    pub fn elected(&mut self, cluster: &Cluster, at: usize, became: &Became, report: &mut Report<'_>) {
        let server = cluster.server(at);
        let Some(log) = server.log_to(became.last_index).filter(|_| !server.lost) else { return };
        let leader = Leader { node: server.node(), log };
        self.leaders.entry(became.term).or_default().push(leader);
        for claimed in self.longest.range(..became.term).rev().flat_map(|(_, logs)| logs) {
            if !contains(&cluster.tree, log, *claimed) {
                let shape = "a leader is elected without an entry that was claimed in an earlier term";
                self.object(&cluster.tree, shape, became.term, leader, *claimed, report);
            }
        }
    }

    /// Names the first claimed entry that `leader` lacks.
    fn object(
        &self,
        tree: &LogTree,
        shape: &str,
        leaders_term: u64,
        leader: Leader,
        claimed: Prefix,
        report: &mut Report<'_>,
    ) {
        report.violation(Property::LeaderCompleteness, shape, || {
            let lacks = |index: &u64| {
                tree.first(claimed, *index).is_some_and(|entry| !contains(tree, leader.log, entry))
            };
            let index = (1..=tree.index(claimed)).find(lacks).unwrap_or(tree.index(claimed));
            let entry = tree.first(claimed, index).unwrap_or(claimed);
            let Claim { term, by, how } = self.claims.get(entry.slot());
            let deed = match how {
                How::Committed => "took for committed",
                How::Applied => "applied",
                How::Acknowledged => "acknowledged",
            };
            let has = tree.first(leader.log, index).map_or_else(
                || format!("ends at entry {}", tree.index(leader.log)),
                |other| format!("has an entry of term {} there", tree.term(other)),
            );
            format!(
                "{} was elected in term {leaders_term} with a log that {has}, yet {by} {deed} entry {index} of term {} in term {term}",
                leader.node,
                tree.term(entry),
            )
        });
    }
}

/// Whether `log` has the last entry of `entry`, going by index and term as the paper does.
fn contains(tree: &LogTree, log: Prefix, entry: Prefix) -> bool {
    tree.first(log, tree.index(entry)).is_some_and(|own| own == entry || tree.term(own) == tree.term(entry))
}
