//! Streams under faults at random: whatever happens, what is read is a beginning of what was written, and all of
//! it if the stream came to its end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use sim_io::net::{Net, NetConfig, TcpConfig, TcpListener, TcpStream, addr_of};
use sim_runtime::rng::Stream;
use sim_runtime::time::{sleep, timeout};
use sim_runtime::{NodeId, Options, World, node, spawn};

use crate::{PORT, ms};

const NODES: u16 = 4;
const SEEDS: u64 = 60;

/// The byte at a place of the stream that `tag` names.
fn byte(tag: u64, at: u64) -> u8 {
    (sim_runtime::rng::mix(tag, at / 8) >> (at % 8 * 8)) as u8
}

/// What became of the streams of a world.
#[derive(Default)]
struct Tally {
    /// Read to the end of the stream.
    whole: Cell<u64>,
    /// Ended by an error.
    broken: Cell<u64>,
    bytes: Cell<u64>,
}

fn bump(cell: &Cell<u64>, by: u64) {
    cell.set(cell.get() + by);
}

/// Reads a stream: its tag and length, then that many bytes, which are checked one by one.
async fn check(mut stream: TcpStream, tally: Rc<Tally>, pace: Duration) {
    let mut head = [0; 16];
    if stream.read_exact(&mut head).await.is_err() {
        return bump(&tally.broken, 1);
    }
    let [tag, len] = [0, 8].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes")));
    let (mut at, mut buffer) = (0, [0; 1_000]);
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => {
                for (place, read) in (at..).zip(&buffer[..count]) {
                    assert_eq!(*read, byte(tag, place), "stream {tag:x} at {place} of {len}");
                }
                at += count as u64;
                bump(&tally.bytes, count as u64);
            }
            Err(_) => return bump(&tally.broken, 1),
        }
        sleep(pace).await;
    }
    // An end that its writer had not written: the process was killed, or the error had been told before.
    if at == len { bump(&tally.whole, 1) } else { bump(&tally.broken, 1) }
}

/// One stream after the other to random peers; the other direction of each carries nothing.
async fn chat(tally: Rc<Tally>) {
    let listener = TcpListener::bind(addr_of(node::id(), PORT)).await.expect("the port is free");
    let mut dice = sim_runtime::rng_named("chat", 0);
    let pace = Duration::from_micros(dice.below(2_000));
    let checks = tally.clone();
    drop(spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(spawn(check(stream, checks.clone(), pace)));
        }
    }));
    loop {
        let to = NodeId(1 + dice.below(u64::from(NODES)) as u16);
        let (tag, len) = (dice.below(u64::MAX), dice.below(20_000));
        let chunk = dice.range(1, 9_000) as usize;
        let write = async move {
            let mut stream = TcpStream::connect_timeout(addr_of(to, PORT), ms(3_000)).await?;
            stream.write_all(&tag.to_le_bytes()).await?;
            stream.write_all(&len.to_le_bytes()).await?;
            let bytes: Vec<u8> = (0..len).map(|at| byte(tag, at)).collect();
            for chunk in bytes.chunks(chunk) {
                stream.write_all(chunk).await?;
            }
            stream.close().await
        };
        // Some are waited for, so that streams overlap and some are dropped under way.
        let _ = timeout(ms(dice.range(1, 3_000)), write).await;
        sleep(ms(dice.below(200))).await;
    }
}

/// Cuts, kills, power losses and pauses of a virtual 10 s.
async fn torment(handle: sim_runtime::Handle, seed: u64) {
    let mut dice = Stream::derive(seed, "torment");
    let net = handle.device::<Net>();
    for _ in 0..100 {
        sleep(ms(dice.below(200))).await;
        let any = |dice: &mut Stream| NodeId(1 + dice.below(u64::from(NODES)) as u16);
        let (a, b) = (any(&mut dice), any(&mut dice));
        match dice.below(10) {
            0..4 if a != b => {
                net.cut(a, b);
                if dice.chance(500_000) {
                    net.cut(b, a);
                }
            }
            4 | 5 => net.heal_all(),
            6 => handle.kill(a, 1),
            7 => handle.power_off(&[a], 1),
            8 => handle.pause(a),
            _ => handle.resume(a),
        }
        for id in (1..=NODES).map(NodeId) {
            if !handle.is_up(id) && dice.chance(300_000) {
                handle.boot(id);
            }
        }
    }
    net.heal_all();
    for id in (1..=NODES).map(NodeId) {
        handle.resume(id);
        if !handle.is_up(id) {
            handle.boot(id);
        }
    }
    sleep(Duration::from_secs(5)).await;
}

fn run(seed: u64) -> (Rc<Tally>, sim_runtime::verdict::RunReport) {
    let mut world = World::new(seed, Options::default());
    let handle = world.handle();
    let mut dice = Stream::derive(seed, "network");
    let tcp = TcpConfig {
        receive_buffer_bytes: *dice.pick(&[100, 5_000, 65_536]),
        send_buffer_bytes: *dice.pick(&[100, 5_000, 65_536]),
        partial_read_per_million: *dice.pick(&[0, 200_000]),
        partial_write_per_million: *dice.pick(&[0, 200_000]),
        backlog: *dice.pick(&[1, 128]),
        retries: *dice.pick(&[3, 15]),
        ..TcpConfig::rough()
    };
    let loss_per_million = *dice.pick(&[0, 5_000, 100_000]);
    handle.device::<Net>().configure(NetConfig { tcp, loss_per_million, ..NetConfig::default() });
    let tally: Rc<Tally> = Rc::default();
    for id in 1..=NODES {
        let tally = tally.clone();
        handle.add_node(&format!("n{id}"), move || chat(tally.clone()));
        handle.boot(NodeId(id));
    }
    world.run(torment(handle, seed));
    let report = world.report();
    assert_eq!(report.findings.failures, [], "seed {seed}");
    (tally, report)
}

// Linux: inside a live stream bytes are never lost, reordered or duplicated.
#[test]
fn many_streams_under_random_faults_are_exact() {
    let (mut whole, mut broken, mut bytes) = (0, 0, 0);
    let mut reached = sim_runtime::device::Coverage::default();
    for seed in 1..=SEEDS {
        let (tally, report) = run(seed);
        whole += tally.whole.get();
        broken += tally.broken.get();
        bytes += tally.bytes.get();
        reached.merge(&report.coverage);
    }
    assert!(whole > 10 * SEEDS && broken > SEEDS, "{whole} whole, {broken} broken, {bytes} bytes");
    let of_streams = reached.iter().filter(|(name, _)| !name.starts_with("datagrams"));
    let never: Vec<_> = of_streams.filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert!(never.is_empty(), "{never:?} never happened");
}

// No counterpart: a run is a function of its timeline.
#[test]
fn a_seed_is_a_run() {
    for seed in 1..=5 {
        assert_eq!(run(seed).1.digest(), run(seed).1.digest(), "seed {seed}");
    }
}
