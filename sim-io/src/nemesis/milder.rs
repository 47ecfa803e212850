//! Milder faults: what shrinking tries in place of one that it cannot take out.
//!
//! Invariants: a milder fault strikes fewer nodes or links, or does less to them; there is no way back to the
//! harder one, so shrinking ends.
//! Not here: fewer faults (`plan.rs`).

use sim_runtime::NodeId;

use super::fault::{Fault, Links, Target};

impl Fault {
    /// The same fault, milder: fewer nodes, or a crash in place of a power loss.
    pub(super) fn milder(&self, servers: u16) -> Vec<Self> {
        let fewer = |target: &Target| -> Vec<Target> {
            match target {
                Target::AllServers => (1..=servers).map(|id| Target::Nodes(vec![NodeId(id)])).collect(),
                Target::Nodes(nodes) if nodes.len() > 1 => {
                    nodes.iter().map(|node| Target::Nodes(vec![*node])).collect()
                }
                Target::Nodes(_) | Target::Role(_) | Target::Hit => Vec::new(),
            }
        };
        match self {
            Self::Kill { target } => fewer(target).into_iter().map(|target| Self::Kill { target }).collect(),
            Self::Pause { target } => {
                fewer(target).into_iter().map(|target| Self::Pause { target }).collect()
            }
            Self::PowerOff { target } => {
                let fewer = fewer(target).into_iter().map(|target| Self::PowerOff { target });
                fewer.chain([Self::Kill { target: target.clone() }]).collect()
            }
            Self::CutLink { one, other } => vec![
                Self::CutOneWay { from: one.clone(), to: other.clone() },
                Self::CutOneWay { from: other.clone(), to: one.clone() },
            ],
            Self::Freeze { target } => {
                let fewer = fewer(target).into_iter().map(|target| Self::Freeze { target });
                fewer.chain([Self::Pause { target: target.clone() }]).collect()
            }
            Self::SlowLinks { links, factor } => {
                let less = |links| Self::SlowLinks { links, factor: *factor };
                links.fewer().into_iter().map(less).collect()
            }
            Self::LossBurst { links, per_million } => {
                let less = |links| Self::LossBurst { links, per_million: *per_million };
                links.fewer().into_iter().map(less).collect()
            }
            Self::DuplicationBurst { links, per_million } => {
                let less = |links| Self::DuplicationBurst { links, per_million: *per_million };
                links.fewer().into_iter().map(less).collect()
            }
            Self::Partition { .. } | Self::Isolate { .. } | Self::CutOneWay { .. } => Vec::new(),
            // Drawn for one node each.
            Self::WallStep { .. }
            | Self::Drift { .. }
            | Self::DiskStall { .. }
            | Self::SlowDisk { .. }
            | Self::FsyncErrors { .. }
            | Self::IoErrors { .. }
            | Self::DiskFull { .. }
            | Self::BitRot { .. } => Vec::new(),
        }
    }
}

impl Links {
    /// Half of them, either way.
    fn fewer(&self) -> Vec<Self> {
        match self {
            Self::Between { one, other } => vec![
                Self::OneWay { from: one.clone(), to: other.clone() },
                Self::OneWay { from: other.clone(), to: one.clone() },
            ],
            Self::Of(_) | Self::OneWay { .. } => Vec::new(),
        }
    }
}
