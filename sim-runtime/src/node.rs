//! Nodes: machines that boot, die and come back; and what of them outlives what.
//!
//!   boot ──► incarnation 1 ──kill, power off, exit──► down ──restart──► incarnation 2 ──► ..
//!
//! A node's *incarnation* owns its tasks and open handles; the *node* owns what survives (its disk, in sim-io).
//! Whatever a dead incarnation still holds is inert: handles check [`Owner`] before they act.
//!
//! Invariants: incarnations of a node count from 1 and never repeat; node 0 is the host (scenario, nemesis)
//! and never goes down.
//! Not here: dropping the tasks of a dead incarnation (`reap.rs`), disks and sockets (sim-io).

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::task::Waker;

use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};

use crate::context;
use crate::rng::{Row, Stream};
use crate::time::NodeClock;
use crate::waker::TaskRef;

/// Names a node. 0 is the host, which runs the scenario and is never faulted.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The harness's own node.
    pub const HOST: Self = Self(0);

    /// As an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::HOST { f.write_str("host") } else { write!(f, "n{}", self.0) }
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One incarnation of a node: the owner of tasks and handles.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    /// The node.
    pub node: NodeId,
    /// Which of its lives; 0 is none.
    pub incarnation: u32,
}

impl Owner {
    /// The host.
    pub const HOST: Self = Self { node: NodeId::HOST, incarnation: 1 };

    /// The word of no incarnation.
    pub(crate) const NOBODY: u64 = u64::MAX;

    /// In one word.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.node.0) << 32 | u64::from(self.incarnation)
    }
}

/// What starts a node: called anew at each boot.
pub(crate) type Boot = Rc<dyn Fn() -> LocalBoxFuture<'static, ()>>;

pub(crate) struct Node {
    pub(crate) name: String,
    /// `None` on the host only.
    pub(crate) boot: Option<Boot>,
    /// Where the program was given to the node: the place of its main task.
    pub(crate) place: &'static Location<'static>,
    pub(crate) incarnation: u32,
    pub(crate) up: bool,
    pub(crate) paused: bool,
    /// The machine stands still with its kernel; then it is paused too.
    pub(crate) frozen: bool,
    /// Wakes are held back until then.
    pub(crate) hold_until_ns: u64,
    /// The hold field of this node, once it was read.
    pub(crate) hold_row: Option<Row>,
    /// When the hold field is to be read again.
    pub(crate) hold_known_until_ns: u64,
    /// In this bucket, wakes are rounded up to multiples of this; 0 means they are not.
    pub(crate) hold_quantum_ns: u64,
    pub(crate) release_armed: bool,
    pub(crate) held: Vec<TaskRef>,
    pub(crate) clock: NodeClock,
    /// The program's own randomness, of this incarnation.
    pub(crate) stream: Stream,
    pub(crate) shutdown: Shutdown,
    pub(crate) role: &'static str,
    /// When the role was taken, as a count of role changes in the world.
    pub(crate) role_since: u64,
}

impl Node {
    pub(crate) fn new(
        name: String,
        boot: Option<Boot>,
        place: &'static Location<'static>,
        stream: Stream,
    ) -> Self {
        Self {
            name,
            boot,
            place,
            incarnation: 0,
            up: false,
            paused: false,
            frozen: false,
            hold_until_ns: 0,
            hold_row: None,
            hold_known_until_ns: 0,
            hold_quantum_ns: 0,
            release_armed: false,
            held: Vec::new(),
            clock: NodeClock::default(),
            stream,
            shutdown: Shutdown::default(),
            role: "",
            role_since: 0,
        }
    }

    #[inline]
    pub(crate) fn is_live(&self, incarnation: u32) -> bool {
        self.up && self.incarnation == incarnation
    }
}

/// A wish that the node end by itself, and who waits for it.
#[derive(Default)]
pub(crate) struct Shutdown {
    pub(crate) requested: bool,
    pub(crate) waiting: Vec<Waker>,
}

/// The node on which the caller runs.
///
/// # Panics
/// Outside a run.
pub fn id() -> NodeId {
    context::current().owner().node
}

/// The incarnation on which the caller runs.
///
/// # Panics
/// Outside a run.
pub fn incarnation() -> u32 {
    context::current().owner().incarnation
}

/// Resolves when the harness asks this incarnation to end by itself ([`crate::Handle::shutdown`]).
pub fn shutdown_requested() -> impl Future<Output = ()> {
    let handle = context::current();
    let owner = handle.owner();
    std::future::poll_fn(move |cx| handle.poll_shutdown(owner, cx))
}
