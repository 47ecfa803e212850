//! An AppendEntries to a frame, checksum and all, and back. An item is one message each way.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use raft_async::types::{Command, Entry, Index, Key, LastEntry, Op, Sequence, ServerId, SessionId, Term};
use raft_async::wire::{AppendRequest, Entries, decode, encode_append};

/// None is a heartbeat.
#[divan::bench(args = [0, 1, 8, 64])]
fn append(bencher: Bencher<'_, '_>, entries: u64) {
    let head = AppendRequest {
        term: Term(7),
        leader: ServerId(1),
        prev: LastEntry { term: Term(7), index: Index(1_000) },
        commit: Index(990),
        round: 12,
        entries: Entries::NONE,
    };
    let entry = |n| Entry {
        term: Term(7),
        command: Command::Client {
            session: SessionId(3),
            sequence: Sequence(n),
            ack_below: Sequence(n),
            op: Op::Put { key: Key(1), value: n },
        },
    };
    let entries: Vec<_> = (0..entries).map(entry).collect();
    let mut frame = Vec::new();
    bencher.counter(ItemsCount::new(1_u64)).bench_local(|| {
        encode_append(black_box(&head), black_box(&entries), &mut frame);
        decode(black_box(&frame)).expect("it was encoded just now").term()
    });
}
