//! Processes and machines that die under streams.

use std::cell::RefCell;
use std::future::pending;
use std::io::ErrorKind;
use std::rc::Rc;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, TcpConfig, TcpListener, TcpStream, addr_of};
use sim_runtime::time::{sleep, timeout};
use sim_runtime::{NodeId, Options, World};

use crate::{
    PORT, SERVER, dial, listen, ms, play, play_calm, read, read_once, read_out, secs, timed, write,
    write_once,
};

// Linux closes the sockets of a killed process: RST where something is unread, else FIN. The model resets in
// any case, unless it is told otherwise.
#[test]
fn a_kill_resets_the_peers() {
    play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        stage.handle.kill(SERVER, 1);
        let (told, took) = timed(read_once(&mut client)).await;
        assert_eq!(told, Err(ErrorKind::ConnectionReset));
        assert!(took <= ms(3), "{took:?}");
    });
}

// Linux: with nothing unread, a kill looks like a close: what was written arrives, then the end.
#[test]
fn a_kill_may_look_like_a_close() {
    let tcp = TcpConfig { kill_resets_per_million: 0, ..TcpConfig::calm() };
    play(NetConfig { tcp, ..NetConfig::calm() }, |stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut server, b"last words").await;
        stage.handle.kill(SERVER, 1);
        assert_eq!(read_out(&mut client).await, b"last words");
        // Unread bytes make it a reset all the same.
        stage.handle.restart(SERVER);
        let (mut client, _server) = stage.pair().await;
        write(&mut client, b"unread").await;
        sleep(ms(10)).await;
        stage.handle.kill(SERVER, 1);
        assert_eq!(read_once(&mut client).await, Err(ErrorKind::ConnectionReset));
    });
}

// Linux: a machine that loses power tells nobody. Its peers wait for ever.
#[test]
fn an_idle_peer_of_a_machine_without_power_learns_nothing() {
    let report = play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        stage.handle.power_off(&[SERVER], 1);
        assert!(timeout(secs(86_400), read_once(&mut client)).await.is_err());
    });
    assert_eq!(report.coverage.get("connections left half-open"), 1);
}

// Linux: a rebooted machine answers a segment of a connection that it does not know with RST.
#[test]
fn a_peer_finds_out_when_it_writes_to_the_rebooted_machine() {
    let report = play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        stage.handle.power_off(&[SERVER], 1);
        sleep(ms(50)).await;
        stage.handle.boot(SERVER);
        assert!(timeout(secs(60), read_once(&mut client)).await.is_err(), "nobody tells");
        assert_eq!(write_once(&mut client).await, Ok(1));
        let (told, took) = timed(read_once(&mut client)).await;
        assert_eq!(told, Err(ErrorKind::ConnectionReset));
        assert!(took <= ms(6), "{took:?}");
    });
    assert_eq!(report.coverage.get("half-open connections found out"), 1);
}

// Linux: segments to a machine that is off are sent again until it answers (with RST), or patience ends.
#[test]
fn a_writer_finds_out_with_the_retransmission_after_the_reboot() {
    play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        stage.handle.power_off(&[SERVER], 1);
        assert_eq!(write_once(&mut client).await, Ok(1));
        sleep(secs(2)).await;
        stage.handle.boot(SERVER);
        let (told, took) = timed(read_once(&mut client)).await;
        assert_eq!(told, Err(ErrorKind::ConnectionReset));
        assert!((ms(1_000)..ms(1_010)).contains(&took), "at 3 s, not {took:?} later");
    });
    play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        stage.handle.power_off(&[SERVER], 1);
        assert_eq!(write_once(&mut client).await, Ok(1));
        assert_eq!(read_once(&mut client).await, Err(ErrorKind::TimedOut));
    });
}

// Linux: a sender at a shut window probes it, and so finds out that nobody is there.
#[test]
fn a_writer_that_waits_for_room_finds_out_too() {
    play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        let chunk = [0; 4_096];
        while timeout(ms(100), client.write(&chunk)).await.is_ok() {}
        stage.handle.power_off(&[SERVER], 1);
        sleep(ms(50)).await;
        stage.handle.boot(SERVER);
        let told = timeout(secs(10), client.write(&chunk)).await.expect("it probes");
        assert_eq!(told.expect_err("it is gone").kind(), ErrorKind::ConnectionReset);
    });
}

// Linux: what had left a machine before its power failed is on the wire and arrives.
#[test]
fn what_a_machine_had_sent_outlives_it() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut server, b"last words").await;
        stage.handle.power_off(&[SERVER], 1);
        assert_eq!(read(&mut client, 10).await, b"last words");
        assert!(timeout(secs(60), read_once(&mut client)).await.is_err(), "and no end");
    });
}

// Linux with SO_REUSEADDR: bind succeeds although connections of the former process linger.
#[test]
fn a_restarted_server_listens_at_its_port_at_once() {
    for is_power in [false, true] {
        play_calm(move |stage| async move {
            let (_client, _server) = stage.pair().await;
            if is_power {
                stage.handle.power_off(&[SERVER], 1);
            } else {
                stage.handle.kill(SERVER, 1);
            }
            stage.handle.boot(SERVER);
            sleep(ms(1)).await;
            let mut client = dial().await.expect("it listens again");
            let mut server = stage.accepted.next().await;
            write(&mut server, b"new").await;
            assert_eq!(read(&mut client, 3).await, b"new");
        });
    }
}

// No counterpart: no descriptor outlives its process. What a test still holds does nothing.
#[test]
fn the_streams_of_a_dead_incarnation_are_inert() {
    play_calm(|stage| async move {
        let (_client, mut dead) = stage.pair().await;
        stage.handle.kill(SERVER, 1);
        stage.handle.boot(SERVER);
        let (mut client, mut server) = stage.pair().await;
        assert_eq!(read_once(&mut dead).await, Err(ErrorKind::NotConnected));
        assert_eq!(write_once(&mut dead).await, Err(ErrorKind::NotConnected));
        let closed = dead.close().await;
        assert_eq!(closed.expect_err("it is dead").kind(), ErrorKind::NotConnected);
        drop(dead);
        write(&mut client, b"alive").await;
        assert_eq!(read(&mut server, 5).await, b"alive");
    });
}

// No counterpart, as above.
#[test]
fn the_listener_of_a_dead_incarnation_is_inert() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    let leaked: Rc<RefCell<Vec<Rc<TcpListener>>>> = Rc::default();
    let leak = leaked.clone();
    let server = handle.add_node("server", move || {
        let leak = leak.clone();
        async move {
            let listener = Rc::new(listen(PORT).await);
            leak.borrow_mut().push(listener);
            pending::<()>().await;
        }
    });
    handle.boot(server);
    let held = leaked.clone();
    world
        .run(async move {
            sleep(ms(1)).await;
            handle.kill(server, 1);
            handle.boot(server);
            sleep(ms(1)).await;
            let dead = held.borrow_mut().remove(0);
            assert_eq!(dead.accept().await.expect_err("it is dead").kind(), ErrorKind::NotConnected);
            drop(dead);
            TcpStream::connect(addr_of(server, PORT)).await.expect("the new one listens");
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.failures, []);
    leaked.borrow_mut().clear();
}

// Linux: a process that returns from main closes its sockets: what it wrote arrives, then the end.
#[test]
fn a_process_that_ends_by_itself_closes() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    let server = handle.add_node("server", || async {
        let listener = listen(PORT).await;
        let (mut stream, _) = listener.accept().await.expect("it lives");
        write(&mut stream, b"bye").await;
        drop(sim_runtime::spawn(async move {
            let _stream = stream;
            pending::<()>().await;
        }));
        sleep(ms(1)).await;
    });
    handle.boot(server);
    let heard = world.run(async move {
        let mut client = TcpStream::connect(addr_of(server, PORT)).await.expect("it listens");
        read_out(&mut client).await
    });
    assert_eq!(heard.as_deref(), Some(&b"bye"[..]));
}

// Linux: a client that dies resets, too; the server reads what had arrived before.
#[test]
fn a_server_reads_what_a_dead_client_had_sent() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    let client = handle.add_node("client", || async {
        let mut stream = TcpStream::connect(addr_of(NodeId::HOST, PORT)).await.expect("it listens");
        write(&mut stream, b"request").await;
        pending::<()>().await;
    });
    world
        .run(async move {
            let listener = listen(PORT).await;
            handle.boot(client);
            let (mut stream, _) = listener.accept().await.expect("it comes");
            sleep(ms(10)).await;
            handle.kill(client, 1);
            sleep(ms(10)).await;
            let mut request = [0; 7];
            stream.read_exact(&mut request).await.expect("it had arrived");
            assert_eq!(read_once(&mut stream).await, Err(ErrorKind::ConnectionReset));
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.failures, []);
}
