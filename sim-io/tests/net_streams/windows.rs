//! Windows that are shut, and how a sender learns that they are open again.

use std::io::ErrorKind;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, TcpConfig};
use sim_runtime::rng::Stream;
use sim_runtime::time::{sleep, timeout};
use sim_runtime::{NodeId, spawn};

use crate::{SERVER, ms, pattern, play, play_calm, read, secs, write};

const WINDOW: usize = 65_536;

// Linux: what a write leaves in the kernel goes out when the window opens, whoever announced that, and when.
#[test]
fn a_write_while_the_window_is_being_opened_goes_out() {
    for delay_us in (0..6_000).step_by(250) {
        play_calm(move |stage| async move {
            let (mut client, mut server) = stage.pair().await;
            let serving = spawn(async move {
                sleep(ms(50)).await;
                read(&mut server, WINDOW).await;
                let rest = timeout(secs(3_600), read(&mut server, 100)).await;
                assert_eq!(rest.expect("the bytes come"), [9; 100]);
            });
            write(&mut client, &[7; WINDOW]).await;
            sleep(ms(48) + std::time::Duration::from_micros(delay_us)).await;
            write(&mut client, &[9; 100]).await;
            serving.await.expect("nobody aborts it");
        });
    }
}

// Linux: a window update is sent once; if it is lost, the sender's persist timer asks for another.
#[test]
fn a_lost_window_update_is_asked_for() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let writing = spawn(async move {
            write(&mut client, &pattern(200_000)).await;
            client
        });
        let mut bytes = vec![0; WINDOW];
        while server.peek(&mut bytes).await.expect("the stream is open") < WINDOW {}
        stage.net.cut(SERVER, NodeId::HOST);
        let mut all = read(&mut server, WINDOW).await;
        stage.net.heal(SERVER, NodeId::HOST);
        let rest = timeout(secs(600), read(&mut server, 200_000 - WINDOW)).await;
        all.extend(rest.expect("the rest comes"));
        assert!(all == pattern(200_000), "the bytes differ");
        writing.await.expect("nobody aborts it");
    });
}

// Linux: `shutdown` in one thread wakes a `write` that waits in another, with EPIPE.
#[test]
fn closing_wakes_a_writer_that_waits_in_another_task() {
    play_calm(|stage| async move {
        let (client, _server) = stage.pair().await;
        let client = std::rc::Rc::new(client);
        let writer = client.clone();
        let writing = spawn(async move { (&*writer).write_all(&[7; 1_000_000]).await });
        sleep(ms(100)).await;
        (&*client).close().await.expect("it is open");
        let written = timeout(ms(1), writing).await.expect("the writer is woken").expect("nobody aborts it");
        assert_eq!(written.map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
    });
}

/// Both ways at once, with tiny buffers, loss and cuts that are healed: everything arrives, and in the end.
#[test]
fn what_was_written_arrives_once_the_links_are_open() {
    for seed in 1..=150 {
        let mut dice = Stream::derive(seed, "windows");
        let tcp = TcpConfig {
            receive_buffer_bytes: dice.range(1, 300) as usize,
            send_buffer_bytes: dice.range(1, 300) as usize,
            retries: u32::MAX,
            rto_max_ms: 2_000,
            ..TcpConfig::calm()
        };
        let loss_per_million = *dice.pick(&[0, 100_000]);
        play(NetConfig { tcp, loss_per_million, ..NetConfig::calm() }, move |stage| async move {
            let (client, server) = stage.pair().await;
            let cutting = spawn(cut_and_heal(stage.net.clone(), Stream::derive(seed, "cuts")));
            let exchange = [client, server].into_iter().enumerate().map(|(side, stream)| {
                let (mut reading, mut writing) = stream.into_split();
                let mut dice = Stream::derive(seed, if side == 0 { "client" } else { "server" });
                let write = spawn(async move {
                    for chunk in pattern(2_000).chunks(dice.range(1, 200) as usize) {
                        writing.write_all(chunk).await.expect("the stream is open");
                        sleep(std::time::Duration::from_micros(dice.below(8_000))).await;
                    }
                    writing
                });
                let read = spawn(async move {
                    let mut bytes = vec![0; 2_000];
                    reading.read_exact(&mut bytes).await.expect("the stream is open");
                    assert!(bytes == pattern(2_000), "the bytes differ");
                    reading
                });
                (write, read)
            });
            let mut halves = Vec::new();
            for (write, read) in exchange.collect::<Vec<_>>() {
                let both = async { (write.await, read.await) };
                halves.push(timeout(secs(3_600), both).await.expect("everything arrives within an hour"));
            }
            cutting.await.expect("nobody aborts it");
        });
    }
}

async fn cut_and_heal(net: std::rc::Rc<Net>, mut dice: Stream) {
    for _ in 0..10 {
        sleep(std::time::Duration::from_micros(dice.below(30_000))).await;
        let which = dice.below(3);
        if which != 1 {
            net.cut(NodeId::HOST, SERVER);
        }
        if which != 2 {
            net.cut(SERVER, NodeId::HOST);
        }
        sleep(std::time::Duration::from_micros(dice.below(500_000))).await;
        net.heal_all();
    }
}
