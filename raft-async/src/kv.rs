//! The key-value store: registers and lists, with versions that survive deletion.
//!
//! Every write that takes effect raises the key's version, a deletion too: it leaves a tombstone, so that a key
//! which comes back does not start over and nobody mistakes its new life for the old one.
//!
//! Not here: duplicates (`sessions.rs`).

use crate::machine::{Machine, Origin};
use crate::types::{Key, Op, OpReply, Value};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A list longer than this accepts no more, so that every reply fits a frame.
pub const MAX_LIST_ITEMS: usize = 4096;

/// The store.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Kv {
    cells: BTreeMap<Key, Cell>,
}

/// What is kept for a key that was ever written; without a value it is a tombstone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Cell {
    version: u64,
    value: Option<Value>,
}

impl Cell {
    fn set(&mut self, value: Option<Value>) -> OpReply {
        self.value = value;
        self.touch()
    }

    fn touch(&mut self) -> OpReply {
        self.version += 1;
        OpReply::Done { version: self.version }
    }
}

impl Kv {
    /// What a key holds.
    pub fn get(&self, key: Key) -> Option<&Value> {
        self.cells.get(&key)?.value.as_ref()
    }

    /// How many writes a key has seen, deletions included.
    pub fn version(&self, key: Key) -> u64 {
        self.cells.get(&key).map_or(0, |cell| cell.version)
    }

    fn read(&self, key: Key) -> OpReply {
        OpReply::Value(self.get(key).cloned())
    }

    fn append(&mut self, key: Key, item: u64) -> OpReply {
        let cell = self.cells.entry(key).or_default();
        match &mut cell.value {
            None => cell.set(Some(Value::List(Rc::new(vec![item])))),
            Some(Value::List(items)) if items.len() < MAX_LIST_ITEMS => {
                // Copies only while a reply still shares the list.
                Rc::make_mut(items).push(item);
                cell.touch()
            }
            Some(Value::List(_) | Value::Register(_)) => OpReply::Refused,
        }
    }

    fn compare_and_swap(&mut self, key: Key, expected: Option<u64>, new: u64) -> OpReply {
        if self.get(key) != expected.map(Value::Register).as_ref() {
            return OpReply::Mismatch(self.get(key).cloned());
        }
        self.cells.entry(key).or_default().set(Some(Value::Register(new)))
    }
}

impl Machine for Kv {
    fn execute(&mut self, _origin: Origin, op: &Op) -> OpReply {
        match *op {
            Op::Get { key } => self.read(key),
            Op::Put { key, value } => self.cells.entry(key).or_default().set(Some(Value::Register(value))),
            Op::PutList { key, item } => {
                self.cells.entry(key).or_default().set(Some(Value::List(Rc::new(vec![item]))))
            }
            Op::Append { key, item } => self.append(key, item),
            Op::Cas { key, expected, new } => self.compare_and_swap(key, expected, new),
            Op::Delete { key } => self.cells.entry(key).or_default().set(None),
        }
    }

    fn query(&self, op: &Op) -> OpReply {
        self.read(op.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Index, Sequence, SessionId, Term};

    const KEY: Key = Key(1);

    fn run(kv: &mut Kv, op: Op) -> OpReply {
        let origin = Origin { session: SessionId(1), sequence: Sequence(1), index: Index(1), term: Term(1) };
        kv.execute(origin, &op)
    }

    fn done(version: u64) -> OpReply {
        OpReply::Done { version }
    }

    fn list(items: &[u64]) -> Option<Value> {
        Some(Value::List(Rc::new(items.to_vec())))
    }

    #[test]
    fn a_missing_key_reads_as_nothing_and_has_no_version() {
        let mut kv = Kv::default();
        assert_eq!(run(&mut kv, Op::Get { key: KEY }), OpReply::Value(None));
        assert_eq!(kv.version(KEY), 0);
    }

    #[test]
    fn a_register_holds_the_last_value_put() {
        let mut kv = Kv::default();
        assert_eq!(run(&mut kv, Op::Put { key: KEY, value: 4 }), done(1));
        assert_eq!(run(&mut kv, Op::Put { key: KEY, value: 5 }), done(2));
        assert_eq!(kv.query(&Op::Get { key: KEY }), OpReply::Value(Some(Value::Register(5))));
    }

    #[test]
    fn a_list_grows_at_its_end_and_a_put_starts_it_anew() {
        let mut kv = Kv::default();
        run(&mut kv, Op::Append { key: KEY, item: 1 });
        run(&mut kv, Op::Append { key: KEY, item: 2 });
        let earlier = kv.query(&Op::Get { key: KEY });
        run(&mut kv, Op::Append { key: KEY, item: 3 });
        assert_eq!(kv.get(KEY).cloned(), list(&[1, 2, 3]));
        assert_eq!(earlier, OpReply::Value(list(&[1, 2])), "a reply does not change later");
        assert_eq!(run(&mut kv, Op::PutList { key: KEY, item: 9 }), done(4));
        assert_eq!(kv.get(KEY).cloned(), list(&[9]));
    }

    #[test]
    fn a_swap_that_fails_returns_what_is_there_and_changes_nothing() {
        let mut kv = Kv::default();
        let swap = |expected, new| Op::Cas { key: KEY, expected, new };
        assert_eq!(run(&mut kv, swap(Some(1), 2)), OpReply::Mismatch(None));
        assert_eq!(run(&mut kv, swap(None, 1)), done(1));
        assert_eq!(run(&mut kv, swap(None, 7)), OpReply::Mismatch(Some(Value::Register(1))));
        assert_eq!(run(&mut kv, swap(Some(1), 2)), done(2));
        assert_eq!(kv.version(KEY), 2);
    }

    #[test]
    fn an_operation_that_does_not_fit_is_refused() {
        let mut kv = Kv::default();
        run(&mut kv, Op::Put { key: KEY, value: 4 });
        assert_eq!(run(&mut kv, Op::Append { key: KEY, item: 1 }), OpReply::Refused);
        run(&mut kv, Op::PutList { key: KEY, item: 1 });
        let swap = Op::Cas { key: KEY, expected: Some(4), new: 5 };
        assert_eq!(run(&mut kv, swap), OpReply::Mismatch(list(&[1])));
        for item in 1..MAX_LIST_ITEMS as u64 {
            assert_ne!(run(&mut kv, Op::Append { key: KEY, item }), OpReply::Refused);
        }
        assert_eq!(run(&mut kv, Op::Append { key: KEY, item: 0 }), OpReply::Refused);
    }

    #[test]
    fn a_deleted_key_leaves_a_versioned_tombstone() {
        let mut kv = Kv::default();
        run(&mut kv, Op::Put { key: KEY, value: 4 });
        assert_eq!(run(&mut kv, Op::Delete { key: KEY }), done(2));
        assert_eq!(kv.get(KEY), None);
        assert_eq!(run(&mut kv, Op::Put { key: KEY, value: 4 }), done(3));
    }
}
