//! Scenes for the judge: a cluster that does what the script says, record by record.
//!
//! The script keeps just enough of each server (its log, its term and vote) to say the same as a real server would,
//! digests included; whether that is right is for the judge to find out. Its disks are as durable as the scene wants.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use oracles::records::{Acknowledged, Applied, Executed, Healed, Invoked, Quiesced, Settled, Unknown};
use oracles::truth::Truth;
use oracles::{Judge, JudgeConfig, Premise, Property, Recorder, Sweeps};
use raft_async::entries::Entries;
use raft_async::hard_state;
use raft_async::image::{Corrupt, Image};
use raft_async::trace::{
    AppendAnswered, AppendSent, Became, CommandAcknowledged, CommitAdvanced, EntryAppended, EntryWritten,
    HardStateWritten, LogSummary, LogTruncated, ReadServed, Recovered, RoleKind, VoteAnswered, VoteAsked,
    VoteCounted,
};
use raft_async::types::{Command, Entry, Index, Key, Op, Sequence, ServerId, SessionId, Term};
use sim_io::records::{DirSynced, FileResized, FsyncDone, NameChanged};
use sim_runtime::NodeId;
use sim_runtime::trace::{Down, NodeDown, NodeUp, Payload, Record};
use sim_runtime::verdict::Findings;

/// The client of every scene.
pub const CLIENT: u16 = 9;
/// The file of term and vote.
const HARD: u64 = 1;
/// The file of the log; a scene may open others.
const LOG: u64 = 2;
const ENTRY_BYTES: u64 = 40;

/// Disks on which something is durable when the scene says so.
#[derive(Default)]
struct FakeDisks {
    /// First bytes of what is durable, by node and file.
    durable: BTreeSet<(NodeId, u64, u64)>,
    visible: BTreeMap<NodeId, Result<Image, Corrupt>>,
    platter: BTreeMap<NodeId, Result<Image, Corrupt>>,
    asked: RefCell<u64>,
}

impl Truth for FakeDisks {
    fn is_durable(&self, node: NodeId, file: u64, bytes: Range<u64>) -> bool {
        *self.asked.borrow_mut() += 1;
        self.durable.contains(&(node, file, bytes.start))
    }
    fn durable_image(&self, node: NodeId) -> Option<Result<Rc<Image>, Corrupt>> {
        self.platter.get(&node).cloned().map(|image| image.map(Rc::new))
    }
    fn visible_image(&self, node: NodeId) -> Option<Result<Rc<Image>, Corrupt>> {
        self.visible.get(&node).cloned().map(|image| image.map(Rc::new))
    }
}

/// An entry as a scene names it: its term, and a number that stands for its command.
pub type Item = (u64, u64);

fn entry((term, number): Item) -> Entry {
    let op = Op::Append { key: Key(1), item: number };
    let (session, sequence) = (SessionId(1), Sequence(number));
    let command = match number {
        0 => Command::Noop,
        _ => Command::Client { session, sequence, ack_below: Sequence(0), op },
    };
    Entry { term: Term(term), command }
}

#[derive(Default)]
struct Server {
    incarnation: u32,
    log: Vec<Item>,
    term: u64,
    vote: u64,
    saves: u64,
    applied: u64,
}

impl Server {
    fn entries(&self) -> Entries {
        self.log.iter().copied().map(entry).collect()
    }
}

/// A scene that is being played to a judge.
pub struct Script {
    judge: Judge,
    found: Findings,
    disks: FakeDisks,
    servers: BTreeMap<u16, Server>,
    now_ns: u64,
}

impl Script {
    /// A cluster of this many servers, all up, and a judge without these oracles.
    pub fn new(servers: u16, disabled: &[&'static str], clients: Option<Recorder>) -> Self {
        Self::with(servers, |config| {
            config.disabled = disabled.iter().copied().collect();
            config.clients = clients;
        })
    }

    /// As [`Script::new`], with a configuration of the scene's own.
    pub fn with(servers: u16, configure: impl FnOnce(&mut JudgeConfig)) -> Self {
        let mut config = JudgeConfig::new((1..=servers).map(NodeId).collect(), "/raft");
        config.sweeps = Sweeps::ALL;
        configure(&mut config);
        let mut script = Self {
            judge: Judge::new(config),
            found: Findings::default(),
            disks: FakeDisks::default(),
            servers: BTreeMap::new(),
            now_ns: 0,
        };
        for n in 1..=servers {
            script.boot(n);
            script.recover(n);
        }
        script
    }

    /// What was found.
    pub fn found(&self) -> &Findings {
        &self.found
    }

    /// How often the device was asked whether something is durable.
    pub fn questions(&self) -> u64 {
        *self.disks.asked.borrow()
    }

    /// Names of the properties that were violated.
    pub fn violated(&self) -> BTreeSet<&str> {
        self.found.failures.iter().map(|failure| failure.property.as_str()).collect()
    }

    /// Says `payload` as `node`.
    pub fn say<P: Payload>(&mut self, node: u16, payload: P) {
        self.now_ns += 1_000_000;
        let (aux, words) = payload.encode();
        let incarnation = self.servers.get(&node).map_or(1, |server| server.incarnation);
        let (node, time_ns) = (NodeId(node), self.now_ns);
        let record = Record { time_ns, node, kind: P::KIND, task: 0, incarnation, aux, words };
        self.judge.step(&[record], &self.disks, &mut self.found);
    }

    fn server(&mut self, n: u16) -> &mut Server {
        self.servers.get_mut(&n).expect("the scene booted it")
    }

    /// Time passes.
    pub fn wait_ms(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
    }

    /// The run is over.
    pub fn end(&mut self) {
        self.judge.end(&self.disks, &mut self.found);
    }

    // Lives.

    pub fn boot(&mut self, n: u16) {
        let server = self.servers.entry(n).or_default();
        server.incarnation += 1;
        server.applied = 0;
        self.say(n, NodeUp);
    }

    pub fn down(&mut self, n: u16, how: Down) {
        self.say(n, NodeDown { how, fault: 1 });
    }

    /// It finds what the script knows of it.
    pub fn recover(&mut self, n: u16) {
        let Server { term, vote, .. } = *self.server(n);
        let log = self.server(n).entries();
        let last = log.last();
        let found = Recovered {
            term,
            vote,
            last_index: last.index.0,
            last_term: last.term.0,
            log_digest: log.digest(),
        };
        self.say(n, found);
    }

    /// It finds this log, and the term and vote that the script knows of.
    pub fn finds(&mut self, n: u16, log: &[Item]) {
        self.server(n).log = log.to_vec();
        self.recover(n);
    }

    /// Power off, power on, and it finds the log `log` with this term and vote.
    pub fn power_cycle(&mut self, n: u16, log: &[Item], term: u64, vote: u64) {
        self.down(n, Down::PowerOff);
        self.boot(n);
        let server = self.server(n);
        (server.log, server.term, server.vote) = (log.to_vec(), term, vote);
        self.recover(n);
    }

    /// Killed and restarted: the page cache survives.
    pub fn restart(&mut self, n: u16) {
        self.down(n, Down::Kill);
        self.boot(n);
        self.recover(n);
    }

    // Disks.

    /// What programs would read.
    pub fn shows(&mut self, n: u16, log: &[Item], term: u64, vote: u64) {
        self.disks.visible.insert(NodeId(n), Ok(image(log, term, vote)));
    }

    /// What would survive.
    pub fn holds(&mut self, n: u16, log: &[Item], term: u64, vote: u64) {
        self.disks.platter.insert(NodeId(n), Ok(image(log, term, vote)));
    }

    /// Neither can be read.
    pub fn is_corrupt(&mut self, n: u16) {
        self.disks.visible.insert(NodeId(n), Err(hard_state::BothSlotsBad.into()));
        self.disks.platter.insert(NodeId(n), Err(hard_state::BothSlotsBad.into()));
    }

    /// A sync of the log is done: entry `index` is durable.
    pub fn sync(&mut self, n: u16, index: u64) {
        self.disks.durable.insert((NodeId(n), LOG, index * ENTRY_BYTES));
        self.say(n, FsyncDone { file: LOG });
    }

    /// Entry `index` turns out to be durable when the folder is synced.
    pub fn sync_dir(&mut self, n: u16, index: u64) {
        self.disks.durable.insert((NodeId(n), LOG, index * ENTRY_BYTES));
        self.say(n, DirSynced { dir: 1 });
    }

    /// The log file loses entry `from` and what follows it.
    pub fn cut_file(&mut self, n: u16, from: u64) {
        self.disks.durable.retain(|(node, file, offset)| {
            (*node, *file) != (NodeId(n), LOG) || *offset < from * ENTRY_BYTES
        });
        self.say(n, FileResized { file: LOG, len: from * ENTRY_BYTES });
    }

    /// The log file is gone.
    pub fn remove_file(&mut self, n: u16) {
        self.disks.durable.retain(|(node, file, _)| (*node, *file) != (NodeId(n), LOG));
        self.say(n, NameChanged { path: 1, file: 0 });
    }

    // Term and vote.

    /// Term and vote are written, and not synced.
    pub fn write_vote(&mut self, n: u16, term: u64, vote: u64) -> u64 {
        let server = self.server(n);
        (server.term, server.vote) = (term, vote);
        server.saves += 1;
        let offset = server.saves;
        self.say(n, HardStateWritten { term, vote, file: HARD, offset, len: 32 });
        offset
    }

    /// Term and vote are saved.
    pub fn vote(&mut self, n: u16, term: u64, vote: u64) {
        let offset = self.write_vote(n, term, vote);
        self.disks.durable.insert((NodeId(n), HARD, offset));
        self.say(n, FsyncDone { file: HARD });
    }

    /// All of these adopt `term`.
    pub fn adopt(&mut self, servers: impl IntoIterator<Item = u16>, term: u64) {
        servers.into_iter().for_each(|n| self.vote(n, term, 0));
    }

    pub fn ask(&mut self, n: u16, to: u64) {
        let term = self.server(n).term;
        self.say(n, VoteAsked { term, to, last_index: 0, last_term: 0 });
    }

    pub fn answer_vote(&mut self, n: u16, to: u64, granted: bool) {
        let term = self.server(n).term;
        self.say(n, VoteAnswered { term, to, granted: granted.into() });
    }

    pub fn count_vote(&mut self, n: u16, from: u64) {
        let term = self.server(n).term;
        self.say(n, VoteCounted { term, from });
    }

    pub fn become_role(&mut self, n: u16, role: RoleKind) {
        let server = self.server(n);
        let (term, last) = (server.term, server.entries().last());
        self.say(n, Became { role, term, last_index: last.index.0, last_term: last.term.0, commit: 0 });
    }

    /// It votes for itself in `term`, durably, and wins.
    pub fn elect(&mut self, n: u16, term: u64) {
        self.vote(n, term, n.into());
        self.become_role(n, RoleKind::Leader);
        self.summarise(n);
    }

    pub fn summarise(&mut self, n: u16) {
        let log = self.server(n).entries();
        let last = log.last();
        let said = LogSummary { last_index: last.index.0, last_term: last.term.0, log_digest: log.digest() };
        self.say(n, said);
    }

    // The log.

    /// An entry enters memory.
    pub fn remember(&mut self, n: u16, item: Item) {
        self.server(n).log.push(item);
        let index = self.server(n).log.len() as u64;
        self.remember_at(n, index, item);
    }

    /// It claims to have put an entry there; the script's own log stays as it is.
    pub fn remember_at(&mut self, n: u16, index: u64, item: Item) {
        let digest = entry(item).command.digest();
        self.say(n, EntryAppended { index, term: item.0, digest });
    }

    /// Entry `index` enters the file.
    pub fn write(&mut self, n: u16, index: u64) {
        let item = self.server(n).log[index as usize - 1];
        let (place, digest) = ((index * ENTRY_BYTES) << 24 | ENTRY_BYTES, entry(item).command.digest());
        self.say(n, EntryWritten { index, term: item.0, digest, file: LOG, place });
    }

    /// Entries enter memory and file, and are not synced.
    pub fn append_unsynced(&mut self, n: u16, items: &[Item]) {
        for item in items {
            self.remember(n, *item);
            let index = self.server(n).log.len() as u64;
            self.write(n, index);
        }
    }

    /// Entries enter memory, file and platter.
    pub fn append(&mut self, n: u16, items: &[Item]) {
        for item in items {
            self.append_unsynced(n, &[*item]);
            let index = self.server(n).log.len() as u64;
            self.sync(n, index);
        }
    }

    /// The same on several servers.
    pub fn replicate(&mut self, servers: impl IntoIterator<Item = u16>, items: &[Item]) {
        servers.into_iter().for_each(|n| self.append(n, items));
    }

    /// Memory loses entry `from` and what follows it.
    pub fn truncate(&mut self, n: u16, from: u64) {
        let server = self.server(n);
        server.log.truncate(from as usize - 1);
        let term = server.term;
        self.say(n, LogTruncated { from, term });
    }

    // Commitment and application.

    pub fn commit(&mut self, n: u16, index: u64) {
        let server = self.server(n);
        let term = server.term;
        let entry_term = server.log.get(index as usize - 1).map_or(0, |item| item.0);
        self.say(n, CommitAdvanced { index, term, entry_term });
    }

    /// It applies the next entry of its log, which takes effect unless it is a no-op.
    pub fn apply(&mut self, n: u16) {
        let server = self.server(n);
        let index = server.applied + 1;
        let item = server.log[index as usize - 1];
        if item.1 != 0 {
            self.say(n, Executed { session: 1, sequence: item.1, index });
        }
        self.apply_at(n, index, item, 7);
    }

    /// It applies this, with this reply; nothing takes effect.
    pub fn apply_at(&mut self, n: u16, index: u64, item: Item, reply: u32) {
        self.server(n).applied = index;
        let digest = entry(item).command.digest();
        let (session, sequence, reply) = if item.1 == 0 { (0, 0, 0) } else { (1, item.1, reply) };
        self.say(n, Applied { index, term: item.0, digest, session, sequence, reply });
    }

    pub fn acknowledge(&mut self, n: u16, index: u64) {
        let term = self.server(n).term;
        self.say(n, CommandAcknowledged { term, index, session: 1, sequence: index });
    }

    // Messages.

    pub fn send_append(&mut self, n: u16, to: u64, term: u64) {
        self.say(n, AppendSent { term, to, prev_index: 0, prev_term: 0, commit_count: 0 });
    }

    pub fn answer_append(&mut self, n: u16, to: u64, match_index: u64) {
        let term = self.server(n).term;
        self.say(n, AppendAnswered { term, to, success: 1, match_index });
    }

    pub fn serve_read(&mut self, n: u16, read_index: u64) {
        let Server { term, applied, .. } = *self.server(n);
        self.say(n, ReadServed { term, read_index, applied });
    }

    // The client and the harness.

    pub fn invoke(&mut self, sequence: u64) {
        self.say(CLIENT, Invoked { session: 1, sequence, key: 1, write: 1 });
    }

    pub fn told(&mut self, sequence: u64, version: u64) {
        self.say(CLIENT, Acknowledged { session: 1, sequence, key: 1, version, write: 1 });
    }

    pub fn invoke_read(&mut self, sequence: u64) {
        self.say(CLIENT, Invoked { session: 1, sequence, key: 1, write: 0 });
    }

    pub fn told_read(&mut self, sequence: u64) {
        self.say(CLIENT, Acknowledged { session: 1, sequence, key: 1, version: 0, write: 0 });
    }

    pub fn give_up(&mut self, sequence: u64) {
        self.say(CLIENT, Unknown { session: 1, sequence });
    }

    pub fn heal(&mut self, grace_ms: u64) {
        self.say(0, Healed { grace_ns: grace_ms * 1_000_000 });
    }

    pub fn quiesce(&mut self) {
        self.say(0, Quiesced {});
    }

    pub fn settle(&mut self) {
        self.say(0, Settled {});
    }
}

fn image(log: &[Item], term: u64, vote: u64) -> Image {
    let voted_for = (vote != 0).then_some(ServerId(vote as u16));
    Image {
        hard_state: hard_state::HardState { term: Term(term), voted_for },
        entries: log.iter().copied().map(entry).collect(),
    }
}

/// The digest of a log, for what a scene has to say by hand.
pub fn digest_of(log: &[Item]) -> u64 {
    let entries: Entries = log.iter().copied().map(entry).collect();
    entries.digest_at(Index(log.len() as u64)).expect("it is that long")
}

/// What a scene is about.
#[derive(Copy, Clone)]
pub enum Subject {
    Property(Property),
    Premise(Premise),
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Property(property) => property.name(),
            Self::Premise(premise) => premise.name(),
        }
    }
}

fn play(scene: fn(&mut Script), disabled: &[&'static str]) -> Findings {
    let mut script = Script::new(3, disabled, None);
    scene(&mut script);
    script.found
}

/// The scene breaks its subject, breaks no other property, and nobody sees it when that one oracle is off.
pub fn is_caught_by_its_oracle_alone(subject: Subject, scene: fn(&mut Script)) {
    let seen = play(scene, &[]);
    let unseen = play(scene, &[subject.name()]);
    match subject {
        Subject::Property(property) => {
            assert!(!seen.failures.is_empty(), "{} was not violated", property.name());
            for failure in &seen.failures {
                assert_eq!(failure.property, property.name(), "{failure:?}");
                assert!(!failure.shape.contains(|c: char| c.is_ascii_digit()), "{:?}", failure.shape);
                assert!(failure.evidence.contains(|c: char| c.is_ascii_digit()), "{:?}", failure.evidence);
            }
            assert_eq!(unseen.failures, [], "somebody else saw it");
        }
        Subject::Premise(premise) => {
            assert!(seen.premise.contains_key(premise.name()), "{:?}", seen.premise);
            assert!(!unseen.premise.contains_key(premise.name()), "{:?}", unseen.premise);
            assert_eq!(seen.failures, [], "a premise is no outcome");
        }
    }
}

/// The scene comes close and breaks nothing.
pub fn is_no_violation(subject: Subject, scene: fn(&mut Script)) {
    let found = play(scene, &[]);
    assert_eq!(found.failures, []);
    if let Subject::Premise(premise) = subject {
        assert!(!found.premise.contains_key(premise.name()), "{:?}", found.premise_evidence);
    }
}

/// Declares scenes: each is played as a test of its own.
#[macro_export]
macro_rules! scenes {
    ($subject:expr; $($(#[$doc:meta])* $wrong:ident $bad:expr, $right:ident $good:expr;)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $wrong() {
                $crate::script::is_caught_by_its_oracle_alone($subject, $bad);
            }
            $(#[$doc])*
            #[test]
            fn $right() {
                $crate::script::is_no_violation($subject, $good);
            }
        )*
    };
}
