//! Bytes on their way: windows, partial operations, large transfers, what a digest sees.

use futures::{AsyncReadExt, AsyncWriteExt, FutureExt};
use sim_io::net::{Net, NetConfig, TcpConfig, TcpStream, addr_of};
use sim_runtime::time::{sleep, timeout};
use sim_runtime::{NodeId, Options, World, spawn};

use crate::{PORT, listen, ms, pattern, play, play_calm, read, read_out, write};

/// Writes until nothing is taken for 100 ms; how much was.
async fn fill(stream: &mut TcpStream) -> usize {
    let chunk = pattern(4_096);
    let mut written = 0;
    while let Ok(count) = timeout(ms(100), stream.write(&chunk)).await {
        written += count.expect("it is open");
    }
    written
}

// Linux: a write blocks when the peer's receive buffer and the own send buffer are full (some MB with
// auto-tuning), and goes on when there is room again.
#[test]
fn a_writer_stalls_at_the_window_and_goes_on_when_it_opens() {
    let report = play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let written = fill(&mut client).await;
        assert_eq!(written, 65_536 + 65_536);
        let writing = spawn(async move {
            write(&mut client, &pattern(100_000)).await;
        });
        sleep(ms(50)).await;
        assert!(!writing.is_finished());
        read(&mut server, written).await;
        assert!(read_out(&mut server).await == pattern(100_000), "the rest differs");
        writing.await.expect("nobody aborts it");
    });
    assert_eq!(report.coverage.get("receive windows filled"), 1);
}

// Linux: small windows work the same, one byte even.
#[test]
fn a_window_of_one_byte_is_slow_and_true() {
    let tcp = TcpConfig { receive_buffer_bytes: 1, send_buffer_bytes: 1, ..TcpConfig::calm() };
    play(NetConfig { tcp, ..NetConfig::calm() }, |stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let writing = spawn(async move { write(&mut client, &pattern(100)).await });
        assert_eq!(read_out(&mut server).await, pattern(100));
        writing.await.expect("nobody aborts it");
    });
}

// Linux: read and write may return less than asked for at any time; seldom on a quiet machine.
#[test]
fn operations_are_cut_short_where_configured_and_lose_nothing() {
    let tcp = TcpConfig {
        partial_read_per_million: 500_000,
        partial_write_per_million: 500_000,
        ..TcpConfig::calm()
    };
    let report = play(NetConfig { tcp, ..NetConfig::calm() }, |stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let writing = spawn(async move {
            for chunk in pattern(100_000).chunks(1_000) {
                write(&mut client, chunk).await;
                sleep(ms(1)).await;
            }
        });
        assert!(read_out(&mut server).await == pattern(100_000), "the bytes differ");
        writing.await.expect("nobody aborts it");
    });
    for name in ["partial reads", "partial writes"] {
        assert!(report.coverage.get(name) > 20, "{name}: {}", report.coverage.get(name));
    }
}

// Linux: below a stream, segments get lost and overtake each other; above, nothing of that is seen but time.
#[test]
fn ten_megabytes_arrive_whole_over_a_bad_network() {
    const COUNT: usize = 10_000_000;
    let bad = NetConfig { loss_per_million: 20_000, reorder_per_million: 100_000, ..NetConfig::default() };
    let report = play(bad, |stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let writing = spawn(async move {
            client.write_all(&pattern(COUNT)).await.expect("it is open");
        });
        assert!(read_out(&mut server).await == pattern(COUNT), "the bytes differ");
        writing.await.expect("nobody aborts it");
    });
    assert_eq!(report.coverage.get("bytes delivered"), COUNT as u64);
    assert!(report.coverage.get("flights sent again") > 0);
}

// Linux: later segments wait in the out-of-order queue until the missing one was sent again.
#[test]
fn a_loss_delays_everything_after_it_and_nothing_overtakes() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        stage.net.cut(NodeId::HOST, crate::SERVER);
        write(&mut client, b"lost, ").await;
        stage.net.heal(NodeId::HOST, crate::SERVER);
        write(&mut client, b"later").await;
        sleep(ms(190)).await;
        assert!(server.read(&mut [0]).now_or_never().is_none(), "the first bytes are missing");
        sleep(ms(20)).await;
        assert_eq!(server.read(&mut [0; 100]).now_or_never().expect("it is there").expect("it is open"), 11);
    });
}

// Linux: the kernel of a stopped process (SIGSTOP) acknowledges until its receive buffer is full.
#[test]
fn a_paused_process_receives_what_its_window_holds() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    handle.device::<Net>().configure(NetConfig::calm());
    let server = handle.add_node("server", || async {
        let listener = listen(PORT).await;
        let (mut stream, _) = listener.accept().await.expect("it lives");
        let count = read_out(&mut stream).await.len() as u64;
        write(&mut stream, &count.to_le_bytes()).await;
    });
    handle.boot(server);
    let told = world.run(async move {
        let mut client = TcpStream::connect(addr_of(server, PORT)).await.expect("it listens");
        sleep(ms(10)).await;
        handle.pause(server);
        let written = fill(&mut client).await;
        assert_eq!(written, 131_072);
        handle.resume(server);
        client.close().await.expect("it is open");
        (written as u64, u64::from_le_bytes(read(&mut client, 8).await[..].try_into().expect("eight bytes")))
    });
    assert_eq!(told, Some((131_072, 131_072)));
}

// No counterpart: what a run is made of can be told from its digest, every byte of it.
#[test]
fn one_flipped_byte_changes_the_behaviour_digest_and_nothing_else_does() {
    let report = |text: &'static [u8]| {
        play_calm(move |stage| async move {
            let (mut client, mut server) = stage.pair().await;
            write(&mut client, text).await;
            read(&mut server, text.len()).await;
        })
    };
    let plain = report(b"payload");
    assert_eq!(report(b"payload").digest(), plain.digest());
    assert_ne!(report(b"paylOad").behaviour, plain.behaviour);
    assert_eq!(report(b"paylOad").draws, plain.draws);
}

// No counterpart: a counter says that a thing is on; what is off has none.
#[test]
fn a_calm_network_has_no_counters_for_what_it_never_does() {
    let report = play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut client, b"x").await;
        read(&mut server, 1).await;
    });
    let off =
        ["flights lost", "streams stalled by a cut", "partial reads", "unread bytes destroyed by a reset"];
    assert!(report.coverage.iter().all(|(name, _)| !off.contains(&name)));
    assert_eq!(report.coverage.get("flights sent again"), 0);
}

// Linux: a server with many clients keeps their streams apart.
#[test]
fn five_hundred_nodes_speak_to_one() {
    const NODES: u16 = 500;
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    let hub = handle.add_node("hub", || async {
        let listener = listen(PORT).await;
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(spawn(async move {
                let (mut reading, mut writing) = stream.split_borrowed();
                let _ = futures::io::copy(&mut reading, &mut writing).await;
            }));
        }
    });
    handle.boot(hub);
    let (said, heard) = sim_runtime::sync::mpsc::unbounded();
    for _ in 1..NODES {
        let said = said.clone();
        let id = handle.add_node("client", move || {
            let said = said.clone();
            async move {
                let mut stream = TcpStream::connect(addr_of(hub, PORT)).await.expect("it listens");
                let word = sim_runtime::node::id().0.to_le_bytes();
                for _ in 0..10 {
                    write(&mut stream, &word).await;
                    assert_eq!(read(&mut stream, 2).await, word);
                }
                let _ = said.send(());
            }
        });
        handle.boot(id);
    }
    let _ = world.run(async move {
        let mut heard = heard;
        for _ in 1..NODES {
            heard.recv().await.expect("all clients come to the end");
        }
    });
    let report = world.report();
    assert_eq!(report.findings.failures, []);
    assert_eq!(report.coverage.get("connections opened"), 499);
}
