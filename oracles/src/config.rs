//! What a judge is told before a run.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sim_runtime::NodeId;

use crate::clients::Recorder;
use crate::fidelity::Sweeps;

/// What a judge has to know beforehand.
#[derive(Clone, Debug)]
pub struct JudgeConfig {
    /// The servers.
    pub servers: Vec<NodeId>,
    /// The directory in which each server keeps its files, on its own disk.
    pub dir: PathBuf,
    /// The clients' book, if there are clients: it is judged at the end.
    pub clients: Option<Recorder>,
    /// How hard to try for linearizability.
    pub linearizability: linearizability::Options,
    /// When disks are decoded.
    pub sweeps: Sweeps,
    /// Whether a server may refuse to go on: right where disks fail and rot.
    pub halts_allowed: bool,
    /// Names of properties and premises that are switched off.
    pub disabled: BTreeSet<&'static str>,
}

impl JudgeConfig {
    /// For these servers, with everything switched on.
    pub fn new(servers: Vec<NodeId>, dir: impl Into<PathBuf>) -> Self {
        Self {
            servers,
            dir: dir.into(),
            clients: None,
            linearizability: linearizability::Options::default(),
            sweeps: Sweeps { elections: false, crashes: false, restarts: true, end: true },
            halts_allowed: false,
            disabled: BTreeSet::new(),
        }
    }
}
