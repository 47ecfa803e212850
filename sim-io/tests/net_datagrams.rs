//! Datagrams as programs see them: ports, buffers, errors, loss, copies, overtaking.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use sim_io::net::{MAX_DATAGRAM_BYTES, Net, NetConfig, UdpSocket, addr_of};
use sim_runtime::device::Coverage;
use sim_runtime::time::{sleep, timeout};
use sim_runtime::verdict::RunReport;
use sim_runtime::{Handle, NodeId, Options, World, spawn};

const PORT: u16 = 7;
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A world without held wakes, so that times can be told exactly.
fn world(seed: u64, config: NetConfig) -> World {
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
    let world = World::new(seed, options);
    world.handle().device::<Net>().configure(config);
    world
}

/// Adds and boots a node that runs `main` at each boot.
fn node<F: Future<Output = ()> + 'static>(world: &Handle, main: impl Fn() -> F + 'static) -> NodeId {
    let id = world.add_node("node", main);
    world.boot(id);
    id
}

async fn bind(port: u16) -> UdpSocket {
    UdpSocket::bind(addr_of(sim_runtime::node::id(), port)).await.expect("the port is free")
}

/// What a node received.
type Inbox = Rc<RefCell<Vec<Vec<u8>>>>;

/// A node that keeps all it receives on [`PORT`].
fn listener(world: &Handle) -> (NodeId, Inbox) {
    let inbox = Inbox::default();
    let kept = inbox.clone();
    let id = node(world, move || {
        let inbox = kept.clone();
        async move {
            let socket = bind(PORT).await;
            while let Ok((datagram, _)) = socket.recv().await {
                inbox.borrow_mut().push(datagram);
            }
        }
    });
    (id, inbox)
}

#[test]
fn a_port_has_one_owner_and_is_free_again_when_it_lets_go() {
    let mut world = world(1, NetConfig::calm());
    world
        .run(async {
            let first = bind(PORT).await;
            let second = UdpSocket::bind(addr_of(NodeId::HOST, PORT)).await;
            assert_eq!(second.expect_err("it is taken").kind(), ErrorKind::AddrInUse);
            drop(first);
            bind(PORT).await;
            let anywhere = UdpSocket::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)).await;
            anywhere.expect("0.0.0.0 is here");
            let elsewhere = UdpSocket::bind(addr_of(NodeId(9), PORT)).await;
            assert_eq!(elsewhere.expect_err("it is not here").kind(), ErrorKind::AddrNotAvailable);
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.failures, []);
}

#[test]
fn port_zero_means_a_new_ephemeral_port_each_time() {
    let mut world = world(1, NetConfig::calm());
    let ports = world.run(async {
        let (a, b) = (bind(0).await, bind(0).await);
        let port = |socket: &UdpSocket| socket.local_addr().expect("it is bound").port();
        let (first, second) = (port(&a), port(&b));
        drop(a);
        [first, second, port(&bind(0).await)]
    });
    assert_eq!(ports, Some([49_152, 49_153, 49_154]));
}

#[test]
fn what_cannot_be_sent_is_refused_as_the_system_does() {
    let mut world = world(1, NetConfig::calm());
    world
        .run(async {
            let socket = bind(0).await;
            let too_long = socket.try_send_to(&vec![0; MAX_DATAGRAM_BYTES + 1], addr_of(A, PORT));
            assert_eq!(too_long.expect_err("too long").raw_os_error(), Some(90));
            let port_zero = socket.try_send_to(b"", addr_of(A, 0));
            assert_eq!(port_zero.expect_err("port 0").kind(), ErrorKind::InvalidInput);
            let abroad = socket.try_send_to(b"", (Ipv4Addr::new(192, 168, 0, 1), PORT));
            assert_eq!(abroad.expect_err("no route").kind(), ErrorKind::NetworkUnreachable);
            let nobody = socket.try_send_to(b"abc", addr_of(NodeId(900), PORT));
            assert_eq!(nobody.expect("nobody tells"), 3);
            assert_eq!(socket.try_recv_from(&mut []).expect_err("empty").kind(), ErrorKind::WouldBlock);
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.failures, []);
}

#[test]
fn a_short_buffer_cuts_the_datagram_off_and_the_rest_is_gone() {
    let mut world = world(1, NetConfig::calm());
    world
        .run(async {
            let socket = bind(PORT).await;
            for text in ["a long one", "next"] {
                socket.send_to(text.as_bytes(), addr_of(NodeId::HOST, PORT)).await.expect("it is short");
            }
            let mut buffer = [0; 6];
            let (len, from) = socket.recv_from(&mut buffer).await.expect("it is alive");
            assert_eq!((&buffer[..len], from), (&b"a long"[..], addr_of(NodeId::HOST, PORT)));
            let (len, _) = socket.recv_from(&mut buffer).await.expect("it is alive");
            assert_eq!(&buffer[..len], b"next");
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.failures, []);
}

#[test]
fn a_datagram_to_oneself_is_quick_and_never_lost() {
    let lossy =
        NetConfig { loss_per_million: 1_000_000, duplicate_per_million: 1_000_000, ..NetConfig::calm() };
    let mut world = world(1, lossy);
    let handle = world.handle();
    world
        .run(async move {
            let socket = bind(PORT).await;
            for _ in 0..100 {
                socket.send_to(b"me", addr_of(NodeId::HOST, PORT)).await.expect("it is short");
                socket.recv().await.expect("it is alive");
            }
            assert!(handle.now_ns() < 2_000_000, "{} ns", handle.now_ns());
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().coverage.get("datagrams delivered"), 100);
}

#[test]
fn a_full_buffer_drops_what_comes_and_counts_it() {
    let mut world = world(1, NetConfig { receive_buffer_bytes: 3 * (256 + 10), ..NetConfig::calm() });
    world
        .run(async {
            let (deaf, speaker) = (bind(PORT).await, bind(0).await);
            for _ in 0..5 {
                speaker.try_send_to(&[0; 10], addr_of(NodeId::HOST, PORT)).expect("it is short");
            }
            sleep(ms(1)).await;
            for _ in 0..3 {
                deaf.try_recv_from(&mut [0; 10]).expect("three fit");
            }
            assert_eq!(deaf.try_recv_from(&mut []).expect_err("two did not").kind(), ErrorKind::WouldBlock);
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().coverage.get("datagrams dropped by a full buffer"), 2);
}

#[test]
fn a_datagram_under_way_reaches_the_next_incarnation_that_binds_the_port() {
    let calm = NetConfig { latency_min_us: 3_000, ..NetConfig::calm() };
    let mut world = world(1, calm);
    let handle = world.handle();
    let (b, inbox) = listener(&handle);
    world.run(async move {
        sleep(ms(1)).await;
        let socket = bind(0).await;
        socket.try_send_to(b"sent to the dead", addr_of(b, PORT)).expect("it is short");
        handle.kill(b, 1);
        sleep(ms(1)).await;
        handle.restart(b);
        sleep(ms(10)).await;
        socket.try_send_to(b"sent into the void", addr_of(b, PORT)).expect("it is short");
        handle.kill(b, 2);
        sleep(ms(10)).await;
        handle.restart(b);
        sleep(ms(10)).await;
    });
    assert_eq!(*inbox.borrow(), [b"sent to the dead"]);
    assert_eq!(world.report().coverage.get("datagrams to a node that was down"), 1);
}

#[test]
fn the_socket_of_a_dead_incarnation_is_inert() {
    let mut world = world(1, NetConfig::calm());
    let handle = world.handle();
    let leaked: Rc<RefCell<Option<Rc<UdpSocket>>>> = Rc::default();
    let leak = leaked.clone();
    let a = node(&handle, move || {
        let leak = leak.clone();
        async move {
            let socket = Rc::new(bind(PORT).await);
            leak.borrow_mut().get_or_insert(socket.clone());
            std::future::pending::<()>().await;
            drop(socket);
        }
    });
    let taken = leaked.clone();
    world
        .run(async move {
            sleep(ms(1)).await;
            handle.kill(a, 1);
            handle.restart(a);
            sleep(ms(1)).await;
            let socket = taken.borrow().clone().expect("the first incarnation left it");
            let sent = socket.try_send_to(b"from the grave", addr_of(a, PORT));
            assert_eq!(sent.expect_err("it is dead").kind(), ErrorKind::NotConnected);
            let received = timeout(ms(10), socket.recv()).await.expect("an error at once");
            assert_eq!(received.expect_err("it is dead").kind(), ErrorKind::NotConnected);
        })
        .expect("the run goes to its end");
    // Dropping the old handle does not close the port of the new incarnation.
    leaked.take();
    let handle = world.handle();
    world.run(async move {
        bind(0).await.try_send_to(b"hello", addr_of(a, PORT)).expect("it is short");
        sleep(ms(10)).await;
        handle.kill(a, 2);
    });
    let report = world.report();
    let sent_and_delivered = ["datagrams sent", "datagrams delivered"].map(|name| report.coverage.get(name));
    assert_eq!(sent_and_delivered, [1, 1]);
}

#[test]
fn a_paused_process_receives_afterwards_what_came_meanwhile() {
    let mut world = world(1, NetConfig::calm());
    let handle = world.handle();
    let (b, inbox) = listener(&handle);
    let seen = inbox.clone();
    world
        .run(async move {
            sleep(ms(1)).await;
            handle.pause(b);
            let socket = bind(0).await;
            for n in 0..3 {
                socket.try_send_to(&[n], addr_of(b, PORT)).expect("it is short");
            }
            sleep(ms(100)).await;
            assert_eq!(seen.borrow().len(), 0);
            handle.resume(b);
        })
        .expect("the run goes to its end");
    world.run(sleep(ms(1)));
    assert_eq!(*inbox.borrow(), [[0], [1], [2]]);
}

#[test]
fn several_tasks_may_wait_at_one_socket() {
    let mut world = world(1, NetConfig::calm());
    let received = world.run(async {
        let socket = Rc::new(bind(PORT).await);
        let waiting = [1, 2].map(|_| {
            let socket = socket.clone();
            spawn(async move { socket.recv().await.expect("it is alive").0 })
        });
        sleep(ms(1)).await;
        for text in [b"a", b"b"] {
            socket.try_send_to(text, addr_of(NodeId::HOST, PORT)).expect("it is short");
        }
        let mut received = Vec::new();
        for task in waiting {
            received.push(task.await.expect("nobody aborts it"));
        }
        received.sort();
        received
    });
    assert_eq!(received, Some(vec![b"a".to_vec(), b"b".to_vec()]));
}

#[test]
fn a_one_way_cut_leaves_the_way_back_open() {
    let mut world = world(1, NetConfig::calm());
    let handle = world.handle();
    let (a, at_a) = listener(&handle);
    let (b, at_b) = listener(&handle);
    assert_eq!((a, b), (A, B));
    handle.device::<Net>().cut(NodeId::HOST, b);
    world.run(async move {
        let socket = bind(PORT).await;
        socket.try_send_to(b"a", addr_of(a, PORT)).expect("it is short");
        socket.try_send_to(b"b", addr_of(b, PORT)).expect("nobody tells");
        sleep(ms(10)).await;
    });
    assert_eq!((at_a.borrow().len(), at_b.borrow().len()), (1, 0));
}

#[test]
fn a_datagram_is_lost_if_its_link_is_cut_when_it_would_arrive() {
    let mut world = world(1, NetConfig { latency_min_us: 3_000, ..NetConfig::calm() });
    let handle = world.handle();
    let (a, inbox) = listener(&handle);
    world.run(async move {
        let (socket, net) = (bind(0).await, handle.device::<Net>());
        socket.try_send_to(b"under way", addr_of(a, PORT)).expect("it is short");
        sleep(ms(1)).await;
        net.cut(NodeId::HOST, a);
        sleep(ms(3)).await;
        net.heal(NodeId::HOST, a);
        socket.try_send_to(b"outlives a short cut", addr_of(a, PORT)).expect("it is short");
        net.cut(NodeId::HOST, a);
        sleep(ms(1)).await;
        net.heal(NodeId::HOST, a);
        sleep(ms(3)).await;
    });
    assert_eq!(*inbox.borrow(), [b"outlives a short cut"]);
}

#[test]
fn a_link_is_open_again_when_every_cut_is_healed() {
    let mut world = world(1, NetConfig::calm());
    let net = world.handle().device::<Net>();
    net.cut(A, B);
    net.cut(A, B);
    net.heal(A, B);
    assert!(net.is_cut(A, B) && !net.is_cut(B, A));
    net.heal(A, B);
    assert!(!net.is_cut(A, B));
    world.run(async {});
}

/// Sends a numbered datagram every 100 µs for `seconds`; returns the numbers as they arrived.
fn stream_of_datagrams(seed: u64, config: NetConfig, seconds: u64) -> (Vec<u32>, Coverage) {
    let mut world = world(seed, config);
    let handle = world.handle();
    let (a, inbox) = listener(&handle);
    world.run(async move {
        let socket = bind(0).await;
        for n in 0..(seconds * 10_000) as u32 {
            socket.try_send_to(&n.to_le_bytes(), addr_of(a, PORT)).expect("it is short");
            sleep(Duration::from_micros(100)).await;
        }
        sleep(ms(100)).await;
    });
    let number = |bytes: &Vec<u8>| u32::from_le_bytes(bytes[..].try_into().expect("four bytes were sent"));
    let numbers = inbox.borrow().iter().map(number).collect();
    (numbers, world.report().coverage)
}

fn assert_about(counted: u64, expected: u64) {
    let (low, high) = (expected * 8 / 10, expected * 12 / 10);
    assert!((low..=high).contains(&counted), "{counted} is not about {expected}");
}

#[test]
fn losses_copies_and_delays_are_about_as_often_as_configured() {
    let config = NetConfig {
        latency_min_us: 1_000,
        latency_max_us: 1_000,
        loss_per_million: 50_000,
        duplicate_per_million: 50_000,
        reorder_per_million: 20_000,
        ..NetConfig::calm()
    };
    let (numbers, coverage) = stream_of_datagrams(3, config, 20);
    assert_about(coverage.get("datagrams lost"), 10_000);
    assert_about(coverage.get("datagrams duplicated"), 9_500);
    assert_about(coverage.get("datagrams held up"), 3_800);
    // Each that is held up for longer than 100 µs is overtaken by the next one, unless that is held up too.
    assert_about(coverage.get("datagrams overtaken"), 3_700);
    assert_eq!(coverage.get("datagrams delivered"), numbers.len() as u64);
    assert_eq!(
        numbers.len() as u64,
        200_000 - coverage.get("datagrams lost") + coverage.get("datagrams duplicated")
    );
}

#[test]
fn a_calm_network_loses_nothing_and_has_no_counters_for_it() {
    let config = NetConfig { latency_min_us: 1_000, latency_max_us: 1_000, ..NetConfig::calm() };
    let (numbers, coverage) = stream_of_datagrams(3, config, 1);
    assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
    assert!(coverage.iter().all(|(name, _)| name != "datagrams lost" && name != "datagrams duplicated"));
}

/// One datagram with these bytes, and what the run looked like.
fn report_of(seed: u64, bytes: &'static [u8]) -> RunReport {
    let mut world = world(seed, NetConfig::calm());
    let handle = world.handle();
    let (a, _) = listener(&handle);
    world.run(async move {
        bind(0).await.try_send_to(bytes, addr_of(a, PORT)).expect("it is short");
        sleep(ms(10)).await;
    });
    world.report()
}

#[test]
fn one_flipped_byte_changes_the_behaviour_digest_and_nothing_else_does() {
    let plain = report_of(7, b"payload");
    assert_eq!(report_of(7, b"payload").digest(), plain.digest());
    assert_ne!(report_of(7, b"paylOad").behaviour, plain.behaviour);
    assert_eq!(report_of(7, b"paylOad").draws, plain.draws);
    assert_ne!(report_of(8, b"payload").behaviour, plain.behaviour);
}

#[test]
fn a_thousand_nodes_speak_to_one() {
    let mut world = world(1, NetConfig::calm());
    let handle = world.handle();
    let (hub, inbox) = listener(&handle);
    for _ in 1..1_000 {
        node(&handle, move || async move {
            bind(0).await.try_send_to(b"hello", addr_of(hub, PORT)).expect("it is short");
            std::future::pending().await
        });
    }
    world.run(sleep(ms(100)));
    // What arrives at one instant must fit into the buffer; here it is spread over 2 ms.
    assert_eq!(inbox.borrow().len(), 999);
}

/// Futures of sockets can be handed on by functions that are no `async fn`.
fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> impl Future<Output = std::io::Result<usize>> {
    socket.send_to(bytes, to)
}

fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> impl Future<Output = std::io::Result<(usize, SocketAddr)>> {
    socket.recv_from(buffer)
}

#[test]
fn what_a_socket_does_begins_at_the_first_poll_and_is_done_once() {
    let mut world = world(1, NetConfig::calm());
    world
        .run(async {
            let socket = bind(PORT).await;
            let to = addr_of(NodeId::HOST, PORT);
            drop(send(&socket, b"never", to));
            let mut sending = pin!(send(&socket, b"once", to));
            assert_eq!(sending.as_mut().await.expect("it is short"), 4);
            let again = catch_unwind(AssertUnwindSafe(|| sending.now_or_never()));
            assert!(again.is_err(), "it is polled after its end");
            sleep(ms(1)).await;
            let mut buffer = [0; 8];
            let (len, _) = receive(&socket, &mut buffer).await.expect("the host lives");
            assert_eq!(&buffer[..len], b"once");
            assert_eq!(socket.try_recv_from(&mut buffer).map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
        })
        .expect("nothing is said in vain");
}
