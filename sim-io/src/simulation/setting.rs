//! What a program may ask of the simulation that it runs in: who takes part, and its own parameters.
//!
//! Invariant: it says the same to everybody throughout a run.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sim_runtime::device::{Device, DeviceId};
use sim_runtime::invariant::View;
use sim_runtime::{Handle, NodeId};

use super::SimulationConfig;

/// What a world was set up with.
#[derive(Debug, Default)]
struct Setting {
    processes: RefCell<Vec<NodeId>>,
    parameters: RefCell<BTreeMap<String, u64>>,
}

impl Device for Setting {
    const ID: DeviceId = DeviceId(3);

    fn new(_world: &Handle) -> Self {
        Self::default()
    }

    fn fire(&self, _world: &Handle, _token: u64) {}
}

pub(super) fn announce(world: &Handle, config: &SimulationConfig) {
    let setting = world.device::<Setting>();
    setting.processes.replace((1..=config.processes).map(NodeId).collect());
    setting.parameters.replace(config.parameters.clone());
}

/// The nodes of all processes under test, the caller's included; empty outside a [`super::Simulation`].
///
/// # Panics
/// Outside a run.
pub fn processes() -> Vec<NodeId> {
    Handle::current().device::<Setting>().processes.borrow().clone()
}

/// The same for an invariant.
pub fn processes_in(view: &View<'_>) -> Vec<NodeId> {
    view.device::<Setting>().processes.borrow().clone()
}

/// A number of the program's own; see [`super::Simulation::parameter`].
///
/// # Panics
/// Outside a run, and for a name that the simulation does not have.
pub fn parameter(name: &str) -> u64 {
    let setting = Handle::current().device::<Setting>();
    let parameters = setting.parameters.borrow();
    let value = parameters.get(name);
    *value.unwrap_or_else(|| panic!("the simulation has no parameter {name:?}, but {:?}", parameters.keys()))
}
