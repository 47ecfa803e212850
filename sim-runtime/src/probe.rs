//! Windows and points: moments that are worth a fault.
//!
//! A fault that exists in the model is not a fault that a campaign reaches. Code and devices say when they are
//! in a state worth interrupting ("fsync in flight", "election in progress"), the nemesis waits for that, and
//! what was really hit is counted here, by what was open when a node went down, not by who aimed.
//!
//!   code, device ──open──► Windows ◄──next(name, node)── nemesis
//!                             ▲
//!                        node goes down: open windows of that node are hits
//!
//! Invariants: a window belongs to an incarnation and closes with it; windows do not influence the run unless
//! somebody waits for them.
//! Not here: choosing faults (sim-io's nemesis).

use std::future::Future;
use std::time::Duration;

use slab::Slab;

use crate::context;
use crate::device::Coverage;
use crate::node::{NodeId, Owner};
use crate::rng::{hash_name, mix};
use crate::sync::oneshot;
use crate::trace::WindowHit;
use crate::world::Handle;

/// A window or point, as one who waited for it gets to know it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// On which node.
    pub node: NodeId,
    /// When, in global virtual time.
    pub opened_ns: u64,
    /// How long it is going to be open, where that is known.
    pub expected_ns: Option<u64>,
}

struct Open {
    name: &'static str,
    owner: Owner,
    opened_ns: u64,
}

struct Waiter {
    name: String,
    node: Option<NodeId>,
    tell: oneshot::Sender<Opened>,
}

struct Count {
    name: &'static str,
    opened: u64,
    hit: u64,
    /// For points: the latest on each node, in global virtual time.
    latest_ns: Vec<Option<u64>>,
}

/// A node that goes down this soon after a point was hit there.
const POINT_HIT_NS: u64 = 2_000_000;

/// All windows of a world.
pub(crate) struct Windows {
    open: Slab<Open>,
    counts: Vec<Count>,
    /// Where in `counts` a name was found lately, by its address: a guess, which the name there confirms or not.
    guesses: [u8; GUESSES],
    waiters: Vec<Waiter>,
    /// With so many waiters it is time to look who has stopped waiting.
    sweep_at: usize,
}

/// Fewer waiters than this are not worth a look.
const SWEEP_FROM: usize = 32;

const GUESSES: usize = 64;

impl Default for Windows {
    fn default() -> Self {
        Self {
            open: Slab::new(),
            counts: Vec::new(),
            guesses: [0; GUESSES],
            waiters: Vec::new(),
            sweep_at: SWEEP_FROM,
        }
    }
}

impl Windows {
    fn count(&mut self, name: &'static str) -> &mut Count {
        let guess = usize::from(self.guesses[name.as_ptr().addr() % GUESSES]);
        let right = self.counts.get(guess).is_some_and(|count| std::ptr::eq(count.name, name));
        let at = if right { guess } else { self.look_up(name) };
        &mut self.counts[at]
    }

    #[cold]
    fn look_up(&mut self, name: &'static str) -> usize {
        // There are a dozen names; a list in order of first use beats a map.
        let at = self.counts.iter().position(|count| count.name == name);
        let at = at.unwrap_or_else(|| {
            self.counts.push(Count { name, opened: 0, hit: 0, latest_ns: Vec::new() });
            self.counts.len() - 1
        });
        self.guesses[name.as_ptr().addr() % GUESSES] = u8::try_from(at).unwrap_or(u8::MAX);
        at
    }

    fn wait(&mut self, waiter: Waiter) {
        if self.waiters.len() >= self.sweep_at {
            // Those who have stopped waiting have dropped their receivers.
            self.waiters.retain(|waiter| !waiter.tell.is_closed());
            self.sweep_at = SWEEP_FROM.max(2 * self.waiters.len());
        }
        self.waiters.push(waiter);
    }

    /// A hash of the names of the windows that are open on a node.
    pub(crate) fn open_on(&self, node: NodeId) -> u64 {
        let names = self.open.iter().filter(|(_, open)| open.owner.node == node).map(|(_, open)| open.name);
        // Several of one name are as one.
        let mut names: Vec<u64> = names.map(hash_name).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().fold(0, mix)
    }

    pub(crate) fn coverage(&self, into: &mut Coverage) {
        for count in &self.counts {
            into.add(&format!("window opened: {}", count.name), count.opened);
            into.add(&format!("window hit: {}", count.name), count.hit);
        }
    }

    /// Takes everything that could hold a task.
    pub(crate) fn clear(&mut self) -> impl Sized + use<> {
        self.open.clear();
        std::mem::take(&mut self.waiters)
    }
}

/// Names an open window.
#[derive(Copy, Clone, Debug)]
pub struct WindowId {
    slot: usize,
    owner: Owner,
}

impl Handle {
    /// Opens a window on `owner`; for devices. Code uses [`window`].
    pub fn open_window(&self, owner: Owner, name: &'static str, expected_ns: Option<u64>) -> WindowId {
        let opened_ns = self.now_ns();
        let (slot, is_awaited) = {
            let mut windows = self.core.windows.borrow_mut();
            windows.count(name).opened += 1;
            (windows.open.insert(Open { name, owner, opened_ns }), !windows.waiters.is_empty())
        };
        if let Some(scout) = &self.core.scout {
            scout.moment(name, owner.node);
        }
        if is_awaited {
            self.tell_waiters(name, Opened { node: owner.node, opened_ns, expected_ns });
        }
        WindowId { slot, owner }
    }

    /// Closes a window. One that its node's end has closed already is left alone.
    pub fn close_window(&self, id: WindowId) {
        let mut windows = self.core.windows.borrow_mut();
        if windows.open.get(id.slot).is_some_and(|open| open.owner == id.owner) && self.is_live(id.owner) {
            windows.open.remove(id.slot);
        }
    }

    /// Whether a window of that name is open on the node.
    pub fn is_window_open(&self, node: NodeId, name: &str) -> bool {
        let windows = self.core.windows.borrow();
        windows.open.iter().any(|(_, open)| open.owner.node == node && open.name == name)
    }

    fn pass_point(&self, name: &'static str) {
        let opened = Opened { node: self.owner().node, opened_ns: self.now_ns(), expected_ns: None };
        let is_awaited = {
            let mut windows = self.core.windows.borrow_mut();
            let count = windows.count(name);
            count.opened += 1;
            let at = opened.node.index();
            if count.latest_ns.len() <= at {
                count.latest_ns.resize(at + 1, None);
            }
            count.latest_ns[at] = Some(opened.opened_ns);
            !windows.waiters.is_empty()
        };
        if let Some(scout) = &self.core.scout {
            scout.moment(name, opened.node);
        }
        if is_awaited {
            self.tell_waiters(name, opened);
        }
    }

    fn tell_waiters(&self, name: &'static str, opened: Opened) {
        let told: Vec<Waiter> = {
            let mut windows = self.core.windows.borrow_mut();
            // Of a crowd, those who have stopped waiting are not gone through again.
            let is_crowd = windows.waiters.len() > SWEEP_FROM;
            let wanted = |waiter: &mut Waiter| {
                waiter.name == name && waiter.node.is_none_or(|node| node == opened.node)
                    || is_crowd && waiter.tell.is_closed()
            };
            let told = windows.waiters.extract_if(.., wanted).collect();
            if is_crowd {
                windows.sweep_at = SWEEP_FROM.max(2 * windows.waiters.len());
            }
            told
        };
        for waiter in told {
            // Who has stopped waiting has dropped the receiver.
            let _ = waiter.tell.send(opened);
        }
    }

    pub(crate) fn count_window_hits(&self, owner: Owner) {
        let now_ns = self.now_ns();
        let hits: Vec<WindowHit> = {
            let mut windows = self.core.windows.borrow_mut();
            let open: Vec<(&'static str, u64)> = (windows.open.iter())
                .filter(|(_, open)| open.owner == owner)
                .map(|(_, open)| (open.name, open.opened_ns))
                .collect();
            let passed = windows.counts.iter_mut().filter_map(|count| {
                let latest_ns = count.latest_ns.get_mut(owner.node.index())?.take()?;
                (now_ns - latest_ns <= POINT_HIT_NS).then_some((count.name, latest_ns))
            });
            let open: Vec<_> = open.into_iter().chain(passed.collect::<Vec<_>>()).collect();
            let count_one = |(name, opened_ns)| {
                windows.count(name).hit += 1;
                WindowHit { window: hash_name(name), open_for_ns: now_ns - opened_ns }
            };
            open.into_iter().map(count_one).collect()
        };
        for hit in hits {
            self.emit_for(owner, hit);
        }
    }

    pub(crate) fn close_windows_of(&self, owner: Owner) {
        self.core.windows.borrow_mut().open.retain(|_, open| open.owner != owner);
    }
}

/// A window of the current node, open until this is dropped.
#[derive(Debug)]
#[must_use = "the window closes when this is dropped"]
pub struct WindowGuard {
    handle: Handle,
    id: WindowId,
}

impl Drop for WindowGuard {
    fn drop(&mut self) {
        self.handle.close_window(self.id);
    }
}

/// Opens a window on the current node; `expected` says for how long, where that is known.
///
/// # Panics
/// Outside a run.
pub fn window(name: &'static str, expected: Option<Duration>) -> WindowGuard {
    let handle = context::current();
    let expected_ns = expected.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    let id = handle.open_window(handle.owner(), name, expected_ns);
    WindowGuard { handle, id }
}

/// A moment on the current node: a window that is closed at once. It counts as hit when a fault strikes the node
/// within 2 ms. Outside a run nothing happens.
pub fn point(name: &'static str) {
    if let Some(handle) = context::try_current() {
        handle.pass_point(name);
    }
}

/// Waits for the next window or point of that name, on `node` or anywhere.
///
/// # Panics
/// Outside a run.
pub fn next(name: &str, node: Option<NodeId>) -> impl Future<Output = Opened> + use<> {
    let handle = context::current();
    let (tell, told) = oneshot::channel();
    handle.core.windows.borrow_mut().wait(Waiter { name: name.to_owned(), node, tell });
    async move {
        match told.await {
            Ok(opened) => opened,
            // The world ends: whoever waits is about to be dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, World};

    #[test]
    fn a_crowd_that_has_stopped_waiting_is_let_go_of() {
        let mut world = World::new(1, Options::default());
        let handle = world.handle();
        let waiters = move || handle.core.windows.borrow().waiters.len();
        world
            .run(async move {
                let crowd: Vec<_> = (0..10_000).map(|_| next("x", Some(NodeId(9)))).collect();
                let _one = next("y", None);
                assert_eq!(waiters(), 10_001);
                drop(crowd);
                drop(window("w", None));
                assert_eq!(waiters(), 1);
                // And where no window ever opens.
                (0..10_000).for_each(|_| drop(next("x", None)));
                assert!(waiters() <= SWEEP_FROM + 1);
            })
            .expect("nothing is said in vain");
    }
}
