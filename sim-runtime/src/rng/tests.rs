//! Streams and fields against what their module promises.

use super::*;

fn fields(overrides: Vec<Override>) -> Fields {
    Fields::new(7, overrides, Chance::Fields, Draws::default())
}

#[test]
fn streams_forget_nothing_and_fields_know_of_no_other_question() {
    let after = |chance, questions: &[u64]| {
        let fields = Fields::new(7, Vec::new(), chance, Draws::default());
        for key in questions {
            fields.read(LOSS, *key, 0);
        }
        fields.read(LOSS, 1, 0).bits()
    };
    assert_eq!(after(Chance::Fields, &[1, 2]), after(Chance::Fields, &[]));
    assert_eq!(after(Chance::Ordinals, &[2]), after(Chance::Ordinals, &[]));
    assert_ne!(after(Chance::Ordinals, &[1]), after(Chance::Ordinals, &[]));
    assert_ne!(after(Chance::Stream, &[2]), after(Chance::Stream, &[]));
    assert_eq!(after(Chance::Stream, &[2, 3]), after(Chance::Stream, &[8, 9]));
}

const LOSS: Field = Field::new("loss");

#[test]
fn a_field_is_constant_in_a_bucket_and_changes_between_buckets() {
    let fields = fields(Vec::new());
    let first = fields.read(LOSS, 3, 0);
    assert_eq!(first, fields.read(LOSS, 3, BUCKET_NS - 1));
    assert_ne!(first, fields.read(LOSS, 3, BUCKET_NS));
    assert_ne!(first, fields.read(LOSS, 4, 0));
    assert_ne!(first, fields.read(Field::new("latency"), 3, 0));
}

#[test]
fn chances_are_as_often_as_they_say() {
    let fields = fields(Vec::new());
    let hits = (0..100_000).filter(|key| fields.read(LOSS, *key, 0).chance(100_000)).count();
    assert!((9_500..10_500).contains(&hits), "{hits} of 100,000 at one in ten");
}

#[test]
fn an_override_calms_one_key_for_a_while_and_nothing_else() {
    let calm = Override {
        field: "loss".into(),
        key: Some(3),
        from_ns: BUCKET_NS,
        to_ns: 2 * BUCKET_NS,
        set: Set::Calm,
    };
    let (plain, edited) = (fields(Vec::new()), fields(vec![calm]));
    assert!(edited.read(LOSS, 3, BUCKET_NS).is_calm());
    assert_eq!(edited.read(LOSS, 3, BUCKET_NS).range(5, 9), 5);
    assert!(!edited.read(LOSS, 3, BUCKET_NS).chance(1_000_000));
    for (key, at) in [(3, 0), (3, 2 * BUCKET_NS), (4, BUCKET_NS)] {
        assert_eq!(plain.read(LOSS, key, at), edited.read(LOSS, key, at));
    }
}

#[test]
fn a_reseeded_field_is_another_one_and_fixed_bits_are_those_bits() {
    let with = |set| {
        let whole = Override { field: "loss".into(), key: None, from_ns: 0, to_ns: u64::MAX, set };
        fields(vec![whole]).read(LOSS, 1, 5)
    };
    assert_ne!(with(Set::Reseed(1)), with(Set::Reseed(2)));
    assert_eq!(with(Set::Bits(42)).bits(), 42);
}

#[test]
fn every_byte_and_the_length_enter_the_hash() {
    let bytes = [0_u8; 40];
    let whole = hash_bytes(0, &bytes);
    assert_ne!(whole, hash_bytes(0, &bytes[..39]));
    for at in 0..bytes.len() {
        let mut flipped = bytes;
        flipped[at] ^= 1;
        assert_ne!(whole, hash_bytes(0, &flipped), "byte {at}");
    }
}

#[test]
fn a_draw_changes_the_draw_digest() {
    let draws = Draws::default();
    let before = draws.digest();
    Stream::new(1, draws.clone()).next_u64();
    assert_ne!(before, draws.digest());
}
