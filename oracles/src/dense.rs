//! A list with an element for every number. All are blank until somebody fills them.

/// The list. It takes room for those up to the highest number that was filled, with as much again in reserve.
#[derive(Debug)]
pub(crate) struct Dense<T> {
    items: Vec<T>,
    blank: T,
}

/// What is counted in a run goes to a few hundred as a rule: up to there nothing is ever moved.
pub(crate) const FIRST_ROOM: usize = 256;

impl<T: Copy> Dense<T> {
    /// Nothing but blanks.
    pub(crate) fn of(blank: T) -> Self {
        Self { items: Vec::new(), blank }
    }

    /// Element number `at`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> T {
        self.items.get(at).copied().unwrap_or(self.blank)
    }

    /// Element number `at`, to be filled.
    #[inline]
    pub(crate) fn entry(&mut self, at: usize) -> &mut T {
        if at >= self.items.len() {
            self.make_room(at);
        }
        &mut self.items[at]
    }

    #[cold]
    fn make_room(&mut self, at: usize) {
        let room = (at + 1).next_power_of_two().max(FIRST_ROOM);
        self.items.resize(room, self.blank);
    }

    /// Makes all of them blank. The room stays, for they are filled again as a rule.
    pub(crate) fn clear(&mut self) {
        self.items.fill(self.blank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_filled_is_blank() {
        let mut list = Dense::of(7);
        assert_eq!(list.get(1_000), 7);
        for at in [0, 255, 256, 1_000] {
            assert_eq!(*list.entry(at), 7);
            *list.entry(at) = at;
            assert_eq!((list.get(at), list.get(at + 1)), (at, 7));
        }
        list.clear();
        assert_eq!(list.get(0), 7);
    }
}
