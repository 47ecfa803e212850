//! Files and folders, and what a crash leaves of them.
//!
//!   program ──File, create_dir, rename ..──► Disks ──one a node──► Disk { names, contents }
//!                                              │ fsync: 2-6 ms        │
//!                                              └── power loss ────────┴──► old, new, shorn, zero; kept, lost
//!
//! | module | what it owns |
//! |---|---|
//! | `folders` | functions on paths: folders, names, whole files |
//! | `options`, `file`, `cursor` | opening files, open files, the `futures::io` traits |
//! | `process` | who acts, and waits for a sync |
//! | `disks` | the device: whose disk, power losses, what oracles ask |
//! | `flights` | syncs in flight |
//! | `disk` | one node's disk: folders, files, where a path leads |
//! | `content` | bytes of a file that are visible and not durable |
//! | `names` | names that are visible and not durable |
//! | `power`, `crash` | a power loss: of a disk, of a file's sectors |
//! | `trouble` | what a fault does to a disk for a while |
//! | `config`, `counters`, `errors` | what disks are like, what happened to them, what they answer |
//!
//! The model. A write is visible at once and durable only after a sync that began after it; a sync takes
//! virtual time, and a power loss in that window flushes part of it. A power loss leaves of each unsynced
//! 512-byte sector the old bytes, the new ones, a version in between, or new bytes up to a point and older ones
//! after; of the length, one that the file had since its last sync. Durable bytes that no unsynced change
//! covers are never touched. Names are durable only after [`sync_dir`] of their folder; a rename over another
//! file leaves the old or the new, never none. A kill loses nothing.

mod folders;
mod options;
mod file;
mod cursor;
mod process;
mod disks;
mod flights;
mod disk;
mod content;
mod names;
mod power;
mod crash;
mod trouble;
mod config;
pub(crate) mod counters;
mod errors;

pub use config::DiskConfig;
pub use disk::{Image, Side};
pub use disks::Disks;
pub use file::File;
pub use flights::FSYNC_WINDOW;
pub use folders::{
    DirEntry, Metadata, create_dir, create_dir_all, exists, metadata, read, read_dir, read_to_string,
    remove_dir, remove_file, rename, sync_dir, write,
};
pub use names::FileId;
pub use options::OpenOptions;
pub use trouble::Trouble;
