//! Fidelity: what a server says, what its records said, and what its disk holds are one.
//!
//! Everything else is judged by the shadow, so the shadow itself must be held against the other two, at elections,
//! crashes, restarts and at the end.
//!
//! ```text
//!   shadow ◄──digests──► node (Became, LogSummary, Recovered)        costs nothing
//!   shadow ◄──decoded──► disk (visible after a restart, durable after a crash and at the end)
//! ```
//!
//! Invariants: disks are looked at after the whole step, and only what the shadow knows is compared: a write that was
//! made and not yet told, or what is yet to be cut, may be there in addition.

use raft_async::image::{Corrupt, Image};
use raft_async::trace::{Became, LogSummary, Recovered};
use raft_async::types::Index;

use crate::cluster::{Cluster, Explained, Restart};
use crate::property::{Property, Report};
use crate::shadow::{HardState, Shadow};
use crate::truth::Truth;

/// When disks are decoded. A sweep of one server costs as much as its recovery.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Sweeps {
    /// The new leader's, at every election.
    pub elections: bool,
    /// The victim's, at every crash.
    pub crashes: bool,
    /// That of a server that recovered.
    pub restarts: bool,
    /// All, at the end.
    pub end: bool,
}

impl Sweeps {
    /// Never: for campaigns that damage disks on purpose.
    pub const NONE: Self = Self { elections: false, crashes: false, restarts: false, end: false };
    /// Always.
    pub const ALL: Self = Self { elections: true, crashes: true, restarts: true, end: true };
}

/// Which of a disk's faces is compared.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Face {
    /// What programs see.
    Visible,
    /// What a power loss would leave.
    Durable,
}

/// Disks that are to be looked at when the step is over.
#[derive(Debug)]
pub struct Fidelity {
    sweeps: Sweeps,
    due: Vec<(usize, Face)>,
}

impl Fidelity {
    /// With these sweeps.
    pub fn new(sweeps: Sweeps) -> Self {
        Self { sweeps, due: Vec::new() }
    }

    /// A server was elected.
    pub fn elected(&mut self, cluster: &Cluster, at: usize, became: &Became, report: &mut Report<'_>) {
        let server = cluster.server(at);
        let told = server.log_to(became.last_index).map(|log| cluster.tree.term(log));
        if !server.lost && told != Some(became.last_term) {
            report.violation(Property::Fidelity, "a leader's last entry is not what it appended", || {
                let (node, index, term) = (server.node(), became.last_index, became.last_term);
                let last = server.last_index();
                format!("{node} is elected with entry {index} of term {term}, which is not among the {last} that it told of")
            });
        }
        if self.sweeps.elections {
            self.due.push((at, Face::Visible));
        }
    }

    /// A server says what log it holds in memory.
    pub fn summary(cluster: &Cluster, at: usize, said: &LogSummary, report: &mut Report<'_>) {
        let server = cluster.server(at);
        let told = server.log_to(said.last_index).map(|log| cluster.tree.digest(log));
        if !server.lost && told != Some(said.log_digest) {
            report.violation(Property::Fidelity, "the log in memory is not what was appended", || {
                let (node, last) = (server.node(), server.last_index());
                format!(
                    "{node} holds {} entries in memory, which are not the {last} that it told of",
                    said.last_index
                )
            });
        }
    }

    /// A server went down.
    pub fn went_down(&mut self, at: usize) {
        if self.sweeps.crashes {
            self.due.push((at, Face::Durable));
        }
    }

    /// A server restarted; the shadow has been told.
    pub fn recovered(
        &mut self,
        cluster: &Cluster,
        at: usize,
        said: &Recovered,
        restart: Restart,
        report: &mut Report<'_>,
    ) {
        let server = cluster.server(at);
        if restart.explained == Explained::Not {
            report.violation(Property::Fidelity, "a recovered log was never written", || {
                let (node, count) = (server.node(), said.last_index);
                format!(
                    "{node} recovered {count} entries that it did not write and that its disk does not hold"
                )
            });
        }
        if let Some(durable) = restart.lost_durable {
            report.violation(Property::Fidelity, "durable entries are missing after a restart", || {
                let (node, held) = (server.node(), cluster.tree.index(durable));
                let kept =
                    (1..=held).take_while(|i| cluster.tree.first(durable, *i) == server.log_to(*i)).count();
                format!(
                    "the disk of {node} held {held} entries; it recovered {}, of which {kept} are the same",
                    said.last_index
                )
            });
        }
        if self.sweeps.restarts {
            self.due.push((at, Face::Visible));
        }
    }

    /// The step is over: disks can be looked at.
    #[inline]
    pub fn step_ends(&mut self, cluster: &Cluster, truth: &impl Truth, report: &mut Report<'_>) {
        if !self.due.is_empty() {
            self.sweep_due(cluster, truth, report);
        }
    }

    #[cold]
    fn sweep_due(&mut self, cluster: &Cluster, truth: &impl Truth, report: &mut Report<'_>) {
        for (at, face) in self.due.drain(..) {
            sweep(cluster.server(at), cluster, face, truth, report);
        }
    }

    /// The run is over.
    pub fn run_ends(&mut self, cluster: &Cluster, truth: &impl Truth, report: &mut Report<'_>) {
        if self.sweeps.end {
            for server in cluster.servers() {
                sweep(server, cluster, Face::Durable, truth, report);
            }
        }
    }
}

/// Compares a server's shadow with its decoded disk.
fn sweep(server: &Shadow, cluster: &Cluster, face: Face, truth: &impl Truth, report: &mut Report<'_>) {
    let node = server.node();
    let image = match face {
        Face::Visible => truth.visible_image(node),
        Face::Durable => truth.durable_image(node),
    };
    let image = match image {
        None => return,
        Some(Ok(image)) => image,
        Some(Err(corrupt)) => return refuse(server, face, corrupt, report),
    };
    let held = HardState {
        term: image.hard_state.term.0,
        vote: image.hard_state.voted_for.map_or(0, |vote| u64::from(vote.0)),
    };
    if !server.may_hold(held) {
        report.violation(Property::Fidelity, "term and vote on a disk are not what was written", || {
            format!("the disk of {node} holds {held}; what is durable is {}", server.durable_hard)
        });
    }
    if !server.lost {
        entries(server, cluster, face, &image, report);
    }
}

fn entries(server: &Shadow, cluster: &Cluster, face: Face, image: &Image, report: &mut Report<'_>) {
    let log = match face {
        Face::Visible => server.written_log(),
        Face::Durable => server.durable_log(),
    };
    let count = cluster.tree.index(log);
    if image.entries.digest_at(Index(count)) != Some(cluster.tree.digest(log)) {
        report.violation(Property::Fidelity, "the log on a disk is not what was written", || {
            let held = image.entries.last().index;
            let kind = if face == Face::Visible { "written" } else { "durable" };
            format!(
                "{count} entries of {} are {kind}; its disk holds {held} entries, which are not those",
                server.node()
            )
        });
    }
}

fn refuse(server: &Shadow, face: Face, corrupt: Corrupt, report: &mut Report<'_>) {
    let shape = match face {
        Face::Visible => "a server runs from a disk that is corrupt",
        Face::Durable => "a power loss would leave a disk that is corrupt",
    };
    report.violation(Property::Fidelity, shape, || format!("the disk of {}: {corrupt}", server.node()));
}
