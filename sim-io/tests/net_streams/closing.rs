//! Ending: half-closing, resets, what is told to whom, halves.

use std::io::ErrorKind;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{NetConfig, TcpConfig};
use sim_runtime::spawn;
use sim_runtime::time::{sleep, timeout};

use crate::{ms, pattern, play, play_calm, read, read_once, read_out, write, write_once};

// Linux: read returns what had been sent before the FIN, then 0, however often it is called.
#[test]
fn the_end_comes_after_all_bytes_and_for_ever() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut client, b"the last words").await;
        drop(client);
        assert_eq!(read(&mut server, 14).await, b"the last words");
        for _ in 0..3 {
            assert_eq!(read_once(&mut server).await, Ok(0));
        }
    });
}

// Linux: shutdown(SHUT_WR) ends one direction; the other goes on until it is ended, too.
#[test]
fn a_half_closed_stream_still_carries_the_other_direction() {
    for is_client_first in [true, false] {
        let report = play_calm(move |stage| async move {
            let (client, server) = stage.pair().await;
            let (mut first, mut second) = if is_client_first { (client, server) } else { (server, client) };
            write(&mut first, b"question").await;
            first.close().await.expect("it is open");
            assert_eq!(read_out(&mut second).await, b"question");
            sleep(ms(50)).await;
            write(&mut second, b"answer").await;
            second.close().await.expect("it is open");
            assert_eq!(read_out(&mut first).await, b"answer");
            drop((first, second));
            sleep(ms(50)).await;
        });
        assert_eq!(report.coverage.get("connections closed"), 2);
        assert_eq!(report.coverage.get("connections reset"), 0);
    }
}

// Linux: write after shutdown(SHUT_WR) is EPIPE; a second shutdown is fine.
#[test]
fn nobody_writes_after_closing() {
    play_calm(|stage| async move {
        let (mut client, _server) = stage.pair().await;
        client.close().await.expect("it is open");
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::BrokenPipe));
        client.close().await.expect("it is closed");
    });
}

// Linux: close with unread bytes in the receive queue sends RST instead of FIN (RFC 2525, 2.17).
#[test]
fn closing_with_unread_bytes_resets() {
    let report = play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        write(&mut client, b"nobody reads this").await;
        sleep(ms(10)).await;
        drop(server);
        assert_eq!(read_once(&mut client).await, Err(ErrorKind::ConnectionReset));
    });
    assert_eq!(report.coverage.get("connections reset"), 1);
}

/// The server sends bytes, then resets; the client reads afterwards.
fn read_after_reset(tcp: TcpConfig) -> (Result<usize, ErrorKind>, u64) {
    let first = std::rc::Rc::new(std::cell::Cell::new(Ok(0)));
    let seen = first.clone();
    let report = play(NetConfig { tcp, ..NetConfig::calm() }, move |stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut server, b"unread").await;
        sleep(ms(10)).await;
        server.abort();
        sleep(ms(10)).await;
        seen.set(read_once(&mut client).await);
    });
    (first.get(), report.coverage.get("unread bytes destroyed by a reset"))
}

// Linux: what stands in the receive queue stays readable after RST, and the error comes after it. BSD and
// Windows throw it away; so does a Linux peer whose RST overtakes its data.
#[test]
fn a_reset_may_destroy_what_was_not_read() {
    assert_eq!(read_after_reset(TcpConfig::calm()), (Ok(6), 0));
    let destroying = TcpConfig { reset_destroys_unread_per_million: 1_000_000, ..TcpConfig::calm() };
    assert_eq!(read_after_reset(destroying), (Err(ErrorKind::ConnectionReset), 6));
}

// Linux: sk_err is told once. After that, read returns 0 and write EPIPE.
#[test]
fn a_reset_is_told_once() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        server.abort();
        assert_eq!(read_once(&mut client).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(read_once(&mut client).await, Ok(0));
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::BrokenPipe));
        let closed = client.close().await;
        assert_eq!(closed.expect_err("it is not connected").kind(), ErrorKind::NotConnected);

        let (mut client, server) = stage.pair().await;
        server.abort();
        sleep(ms(10)).await;
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::BrokenPipe));
        assert_eq!(read_once(&mut client).await, Ok(0));
    });
}

// Linux: the first write to a peer that has closed succeeds and provokes RST; in CLOSE_WAIT that becomes EPIPE.
#[test]
fn writing_to_a_peer_that_closed_fails_at_the_second_attempt() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        drop(server);
        sleep(ms(10)).await;
        assert_eq!(write_once(&mut client).await, Ok(1));
        sleep(ms(10)).await;
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::BrokenPipe));
        assert_eq!(read_once(&mut client).await, Ok(0));
    });
}

// Linux: bytes that arrive after close are answered with RST, also when the FIN has not been seen yet.
#[test]
fn bytes_that_cross_with_a_close_reset_the_writer() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        write(&mut client, b"they cross").await;
        drop(server);
        sleep(ms(20)).await;
        // The end arrived first, then the reset: whoever reads sees the end (tcp_recvmsg looks at SOCK_DONE before the
        // error), whoever writes the error.
        assert_eq!(read_once(&mut client).await, Ok(0));
        assert_eq!(read_once(&mut client).await, Ok(0));
        assert_eq!(write_once(&mut client).await, Err(ErrorKind::BrokenPipe));
    });
}

// Linux: close with SO_LINGER 0 sends RST and throws away what was not sent.
#[test]
fn an_abort_resets_a_reader_that_waits() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        let waiting = spawn(async move { read_once(&mut client).await });
        sleep(ms(5)).await;
        server.abort();
        assert_eq!(waiting.await.expect("nobody aborts it"), Err(ErrorKind::ConnectionReset));
    });
}

// Linux: close returns at once; the kernel goes on to send what was written.
#[test]
fn what_was_written_before_a_drop_arrives_after_it() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        let mut written = 0;
        let bytes = pattern(200_000);
        while let Ok(count) = timeout(ms(100), client.write(&bytes[written..])).await {
            written += count.expect("it is open");
        }
        drop(client);
        sleep(ms(1_000)).await;
        assert!(read_out(&mut server).await == bytes[..written], "of {written} bytes");
        assert_eq!(written, 131_072);
    });
}

// Linux: read and write of no bytes return 0 and say nothing of the stream; write reports a broken one.
#[test]
fn nothing_can_be_read_and_written() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        assert_eq!(client.write(b"").await.expect("it is open"), 0);
        assert_eq!(client.read(&mut []).await.expect("it is open"), 0);
        drop(server);
        sleep(ms(10)).await;
        assert_eq!(client.read(&mut []).await.expect("as before"), 0);
    });
}

// Linux: MSG_PEEK copies and leaves the bytes.
#[test]
fn a_peek_takes_nothing() {
    play_calm(|stage| async move {
        let (mut client, mut server) = stage.pair().await;
        write(&mut client, b"here").await;
        let mut buffer = [0; 2];
        for _ in 0..2 {
            assert_eq!(server.peek(&mut buffer).await.expect("it is open"), 2);
            assert_eq!(&buffer, b"he");
        }
        assert_eq!(read(&mut server, 4).await, b"here");
    });
}

// Linux: one descriptor may be read and written by two threads at once.
#[test]
fn halves_read_and_write_at_once() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        let (mut reading, mut writing) = server.into_split();
        let echo =
            spawn(
                async move { futures::io::copy(&mut reading, &mut writing).await.expect("the client lives") },
            );
        let bytes = pattern(300_000);
        let mut echoed = vec![0; bytes.len()];
        {
            let (mut reading, mut writing) = client.split_borrowed();
            let write = async {
                writing.write_all(&bytes).await.expect("it is open");
                writing.close().await.expect("it is open");
            };
            let (read, ()) = futures::join!(reading.read_exact(&mut echoed), write);
            read.expect("all comes back");
        }
        assert!(echoed == bytes, "the echo differs");
        // The writing half went with the task, and that was the end of the stream.
        assert_eq!(read_once(&mut client).await, Ok(0));
        assert_eq!(echo.await.expect("nobody aborts it"), 300_000);
    });
}

// Linux: shutdown in one thread wakes nobody else; the other direction is untouched.
#[test]
fn a_dropped_writing_half_ends_its_direction_only() {
    play_calm(|stage| async move {
        let (mut client, server) = stage.pair().await;
        let (mut reading, writing) = server.into_split();
        drop(writing);
        assert_eq!(read_once(&mut client).await, Ok(0));
        write(&mut client, b"still").await;
        let mut bytes = [0; 5];
        reading.read_exact(&mut bytes).await.expect("it is open");
        assert_eq!(&bytes, b"still");
    });
}
