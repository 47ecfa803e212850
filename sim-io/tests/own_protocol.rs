//! A counter over UDP, clients that want ones added, the property that no more is added, and a mistake.
use sim_io::nemesis::{FaultKind, PlanConfig};
use sim_io::net::{SocketAddr, UdpSocket, addr_of};
use sim_io::simulation::Simulation;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::{NodeId, scenario::Scenario, time::timeout, verdict::Category, verdict::Findings};
use std::{collections::BTreeMap, io, time::Duration};
const SERVER: SocketAddr = addr_of(NodeId(1), 7000);

/// Adds one for each request. Requests come late, twice, in any order, or not at all.
async fn server(knows_only_the_latest: bool) -> io::Result<()> {
    let socket = UdpSocket::bind(SERVER).await?;
    let (mut total, mut latest) = (0_u64, BTreeMap::new());
    loop {
        let (request, client) = socket.recv().await?;
        let (number, latest) = (request[0], latest.entry(client).or_insert(0));
        // The mistake: "not the same as the latest" lets a late copy of an earlier request through.
        if number > *latest || knows_only_the_latest && number != *latest {
            *latest = number;
            total += 1;
            tracing::info!(total, "added");
        }
        socket.send_to(&request, client).await?;
    }
}

/// Has twenty ones added, and repeats each request until it is answered.
async fn client(id: NodeId) -> io::Result<()> {
    let socket = UdpSocket::bind(addr_of(id, 0)).await?;
    for number in 1..=20 {
        tracing::info!("wanted");
        loop {
            socket.send_to(&[number], SERVER).await?;
            let answer = timeout(Duration::from_millis(10), socket.recv()).await;
            if answer.is_ok_and(|received| received.is_ok_and(|(answer, _)| answer == [number])) {
                break;
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct AtMostOnce {
    wanted: Cursor,
    added: Cursor,
    wishes: u64,
}

impl Invariant for AtMostOnce {
    fn name(&self) -> &'static str {
        "at most once"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        self.wishes += view.since("wanted", &mut self.wanted).count() as u64;
        for event in view.since("added", &mut self.added) {
            if event.u64("total").expect("it is declared") > self.wishes {
                found.violation("at most once", "more added than wanted", format!("{event:?}"));
            }
        }
    }
}

fn counter(knows_only_the_latest: bool) -> Simulation {
    Simulation::new("counter")
        .processes(1, move |_| server(knows_only_the_latest))
        .workloads(3, client)
        .invariant(AtMostOnce::default)
        .faults(PlanConfig::only(&[FaultKind::Pause, FaultKind::Isolate]))
        .duration(Duration::from_secs(1))
}

#[test]
fn a_late_copy_is_not_added_again_and_a_server_that_does_is_caught() {
    let verdict = |mistaken, seed| counter(mistaken).run_seed(seed).findings.category();
    assert!((1..=500).all(|seed| verdict(false, seed) == Category::Pass));
    assert_eq!((1..=500).find(|seed| verdict(true, *seed) == Category::Invariant), Some(2));
}
