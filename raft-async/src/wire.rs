//! Messages between servers, and between clients and servers, as frames.
//!
//!   frame = length of the body (u32) │ CRC-32 of the body (u32) │ body = kind (u8) │ fields, little-endian
//!
//! A datagram carries exactly one frame; on a stream, [`body_bytes`] says from the header how much to read,
//! and refuses before a byte of it is allocated. Messages are uncorrelated: a reply names the term (and the
//! position, round or sequence number) that it speaks of, because nothing else ties it to its request.
//!
//! Invariants: encoding appends to a buffer that the caller reuses; decoding borrows; whatever the bytes are,
//! decoding neither panics nor allocates more than their length.

pub use crate::codec::Malformed;
use crate::codec::{Fields, MAX_ENTRY_BYTES, Put, Reader, crc32};
use crate::types::{Entry, Index, LastEntry, Op, OpReply, Sequence, ServerId, SessionId, Term, Value};
use std::rc::Rc;

/// The largest frame: it fits a datagram.
pub const MAX_FRAME_BYTES: usize = 60 * 1024;

/// Most frames are shorter: room for a buffer that is used again and again.
pub(crate) const TYPICAL_FRAME_BYTES: usize = 512;

/// Length and checksum.
pub const FRAME_HEADER_BYTES: usize = 8;

/// How many entries fit a frame whatever they are.
pub const MAX_ENTRIES_PER_FRAME: usize = (MAX_FRAME_BYTES - 128) / MAX_ENTRY_BYTES;

/// RequestVote (§5.2).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct VoteRequest {
    /// The candidate's term.
    pub term: Term,
    /// Who asks.
    pub candidate: ServerId,
    /// Where the candidate's log ends.
    pub last: LastEntry,
}

/// The answer to RequestVote.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct VoteReply {
    /// The term that the answer speaks of: the voter's when it decided.
    pub term: Term,
    /// Who answers.
    pub voter: ServerId,
    /// Whether the candidate got the vote.
    pub granted: bool,
}

/// AppendEntries (§5.3); without entries, a heartbeat.
#[derive(Copy, Clone, Debug)]
pub struct AppendRequest<'a> {
    /// The leader's term.
    pub term: Term,
    /// Who leads.
    pub leader: ServerId,
    /// The entry just before the new ones.
    pub prev: LastEntry,
    /// The leader's commit index.
    pub commit: Index,
    /// The leader's latest read round, echoed by the reply (§8: "exchange heartbeat messages with a majority
    /// of the cluster before responding to read-only requests").
    pub round: u64,
    /// The new entries.
    pub entries: Entries<'a>,
}

/// The answer to AppendEntries.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct AppendReply {
    /// The term that the answer speaks of.
    pub term: Term,
    /// Who answers.
    pub follower: ServerId,
    /// The latest read round seen from the leader of that term.
    pub round: u64,
    /// What became of the request.
    pub outcome: AppendOutcome,
}

/// What became of an AppendEntries request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AppendOutcome {
    /// The follower's log equals the leader's up to here, durably.
    Matched(Index),
    /// The follower has no entry equal to the request's previous one (or refuses its old term).
    Conflict {
        /// The previous index of the refused request; tells which of several in flight it was.
        refused: Index,
        /// Where the leader should look next (§5.3, the paragraph on fewer rejected AppendEntries).
        hint: ConflictHint,
    },
}

/// What a follower knows of the place where its log parts from the leader's.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ConflictHint {
    /// "the term of the conflicting entry"; 0 when the follower's log is too short.
    pub term: Term,
    /// "and the first index it stores for that term"; for a short log, the index after its last.
    pub first: Index,
}

/// What a client asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ClientRequest {
    /// The client's session.
    pub session: SessionId,
    /// Its number for this operation.
    pub sequence: Sequence,
    /// It has the replies to all operations below this number.
    pub ack_below: Sequence,
    /// The operation.
    pub op: Op,
}

/// What a server tells a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientReply {
    /// The client's session.
    pub session: SessionId,
    /// The client's number for the operation.
    pub sequence: Sequence,
    /// The answer.
    pub answer: Answer,
}

/// The two things that a server can say about an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was carried out.
    Done(OpReply),
    /// Ask somebody else. Says nothing about whether the operation takes effect.
    NotLeader {
        /// Who leads, if known.
        hint: Option<ServerId>,
    },
}

/// Anything that travels.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// RequestVote.
    VoteRequest(VoteRequest),
    /// Its answer.
    VoteReply(VoteReply),
    /// AppendEntries.
    Append(AppendRequest<'a>),
    /// Its answer.
    AppendReply(AppendReply),
    /// From a client.
    ClientRequest(ClientRequest),
    /// To a client.
    ClientReply(ClientReply),
}

impl Message<'_> {
    /// The term that the message speaks of, when it is one between servers.
    pub fn term(&self) -> Option<Term> {
        match self {
            Self::VoteRequest(m) => Some(m.term),
            Self::VoteReply(m) => Some(m.term),
            Self::Append(m) => Some(m.term),
            Self::AppendReply(m) => Some(m.term),
            Self::ClientRequest(_) | Self::ClientReply(_) => None,
        }
    }

    /// The server that sent it, when it is one between servers.
    pub fn sender(&self) -> Option<ServerId> {
        match self {
            Self::VoteRequest(m) => Some(m.candidate),
            Self::VoteReply(m) => Some(m.voter),
            Self::Append(m) => Some(m.leader),
            Self::AppendReply(m) => Some(m.follower),
            Self::ClientRequest(_) | Self::ClientReply(_) => None,
        }
    }
}

/// The entries of a received AppendEntries, still in its frame. They were checked when it was decoded.
#[derive(Copy, Clone, Debug)]
pub struct Entries<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl Entries<'_> {
    /// No entries: a heartbeat.
    pub const NONE: Self = Self { count: 0, bytes: &[] };

    /// How many.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether this is a heartbeat.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        self.count = self.count.checked_sub(1)?;
        let mut reader = Reader(self.bytes);
        let entry = reader.entry().expect("the entries were walked once when the frame was decoded");
        self.bytes = reader.0;
        Some(entry)
    }
}

const VOTE_REQUEST: u8 = 1;
const VOTE_REPLY: u8 = 2;
const APPEND: u8 = 3;
const APPEND_REPLY: u8 = 4;
const CLIENT_REQUEST: u8 = 5;
const CLIENT_REPLY: u8 = 6;

/// Replaces the contents of `frame` with a frame whose body is `fields`, and what `fill` writes behind them.
pub(crate) fn frame(
    frame: &mut Vec<u8>,
    kind: u8,
    fields: impl FnOnce(&mut Fields),
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let mut front = Fields::new();
    front.put(&[0, 0, 0, 0, 0, 0, 0, 0, kind]);
    fields(&mut front);
    frame.clear();
    frame.put(front.bytes());
    fill(frame);
    let (header, body) = frame.split_at_mut(FRAME_HEADER_BYTES);
    header[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32(body).to_le_bytes());
}

/// Encodes a message that carries no entries; the previous contents of `buffer` are replaced.
pub fn encode(message: &Message<'_>, buffer: &mut Vec<u8>) {
    let no_more = |_: &mut Vec<u8>| {};
    match message {
        Message::VoteRequest(m) => {
            let fields = |b: &mut Fields| {
                b.put_u64(m.term.0);
                b.put_u16(m.candidate.0);
                b.put_words([m.last.term.0, m.last.index.0]);
            };
            frame(buffer, VOTE_REQUEST, fields, no_more);
        }
        Message::VoteReply(m) => {
            let fields = |b: &mut Fields| {
                b.put_u64(m.term.0);
                b.put_u16(m.voter.0);
                b.put_u8(m.granted.into());
            };
            frame(buffer, VOTE_REPLY, fields, no_more);
        }
        Message::Append(m) => {
            let fields = |b: &mut Fields| put_append_head(b, m, m.entries.count);
            frame(buffer, APPEND, fields, |b| b.put(m.entries.bytes));
        }
        Message::AppendReply(m) => {
            let fields = |b: &mut Fields| {
                b.put_u64(m.term.0);
                b.put_u16(m.follower.0);
                b.put_u64(m.round);
                match m.outcome {
                    AppendOutcome::Matched(index) => {
                        b.put_u8(0);
                        b.put_u64(index.0);
                    }
                    AppendOutcome::Conflict { refused, hint } => {
                        b.put_u8(1);
                        b.put_words([refused.0, hint.term.0, hint.first.0]);
                    }
                }
            };
            frame(buffer, APPEND_REPLY, fields, no_more);
        }
        Message::ClientRequest(m) => {
            let fields = |b: &mut Fields| {
                b.put_words([m.session.0, m.sequence.0, m.ack_below.0]);
                b.put_op(&m.op);
            };
            frame(buffer, CLIENT_REQUEST, fields, no_more);
        }
        Message::ClientReply(m) => {
            let fields = |b: &mut Fields| {
                b.put_words([m.session.0, m.sequence.0]);
                match &m.answer {
                    Answer::NotLeader { hint } => {
                        b.put_u8(0);
                        b.put_u16(hint.map_or(0, |server| server.0));
                    }
                    Answer::Done(reply) => {
                        b.put_u8(1);
                        put_reply(b, reply);
                    }
                }
            };
            frame(buffer, CLIENT_REPLY, fields, |b| put_items(b, &m.answer));
        }
    }
}

/// Encodes an AppendEntries with `entries`, straight from the log; `head.entries` is ignored.
pub fn encode_append(head: &AppendRequest<'_>, entries: &[Entry], buffer: &mut Vec<u8>) {
    let entries = &entries[..entries.len().min(MAX_ENTRIES_PER_FRAME)];
    let fields = |b: &mut Fields| put_append_head(b, head, entries.len() as u16);
    frame(buffer, APPEND, fields, |b| {
        for entry in entries {
            let mut fields = Fields::new();
            fields.put_entry(entry);
            b.put(fields.bytes());
        }
    });
}

#[inline(always)]
fn put_append_head(b: &mut Fields, m: &AppendRequest<'_>, count: u16) {
    b.put_u64(m.term.0);
    b.put_u16(m.leader.0);
    b.put_words([m.prev.term.0, m.prev.index.0, m.commit.0, m.round]);
    b.put_u16(count);
}

/// A list that is part of it follows: [`put_items`].
#[inline]
fn put_reply(b: &mut Fields, reply: &OpReply) {
    match reply {
        OpReply::Value(value) => {
            b.put_u8(0);
            put_value(b, value.as_ref());
        }
        OpReply::Done { version } => {
            b.put_u8(1);
            b.put_u64(*version);
        }
        OpReply::Mismatch(value) => {
            b.put_u8(2);
            put_value(b, value.as_ref());
        }
        OpReply::Refused => b.put_u8(3),
        OpReply::Forgotten => b.put_u8(4),
    }
}

#[inline]
fn put_value(b: &mut Fields, value: Option<&Value>) {
    match value {
        None => b.put_u8(0),
        Some(Value::Register(value)) => {
            b.put_u8(1);
            b.put_u64(*value);
        }
        Some(Value::List(items)) => {
            b.put_u8(2);
            b.put_u32(items.len() as u32);
        }
    }
}

/// The elements of the list that an answer ends with, if it does.
fn put_items(b: &mut Vec<u8>, answer: &Answer) {
    if let Answer::Done(
        OpReply::Value(Some(Value::List(items))) | OpReply::Mismatch(Some(Value::List(items))),
    ) = answer
    {
        b.reserve(8 * items.len());
        items.iter().for_each(|item| b.put_u64(*item));
    }
}

/// How long the body is that a frame's header announces.
///
/// # Errors
/// [`Malformed`] when it could not be a frame of ours, so that a reader of a stream allocates nothing for it.
pub fn body_bytes(header: [u8; FRAME_HEADER_BYTES]) -> Result<usize, Malformed> {
    let announced = Reader(&header).u32()? as usize;
    if announced == 0 || announced > MAX_FRAME_BYTES - FRAME_HEADER_BYTES {
        return Err(Malformed);
    }
    Ok(announced)
}

/// Decodes one whole frame.
///
/// # Errors
/// [`Malformed`] when it is truncated, oversized, damaged, or followed by anything.
pub fn decode(frame: &[u8]) -> Result<Message<'_>, Malformed> {
    let (header, body) = frame.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or(Malformed)?;
    let checksum = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if body_bytes(*header)? != body.len() || crc32(body) != checksum {
        return Err(Malformed);
    }
    let mut r = Reader(body);
    let message = match r.u8()? {
        VOTE_REQUEST => Message::VoteRequest(VoteRequest {
            term: Term(r.u64()?),
            candidate: ServerId(r.u16()?),
            last: last(&mut r)?,
        }),
        VOTE_REPLY => Message::VoteReply(VoteReply {
            term: Term(r.u64()?),
            voter: ServerId(r.u16()?),
            granted: r.bool()?,
        }),
        APPEND => {
            let mut head = Reader(r.chunk::<{ 8 + 2 + 4 * 8 }>()?);
            let (term, leader, prev) = (Term(head.u64()?), ServerId(head.u16()?), last(&mut head)?);
            let (commit, round) = (Index(head.u64()?), head.u64()?);
            let entries = entries(&mut r)?;
            Message::Append(AppendRequest { term, leader, prev, commit, round, entries })
        }
        APPEND_REPLY => Message::AppendReply(AppendReply {
            term: Term(r.u64()?),
            follower: ServerId(r.u16()?),
            round: r.u64()?,
            outcome: match r.u8()? {
                0 => AppendOutcome::Matched(Index(r.u64()?)),
                1 => AppendOutcome::Conflict {
                    refused: Index(r.u64()?),
                    hint: ConflictHint { term: Term(r.u64()?), first: Index(r.u64()?) },
                },
                _ => return Err(Malformed),
            },
        }),
        CLIENT_REQUEST => Message::ClientRequest(ClientRequest {
            session: SessionId(r.u64()?),
            sequence: Sequence(r.u64()?),
            ack_below: Sequence(r.u64()?),
            op: r.op()?,
        }),
        CLIENT_REPLY => Message::ClientReply(ClientReply {
            session: SessionId(r.u64()?),
            sequence: Sequence(r.u64()?),
            answer: match r.u8()? {
                0 => {
                    let hint = r.u16()?;
                    Answer::NotLeader { hint: (hint != 0).then_some(ServerId(hint)) }
                }
                1 => Answer::Done(reply(&mut r)?),
                _ => return Err(Malformed),
            },
        }),
        _ => return Err(Malformed),
    };
    r.end()?;
    Ok(message)
}

fn last(r: &mut Reader<'_>) -> Result<LastEntry, Malformed> {
    Ok(LastEntry { term: Term(r.u64()?), index: Index(r.u64()?) })
}

/// Walks the entries once, so that iterating over them later cannot fail.
fn entries<'a>(r: &mut Reader<'a>) -> Result<Entries<'a>, Malformed> {
    let count = r.u16()?;
    let bytes = r.0;
    for _ in 0..count {
        r.entry()?;
    }
    Ok(Entries { count, bytes: &bytes[..bytes.len() - r.0.len()] })
}

fn reply(r: &mut Reader<'_>) -> Result<OpReply, Malformed> {
    Ok(match r.u8()? {
        0 => OpReply::Value(value(r)?),
        1 => OpReply::Done { version: r.u64()? },
        2 => OpReply::Mismatch(value(r)?),
        3 => OpReply::Refused,
        4 => OpReply::Forgotten,
        _ => return Err(Malformed),
    })
}

fn value(r: &mut Reader<'_>) -> Result<Option<Value>, Malformed> {
    Ok(match r.u8()? {
        0 => None,
        1 => Some(Value::Register(r.u64()?)),
        2 => {
            let count = r.u32()? as usize;
            // Taken before it is allocated for: a false count finds too few bytes here.
            let mut items = Reader(r.bytes(count.checked_mul(8).ok_or(Malformed)?)?);
            let mut list = Vec::with_capacity(count);
            while !items.0.is_empty() {
                list.push(items.u64()?);
            }
            Some(Value::List(Rc::new(list)))
        }
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests;
