//! Multi-decree Paxos over `sim-io`, after Lamport's *Paxos Made Simple* (2001); sections in comments are the paper's.
//!
//!   client ──Request──► proposer ──Prepare──► acceptor        phase 1, once for all slots
//!                          │  ◄────Promise───────┘
//!                          └──────Accept────► acceptor        phase 2, once for each slot
//!   client ◄──Done── learner ◄───Accepted───────┘
//!
//! | module | what it owns |
//! |---|---|
//! | [`terms`] | slots, proposal numbers, values, majorities |
//! | [`message`] | what roles say to each other, and the sockets |
//! | [`journal`] | stable storage |
//! | [`proposer`] | who proposes what |
//! | [`acceptor`] | what is accepted |
//! | [`learner`] | what is chosen, and the state machine that it is applied to |
//! | [`client`] | who wants something |
//! | [`mutant`] | defects that can be planted |
//! | [`invariants`] | what must hold |
//! | [`regimes`] | what should be seen: which phase met which fault |
//!
//! A promise tells of all that is accepted in one datagram: some hundred slots, which is no way to ship it.

pub mod terms;
pub mod message;
pub mod journal;
pub mod proposer;
pub mod acceptor;
pub mod learner;
pub mod client;
pub mod mutant;
pub mod invariants;
pub mod regimes;

use std::io;
use std::time::Duration;

use sim_io::nemesis::{Aim, PlanConfig};
use sim_io::simulation::Simulation;
use sim_runtime::NodeId;

pub use mutant::{Mutant, Planted};

/// "Each process plays the role of proposer, acceptor, and learner" (§2.5).
pub async fn server(me: NodeId, planted: Planted) -> io::Result<()> {
    let learned = learner::Learned::default();
    let proposer = proposer::run(me, learned.clone(), planted);
    let learner = learner::run(me, learned, planted);
    futures::try_join!(proposer, acceptor::run(me, planted), learner).map(drop)
}

/// Three or five servers, up to three clients, and all that can go wrong.
pub fn simulation(planted: Planted) -> Simulation {
    let points = ["leader elected", "promise sent", "proposal sent", "acceptance sent"];
    let aims = ["phase 1", "fsync in flight"].map(|name| Aim::Window(name.to_owned()));
    let aims = aims.into_iter().chain(points.map(|name| Aim::Point(name.to_owned())));
    Simulation::new("paxos")
        .processes(3, move |me| server(me, planted))
        .workloads(3, client::run)
        .amount("requests", &[10, 20, 40])
        .parameter("patience ms", &[60, 40, 100])
        .parameter("heartbeat ms", &[15, 10, 25])
        .parameter("report ms", &[40, 20, 150])
        .parameter("attempt ms", &[100, 40])
        .parameter("think us", &[5_000, 0, 40_000])
        .reading(message::Message::read)
        .invariant(invariants::Agreement::default)
        .invariant(invariants::Validity::default)
        .invariant(invariants::Persistence::default)
        .invariant(invariants::Prefixes::default)
        .invariant(invariants::Clients::default)
        .invariant(regimes::Regimes::default)
        .faults(PlanConfig {
            every_min_ms: 20,
            every_max_ms: 200,
            lasts_max_us: 300_000,
            aims: aims.collect(),
            roles: vec!["leader".to_owned()],
            ..PlanConfig::all()
        })
        .duration(Duration::from_secs(2))
        .swarm(&[3, 3, 5])
}
