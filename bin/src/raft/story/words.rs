//! Words: what clients, operations, values and messages are called.
//!
//! `c2#3` is the third operation of client 2 (in its first session; `c2s4#3` in its fourth), `v2.7` the value that
//! client 2 made up for the seventh thing it did, `5/2` the entry of term 2 at index 5, `t3` term 3.

use raft_async::trace::RoleKind;
use raft_async::types::{Command, Entry, Key, LastEntry, Op, OpReply, ServerId, Value};
use raft_async::wire::{Answer, AppendOutcome, ClientReply, Entries, Message};

/// An operation, by session and sequence number.
pub(super) type Call = (u64, u64);

/// Only so many entries of a message, or elements of a list, are written out.
const SHOWN: usize = 3;

pub(super) fn call((session, sequence): Call) -> String {
    let (client, life, number) = (session >> 32, session >> 20 & 0xFFF, session & 0xF_FFFF);
    match (life, number) {
        (0, 1) => format!("c{client}#{sequence}"),
        (0, _) => format!("c{client}s{number}#{sequence}"),
        (_, _) => format!("c{client}l{}s{number}#{sequence}", life + 1),
    }
}

/// Clients make values of their number, a lane and an ordinal.
pub(super) fn value(value: u64) -> String {
    let (client, lane, ordinal) = (value >> 32, value >> 24 & 0xFF, value & 0xFF_FFFF);
    match (client, lane) {
        (0, _) => value.to_string(),
        (_, 0) => format!("v{client}.{ordinal}"),
        (_, _) => format!("v{client}.{ordinal}.{lane}"),
    }
}

fn values(held: Option<&Value>) -> String {
    match held {
        None => "nothing".to_owned(),
        Some(Value::Register(held)) => value(*held),
        Some(Value::List(items)) => {
            let left_out = items.len().saturating_sub(SHOWN);
            let shown: Vec<String> = items.iter().skip(left_out).map(|item| value(*item)).collect();
            let before = if left_out > 0 { format!("{left_out} more, ") } else { String::new() };
            format!("[{before}{}]", shown.join(" "))
        }
    }
}

fn key(key: Key) -> String {
    format!("k{key}")
}

pub(super) fn op(op: &Op) -> String {
    match *op {
        Op::Get { key: k } => format!("get {}", key(k)),
        Op::Put { key: k, value: v } => format!("put {}={}", key(k), value(v)),
        Op::PutList { key: k, item } => format!("put {}=[{}]", key(k), value(item)),
        Op::Append { key: k, item } => format!("append {} {}", key(k), value(item)),
        Op::Cas { key: k, expected, new } => {
            let expected = expected.map_or_else(|| "nothing".to_owned(), value);
            format!("cas {} from {expected} to {}", key(k), value(new))
        }
        Op::Delete { key: k } => format!("delete {}", key(k)),
    }
}

pub(super) fn reply(reply: &OpReply) -> String {
    match reply {
        OpReply::Value(held) => format!("found {}", values(held.as_ref())),
        OpReply::Done { version } => format!("done, write {version} of its key"),
        OpReply::Mismatch(held) => format!("not done, found {}", values(held.as_ref())),
        OpReply::Refused => "refused".to_owned(),
        OpReply::Forgotten => "forgotten".to_owned(),
    }
}

pub(super) fn entry(index: u64, term: u64) -> String {
    if index == 0 { "0".to_owned() } else { format!("{index}/{term}") }
}

pub(super) fn last(last: LastEntry) -> String {
    entry(last.index.0, last.term.0)
}

pub(super) fn vote(vote: u64) -> String {
    if vote == 0 { "no vote".to_owned() } else { format!("vote for n{vote}") }
}

pub(super) fn command(command: &Command) -> String {
    match command {
        Command::Noop => "no-op".to_owned(),
        Command::Client { session, sequence, op: asked, .. } => {
            format!("{} {}", call((session.0, sequence.0)), op(asked))
        }
    }
}

/// What a message is counted as.
pub(super) fn label(message: &Message<'_>) -> &'static str {
    match message {
        Message::VoteRequest(_) => "vote requests",
        Message::VoteReply(_) => "votes",
        Message::Append(append) if append.entries.is_empty() => HEARTBEATS,
        Message::Append(_) => APPENDS,
        Message::AppendReply(_) => ANSWERS,
        Message::ClientRequest(_) => "client requests",
        Message::ClientReply(ClientReply { answer: Answer::NotLeader { .. }, .. }) => "redirections",
        Message::ClientReply(_) => "replies to clients",
    }
}

pub(super) const HEARTBEATS: &str = "heartbeats";
pub(super) const APPENDS: &str = "AppendEntries";
pub(super) const ANSWERS: &str = "answers to these";

/// What a message says.
pub(super) fn message(message: &Message<'_>) -> String {
    match message {
        Message::VoteRequest(ask) => format!("RequestVote t{}, log ends {}", ask.term, last(ask.last)),
        Message::VoteReply(reply) if reply.granted => format!("vote granted, t{}", reply.term),
        Message::VoteReply(reply) => format!("vote refused, t{}", reply.term),
        Message::Append(append) => {
            let (name, entries) = match append.entries.len() {
                0 => ("heartbeat", String::new()),
                count => {
                    ("AppendEntries", format!(" +{count} ({})", entries(append.entries, append.prev.index.0)))
                }
            };
            let prev = last(append.prev);
            format!("{name} t{} prev {prev}{entries}, commit {}", append.term, append.commit)
        }
        Message::AppendReply(answer) => match answer.outcome {
            AppendOutcome::Matched(index) => format!("AppendReply t{}: matches up to {index}", answer.term),
            AppendOutcome::Conflict { refused, .. } => {
                format!("AppendReply t{}: refused, prev {refused}", answer.term)
            }
        },
        Message::ClientRequest(ask) => format!("{} {}", call((ask.session.0, ask.sequence.0)), op(&ask.op)),
        Message::ClientReply(told) => {
            let name = call((told.session.0, told.sequence.0));
            match &told.answer {
                Answer::Done(outcome) => format!("{name} {}", reply(outcome)),
                Answer::NotLeader { hint: Some(ServerId(leader)) } => format!("{name} ask n{leader}"),
                Answer::NotLeader { hint: None } => format!("{name} ask somebody else"),
            }
        }
    }
}

fn entries(entries: Entries<'_>, prev: u64) -> String {
    let count = entries.len();
    let named = |(index, entry): (u64, Entry)| match count {
        1 => format!("{index}/{} {}", entry.term, command(&entry.command)),
        _ => format!("{index}/{}", entry.term),
    };
    let shown: Vec<String> = (prev + 1..).zip(entries).take(SHOWN).map(named).collect();
    let more = if count > SHOWN { format!(" to {}", prev + count as u64) } else { String::new() };
    shown.join(" ") + &more
}

pub(super) fn role(role: RoleKind) -> &'static str {
    match role {
        RoleKind::Follower => "follower",
        RoleKind::Candidate => "candidate",
        RoleKind::Leader => "leader",
    }
}
