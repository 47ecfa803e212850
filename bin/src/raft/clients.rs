//! The clients: each a node with its own network links, working until told to finish.
//!
//!   client ─┬─ lane: choose an operation ──► begin (book) ──► Client::call ──► answered, or given up ──► think ──► ..
//!           └─ lane: the same, in the same session                                 └─► a new process, and mostly
//!                                                                                      a new session
//!
//! A lane is a closed loop; a client with several has as many operations outstanding in its session.
//!
//! What a client does is chosen by a field of (client, lane, ordinal), not drawn from a stream: leaving one operation
//! out leaves all others as they are. Values are unique, so that what was read names the write it came from.
//!
//! Invariant: every call is begun in the book before it is sent, and ended there in whatever way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use oracles::Recorder;
use raft_async::types::{Key, Op, OpReply, Sequence, SessionId, Value};
use raft_async::{Client, ClientConfig};
use sim_runtime::rng::{Field, mix};
use sim_runtime::sync::{Either, race, watch};
use sim_runtime::time::{Instant, sleep, sleep_until};
use sim_runtime::{Handle, NodeId, node, task};

use super::config::{Config, list, register};
use super::coverage::{OPERATIONS_FAILED, OPERATIONS_OK, OPERATIONS_UNKNOWN};

const OPERATION: Field = Field::new("client operation");
const THINK: Field = Field::new("client think time");

/// What clients are asked to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Operate.
    Work,
    /// Finish what is pending, then read every key once more; give up nothing before that time.
    Finish {
        /// On the host's clock, which is also the clients': they boot at the beginning and do not drift.
        give_up: Instant,
    },
}

/// What the scenario and its clients share.
#[derive(Clone)]
pub(super) struct Board {
    pub(super) recorder: Recorder,
    pub(super) outcomes: Rc<Outcomes>,
    pub(super) phase: watch::Receiver<Phase>,
    /// How many clients have finished.
    pub(super) finished: Rc<Cell<u16>>,
    /// Told when one has.
    pub(super) one_finished: sim_runtime::sync::Notify,
}

/// How many operations came to what.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    ok: Cell<u64>,
    failed: Cell<u64>,
    unknown: Cell<u64>,
}

impl Outcomes {
    /// For the coverage table, when the run is over.
    pub(super) fn count(&self, world: &Handle) {
        let outcomes = [
            (OPERATIONS_OK, &self.ok),
            (OPERATIONS_FAILED, &self.failed),
            (OPERATIONS_UNKNOWN, &self.unknown),
        ];
        for (name, outcome) in outcomes.into_iter().filter(|(_, outcome)| outcome.get() > 0) {
            world.count(name, outcome.get());
        }
    }
}

fn one_more(outcome: &Cell<u64>) {
    outcome.set(outcome.get() + 1);
}

/// A client's life.
pub(super) async fn run(config: Rc<Config>, board: Board) {
    let number = node::id().0 - config.servers;
    if config.work_from_ms > 0 {
        sleep(Duration::from_millis(config.work_from_ms)).await;
    }
    let lanes = config.lanes_of(number);
    let shared = Rc::new(Shared {
        number,
        config,
        sessions: Cell::new(0),
        processes: Cell::new(0),
        session: RefCell::new(None),
    });
    let mut first = Lane::new(0, shared.clone(), board.clone());
    let others: Vec<_> = (1..lanes)
        .map(|lane| {
            let mut lane = Lane::new(lane, shared.clone(), board.clone());
            task("lane").key(u64::from(lane.number)).spawn(async move { lane.work().await })
        })
        .collect();
    first.work().await;
    for other in others {
        // A lane that panics is reported as what it is, by the runtime.
        let _ = other.await;
    }
    if shared.config.final_reads {
        first.read_everything().await;
    }
    board.finished.set(board.finished.get() + 1);
    board.one_finished.notify_one();
    // A client stays on the network; only its program has nothing to do any more.
    std::future::pending::<()>().await;
}

/// The life of a client beyond the others: one operation on a register that nobody else has, and, when faults are over, the
/// read that is expected of all.
pub(super) async fn visit(config: Rc<Config>, board: Board) {
    let (number, key) = (config.clients + 1, register(config.registers + 1));
    let shared = Rc::new(Shared {
        number,
        config,
        sessions: Cell::new(0),
        processes: Cell::new(0),
        session: RefCell::new(None),
    });
    let mut phase = board.phase.clone();
    let mut lane = Lane::new(0, shared.clone(), board);
    let session = shared.session().await;
    let _ = lane.call(&session, Op::Put { key, value: u64::from(number) << 32 }).await;
    while phase.get() == Phase::Work {
        // The sender of phases outlives all clients.
        let _ = phase.changed().await;
    }
    // Whoever has worked is expected to be served again when faults are over.
    shared.session.replace(None);
    let session = shared.session().await;
    let _ = lane.call(&session, Op::Get { key }).await;
    std::future::pending::<()>().await;
}

/// What the lanes of a client share.
struct Shared {
    /// 1 for the first client.
    number: u16,
    config: Rc<Config>,
    /// Sessions of this client so far.
    sessions: Cell<u32>,
    /// Processes of this client so far: one a lane, and one more after each unknown outcome.
    processes: Cell<u32>,
    /// The session in which new operations begin.
    session: RefCell<Option<Rc<Session>>>,
}

/// A session with the number of its next operation. It lives as long as an operation in it is outstanding.
struct Session {
    client: Client,
    next: Cell<Sequence>,
}

impl Shared {
    /// The session for the next operation; opens one where there is none.
    async fn session(&self) -> Rc<Session> {
        if let Some(session) = self.session.borrow().as_ref() {
            return session.clone();
        }
        let number = self.sessions.get() + 1;
        self.sessions.set(number);
        // A client that was restarted is another process: nobody may use the sessions of the one before.
        let life = u64::from(node::incarnation() - 1);
        let session = SessionId(u64::from(self.number) << 32 | life << 20 | u64::from(number));
        let config = ClientConfig {
            attempt_timeout_ms: self.config.attempt_timeout_ms,
            retry_pause_ms: self.config.retry_pause_ms,
            carrier: self.config.carrier,
            ..ClientConfig::new(session, self.config.server_addresses())
        };
        let client = Client::new(config).await.expect("a client has free ports");
        let session = Rc::new(Session { client, next: Cell::new(Sequence(1)) });
        // Another lane may have opened one meanwhile; the latest is as good as any.
        self.session.replace(Some(session.clone()));
        session
    }

    /// No operation begins in `session` any more; what is outstanding in it goes on.
    fn leave(&self, session: &Rc<Session>) {
        let mut current = self.session.borrow_mut();
        if current.as_ref().is_some_and(|current| Rc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    fn next_process(&self) -> u32 {
        self.processes.set(self.processes.get() + 1);
        u32::from(self.number) << 16 | self.processes.get()
    }
}

/// One operation at a time: a process of the history, until an outcome is unknown, and then another.
struct Lane {
    /// 0 for the first of a client.
    number: u16,
    shared: Rc<Shared>,
    world: Handle,
    board: Board,
    process: u32,
    /// Operations chosen so far.
    ordinal: u64,
    /// What each register was last seen to hold.
    last_seen: RefCell<BTreeMap<Key, u64>>,
}

impl Lane {
    fn new(number: u16, shared: Rc<Shared>, board: Board) -> Self {
        let process = shared.next_process();
        let world = Handle::current();
        Self { number, shared, world, board, process, ordinal: 0, last_seen: RefCell::default() }
    }

    async fn work(&mut self) {
        while self.is_working() {
            let session = self.shared.session().await;
            while self.is_working() {
                let op = self.choose();
                if self.has_done_its_share() {
                    // The sender of phases outlives all clients.
                    let _ = self.board.phase.changed().await;
                    break;
                }
                if self.is_skipped() {
                    self.think().await;
                    continue;
                }
                if self.call(&session, op).await.is_none() {
                    break;
                }
                self.think().await;
                if self.is_left(&session) {
                    break;
                }
            }
        }
    }

    async fn think(&self) {
        let think = self.world.sample_fixed(THINK, self.place());
        sleep(Duration::from_micros(think.range(0, self.shared.config.think_max_us))).await;
    }

    fn is_skipped(&self) -> bool {
        let Shared { number, config, .. } = &*self.shared;
        config.skipped.contains(&(*number, self.number, self.ordinal))
    }

    fn has_done_its_share(&self) -> bool {
        self.shared.config.operations.is_some_and(|operations| self.ordinal > operations)
    }

    /// The fresh operations after healing, in a fresh session: each key is read until it is answered.
    async fn read_everything(&mut self) {
        self.shared.session.replace(None);
        self.process = self.shared.next_process();
        for key in self.shared.config.keys() {
            loop {
                let session = self.shared.session().await;
                if self.call(&session, Op::Get { key }).await.is_some() {
                    break;
                }
            }
        }
        self.shared.session.replace(None);
    }

    fn is_working(&mut self) -> bool {
        self.board.phase.get() == Phase::Work
    }

    fn is_left(&self, session: &Rc<Session>) -> bool {
        !self.shared.session.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, session))
    }

    /// Carries out one operation; `None` when its outcome is unknown. The process is another one then.
    async fn call(&mut self, session: &Rc<Session>, op: Op) -> Option<OpReply> {
        let sequence = session.next.get();
        let call = self.board.recorder.begin(self.process, session.client.session(), sequence, op);
        session.next.set(Sequence(sequence.0 + 1));
        // The client's own patience is without end: when to give up is decided here.
        const FOR_EVER: Duration = Duration::from_secs(1 << 32);
        let phase = self.board.phase.clone();
        let patience = Duration::from_millis(self.shared.config.operation_timeout_ms);
        match race(session.client.call(op, FOR_EVER), give_up(phase, patience)).await {
            Either::Left(Ok(reply)) => {
                self.board.recorder.answered(call, &reply);
                one_more(match reply {
                    OpReply::Mismatch(_) | OpReply::Refused => &self.board.outcomes.failed,
                    _ => &self.board.outcomes.ok,
                });
                self.remember(&op, &reply);
                Some(reply)
            }
            Either::Left(Err(_)) | Either::Right(()) => {
                self.board.recorder.given_up(call);
                one_more(&self.board.outcomes.unknown);
                self.process = self.shared.next_process();
                if !self.shared.config.sessions_outlive_unknowns {
                    self.shared.leave(session);
                }
                None
            }
        }
    }

    fn remember(&self, op: &Op, reply: &OpReply) {
        let seen = match (op, reply) {
            (
                _,
                OpReply::Value(Some(Value::Register(value)))
                | OpReply::Mismatch(Some(Value::Register(value))),
            ) => *value,
            (Op::Put { value, .. } | Op::Cas { new: value, .. }, OpReply::Done { .. }) => *value,
            _ => return,
        };
        self.last_seen.borrow_mut().insert(op.key(), seen);
    }

    /// Where the fields of the current operation are.
    fn place(&self) -> u64 {
        mix(u64::from(self.number) << 32 | u64::from(self.shared.number), self.ordinal)
    }

    /// Half of the operations go to registers (get 40, put 20, compare-and-swap 40 of 100), half to lists (get 50,
    /// append 50).
    fn choose(&mut self) -> Op {
        self.ordinal += 1;
        let config = &self.shared.config;
        let sample = self.world.sample_fixed(OPERATION, self.place());
        let unique = u64::from(self.shared.number) << 32 | u64::from(self.number) << 24 | self.ordinal;
        let percent = sample.split(1).range(0, 99);
        let nth = |count: u16| sample.split(2).range(1, u64::from(count)) as u16;
        if sample.range(0, 1) == 0 {
            let key = register(nth(config.registers));
            match percent {
                0..40 => Op::Get { key },
                40..60 => Op::Put { key, value: unique },
                _ => Op::Cas { key, expected: self.last_seen.borrow().get(&key).copied(), new: unique },
            }
        } else {
            let key = list(nth(config.lists));
            if percent < 50 { Op::Get { key } } else { Op::Append { key, item: unique } }
        }
    }
}

/// Resolves when it is time to give an operation up: after `patience` while there are faults. What is pending when
/// they end must complete, however long it has waited.
async fn give_up(mut phase: watch::Receiver<Phase>, patience: Duration) {
    sleep(patience).await;
    if let Phase::Finish { give_up } = phase.get() {
        sleep_until(give_up).await;
    }
}

/// The node of the `n`th client, from 1.
pub(super) fn client_node(config: &Config, n: u16) -> NodeId {
    NodeId(config.servers + n)
}
