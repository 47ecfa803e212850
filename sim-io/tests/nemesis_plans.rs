//! Plans as data, and what carrying them out does to nodes and links.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use sim_io::nemesis::{self, Aim, Fault, FaultKind, Plan, PlanConfig, PlannedFault, Target, When};
use sim_io::net::{Net, NetConfig, UdpSocket, addr_of};
use sim_io::records::{DatagramSent, FaultBegan};
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::time::sleep;
use sim_runtime::trace::{NodeDown, NodeUp};
use sim_runtime::verdict::{Findings, RunReport};
use sim_runtime::{Handle, NodeId, Options, World, node, probe};

const MS: u64 = 1_000_000;
const PORT: u16 = 7;

fn nodes(ids: &[u16]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

fn target(ids: &[u16]) -> Target {
    Target::Nodes(nodes(ids))
}

/// A fault that begins at `at_ms` and lasts `lasts_ms`.
fn fault(id: u32, at_ms: u64, lasts_ms: u64, what: Fault) -> PlannedFault {
    PlannedFault { id, when: When::At { at_ns: at_ms * MS }, what, lasts_us: lasts_ms * 1_000 }
}

fn plan(servers: u16, faults: Vec<PlannedFault>) -> Plan {
    Plan { servers, clients: 1, faults, heal_at_ns: 1_000 * MS, ..Plan::default() }
}

/// What happened: (millisecond, node, what).
type Log = Rc<RefCell<Vec<(u64, NodeId, &'static str)>>>;

/// A datagram that was sent: from, to, when, and when it arrives (0 if never).
type Sent = (NodeId, NodeId, u64, u64);

/// Logs boots, ends and datagrams sent.
struct Logger {
    log: Log,
    arrivals: Rc<RefCell<Vec<Sent>>>,
}

impl Invariant for Logger {
    fn name(&self) -> &'static str {
        "logger"
    }
    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        for record in view.fresh() {
            let what = if record.get::<NodeUp>().is_some() {
                "up"
            } else if record.get::<NodeDown>().is_some() {
                "down"
            } else if record.get::<FaultBegan>().is_some() {
                "fault"
            } else {
                if let Some(sent) = record.get::<DatagramSent>() {
                    let arrival = (record.node, sent.to, record.time_ns, sent.arrives_ns);
                    self.arrivals.borrow_mut().push(arrival);
                }
                continue;
            };
            self.log.borrow_mut().push((record.time_ns / MS, record.node, what));
        }
    }
}

struct Run {
    report: RunReport,
    log: Vec<(u64, NodeId, &'static str)>,
    arrivals: Vec<Sent>,
    all_up: bool,
}

impl Run {
    /// Downs and ups after the first boots.
    fn lives(&self) -> Vec<(u64, u16, &'static str)> {
        let later = self.log.iter().filter(|(ms, _, what)| *ms > 0 && *what != "fault");
        later.map(|(ms, node, what)| (*ms, node.0, *what)).collect()
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.report.coverage.iter().find(|(counter, _)| *counter == name).map(|(_, n)| n)
    }
}

/// Every node says a word to every other each 10 ms.
async fn gossip(all: u16) {
    let me = node::id();
    let socket = UdpSocket::bind(addr_of(me, PORT)).await.expect("the port is free");
    loop {
        for other in (1..=all).map(NodeId).filter(|other| *other != me) {
            socket.try_send_to(b"hi", addr_of(other, PORT)).expect("it is short");
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Carries `plan` out over servers and clients that run `main`; the harness looks at the world meanwhile.
fn carry_out<F>(
    plan: &Plan,
    main: impl Fn() -> F + Clone + 'static,
    look: impl FnOnce(Handle) + 'static,
) -> Run
where
    F: Future<Output = ()> + 'static,
{
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
    let mut world = World::new(7, options);
    let (log, arrivals) = (Log::default(), Rc::default());
    world.watch(Logger { log: log.clone(), arrivals: Rc::clone(&arrivals) });
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::default());
    let all = plan.servers + plan.clients;
    for id in 1..=all {
        handle.add_node(&format!("n{id}"), main.clone());
        handle.boot(NodeId(id));
    }
    let plan = plan.clone();
    let ended = handle.clone();
    world.run(async move {
        let looked = sim_runtime::spawn(async move {
            sleep(Duration::from_millis(150)).await;
            look(handle);
        });
        nemesis::run(plan).await;
        looked.await.expect("the harness does not panic");
    });
    let all_up = (1..=all).map(NodeId).all(|id| ended.is_up(id) && !ended.is_paused(id));
    let report = world.report();
    assert_eq!(report.findings.failures, [], "the harness's own assertions hold");
    Run { report, log: log.take(), arrivals: arrivals.take(), all_up }
}

fn gossiping(plan: &Plan) -> Run {
    let all = plan.servers + plan.clients;
    carry_out(plan, move || gossip(all), |_| ())
}

#[test]
fn a_partition_parts_clients_too() {
    let sides = vec![nodes(&[1, 4]), nodes(&[2, 3])];
    let parted = plan(3, vec![fault(1, 100, 100, Fault::Partition { sides })]);
    let run = carry_out(
        &parted,
        || gossip(4),
        |world| {
            let net = world.device::<Net>();
            let cut = |a, b| net.is_cut(NodeId(a), NodeId(b)) && net.is_cut(NodeId(b), NodeId(a));
            assert!(cut(4, 2) && cut(4, 3) && cut(1, 2) && cut(1, 3));
            assert!(!cut(4, 1) && !cut(2, 3) && !cut(0, 2));
        },
    );
    assert_eq!((run.count("partitions"), run.count("partitions with a bridge")), (Some(1), None));
    assert!(run.count("datagrams cut off") > Some(0));
}

#[test]
fn a_node_on_two_sides_is_a_bridge() {
    let bridge = Fault::Partition { sides: vec![nodes(&[1, 2]), nodes(&[2, 3])] };
    let run = carry_out(
        &plan(3, vec![fault(1, 100, 100, bridge)]),
        || gossip(4),
        |world| {
            let net = world.device::<Net>();
            let cut = |a, b| net.is_cut(NodeId(a), NodeId(b));
            assert!(cut(1, 3) && cut(3, 1) && !cut(1, 2) && !cut(3, 2) && cut(4, 2));
        },
    );
    assert_eq!(run.count("partitions with a bridge"), Some(1));
}

#[test]
fn links_that_two_faults_hold_are_open_when_both_have_ended() {
    let isolated = fault(1, 100, 100, Fault::Isolate { target: target(&[1]) });
    let one_way = fault(2, 120, 20, Fault::CutOneWay { from: target(&[1]), to: target(&[2]) });
    let run = carry_out(
        &plan(3, vec![isolated, one_way]),
        || gossip(4),
        |world| {
            // At 150 ms the second fault is over and the first is not.
            let net = world.device::<Net>();
            assert!(net.is_cut(NodeId(1), NodeId(2)) && net.is_cut(NodeId(2), NodeId(1)));
        },
    );
    let lost = |run: &Run, from_ms, to_ms| {
        let during = run.arrivals.iter().filter(|(from, to, at, _)| {
            (*from, *to) == (NodeId(1), NodeId(2)) && (from_ms * MS..to_ms * MS).contains(at)
        });
        during.filter(|(_, _, _, arrives)| *arrives == 0).count()
    };
    assert_eq!((lost(&run, 101, 199), lost(&run, 201, 300)), (9, 0));
    assert_eq!((run.count("isolations"), run.count("links cut one way")), (Some(1), Some(1)));
}

#[test]
fn power_fails_everywhere_at_one_instant_and_comes_back() {
    let run = gossiping(&plan(3, vec![fault(1, 100, 50, Fault::PowerOff { target: Target::AllServers })]));
    let expected = [(100, 1, "down"), (100, 2, "down"), (100, 3, "down"), (150, 1, "up"), (150, 2, "up")];
    assert_eq!(run.lives(), [&expected[..], &[(150, 3, "up")]].concat());
    assert_eq!((run.count("power losses: all"), run.count("power losses: one")), (Some(1), Some(0)));
}

#[test]
fn a_fault_takes_hold_of_nothing_that_another_one_holds() {
    let kill = |id, at_ms, lasts_ms| fault(id, at_ms, lasts_ms, Fault::Kill { target: target(&[1]) });
    let run = gossiping(&plan(3, vec![kill(1, 100, 100), kill(2, 150, 10), kill(3, 300, 5)]));
    assert_eq!(run.lives(), [(100, 1, "down"), (200, 1, "up"), (300, 1, "down"), (305, 1, "up")]);
    assert_eq!((run.count("crashes: one"), run.count("faults that found nothing to do")), (Some(2), Some(1)));
}

#[test]
fn a_pause_that_outlives_its_process_does_not_touch_the_next_one() {
    let pause = fault(1, 100, 100, Fault::Pause { target: target(&[1]) });
    let kill = fault(2, 110, 10, Fault::Kill { target: target(&[1]) });
    let again = fault(3, 190, 100, Fault::Pause { target: target(&[1]) });
    let run = carry_out(
        &plan(3, vec![pause, kill, again]),
        || gossip(4),
        |world| {
            assert!(world.is_up(NodeId(1)) && !world.is_paused(NodeId(1)));
        },
    );
    // The first pause ends at 200 ms and must not end the third.
    let spoke = |from_ms: u64, to_ms: u64| {
        let by_one = run.arrivals.iter().filter(|(from, ..)| *from == NodeId(1));
        by_one.filter(|(_, _, at, _)| (from_ms * MS..to_ms * MS).contains(at)).count()
    };
    assert_eq!((spoke(101, 110), spoke(201, 290)), (0, 0));
    assert!(spoke(121, 189) > 0 && spoke(291, 400) > 0);
    assert_eq!(run.count("pauses"), Some(2));
}

#[test]
fn when_all_is_healed_everything_is_up_and_every_link_open() {
    let faults = vec![
        fault(1, 100, 10_000, Fault::PowerOff { target: target(&[1, 2]) }),
        fault(2, 100, 10_000, Fault::Pause { target: target(&[3]) }),
        fault(3, 100, 10_000, Fault::CutLink { one: target(&[3]), other: target(&[4]) }),
        fault(4, 2_000, 10, Fault::Kill { target: target(&[4]) }),
    ];
    let run = gossiping(&plan(3, faults));
    assert!(run.all_up);
    assert_eq!(run.lives()[2..], [(1_000, 1, "up"), (1_000, 2, "up")]);
    assert_eq!(run.count("crashes: one"), Some(0), "a fault after the end never begins");
}

#[test]
fn faults_find_windows_points_and_roles() {
    /// Opens a window of 10 ms at 200 ms, passes a point at 300 ms, leads from 400 ms on.
    async fn eventful() {
        sleep(Duration::from_millis(200)).await;
        let window = probe::window("fsync in flight", Some(Duration::from_millis(10)));
        sleep(Duration::from_millis(10)).await;
        drop(window);
        sleep(Duration::from_millis(90)).await;
        probe::point("vote granted");
        sleep(Duration::from_millis(100)).await;
        Handle::current().set_role("leader");
        std::future::pending().await
    }
    let kill =
        |id, when| PlannedFault { id, when, what: Fault::Kill { target: Target::Hit }, lasts_us: 2_000_000 };
    let name = |name: &str| name.to_owned();
    let faults = vec![
        kill(
            1,
            When::Window {
                name: name("fsync in flight"),
                node: Some(NodeId(2)),
                after_ns: 0,
                fraction_per_mille: 500,
            },
        ),
        kill(2, When::Point { name: name("vote granted"), after_ns: 0, delay_us: 1_000 }),
        kill(3, When::Role { role: name("leader"), after_ns: 0 }),
        kill(4, When::Role { role: name("king"), after_ns: 0 }),
    ];
    let run = carry_out(&plan(3, faults), eventful, |_| ());
    // The point is passed first by the node whose task happens to run first; it is down when the role comes.
    let downs: Vec<u64> =
        run.lives().iter().filter(|(.., what)| *what == "down").map(|(ms, ..)| *ms).collect();
    assert_eq!(downs, [205, 301, 400]);
    assert_eq!(run.lives()[0].1, 2);
    assert_eq!((run.count("aimed faults fired"), run.count("aimed faults never fired")), (Some(3), Some(1)));
    assert_eq!(run.count("window hit: fsync in flight"), Some(1));
}

fn reference() -> PlanConfig {
    let aims = vec![Aim::Window("fsync in flight".into()), Aim::Role("leader".into())];
    PlanConfig { aims, roles: vec!["leader".into()], ..PlanConfig::all() }.for_nodes(5, 3)
}

#[test]
fn a_plan_is_data_and_survives_a_file() {
    let plan = Plan::derive(7, &reference());
    let text = serde_json::to_string(&plan).expect("a plan is plain data");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("it was written just now"), plan);
    let config = serde_json::to_string(&reference()).expect("a configuration is plain data");
    assert_eq!(serde_json::from_str::<PlanConfig>(&config).expect("it was written just now"), reference());
    let unknown = text.replacen("\"lasts_us\"", "\"lasts_ms\"", 1);
    assert!(serde_json::from_str::<Plan>(&unknown).is_err(), "unknown fields are refused");
}

#[test]
fn plans_are_functions_of_the_seed_and_reach_every_kind() {
    let plans: Vec<Plan> = (1..=200).map(|seed| Plan::derive(seed, &reference())).collect();
    assert_eq!(plans[6], Plan::derive(7, &reference()));
    assert_ne!(plans[6].faults, plans[7].faults);
    let kinds = |kind| plans.iter().flat_map(|plan| &plan.faults).filter(|f| f.what.kind() == kind).count();
    let failing = PlanConfig::failing_disks().kinds;
    for kind in FaultKind::ALL {
        assert!(if failing.contains_key(&kind) { kinds(kind) == 0 } else { kinds(kind) > 50 }, "{kind:?}");
    }
    for fault in plans.iter().flat_map(|plan| &plan.faults) {
        assert!(fault.lasts_us >= 1_000 && fault.lasts_us <= 1_000_000, "{fault:?}");
        let victims = match &fault.what {
            Fault::Kill { target } | Fault::PowerOff { target } => target,
            Fault::Pause { target } | Fault::Freeze { target } => target,
            _ => continue,
        };
        if let Target::Nodes(nodes) = victims {
            assert!(nodes.iter().all(|node| (1..=5).contains(&node.0)), "only servers go down: {fault:?}");
        }
    }
}

#[test]
fn switching_a_kind_on_does_not_move_the_faults_in_time() {
    let times = |config: &PlanConfig| -> Vec<u64> {
        let faults = Plan::derive(7, config).faults.into_iter();
        let shared = faults.filter(|fault| !fault.what.kind().has_own_sequence());
        shared.map(|fault| fault.when.earliest_ns()).collect()
    };
    let kills = PlanConfig::only(&[FaultKind::Kill]).for_nodes(5, 3);
    assert_eq!(times(&kills), times(&reference()));
}

#[test]
fn taking_one_fault_out_leaves_the_links_as_they_were() {
    let config =
        PlanConfig { heal_at_ms: 1_000, ..PlanConfig::only(&[FaultKind::Pause, FaultKind::Isolate]) };
    let whole = Plan::derive(7, &config.for_nodes(3, 1));
    let less = whole.without(2);
    assert_eq!(less.faults.len() + 1, whole.faults.len());
    let (whole, less) = (gossiping(&whole), gossiping(&less));
    let find = |run: &Run, (from, to, at, _): Sent| {
        run.arrivals.iter().find(|other| (other.0, other.1, other.2) == (from, to, at)).map(|other| other.3)
    };
    // What arrives in both runs was sent at the same time in both, and takes equally long.
    let both: Vec<(u64, u64)> = (whole.arrivals.iter().filter(|sent| sent.3 > 0))
        .filter_map(|sent| Some((sent.3, find(&less, *sent).filter(|arrives| *arrives > 0)?)))
        .collect();
    assert!(both.len() > 500, "{} datagrams arrive in both runs", both.len());
    assert!(both.iter().all(|(one, other)| one == other));
}

#[test]
fn simpler_plans_have_less_of_something_and_the_boldest_comes_first() {
    let plan = Plan::derive(7, &reference());
    let simpler = plan.simpler();
    assert!(simpler[0].faults.len() <= plan.faults.len().div_ceil(2));
    assert!(simpler.iter().all(|other| *other != plan));
    for fault in &plan.faults {
        assert!(simpler.contains(&plan.without(fault.id)), "without fault {}", fault.id);
    }
    assert!(Plan::none(1).simpler().is_empty());
}

#[test]
fn counters_tell_off_from_on_but_never_reached() {
    let kinds = vec![FaultKind::PowerOff, FaultKind::Pause];
    let run = gossiping(&Plan { kinds, ..plan(3, Vec::new()) });
    assert_eq!((run.count("power losses: all"), run.count("pauses")), (Some(0), Some(0)));
    assert_eq!((run.count("partitions"), run.count("crashes: one")), (None, None));
}

#[test]
fn two_faults_of_one_id_are_refused_before_anything_happens() {
    let mut world = World::new(1, Options::default());
    let twice = |at_ms| fault(1, at_ms, 100, Fault::Kill { target: target(&[1]) });
    let done = world.run(nemesis::run(plan(1, vec![twice(1), twice(500)])));
    assert!(done.is_none());
    let report = world.report();
    let text = &report.findings.first().expect("a panic is a finding").evidence;
    assert!(text.contains("an id of its own"), "{text}");
}
