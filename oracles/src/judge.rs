//! The judge: reads each record once, keeps the shadow, and asks every oracle that the record concerns.
//!
//! ```text
//!   records ──► Event ──┬─► oracles that look at what was (leader append-only, monotonicity)
//!                       ├─► shadow
//!                       └─► oracles that look at what is (all others)
//! ```
//!
//! Which oracle hears of what, and in which order, is written down here and nowhere else. A [`Clerk`] may sit beside
//! the judge, and hears of everything too.
//!
//! Invariants: O(1) amortised for a record; records of a step are judged in their order, disks after the step.

use std::path::PathBuf;

use linearizability::Verdict;
use raft_async::trace::{
    AppendAnswered, AppendSent, Became, CommandAcknowledged, CommitAdvanced, EntryAppended, RoleKind,
    VoteAnswered, VoteAsked,
};
use sim_io::records::NameChanged;
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::trace::{Down, Kind, NodeDown, Record};
use sim_runtime::verdict::{Category, Findings};

use crate::clerk::Clerk;
use crate::clients::Recorder;
use crate::cluster::{Appended, Cluster, Explained};
use crate::config::JudgeConfig;
use crate::durability::Durability;
use crate::election_safety::{ElectionSafety, Sign};
use crate::event::{Event, said};
use crate::exactly_once::ExactlyOnce;
use crate::executions::Executions;
use crate::fidelity::Fidelity;
use crate::leader_completeness::{How, LeaderCompleteness};
use crate::liveness::Liveness;
use crate::log_tree::Prefix;
use crate::monotonicity::Monotonicity;
use crate::property::{Names, Property, Report};
use crate::records::{Acknowledged, Applied, Executed, Healed, Invoked, Unknown};
use crate::shadow::HardState;
use crate::state_machine_safety::StateMachineSafety;
use crate::truth::{DiskTruth, Known, Truth};
use crate::{leader_append_only, log_matching, premises};

/// The judge of a run.
#[derive(Debug)]
pub struct Judge<C = ()> {
    dir: PathBuf,
    known: Known,
    bench: Bench,
    clerk: C,
}

/// All oracles, and what they share.
#[derive(Debug)]
struct Bench {
    clients: Option<Recorder>,
    options: linearizability::Options,
    off: Names,
    cluster: Cluster,
    executions: Vec<Executions>,
    /// What any server has ever carried out.
    executed: Executions,
    election_safety: ElectionSafety,
    leader_completeness: LeaderCompleteness,
    state_machine_safety: StateMachineSafety,
    monotonicity: Monotonicity,
    durability: Durability,
    exactly_once: ExactlyOnce,
    liveness: Liveness,
    fidelity: Fidelity,
    acknowledged: u64,
}

impl Judge {
    /// A judge for a run that is about to begin.
    ///
    /// # Panics
    /// If `disabled` has a name that no oracle has.
    pub fn new(config: JudgeConfig) -> Self {
        let servers = config.servers.len();
        let bench = Bench {
            clients: config.clients,
            options: config.linearizability,
            off: Names::of(&config.disabled),
            cluster: Cluster::new(&config.servers),
            executions: (0..servers).map(|_| Executions::default()).collect(),
            executed: Executions::default(),
            election_safety: ElectionSafety::default(),
            leader_completeness: LeaderCompleteness::default(),
            state_machine_safety: StateMachineSafety::default(),
            monotonicity: Monotonicity::new(servers),
            durability: Durability::default(),
            exactly_once: ExactlyOnce::default(),
            liveness: Liveness::new(servers, config.halts_allowed),
            fidelity: Fidelity::new(config.sweeps),
            acknowledged: 0,
        };
        Self { dir: config.dir, known: Known::default(), bench, clerk: () }
    }

    /// The same judge, with a clerk beside it.
    pub fn with<C: Clerk>(self, clerk: C) -> Judge<C> {
        let Self { dir, known, bench, clerk: () } = self;
        Judge { dir, known, bench, clerk }
    }

    /// Judges the records of one step.
    pub fn step(&mut self, records: &[Record], truth: &impl Truth, found: &mut Findings) {
        self.bench.step(records, truth, &mut self.clerk, found);
    }

    /// Judges what can only be judged at the end.
    pub fn end(&mut self, truth: &impl Truth, found: &mut Findings) {
        self.bench.end(truth, found);
    }
}

impl<C: Clerk> Invariant for Judge<C> {
    fn name(&self) -> &'static str {
        "raft"
    }

    fn concerns(&self, kind: Kind) -> bool {
        Event::of(kind).is_some()
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        let truth = DiskTruth::new(view, &self.dir, &self.known);
        self.bench.step(view.fresh(), &truth, &mut self.clerk, found);
    }

    fn finish(&mut self, view: &View<'_>, found: &mut Findings) {
        self.bench.end(&DiskTruth::new(view, &self.dir, &self.known), found);
        self.clerk.finish(view);
    }
}

impl Bench {
    fn step(&mut self, records: &[Record], truth: &impl Truth, clerk: &mut impl Clerk, found: &mut Findings) {
        let mut report = Report::new(found, self.off);
        for record in records {
            if let Some(event) = Event::of(record.kind) {
                self.hear(event, record, truth, &mut report);
                clerk.note(event, record);
            }
        }
        self.fidelity.step_ends(&self.cluster, truth, &mut report);
    }

    fn end(&mut self, truth: &impl Truth, found: &mut Findings) {
        let mut report = Report::new(found, self.off);
        self.fidelity.run_ends(&self.cluster, truth, &mut report);
        self.judge_clients(&mut report);
    }

    fn judge_clients(&self, report: &mut Report<'_>) {
        let Some(clients) = &self.clients else { return };
        match clients.judge(&self.options) {
            Verdict::Linearizable(_) => {}
            Verdict::Violation(violation) => {
                let evidence = || format!("key {}: {}", violation.key, violation.explanation);
                let shape = "no order of the operations explains the answers";
                report.failure(Category::Linearizability, Property::Linearizability, shape, evidence);
            }
            Verdict::Undecided(keys) => {
                let evidence = || format!("the budget ended before keys {keys:?} were decided");
                let shape = "the budget ended";
                report.failure(Category::Undecided, Property::Linearizability, shape, evidence);
            }
        }
        if self.acknowledged == 0 {
            report.idle(format!("{} operations were begun, none completed", clients.len()));
        }
    }

    fn hear(&mut self, event: Event, record: &Record, truth: &impl Truth, report: &mut Report<'_>) {
        match self.cluster.place(record.node) {
            Some(at) => self.hear_server(at, event, record, truth, report),
            None => self.hear_others(event, record, report),
        }
    }

    /// Most of what is heard are these few, a function each: what the rest takes is not to weigh on them.
    #[inline(never)]
    fn hear_server(
        &mut self,
        at: usize,
        event: Event,
        record: &Record,
        truth: &impl Truth,
        report: &mut Report<'_>,
    ) {
        match event {
            Event::FsyncDone | Event::DirSynced => self.synced(at, truth, report),
            Event::EntryAppended => self.entry_appended(at, record, report),
            Event::EntryWritten => self.entry_written(at, record),
            Event::CommitAdvanced => self.commit_advanced(at, record, report),
            Event::AppendSent => self.append_sent(at, record, report),
            Event::AppendAnswered => self.append_answered(at, record, report),
            Event::CommandAcknowledged => self.command_acknowledged(at, record, report),
            Event::Applied => self.applied(at, record, report),
            Event::Executed => self.executed(at, record, report),
            Event::NodeUp
            | Event::NodeDown
            | Event::FileResized
            | Event::NameChanged
            | Event::Became
            | Event::HardStateWritten
            | Event::LogTruncated
            | Event::Recovered
            | Event::VoteAsked
            | Event::VoteAnswered
            | Event::VoteCounted
            | Event::ReadServed
            | Event::LogSummary => self.hear_rarely(at, event, record, truth, report),
            Event::Invoked
            | Event::Acknowledged
            | Event::Unknown
            | Event::Healed
            | Event::Quiesced
            | Event::Settled => self.hear_others(event, record, report),
        }
    }

    #[inline(never)]
    fn hear_rarely(
        &mut self,
        at: usize,
        event: Event,
        record: &Record,
        truth: &impl Truth,
        report: &mut Report<'_>,
    ) {
        let node = record.node;
        match event {
            Event::NodeUp => {
                self.cluster.server_mut(at).booted(record.incarnation);
                self.executions[at].clear();
                self.liveness.booted(at);
            }
            Event::NodeDown => {
                let NodeDown { how, .. } = said(record);
                self.went_down(at, how);
                self.liveness.leadership_changed(&self.cluster, record.time_ns);
            }
            Event::FileResized => self.cluster.server_mut(at).file_resized(&said(record)),
            Event::NameChanged => {
                let changed: NameChanged = said(record);
                if changed.file == 0 {
                    self.cluster.server_mut(at).file_removed(truth);
                }
            }
            Event::Became => {
                let became: Became = said(record);
                let server = self.cluster.server_mut(at);
                server.role = became.role;
                server.hard.term = became.term;
                self.liveness.leadership_changed(&self.cluster, record.time_ns);
                if became.role == RoleKind::Leader {
                    let owner = record.owner();
                    self.election_safety.leads(owner, became.term, Sign::Elected, report);
                    self.fidelity.elected(&self.cluster, at, &became, report);
                    self.leader_completeness.elected(&self.cluster, at, &became, report);
                }
            }
            Event::HardStateWritten => {
                self.cluster.server_mut(at).hard_state_written(&said(record));
                self.liveness.leadership_changed(&self.cluster, record.time_ns);
            }
            Event::LogTruncated => {
                let cut = said(record);
                leader_append_only::truncates(&self.cluster, at, &cut, report);
                self.cluster.server_mut(at).truncated(&cut);
            }
            Event::Recovered => {
                let found = said(record);
                self.monotonicity.recovers(at, node, &found, report);
                let restart = self.cluster.recovered(at, &found, truth);
                self.liveness.leadership_changed(&self.cluster, record.time_ns);
                if restart.explained == Explained::ByDisk {
                    log_matching::recovers(&self.cluster, at, report);
                }
                self.fidelity.recovered(&self.cluster, at, &found, restart, report);
            }
            Event::VoteAsked => {
                let asked: VoteAsked = said(record);
                let own = HardState { term: asked.term, vote: u64::from(node.0) };
                self.monotonicity.sends(at, own);
                premises::asks(self.cluster.server(at), &asked, report);
                premises::sends(self.cluster.server(at), asked.term, report);
            }
            Event::VoteAnswered => {
                let answer: VoteAnswered = said(record);
                let vote = if answer.granted != 0 { answer.to } else { 0 };
                self.monotonicity.sends(at, HardState { term: answer.term, vote });
                premises::answers_vote(self.cluster.server(at), &answer, report);
                premises::sends(self.cluster.server(at), answer.term, report);
            }
            Event::VoteCounted => premises::counts_vote(&self.cluster, at, &said(record), report),
            Event::ReadServed => premises::serves_read(self.cluster.server(at), &said(record), report),
            Event::LogSummary => Fidelity::summary(&self.cluster, at, &said(record), report),
            _ => {}
        }
    }

    /// What is heard whoever says it; the rest is heard of servers only.
    #[inline(never)]
    fn hear_others(&mut self, event: Event, record: &Record, report: &mut Report<'_>) {
        match event {
            Event::Invoked => self.invoked(record, &said(record)),
            Event::Acknowledged => self.acknowledged(record, &said(record), report),
            Event::Unknown => {
                let Unknown { session, sequence } = said(record);
                self.liveness.gave_up(record.node, record.time_ns, session, sequence, report);
            }
            Event::Healed => {
                let Healed { grace_ns } = said(record);
                self.liveness.healed(record.time_ns, grace_ns);
            }
            Event::Quiesced => self.liveness.quiesced(),
            Event::Settled => self.settled(record, report),
            _ => {}
        }
    }

    fn went_down(&mut self, at: usize, how: Down) {
        self.cluster.server_mut(at).went_down(how);
        self.liveness.went_down(at, how);
        self.fidelity.went_down(at);
    }

    #[inline(never)]
    fn synced(&mut self, at: usize, truth: &impl Truth, report: &mut Report<'_>) {
        let before = self.cluster.server(at).durable_hard;
        if let Some(now) = self.cluster.synced(at, truth) {
            self.monotonicity.syncs(at, now);
            premises::saves(self.cluster.server(at).node(), before, now, report);
        }
    }

    #[inline(never)]
    fn entry_written(&mut self, at: usize, record: &Record) {
        self.cluster.entry_written(at, &said(record));
    }

    #[inline(never)]
    fn commit_advanced(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let moved: CommitAdvanced = said(record);
        Monotonicity::commits(&self.cluster, at, &moved, report);
        let server = self.cluster.server_mut(at);
        (server.commit, server.commit_term) = (moved.index, moved.term);
        self.liveness.commits(moved.index);
        // What is committed and not in the log yet is claimed when it gets there.
        let server = self.cluster.server(at);
        let covered = server.log_to(moved.index.min(server.last_index()));
        if let Some(log) = covered {
            self.claim(at, log, moved.term, How::Committed, report);
        }
    }

    #[inline(never)]
    fn append_sent(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let sent: AppendSent = said(record);
        self.election_safety.leads(record.owner(), sent.term, Sign::Sends, report);
        self.monotonicity.sends(at, HardState { term: sent.term, vote: 0 });
        premises::sends(self.cluster.server(at), sent.term, report);
    }

    #[inline(never)]
    fn command_acknowledged(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let told: CommandAcknowledged = said(record);
        if let Some(log) = self.cluster.server(at).log_to(told.index) {
            self.claim(at, log, told.term, How::Acknowledged, report);
        }
    }

    #[inline(never)]
    fn entry_appended(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let entry: EntryAppended = said(record);
        if self.cluster.server(at).lost {
            return;
        }
        leader_append_only::appends(&self.cluster, at, &entry, report);
        match self.cluster.entry_appended(at, &entry) {
            Appended::Behind { prefix, new } => {
                if new {
                    log_matching::holds(&self.cluster, at, prefix, report);
                }
                let server = self.cluster.server(at);
                if entry.index <= server.commit {
                    let term = server.commit_term;
                    self.claim(at, prefix, term, How::Committed, report);
                }
            }
            Appended::Again => {}
            Appended::Replaced(logs) => {
                for log in logs {
                    log_matching::holds(&self.cluster, at, log, report);
                }
            }
            Appended::Gap => {
                let server = self.cluster.server(at);
                report.violation(Property::Fidelity, "an entry is appended behind a hole", || {
                    format!(
                        "{} appends entry {} to a log of {}",
                        server.node(),
                        entry.index,
                        server.last_index()
                    )
                });
            }
        }
    }

    /// Somebody takes a log for committed.
    #[inline]
    fn claim(&mut self, at: usize, log: Prefix, term: u64, how: How, report: &mut Report<'_>) {
        if self.leader_completeness.claim(&self.cluster, at, log, term, how, report) {
            premises::first_claim(&self.cluster, at, log, report);
        }
    }

    #[inline(never)]
    fn append_answered(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let answer: AppendAnswered = said(record);
        self.monotonicity.sends(at, HardState { term: answer.term, vote: 0 });
        premises::answers_append(self.cluster.server(at), &answer, report);
        premises::sends(self.cluster.server(at), answer.term, report);
    }

    #[inline(never)]
    fn applied(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let applied: Applied = said(record);
        Monotonicity::applies(&self.cluster, at, &applied, report);
        let server = self.cluster.server_mut(at);
        server.applied = applied.index;
        let (node, term) = (server.node(), server.hard.term);
        self.state_machine_safety.applies(node, &applied, report);
        ExactlyOnce::applies(&mut self.executions[at], node, &applied, report);
        if let Some(log) = self.cluster.entry(at, applied.index, applied.term) {
            self.claim(at, log, term, How::Applied, report);
        }
    }

    #[inline(never)]
    fn executed(&mut self, at: usize, record: &Record, report: &mut Report<'_>) {
        let executed: Executed = said(record);
        ExactlyOnce::executes(&mut self.executions[at], record.node, &executed, report);
        self.executed.entry(executed.session, executed.sequence).index = executed.index;
    }

    fn invoked(&mut self, record: &Record, invoked: &Invoked) {
        self.exactly_once.invoked(invoked);
        self.liveness.invoked(record.node, record.time_ns, invoked.session, invoked.sequence);
    }

    fn acknowledged(&mut self, record: &Record, told: &Acknowledged, report: &mut Report<'_>) {
        self.acknowledged += 1;
        let client = record.node;
        self.liveness.acknowledged(client, told.session, told.sequence);
        self.durability.acknowledged(client, record.time_ns, told);
        self.exactly_once.acknowledged(client, told, report);
        let executed = self.executed.get(told.session, told.sequence).index != 0;
        premises::acknowledges(client, told, executed, report);
    }

    fn settled(&mut self, record: &Record, report: &mut Report<'_>) {
        self.liveness.settled(&self.cluster, record.time_ns, report);
        self.durability.settled(&self.cluster, &self.executions, report);
    }
}
