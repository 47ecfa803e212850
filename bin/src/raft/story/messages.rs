//! Messages: what each says, what its sending follows from, and what it meets where it arrives.

use raft_async::wire::{self, Answer, AppendOutcome, AppendReply, AppendRequest, ClientReply, ClientRequest};
use raft_async::wire::{Message, VoteReply, VoteRequest};
use sim_io::story::{Seen, Told, Weight};

use super::facts::Note;
use super::shadow::{Granted, Matched, Request, Server, Way, ways};
use super::teller::Teller;
use super::words;

impl Teller {
    /// What the messages of a record say.
    pub(super) fn passes(&mut self, seen: &Seen<'_>) -> Told {
        let mut all = Told::new(Weight::Cause, "");
        let mut texts: Vec<(String, u32)> = Vec::new();
        for (frame, sent) in &seen.messages {
            let told = match wire::decode(frame) {
                Ok(message) if seen.arrives => self.arrives(seen, *sent, &message),
                Ok(message) => self.leaves(seen, &message),
                Err(wire::Malformed) => Told::new(Weight::Cause, "a malformed frame"),
            };
            match texts.iter_mut().find(|(text, _)| *text == told.text) {
                Some((_, times)) => *times += 1,
                None => {
                    // What the first meets is known; what it changes before the next is read is not.
                    all.note = if texts.is_empty() { told.note } else { all.note };
                    texts.push((told.text, 1));
                }
            }
            all.causes.extend(told.causes);
            all.label = told.label;
        }
        let times = |(text, times): &(String, u32)| {
            if *times == 1 { text.clone() } else { format!("{text} (×{times})") }
        };
        all.text = texts.iter().map(times).collect::<Vec<_>>().join("; ");
        all
    }

    fn leaves(&mut self, seen: &Seen<'_>, message: &Message<'_>) -> Told {
        let node = u64::from(seen.record.node.0);
        let told = Told::new(Weight::Cause, words::message(message)).counted(words::label(message));
        match message {
            Message::VoteRequest(_) => told.after(self.server(node).candidate),
            Message::VoteReply(reply) => self.votes(told, seen, *reply),
            Message::Append(append) => {
                let prev = append.prev.index.0;
                let server = self.server(node);
                let sends = (prev + 1..).take(append.entries.len());
                let appended = sends.filter_map(|index| server.held(index)?.appended).max();
                told.after(server.leader.into_iter().chain(appended))
            }
            Message::AppendReply(answer) => {
                self.facts.notes.push((Note::Answered, seen.record.node.0, seen.ordinal));
                if let AppendOutcome::Matched(index) = answer.outcome {
                    self.facts.vouched.push((seen.record.node.0, index.0, seen.ordinal));
                }
                answers(told, self.server(node), answer)
            }
            Message::ClientRequest(ask) => {
                let invoked = self.invoked.get(&(ask.session.0, ask.sequence.0)).copied();
                told.after(invoked)
            }
            Message::ClientReply(reply) => self.replies(told, node, reply),
        }
    }

    fn votes(&mut self, mut told: Told, seen: &Seen<'_>, reply: VoteReply) -> Told {
        let (node, to) = (u64::from(seen.record.node.0), u64::from(seen.peer.0));
        let server = self.server(node);
        let (index, term) = server.last();
        let request = server.asked.get(&(to, reply.term.0)).copied();
        told.causes.extend(ways(request).chain(server.hard_written));
        if reply.term.0 >= server.term {
            server.term = reply.term.0;
        }
        if !reply.granted {
            told.text += &format!(" (n{node}'s log ends {})", words::entry(index, term));
            return told;
        }
        server.vote = to;
        told.text += &format!(" (n{node}'s log ends {})", words::entry(index, term));
        let (life, log) = (seen.record.incarnation, server.log.iter().map(|held| held.term).collect());
        let granted = server.granted.entry(reply.term.0).or_default();
        let others: Vec<Granted> = granted.iter().filter(|other| other.candidate != to).cloned().collect();
        granted.push(Granted { candidate: to, sent: seen.ordinal, life, log });
        // What it told somebody else in the same term, and what came in between.
        for other in &others {
            told.causes.push(other.sent);
            told.causes.extend(server.recovered.filter(|_| other.life != life));
        }
        told
    }

    fn replies(&mut self, told: Told, node: u64, reply: &ClientReply) -> Told {
        let call = (reply.session.0, reply.sequence.0);
        if matches!(reply.answer, Answer::NotLeader { .. }) {
            return told;
        }
        let decided = self.decided.get(&(node, call)).copied();
        let is_write = self.facts.asked_mut(call).is_none_or(|asked| asked.write);
        let server = self.server(node);
        let request = server.requests.get_mut(&call).map(|request| {
            request.answered = true;
            request.received
        });
        let decided = if is_write { decided } else { server.served };
        told.after(decided.into_iter().chain(ways(request)))
    }

    fn arrives(&mut self, seen: &Seen<'_>, sent: Option<u64>, message: &Message<'_>) -> Told {
        // A receipt of several messages follows from the sending of the one that matters, which is told where it does.
        let way = Way { received: seen.ordinal, sent };
        let (node, from) = (u64::from(seen.record.node.0), u64::from(seen.peer.0));
        let mut told = Told::new(Weight::Cause, words::message(message));
        match message {
            Message::VoteRequest(VoteRequest { term, .. }) => {
                self.server(node).asked.insert((from, term.0), way);
            }
            Message::VoteReply(VoteReply { term, granted: true, .. }) => {
                self.server(node).vote_received.insert(from, (term.0, way));
            }
            Message::VoteReply(_) => {}
            Message::Append(append) => {
                let server = self.server(node);
                server.append = Some(way);
                told.note = meets(node, server, append);
            }
            Message::AppendReply(AppendReply { term, outcome, .. }) => {
                let server = self.server(node);
                server.requests.values_mut().for_each(|request| request.heard.push(from));
                if let AppendOutcome::Matched(index) = outcome
                    && server.leads
                    && server.term == term.0
                {
                    server.matched.entry(from).or_default().push(Matched { index: index.0, received: way });
                }
            }
            Message::ClientRequest(ClientRequest { session, sequence, op, .. }) => {
                let request =
                    Request { received: way, is_read: op.is_read(), heard: Vec::new(), answered: false };
                self.server(node).requests.insert((session.0, sequence.0), request);
            }
            Message::ClientReply(reply) => {
                if let Answer::Done(outcome) = &reply.answer {
                    let call = (reply.session.0, reply.sequence.0);
                    self.answer_received.entry(call).or_insert(way);
                    self.facts.outcomes.entry(call).or_insert_with(|| words::reply(outcome));
                }
            }
        }
        told
    }
}

/// An answer to AppendEntries: what it vouches for, and what of that the disk holds.
fn answers(mut told: Told, server: &Server, answer: &AppendReply) -> Told {
    told.causes.extend(ways(server.append));
    if let AppendOutcome::Matched(index) = answer.outcome {
        let held = server.held(index.0);
        told.causes.extend(held.and_then(|held| held.appended));
        told.causes.extend(held.and_then(|held| held.synced));
        let on_disk = server.on_disk();
        if on_disk < index.0 {
            told.text += &format!(" (on its disk: up to {on_disk})");
        }
    }
    told
}

/// What an AppendEntries meets: another entry, or none, where the leader supposes the previous one.
fn meets(node: u64, server: &Server, append: &AppendRequest<'_>) -> String {
    let (index, term) = (append.prev.index.0, append.prev.term.0);
    let (last, last_term) = server.last();
    match server.held(index) {
        Some(held) if held.term != term => format!("n{node} has {} there", words::entry(index, held.term)),
        None if index > 0 => format!("n{node}'s log ends {}", words::entry(last, last_term)),
        _ => String::new(),
    }
}

impl Server {
    /// From whom answers came since the oldest read that waits was asked for, and the request itself.
    pub(super) fn confirmed(&self) -> (String, Option<Way>) {
        let waiting = self.requests.values().filter(|request| request.is_read && !request.answered);
        let Some(request) = waiting.min_by_key(|request| request.received.received) else {
            return (String::new(), None);
        };
        let mut heard = request.heard.clone();
        heard.sort_unstable();
        heard.dedup();
        let names: Vec<String> = heard.iter().map(|node| format!("n{node}")).collect();
        (names.join(" "), Some(request.received))
    }
}
