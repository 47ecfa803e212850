//! Timer queue: what happens next, and when.
//!
//! Virtual time moves only by what is taken from here. When no task is ready, the executor takes the earliest
//! timer, sets the clock to its deadline and fires it; a minute of cluster life costs as much as the events
//! in it.
//!
//!   sleep, devices ──insert──► wheels (far) ──cascade──► due (near, a heap) ──pop──► wake a task, call a device
//!
//! A hierarchy of wheels after Varghese and Lauck (1987): time is cut into ticks of a millisecond (2^20 ns); a timer stands in the
//! wheel of the highest digit (of 6 bits) in which its tick differs from the current one, and moves to finer
//! wheels as the current tick gets there. Timers of the current tick and before are *due*: a small heap puts them
//! into exact order. Inserting and cancelling far timers, which is what most timeouts come to, touches one list.
//!
//! Invariants: time never goes back; ties are broken by insertion order, never by address or hash; what stands in
//! a wheel is later than everything due; a timer cancelled in a wheel is gone, one cancelled while due is dropped
//! when it is reached, or when such make up most of the heap.
//! Not here: per-node clocks (`time.rs`), which ready task runs next (`schedule.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use crate::device::DeviceId;
use crate::node::NodeId;

/// What a timer does when its time has come.
#[derive(Debug)]
pub(crate) enum Fire {
    /// Wakes a task.
    Wake(Waker),
    /// Calls a device with a token of its own choosing.
    Device(DeviceId, u64),
    /// Lets the held wakes of a node go.
    Release(NodeId),
}

/// Names a timer that was inserted. A stale key is recognised, so that cancelling twice does nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TimerKey {
    slot: u32,
    generation: u32,
}

const TICK_BITS: u32 = 20;
const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
const WHEELS: usize = (64 - TICK_BITS).div_ceil(DIGIT_BITS) as usize;
const NIL: u32 = u32::MAX;

#[inline]
fn tick_of(at_ns: u64) -> u64 {
    at_ns >> TICK_BITS
}

/// Where a pending timer stands.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Place {
    Due,
    Wheel { wheel: u8, digit: u8 },
}

#[derive(Debug)]
struct Slot {
    deadline_ns: u64,
    order: u64,
    /// Neighbours in the list of the wheel's digit.
    next: u32,
    previous: u32,
    place: Place,
    generation: u32,
    /// `None` when it has fired or was cancelled.
    fire: Option<Fire>,
}

/// One turn of a wheel: a list for each digit, and which of them have anything.
#[derive(Debug)]
struct Wheel {
    occupied: u64,
    heads: [u32; DIGITS],
}

/// A timer in the heap: earliest deadline first, then first inserted.
type Due = Reverse<(u64, u64, u32)>;

/// All pending timers of one world.
#[derive(Debug)]
pub(crate) struct Timers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    due: BinaryHeap<Due>,
    /// Cancelled ones that are still in `due`.
    dead: usize,
    wheels: [Wheel; WHEELS],
    /// Everything of this tick or an earlier one is due.
    current_tick: u64,
    pending: usize,
    inserted: u64,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            dead: 0,
            wheels: [const { Wheel { occupied: 0, heads: [NIL; DIGITS] } }; WHEELS],
            current_tick: 0,
            pending: 0,
            inserted: 0,
        }
    }
}

/// Fewer dead timers than this are not worth a sweep of the heap.
const SWEEP_FROM: usize = 1_024;

impl Timers {
    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.pending
    }

    #[inline]
    pub(crate) fn insert(&mut self, deadline_ns: u64, fire: Fire) -> TimerKey {
        let order = self.inserted;
        self.inserted += 1;
        self.pending += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                let entry = &mut self.slots[slot as usize];
                (entry.deadline_ns, entry.order, entry.fire) = (deadline_ns, order, Some(fire));
                slot
            }
            None => {
                let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 timers are pending");
                let (next, previous, place) = (NIL, NIL, Place::Due);
                let fire = Some(fire);
                self.slots.push(Slot { deadline_ns, order, next, previous, place, generation: 0, fire });
                slot
            }
        };
        self.put(slot);
        TimerKey { slot, generation: self.slots[slot as usize].generation }
    }

    /// Puts a timer where it belongs in view of the current tick.
    #[inline]
    fn put(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let tick = tick_of(entry.deadline_ns);
        if tick <= self.current_tick {
            entry.place = Place::Due;
            self.due.push(Reverse((entry.deadline_ns, entry.order, slot)));
            return;
        }
        let highest = 63 - (tick ^ self.current_tick).leading_zeros();
        let wheel = highest / DIGIT_BITS;
        let digit = (tick >> (wheel * DIGIT_BITS)) as usize % DIGITS;
        let turn = &mut self.wheels[wheel as usize];
        let head = std::mem::replace(&mut turn.heads[digit], slot);
        turn.occupied |= 1 << digit;
        entry.place = Place::Wheel { wheel: wheel as u8, digit: digit as u8 };
        (entry.next, entry.previous) = (head, NIL);
        if head != NIL {
            self.slots[head as usize].previous = slot;
        }
    }

    /// Takes the earliest timer if it is due at or before `now_ns`, which is the present.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Fire)> {
        // What stands in a wheel is of a later tick than the present, so only the heap matters.
        while let Some(Reverse((deadline_ns, _, slot))) = self.due.peek()
            && *deadline_ns <= now_ns
        {
            let (deadline_ns, slot) = (*deadline_ns, *slot);
            self.due.pop();
            if let Some(fire) = self.release_due(slot) {
                return Some((deadline_ns, fire));
            }
        }
        None
    }

    /// Takes the earliest timer that is due at or before `limit_ns`, wherever it stands.
    #[inline]
    pub(crate) fn pop(&mut self, limit_ns: u64) -> Option<(u64, Fire)> {
        loop {
            match self.due.peek() {
                Some(Reverse((deadline_ns, _, slot))) => {
                    let (deadline_ns, slot) = (*deadline_ns, *slot);
                    let is_dead = self.slots[slot as usize].fire.is_none();
                    if deadline_ns > limit_ns && !is_dead {
                        return None;
                    }
                    self.due.pop();
                    if let Some(fire) = self.release_due(slot) {
                        return Some((deadline_ns, fire));
                    }
                }
                None if self.pending == 0 => return None,
                None => self.turn(),
            }
        }
    }

    /// Frees the slot of a timer that was taken from the heap; `None` when it had been cancelled.
    #[inline]
    fn release_due(&mut self, slot: u32) -> Option<Fire> {
        let fire = self.slots[slot as usize].fire.take();
        match fire {
            Some(_) => self.pending -= 1,
            None => self.dead -= 1,
        }
        self.release(slot);
        fire
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
    }

    /// Moves the current tick to the next digit that has anything, and its timers to where they belong then.
    fn turn(&mut self) {
        for wheel in 0..WHEELS {
            let shift = wheel as u32 * DIGIT_BITS;
            let current = (self.current_tick >> shift) % DIGITS as u64;
            // Digits up to the current one are empty: they were emptied when the tick got there.
            let later = self.wheels[wheel].occupied & (u64::MAX << current << 1);
            if later == 0 {
                continue;
            }
            let digit = later.trailing_zeros();
            let above = self.current_tick >> shift >> DIGIT_BITS << DIGIT_BITS;
            self.current_tick = (above | u64::from(digit)) << shift;
            let turn = &mut self.wheels[wheel];
            turn.occupied &= !(1 << digit);
            let mut slot = std::mem::replace(&mut turn.heads[digit as usize], NIL);
            while slot != NIL {
                let next = self.slots[slot as usize].next;
                self.put(slot);
                slot = next;
            }
            return;
        }
        unreachable!("a pending timer stands in the heap or in a wheel");
    }

    /// Takes a timer out; `None` when it has fired or was cancelled before.
    #[inline]
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Fire> {
        let entry = self.slots.get_mut(key.slot as usize).filter(|s| s.generation == key.generation)?;
        let fire = entry.fire.take()?;
        self.pending -= 1;
        match entry.place {
            Place::Due => {
                self.dead += 1;
                if self.dead > SWEEP_FROM && self.dead > self.due.len() / 2 {
                    self.sweep();
                }
            }
            Place::Wheel { wheel, digit } => {
                let (next, previous) = (entry.next, entry.previous);
                if next != NIL {
                    self.slots[next as usize].previous = previous;
                }
                if previous != NIL {
                    self.slots[previous as usize].next = next;
                } else {
                    let turn = &mut self.wheels[usize::from(wheel)];
                    turn.heads[usize::from(digit)] = next;
                    if next == NIL {
                        turn.occupied &= !(1 << digit);
                    }
                }
                self.release(key.slot);
            }
        }
        Some(fire)
    }

    /// Takes cancelled timers out of the heap.
    fn sweep(&mut self) {
        let slots = &self.slots;
        let mut dead = Vec::with_capacity(self.dead);
        self.due.retain(|Reverse((_, _, slot))| {
            let alive = slots[*slot as usize].fire.is_some();
            if !alive {
                dead.push(*slot);
            }
            alive
        });
        dead.into_iter().for_each(|slot| self.release(slot));
        self.dead = 0;
    }

    /// Whom a pending timer wakes changes; when, does not.
    pub(crate) fn rewake(&mut self, key: TimerKey, waker: &Waker) {
        if let Some(entry) = self.slots.get_mut(key.slot as usize)
            && entry.generation == key.generation
            && let Some(Fire::Wake(old)) = &mut entry.fire
            && !old.will_wake(waker)
        {
            old.clone_from(waker);
        }
    }

    /// Takes everything, for the end of a world.
    pub(crate) fn clear(&mut self) -> impl Sized + use<> {
        std::mem::take(self).slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let order: Vec<u64> =
            std::iter::from_fn(|| timers.pop(u64::MAX)).map(|(_, fire)| token(fire)).collect();
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
        assert_eq!((timers.len(), timers.slots.len()), (0, 1));
        // Of those that were due already, no more than a sweep's worth.
        for _ in 0..10_000 {
            let key = timers.insert(9, Fire::Device(DeviceId(0), 0));
            assert!(timers.cancel(key).is_some());
        }
        assert!(timers.len() == 0 && timers.slots.len() <= SWEEP_FROM + 2);
        assert!(timers.pop(u64::MAX).is_none());
        assert_eq!(timers.free.len(), timers.slots.len());
    }

    #[test]
    fn a_pending_timer_costs_less_than_a_hundred_bytes() {
        assert!(size_of::<Slot>() + size_of::<Due>() + size_of::<u32>() <= 100);
    }
}
