//! Teller: what Raft's records mean, what each follows from, and what a proof may need of it.
//!
//!   records, in order ──► Shadow of each server ──► words and causes
//!                                              └──► Facts
//!
//! Here are elections and clients. Not here: logs (`logs.rs`), lives (`lives.rs`), messages (`messages.rs`), proofs
//! (`proof.rs`).

use std::collections::BTreeMap;
use std::rc::Rc;

use oracles::records::{Acknowledged, Healed, Invoked, Quiesced, Settled, Unknown};
use raft_async::trace as raft;
use raft_async::trace::RoleKind;
use raft_async::types::Command;
use raft_async::wire::{self, FRAME_HEADER_BYTES, Message};
use sim_io::story::{Program, Seen, Span, Tape, Told, Weight};
use sim_runtime::NodeId;
use sim_runtime::trace::Record;
use sim_runtime::words::counted;

use super::facts::{Asked, Facts, Leads};
use super::shadow::{Server, Way, ways};
use super::words::{self, Call};

/// Tells Raft's runs.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    pub(super) servers: u16,
    /// Term, node and life of the one that sent AppendEntries last.
    latest_leader: Option<(u64, u16, u32)>,
    pub(super) nodes: BTreeMap<u64, Server>,
    pub(super) facts: Facts,
    /// Who may be bound by what it told or synced: term, vote, and when.
    pub(super) bound: BTreeMap<u64, ((u64, u64), Option<u64>)>,
    /// By operation: when its answer was decided, and when the client began.
    pub(super) decided: BTreeMap<(u64, Call), u64>,
    pub(super) invoked: BTreeMap<Call, u64>,
    pub(super) answer_received: BTreeMap<Call, Way>,
}

/// A trace detail: the message that follows says it again, or a reader has no use for it.
pub(super) fn detail(text: String) -> Option<Told> {
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

    pub(super) fn log_of(&mut self, node: u64, upto: u64) -> Rc<Vec<(u64, u64)>> {
        let log = &self.server(node).log;
        Rc::new(log.iter().take(upto as usize).map(|held| (held.term, held.digest)).collect())
    }

    pub(super) fn binds(&mut self, node: u64, hard: (u64, u64), at: u64) {
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
                let names: Vec<String> = [node]
                    .into_iter()
                    .chain(votes.iter().map(|(voter, _)| *voter))
                    .map(|n| format!("n{n}"))
                    .collect();
                let text = format!(
                    "becomes LEADER of term {term} with votes of {}, log ends {ends}",
                    names.join(" ")
                );
                let causes = votes.iter().map(|(_, counted)| *counted).chain(server.candidate);
                let told = Told::new(Weight::Scene, text).after(causes).marked('★');
                let (node, life) = (record.node.0, record.incarnation);
                self.facts.leads.push(Leads { term, node, life, at, elected: true, votes, log });
                told
            }
        };
        Some(Told { line, span, ..told })
    }

    fn of_votes(&mut self, at: u64, record: &Record) -> Option<Told> {
        let node = u64::from(record.node.0);
        if let Some(raft::VoteAsked { term, to, .. }) = record.get() {
            self.binds(node, (term, node), at);
            let server = self.server(node);
            if term >= server.term {
                (server.term, server.vote) = (term, node);
            }
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

    /// Whoever sends AppendEntries acts as a leader, elected or not.
    fn sends_as_leader(&mut self, at: u64, record: &Record, term: u64) {
        let (node, life) = (record.node.0, record.incarnation);
        let who = (term, node, life);
        if self.latest_leader == Some(who) {
            return;
        }
        self.latest_leader = Some(who);
        if !self.facts.leads.iter().any(|leads| (leads.term, leads.node, leads.life) == who) {
            let (votes, log) = (Vec::new(), Rc::default());
            self.facts.leads.push(Leads { term, node, life, at, elected: false, votes, log });
        }
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
            let told =
                Told::new(Weight::Cause, text).after(ways(received).chain(invoked)).counted("calls answered");
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
            self.sends_as_leader(at, record, term);
            detail(format!("sends AppendEntries of term {term} to n{to}"))
        } else if let Some(raft::AppendAnswered { term, to, .. }) = record.get() {
            detail(format!("answers the leader n{to}, term {term}"))
        } else if let Some(raft::ReadServed { read_index, applied, .. }) = record.get() {
            let server = self.server(node);
            server.served = Some(at);
            let (heard, causes) = server.confirmed();
            let others = if heard.is_empty() { "nobody".to_owned() } else { heard };
            let text = format!(
                "serves a read at {read_index}, applied {applied}; since it was asked it heard from {others}"
            );
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
        if (1..=self.servers).contains(&seen.record.node.0) {
            self.of_devices(seen.ordinal, seen.record, told);
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
                words::HEARTBEATS if all_answered => {
                    told.push((*count, format!("{}, all answered", counted(*count, "heartbeat"))))
                }
                label => told.push((*count, format!("{label} ×{count}"))),
            }
        }
        told.sort_unstable_by(|a, b| b.cmp(a));
        told.into_iter().map(|(_, text)| text).collect()
    }

    fn legend(&self) -> String {
        "o> message  ● event  ★ elected  # fault  x down  ^ up  ┃ leader  ╎ candidate  ┆ paused; \
         5/2: entry 5, of term 2; t3: term 3; c2#4: operation 4 of client 2; k1: a key; v2.4: a value"
            .to_owned()
    }
}
