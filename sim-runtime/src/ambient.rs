//! What code under simulation gets that asks the process: for the time, random bytes, threads, files, variables.
//!
//!   HashMap::new, Instant::now, rand ──► libc's doors ──guard──► the run's own streams and virtual clock
//!                                                          └────► a list of what was used, where first, how often
//!
//! Third-party code does not ask `sim_runtime` for the time. With the cargo feature `guard`, and where
//! [`Standing::stands`] holds, it gets the simulation's answers all the same while a task of a world is polled, booted
//! or dropped. Threads, files, sockets and variables have no simulated answer here: they are only named.
//!
//! std keeps the keys of its hash maps per thread and nothing resets them, so runs that are to be alike begin on
//! threads that have none: campaigns and `check_determinism` see to it.
//!
//! Invariants: random bytes come from streams of the run, so that they enter its draws; answers depend on the run
//! alone. Not here: the doors themselves (`sim-guard`), which says what passes by them.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use sim_guard::{Clock, Watcher};
pub use sim_guard::{Door, Standing};

use crate::executor::describe;
use crate::node::{NodeId, Owner};
use crate::rng::{Draws, Stream, hash_name, mix};
use crate::verdict::Category;
use crate::world::{Core, Handle};

/// What happens when simulated code uses a door.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Time and random bytes are the simulation's; the rest is the real world's.
    #[default]
    Virtualise,
    /// The same, and [`RunReport::doors`](crate::verdict::RunReport::doors) lists what was used.
    Report,
    /// The same, and the first use is a failure that ends the run when the task that is being polled yields.
    Forbid,
}

/// A door that was used in a run.
#[derive(Clone, Debug)]
pub struct DoorUse {
    /// Which.
    pub door: Door,
    /// The name of the file or variable, if there is one.
    pub what: String,
    /// How often.
    pub count: u64,
    /// On which node first.
    pub node: NodeId,
    /// When first, in global virtual time.
    pub time_ns: u64,
    /// By which task first.
    pub task: String,
    /// From where first. Finding names for it takes its time, and is done when it is printed.
    pub backtrace: Arc<Backtrace>,
}

/// What answers depend on beside the run: differs between runs that are compared, and nowhere else.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Salts {
    /// Of the keys of std's hash maps.
    pub(crate) hash_keys: u64,
    /// Of other random bytes.
    pub(crate) entropy: u64,
    /// The monotonic clock starts elsewhere, and moves on between readings as real ones do.
    pub(crate) monotonic: u64,
    /// The same, of the wall clock.
    pub(crate) wall: u64,
}

pub(crate) struct Ambient {
    policy: Policy,
    salts: Salts,
    uses: RefCell<Vec<DoorUse>>,
    streams: RefCell<BTreeMap<Owner, Stream>>,
    /// How far the clocks have moved by being read.
    crept_ns: Cell<u64>,
    alarm: Cell<bool>,
}

impl Ambient {
    pub(crate) fn new(policy: Policy, salts: Option<Salts>) -> Self {
        // Who compares runs wants to know what they used.
        let policy = if salts.is_some() { policy.max(Policy::Report) } else { policy };
        Self {
            policy,
            salts: salts.unwrap_or_default(),
            uses: RefCell::default(),
            streams: RefCell::default(),
            crept_ns: Cell::new(0),
            alarm: Cell::new(false),
        }
    }

    pub(crate) fn uses(&self) -> Vec<DoorUse> {
        self.uses.borrow().clone()
    }

    /// Whether a door was used that must not be.
    #[inline]
    pub(crate) fn has_alarm(&self) -> bool {
        self.alarm.get()
    }

    /// A clock that does not stand between two readings: mostly by less than a microsecond, now and then by
    /// milliseconds.
    fn creep(&self, salt: u64, shift_ns: u64) -> u64 {
        if salt == 0 {
            return 0;
        }
        let crept_ns = self.crept_ns.get();
        let dice = mix(salt, crept_ns);
        let step_ns = if dice.is_multiple_of(4) { dice % 20_000_000 } else { 50 + dice % 1_000 };
        self.crept_ns.set(crept_ns + step_ns);
        shift_ns + crept_ns + step_ns
    }
}

/// What the monotonic clock shows when a node boots: a machine is never 0 ns old, and programs subtract from instants.
const BOOT_NS: u64 = 1_000_000_000_000;

/// By how much clocks of a compared run are ahead: 400 days, 5 hours and a bit.
const SHIFT_NS: u64 = (400 * 24 + 5) * 3_600_000_000_000 + 123_456_789;

impl Core {
    /// Must not fail, whatever is borrowed: the caller may be anywhere.
    fn note_door(&self, door: Door, what: &[u8]) {
        if let Some(tape) = &self.tape {
            tape.door(door);
        }
        if self.ambient.policy == Policy::Virtualise {
            return;
        }
        let Ok(mut uses) = self.ambient.uses.try_borrow_mut() else { return };
        if let Some(known) = uses.iter_mut().find(|known| known.door == door && known.what.as_bytes() == what)
        {
            known.count += 1;
            return;
        }
        let current = self.current.get();
        let task = match (current.slot(), self.agenda.try_borrow().is_ok()) {
            (Some(slot), true) => describe(self, slot),
            _ => format!("code outside any task, on behalf of {}", current.owner.node),
        };
        uses.push(DoorUse {
            door,
            what: String::from_utf8_lossy(what).into_owned(),
            count: 1,
            node: current.owner.node,
            time_ns: self.now_ns.get(),
            task,
            backtrace: Arc::new(Backtrace::force_capture()),
        });
        self.ambient.alarm.set(self.ambient.policy == Policy::Forbid);
    }
}

impl Watcher for Core {
    fn entropy(&self, door: Door, buffer: &mut [u8]) {
        self.note_door(door, b"");
        let salts = &self.ambient.salts;
        // Between runs that are compared the bytes may differ, and only what the program makes of them counts.
        let draws = || if self.tape.is_some() { Draws::default() } else { self.draws.clone() };
        if door == Door::HashKeys {
            let seed = mix(mix(self.seed, hash_name("ambient hash keys")), salts.hash_keys);
            Stream::new(seed, draws()).fill_bytes(buffer);
            return;
        }
        let owner = self.current.get().owner;
        let fresh = || {
            let key = mix(u64::from(owner.node.0) << 32 | u64::from(owner.incarnation), salts.entropy);
            let seed = mix(mix(self.seed, hash_name("ambient entropy")), key);
            Stream::new(seed, draws())
        };
        match self.ambient.streams.try_borrow_mut() {
            Ok(mut streams) => streams.entry(owner).or_insert_with(fresh).fill_bytes(buffer),
            Err(_) => fresh().fill_bytes(buffer),
        }
    }

    fn clock_ns(&self, clock: Clock) -> u64 {
        self.note_door(if clock == Clock::Wall { Door::WallClock } else { Door::Monotonic }, b"");
        let now_ns = self.now_ns.get();
        let node_clock = match self.agenda.try_borrow() {
            Ok(agenda) => agenda.nodes[self.current.get().owner.node.index()].clock,
            Err(_) => Default::default(),
        };
        let Salts { monotonic, wall, .. } = self.ambient.salts;
        match clock {
            Clock::Monotonic => {
                BOOT_NS.saturating_add(node_clock.local_ns(now_ns)) + self.ambient.creep(monotonic, SHIFT_NS)
            }
            Clock::Wall => node_clock.wall_ns(now_ns) + self.ambient.creep(wall, SHIFT_NS),
        }
    }

    fn passed(&self, door: Door, what: &[u8]) {
        self.note_door(door, what);
    }
}

impl Handle {
    /// A door was used under [`Policy::Forbid`]: that is the run's end.
    #[cold]
    pub(crate) fn end_as_forbidden(&self) {
        self.core.ambient.alarm.set(false);
        for used in self.core.ambient.uses() {
            let DoorUse { door, what, task, backtrace, .. } = used;
            let named = if what.is_empty() { String::new() } else { format!(" {what:?}") };
            let evidence =
                format!("{task} used the door \"{door}\"{named}, which is forbidden:\n{backtrace}");
            self.fail(Category::Nondeterministic, "a forbidden door", door.name(), evidence);
        }
        self.core.end();
    }
}
