//! A queue that is short nearly always: appended to at its end, taken from at its beginning, never going round.
//!
//! `VecDeque` finds each place modulo its capacity, which is half of what such a queue costs.
//!
//! Invariants: some of `items` are left, or there are none at all; what is taken is given back by moving the rest at most
//! once per item that was taken; nothing is allocated once the buffer has grown.

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: Vec<T>,
    /// How many of `items` are taken.
    taken: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: Vec::new(), taken: 0 }
    }
}

impl<T: Copy> Queue<T> {
    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if self.items.len() == self.items.capacity() && self.taken > 0 {
            self.give_back();
        }
        self.items.push(item);
    }

    #[cold]
    fn give_back(&mut self) {
        if self.taken >= self.items.len() / 2 {
            self.items.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// The next to be taken.
    #[inline]
    pub(super) fn first(&self) -> Option<&T> {
        self.items.get(self.taken)
    }

    /// The latest.
    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.items.last_mut()
    }

    /// Takes the next.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<T> {
        self.take_first_if(|_| true)
    }

    /// Takes the next if it is one of those that are meant.
    #[inline]
    pub(super) fn take_first_if(&mut self, is_meant: impl FnOnce(&T) -> bool) -> Option<T> {
        let first = *self.items.get(self.taken).filter(|first| is_meant(first))?;
        self.taken += 1;
        self.restart_if_empty();
        Some(first)
    }

    /// Takes the latest back.
    #[inline]
    pub(super) fn take_last(&mut self) {
        self.items.pop();
        self.restart_if_empty();
    }

    #[inline]
    fn restart_if_empty(&mut self) {
        if self.taken == self.items.len() {
            self.items.clear();
            self.taken = 0;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.taken
    }

    /// All that are left, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items[self.taken..].iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn it_is_a_queue_and_its_buffer_stays_small() {
        let (mut queue, mut model) = (Queue::default(), VecDeque::new());
        for round in 0..20_000_u64 {
            let dice = sim_runtime::rng::mix(1, round);
            match dice % 16 {
                0..8 => {
                    queue.push(round);
                    model.push_back(round);
                }
                8..15 => assert_eq!(queue.take_first(), model.pop_front()),
                _ => {
                    queue.take_last();
                    model.pop_back();
                }
            }
            assert_eq!(queue.first(), model.front());
            assert_eq!(queue.last_mut(), model.back_mut());
            assert!(queue.iter().eq(&model), "after round {round}");
            assert_eq!(queue.len(), model.len());
        }
        assert!(queue.items.capacity() <= 4 * model.len().max(64), "{} places", queue.items.capacity());
    }
}
