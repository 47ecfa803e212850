//! What a state of the whole system is, so that two can be told to be alike: the automatic guide of a search.
//!
//! A signature is to be coarse: what is new in it should be worth starting from. It knows no time, no numbers of nodes
//! (two states that differ in which server it is are one), and counts only as far as small numbers go.
//!
//! Not here: when it is taken, and what a search makes of it.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::node::NodeId;
use crate::rng::{hash_bytes, hash_name, mix};
use crate::trace::Record;
use crate::world::Handle;

/// Follows a run and says in what state it is. Made anew for each run; it must change nothing.
pub trait Signature {
    /// Hears of a record. Returns the name of the moment, if it is one that a recipe may refer to, as in "vote granted".
    fn record(&mut self, record: &Record) -> Option<&'static str> {
        let _ = record;
        None
    }

    /// Hears of a `tracing` event; its name is a moment in any case.
    fn event(&mut self, event: &Event) {
        let _ = event;
    }

    /// The state now, as a number. Asked after each step with a moment in it: a window that opens, a point, an event, a
    /// named record.
    fn state(&mut self, glimpse: &Glimpse<'_>) -> u64;
}

/// What a [`Signature`] may look at, beside records and events.
pub struct Glimpse<'a> {
    handle: &'a Handle,
}

/// A node, as it is seen from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Which.
    pub node: NodeId,
    /// What is common to the names of its like: "server 3" is a "server ".
    pub class: u64,
    /// Whether its process is up.
    pub is_up: bool,
    /// Whether it stands still.
    pub is_paused: bool,
    /// The role that it said it plays.
    pub role: &'static str,
    /// The windows that are open on it, as a hash.
    pub windows: u64,
}

impl<'a> Glimpse<'a> {
    pub(crate) fn new(handle: &'a Handle) -> Self {
        Self { handle }
    }

    /// All nodes but the host.
    pub fn nodes(&self) -> Vec<Seen> {
        let windows = self.handle.core.windows.borrow();
        let agenda = self.handle.core.agenda.borrow();
        let seen = agenda.nodes.iter().enumerate().skip(1).map(|(at, node)| {
            let id = NodeId(at as u16);
            let letters: Vec<u8> = node.name.bytes().filter(|byte| !byte.is_ascii_digit()).collect();
            Seen {
                node: id,
                class: hash_bytes(0, &letters),
                is_up: node.up,
                is_paused: node.paused,
                role: node.role,
                windows: windows.open_on(id),
            }
        });
        seen.collect()
    }

    /// Global virtual time.
    pub fn now_ns(&self) -> u64 {
        self.handle.now_ns()
    }
}

/// The hash of some descriptions in which their order does not matter.
pub fn unordered(mut parts: Vec<u64>) -> u64 {
    parts.sort_unstable();
    parts.into_iter().fold(0, mix)
}

/// The signature of any program: of each node whether it is up, its role, its open windows and the name of the last
/// event that it logged.
#[derive(Debug, Default)]
pub struct General {
    latest: BTreeMap<NodeId, u64>,
}

impl Signature for General {
    fn event(&mut self, event: &Event) {
        self.latest.insert(event.node, hash_bytes(0, event.name.as_bytes()));
    }

    fn state(&mut self, glimpse: &Glimpse<'_>) -> u64 {
        let describe = |seen: &Seen| {
            let Seen { node, class, is_up, is_paused, role, windows } = seen;
            let latest = if *is_up { self.latest.get(node).copied().unwrap_or(0) } else { 0 };
            let flags = u64::from(*is_up) << 1 | u64::from(*is_paused);
            [hash_name(role), *windows, latest, flags].into_iter().fold(*class, mix)
        };
        unordered(glimpse.nodes().iter().map(describe).collect())
    }
}
