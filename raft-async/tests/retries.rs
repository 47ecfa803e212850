//! Retries of what is under way do not make the log grow.

use raft_async::types::{Command, Index, Key, Op, OpReply, Sequence, ServerId, SessionId, Term};
use raft_async::{Client, ClientConfig, Config, Kv, Planted, Sessions, StateMachine, run};
use sim_io::net::{Net, NetConfig, addr_of};
use sim_runtime::{NodeId, Options, World};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Counts the commands that reach a state machine.
struct Counted {
    sessions: Sessions<Kv>,
    commands: Rc<Cell<u64>>,
}

impl StateMachine for Counted {
    fn apply(&mut self, index: Index, term: Term, command: &Command) -> Option<OpReply> {
        if matches!(command, Command::Client { .. }) && sim_runtime::node::id() == NodeId(1) {
            self.commands.set(self.commands.get() + 1);
        }
        self.sessions.apply(index, term, command)
    }

    fn query(&self, op: &Op) -> OpReply {
        self.sessions.query(op)
    }

    fn recall(&self, session: SessionId, sequence: Sequence) -> Option<OpReply> {
        self.sessions.recall(session, sequence)
    }
}

#[test]
fn an_impatient_client_does_not_make_the_log_grow() {
    const OPERATIONS: u64 = 20;
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    // A command takes 80 ms at least, and the client asks again every 15.
    let far = NetConfig { latency_min_us: 20_000, latency_max_us: 20_000, ..NetConfig::calm() };
    handle.device::<Net>().configure(far);
    let servers: BTreeMap<_, _> = (1..=3).map(|id| (ServerId(id), addr_of(NodeId(id), 7_000))).collect();
    let commands = Rc::new(Cell::new(0));
    for id in 1..=3 {
        let mut config = Config::new(ServerId(id), servers.clone());
        (config.election_timeout_min_ms, config.election_timeout_max_ms) = (400, 800);
        let commands = commands.clone();
        let node = handle.add_node("server", move || {
            let sessions = Sessions::new(Kv::default(), Planted::NONE);
            let machine = Counted { sessions, commands: commands.clone() };
            let config = config.clone();
            async move {
                run(config, machine).await;
            }
        });
        handle.boot(node);
    }
    world
        .run(async move {
            let config = ClientConfig { attempt_timeout_ms: 15, ..ClientConfig::new(SessionId(1), servers) };
            let client = Client::new(config).await.expect("a port is free");
            for item in 1..=OPERATIONS {
                let reply = client.call(Op::Append { key: Key(1), item }, Duration::from_secs(60)).await;
                assert!(matches!(reply, Ok(OpReply::Done { .. })), "{reply:?}");
            }
            sim_runtime::time::sleep(Duration::from_secs(1)).await;
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.failures, []);
    assert_eq!(commands.get(), OPERATIONS, "entries, retries among them");
}
