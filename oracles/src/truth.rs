//! What the disks say, whatever the code believes.
//!
//! Oracles ask through a small trait, so that they can be tested without a disk.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use raft_async::image::{Corrupt, Image, Rereader};
use sim_io::fs::{Disks, FileId, Side};
use sim_runtime::NodeId;
use sim_runtime::invariant::View;

/// What is known of a server's disk from outside.
pub trait Truth {
    /// Whether these bytes of the file would survive a power loss now.
    fn is_durable(&self, node: NodeId, file: u64, bytes: Range<u64>) -> bool;

    /// What a sound server would recover if its power failed now and everything unsynced were lost.
    fn durable_image(&self, node: NodeId) -> Option<Result<Rc<Image>, Corrupt>>;

    /// What a sound server would recover if its process were killed now.
    fn visible_image(&self, node: NodeId) -> Option<Result<Rc<Image>, Corrupt>>;
}

/// What need not be found out again: disks are looked at often, and little is new in them.
#[derive(Default, Debug)]
pub struct Known {
    disks: OnceCell<Rc<Disks>>,
    /// What was decoded of each server's disk before.
    decoded: RefCell<Vec<Rereader>>,
}

/// The simulated disks.
pub struct DiskTruth<'a> {
    view: &'a View<'a>,
    /// The servers' directory.
    dir: &'a Path,
    known: &'a Known,
}

impl<'a> DiskTruth<'a> {
    /// Looks at the disks of `view`, where each server keeps its files in `dir`.
    #[inline]
    pub fn new(view: &'a View<'a>, dir: &'a Path, known: &'a Known) -> Self {
        Self { view, dir, known }
    }

    fn disks(&self) -> &Disks {
        self.known.disks.get_or_init(|| self.view.device())
    }

    fn image(&self, node: NodeId, side: Side) -> Result<Rc<Image>, Corrupt> {
        let mut decoded = self.known.decoded.borrow_mut();
        if decoded.len() <= node.index() {
            decoded.resize_with(node.index() + 1, Rereader::default);
        }
        self.disks().look_at(node, side, self.dir, |files| decoded[node.index()].decode(files))
    }
}

impl Truth for DiskTruth<'_> {
    fn is_durable(&self, node: NodeId, file: u64, bytes: Range<u64>) -> bool {
        self.disks().is_durable(node, FileId(file), bytes)
    }

    fn durable_image(&self, node: NodeId) -> Option<Result<Rc<Image>, Corrupt>> {
        Some(self.image(node, Side::Durable))
    }

    fn visible_image(&self, node: NodeId) -> Option<Result<Rc<Image>, Corrupt>> {
        Some(self.image(node, Side::Visible))
    }
}
