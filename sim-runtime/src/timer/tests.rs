//! The wheels against a sorted map, and what cancelled timers leave.

use super::*;
use crate::device::DeviceId;
use std::collections::BTreeMap;

fn token(fire: Fire) -> u64 {
    match fire {
        Fire::Device(_, token) => token,
        other => panic!("{other:?} was never inserted"),
    }
}

#[test]
fn ties_fire_in_the_order_of_insertion() {
    let mut timers = Timers::default();
    for n in 0..100 {
        timers.insert(5, Fire::Device(DeviceId(0), n));
    }
    let order: Vec<u64> = std::iter::from_fn(|| timers.pop(u64::MAX)).map(|(_, fire)| token(fire)).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

/// Random insertions and cancellations against a sorted map, over spans that reach every wheel.
#[test]
fn agrees_with_a_sorted_map() {
    for (seed, span_bits) in (0..60).map(|n| (n, 4 + n % 58)) {
        let mut rng = crate::rng::Stream::derive(seed, "timers");
        let mut timers = Timers::default();
        let mut model = BTreeMap::new();
        let mut keys = Vec::new();
        let mut now = 0;
        for n in 0..3_000_u64 {
            match rng.below(5) {
                0 | 1 => {
                    let bits = rng.range(0, span_bits);
                    let deadline = now + rng.below(1 << bits);
                    keys.push((deadline, n, timers.insert(deadline, Fire::Device(DeviceId(0), n))));
                    model.insert((deadline, n), ());
                }
                2 if !keys.is_empty() => {
                    let at = rng.below(keys.len() as u64) as usize;
                    let (deadline, n, key) = keys.swap_remove(at);
                    let cancelled = timers.cancel(key).map(token);
                    assert_eq!(cancelled, model.remove(&(deadline, n)).map(|()| n));
                }
                3 => {
                    let expected = model.first_key_value().map(|(k, ())| *k).filter(|k| k.0 <= now);
                    assert_eq!(timers.pop_due(now).map(|(_, fire)| token(fire)), expected.map(|k| k.1));
                    expected.map(|key| model.remove(&key));
                }
                _ => {
                    let limit = now + rng.below(1 << span_bits);
                    let popped = timers.pop(limit).map(|(deadline, fire)| (deadline, token(fire)));
                    let expected = model.first_key_value().map(|(k, ())| *k).filter(|k| k.0 <= limit);
                    assert_eq!(popped, expected, "seed {seed}");
                    if let Some(key) = expected {
                        now = key.0;
                        model.remove(&key);
                    }
                }
            }
            assert_eq!(timers.len(), model.len());
        }
    }
}

#[test]
fn a_cancelled_timer_leaves_nothing_behind() {
    let mut timers = Timers::default();
    for _ in 0..10_000 {
        let key = timers.insert(1 << 30, Fire::Device(DeviceId(0), 0));
        assert!(timers.cancel(key).is_some());
        assert!(timers.cancel(key).is_none());
    }
    assert_eq!((timers.len(), timers.slots.len()), (0, 2));
    // Of those that were due already, no more than a sweep's worth.
    for _ in 0..10_000 {
        let key = timers.insert(9, Fire::Device(DeviceId(0), 0));
        assert!(timers.cancel(key).is_some());
    }
    assert!(timers.len() == 0 && timers.slots.len() <= SWEEP_FROM + 3);
    assert!(timers.pop(u64::MAX).is_none());
    assert_eq!(free_slots(&timers) + 1, timers.slots.len());
}

#[test]
fn a_pending_timer_costs_less_than_a_hundred_bytes() {
    assert!(size_of::<Slot>() + size_of::<Due>() <= 100);
}

fn free_slots(timers: &Timers) -> usize {
    let following = |slot: &u32| Some(timers.slots[*slot as usize].next);
    std::iter::successors(Some(timers.free), following).take_while(|slot| *slot != NIL).count()
}
