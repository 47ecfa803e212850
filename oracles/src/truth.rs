//! What the disks say, whatever the code believes.
//!
//! Oracles ask through a small trait, so that they can be tested without a disk.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use raft_async::image::{self, Corrupt, Image};
use raft_async::mutant::Planted;
use sim_io::fs::{Disks, FileId};
use sim_runtime::NodeId;
use sim_runtime::invariant::View;

/// What is known of a server's disk from outside.
pub trait Truth {
    /// Whether these bytes of the file would survive a power loss now.
    fn is_durable(&self, node: NodeId, file: u64, bytes: Range<u64>) -> bool;

    /// What a sound server would recover if its power failed now and everything unsynced were lost.
    fn durable_image(&self, node: NodeId) -> Option<Result<Image, Corrupt>>;

    /// What a sound server would recover if its process were killed now.
    fn visible_image(&self, node: NodeId) -> Option<Result<Image, Corrupt>>;
}

/// The simulated disks.
pub struct DiskTruth<'a> {
    view: &'a View<'a>,
    /// The servers' directory.
    dir: &'a Path,
    disks: OnceCell<Rc<Disks>>,
}

impl<'a> DiskTruth<'a> {
    /// Looks at the disks of `view`, where each server keeps its files in `dir`.
    pub fn new(view: &'a View<'a>, dir: &'a Path) -> Self {
        Self { view, dir, disks: OnceCell::new() }
    }

    fn disks(&self) -> &Disks {
        self.disks.get_or_init(|| self.view.device())
    }
}

impl Truth for DiskTruth<'_> {
    fn is_durable(&self, node: NodeId, file: u64, bytes: Range<u64>) -> bool {
        self.disks().is_durable(node, FileId(file), bytes)
    }

    fn durable_image(&self, node: NodeId) -> Option<Result<Image, Corrupt>> {
        let files = self.disks().durable_image(node).files;
        Some(image::decode(&files, self.dir, Planted::NONE))
    }

    fn visible_image(&self, node: NodeId) -> Option<Result<Image, Corrupt>> {
        let files = self.disks().visible_image(node).files;
        Some(image::decode(&files, self.dir, Planted::NONE))
    }
}
