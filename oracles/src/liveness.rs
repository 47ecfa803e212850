//! Liveness: once faults have ended, there is a leader, operations complete, and every server catches up (§5.6: "as
//! long as the system satisfies the timing requirement").
//!
//! ```text
//!   faults │ Healed ── grace ──│── no operation may end unanswered ──│ Quiesced ──│ Settled: judged
//! ```
//!
//! An operation that was pending when the cluster healed counts as much as a fresh one: a waiter that sleeps for ever
//! does so beside a cluster that serves everybody else.
//!
//! Not here: how long recovery may take (the harness knows the timeouts and says so in `Healed`).

use std::collections::BTreeMap;

use raft_async::trace::RoleKind;
use sim_runtime::NodeId;
use sim_runtime::trace::Down;

use crate::cluster::Cluster;
use crate::property::{Property, Report};
use crate::shadow::Shadow;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Call {
    session: u64,
    sequence: u64,
    since_ns: u64,
}

#[derive(Debug, Default)]
struct Client {
    pending: Vec<Call>,
    served_since_healed: bool,
}

impl Client {
    fn ends(&mut self, session: u64, sequence: u64) -> Option<Call> {
        let is_it = |call: &Call| (call.session, call.sequence) == (session, sequence);
        let place = self.pending.iter().position(is_it)?;
        Some(self.pending.swap_remove(place))
    }
}

#[derive(Copy, Clone, Debug)]
struct Healed {
    at_ns: u64,
    grace_ns: u64,
}

/// Who waits for what.
#[derive(Debug)]
pub struct Liveness {
    clients: BTreeMap<NodeId, Client>,
    healed: Option<Healed>,
    /// The highest commit index of any server so far.
    commit: u64,
    /// What must be applied everywhere in the end.
    target: u64,
    /// Since when nobody leads the latest term.
    leaderless_since_ns: Option<u64>,
    /// Servers whose process ended by itself.
    exited: Vec<bool>,
    halts_allowed: bool,
}

impl Liveness {
    /// Of so many servers, which may or may not refuse to go on (that is right on a broken disk).
    pub fn new(servers: usize, halts_allowed: bool) -> Self {
        Self {
            clients: BTreeMap::new(),
            healed: None,
            commit: 0,
            target: 0,
            leaderless_since_ns: Some(0),
            exited: vec![false; servers],
            halts_allowed,
        }
    }

    /// A server booted.
    pub fn booted(&mut self, at: usize) {
        self.exited[at] = false;
    }

    /// A server went down.
    pub fn went_down(&mut self, at: usize, how: Down) {
        self.exited[at] = how == Down::Exit;
    }

    /// A role, a term, or who is up, has changed.
    pub fn leadership_changed(&mut self, cluster: &Cluster, now_ns: u64) {
        let living = || cluster.servers().iter().filter(|server| server.up);
        let term = living().map(|server| server.hard.term).max();
        let is_led = living().any(|s| s.role == RoleKind::Leader && Some(s.hard.term) == term);
        self.leaderless_since_ns = if is_led { None } else { self.leaderless_since_ns.or(Some(now_ns)) };
    }

    /// A commit index moved.
    #[inline]
    pub fn commits(&mut self, index: u64) {
        self.commit = self.commit.max(index);
    }

    /// A client began an operation.
    pub fn invoked(&mut self, client: NodeId, since_ns: u64, session: u64, sequence: u64) {
        let call = Call { session, sequence, since_ns };
        self.clients.entry(client).or_default().pending.push(call);
    }

    /// A client got its answer.
    pub fn acknowledged(&mut self, client: NodeId, session: u64, sequence: u64) {
        let client = self.clients.entry(client).or_default();
        let call = client.ends(session, sequence);
        if let (Some(call), Some(healed)) = (call, self.healed) {
            client.served_since_healed |= call.since_ns >= healed.at_ns;
        }
    }

    /// A client gave up.
    pub fn gave_up(
        &mut self,
        client: NodeId,
        now_ns: u64,
        session: u64,
        sequence: u64,
        report: &mut Report<'_>,
    ) {
        let call = self.clients.entry(client).or_default().ends(session, sequence);
        if let (Some(call), Some(healed)) = (call, self.healed)
            && now_ns > healed.at_ns + healed.grace_ns
        {
            let shape = if call.since_ns < healed.at_ns {
                "an operation from before the healing gets no answer"
            } else {
                "an operation begun after the healing gets no answer"
            };
            report.violation(Property::Liveness, shape, || {
                let waited = (now_ns - call.since_ns) / 1_000_000;
                let past = (now_ns - healed.at_ns) / 1_000_000;
                format!("{client} gives up operation {sequence} of session {session} after {waited} ms, {past} ms after faults ended")
            });
        }
    }

    /// Faults are over.
    pub fn healed(&mut self, now_ns: u64, grace_ns: u64) {
        self.healed = Some(Healed { at_ns: now_ns, grace_ns });
        self.target = self.commit;
    }

    /// Clients begin nothing new.
    pub fn quiesced(&mut self) {
        self.target = self.commit;
    }

    /// The cluster has had its time.
    pub fn settled(&self, cluster: &Cluster, now_ns: u64, report: &mut Report<'_>) {
        self.has_leader(cluster, now_ns, report);
        self.has_answered(now_ns, report);
        self.has_caught_up(cluster, report);
    }

    /// An election may be under way: slow disks and late timers do not end with the faults. It must end, too.
    fn has_leader(&self, cluster: &Cluster, now_ns: u64, report: &mut Report<'_>) {
        let grace_ns = self.healed.map_or(0, |healed| healed.grace_ns);
        if let Some(since_ns) = self.leaderless_since_ns
            && now_ns > since_ns + grace_ns
        {
            report.violation(Property::Liveness, "there is no leader", || {
                let say = |s: &Shadow| format!("{} {:?} in term {}", s.node(), s.role, s.hard.term);
                let living = cluster.servers().iter().filter(|server| server.up);
                let roles: Vec<String> = living.map(|s| say(s).to_lowercase()).collect();
                let past = (now_ns - since_ns) / 1_000_000;
                format!("for {past} ms nobody has led the latest term: {}", roles.join(", "))
            });
        }
    }

    fn has_answered(&self, now_ns: u64, report: &mut Report<'_>) {
        for (node, client) in &self.clients {
            if let Some(call) = client.pending.first() {
                report.violation(Property::Liveness, "an operation is still pending", || {
                    let Call { session, sequence, since_ns } = *call;
                    let waited = (now_ns - since_ns) / 1_000_000;
                    format!("operation {sequence} of session {session} at {node} has waited for {waited} ms")
                });
            }
            if self.healed.is_some() && !client.served_since_healed {
                report.violation(Property::Liveness, "a client is not served after the healing", || {
                    format!("no operation that {node} began after faults ended has completed")
                });
            }
        }
    }

    fn has_caught_up(&self, cluster: &Cluster, report: &mut Report<'_>) {
        let target = self.target;
        for (server, exited) in cluster.servers().iter().zip(&self.exited) {
            if server.up && server.applied < target {
                report.violation(Property::Liveness, "a server does not apply what is committed", || {
                    let (node, applied) = (server.node(), server.applied);
                    format!("{node} has applied {applied} entries after settling; {target} are committed")
                });
            }
            if *exited && !self.halts_allowed {
                report.violation(Property::Liveness, "a server refuses to run", || {
                    format!("the process of {} ended by itself and is down after settling", server.node())
                });
            }
        }
    }
}
