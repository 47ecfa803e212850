//! Which operations each server's present state has carried out, and what they returned.
//!
//! A server applies its whole log once in each life, so its table starts empty at boot and is full again once it has
//! caught up. Clients number their operations densely, which makes a table of them an array.
//!
//! Not here: what is wrong with a table (`exactly_once.rs`, `durability.rs`).

use std::collections::BTreeMap;

use crate::dense::Dense;

/// An operation at one server.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Execution {
    /// The index at which it took effect; 0 while it has not.
    pub index: u64,
    /// Digest of its first reply; 0 while there is none.
    pub reply: u32,
}

/// Numbers below this are kept in an array.
const DENSE: u64 = 1 << 16;

#[derive(Debug)]
struct Session {
    id: u64,
    dense: Dense<Execution>,
    sparse: BTreeMap<u64, Execution>,
}

impl Session {
    fn new(id: u64) -> Self {
        Self { id, dense: Dense::of(Execution::default()), sparse: BTreeMap::new() }
    }
}

/// How many sessions are found without a search. At one time there are about as many as clients.
const AT_HAND: usize = 16;

/// The operations of all sessions at one server.
#[derive(Debug, Default)]
pub struct Executions {
    sessions: Vec<Session>,
    places: BTreeMap<u64, usize>,
    /// Where a session is that was asked for lately: a guess, which the session there confirms or not.
    guesses: [usize; AT_HAND],
}

impl Executions {
    /// The entry of an operation, to be read or filled.
    #[inline(always)]
    pub fn entry(&mut self, session: u64, sequence: u64) -> &mut Execution {
        let place = match self.guess(session) {
            Some(place) => place,
            None => self.look_up(session),
        };
        let session = &mut self.sessions[place];
        match sequence {
            0..DENSE => session.dense.entry(sequence as usize),
            _ => session.sparse.entry(sequence).or_default(),
        }
    }

    /// The place of a session, if it is at hand.
    #[inline]
    fn guess(&self, session: u64) -> Option<usize> {
        let place = self.guesses[drawer(session)];
        self.sessions.get(place).is_some_and(|there| there.id == session).then_some(place)
    }

    #[cold]
    fn look_up(&mut self, session: u64) -> usize {
        let place = *self.places.entry(session).or_insert_with(|| {
            self.sessions.push(Session::new(session));
            self.sessions.len() - 1
        });
        self.guesses[drawer(session)] = place;
        place
    }

    /// What is known of an operation.
    pub fn get(&self, session: u64, sequence: u64) -> Execution {
        let place = self.guess(session).or_else(|| self.places.get(&session).copied());
        let Some(session) = place.map(|place| &self.sessions[place]) else { return Execution::default() };
        match sequence {
            0..DENSE => session.dense.get(sequence as usize),
            _ => session.sparse.get(&sequence).copied().unwrap_or_default(),
        }
    }

    /// Forgets everything: a new life begins. It will fill the same room again.
    pub fn clear(&mut self) {
        for session in &mut self.sessions {
            session.dense.clear();
            session.sparse.clear();
        }
    }
}

/// Which guess is about `session`. Both halves of the number count, so that neither ids that are dense nor ids that
/// carry the client in their upper half share one.
#[inline]
fn drawer(session: u64) -> usize {
    (session ^ session >> 32) as usize % AT_HAND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_are_kept_alike() {
        let mut table = Executions::default();
        for sequence in [0, 5, DENSE - 1, DENSE, u64::MAX] {
            assert_eq!(table.get(7, sequence), Execution::default());
            table.entry(7, sequence).index = sequence.max(1);
            assert_eq!(table.get(7, sequence).index, sequence.max(1));
            assert_eq!(table.get(8, sequence), Execution::default());
        }
        table.clear();
        assert_eq!(table.get(7, 5), Execution::default());
    }

    #[test]
    fn sessions_that_share_a_guess_are_kept_apart() {
        let mut table = Executions::default();
        let sessions = || (0..4 * AT_HAND as u64).flat_map(|n| [n, n << 32]);
        for _ in 0..2 {
            for session in sessions() {
                table.entry(session, 1).index = session + 1;
            }
        }
        for session in sessions() {
            assert_eq!(table.get(session, 1).index, session + 1);
        }
    }
}
