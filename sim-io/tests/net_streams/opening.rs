//! Beginning: ports, handshakes, backlogs, refusals.

use std::future::{pending, poll_fn};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::Poll;

use futures::{FutureExt, StreamExt};
use sim_io::net::{NetConfig, TcpConfig, TcpListener, TcpStream, UdpSocket, addr_of};
use sim_runtime::time::{sleep, timeout};
use sim_runtime::{NodeId, spawn};

use crate::{PORT, SERVER, dial, listen, ms, play, play_calm, read, secs, timed, write};

// Linux: a connection is there when the first segment has been answered, one round trip after `connect`.
#[test]
fn a_connection_takes_one_round_trip_and_carries_bytes_both_ways() {
    let report = play_calm(|stage| async move {
        let (client, took) = timed(dial()).await;
        assert!((ms(2)..=ms(6)).contains(&took), "{took:?}");
        let (mut client, mut server) = (client.expect("it listens"), stage.accepted.next().await);
        write(&mut client, b"question").await;
        assert_eq!(read(&mut server, 8).await, b"question");
        write(&mut server, b"answer").await;
        assert_eq!(read(&mut client, 6).await, b"answer");
    });
    assert_eq!(report.coverage.get("connections opened"), 1);
}

// Linux: getsockname and getpeername of both ends are each other's.
#[test]
fn each_side_knows_both_addresses() {
    play_calm(|stage| async move {
        let (_, _server) = stage.pair().await;
        let (client, server) = stage.pair().await;
        let addresses = |stream: &TcpStream| {
            (stream.local_addr().expect("bound"), stream.peer_addr().expect("connected"))
        };
        let (local, peer) = addresses(&client);
        assert_eq!((local.ip(), peer), (addr_of(NodeId::HOST, 0).ip(), addr_of(SERVER, PORT)));
        assert_eq!(addresses(&server), (peer, addr_of(NodeId::HOST, local.port())));
    });
}

// Linux: the kernel completes handshakes on its own; `accept` only takes from the queue, in order.
#[test]
fn two_clients_connect_and_write_before_the_first_accept() {
    play_calm(|_| async {
        let listener = listen(PORT).await;
        let mut clients = Vec::new();
        for text in [b"first", b"other"] {
            let mut client = TcpStream::connect(addr_of(NodeId::HOST, PORT)).await.expect("it listens");
            write(&mut client, text).await;
            clients.push(client);
        }
        for (client, text) in clients.iter().zip([b"first", b"other"]) {
            let (mut accepted, from) = listener.accept().await.expect("one waits");
            assert_eq!(from, client.local_addr().expect("it is bound"));
            assert_eq!(read(&mut accepted, 5).await, text);
        }
    });
}

// Linux: a segment to a port at which nobody listens is answered with RST; connect says ECONNREFUSED.
#[test]
fn a_port_at_which_nobody_listens_refuses() {
    let report = play_calm(|_| async {
        let (refused, took) = timed(TcpStream::connect(addr_of(SERVER, 81))).await;
        assert_eq!(refused.expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);
        assert!(took <= ms(6), "{took:?}");
        let port_zero = TcpStream::connect(addr_of(SERVER, 0)).await;
        assert_eq!(port_zero.expect_err("port 0").kind(), ErrorKind::ConnectionRefused);
        let abroad = TcpStream::connect((Ipv4Addr::new(192, 168, 0, 1), PORT)).await;
        assert_eq!(abroad.expect_err("no route").kind(), ErrorKind::NetworkUnreachable);
    });
    assert_eq!(report.coverage.get("connections refused"), 1);
}

// Linux: a machine whose process died still has a kernel that refuses.
#[test]
fn a_machine_whose_process_was_killed_refuses() {
    play_calm(|stage| async move {
        sleep(ms(1)).await;
        stage.handle.kill(SERVER, 1);
        assert_eq!(dial().await.expect_err("it is dead").kind(), ErrorKind::ConnectionRefused);
    });
}

// Linux: first segments are sent after 0, 1, 3, 7, 15, 31 and 63 s; after 127 s connect says ETIMEDOUT.
#[test]
fn a_machine_without_power_lets_a_client_wait_two_minutes() {
    let report = play_calm(|stage| async move {
        stage.handle.power_off(&[SERVER], 1);
        let (silence, took) = timed(dial()).await;
        assert_eq!(silence.expect_err("it is off").kind(), ErrorKind::TimedOut);
        assert_eq!(took, secs(127));
        let to = addr_of(SERVER, PORT);
        let (silence, took) = timed(TcpStream::connect_timeout(to, ms(300))).await;
        assert_eq!((silence.expect_err("it is off").kind(), took), (ErrorKind::TimedOut, ms(300)));
        let nowhere = TcpStream::connect_timeout(addr_of(NodeId(900), PORT), ms(300)).await;
        assert_eq!(nowhere.expect_err("there is none").kind(), ErrorKind::TimedOut);
    });
    assert_eq!(report.coverage.get("connections timed out"), 3);
    assert_eq!(report.coverage.get("connection requests sent again"), 6);
}

// Linux: a lost first segment is sent again after one second.
#[test]
fn a_client_behind_a_cut_connects_with_the_first_retry_after_healing() {
    play_calm(|stage| async move {
        stage.net.cut(NodeId::HOST, SERVER);
        let heal = async {
            sleep(ms(500)).await;
            stage.net.heal(NodeId::HOST, SERVER);
        };
        let ((connected, took), ()) = futures::join!(timed(dial()), heal);
        connected.expect("the link is open again");
        assert!((ms(1_000)..ms(1_010)).contains(&took), "{took:?}");
    });
}

// Linux: the answer is lost; the client asks again, and the server answers the same connection again.
#[test]
fn a_lost_answer_makes_no_second_connection() {
    play_calm(|stage| async move {
        stage.net.cut(SERVER, NodeId::HOST);
        let heal = async {
            sleep(ms(1_500)).await;
            stage.net.heal(SERVER, NodeId::HOST);
        };
        let (connected, ()) = futures::join!(dial(), heal);
        let (mut client, mut server) = (connected.expect("in the end"), stage.accepted.next().await);
        write(&mut client, b"hello").await;
        assert_eq!(read(&mut server, 5).await, b"hello");
        assert!(stage.accepted.next().now_or_never().is_none(), "one connection, not two");
    });
}

// Linux: with a full accept queue first segments are dropped (net.ipv4.tcp_abort_on_overflow = 0), and clients
// try again.
#[test]
fn a_full_backlog_drops_requests_and_clients_come_back() {
    let tcp = TcpConfig { backlog: 2, ..TcpConfig::calm() };
    let report = play(NetConfig { tcp, ..NetConfig::calm() }, |_| async {
        let listener = listen(PORT).await;
        let dial = || TcpStream::connect(addr_of(NodeId::HOST, PORT));
        let _queued = (dial().await.expect("room"), dial().await.expect("room"));
        let accept_late = async {
            sleep(ms(500)).await;
            listener.accept().await.expect("two wait")
        };
        let ((third, took), accepted) = futures::join!(timed(dial()), accept_late);
        third.expect("there is room now");
        assert!((ms(1_000)..ms(1_001)).contains(&took), "{took:?}");
        drop(accepted);
    });
    assert_eq!(report.coverage.get("connections dropped by a full backlog"), 1);
}

// Linux: the default of `listen` in std and tokio is 128 and more; the 129th has to wait.
#[test]
fn the_backlog_holds_128() {
    play_calm(|_| async {
        let _listener = listen(PORT).await;
        let dial = || TcpStream::connect_timeout(addr_of(NodeId::HOST, PORT), ms(100));
        let mut queued = Vec::new();
        for _ in 0..128 {
            queued.push(dial().await.expect("room"));
        }
        assert_eq!(dial().await.expect_err("no room").kind(), ErrorKind::TimedOut);
    });
}

// Linux: EADDRINUSE while somebody listens, EADDRNOTAVAIL for an address of another machine; free when closed.
#[test]
fn a_port_has_one_listener_and_is_free_again_when_it_lets_go() {
    play_calm(|_| async {
        let first = listen(PORT).await;
        let second = TcpListener::bind(addr_of(NodeId::HOST, PORT)).await;
        assert_eq!(second.expect_err("it is taken").kind(), ErrorKind::AddrInUse);
        drop(first);
        listen(PORT).await;
        let anywhere = TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))).await;
        anywhere.expect("0.0.0.0 is here");
        let elsewhere = TcpListener::bind(addr_of(NodeId(9), PORT)).await;
        assert_eq!(elsewhere.expect_err("it is not here").kind(), ErrorKind::AddrNotAvailable);
    });
}

// Linux: TCP and UDP have port spaces of their own; a client's ephemeral port is taken for listeners.
#[test]
fn clients_and_listeners_share_ports_and_datagrams_have_others() {
    play_calm(|_| async {
        let client = dial().await.expect("it listens");
        let local = client.local_addr().expect("it is bound");
        assert_eq!(TcpListener::bind(local).await.expect_err("taken").kind(), ErrorKind::AddrInUse);
        UdpSocket::bind(local).await.expect("datagrams have ports of their own");
        let chosen = listen(0).await.local_addr().expect("it is bound");
        assert_ne!(chosen.port(), local.port());
    });
}

// Linux: closing a listener resets what waits to be accepted.
#[test]
fn a_listener_that_goes_resets_what_nobody_accepted() {
    play_calm(|_| async {
        let listener = listen(PORT).await;
        let mut client = TcpStream::connect(addr_of(NodeId::HOST, PORT)).await.expect("it listens");
        drop(listener);
        assert_eq!(crate::read_once(&mut client).await, Err(ErrorKind::ConnectionReset));
    });
}

// Linux: a closed socket's connection attempt comes to nothing; the half-open entry goes with the reset.
#[test]
fn a_client_that_stops_connecting_leaves_nothing_to_accept() {
    play_calm(|_| async {
        let listener = listen(PORT).await;
        let dial = TcpStream::connect(addr_of(NodeId::HOST, PORT));
        assert!(dial.now_or_never().is_none(), "it takes a round trip");
        assert!(timeout(ms(100), listener.accept()).await.is_err());
    });
}

// Linux: 0.0.0.0 as a destination is this host.
#[test]
fn a_node_connects_to_itself() {
    play_calm(|_| async {
        let listener = listen(PORT).await;
        let (client, took) = timed(TcpStream::connect((Ipv4Addr::UNSPECIFIED, PORT))).await;
        assert!(took < ms(1), "{took:?}");
        let (mut server, _) = listener.accept().await.expect("one waits");
        write(&mut client.expect("it listens"), b"me").await;
        assert_eq!(read(&mut server, 2).await, b"me");
    });
}

// Linux: a connection wakes one of those who wait in accept; none is handed out twice.
#[test]
fn several_tasks_accept_from_one_listener() {
    play_calm(|_| async {
        let listener = std::rc::Rc::new(listen(PORT).await);
        let accepting = [1, 2].map(|_| {
            let listener = listener.clone();
            spawn(async move { listener.accept().await.expect("it lives").1 })
        });
        sleep(ms(1)).await;
        let dial = || TcpStream::connect(addr_of(NodeId::HOST, PORT));
        let clients = [dial().await.expect("it listens"), dial().await.expect("it listens")];
        let mut ports = Vec::new();
        for task in accepting {
            ports.push(task.await.expect("nobody aborts it"));
        }
        ports.sort();
        assert_eq!(ports, clients.map(|client| client.local_addr().expect("it is bound")));
    });
}

// No system call: `incoming` of std and async-std is accept in a loop.
#[test]
fn incoming_is_accept_as_a_stream() {
    play_calm(|_| async {
        let listener = listen(PORT).await;
        let _clients = [
            TcpStream::connect(addr_of(NodeId::HOST, PORT)).await,
            TcpStream::connect(addr_of(NodeId::HOST, PORT)).await,
        ];
        let two: Vec<_> = listener.incoming().take(2).collect().await;
        assert!(two.iter().all(Result::is_ok));
        let third = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx).is_ready())).await;
        assert!(!third);
        drop(pending::<()>());
    });
}
