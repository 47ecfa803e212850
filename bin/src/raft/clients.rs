//! The clients: each a node with its own network links, working in a closed loop until told to finish.
//!
//!   choose an operation ──► begin (book) ──► Client::call ──► answered, or given up ──► think ──► ..
//!                                                                  └─► a new process, a new session
//!
//! What a client does is chosen by a field of (client, ordinal), not drawn from a stream: leaving one operation
//! out leaves all others as they are. Values are unique, so that what was read names the write it came from.
//!
//! Invariant: every call is begun in the book before it is sent, and ended there in whatever way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use oracles::Recorder;
use raft_async::types::{Key, Op, OpReply, Sequence, SessionId, Value};
use raft_async::{Client, ClientConfig};
use sim_runtime::rng::{Field, mix};
use sim_runtime::sync::{Either, race, watch};
use sim_runtime::time::{Instant, sleep, sleep_until};
use sim_runtime::{Handle, NodeId, node};

use super::config::Config;
use super::coverage::{OPERATIONS_FAILED, OPERATIONS_OK, OPERATIONS_UNKNOWN};

/// The key that holds a register.
pub(super) const REGISTER: Key = Key(1);
/// The key that holds a list.
pub(super) const LIST: Key = Key(2);

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
    pub(super) phase: watch::Receiver<Phase>,
    /// How many clients have finished.
    pub(super) finished: Rc<Cell<u16>>,
    /// Told when one has.
    pub(super) one_finished: sim_runtime::sync::Notify,
}

/// A client's life.
pub(super) async fn run(config: Rc<Config>, board: Board) {
    let mut worker = Worker {
        number: node::id().0 - config.servers,
        world: Handle::current(),
        config,
        board,
        process: 0,
        ordinal: 0,
        last_seen: RefCell::new(None),
    };
    worker.work().await;
    worker.read_everything().await;
    worker.board.finished.set(worker.board.finished.get() + 1);
    worker.board.one_finished.notify_one();
    // A client stays on the network; only its program has nothing to do any more.
    std::future::pending::<()>().await;
}

struct Worker {
    /// 1 for the first client.
    number: u16,
    world: Handle,
    config: Rc<Config>,
    board: Board,
    /// Processes of this client so far: one more after each unknown outcome.
    process: u32,
    /// Operations chosen so far.
    ordinal: u64,
    /// What the register was last seen to hold.
    last_seen: RefCell<Option<u64>>,
}

/// A session with the number of its next operation.
struct Session {
    client: Client,
    next: Sequence,
}

impl Worker {
    async fn work(&mut self) {
        while self.is_working() {
            let mut session = self.open_session().await;
            while self.is_working() {
                let op = self.choose();
                if self.call(&mut session, op).await.is_none() {
                    break;
                }
                let think = self.world.sample_fixed(THINK, self.place());
                sleep(Duration::from_micros(think.range(0, self.config.think_max_us))).await;
            }
        }
    }

    /// The fresh operations after healing: each key is read until it is answered.
    async fn read_everything(&mut self) {
        let mut session = self.open_session().await;
        for key in [REGISTER, LIST] {
            while self.call(&mut session, Op::Get { key }).await.is_none() {
                session = self.open_session().await;
            }
        }
    }

    fn is_working(&mut self) -> bool {
        self.board.phase.get() == Phase::Work
    }

    async fn open_session(&mut self) -> Session {
        self.process += 1;
        let session = SessionId(u64::from(self.number) << 32 | u64::from(self.process));
        let servers = self.config.server_addresses();
        let client = Client::new(ClientConfig::new(session, servers)).await;
        Session { client: client.expect("a client has free ports"), next: Sequence(1) }
    }

    /// Carries out one operation; `None` when its outcome is unknown.
    async fn call(&self, session: &mut Session, op: Op) -> Option<OpReply> {
        let process = u32::from(self.number) << 16 | self.process;
        let call = self.board.recorder.begin(process, session.client.session(), session.next, op);
        session.next = Sequence(session.next.0 + 1);
        // The client's own patience is without end: when to give up is decided here.
        const FOR_EVER: Duration = Duration::from_secs(1 << 32);
        let phase = self.board.phase.clone();
        let patience = Duration::from_millis(self.config.operation_timeout_ms);
        match race(session.client.call(op, FOR_EVER), give_up(phase, patience)).await {
            Either::Left(Ok(reply)) => {
                self.board.recorder.answered(call, &reply);
                let outcome = match reply {
                    OpReply::Mismatch(_) | OpReply::Refused => OPERATIONS_FAILED,
                    _ => OPERATIONS_OK,
                };
                self.world.count(outcome, 1);
                self.remember(&op, &reply);
                Some(reply)
            }
            Either::Left(Err(_)) | Either::Right(()) => {
                self.board.recorder.given_up(call);
                self.world.count(OPERATIONS_UNKNOWN, 1);
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
        *self.last_seen.borrow_mut() = Some(seen);
    }

    /// Where the fields of the current operation are.
    fn place(&self) -> u64 {
        mix(u64::from(self.number), self.ordinal)
    }

    /// Half of the operations go to the register (get 40, put 20, compare-and-swap 40 of 100), half to the list
    /// (get 50, append 50).
    fn choose(&mut self) -> Op {
        self.ordinal += 1;
        let sample = self.world.sample_fixed(OPERATION, self.place());
        let unique = u64::from(self.number) << 32 | self.ordinal;
        let percent = sample.split(1).range(0, 99);
        if sample.range(0, 1) == 0 {
            match percent {
                0..40 => Op::Get { key: REGISTER },
                40..60 => Op::Put { key: REGISTER, value: unique },
                _ => Op::Cas { key: REGISTER, expected: *self.last_seen.borrow(), new: unique },
            }
        } else if percent < 50 {
            Op::Get { key: LIST }
        } else {
            Op::Append { key: LIST, item: unique }
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
