//! Faults that go on beside others: slow and lossy links, frozen machines, clocks, disks. What they do to a
//! program, that it is counted, and that nothing of it is left when the nemesis is done.

use std::cell::RefCell;
use std::future::Future;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use sim_io::fs::{DiskConfig, Disks, File};
use sim_io::nemesis::{self, Fault, FaultKind, Links, Plan, PlanConfig, PlannedFault, Target, When};
use sim_io::net::{Burst, Net, NetConfig, UdpSocket, addr_of};
use sim_runtime::time::{self, Instant, sleep};
use sim_runtime::verdict::RunReport;
use sim_runtime::{Handle, NodeId, Options, World, node};

const MS: u64 = 1_000_000;
const PORT: u16 = 7;
const N1: NodeId = NodeId(1);
const N2: NodeId = NodeId(2);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn of(node: NodeId) -> Target {
    Target::Nodes(vec![node])
}

/// From 100 to 200 ms.
fn fault(id: u32, what: Fault) -> PlannedFault {
    PlannedFault { id, when: When::At { at_ns: 100 * MS }, what, lasts_us: 100_000 }
}

/// The same, half a millisecond earlier, for what happens at whole milliseconds.
fn between(id: u32, what: Fault) -> PlannedFault {
    PlannedFault { when: When::At { at_ns: 100 * MS - MS / 2 }, ..fault(id, what) }
}

fn plan(faults: Vec<PlannedFault>) -> Plan {
    Plan { servers: 3, faults, heal_at_ns: 400 * MS, ..Plan::default() }
}

/// Carries `plan` out over three servers that run `main`, on links that only take their time.
fn carry_out<F>(seed: u64, plan: &Plan, main: impl Fn() -> F + Clone + 'static) -> RunReport
where
    F: Future<Output = ()> + 'static,
{
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
    let mut world = World::new(seed, options);
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    for id in 1..=3 {
        handle.add_node(&format!("n{id}"), main.clone());
        handle.boot(NodeId(id));
    }
    let plan = plan.clone();
    world.run(async move {
        nemesis::run(plan).await;
        is_as_before(&handle);
    });
    let report = world.report();
    assert_eq!(report.findings.failures, [], "seed {seed}");
    report
}

/// "Everything is undone when `run` returns."
fn is_as_before(world: &Handle) {
    let disks = world.device::<Disks>();
    for id in (1..=3).map(NodeId) {
        assert!(world.is_up(id) && !world.is_paused(id) && !world.is_frozen(id));
        assert_eq!((world.drift_ppm(id), disks.config(id)), (0, DiskConfig::default()));
    }
}

fn count(report: &RunReport, name: &str) -> Option<u64> {
    report.coverage.iter().find(|(counter, _)| *counter == name).map(|(_, n)| n)
}

/// When (in ms) something was sent to n2, and when it arrived there.
type Arrivals = Rc<RefCell<Vec<(u64, u64)>>>;

/// n1 says each millisecond to n2 what time it is; n2 notes when that arrives.
fn telling_the_time(seed: u64, fault: PlannedFault) -> (Vec<(u64, u64)>, RunReport) {
    let arrivals = Arrivals::default();
    let noted = arrivals.clone();
    let main = move || {
        let arrivals = arrivals.clone();
        async move {
            let now_ms = || Handle::current().now_ns() / MS;
            let socket = UdpSocket::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
            loop {
                match node::id() {
                    N1 => {
                        socket.try_send_to(&now_ms().to_le_bytes(), addr_of(N2, PORT)).expect("it is short");
                        sleep(ms(1)).await;
                    }
                    _ => {
                        let (bytes, _) = socket.recv().await.expect("the socket is alive");
                        let sent_ms = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                        arrivals.borrow_mut().push((sent_ms, now_ms()));
                    }
                }
            }
        }
    };
    let report = carry_out(seed, &plan(vec![fault]), main);
    (noted.take(), report)
}

fn n1_to_n2() -> Links {
    Links::OneWay { from: of(N1), to: of(N2) }
}

#[test]
fn a_slow_link_takes_so_many_times_as_long_and_no_longer() {
    let slow = Fault::SlowLinks { links: n1_to_n2(), factor: 20 };
    let (arrivals, report) = telling_the_time(1, between(1, slow));
    for (sent, arrived) in &arrivals {
        let took = arrived - sent;
        let is_slow = (100..200).contains(sent);
        assert!(if is_slow { (20..=60).contains(&took) } else { took <= 3 }, "sent at {sent}: {took} ms");
    }
    assert_eq!(
        (count(&report, "slow links"), count(&report, "datagrams slowed by a fault")),
        (Some(1), Some(100))
    );
}

#[test]
fn a_loss_burst_loses_everything_or_whole_buckets() {
    let burst = |per_million| between(1, Fault::LossBurst { links: Links::Of(of(N2)), per_million });
    let sent_meanwhile = |arrivals: &[(u64, u64)]| -> Vec<u64> {
        arrivals.iter().map(|(sent, _)| *sent).filter(|sent| (100..200).contains(sent)).collect()
    };
    let (arrivals, report) = telling_the_time(1, burst(1_000_000));
    assert!(sent_meanwhile(&arrivals).is_empty());
    assert_eq!(count(&report, "datagrams lost in a burst"), Some(100));
    let (arrivals, report) = telling_the_time(1, burst(500_000));
    let passed = sent_meanwhile(&arrivals);
    assert!((30..70).contains(&passed.len()), "{passed:?}");
    assert!(passed.iter().all(|at| passed.contains(&(at ^ 1))), "one of a bucket passes, all of it do");
    assert_eq!(count(&report, "datagrams lost in a burst"), Some(100 - passed.len() as u64));
    assert_eq!(count(&report, "datagrams lost"), Some(100 - passed.len() as u64));
}

#[test]
fn a_duplication_burst_delivers_twice() {
    let burst = Fault::DuplicationBurst { links: n1_to_n2(), per_million: 1_000_000 };
    let (arrivals, report) = telling_the_time(1, between(1, burst));
    let times = |at: u64| arrivals.iter().filter(|(sent, _)| *sent == at).count();
    assert!((0..100).chain(200..390).all(|at| times(at) == 1) && (100..200).all(|at| times(at) == 2));
    assert_eq!(count(&report, "datagrams duplicated in a burst"), Some(100));
}

/// "Packets arriving during the pause are lost beyond a small ring."
#[test]
fn a_frozen_machine_takes_what_its_network_card_held_when_it_goes_on() {
    let frozen = |at_ms: u64, lasts_ms: u64| PlannedFault {
        when: When::At { at_ns: at_ms * MS },
        lasts_us: lasts_ms * 1_000,
        ..fault(1, Fault::Freeze { target: of(N2) })
    };
    let (arrivals, report) = telling_the_time(1, frozen(100, 100));
    assert!((0..390).all(|at| arrivals.iter().any(|(sent, _)| *sent == at)), "all fits");
    let held = arrivals.iter().filter(|(_, arrived)| *arrived == 200).count() as u64;
    assert!(arrivals.iter().all(|(_, arrived)| !(100..200).contains(arrived)));
    assert!((98..=102).contains(&held), "{held}");
    let holds = count(&report, "datagrams held by a frozen machine").expect("it is on");
    assert!((97..=101).contains(&holds));
    assert_eq!(count(&report, "datagrams lost by a frozen machine"), Some(0));

    let (arrivals, report) = telling_the_time(1, frozen(50, 300));
    assert_eq!(count(&report, "datagrams held by a frozen machine"), Some(256));
    let lost = count(&report, "datagrams lost by a frozen machine").expect("it is on");
    assert!((40..50).contains(&lost), "{lost}");
    assert!(arrivals.iter().any(|(sent, _)| *sent == 100) && !arrivals.iter().any(|(sent, _)| *sent == 340));
}

#[test]
fn what_waits_for_a_frozen_machine_that_goes_down_is_lost_with_it() {
    let freeze = fault(1, Fault::Freeze { target: of(N2) });
    let mut off = fault(2, Fault::PowerOff { target: of(N2) });
    off.when = When::At { at_ns: 150 * MS };
    off.lasts_us = 10_000;
    let say = || async {
        let socket = UdpSocket::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
        while node::id() == N1 {
            socket.try_send_to(b"hi", addr_of(N2, PORT)).expect("it is short");
            sleep(ms(1)).await;
        }
        while socket.recv().await.is_ok() {}
    };
    let report = carry_out(1, &plan(vec![freeze, off]), say);
    let held = count(&report, "datagrams held by a frozen machine").expect("it is on");
    assert!((47..=51).contains(&held), "{held}");
    assert!(count(&report, "datagrams to a node that was down") >= Some(held));
    let missing = count(&report, "datagrams sent").expect("sent")
        - count(&report, "datagrams delivered").expect("some");
    assert!(missing <= count(&report, "datagrams to a node that was down").expect("counted") + 3);
}

/// When a sync began, how long it took (in ms), and how it came out.
type Synced = (u64, u64, Result<(), i32>);

/// n1 syncs a file again and again, with 10 ms in between.
fn syncing(seed: u64, what: Fault) -> (Vec<Synced>, RunReport) {
    let syncs: Rc<RefCell<Vec<_>>> = Rc::default();
    let noted = syncs.clone();
    let main = move || {
        let syncs = syncs.clone();
        async move {
            if node::id() != N1 {
                return std::future::pending().await;
            }
            let log = File::create("/log").await.expect("created");
            loop {
                let now_ms = || Handle::current().now_ns() / MS;
                let at = now_ms();
                let synced = async {
                    log.append(b"entry").await?;
                    log.sync_data().await
                };
                let outcome = synced.await.map_err(|error| error.raw_os_error().unwrap_or(0));
                syncs.borrow_mut().push((at, now_ms() - at, outcome));
                sleep(ms(10)).await;
            }
        }
    };
    let report = carry_out(seed, &plan(vec![fault(1, what)]), main);
    (noted.take(), report)
}

fn is_meanwhile(at: u64) -> bool {
    (100..200).contains(&at)
}

#[test]
fn a_stalled_disk_finishes_no_sync_until_it_goes_on() {
    let (syncs, report) = syncing(1, Fault::DiskStall { target: of(N1) });
    assert!(syncs.iter().all(|(at, took, _)| !is_meanwhile(at + took)), "{syncs:?}");
    assert!(syncs.iter().any(|(_, took, _)| *took > 85));
    assert!(syncs.iter().filter(|(at, ..)| *at > 200).all(|(_, took, _)| *took <= 6));
    assert_eq!(
        (count(&report, "disks stalled"), count(&report, "fsyncs held by a stalled disk")),
        (Some(1), Some(1))
    );
}

#[test]
fn a_sync_in_flight_on_a_frozen_machine_gets_nowhere() {
    for seed in 0..20 {
        let (syncs, report) = syncing(seed, Fault::Freeze { target: of(N1) });
        assert!(syncs.iter().all(|(at, took, _)| !is_meanwhile(at + took)), "{syncs:?}");
        let over = syncs.iter().filter(|(at, took, _)| *at < 100 && at + took >= 200).count() as u64;
        // A sync that was under way when all stood still takes as much longer.
        assert!(syncs.iter().all(|(_, took, _)| *took <= 6 || (100..=107).contains(took)), "{syncs:?}");
        assert_eq!(count(&report, "fsyncs held by a frozen machine"), Some(over));
    }
}

/// A sync that is held ends as any other does: a kill lets it go on, a power loss does not.
#[test]
fn a_crash_meets_a_sync_that_is_held() {
    let main = || async {
        sleep(ms(100)).await;
        let log = File::options().append(true).create(true).open("/log").await.expect("opened");
        log.append(&[1; 700]).await.expect("written");
        log.sync_data().await.expect("synced");
        std::future::pending().await
    };
    let with = |hold: Fault, crash: Fault| {
        let at = |at_ms: u64| When::At { at_ns: at_ms * MS };
        let hold = PlannedFault { when: at(101), lasts_us: 200_000, ..fault(1, hold) };
        let crash = PlannedFault { when: at(150), lasts_us: 10_000, ..fault(2, crash) };
        let report = carry_out(1, &plan(vec![hold, crash]), main);
        let names = ["fsyncs that outlived a kill", "power losses in an fsync", "fsyncs"];
        names.map(|name| report.coverage.get(name))
    };
    let (frozen, stalled) = (Fault::Freeze { target: of(N1) }, Fault::DiskStall { target: of(N1) });
    let (kill, power) = (Fault::Kill { target: of(N1) }, Fault::PowerOff { target: of(N1) });
    // The other two sync once; n1 once in each life, but for what a power loss ended.
    assert_eq!(with(frozen.clone(), kill.clone()), [1, 0, 4]);
    assert_eq!(with(stalled.clone(), kill), [1, 0, 4]);
    assert_eq!(with(frozen, power.clone()), [0, 1, 3]);
    assert_eq!(with(stalled, power), [0, 1, 3]);
}

#[test]
fn a_slow_disk_takes_longer() {
    let (syncs, report) = syncing(1, Fault::SlowDisk { target: of(N1), factor: 8 });
    let took = |range: std::ops::Range<u64>| {
        syncs.iter().filter(|(at, ..)| range.contains(at)).map(|(_, took, _)| *took).max().expect("some")
    };
    assert!((8..=48).contains(&took(100..200)) && took(0..100) <= 6 && took(200..400) <= 6);
    assert!(count(&report, "fsyncs on a slow disk") > Some(1));
}

#[test]
fn a_disk_fails_syncs_for_a_while() {
    let (syncs, report) = syncing(1, Fault::FsyncErrors { target: of(N1), per_million: 1_000_000 });
    assert!(syncs.iter().all(|(at, _, outcome)| *outcome == if is_meanwhile(*at) { Err(5) } else { Ok(()) }));
    let failed = syncs.iter().filter(|(at, ..)| is_meanwhile(*at)).count() as u64;
    assert_eq!(count(&report, "fsyncs failed"), Some(failed));
}

#[test]
fn a_disk_fails_everything_for_a_while() {
    let (syncs, report) = syncing(1, Fault::IoErrors { target: of(N1), per_million: 1_000_000 });
    assert!(syncs.iter().all(|(at, took, outcome)| match outcome {
        Err(5) => is_meanwhile(*at) && *took == 0,
        other => other.is_ok() && !is_meanwhile(*at),
    }));
    assert!(count(&report, "disk io errors") > Some(5));
}

#[test]
fn a_disk_is_full_for_a_while() {
    let full = Rc::new(RefCell::new(Vec::new()));
    let noted = full.clone();
    let main = move || {
        let full = full.clone();
        async move {
            let log = File::create("/log").await.expect("created");
            while node::id() == N1 {
                let written = log.append(&[7; 100]).await.map_err(|error| error.kind());
                full.borrow_mut().push((Handle::current().now_ns() / MS, written.map(drop)));
                sleep(ms(10)).await;
            }
            std::future::pending().await
        }
    };
    let report =
        carry_out(1, &plan(vec![between(1, Fault::DiskFull { target: of(N1), room_bytes: 250 })]), main);
    let failed: Vec<u64> = noted.borrow().iter().filter(|(_, r)| r.is_err()).map(|(at, _)| *at).collect();
    assert_eq!(failed, (12..20).map(|n| n * 10).collect::<Vec<_>>(), "two more fitted");
    assert!(noted.borrow().iter().all(|(_, r)| r.is_ok() || *r == Err(ErrorKind::StorageFull)));
    assert_eq!(count(&report, "writes to a full disk"), Some(8));
}

#[test]
fn bits_rot_when_the_power_fails_meanwhile_and_not_otherwise() {
    let rot = || fault(1, Fault::BitRot { target: of(N1), per_million: 1_000_000 });
    let off = |at_ms: u64| {
        let target = of(N1);
        PlannedFault { when: When::At { at_ns: at_ms * MS }, ..fault(2, Fault::PowerOff { target }) }
    };
    let main = || async {
        let log = File::options().read(true).append(true).create(true).open("/log").await.expect("opened");
        log.append(&[0; 512]).await.expect("written");
        log.sync_data().await.expect("synced");
        sim_io::fs::sync_dir("/").await.expect("synced");
        std::future::pending().await
    };
    let rotten = |at_ms| count(&carry_out(1, &plan(vec![rot(), off(at_ms)]), main), "sectors: rotten");
    assert_eq!((rotten(150), rotten(250)), (Some(1), Some(0)));
}

#[test]
fn wall_clocks_jump_and_rates_change_and_all_is_true_again_afterwards() {
    let looks: Rc<RefCell<Vec<_>>> = Rc::default();
    let noted = looks.clone();
    let main = move || {
        let looks = looks.clone();
        async move {
            let (wall, boot) = (time::wall_now(), Instant::now());
            while node::id() == N1 {
                let ahead = time::wall_now().as_millis() as i64 - wall.as_millis() as i64;
                let at = (Handle::current().now_ns() / MS) as i64;
                looks.borrow_mut().push((at, ahead - at, boot.elapsed().as_millis() as i64 - at));
                sleep(ms(10)).await;
            }
            std::future::pending().await
        }
    };
    let back = between(1, Fault::WallStep { target: of(N1), ahead_ms: -60_000 });
    let fast = between(2, Fault::Drift { target: of(N1), ppm: 100_000 });
    let mut again = fault(3, Fault::Drift { target: of(N1), ppm: -100_000 });
    again.when = When::At { at_ns: 150 * MS };
    let report = carry_out(1, &plan(vec![back, fast, again]), main);
    let looks = noted.take();
    for (at, wall_ahead, instant_ahead) in looks {
        assert_eq!(wall_ahead, if is_meanwhile(at as u64) { -60_000 } else { 0 }, "at {at}");
        let expected = (at.clamp(100, 200) - 100) / 10;
        assert!((instant_ahead - expected).abs() <= 1, "at {at}: {instant_ahead}, not {expected}");
    }
    assert_eq!(
        (count(&report, "wall clocks stepped"), count(&report, "clocks drifting")),
        (Some(1), Some(1))
    );
    assert_eq!(count(&report, "faults that found nothing to do"), Some(1), "one holds the clock already");
    assert!(count(&report, "wall times read after a step") > Some(8));
    assert!(count(&report, "waits on a drifting clock") > Some(8));
}

#[test]
fn what_is_on_and_strikes_nobody_is_reported_as_never_reached() {
    let idle = || std::future::pending::<()>();
    let report = carry_out(1, &plan(vec![fault(1, Fault::DiskStall { target: of(N1) })]), idle);
    assert_eq!(
        (count(&report, "disks stalled"), count(&report, "fsyncs held by a stalled disk")),
        (Some(1), Some(0))
    );
    assert_eq!(count(&report, "fsyncs failed"), None);
    let kinds = FaultKind::ALL.to_vec();
    let report = carry_out(1, &Plan { kinds, ..plan(Vec::new()) }, idle);
    for name in FaultKind::ALL.into_iter().flat_map(FaultKind::effects) {
        assert_eq!(count(&report, name), Some(0), "{name}");
    }
}

#[test]
fn a_kind_with_its_own_sequence_moves_no_other() {
    let kinds = |kind: &FaultKind| PlanConfig::only(&[FaultKind::Kill, *kind]).for_nodes(3, 2);
    let kills = Plan::derive(7, &PlanConfig::only(&[FaultKind::Kill]).for_nodes(3, 2)).faults;
    let beside: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(|kind| kind.has_own_sequence()).collect();
    let all = PlanConfig::only(&[vec![FaultKind::Kill], beside.clone()].concat()).for_nodes(3, 2);
    let all = Plan::derive(7, &all).faults;
    for kind in &beside {
        let both = Plan::derive(7, &kinds(kind)).faults;
        let of_kind: Vec<_> = both.iter().filter(|fault| fault.what.kind() == *kind).collect();
        assert!((15..40).contains(&of_kind.len()), "{kind:?}: {} in 6 s", of_kind.len());
        assert_eq!(
            both.iter().filter(|f| f.what.kind() == FaultKind::Kill).collect::<Vec<_>>(),
            kills.iter().collect::<Vec<_>>()
        );
        assert_eq!(all.iter().filter(|f| f.what.kind() == *kind).collect::<Vec<_>>(), of_kind);
    }
    let mut ids: Vec<u32> = all.iter().map(|fault| fault.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len(), "ids are unique");
}

/// Writes, syncs and talks, and gets over every error.
async fn busy() {
    let socket = UdpSocket::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
    loop {
        let written = async {
            let log = File::options().append(true).create(true).open("/log").await?;
            log.append(&[1; 700]).await?;
            log.sync_data().await?;
            sim_io::fs::sync_dir("/").await
        };
        let _ = written.await;
        for other in (1..=3).map(NodeId).filter(|other| *other != node::id()) {
            socket
                .try_send_to(&time::wall_now().as_nanos().to_le_bytes(), addr_of(other, PORT))
                .expect("it is short");
        }
        sleep(ms(5)).await;
        while let Some(Ok(_)) = futures::FutureExt::now_or_never(socket.recv()) {}
    }
}

#[test]
fn whatever_a_plan_does_is_undone_and_every_kind_does_something() {
    let config = PlanConfig { heal_at_ms: 3_000, ..PlanConfig::only(&FaultKind::ALL).for_nodes(3, 0) };
    let mut seen = sim_runtime::device::Coverage::default();
    for seed in 0..30 {
        let plan = Plan::derive(seed, &config);
        let text = serde_json::to_string(&plan).expect("a plan is plain data");
        assert_eq!(serde_json::from_str::<Plan>(&text).expect("it was written just now"), plan);
        let report = carry_out(seed, &plan, busy);
        assert_eq!(report.digest(), carry_out(seed, &plan, busy).digest(), "seed {seed}");
        seen.merge(&report.coverage);
    }
    for name in FaultKind::ALL.into_iter().flat_map(|kind| kind.counters().iter().chain(kind.effects())) {
        assert!(
            seen.get(name) > 0 || *name == "datagrams lost by a frozen machine",
            "{name} was never reached"
        );
    }
}

/// Else what is under way outlives the fault by far, and a stream stands still behind it.
#[test]
fn a_slow_link_does_not_multiply_the_tail() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    let net = handle.device::<Net>();
    net.configure(NetConfig { tail_per_million: 1_000_000, tail_factor: 20, ..NetConfig::calm() });
    let received = Rc::new(RefCell::new(None));
    let note = received.clone();
    let node = handle.add_node("receiver", move || {
        let note = note.clone();
        async move {
            let socket = UdpSocket::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
            socket.recv().await.expect("the socket is alive");
            note.replace(Some(Handle::current().now_ns()));
        }
    });
    handle.boot(node);
    net.burst(1, NodeId::HOST, node, Burst::Slow { factor: 50 });
    world.run(async move {
        let socket = UdpSocket::bind(addr_of(NodeId::HOST, 0)).await.expect("a port is free");
        socket.send_to(b"x", addr_of(node, PORT)).await.expect("it is short");
        sleep(Duration::from_secs(5)).await;
    });
    // 1 to 3 ms, fifty times; with the tail of twenty times on top it would be a second at least.
    let received_ns = received.take().expect("it is received");
    assert!((50 * MS..=150 * MS).contains(&received_ns), "after {received_ns} ns");
}
