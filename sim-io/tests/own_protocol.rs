//! A lock service over UDP, its clients, the property that it promises, and a mistake that breaks it.

use std::{collections::BTreeMap, io, time::Duration};

use sim_io::nemesis::{FaultKind, PlanConfig};
use sim_io::net::{SocketAddr, UdpSocket, addr_of};
use sim_io::simulation::Simulation;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::time::{sleep, timeout};
use sim_runtime::{NodeId, scenario::Scenario, verdict::Category, verdict::Findings};

const SERVER: SocketAddr = addr_of(NodeId(1), 7000);
const ACQUIRE: u8 = 1;
const RELEASE: u8 = 2;

/// Grants the lock to one (client, round) at a time. Requests come late, twice, or not at all.
async fn server(ignores_rounds: bool) -> io::Result<()> {
    let socket = UdpSocket::bind(SERVER).await?;
    let (mut holder, mut released) = (None, BTreeMap::new());
    loop {
        let (request, client) = socket.recv().await?;
        let (what, round) = (request[0], request[1]);
        let last_released = released.entry(client).or_insert(0);
        if what == RELEASE {
            *last_released = round.max(*last_released);
            // A late copy from an earlier round must not take away what the client holds now.
            holder.take_if(|(who, when)| *who == client && (*when == round || ignores_rounds));
        }
        let may_hold = round > *last_released;
        let holds = may_hold && *holder.get_or_insert((client, round)) == (client, round);
        if what == RELEASE || holds {
            socket.send_to(&request, client).await?;
        }
    }
}

/// Acquires and releases the lock twenty times.
async fn client(id: NodeId) -> io::Result<()> {
    let socket = UdpSocket::bind(addr_of(id, 0)).await?;
    for round in 1..=20 {
        ask(&socket, [ACQUIRE, round]).await?;
        tracing::info!(held = true, "lock");
        sleep(Duration::from_millis(5)).await;
        tracing::info!(held = false, "lock");
        ask(&socket, [RELEASE, round]).await?;
    }
    Ok(())
}

/// Sends `request` until it is answered, which is by the same bytes.
async fn ask(socket: &UdpSocket, request: [u8; 2]) -> io::Result<()> {
    loop {
        socket.send_to(&request, SERVER).await?;
        let answer = async {
            while socket.recv().await?.0 != request {}
            io::Result::Ok(())
        };
        if let Ok(answered) = timeout(Duration::from_millis(10), answer).await {
            return answered;
        }
    }
}

/// At most one client holds the lock.
#[derive(Default)]
struct MutualExclusion {
    seen: Cursor,
    holder: Option<NodeId>,
}

impl Invariant for MutualExclusion {
    fn name(&self) -> &'static str {
        "mutual exclusion"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.since("lock", &mut self.seen) {
            match self.holder {
                Some(holder) if holder != event.node => {
                    let evidence = format!("{} holds the lock while {holder} does", event.node);
                    found.violation("mutual exclusion", "two clients hold the lock", evidence);
                }
                _ => self.holder = event.bool("held").expect("it is declared").then_some(event.node),
            }
        }
    }
}

fn lock_service(ignores_rounds: bool) -> Simulation {
    Simulation::new("lock service")
        .processes(1, move |_| server(ignores_rounds))
        .workloads(3, client)
        .invariant(MutualExclusion::default)
        .faults(PlanConfig::only(&[FaultKind::Pause, FaultKind::Isolate, FaultKind::CutOneWay]))
        .duration(Duration::from_secs(1))
}

#[test]
fn the_lock_has_one_holder_whatever_the_network_does() {
    let service = lock_service(false);
    for seed in 1..=500 {
        assert_eq!(service.run_seed(seed).findings.category(), Category::Pass, "seed {seed}");
    }
}

#[test]
fn a_server_that_ignores_rounds_is_caught() {
    let service = lock_service(true);
    let fails = |seed: &u64| service.run_seed(*seed).findings.category() == Category::Invariant;
    assert_eq!((1..=500).find(fails), Some(1));
}
