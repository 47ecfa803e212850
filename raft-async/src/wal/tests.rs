//! Recovery from logs that were torn, cut and damaged at every byte.

use super::*;
use crate::types::{Command, Key, Op, Sequence, SessionId, Term};
use proptest::prelude::*;

const SOUND: Planted = Planted::NONE;

fn entry(term: u64, item: u64) -> Entry {
    let op = Op::Append { key: Key(1), item };
    let (session, sequence) = (SessionId(1), Sequence(item));
    Entry { term: Term(term), command: Command::Client { session, sequence, ack_below: sequence, op } }
}

/// A log as a server writes it: batch by batch, each durable before the next.
#[derive(Clone, Default)]
struct Writer {
    segments: Vec<(u64, Vec<u8>)>,
    entries: Vec<Entry>,
    end: u64,
    durable: u64,
    chain: u32,
}

impl Writer {
    fn roll(&mut self) {
        let header = SegmentHeader {
            number: self.segments.len() as u64 + 1,
            base: self.end,
            first: Index(self.entries.len() as u64 + 1),
            chain: self.chain,
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        self.end += bytes.len() as u64;
        self.segments.push((header.number, bytes));
    }

    fn batch(&mut self, entries: &[Entry]) {
        if self.segments.is_empty() {
            self.roll();
        }
        let bytes = &mut self.segments.last_mut().expect("there is one").1;
        let before = bytes.len();
        for entry in entries {
            self.entries.push(*entry);
            let index = Index(self.entries.len() as u64);
            self.chain = encode_frame(bytes, self.chain, self.durable, index, entry);
        }
        self.end += (bytes.len() - before) as u64;
    }

    fn sync(&mut self) {
        self.durable = self.end;
    }

    fn synced(mut self, entries: &[Entry]) -> Self {
        self.batch(entries);
        self.sync();
        self
    }

    fn rolled(mut self) -> Self {
        self.roll();
        self.sync();
        self
    }

    fn last_bytes(&mut self) -> &mut Vec<u8> {
        &mut self.segments.last_mut().expect("there is one").1
    }

    fn recover(&self) -> Result<Recovered, Corrupt> {
        recover_from(&self.segments)
    }
}

fn recover_from(segments: &[(u64, Vec<u8>)]) -> Result<Recovered, Corrupt> {
    let segments: Vec<_> =
        segments.iter().map(|(number, bytes)| SegmentBytes { number: *number, bytes }).collect();
    recover(&segments, SOUND)
}

/// Three durable batches in two segments.
fn durable_log() -> Writer {
    Writer::default()
        .synced(&[entry(1, 1), entry(1, 2)])
        .rolled()
        .synced(&[entry(1, 3)])
        .synced(&[entry(2, 4), entry(2, 5)])
}

#[test]
fn a_whole_log_is_recovered_with_its_places() {
    let log = durable_log();
    let found = log.recover().expect("nothing is wrong with it");
    assert_eq!(found.entries, log.entries);
    assert_eq!((found.cut, found.unborn), (None, None));
    assert_eq!(found.segments.len(), 2);
    for (i, place) in found.places.iter().enumerate() {
        let bytes = &log.segments[place.segment as usize].1[place.offset as usize..place.end() as usize];
        let frame = read_frame(bytes).expect("a frame is there");
        assert_eq!((frame.entry, frame.checksum), (log.entries[i], place.chain));
    }
    assert_eq!(recover(&[], SOUND), Ok(Recovered::default()));
}

/// Whatever a crash leaves of an unsynced batch (cut, sheared, zeroed, or a sector missing in the middle),
/// recovery keeps all that was durable and nothing but a prefix of what was written.
#[test]
fn a_torn_batch_is_cut_at_every_byte() {
    let durable = durable_log();
    let mut written = durable.clone();
    written.batch(&[entry(3, 6), entry(3, 7), entry(3, 8)]);
    let start = durable.segments[1].1.len();
    let whole = written.segments[1].1.clone();
    let check = |torn: Vec<u8>, what: &str| {
        let mut log = written.clone();
        *log.last_bytes() = torn.clone();
        let found = log.recover().unwrap_or_else(|corrupt| panic!("{what}: {corrupt}"));
        let kept = found.entries.len();
        assert!(kept >= durable.entries.len(), "{what} lost a durable entry");
        assert_eq!(found.entries, written.entries[..kept], "{what} is not a prefix");
        if let Some(cut) = found.cut {
            log.last_bytes().truncate(cut as usize);
            let again = log.recover().expect("a cut log is whole");
            assert_eq!((again.entries, again.cut), (found.entries, None), "{what}");
        }
    };
    for at in start..=whole.len() {
        check(whole[..at].to_vec(), "a short file");
        let mut zeroed = whole.clone();
        zeroed[at..].fill(0);
        check(zeroed, "a zeroed end");
        let mut headless = whole.clone();
        headless[start..at].fill(0);
        check(headless, "a zeroed start");
        for until in (at..whole.len()).step_by(7) {
            let mut hole = whole.clone();
            hole[at..until].fill(0);
            check(hole, "a zeroed middle");
        }
    }
}

/// "a later valid header covers the bad frame: refuse to start".
#[test]
fn damage_below_what_was_durable_is_refused_at_every_byte() {
    let log = durable_log();
    let last_batch = log.segments[1].1.len() - 2 * (FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES);
    for (s, (_, bytes)) in log.segments.iter().enumerate() {
        let covered = if s == 0 { bytes.len() } else { last_batch };
        for at in 0..covered {
            for bit in [0, 7] {
                let mut damaged = log.clone();
                damaged.segments[s].1[at] ^= 1 << bit;
                assert!(damaged.recover().is_err(), "segment {s}, byte {at} went unnoticed");
            }
        }
    }
}

/// The last batch is followed by nothing that could vouch for it: damage there is cut like a torn write.
#[test]
fn damage_to_the_last_batch_never_invents_an_entry() {
    let log = durable_log();
    let start = log.segments[1].1.len() - 2 * (FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES);
    for at in start..log.segments[1].1.len() {
        let mut damaged = log.clone();
        damaged.segments[1].1[at] ^= 1;
        let found = damaged.recover().expect("nothing claims it");
        assert!(found.entries.len() >= 3);
        assert_eq!(found.entries, log.entries[..found.entries.len()]);
    }
}

#[test]
fn a_missing_segment_is_a_hole() {
    let log = durable_log().rolled().synced(&[entry(2, 6)]);
    for missing in 0..2 {
        let mut segments = log.segments.clone();
        segments.remove(missing);
        assert!(matches!(recover_from(&segments), Err(Corrupt::Hole { .. })), "{missing}");
    }
    let mut segments = log.segments.clone();
    segments.pop();
    assert_eq!(recover_from(&segments).map(|found| found.entries.len()), Ok(5));
}

/// A segment whose file lost its end, however neatly, does not reach the next one.
#[test]
fn a_shortened_segment_is_a_hole() {
    let mut log = durable_log();
    let frame = FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES;
    let len = log.segments[0].1.len();
    log.segments[0].1.truncate(len - frame);
    assert!(matches!(log.recover(), Err(Corrupt::Hole { .. })));
}

#[test]
fn a_segment_that_was_never_finished_is_unborn() {
    let durable = durable_log();
    let mut log = durable.clone();
    log.roll();
    log.batch(&[entry(3, 6), entry(3, 7)]);
    let whole = log.last_bytes().clone();
    for at in 0..whole.len() {
        let mut torn = log.clone();
        torn.last_bytes().truncate(at);
        let found = torn.recover().expect("nothing durable is missing");
        assert!(found.entries.len() >= 5);
        assert_eq!(found.unborn, (at < SEGMENT_HEADER_BYTES).then_some(3));

        // The first sectors may be the ones that are missing.
        let mut headless = log.clone();
        headless.last_bytes()[..at].fill(0);
        let found = headless.recover().expect("nothing durable is missing");
        assert_eq!(found.entries, log.entries[..found.entries.len()]);
    }
}

/// Two torn writes at one place: the second is as long as the first, and its end never reaches the disk.
#[test]
fn frames_of_an_earlier_tail_do_not_come_back() {
    let durable = durable_log();
    let mut first = durable.clone();
    first.batch(&[entry(3, 6), entry(3, 7)]);
    let mut second = durable.clone();
    second.batch(&[entry(4, 8)]);

    let mut disk = first.clone();
    let new = second.last_bytes().clone();
    disk.last_bytes()[..new.len()].copy_from_slice(&new);
    let found = disk.recover().expect("a torn tail");
    assert_eq!(found.entries.last(), Some(&entry(4, 8)), "entry 7 of term 3 is not behind it");
    assert_eq!(found.cut, Some(new.len() as u64));
}

proptest! {
    #[test]
    fn arbitrary_bytes_give_a_log_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = recover_from(&[(1, bytes.clone())]);
        let mut log = durable_log();
        log.last_bytes().extend_from_slice(&bytes);
        let found = log.recover().expect("what follows the last batch was never durable");
        prop_assert_eq!(found.entries, log.entries);
    }

    /// A log that grows, is cut, is damaged and loses segments: reading on finds what reading it all finds.
    #[test]
    fn reading_again_finds_what_reading_for_the_first_time_finds(
        steps in prop::collection::vec((0..6_u8, any::<prop::sample::Index>(), 1..4_usize), 1..30),
    ) {
        let mut log = Writer::default();
        let (mut reader, mut entries) = (Rereader::default(), Entries::default());
        for (item, (what, at, count)) in (1..).zip(steps) {
            let mut disk = log.clone();
            match what {
                0 => log.roll(),
                1 | 2 => log.batch(&vec![entry(item, item); count]),
                _ if disk.segments.is_empty() => {}
                3 => {
                    let bytes = disk.last_bytes();
                    bytes.truncate(at.index(bytes.len()));
                }
                4 => {
                    let segment = at.index(disk.segments.len());
                    let bytes = &mut disk.segments[segment].1;
                    let byte = at.index(bytes.len());
                    bytes[byte] ^= 1;
                }
                _ => drop(disk.segments.remove(at.index(disk.segments.len()))),
            }
            for segments in [&disk.segments, &log.segments] {
                let bytes: Vec<_> = segments
                    .iter()
                    .map(|(number, bytes)| SegmentBytes { number: *number, bytes })
                    .collect();
                let again = reader.recover(&bytes, &mut entries);
                let fresh = recover(&bytes, SOUND);
                prop_assert_eq!(again.err(), fresh.clone().err());
                if let Ok(fresh) = fresh {
                    prop_assert_eq!(entries.batch(Index(1), usize::MAX), &fresh.entries[..]);
                    let found = (&reader.log.places, &reader.log.segments);
                    prop_assert_eq!(found, (&fresh.places, &fresh.segments));
                }
            }
        }
    }

    /// Any mixture of old (nothing), new, sheared and zeroed 512-byte sectors of any last batch.
    #[test]
    fn any_fate_of_sectors_is_survived(
        durable in prop::collection::vec(1..5_usize, 0..4),
        unsynced in 1..30_usize,
        fates in prop::collection::vec((0..3_u8, 0..512_usize), 12),
        length_is_new: bool,
    ) {
        let mut items = 1..;
        let mut take = |n: usize| -> Vec<Entry> { items.by_ref().take(n).map(|i| entry(1, i)).collect() };
        let mut log = Writer::default().rolled();
        for batch in durable {
            log = log.synced(&take(batch));
        }
        let before = log.last_bytes().len();
        let kept = log.entries.len();
        log.batch(&take(unsynced));
        let bytes = log.last_bytes();
        for (sector, (fate, cut)) in (0..).zip(fates) {
            let range = |from: usize, to: usize| from.clamp(before, bytes.len())..to.clamp(before, bytes.len());
            let spoiled = match fate {
                0 => range(sector * 512, sector * 512 + 512),
                1 => range(sector * 512 + cut, sector * 512 + 512),
                _ => range(0, 0),
            };
            bytes[spoiled].fill(0);
        }
        if !length_is_new {
            bytes.truncate(before);
        }
        let found = log.recover().expect("what was durable is untouched");
        prop_assert!(found.entries.len() >= kept);
        prop_assert_eq!(&found.entries[..], &log.entries[..found.entries.len()]);
    }
}
