//! Messages to frames and back, and frames that are none.

use super::*;
use crate::codec::arbitrary;
use proptest::prelude::*;

fn value_strategy() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        any::<u64>().prop_map(|v| Some(Value::Register(v))),
        prop::collection::vec(any::<u64>(), 0..20).prop_map(|v| Some(Value::List(Rc::new(v)))),
    ]
}

fn reply_strategy() -> impl Strategy<Value = OpReply> {
    prop_oneof![
        value_strategy().prop_map(OpReply::Value),
        value_strategy().prop_map(OpReply::Mismatch),
        any::<u64>().prop_map(|version| OpReply::Done { version }),
        Just(OpReply::Refused),
        Just(OpReply::Forgotten),
    ]
}

fn message() -> impl Strategy<Value = Message<'static>> {
    let n = any::<u64>;
    prop_oneof![
        (n(), any::<u16>(), n(), n()).prop_map(|(t, c, lt, li)| Message::VoteRequest(VoteRequest {
            term: Term(t),
            candidate: ServerId(c),
            last: LastEntry { term: Term(lt), index: Index(li) },
        })),
        (n(), any::<u16>(), any::<bool>()).prop_map(|(t, v, granted)| Message::VoteReply(VoteReply {
            term: Term(t),
            voter: ServerId(v),
            granted,
        })),
        (n(), any::<u16>(), n(), n()).prop_map(|(t, f, round, m)| Message::AppendReply(AppendReply {
            term: Term(t),
            follower: ServerId(f),
            round,
            outcome: AppendOutcome::Matched(Index(m)),
        })),
        (n(), any::<u16>(), n(), n(), n()).prop_map(|(t, f, r, ht, hf)| {
            Message::AppendReply(AppendReply {
                term: Term(t),
                follower: ServerId(f),
                round: 0,
                outcome: AppendOutcome::Conflict {
                    refused: Index(r),
                    hint: ConflictHint { term: Term(ht), first: Index(hf) },
                },
            })
        }),
        (n(), n(), n(), arbitrary::op()).prop_map(|(s, q, a, op)| Message::ClientRequest(ClientRequest {
            session: SessionId(s),
            sequence: Sequence(q),
            ack_below: Sequence(a),
            op
        })),
        (n(), n(), reply_strategy()).prop_map(|(s, q, reply)| Message::ClientReply(ClientReply {
            session: SessionId(s),
            sequence: Sequence(q),
            answer: Answer::Done(reply),
        })),
        (n(), n(), any::<u16>()).prop_map(|(s, q, hint)| Message::ClientReply(ClientReply {
            session: SessionId(s),
            sequence: Sequence(q),
            answer: Answer::NotLeader { hint: (hint != 0).then_some(ServerId(hint)) },
        })),
    ]
}

proptest! {
    #[test]
    fn a_message_survives_its_frame(message in message()) {
        let mut frame = vec![0xaa; 7];
        encode(&message, &mut frame);
        let decoded = decode(&frame).expect("it was just encoded");
        prop_assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
    }

    #[test]
    fn appended_entries_survive_their_frame(
        entries in prop::collection::vec(arbitrary::entry(), 0..40), term: u64, index: u64, round: u64,
    ) {
        let head = AppendRequest {
            term: Term(term),
            leader: ServerId(3),
            prev: LastEntry { term: Term(term / 2), index: Index(index) },
            commit: Index(index / 2),
            round,
            entries: Entries::NONE,
        };
        let mut frame = Vec::new();
        encode_append(&head, &entries, &mut frame);
        let Ok(Message::Append(decoded)) = decode(&frame) else { panic!("an append was encoded") };
        prop_assert_eq!(decoded.entries.len(), entries.len());
        prop_assert_eq!(decoded.entries.collect::<Vec<_>>(), entries);
        prop_assert_eq!((decoded.term, decoded.prev, decoded.commit, decoded.round),
            (head.term, head.prev, head.commit, head.round));
    }

    /// "Malformed, truncated or oversized frames are [...] dropped as a fact, never a panic."
    #[test]
    fn arbitrary_bytes_are_refused_quietly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }

    /// The same behind a correct header, or the checksum would hide every later mistake.
    #[test]
    fn arbitrary_bodies_are_refused_quietly(body in prop::collection::vec(any::<u8>(), 1..300), kind in 0..8_u8) {
        let mut bytes = Vec::new();
        frame(&mut bytes, kind, |_| {}, |b| b.put(&body));
        if let Ok(Message::Append(append)) = decode(&bytes) {
            prop_assert_eq!(append.entries.count(), append.entries.len());
        }
    }

    #[test]
    fn a_damaged_frame_is_refused(message in message(), at: prop::sample::Index, bit in 0..8_u8) {
        let mut frame = Vec::new();
        encode(&message, &mut frame);
        let at = at.index(frame.len());
        frame[at] ^= 1 << bit;
        prop_assert!(decode(&frame).is_err());
    }

    #[test]
    fn a_cut_frame_is_refused(message in message(), at: prop::sample::Index) {
        let mut frame = Vec::new();
        encode(&message, &mut frame);
        prop_assert!(decode(&frame[..at.index(frame.len())]).is_err());
    }
}

/// A list that claims four billion items in a frame of 30 bytes.
#[test]
fn a_false_count_allocates_nothing() {
    let mut bytes = Vec::new();
    frame(
        &mut bytes,
        CLIENT_REPLY,
        |b| {
            b.put(&[0; 16]);
            b.put(&[1, 0, 2]);
            b.put_u32(u32::MAX);
        },
        |_| {},
    );
    assert_eq!(decode(&bytes).err(), Some(Malformed));
}

#[test]
fn an_oversized_frame_is_refused_by_its_header() {
    let header = |len: u32| {
        let mut header = [0; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(&len.to_le_bytes());
        header
    };
    assert_eq!(body_bytes(header(u32::MAX)), Err(Malformed));
    assert_eq!(body_bytes(header(0)), Err(Malformed));
    assert_eq!(body_bytes(header(100)), Ok(100));
}

#[test]
fn a_full_append_fits_a_datagram() {
    let entry = Entry {
        term: Term(1),
        command: crate::types::Command::Client {
            session: SessionId(1),
            sequence: Sequence(1),
            ack_below: Sequence(1),
            op: Op::Delete { key: crate::types::Key(1) },
        },
    };
    let head = AppendRequest {
        term: Term(1),
        leader: ServerId(1),
        prev: LastEntry::default(),
        commit: Index(0),
        round: 0,
        entries: Entries::NONE,
    };
    let mut frame = Vec::new();
    encode_append(&head, &vec![entry; 5_000], &mut frame);
    assert!(frame.len() <= MAX_FRAME_BYTES);
    assert!(decode(&frame).is_ok());
}
