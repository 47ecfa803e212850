//! What sockets and disks are to the runtime: owners of state that act at points in virtual time.
//!
//! A device asks to be called ([`Handle::at`]) with a token; the executor calls [`Device::fire`] then, without
//! any task in between. Nodes that come and go are told to every device, so that it can reset what they held.
//!
//! Invariants: one instance of a device a world, created at first use; calls come one at a time, never from
//! within another call of the same device by the runtime.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::node::NodeId;
use crate::trace::Down;
use crate::world::Handle;

/// Which device: the index of its place in the world. 0 to 2 are sim-io's datagrams, disks and streams.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DeviceId(pub u8);

/// How many devices a world has room for.
pub(crate) const DEVICES: usize = 8;

/// Counters by name: what a run really exercised. A counter of 0 is kept: "on, but never reached".
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    /// Adds `n` to the counter `name`.
    pub fn add(&mut self, name: &str, n: u64) {
        match self.0.get_mut(name) {
            Some(count) => *count += n,
            None => {
                self.0.insert(name.to_owned(), n);
            }
        }
    }

    /// The counter `name`, 0 when it was never touched.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// All counters by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// Adds the counters of another run.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(name, count)| self.add(name, count));
    }
}

/// Something that lives beside the tasks and acts in virtual time.
pub trait Device: Any + Sized {
    /// Its place in the world.
    const ID: DeviceId;

    /// A fresh one for a fresh world.
    fn new(world: &Handle) -> Self;

    /// The moment that was asked for with `token` has come.
    fn fire(&self, world: &Handle, token: u64);

    /// A node was booted.
    fn node_up(&self, world: &Handle, node: NodeId) {
        let _ = (world, node);
    }

    /// A node went down; its tasks are gone already.
    fn node_down(&self, world: &Handle, node: NodeId, how: Down, fault: u64) {
        let _ = (world, node, how, fault);
    }

    /// A machine stands still from now on, or goes on. One that goes down meanwhile is not said to go on.
    fn node_frozen(&self, world: &Handle, node: NodeId, frozen: bool) {
        let _ = (world, node, frozen);
    }

    /// Adds what happened to the run's coverage.
    fn coverage(&self, into: &mut Coverage) {
        let _ = into;
    }

    /// Says what it holds, in lines, for the report of a run in which nothing moves; nothing if there is nothing.
    fn describe(&self, into: &mut String) {
        let _ = into;
    }

    /// Lets go of everything that could hold a task or a handle; the world ends.
    fn clear(&self) {}
}

/// The object-safe side of [`Device`].
pub(crate) trait AnyDevice {
    fn fire(&self, world: &Handle, token: u64);
    fn node_up(&self, world: &Handle, node: NodeId);
    fn node_down(&self, world: &Handle, node: NodeId, how: Down, fault: u64);
    fn node_frozen(&self, world: &Handle, node: NodeId, frozen: bool);
    fn coverage(&self, into: &mut Coverage);
    fn describe(&self, into: &mut String);
    fn clear(&self);
    fn as_any(self: Rc<Self>) -> Rc<dyn Any>;
}

impl<D: Device> AnyDevice for D {
    fn fire(&self, world: &Handle, token: u64) {
        Device::fire(self, world, token);
    }
    fn node_up(&self, world: &Handle, node: NodeId) {
        Device::node_up(self, world, node);
    }
    fn node_down(&self, world: &Handle, node: NodeId, how: Down, fault: u64) {
        Device::node_down(self, world, node, how, fault);
    }
    fn node_frozen(&self, world: &Handle, node: NodeId, frozen: bool) {
        Device::node_frozen(self, world, node, frozen);
    }
    fn coverage(&self, into: &mut Coverage) {
        Device::coverage(self, into);
    }
    fn describe(&self, into: &mut String) {
        Device::describe(self, into);
    }
    fn clear(&self) {
        Device::clear(self);
    }
    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}
