//! Durability: an operation that a client was told is done is still there after everything has settled.
//!
//! Judged against the most advanced living servers: what the others lack, they may have yet to apply, which is a
//! matter of liveness.
//!
//! Not here: that it is there only once (`exactly_once.rs`).

use sim_runtime::NodeId;

use crate::cluster::Cluster;
use crate::executions::Executions;
use crate::property::{Property, Report};
use crate::records::Acknowledged;

#[derive(Copy, Clone, Debug)]
struct Promise {
    session: u64,
    sequence: u64,
    client: NodeId,
    time_ns: u64,
}

/// What clients were told is done.
#[derive(Debug, Default)]
pub struct Durability {
    promises: Vec<Promise>,
}

impl Durability {
    /// A client was told that an operation is done. Reads promise nothing.
    pub fn acknowledged(&mut self, client: NodeId, time_ns: u64, told: &Acknowledged) {
        if told.write != 0 {
            let Acknowledged { session, sequence, .. } = *told;
            self.promises.push(Promise { session, sequence, client, time_ns });
        }
    }

    /// How many writes were acknowledged.
    pub fn promises(&self) -> usize {
        self.promises.len()
    }

    /// The cluster has settled. `tables` has one element for each server.
    pub fn settled(&self, cluster: &Cluster, tables: &[Executions], report: &mut Report<'_>) {
        let living = || cluster.servers().iter().zip(tables).filter(|(server, _)| server.up);
        let Some(furthest) = living().map(|(server, _)| server.applied).max() else { return };
        for (server, table) in living().filter(|(server, _)| server.applied == furthest) {
            let broken = |p: &&Promise| table.get(p.session, p.sequence).index == 0;
            let Some(first) = self.promises.iter().find(broken) else { continue };
            report.violation(Property::Durability, "an acknowledged write is gone", || {
                let count = self.promises.iter().filter(broken).count();
                format!(
                    "{} was told at {} ms that operation {} of session {} is done, but the state of {} is without it after {furthest} entries ({count} such in all)",
                    first.client,
                    first.time_ns / 1_000_000,
                    first.sequence,
                    first.session,
                    server.node(),
                )
            });
        }
    }
}
