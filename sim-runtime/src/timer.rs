//! Timer queue: what happens next, and when.
//!
//! Virtual time moves only by what is taken from here. When no task is ready, the executor takes the earliest
//! timer, sets the clock to its deadline and fires it; a minute of cluster life costs as much as the events
//! in it.
//!
//!   sleep, devices ──insert──► Timers ──pop earliest──► executor ──► wake a task, or call a device
//!
//! A heap of four children a node over small keys, beside it a table from timer to heap position, so that a
//! cancelled timer is taken out at once and leaves nothing behind.
//!
//! Invariants: time never goes back; ties are broken by insertion order, never by address or hash.
//! Not here: per-node clocks (`time.rs`), which ready task runs next (`schedule.rs`).

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

#[derive(Copy, Clone, Debug)]
struct HeapItem {
    /// The deadline above, the number of the insertion below: one comparison, and no branch to mispredict.
    due: u128,
    slot: u32,
}

impl HeapItem {
    #[inline]
    fn deadline_ns(&self) -> u64 {
        (self.due >> 64) as u64
    }

    #[inline]
    fn before(&self, other: &Self) -> bool {
        self.due < other.due
    }
}

#[derive(Debug)]
struct Slot {
    /// Position in the heap.
    position: u32,
    generation: u32,
    fire: Option<Fire>,
}

/// All pending timers of one world.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<HeapItem>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    inserted: u64,
}

const CHILDREN: usize = 4;

impl Timers {
    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, deadline_ns: u64, fire: Fire) -> TimerKey {
        let position = self.heap.len();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize].fire = Some(fire);
                slot
            }
            None => {
                let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 timers are pending");
                self.slots.push(Slot { position: 0, generation: 0, fire: Some(fire) });
                slot
            }
        };
        let item = HeapItem { due: u128::from(deadline_ns) << 64 | u128::from(self.inserted), slot };
        self.inserted += 1;
        self.heap.push(item);
        self.sift_up(position, item);
        TimerKey { slot, generation: self.slots[slot as usize].generation }
    }

    /// Takes the earliest timer that is due at or before `limit_ns`.
    #[inline]
    pub(crate) fn pop(&mut self, limit_ns: u64) -> Option<(u64, Fire)> {
        let first = *self.heap.first()?;
        if first.deadline_ns() > limit_ns {
            return None;
        }
        let fire = self.vacate(first.slot);
        let last = self.heap.pop().expect("it has a first item");
        if !self.heap.is_empty() {
            self.sift_down(0, last);
        }
        Some((first.deadline_ns(), fire))
    }

    /// Takes a timer out; `None` when it has fired or was cancelled before.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Fire> {
        self.is_pending(key).then(|| self.remove(key.slot))
    }

    #[inline]
    pub(crate) fn is_pending(&self, key: TimerKey) -> bool {
        self.slots.get(key.slot as usize).is_some_and(|s| s.generation == key.generation && s.fire.is_some())
    }

    /// Whom a pending timer wakes changes; when, does not.
    pub(crate) fn rewake(&mut self, key: TimerKey, waker: &Waker) {
        if self.is_pending(key)
            && let Some(Fire::Wake(old)) = &mut self.slots[key.slot as usize].fire
            && !old.will_wake(waker)
        {
            old.clone_from(waker);
        }
    }

    fn remove(&mut self, slot: u32) -> Fire {
        let position = self.slots[slot as usize].position as usize;
        let fire = self.vacate(slot);
        let last = self.heap.pop().expect("the removed timer is in the heap");
        if position < self.heap.len() {
            if position > 0 && last.before(&self.heap[(position - 1) / CHILDREN]) {
                self.sift_up(position, last);
            } else {
                self.sift_down(position, last);
            }
        }
        fire
    }

    #[inline]
    fn vacate(&mut self, slot: u32) -> Fire {
        let entry = &mut self.slots[slot as usize];
        let fire = entry.fire.take().expect("a timer in the heap has not fired");
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        fire
    }

    #[inline]
    fn place(&mut self, position: usize, item: HeapItem) {
        self.heap[position] = item;
        self.slots[item.slot as usize].position = position as u32;
    }

    #[inline]
    fn sift_up(&mut self, mut position: usize, item: HeapItem) {
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if !item.before(&self.heap[parent]) {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, item);
    }

    #[inline]
    fn sift_down(&mut self, mut position: usize, item: HeapItem) {
        while let Some(least) = self.least_child(position) {
            if !self.heap[least].before(&item) {
                break;
            }
            self.place(position, self.heap[least]);
            position = least;
        }
        self.place(position, item);
    }

    /// Which child is due first. Written without branches where all four exist: the outcome of these
    /// comparisons is as good as random, and mispredicting them cost more than all else in here.
    #[inline]
    fn least_child(&self, position: usize) -> Option<usize> {
        let first = position * CHILDREN + 1;
        if let Some([a, b, c, d]) = self.heap.get(first..first + CHILDREN) {
            let left = usize::from(b.before(a));
            let right = 2 + usize::from(d.before(c));
            let (least_left, least_right) = (a.due.min(b.due), c.due.min(d.due));
            return Some(first + if least_right < least_left { right } else { left });
        }
        (first..self.heap.len()).min_by_key(|child| self.heap[*child].due)
    }

    /// Takes everything, for the end of a world.
    pub(crate) fn clear(&mut self) -> Vec<Fire> {
        self.heap.clear();
        self.free.clear();
        self.slots.drain(..).filter_map(|slot| slot.fire).collect()
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

    /// Random insertions and cancellations against a sorted map.
    #[test]
    fn agrees_with_a_sorted_map() {
        let mut rng = crate::rng::Stream::derive(1, "timers");
        let mut timers = Timers::default();
        let mut model = BTreeMap::new();
        let mut keys = Vec::new();
        for n in 0..20_000_u64 {
            match rng.below(4) {
                0 | 1 => {
                    let deadline = rng.below(1_000);
                    keys.push((deadline, n, timers.insert(deadline, Fire::Device(DeviceId(0), n))));
                    model.insert((deadline, n), ());
                }
                2 if !keys.is_empty() => {
                    let at = rng.below(keys.len() as u64) as usize;
                    let (deadline, n, key) = keys.swap_remove(at);
                    let cancelled = timers.cancel(key).map(token);
                    assert_eq!(cancelled, model.remove(&(deadline, n)).map(|()| n));
                }
                _ => {
                    let popped = timers.pop(900).map(|(deadline, fire)| (deadline, token(fire)));
                    let expected = model.first_key_value().map(|(k, ())| *k).filter(|k| k.0 <= 900);
                    assert_eq!(popped, expected);
                    if let Some(key) = expected {
                        model.remove(&key);
                    }
                }
            }
            assert_eq!(timers.len(), model.len());
        }
    }

    #[test]
    fn a_cancelled_timer_leaves_nothing_behind() {
        let mut timers = Timers::default();
        for _ in 0..1_000 {
            let key = timers.insert(9, Fire::Device(DeviceId(0), 0));
            assert!(timers.cancel(key).is_some());
            assert!(timers.cancel(key).is_none());
        }
        assert_eq!((timers.len(), timers.slots.len()), (0, 1));
    }
}
