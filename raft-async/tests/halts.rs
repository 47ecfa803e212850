//! What a server does when it should not go on, and what it takes without a word.

use raft_async::types::{Key, Op, OpReply, ServerId, SessionId};
use raft_async::{Client, ClientConfig, Config, Halt, Kv, Planted, Sessions, run};
use sim_io::fs::{Disks, File, OpenOptions};
use sim_io::net::{Net, NetConfig, UdpSocket, addr_of};
use sim_runtime::time::sleep;
use sim_runtime::{Handle, NodeId, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

/// One server, what is done to its files before it starts again, and how its lives ended.
#[derive(Clone)]
struct Lonely {
    handle: Handle,
    node: NodeId,
    servers: BTreeMap<ServerId, SocketAddr>,
    halts: Rc<RefCell<Vec<Halt>>>,
}

impl Lonely {
    fn boot<F: Future<Output = ()>>(world: &World, before_restart: impl Fn() -> F + Copy + 'static) -> Self {
        let servers = BTreeMap::from([(ServerId(1), addr_of(NodeId(1), 7000))]);
        let halts = Rc::new(RefCell::new(Vec::new()));
        let node = {
            let (servers, halts) = (servers.clone(), halts.clone());
            world.handle().add_node("server", move || {
                let (config, halts) = (Config::new(ServerId(1), servers.clone()), halts.clone());
                async move {
                    if sim_runtime::node::incarnation() > 1 {
                        before_restart().await;
                    }
                    let halt = run(config, Sessions::new(Kv::default(), Planted::NONE)).await;
                    halts.borrow_mut().push(halt);
                }
            })
        };
        world.handle().boot(node);
        Self { handle: world.handle(), node, servers, halts }
    }

    async fn puts(&self, session: u64, count: u64) {
        let config = ClientConfig::new(SessionId(session), self.servers.clone());
        let client = Client::new(config).await.expect("a port is free");
        for value in 1..=count {
            let reply = client.call(Op::Put { key: Key(1), value }, PATIENCE).await;
            assert!(matches!(reply, Ok(OpReply::Done { .. })), "{reply:?}");
        }
    }
}

async fn flip(path: &str, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).await.expect("the file is there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).await.expect("it is that long");
    file.write_all_at(&[byte[0] ^ 1], at).await.expect("the disk works");
    file.sync_all().await.expect("the disk works");
}

/// "a later valid header covers the bad frame: refuse to start, clear error".
#[test]
fn a_server_refuses_a_log_that_lost_what_was_durable() {
    let mut world = World::new(1, Default::default());
    let server = Lonely::boot(&world, || flip("/raft/log-00000001", 60));
    world.run({
        let server = server.clone();
        async move {
            server.puts(1, 5).await;
            server.handle.power_off(&[server.node], 1);
            server.handle.restart(server.node);
            sleep(Duration::from_millis(100)).await;
        }
    });
    let halts = server.halts.borrow();
    let [Halt::Corrupt(corrupt)] = &halts[..] else { panic!("{halts:?}") };
    assert!(corrupt.to_string().contains("segment 1"), "{corrupt}");
}

/// "both bad though a log exists = refuse".
#[test]
fn a_server_refuses_to_forget_its_vote() {
    let mut world = World::new(2, Default::default());
    let server = Lonely::boot(&world, || async {
        flip("/raft/hard-state", 8).await;
        flip("/raft/hard-state", 4096 + 8).await;
    });
    world.run({
        let server = server.clone();
        async move {
            server.puts(1, 5).await;
            server.handle.kill(server.node, 1);
            server.handle.restart(server.node);
            sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(matches!(server.halts.borrow()[..], [Halt::Corrupt(_)]), "{:?}", server.halts.borrow());
}

/// One bad slot is what a torn write leaves, and what the other slot is for.
#[test]
fn one_bad_slot_is_survived() {
    let mut world = World::new(3, Default::default());
    let server = Lonely::boot(&world, || flip("/raft/hard-state", 8));
    world.run({
        let server = server.clone();
        async move {
            server.puts(1, 5).await;
            server.handle.kill(server.node, 1);
            server.handle.restart(server.node);
            server.puts(2, 5).await;
        }
    });
    assert!(server.halts.borrow().is_empty());
}

/// After a failed sync nothing that the cache says is trusted: the server halts, and what it then reads back it
/// writes anew before it vouches for it.
#[test]
fn a_failed_sync_halts_the_server_and_nothing_acknowledged_is_lost() {
    let mut world = World::new(4, Default::default());
    let server = Lonely::boot(&world, || async {});
    let value = world.run({
        let server = server.clone();
        async move {
            server.puts(1, 5).await;
            server.handle.device::<Disks>().fail_next_fsync(server.node);
            let config = ClientConfig::new(SessionId(2), server.servers.clone());
            let client = Client::new(config).await.expect("a port is free");
            let unanswered = client.call(Op::Put { key: Key(1), value: 6 }, Duration::from_millis(300)).await;
            assert!(unanswered.is_err());
            server.handle.restart(server.node);
            server.puts(3, 1).await;
            // What the failed sync left in the cache is durable by now, or it is not there at all.
            server.handle.power_off(&[server.node], 1);
            server.handle.restart(server.node);
            client.call(Op::Get { key: Key(1) }, PATIENCE).await
        }
    });
    assert!(matches!(server.halts.borrow()[..], [Halt::DiskFailed(_)]), "{:?}", server.halts.borrow());
    assert_eq!(value, Some(Ok(OpReply::Value(Some(raft_async::types::Value::Register(1))))));
}

#[test]
fn a_server_ends_when_it_is_asked_to() {
    let mut world = World::new(5, Default::default());
    let server = Lonely::boot(&world, || async {});
    world.run({
        let server = server.clone();
        async move {
            server.puts(1, 1).await;
            server.handle.shutdown(server.node);
            sleep(Duration::from_millis(10)).await;
            assert!(!server.handle.is_up(server.node));
        }
    });
    assert!(matches!(server.halts.borrow()[..], [Halt::Shutdown]));
}

/// "Malformed, truncated or oversized frames are counted and dropped as a fact".
#[test]
fn garbage_is_counted_and_dropped() {
    let mut world = World::new(6, Default::default());
    let server = Lonely::boot(&world, || async {});
    world.run({
        let server = server.clone();
        async move {
            server.handle.device::<Net>().configure(NetConfig::calm());
            server.puts(1, 1).await;
            let socket = UdpSocket::bind(addr_of(NodeId::HOST, 0)).await.expect("a port is free");
            for len in [0, 1, 8, 9, 100, 65_000] {
                let garbage: Vec<u8> = (0..len).map(|i| (i * 37 % 251) as u8).collect();
                socket.send_to(&garbage, server.servers[&ServerId(1)]).await.expect("it fits a datagram");
                server.puts(2 + len, 1).await;
            }
        }
    });
    assert_eq!(world.report().coverage.get("frames rejected"), 6);
    assert!(server.halts.borrow().is_empty());
}

/// The files are where they are said to be, for those who look from outside.
#[test]
fn the_files_have_the_documented_names() {
    let mut world = World::new(7, Default::default());
    let server = Lonely::boot(&world, || async {
        for path in ["/raft/hard-state", "/raft/log-00000001"] {
            File::open(path).await.expect("it is there");
        }
    });
    world.run({
        let server = server.clone();
        async move {
            server.puts(1, 3).await;
            server.handle.power_off(&[server.node], 1);
            server.handle.restart(server.node);
            server.puts(2, 3).await;
        }
    });
    let image = world.handle().device::<Disks>().durable_image(server.node);
    let image =
        raft_async::image::decode(&image.files, "/raft".as_ref(), Planted::NONE).expect("it is sound");
    assert!(image.entries.last().index.0 >= 8, "six puts and a no-op for each of two terms");
    assert!(image.hard_state.term.0 >= 2);
}
