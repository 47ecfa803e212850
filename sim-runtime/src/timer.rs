//! Timer queue: what happens next, and when.
//!
//! Virtual time moves only by what is taken from here. When no task is ready, the executor takes the earliest
//! timer, sets the clock to its deadline and fires it; a minute of cluster life costs as much as the events
//! in it.
//!
//!   sleep, devices ──insert──► far wheels ──cascade──► near wheel ──turn──► due, in order ──pop──► wake, call a device
//!
//! Wheels after Varghese and Lauck (1987). Time is cut into ticks of a thirtieth of a millisecond (2^15 ns). The near wheel
//! has a list for each of the next 4,096 ticks, which is where most timers begin and end. What is later stands in the
//! far wheel of the highest digit (of 6 bits) in which its block of 4,096 ticks differs from the current one, and moves to
//! finer wheels as time gets there. When a tick comes its timers are sorted: they are few. What is added to a tick that has
//! come goes to a heap beside them. Cancelling what is not due, which is what most timeouts come to, touches one list.
//!
//! Invariants: time never goes back; ties are broken by insertion order, never by address or hash; what stands in
//! a wheel is later than everything due; a timer cancelled in a wheel is gone, one cancelled while due is dropped
//! when it is reached, or when such make up most of what is due.
//! Not here: per-node clocks (`time.rs`), which ready task runs next (`schedule.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use slab::Slab;

use crate::fire::{Fire, Packed};

/// Names a timer that was inserted. A stale key is recognised, so that cancelling twice does nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TimerKey {
    slot: u32,
    generation: u32,
}

const TICK_BITS: u32 = 15;
const NEAR_BITS: u32 = 12;
/// Lists of the near wheel.
const NEAR: usize = 1 << NEAR_BITS;
const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
const FAR_WHEELS: usize = (64 - TICK_BITS - NEAR_BITS).div_ceil(DIGIT_BITS) as usize;
/// Lists of all wheels, the near one's first; a bit for each says whether there is anything in it.
const LISTS: usize = NEAR + FAR_WHEELS * DIGITS;
const WORDS: usize = LISTS / 64;
const NEAR_WORDS: usize = NEAR / 64;
/// The end of a list: the slot of no timer, which may be written to as a neighbour like any other.
const NIL: u32 = 0;
/// In the place of a list: the timer is due.
const DUE: u16 = u16::MAX;

#[inline]
fn tick_of(at_ns: u64) -> u64 {
    at_ns >> TICK_BITS
}

/// A line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    deadline_ns: u64,
    order: u64,
    /// Neighbours in its list, which for a free slot is that of free ones.
    next: u32,
    previous: u32,
    generation: u32,
    /// In which list it stands.
    list: u16,
    fire: Packed,
}

impl Slot {
    fn new(deadline_ns: u64, order: u64, fire: Packed) -> Self {
        Self { deadline_ns, order, next: NIL, previous: NIL, generation: 0, list: DUE, fire }
    }
}

/// A timer that is due: when, the number of its insertion, and its slot.
type Due = (u64, u64, u32);

/// All pending timers of one world.
#[derive(Debug)]
pub(crate) struct Timers {
    slots: Vec<Slot>,
    /// The first slot that is free; each says which is the next.
    free: u32,
    /// The timers of the current tick, the earliest last.
    batch: Vec<Due>,
    /// What came to the current tick or an earlier one when it had begun.
    late: BinaryHeap<Reverse<Due>>,
    /// Cancelled ones that are still in `batch` or `late`.
    dead: usize,
    heads: Box<[u32]>,
    occupied: [u64; WORDS],
    /// Which words of the near wheel are not zero.
    near_words: u64,
    /// Everything of this tick or an earlier one is due.
    current_tick: u64,
    /// Nothing in the far wheels has to move before this tick.
    far_tick: u64,
    pending: usize,
    inserted: u64,
    wakers: Slab<Waker>,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            slots: vec![Slot::new(0, 0, Packed::NOTHING)],
            free: NIL,
            batch: Vec::new(),
            late: BinaryHeap::new(),
            dead: 0,
            heads: vec![NIL; LISTS].into(),
            occupied: [0; WORDS],
            near_words: 0,
            current_tick: 0,
            far_tick: u64::MAX,
            pending: 0,
            inserted: 0,
            wakers: Slab::new(),
        }
    }
}

/// Fewer dead timers than this are not worth a sweep.
const SWEEP_FROM: usize = 1_024;

impl Timers {
    /// How many are pending.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pending
    }

    #[inline]
    pub(crate) fn insert(&mut self, deadline_ns: u64, fire: Fire) -> TimerKey {
        let fire = Packed::of(fire, &mut self.wakers);
        self.insert_packed(deadline_ns, fire)
    }

    fn insert_packed(&mut self, deadline_ns: u64, fire: Packed) -> TimerKey {
        let order = self.inserted;
        self.inserted += 1;
        self.pending += 1;
        let slot = self.take_slot();
        let tick = tick_of(deadline_ns);
        let (head, list) = if tick <= self.current_tick {
            self.late.push(Reverse((deadline_ns, order, slot)));
            (NIL, DUE)
        } else {
            self.begin_list(slot, tick)
        };
        let entry = &mut self.slots[slot as usize];
        (entry.deadline_ns, entry.order, entry.fire) = (deadline_ns, order, fire);
        (entry.next, entry.previous, entry.list) = (head, NIL, list);
        TimerKey { slot, generation: entry.generation }
    }

    #[inline]
    fn take_slot(&mut self) -> u32 {
        if self.free == NIL {
            return self.add_slot();
        }
        let slot = self.free;
        self.free = self.slots[slot as usize].next;
        slot
    }

    #[cold]
    fn add_slot(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 timers are pending");
        self.slots.push(Slot::new(0, 0, Packed::NOTHING));
        slot
    }

    /// A timer of a later tick is the first of the list where it belongs in view of the current one: who was it before, and
    /// which list that is.
    #[inline]
    fn begin_list(&mut self, slot: u32, tick: u64) -> (u32, u16) {
        let list = if tick - self.current_tick < NEAR as u64 {
            let list = tick as usize % NEAR;
            self.near_words |= 1 << (list / 64);
            list
        } else {
            self.far_list(tick)
        };
        self.occupied[list / 64] |= 1 << (list % 64);
        let head = std::mem::replace(&mut self.heads[list], slot);
        self.slots[head as usize].previous = slot;
        (head, list as u16)
    }

    fn far_list(&mut self, tick: u64) -> usize {
        let (block, current) = (tick >> NEAR_BITS, self.current_tick >> NEAR_BITS);
        let wheel = (63 - (block ^ current).leading_zeros()) / DIGIT_BITS;
        let shift = wheel * DIGIT_BITS;
        self.far_tick = self.far_tick.min(block >> shift << shift << NEAR_BITS);
        NEAR + wheel as usize * DIGITS + (block >> shift) as usize % DIGITS
    }

    /// The earliest of those that are due, and whether it is a late one.
    #[inline]
    fn peek(&self) -> Option<(Due, bool)> {
        let Some(Reverse(late)) = self.late.peek() else {
            return self.batch.last().map(|next| (*next, false));
        };
        match self.batch.last() {
            Some(next) if next < late => Some((*next, false)),
            _ => Some((*late, true)),
        }
    }

    /// Takes the earliest timer if it is due at or before `now_ns`, which is the present.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<(u64, Fire)> {
        // What stands in a wheel is of a later tick than the present.
        self.pop_within(now_ns, false)
    }

    /// Takes the earliest timer that is due at or before `limit_ns`, wherever it stands.
    #[inline]
    pub(crate) fn pop(&mut self, limit_ns: u64) -> Option<(u64, Fire)> {
        self.pop_within(limit_ns, true)
    }

    // Twice in the loop, as one of the two is nearly nothing.
    #[inline(always)]
    fn pop_within(&mut self, limit_ns: u64, wheels_too: bool) -> Option<(u64, Fire)> {
        loop {
            let (deadline_ns, slot) = match self.peek() {
                // Even one that was cancelled says that all others are later.
                Some(((deadline_ns, ..), _)) if deadline_ns > limit_ns => return None,
                Some(((deadline_ns, _, slot), true)) => {
                    self.late.pop();
                    (deadline_ns, slot)
                }
                Some(((deadline_ns, _, slot), false)) => {
                    self.batch.pop();
                    (deadline_ns, slot)
                }
                None if !wheels_too || self.pending == 0 => return None,
                None => match self.turn(limit_ns) {
                    Some(lone) => lone,
                    None => continue,
                },
            };
            let fire = self.release(slot);
            if let Some(fire) = fire.open(&mut self.wakers) {
                self.pending -= 1;
                return Some((deadline_ns, fire));
            }
            // It had been cancelled.
            self.dead -= 1;
        }
    }

    /// Gives the slot back; what its timer was to do.
    #[inline]
    fn release(&mut self, slot: u32) -> Packed {
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = std::mem::replace(&mut self.free, slot);
        std::mem::replace(&mut entry.fire, Packed::NOTHING)
    }

    /// Moves the current tick to the next at which something is due, or has to move to a finer wheel. Nothing is due.
    /// A timer that is alone and within the limit is taken out at once: when, and its slot.
    #[inline]
    fn turn(&mut self, limit_ns: u64) -> Option<(u64, u32)> {
        match self.next_near() {
            Some(tick) if tick < self.far_tick => self.current_tick = tick,
            _ => {
                assert_ne!(self.far_tick, u64::MAX, "a pending timer stands in a wheel");
                self.current_tick = self.far_tick;
                self.cascade();
            }
        }
        let first = self.take_list(self.current_tick as usize % NEAR);
        let Slot { next, deadline_ns, .. } = self.slots[first as usize];
        if next == NIL && first != NIL && self.batch.is_empty() && deadline_ns <= limit_ns {
            return Some((deadline_ns, first));
        }
        self.gather(first);
        None
    }

    /// The timers of a list are due.
    fn gather(&mut self, first: u32) {
        let mut slot = first;
        while slot != NIL {
            let entry = &mut self.slots[slot as usize];
            entry.list = DUE;
            self.batch.push((entry.deadline_ns, entry.order, slot));
            slot = entry.next;
        }
        self.batch.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// The next tick for which the near wheel has anything.
    #[inline]
    fn next_near(&self) -> Option<u64> {
        let from = (self.current_tick + 1) as usize % NEAR;
        let word = from / 64;
        let here = self.occupied[word] & u64::MAX << (from % 64);
        let list = if here != 0 {
            word * 64 + here.trailing_zeros() as usize
        } else {
            // The word itself comes last: what it has before `from` is a turn ahead.
            let following = self.near_words.rotate_right(word as u32 + 1);
            if following == 0 {
                return None;
            }
            let word = (word + 1 + following.trailing_zeros() as usize) % NEAR_WORDS;
            word * 64 + self.occupied[word].trailing_zeros() as usize
        };
        Some(self.current_tick + 1 + (list.wrapping_sub(from) % NEAR) as u64)
    }

    /// Empties a list; its first timer.
    #[inline]
    fn take_list(&mut self, list: usize) -> u32 {
        self.forget_list(list);
        std::mem::replace(&mut self.heads[list], NIL)
    }

    #[inline]
    fn forget_list(&mut self, list: usize) {
        let word = list / 64;
        self.occupied[word] &= !(1 << (list % 64));
        if word < NEAR_WORDS && self.occupied[word] == 0 {
            self.near_words &= !(1 << word);
        }
    }

    /// Moves what stands in the far wheels at the current tick to finer ones, and finds the next that has to move.
    #[cold]
    fn cascade(&mut self) {
        self.far_tick = u64::MAX;
        let block = self.current_tick >> NEAR_BITS;
        for wheel in (0..FAR_WHEELS).rev() {
            let digit = (block >> (wheel as u32 * DIGIT_BITS)) as usize % DIGITS;
            let list = NEAR + wheel * DIGITS + digit;
            if self.occupied[list / 64] >> digit & 1 == 0 {
                continue;
            }
            let mut slot = self.take_list(list);
            while slot != NIL {
                let Slot { next, deadline_ns, order, .. } = self.slots[slot as usize];
                match tick_of(deadline_ns) {
                    tick if tick <= self.current_tick => {
                        self.slots[slot as usize].list = DUE;
                        self.batch.push((deadline_ns, order, slot));
                    }
                    tick => {
                        let (head, list) = self.begin_list(slot, tick);
                        let entry = &mut self.slots[slot as usize];
                        (entry.next, entry.previous, entry.list) = (head, NIL, list);
                    }
                }
                slot = next;
            }
        }
        for wheel in 0..FAR_WHEELS {
            let shift = wheel as u32 * DIGIT_BITS;
            // Digits up to the current one are empty: they were emptied when time got there.
            let later =
                self.occupied[NEAR_WORDS + wheel] & (u64::MAX << ((block >> shift) % DIGITS as u64) << 1);
            if later != 0 {
                let above = block >> shift >> DIGIT_BITS << DIGIT_BITS;
                let first = (above | u64::from(later.trailing_zeros())) << shift << NEAR_BITS;
                self.far_tick = self.far_tick.min(first);
            }
        }
    }

    /// Takes a timer out; `None` when it has fired or was cancelled before.
    #[inline]
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Fire> {
        let entry = self.slots.get_mut(key.slot as usize).filter(|s| s.generation == key.generation)?;
        if entry.fire.is_nothing() {
            return None;
        }
        self.pending -= 1;
        if entry.list == DUE {
            let fire = std::mem::replace(&mut entry.fire, Packed::NOTHING);
            self.dead += 1;
            if self.dead > SWEEP_FROM && self.dead > (self.late.len() + self.batch.len()) / 2 {
                self.sweep();
            }
            return fire.open(&mut self.wakers);
        }
        let (next, previous, list) = (entry.next, entry.previous, usize::from(entry.list));
        self.slots[next as usize].previous = previous;
        if previous != NIL {
            self.slots[previous as usize].next = next;
        } else {
            self.heads[list] = next;
            if next == NIL {
                self.forget_list(list);
            }
        }
        let fire = self.release(key.slot);
        fire.open(&mut self.wakers)
    }

    /// Takes cancelled timers out of those that are due.
    fn sweep(&mut self) {
        let slots = &self.slots;
        let mut dead = Vec::with_capacity(self.dead);
        let mut is_alive = |slot: u32| {
            let is_alive = !slots[slot as usize].fire.is_nothing();
            if !is_alive {
                dead.push(slot);
            }
            is_alive
        };
        self.batch.retain(|(_, _, slot)| is_alive(*slot));
        self.late.retain(|Reverse((_, _, slot))| is_alive(*slot));
        for slot in dead {
            self.release(slot);
        }
        self.dead = 0;
    }

    /// Whom a pending timer wakes changes; when, does not. What is left over is returned.
    pub(crate) fn rewake(&mut self, key: TimerKey, fire: Fire) -> Option<Fire> {
        let entry = self.slots.get(key.slot as usize).filter(|s| s.generation == key.generation);
        if !entry.is_some_and(|entry| entry.fire.wakes()) {
            return Some(fire);
        }
        let fire = Packed::of(fire, &mut self.wakers);
        let before = std::mem::replace(&mut self.slots[key.slot as usize].fire, fire);
        before.open(&mut self.wakers)
    }

    /// Takes all wakers out, for the end of a world: what they hold may hold the world.
    pub(crate) fn take_wakers(&mut self) -> impl Sized + use<> {
        std::mem::take(&mut self.wakers)
    }
}

#[cfg(test)]
mod tests;
