//! Tape: everything that a story is made of.

use std::cell::RefCell;
use std::rc::Rc;

use sim_runtime::World;
use sim_runtime::event::Event;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::trace::{Kind, Record};
use sim_runtime::verdict::Findings;

use crate::net::{Contents, Net};

/// What a run left.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// All records: their places are their ordinals.
    pub records: Vec<Record>,
    /// All `tracing` events.
    pub events: Vec<Event>,
    /// All that was sent.
    pub contents: Contents,
}

/// Records a run. The world must keep its trace (`Options::keep_trace`).
#[derive(Clone, Debug, Default)]
pub struct Recording(Rc<RefCell<Tape>>);

impl Recording {
    /// Records `world`, which has not run yet.
    pub fn start(world: &mut World) -> Self {
        let recording = Self::default();
        world.handle().device::<Net>().keep_contents();
        world.watch(recording.clone());
        recording
    }

    /// The tape, once the run is over.
    pub fn into_tape(self) -> Tape {
        self.0.take()
    }
}

impl Invariant for Recording {
    fn name(&self) -> &'static str {
        "story"
    }

    fn concerns(&self, _kind: Kind) -> bool {
        false
    }

    fn observe(&mut self, _view: &View<'_>, _found: &mut Findings) {}

    fn finish(&mut self, view: &View<'_>, _found: &mut Findings) {
        let (first, records) = view.held();
        assert_eq!(first, 0, "a run whose story is told keeps its trace");
        let events = view.events(&mut Cursor::default()).to_vec();
        let contents = view.device::<Net>().take_contents();
        self.0.replace(Tape { records: records.to_vec(), events, contents });
    }
}
