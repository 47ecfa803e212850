//! Which operations each server's present state has carried out, and what they returned.
//!
//! A server applies its whole log once in each life, so its table starts empty at boot and is full again once it has
//! caught up. Clients number their operations densely, which makes a table of them an array.
//!
//! Not here: what is wrong with a table (`exactly_once.rs`, `durability.rs`).

use std::collections::BTreeMap;

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

#[derive(Debug, Default)]
struct Session {
    dense: Vec<Execution>,
    sparse: BTreeMap<u64, Execution>,
}

/// The operations of all sessions at one server.
#[derive(Debug, Default)]
pub struct Executions {
    places: BTreeMap<u64, usize>,
    sessions: Vec<Session>,
    /// The session that was looked up last, and its place: most often it is asked for again.
    last: Option<(u64, usize)>,
}

impl Executions {
    /// The entry of an operation, to be read or filled.
    pub fn entry(&mut self, session: u64, sequence: u64) -> &mut Execution {
        let place = match self.last {
            Some((last, place)) if last == session => place,
            _ => self.look_up(session),
        };
        let session = &mut self.sessions[place];
        if sequence >= DENSE {
            return session.sparse.entry(sequence).or_default();
        }
        let place = sequence as usize;
        if session.dense.len() <= place {
            session.dense.resize(place + 1, Execution::default());
        }
        &mut session.dense[place]
    }

    fn look_up(&mut self, session: u64) -> usize {
        let place = *self.places.entry(session).or_insert_with(|| {
            self.sessions.push(Session::default());
            self.sessions.len() - 1
        });
        self.last = Some((session, place));
        place
    }

    /// What is known of an operation.
    pub fn get(&self, session: u64, sequence: u64) -> Execution {
        let session = self.places.get(&session).map(|place| &self.sessions[*place]);
        let found = session.and_then(|session| match sequence {
            0..DENSE => session.dense.get(sequence as usize),
            _ => session.sparse.get(&sequence),
        });
        found.copied().unwrap_or_default()
    }

    /// Forgets everything: a new life begins. It will fill the same room again.
    pub fn clear(&mut self) {
        for session in &mut self.sessions {
            session.dense.clear();
            session.sparse.clear();
        }
    }
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
}
