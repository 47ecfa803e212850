//! The log of a running server: in memory at once, on disk in groups.
//!
//!   role ──append, cut──► Log (memory) ──what is not written──► log writer ──write, sync──► files
//!                            ▲                                      │
//!                            └────────── durable up to ─────────────┘
//!
//! Group commit: whatever is appended while the writer syncs goes into its next batch, as one write and one
//! sync. A cut takes effect in memory at once and goes to the files before anything that was appended after it.
//!
//! Invariants: `durable` never covers an entry that was cut or replaced since it was handed to the disk; after a
//! failed sync the writer ends and the server with it.
//! Not here: file formats (`wal.rs`), files (`storage.rs`).

use crate::entries::Entries;
use crate::halt::Halt;
use crate::mutant::{Mutant, Planted};
use crate::node::Node;
use crate::rules::{self, Reconciliation};
use crate::storage::Segments;
use crate::trace::{EntryAppended, LogTruncated};
use crate::types::{Entry, Index, LastEntry, Term};
use crate::wire;
use sim_runtime::Handle;
use sim_runtime::sync::Notify;
use std::cell::{Cell, Ref, RefCell};
use std::convert::Infallible;

/// The log, as the roles use it.
pub(crate) struct Log {
    world: Handle,
    planted: Planted,
    entries: RefCell<Entries>,
    durable: Cell<Index>,
    /// The shortest that the log has been since the writer last looked.
    shortest: Cell<Index>,
    /// There is something to write or to cut.
    work: Notify,
    /// Tells a leader that the log is durable further than before.
    pub(crate) synced: Notify,
    /// [`Mutant::EntryCacheStaleSuffix`]: what followers are sent from instead of the log.
    cache: RefCell<Entries>,
}

impl Log {
    /// A log all of which is durable.
    pub(crate) fn new(world: Handle, planted: Planted, entries: Entries) -> Self {
        let last = entries.last().index;
        let cache =
            if planted.has(Mutant::EntryCacheStaleSuffix) { entries.clone() } else { Entries::default() };
        Self {
            world,
            planted,
            cache: RefCell::new(cache),
            entries: RefCell::new(entries),
            durable: Cell::new(last),
            shortest: Cell::new(last),
            work: Notify::new(),
            synced: Notify::new(),
        }
    }

    /// The log. The borrow must end before anything waits.
    pub(crate) fn entries(&self) -> Ref<'_, Entries> {
        self.entries.borrow()
    }

    /// Where the log ends.
    pub(crate) fn last(&self) -> LastEntry {
        self.entries.borrow().last()
    }

    /// [`Mutant::EntryCacheStaleSuffix`]: a cache of the log's tail that was extended with the log and not cut with it.
    pub(crate) fn cached(&self, from: Index, count: usize) -> Vec<Entry> {
        self.cache.borrow().batch(from, count).to_vec()
    }

    /// Up to where the log would survive a power loss.
    pub(crate) fn durable(&self) -> Index {
        self.durable.get()
    }

    /// Appends an entry; the writer follows.
    pub(crate) fn append(&self, entry: Entry) -> Index {
        let mut entries = self.entries.borrow_mut();
        let index = entries.append(entry);
        let digest = entries.command_digest(index).unwrap_or_default();
        drop(entries);
        if self.planted.has(Mutant::EntryCacheStaleSuffix) && self.cache.borrow().last().index < index {
            self.cache.borrow_mut().append(entry);
        }
        self.world.emit(EntryAppended { index: index.0, term: entry.term.0, digest });
        self.work.notify_one();
        index
    }

    /// Makes the log hold a leader's entries behind `prev` (Figure 2, AppendEntries RPC, steps 3 and 4).
    pub(crate) fn reconcile(&self, prev: Index, arriving: wire::Entries<'_>, term: Term) {
        let Reconciliation { cut_from, known } =
            rules::reconcile(&self.entries(), prev, arriving, self.planted);
        let mut kept_tail = Vec::new();
        if let Some(from) = cut_from {
            if self.planted.has(Mutant::KeepsConflictingTail) {
                let behind = prev.plus(arriving.len() as u64).next();
                kept_tail = self.entries().batch(behind, usize::MAX).to_vec();
            }
            self.cut(from, term);
            if self.planted.has(Mutant::ControlRedundantTruncate) {
                self.cut(from, term);
            }
        }
        for entry in arriving.skip(known).chain(kept_tail) {
            self.append(entry);
        }
    }

    /// What planted defects do to a log: everything behind `last` goes.
    pub(crate) fn shorten(&self, last: Index, term: Term) {
        if self.last().index > last {
            self.cut(last.next(), term);
        }
    }

    fn cut(&self, from: Index, term: Term) {
        self.entries.borrow_mut().truncate(from);
        self.durable.set(self.durable.get().min(from.prev()));
        self.shortest.set(self.shortest.get().min(from.prev()));
        self.world.emit(LogTruncated { from: from.0, term: term.0 });
        self.world.count("log truncated", 1);
        self.work.notify_one();
    }

    /// The writer has made everything durable up to `last`; what was cut meanwhile does not count. False when that
    /// is nothing new.
    fn synced_up_to(&self, last: Index) -> bool {
        let durable = last.min(self.shortest.get());
        let is_news = durable > self.durable.get();
        if is_news {
            self.durable.set(durable);
        }
        is_news
    }
}

/// The log writer: brings the files after the log in memory, for ever.
pub(crate) async fn write(node: &Node, mut files: Segments) -> Result<Infallible, Halt> {
    let log = &node.log;
    loop {
        let keep = log.shortest.replace(Index(u64::MAX));
        if keep < files.last() {
            files.cut(keep).await?;
            // The log may have become shorter still.
            continue;
        }
        if log.last().index <= files.last() {
            log.work.notified().await;
            continue;
        }
        files.encode_batch(&log.entries());
        files.write().await?;
        if log.synced_up_to(files.last()) {
            node.log_synced();
        }
    }
}
