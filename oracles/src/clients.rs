//! The clients' book: every call and every answer, once for the history that linearizability is judged by, and once
//! as a record for the other oracles.
//!
//! ```text
//!   client ──begin──► Call ──answered──► Acknowledged, Ok in the history
//!                          └─given_up──► Unknown
//! ```
//!
//! A client that gives up goes on as a new process: the old one may be carried out at any later time.
//!
//! Invariant: what is in the book is what clients saw; servers have no part in it.
//! Not here: what clients do, and how they number it (the harness).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use linearizability::models::kv::{Input, Kv, Output, Value};
use linearizability::{History, OpId, Options, Verdict, check};
use raft_async::kv::MAX_LIST_ITEMS;
use raft_async::types as raft;
use raft_async::types::{Key, Op, OpReply, Sequence, SessionId};
use sim_runtime::{Handle, trace};

use crate::records::{Acknowledged, Invoked, Unknown};

/// A history of the key-value store, by key.
pub type KvHistory = History<u64, Input, Output>;

/// An operation that a client waits for.
#[derive(Debug)]
#[must_use = "a call that is dropped stays pending, which liveness objects to"]
pub struct Call {
    id: OpId,
    session: SessionId,
    sequence: Sequence,
    op: Op,
}

#[derive(Debug, Default)]
struct Book {
    history: KvHistory,
    /// Operations that may have made a key's list longer, to know when a list may be full.
    pushes: BTreeMap<Key, usize>,
}

/// A handle to the book of a run. Clones write into the same one.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Rc<RefCell<Book>>);

impl Recorder {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client begins an operation. `process` is for explanations: one that has given up does not return.
    pub fn begin(&self, process: u32, session: SessionId, sequence: Sequence, op: Op) -> Call {
        let id = {
            let mut book = self.0.borrow_mut();
            if matches!(op, Op::Append { .. } | Op::PutList { .. }) {
                *book.pushes.entry(op.key()).or_default() += 1;
            }
            book.tick();
            book.history.invoke(process, op.key().0, input(&op))
        };
        let write = u32::from(!op.is_read());
        trace::emit(Invoked { session: session.0, sequence: sequence.0, key: op.key().0, write });
        Call { id, session, sequence, op }
    }

    /// The client got its answer.
    pub fn answered(&self, call: Call, reply: &OpReply) {
        let Call { id, session, sequence, op } = call;
        let Some(output) = output(&op, reply) else {
            return self.given_up(Call { id, session, sequence, op });
        };
        {
            let mut book = self.0.borrow_mut();
            book.tick();
            // A list that is full refuses as one that is none; a full one is no business of the model.
            let list_may_be_full = book.pushes.get(&op.key()).is_some_and(|n| *n >= MAX_LIST_ITEMS);
            if output == Output::Refused && list_may_be_full {
                book.history.fail(id);
            } else {
                book.history.complete(id, output);
            }
        }
        let version = if let OpReply::Done { version } = *reply { version } else { 0 };
        let write = u32::from(!op.is_read());
        let (session, sequence, key) = (session.0, sequence.0, op.key().0);
        trace::emit(Acknowledged { session, sequence, key, version, write });
    }

    /// The client has waited long enough: it will never know.
    pub fn given_up(&self, call: Call) {
        {
            let mut book = self.0.borrow_mut();
            book.tick();
            book.history.unknown(call.id);
        }
        trace::emit(Unknown { session: call.session.0, sequence: call.sequence.0 });
    }

    /// How many operations were begun.
    pub fn len(&self) -> usize {
        self.0.borrow().history.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The history as it is, to be saved.
    pub fn history(&self) -> KvHistory {
        self.0.borrow().history.clone()
    }

    /// Judges the history, key by key.
    pub fn judge(&self, options: &Options) -> Verdict<u64> {
        check(&Kv, &self.0.borrow().history, options)
    }
}

impl Book {
    fn tick(&mut self) {
        if let Some(handle) = Handle::try_current() {
            self.history.tick(handle.now_ns());
        }
    }
}

fn input(op: &Op) -> Input {
    match *op {
        Op::Get { .. } => Input::Get,
        Op::Put { value, .. } => Input::Put(Value::Register(value)),
        Op::PutList { item, .. } => Input::Put(Value::List(vec![item])),
        Op::Append { item, .. } => Input::Append(item),
        Op::Cas { expected, new, .. } => {
            Input::CompareAndSwap { expected: expected.map(Value::Register), new: Value::Register(new) }
        }
        Op::Delete { .. } => Input::Delete,
    }
}

/// `None` for an answer that tells nothing.
fn output(op: &Op, reply: &OpReply) -> Option<Output> {
    Some(match reply {
        OpReply::Value(value) => Output::Value(value.as_ref().map(seen)),
        OpReply::Done { .. } if matches!(op, Op::Cas { .. }) => Output::Swapped,
        OpReply::Done { .. } => Output::Written,
        OpReply::Mismatch(value) => Output::Unequal(value.as_ref().map(seen)),
        OpReply::Refused => Output::Refused,
        OpReply::Forgotten => return None,
    })
}

fn seen(value: &raft::Value) -> Value {
    match value {
        raft::Value::Register(number) => Value::Register(*number),
        raft::Value::List(items) => Value::List(items.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft_async::kv::Kv as Store;
    use raft_async::machine::{Machine, Origin};
    use raft_async::types::{Index, Term};

    const KEY: Key = Key(1);

    /// Clients of one store that answers at once.
    struct Shop {
        recorder: Recorder,
        store: Store,
        sequence: u64,
    }

    impl Shop {
        fn new() -> Self {
            Self { recorder: Recorder::new(), store: Store::default(), sequence: 0 }
        }

        fn begin(&mut self, op: Op) -> Call {
            self.sequence += 1;
            self.recorder.begin(0, SessionId(1), Sequence(self.sequence), op)
        }

        fn execute(&mut self, op: Op) -> OpReply {
            let (session, sequence) = (SessionId(1), Sequence(self.sequence));
            self.store.execute(Origin { session, sequence, index: Index(1), term: Term(1) }, &op)
        }

        fn call(&mut self, op: Op) {
            let call = self.begin(op);
            let reply = self.execute(op);
            self.recorder.answered(call, &reply);
        }

        fn verdict(&self) -> Verdict<u64> {
            self.recorder.judge(&Options::default())
        }
    }

    /// The store and the model mean the same by every operation and every answer.
    #[test]
    fn what_the_store_answers_is_linearizable() {
        let ops = [
            Op::Get { key: KEY },
            Op::Append { key: KEY, item: 1 },
            Op::Append { key: KEY, item: 2 },
            Op::Cas { key: KEY, expected: Some(7), new: 8 },
            Op::Put { key: KEY, value: 3 },
            Op::Append { key: KEY, item: 4 },
            Op::Cas { key: KEY, expected: Some(3), new: 5 },
            Op::Cas { key: KEY, expected: None, new: 6 },
            Op::Delete { key: KEY },
            Op::Cas { key: KEY, expected: None, new: 9 },
            Op::PutList { key: KEY, item: 10 },
            Op::Get { key: KEY },
        ];
        // Every operation in every state that three others lead to.
        for a in ops {
            for b in ops {
                for c in ops {
                    let mut shop = Shop::new();
                    for op in [a, b, c, Op::Get { key: KEY }] {
                        shop.call(op);
                    }
                    assert!(shop.verdict().is_linearizable(), "{a:?} {b:?} {c:?}: {}", shop.verdict());
                }
            }
        }
    }

    #[test]
    fn a_stale_answer_is_a_violation_and_a_lost_one_is_not() {
        let mut shop = Shop::new();
        shop.call(Op::Put { key: KEY, value: 1 });
        let lost = shop.begin(Op::Put { key: KEY, value: 2 });
        shop.recorder.given_up(lost);
        shop.call(Op::Get { key: KEY });
        assert!(shop.verdict().is_linearizable());
        let stale = shop.begin(Op::Get { key: KEY });
        shop.recorder.answered(stale, &OpReply::Value(None));
        assert!(shop.verdict().violation().is_some());
    }

    #[test]
    fn a_full_list_may_refuse() {
        let mut shop = Shop::new();
        for item in 0..MAX_LIST_ITEMS as u64 {
            let call = shop.begin(Op::Append { key: KEY, item });
            shop.recorder.answered(call, &OpReply::Done { version: item + 1 });
        }
        let call = shop.begin(Op::Append { key: KEY, item: 9_999 });
        shop.recorder.answered(call, &OpReply::Refused);
        assert!(shop.verdict().is_linearizable());
    }
}
