//! What shapes a run, beside its seed; the line that reproduces it.

use clap::Args;

use raft_async::Carrier;
use raft_async::mutant::{Mutant, Planted};

use super::shared::{Features, Kind};
use crate::raft::{Profile, Raft};

/// What shapes a run, beside its seed.
#[derive(Args, Clone, Debug)]
pub struct Shape {
    /// Which kind of runs.
    #[command(flatten)]
    pub kind: Kind,
    /// Plant this defect in every server.
    #[arg(long, value_parser = mutant)]
    pub mutant: Option<Mutant>,
    /// Servers, instead of what the profile says (1 to 101).
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=101))]
    pub nodes: Option<u16>,
    /// Clients, instead of what the profile says (1 to 50).
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub clients: Option<u16>,
    /// Milliseconds of virtual time with faults, instead of what the profile says (1 to 3,600,000).
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub duration_ms: Option<u64>,
    /// How servers and clients are connected (udp or tcp), instead of what the profile says.
    #[arg(long)]
    pub transport: Option<Carrier>,
    /// Disks report a sync as done and keep nothing: no code can be right on them.
    #[arg(long)]
    pub lying_fsync: bool,
    /// A minority of the disks fails syncs, reads and writes, fills up, or rots: its servers halt, the others go on.
    #[arg(long)]
    pub disk_errors: bool,
    /// What the swarm does without.
    #[command(flatten)]
    pub features: Features,
    /// The servers' clocks run up to so many percent fast or slow (0 to 50).
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=50))]
    pub clock_drift: u8,
}

impl Shape {
    /// The scenario that is meant.
    pub fn scenario(&self) -> Raft {
        Raft {
            profile: self.kind.profile,
            planted: self.mutant.map_or(Planted::NONE, Planted::one),
            servers: self.nodes,
            clients: self.clients,
            duration_ms: self.duration_ms,
            carrier: self.transport,
            lying_fsync: self.lying_fsync,
            disk_errors: self.disk_errors,
            without: self.features.without.iter().collect(),
            clock_drift_percent: self.clock_drift,
            ..Raft::default()
        }
    }

    /// The flags that reproduce it.
    pub fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |text: String| {
            flags.push(' ');
            flags.push_str(&text);
        };
        if self.kind.profile != Profile::default() {
            add(format!("--profile {}", self.kind.profile));
        }
        if let Some(mutant) = self.mutant {
            add(format!("--mutant {}", mutant.name()));
        }
        if let Some(nodes) = self.nodes {
            add(format!("--nodes {nodes}"));
        }
        if let Some(clients) = self.clients {
            add(format!("--clients {clients}"));
        }
        if let Some(duration_ms) = self.duration_ms {
            add(format!("--duration-ms {duration_ms}"));
        }
        if let Some(transport) = self.transport {
            add(format!("--transport {transport}"));
        }
        if self.lying_fsync {
            add("--lying-fsync".to_owned());
        }
        if self.disk_errors {
            add("--disk-errors".to_owned());
        }
        if !self.features.without.is_empty() {
            let names: Vec<_> = self.features.without.iter().map(|feature| feature.name()).collect();
            add(format!("--without {}", names.join(",")));
        }
        if self.clock_drift > 0 {
            add(format!("--clock-drift {}", self.clock_drift));
        }
        flags
    }

    /// The line that reproduces `seed`.
    pub fn reproduce(&self, seed: u64) -> String {
        format!("cargo run --release -p bin -- replay {seed}{}", self.flags())
    }
}

pub(super) fn mutant(text: &str) -> Result<Mutant, String> {
    if !cfg!(feature = "mutants") {
        return Err("this binary was built without the feature `mutants`".to_owned());
    }
    let mutant: Mutant = text.parse().map_err(|_| {
        let names: Vec<_> = Mutant::planted().map(Mutant::name).collect();
        format!("no such defect; there are {}", names.join(", "))
    })?;
    if Mutant::planted().any(|planted| planted == mutant) {
        Ok(mutant)
    } else {
        Err("this defect is listed but not planted yet".to_owned())
    }
}
