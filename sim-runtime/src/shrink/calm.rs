//! Timelines in which chance has less of a say: fields that are calm, everywhere or here and there.
//!
//! Invariant: what is calm once is not offered again, so there is an end to it.

use crate::rng::{Override, Set};
use crate::scenario::Timeline;

/// The timelines in which one more of `fields` is calm everywhere and always; what is calm in part goes into that.
pub fn calmer<C: Clone, P: Clone>(timeline: &Timeline<C, P>, fields: &[&str]) -> Vec<Timeline<C, P>> {
    let calm = |field: &&str| {
        let mut calmer = timeline.clone();
        calmer.overrides.retain(|edit| edit.field != **field || edit.set != Set::Calm);
        calmer.overrides.push(calm(field, None, 0, u64::MAX));
        calmer
    };
    fields.iter().filter(|field| !is_calm(&timeline.overrides, field)).map(calm).collect()
}

/// The timelines in which `field` is calm for one more of `keys`, or for longer from the beginning on. None where it is calm
/// as a whole.
pub fn calmer_in_part<C: Clone, P: Clone>(
    timeline: &Timeline<C, P>,
    field: &str,
    keys: &[u64],
    until_ns: u64,
) -> Vec<Timeline<C, P>> {
    /// No calm of less.
    const LEAST_NS: u64 = 10_000_000;
    let edits = &timeline.overrides;
    if is_calm(edits, field) {
        return Vec::new();
    }
    let with = |edit: Override| {
        let mut calmer = timeline.clone();
        calmer
            .overrides
            .retain(|other| other.field != edit.field || other.key != edit.key || other.set != edit.set);
        calmer.overrides.push(edit);
        calmer
    };
    let of_field = || edits.iter().filter(|edit| edit.field == field && edit.set == Set::Calm);
    let is_new = |key: &&u64| !of_field().any(|edit| edit.key == Some(**key));
    let known_ns = of_field().filter(|edit| edit.key.is_none()).map(|edit| edit.to_ns).max().unwrap_or(0);
    let left_ns = until_ns.saturating_sub(known_ns);
    let longer = [left_ns, left_ns / 2, left_ns / 4].into_iter().filter(|ns| *ns >= LEAST_NS);
    let longer = longer.map(|ns| with(calm(field, None, 0, known_ns + ns)));
    longer.chain(keys.iter().filter(is_new).map(|key| with(calm(field, Some(*key), 0, u64::MAX)))).collect()
}

fn calm(field: &str, key: Option<u64>, from_ns: u64, to_ns: u64) -> Override {
    Override { field: field.to_owned(), key, from_ns, to_ns, set: Set::Calm }
}

fn is_calm(edits: &[Override], field: &str) -> bool {
    edits.contains(&calm(field, None, 0, u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timeline<u32, ()> {
        Timeline { seed: 1, config: 9, plan: (), overrides: Vec::new() }
    }

    #[test]
    fn calmer_timelines_calm_what_is_not_calm_yet() {
        let once = calmer(&start(), &["loss", "latency"]);
        assert_eq!(once.len(), 2);
        assert_eq!(calmer(&once[0], &["loss", "latency"]).len(), 1);
    }

    #[test]
    fn a_field_is_calm_on_one_more_link_or_for_longer_until_it_is_calm_as_a_whole() {
        let start = start();
        let in_part = |timeline: &Timeline<u32, ()>| calmer_in_part(timeline, "loss", &[4, 5], 80_000_000);
        let edits = |timeline: &Timeline<u32, ()>| -> Vec<(Option<u64>, u64)> {
            timeline.overrides.iter().map(|edit| (edit.key, edit.to_ns)).collect()
        };
        let first: Vec<_> = in_part(&start).iter().map(edits).collect();
        let until = |ms: u64| vec![(None, ms * 1_000_000)];
        let on = |key| vec![(Some(key), u64::MAX)];
        assert_eq!(first, [until(80), until(40), until(20), on(4), on(5)]);
        // From 20 ms of calm it goes on, and the longer calm takes the place of the shorter.
        let second: Vec<_> = in_part(&in_part(&start)[2]).iter().map(edits).collect();
        assert_eq!(second[..3], [until(80), until(50), until(35)]);
        assert_eq!(second[3], [until(20), on(4)].concat());
        let whole = &calmer(&in_part(&start)[3], &["loss"])[0];
        assert_eq!(edits(whole), [(None, u64::MAX)]);
        assert_eq!(in_part(whole), []);
    }
}
