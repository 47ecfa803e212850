//! Links that are cut under streams.

use std::io::ErrorKind;

use futures::{AsyncReadExt, AsyncWriteExt, FutureExt};
use sim_io::net::{NetConfig, TcpConfig, TcpStream, UdpSocket, addr_of};
use sim_runtime::time::{sleep, timeout};
use sim_runtime::verdict::Category;
use sim_runtime::{NodeId, Options, World, spawn};

use crate::{
    PORT, SERVER, listen, ms, pattern, play, play_calm, read, read_once, read_out, secs, timed, write,
    write_once,
};

// Linux: a partition drops segments, not bytes: what was written meanwhile arrives afterwards, in order.
#[test]
fn a_partition_skips_no_bytes_of_a_stream() {
    let report = play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let net = stage.net.clone();
        let writing = spawn(async move {
            for (second, chunk) in pattern(6_000).chunks(1_000).enumerate() {
                if second == 2 {
                    stage.part();
                }
                if second == 4 {
                    net.heal_all();
                }
                write(&mut client, chunk).await;
                sleep(secs(1)).await;
            }
        });
        assert!(read_out(&mut server).await == pattern(6_000), "the bytes differ");
        writing.await.expect("nobody aborts it");
    });
    assert_eq!(report.coverage.get("streams stalled by a cut"), 1);
}

// Linux: segments are sent again after 200, 600, 1400, 3000 ms .. (RTO of 200 ms, doubled each time).
#[test]
fn a_healed_stream_goes_on_with_the_next_retransmission() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let net = stage.net.clone();
        stage.part();
        write(&mut client, b"x").await;
        let heal = async {
            sleep(ms(700)).await;
            net.heal_all();
        };
        let ((read, took), ()) = futures::join!(timed(read_once(&mut server)), heal);
        assert_eq!(read, Ok(1));
        assert!((ms(1_401)..=ms(1_403)).contains(&took), "{took:?}");
        // Afterwards patience is short again.
        sleep(ms(10)).await;
        stage.part();
        write(&mut client, b"x").await;
        net.heal_all();
        let (_, took) = timed(read_once(&mut server)).await;
        assert!((ms(201)..=ms(203)).contains(&took), "{took:?}");
    });
}

// Linux: after net.ipv4.tcp_retries2 = 15 attempts, some 924 s with short round trips, the writer is told ETIMEDOUT.
#[test]
fn a_writer_gives_up_a_link_that_stays_cut() {
    let report = play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        stage.part();
        write(&mut client, b"x").await;
        let (told, took) = timed(read_once(&mut client)).await;
        assert_eq!(told, Err(ErrorKind::TimedOut));
        assert!((secs(920)..secs(930)).contains(&took), "{took:?}");
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::BrokenPipe));
        // The other side knows nothing of it, until it speaks.
        stage.net.heal_all();
        assert!(timeout(secs(3_600), read_once(&mut server)).await.is_err());
        assert_eq!(write_once(&mut server).await, Ok(1));
        assert_eq!(read_once(&mut server).await, Err(ErrorKind::ConnectionReset));
    });
    assert_eq!(report.coverage.get("connections timed out"), 1);
}

// Linux: patience is set by tcp_retries2 or TCP_USER_TIMEOUT.
#[test]
fn patience_is_configured() {
    let tcp = TcpConfig { retries: 3, rto_min_ms: 100, rto_max_ms: 200, ..TcpConfig::calm() };
    play(NetConfig { tcp, ..NetConfig::calm() }, |stage| async move {
        let (mut client, _server) = stage.pair().await;
        stage.part();
        write(&mut client, b"x").await;
        let (told, took) = timed(read_once(&mut client)).await;
        assert_eq!((told, took), (Err(ErrorKind::TimedOut), ms(100 + 200 + 200 + 200)));
    });
}

// Linux: with the way back cut, segments arrive and acknowledgements do not: the send buffer fills.
#[test]
fn a_one_way_cut_delivers_in_the_open_direction_until_the_window_is_full() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        stage.net.cut(SERVER, NodeId::HOST);
        let writing = spawn(async move {
            client.write_all(&pattern(200_000)).await.expect("it heals in time");
        });
        let mut bytes = vec![0; 65_536];
        server.read_exact(&mut bytes).await.expect("it arrives");
        assert!(timeout(secs(5), server.read(&mut [0])).await.is_err(), "the writer has no room");
        stage.net.heal_all();
        bytes.extend(read_out(&mut server).await);
        assert!(bytes == pattern(200_000), "the bytes differ");
        writing.await.expect("nobody aborts it");
    });
}

// Linux: with the way there cut, nothing arrives, though the reader could answer.
#[test]
fn a_one_way_cut_stops_the_other_direction() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        stage.net.cut(NodeId::HOST, SERVER);
        write(&mut client, b"x").await;
        write(&mut server, b"y").await;
        assert_eq!(read_once(&mut client).await, Ok(1));
        assert!(timeout(secs(5), read_once(&mut server)).await.is_err());
    });
}

// Linux: a lost window update is found by the sender's zero-window probes (persist timer).
#[test]
fn a_window_that_opens_behind_a_cut_is_found_after_healing() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let writing = spawn(async move {
            client.write_all(&pattern(200_000)).await.expect("it heals in time");
        });
        sleep(ms(100)).await;
        stage.part();
        let mut bytes = read(&mut server, 65_536).await;
        sleep(secs(1)).await;
        assert!(server.read(&mut [0]).now_or_never().is_none());
        stage.net.heal_all();
        bytes.extend(read_out(&mut server).await);
        assert!(bytes == pattern(200_000), "the bytes differ");
        writing.await.expect("nobody aborts it");
    });
}

// Linux: RST is sent once. A peer that missed it finds out when it speaks.
#[test]
fn a_peer_that_missed_the_reset_finds_out_when_it_writes() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        stage.part();
        server.abort();
        sleep(secs(1)).await;
        stage.net.heal_all();
        assert!(timeout(secs(60), read_once(&mut client)).await.is_err(), "nobody tells");
        assert_eq!(write_once(&mut client).await, Ok(1));
        assert_eq!(read_once(&mut client).await, Err(ErrorKind::ConnectionReset));
    });
}

// Linux: FIN is sent again like bytes are, by the kernel alone.
#[test]
fn an_end_behind_a_cut_arrives_after_healing() {
    let report = play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        stage.part();
        write(&mut client, b"last").await;
        drop(client);
        sleep(secs(1)).await;
        stage.net.heal_all();
        let mut server = server;
        assert_eq!(read_out(&mut server).await, b"last");
        drop(server);
        sleep(secs(1)).await;
    });
    assert_eq!(report.coverage.get("connections closed"), 2);
}

// Linux: bytes that arrived before a cut are there, whatever happens to the link afterwards.
#[test]
fn what_had_arrived_can_be_read_behind_a_cut() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut client, b"arrived").await;
        sleep(ms(10)).await;
        stage.part();
        assert_eq!(read(&mut server, 7).await, b"arrived");
    });
}

// Linux: netstat -tn. The report of a run that hangs says what its sockets are up to.
#[test]
fn a_run_that_hangs_lists_its_sockets() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    let server = handle.add_node("server", || async {
        let _datagrams = UdpSocket::bind(addr_of(SERVER, 7)).await.expect("the port is free");
        let listener = listen(PORT).await;
        let (mut stream, _) = listener.accept().await.expect("it lives");
        read_out(&mut stream).await;
    });
    handle.boot(server);
    let ended = world.run(async move {
        let mut stream = TcpStream::connect(addr_of(server, PORT)).await.expect("it listens");
        write(&mut stream, b"hello").await;
        read_out(&mut stream).await;
    });
    assert_eq!(ended, None);
    let report = world.report();
    let found = report.findings.first().expect("it hangs");
    assert_eq!(found.category, Category::Stuck);
    for line in [
        "udp 10.0.0.1:7, 0 datagrams",
        "tcp LISTEN       10.0.0.1:80",
        "tcp ESTABLISHED  10.0.0.0:49152 -> 10.0.0.1:80",
        "reader waits",
        "bytes of a stream",
    ] {
        assert!(found.evidence.contains(line), "{line} is not in {}", found.evidence);
    }
}

// Linux: a machine that stands still (a VM that is suspended) takes and acknowledges nothing; its peers send again, and
// the stream goes on when the machine does.
#[test]
fn a_frozen_machine_stalls_its_streams_and_loses_no_bytes() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        stage.handle.freeze(SERVER);
        write(&mut client, b"question").await;
        sleep(ms(700)).await;
        let heard = timeout(ms(1), read_once(&mut server)).await;
        assert!(heard.is_err(), "a frozen kernel took {heard:?}");
        stage.handle.resume(SERVER);
        let (question, took) = timed(read(&mut server, 8)).await;
        assert_eq!(question, b"question");
        // The fourth attempt, 1400 ms after the first.
        assert!((ms(695)..=ms(705)).contains(&took), "{took:?}");
        write(&mut server, b"answer").await;
        assert_eq!(read(&mut client, 6).await, b"answer");
    });
}
