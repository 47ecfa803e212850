//! Teller: what Raft's records mean, what each follows from, and what a proof may need of it.
//!
//!   records, in order ──► Shadow of each server ──► words and causes
//!                                              └──► Facts
//!
//! Not here: messages (`messages.rs`), proofs (`proof.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;

use oracles::records::{Acknowledged, Applied, Executed, Healed, Invoked, Quiesced, Settled, Unknown};
use raft_async::Halt;
use raft_async::trace as raft;
use raft_async::trace::RoleKind;
use raft_async::types::Command;
use raft_async::wire::{self, FRAME_HEADER_BYTES, Message};
use sim_io::records as io;
use sim_io::story::{Program, Seen, Span, Tape, Told, Weight};
use sim_runtime::NodeId;
use sim_runtime::trace::{Down, NodeDown, NodeUp, Record, TaskPanicked};

use super::facts::{Applies, Asked, Claims, Facts, Leads, Logged, Note, Recovers};
use super::shadow::{Held, Server, Way, ways};
use super::words::{self, Call};

/// Tells Raft's runs.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    servers: u16,
    pub(super) nodes: BTreeMap<u64, Server>,
    pub(super) facts: Facts,
    /// Who may be bound by what it told or synced: term, vote, and when.
    bound: BTreeMap<u64, ((u64, u64), Option<u64>)>,
    /// By operation: when its answer was decided, and when the client began.
    pub(super) decided: BTreeMap<(u64, Call), u64>,
    pub(super) invoked: BTreeMap<Call, u64>,
    pub(super) answer_received: BTreeMap<Call, Way>,
}

/// A trace detail: the message that follows says it again, or a reader has no use for it.
fn detail(text: String) -> Option<Told> {
    Some(Told::new(Weight::Detail, text))
}

impl Teller {
    /// For a run with so many servers.
    pub(crate) fn new(servers: u16, tape: &Tape) -> Self {
        let mut teller = Self { servers, ..Self::default() };
        let streams = tape.contents.streams().flat_map(|(_, _, bytes)| frames(bytes));
        for frame in tape.contents.datagrams().chain(streams) {
            if let Ok(Message::ClientRequest(ask)) = wire::decode(frame) {
                let (session, sequence, ack_below, op) = (ask.session, ask.sequence, ask.ack_below, ask.op);
                let call = (session.0, sequence.0);
                let command = Command::Client { session, sequence, ack_below, op };
                teller.facts.calls.insert(call, words::op(&op));
                teller.facts.commands.insert(command.digest(), (words::command(&command), call));
            }
        }
        teller
    }

    pub(super) fn server(&mut self, node: u64) -> &mut Server {
        self.nodes.entry(node).or_default()
    }

    fn log_of(&mut self, node: u64, upto: u64) -> Rc<Vec<(u64, u64)>> {
        let log = &self.server(node).log;
        Rc::new(log.iter().take(upto as usize).map(|held| (held.term, held.digest)).collect())
    }

    fn binds(&mut self, node: u64, hard: (u64, u64), at: u64) {
        let bound = self.bound.entry(node).or_default();
        let is_later = hard.0 > bound.0.0 || hard.0 == bound.0.0 && hard.1 != 0 && hard.1 != bound.0.1;
        if is_later {
            *bound = (hard, Some(at));
        }
    }

    fn of_roles(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        let became: raft::Became = record.get()?;
        let raft::Became { role, term, last_index, last_term, .. } = became;
        let ends = words::entry(last_index, last_term);
        let log = self.log_of(node, last_index);
        let server = self.server(node);
        let led = std::mem::replace(&mut server.leads, role == RoleKind::Leader);
        if term > server.term {
            (server.term, server.vote) = (term, 0);
        }
        let span = Span::Begins("role".to_owned(), format!("{} t{term}", words::role(role)));
        let line = Some(match role {
            RoleKind::Follower => '│',
            RoleKind::Candidate => '╎',
            RoleKind::Leader => '┃',
        });
        let told = match role {
            RoleKind::Follower if led => Told::new(Weight::Scene, format!("steps down, term {term}")),
            RoleKind::Follower => Told::new(Weight::Detail, format!("becomes follower, term {term}")),
            RoleKind::Candidate => {
                server.votes.clear();
                server.candidate = Some(at);
                let text = format!("becomes candidate of term {term}, log ends {ends}");
                let recovered = server.recovered.filter(|_| record.incarnation > 1);
                Told::new(Weight::Cause, text).after(recovered).counted("candidacies")
            }
            RoleKind::Leader => {
                server.leader = Some(at);
                server.matched.clear();
                let votes = server.votes.clone();
                let names: Vec<String> =
                    [node].into_iter().chain(votes.iter().map(|(voter, _)| *voter)).map(|n| format!("n{n}")).collect();
                let text = format!("becomes LEADER of term {term} with votes of {}, log ends {ends}", names.join(" "));
                let causes = votes.iter().map(|(_, counted)| *counted).chain(server.candidate);
                let told = Told::new(Weight::Scene, text).after(causes).marked('★');
                let (node, life) = (record.node.0, record.incarnation);
                self.facts.leads.push(Leads { term, node, life, at, votes, log });
                told
            }
        };
        Some(Told { line, span, ..told })
    }

    fn of_votes(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::VoteAsked { term, to, .. }) = record.get() {
            self.binds(node, (term, node), at);
            detail(format!("asks n{to} for its vote, term {term}"))
        } else if let Some(raft::VoteAnswered { term, to, granted }) = record.get() {
            self.binds(node, (term, if granted == 1 { to } else { 0 }), at);
            detail(format!("answers n{to} on its vote, term {term}: {granted}"))
        } else {
            let raft::VoteCounted { term, from } = record.get()?;
            let server = self.server(node);
            let received = server.vote_received.get(&from).copied();
            server.votes.push((from, at));
            let of = match received {
                Some((given, _)) if given != term => format!("; the reply says t{given}"),
                _ => String::new(),
            };
            let text = format!("counts a vote of n{from} for t{term}{of}");
            // That a vote of this very term is counted goes without saying.
            let weight = if of.is_empty() { Weight::Detail } else { Weight::Cause };
            Some(Told::new(weight, text).after(ways(received.map(|(_, way)| way))))
        }
    }

    fn of_logs(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::EntryAppended { index, term, digest }) = record.get() {
            Some(self.appends(at, record, index, (term, digest)))
        } else if let Some(raft::EntryWritten { index, term, file, .. }) = record.get() {
            self.server(node).written(index, file);
            detail(format!("writes entry {index}/{term}"))
        } else if let Some(raft::LogTruncated { from, .. }) = record.get() {
            let prefix_log = self.log_of(node, from.saturating_sub(1));
            let server = self.server(node);
            let lost = server.cut(from);
            let append = server.append;
            let prefix = prefix_log.iter().fold(0, |log, (term, digest)| raft::extend_log_digest(log, *term, *digest));
            for (index, held) in (from..).zip(&lost) {
                let Held { term, digest, .. } = *held;
                self.facts.dropped.push(Logged { node: record.node.0, index, term, digest, prefix, at });
            }
            let entries = (from..).zip(&lost).map(|(index, held)| self.entry(index, held.term, held.digest));
            let text = format!("cuts off its log from {from} on: {}", few(entries));
            Some(Told::new(Weight::Cause, text).after(ways(append)))
        } else if let Some(raft::CommitAdvanced { index, term, entry_term }) = record.get() {
            Some(self.commits(at, record, index, term, entry_term))
        } else if let Some(Applied { index, term, digest, reply, .. }) = record.get() {
            let text = format!("applies {}", self.entry(index, term, digest));
            self.facts.applies.push(Applies { node: record.node.0, index, term, digest, reply, at });
            let log = self.log_of(node, index);
            let server = self.server(node);
            let appended = server.held(index).and_then(|held| held.appended);
            let causes = [server.commit_of(index), appended];
            if log.len() as u64 == index {
                let term = server.term;
                self.facts.claims.push(Claims { node: record.node.0, term, at, log });
            }
            Some(Told::new(Weight::Cause, text).after(causes.into_iter().flatten()))
        } else {
            let Executed { session, sequence, index } = record.get()?;
            let call = (session, sequence);
            let before = self.facts.executes.iter().filter(|(n, life, known, ..)| {
                (*n, *life, *known) == (record.node.0, record.incarnation, call)
            });
            let again = before.map(|(.., index, _)| format!("; it did so for entry {index} before")).next_back();
            self.facts.executes.push((record.node.0, record.incarnation, call, index, at));
            let text = format!("carries out {} for entry {index}{}", self.facts.call(call), again.unwrap_or_default());
            let appended = self.server(node).held(index).and_then(|held| held.appended);
            let commit = self.server(node).commit_of(index);
            Some(Told::new(Weight::Cause, text).after(appended.into_iter().chain(commit)))
        }
    }

    fn entry(&self, index: u64, term: u64, digest: u64) -> String {
        format!("{} {}", words::entry(index, term), self.facts.command(digest))
    }

    fn appends(&mut self, at: u64, record: &Record, index: u64, (term, digest): (u64, u64)) -> Told {
        let node = u64::from(record.node.0);
        let is_own = self.server(node).leads;
        let call = self.facts.commands.get(&digest).map(|(_, call)| *call);
        let leaders = if is_own { None } else { self.origin(index, term, digest) };
        let server = self.server(node);
        let request = call.and_then(|call| server.requests.get(&call)).map(|request| request.received);
        let causes: Vec<u64> = match (is_own, request) {
            (true, Some(request)) => ways(Some(request)).collect(),
            (true, None) => server.leader.into_iter().collect(),
            (false, _) => ways(server.append).collect(),
        };
        server.append(index, Held { term, digest, appended: Some(at), synced: None });
        let log = self.log_of(node, index);
        let prefix = log.iter().fold(0, |log, (term, digest)| raft::extend_log_digest(log, *term, *digest));
        self.facts.appended.push(Logged { node: record.node.0, index, term, digest, prefix, at });
        // What was committed before it got there is taken for committed now.
        let (commit, own_term) = (self.server(node).commit, self.server(node).term);
        if index <= commit {
            self.facts.claims.push(Claims { node: record.node.0, term: own_term, at, log });
        }
        let text = format!("appends {} to its log", self.entry(index, term, digest));
        Told::new(Weight::Cause, text).after(causes.into_iter().chain(leaders))
    }

    /// Where an entry entered a log first.
    fn origin(&self, index: u64, term: u64, digest: u64) -> Option<u64> {
        let same = |logged: &&Logged| (logged.index, logged.term, logged.digest) == (index, term, digest);
        self.facts.appended.iter().find(same).map(|logged| logged.at)
    }

    fn commits(&mut self, at: u64, record: &Record, index: u64, term: u64, entry_term: u64) -> Told {
        let node = u64::from(record.node.0);
        let log = self.log_of(node, index);
        if log.len() as u64 == index {
            self.facts.claims.push(Claims { node: record.node.0, term, at, log });
        }
        // Of a follower: the leader's commit that it was told of.
        let others = self.nodes.iter().filter(|(other, _)| **other != node);
        let told_by = others.filter_map(|(_, server)| server.commit_of(index)).min();
        let server = self.server(node);
        server.commit = index;
        server.commits.push((index, at));
        let what = if entry_term == 0 { format!("{index} (which is not in its log)") } else { words::entry(index, entry_term) };
        let told = if server.leads {
            let vouching = server.vouching(index);
            let names: Vec<String> =
                [node].into_iter().chain(vouching.iter().map(|(follower, _)| *follower)).map(|n| format!("n{n}")).collect();
            let text = format!("takes all up to {what} for committed in term {term}: it is on {}", names.join(" "));
            Told::new(Weight::Cause, text).after(ways(vouching.into_iter().map(|(_, way)| way)))
        } else {
            let text = format!("takes all up to {what} for committed in term {term}");
            Told::new(Weight::Cause, text).after(ways(server.append).chain(told_by))
        };
        told.counted("commits")
    }

    fn of_lives(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::HardStateWritten { term, vote, file, offset, .. }) = record.get() {
            let server = self.server(node);
            server.hard_file = Some(file);
            (server.hard_unsynced, server.hard_written) = (Some((term, vote)), Some(at));
            self.facts.notes.push((Note::HardWritten, record.node.0, at));
            let text = format!("writes term {term}, {} at byte {offset} of its state file", words::vote(vote));
            Some(Told::new(Weight::Cause, text))
        } else if let Some(found) = record.get() {
            Some(self.recovers(at, record, found))
        } else if let Some(raft::Halted { reason }) = record.get() {
            self.facts.notes.push((Note::Halted, record.node.0, at));
            Some(Told::new(Weight::Turn, format!("HALTS: {}", halt(reason))))
        } else {
            let raft::LogSummary { last_index, last_term, .. } = record.get()?;
            detail(format!("its log ends at {}", words::entry(last_index, last_term)))
        }
    }

    fn recovers(&mut self, at: u64, record: &Record, found: raft::Recovered) -> Told {
        let node = u64::from(record.node.0);
        let raft::Recovered { term, vote, last_index, last_term, .. } = found;
        let bound = self.bound.get(&node).copied().unwrap_or_default();
        let server = self.server(node);
        let before = (server.last(), (server.term, server.vote));
        let first = server.down.is_none();
        (server.term, server.vote, server.recovered) = (term, vote, Some(at));
        let lost = server.cut(last_index + 1);
        let causes: Vec<u64> =
            server.down.into_iter().chain(server.hard_written).chain(server.crashed.iter().copied()).collect();
        for held in &mut server.log {
            held.synced.get_or_insert(at);
        }
        let log = self.log_of(node, last_index);
        let prefix = log.iter().fold(0, |log, (term, digest)| raft::extend_log_digest(log, *term, *digest));
        for (index, held) in (last_index + 1..).zip(&lost) {
            let Held { term, digest, .. } = *held;
            self.facts.dropped.push(Logged { node: record.node.0, index, term, digest, prefix, at });
        }
        self.facts.notes.push((Note::Recovered, record.node.0, at));
        self.facts.recovers.push(Recovers { node: record.node.0, at, found: (term, vote), bound });
        let finds = format!("finds on its disk: term {term}, {}, log up to {}", words::vote(vote), words::entry(last_index, last_term));
        let ((index, of_term), hard) = before;
        let log_was = if lost.is_empty() { String::new() } else { format!(", log up to {}", words::entry(index, of_term)) };
        let hard_was = if hard == (term, vote) { String::new() } else { format!(", term {}, {}", hard.0, words::vote(hard.1)) };
        let was = (hard_was + &log_was).trim_start_matches(", ").to_owned();
        let text = if was.is_empty() || first { finds } else { format!("{finds} (before: {was})") };
        let weight = if first { Weight::Detail } else { Weight::Turn };
        Told::new(weight, text).after(causes)
    }

    fn of_clients(&mut self, at: u64, record: &Record) -> Option<Told> {
        let span = |call: Call| format!("operation {}", words::call(call));
        if let Some(Invoked { session, sequence, write, .. }) = record.get() {
            let call = (session, sequence);
            self.invoked.insert(call, at);
            self.facts.asked.push(Asked { call, invoked: at, answered: None, write: write == 1 });
            let name = self.facts.call(call);
            let span = Span::Begins(span(call), name.clone());
            let told = Told::new(Weight::Cause, format!("calls {name}")).counted("calls");
            Some(Told { span, ..told })
        } else if let Some(Acknowledged { session, sequence, .. }) = record.get() {
            let call = (session, sequence);
            if let Some(asked) = self.facts.asked_mut(call) {
                asked.answered = Some(at);
            }
            let received = self.answer_received.get(&call).copied();
            let invoked = self.invoked.get(&call).copied();
            let text = format!("is answered: {}", words::call(call));
            let told = Told::new(Weight::Cause, text).after(ways(received).chain(invoked)).counted("calls answered");
            Some(Told { span: Span::Ends(span(call)), ..told })
        } else if let Some(Unknown { session, sequence }) = record.get() {
            let call = (session, sequence);
            let text = format!("gives up {}", words::call(call));
            let told = Told::new(Weight::Cause, text).after(self.invoked.get(&call).copied());
            Some(Told { span: Span::Ends(span(call)), ..told })
        } else if record.get::<Healed>().is_some() {
            Some(Told::new(Weight::Scene, "all faults are over").marked('#'))
        } else if record.get::<Quiesced>().is_some() {
            detail("clients have finished".to_owned())
        } else {
            record.get::<Settled>().map(|_| Told::new(Weight::Detail, "the cluster has settled"))
        }
    }

    fn of_answers(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::AppendSent { term, to, .. }) = record.get() {
            self.binds(node, (term, 0), at);
            detail(format!("replicates to n{to}, term {term}"))
        } else if let Some(raft::AppendAnswered { term, to, .. }) = record.get() {
            detail(format!("answers the leader n{to}, term {term}"))
        } else if let Some(raft::ReadServed { read_index, applied, .. }) = record.get() {
            let server = self.server(node);
            server.served = Some(at);
            let (heard, causes) = server.confirmed();
            let others = if heard.is_empty() { "nobody".to_owned() } else { heard };
            let text = format!("serves a read at {read_index}, applied {applied}; since it was asked it heard from {others}");
            let leader = server.leader;
            Some(Told::new(Weight::Cause, text).after(ways(causes).chain(leader)))
        } else if let Some(raft::CommandAcknowledged { index, session, sequence, .. }) = record.get() {
            let call = (session, sequence);
            self.decided.insert((node, call), at);
            let commit = self.server(node).commit_of(index);
            let text = format!("answers {}, entry {index}", words::call(call));
            Some(Told::new(Weight::Detail, text).after(commit))
        } else {
            let raft::FrameRejected { len, from } = record.get()?;
            Some(Told::new(Weight::Scene, format!("drops a bad frame of {len} bytes from n{from}")))
        }
    }
}

/// The first of them, and how many more.
fn few(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(4);
    names.truncate(4);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

fn halt(reason: u64) -> &'static str {
    let halts = [
        (Halt::Shutdown.code(), "it was told to"),
        (Halt::TaskFailed.code(), "a task of it has failed"),
        (1, "its files are corrupt"),
        (2, "its disk fails"),
        (3, "it has no address"),
    ];
    halts.into_iter().find(|(code, _)| *code == reason).map_or("for no known reason", |(_, why)| why)
}

fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut frames, mut rest) = (Vec::new(), bytes);
    while let Some((frame, after)) = frame_len(rest).and_then(|len| rest.split_at_checked(len)) {
        frames.push(frame);
        rest = after;
    }
    frames
}

fn frame_len(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
    Some(FRAME_HEADER_BYTES + wire::body_bytes(*header).ok()?)
}

impl Program for Teller {
    fn name(&self, node: NodeId) -> String {
        if node.0 > self.servers { format!("c{}", node.0 - self.servers) } else { node.to_string() }
    }

    fn frame_bytes(&self, stream: &[u8]) -> Option<usize> {
        frame_len(stream)
    }

    fn tell(&mut self, seen: &Seen<'_>) -> Option<Told> {
        let (at, record) = (seen.ordinal, seen.record);
        if !seen.messages.is_empty() {
            return Some(self.passes(seen));
        }
        self.of_roles(at, record)
            .or_else(|| self.of_votes(at, record))
            .or_else(|| self.of_logs(at, record))
            .or_else(|| self.of_lives(at, record))
            .or_else(|| self.of_answers(at, record))
            .or_else(|| self.of_clients(at, record))
    }

    fn amend(&mut self, seen: &Seen<'_>, told: &mut Told) {
        let (at, record) = (seen.ordinal, seen.record);
        let node = u64::from(record.node.0);
        if record.node.0 > self.servers || record.node == NodeId::HOST {
            return;
        }
        if record.get::<NodeUp>().is_some() {
            self.server(node).life = record.incarnation;
        } else if let Some(NodeDown { how, .. }) = record.get() {
            let server = self.server(node);
            let (last, on_disk) = (server.last(), server.on_disk());
            let mut unsynced = Vec::new();
            if on_disk < last.0 {
                unsynced.push(format!("its log after {on_disk}"));
            }
            if let Some((term, vote)) = server.hard_unsynced {
                unsynced.push(format!("term {term} with {}", words::vote(vote)));
            }
            if how == Down::PowerOff {
                told.text = "without power".to_owned();
                let list = if unsynced.is_empty() { "nothing".to_owned() } else { unsynced.join(" and ") };
                told.text += &format!("; not synced: {list}");
            }
            server.goes_down(at);
            self.facts.notes.push((Note::Down, record.node.0, at));
        } else if record.get::<io::CrashedFile>().is_some() {
            self.server(node).crashed.push(at);
            if told.weight > Weight::Detail {
                self.facts.notes.push((Note::Crashed, record.node.0, at));
            }
        } else if let Some(io::FsyncStarted { file, .. }) = record.get() {
            let server = self.server(node);
            server.sync_begins(file);
            told.weight = Weight::Detail;
            told.causes.extend(server.hard_written.filter(|_| server.hard_file == Some(file)));
        } else if let Some(io::FsyncDone { file }) = record.get() {
            let server = self.server(node);
            let hard = server.hard_unsynced.filter(|_| server.hard_file == Some(file));
            server.sync_done(file, at);
            if let Some(hard) = hard {
                told.text = format!("has term {} and {} on its disk", hard.0, words::vote(hard.1));
                self.binds(node, hard, at);
            } else {
                let on_disk = server.on_disk();
                told.text = format!("has its log up to {on_disk} on its disk");
            }
        } else if record.get::<TaskPanicked>().is_some() {
            self.facts.panics.push(at);
        }
    }

    fn summary(&self, counts: &BTreeMap<&'static str, u64>) -> Vec<String> {
        let of = |label: &str| counts.get(label).copied().unwrap_or(0);
        let asked = of(words::HEARTBEATS) + of(words::APPENDS);
        let all_answered = asked > 0 && of(words::ANSWERS) >= asked;
        let mut told: Vec<(u64, String)> = Vec::new();
        for (label, count) in counts {
            match *label {
                words::ANSWERS if all_answered => {}
                words::HEARTBEATS if all_answered => told.push((*count, format!("{count} heartbeats, all answered"))),
                label => told.push((*count, format!("{label} ×{count}"))),
            }
        }
        told.sort_unstable_by(|a, b| b.cmp(a));
        told.into_iter().map(|(_, text)| text).collect()
    }

    fn legend(&self) -> String {
        "o> message  ● event  ★ elected  # fault  x down  ^ up;  ┃ leads  ╎ asks for votes;  5/2 is entry 5 of term 2"
            .to_owned()
    }
}
