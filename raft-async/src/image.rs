//! A server's directory, decoded from the bytes of its files: the same recovery that the server runs, for
//! those who look at the disk from outside.

use crate::entries::Entries;
use crate::hard_state::{self, BothSlotsBad, HardState, Slotted};
use crate::mutant::Planted;
use crate::wal::{self, SegmentBytes};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The file of term and vote.
pub const HARD_STATE_FILE: &str = "hard-state";

/// What a server would find if it started from these files.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// Term and vote.
    pub hard_state: HardState,
    /// The log.
    pub entries: Entries,
}

/// The files do not hold what they promised.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Corrupt {
    /// Term and vote are unreadable.
    #[error("{HARD_STATE_FILE}: {0}")]
    HardState(#[from] BothSlotsBad),
    /// There is a log, and no file of term and vote beside it.
    #[error("{HARD_STATE_FILE} is missing although there is a log")]
    HardStateMissing,
    /// The log is damaged.
    #[error(transparent)]
    Log(#[from] wal::Corrupt),
}

/// The files of a directory, by name.
pub type Files<'a> = Vec<(&'a OsStr, &'a [u8])>;

/// Decodes a directory. `files` may hold other files too.
///
/// # Errors
/// [`Corrupt`], exactly when a server would refuse to start from these files.
pub fn decode(files: &BTreeMap<PathBuf, Vec<u8>>, dir: &Path, planted: Planted) -> Result<Image, Corrupt> {
    let within = files.iter().filter(|(path, _)| path.parent() == Some(dir));
    let named: Files<'_> =
        within.filter_map(|(path, bytes)| Some((path.file_name()?, bytes.as_slice()))).collect();
    let segments = segments(&named);
    let slotted = recover_hard_state(hard_state_file(&named), !segments.is_empty(), planted)?;
    let log = wal::recover(&segments, planted)?;
    Ok(Image { hard_state: slotted.state, entries: log.entries.into() })
}

/// Decodes the directory of one sound server again and again, at the cost of what is new in it.
#[derive(Default, Debug)]
pub struct Rereader {
    log: wal::Rereader,
    image: Rc<Image>,
}

impl Rereader {
    /// As [`decode`].
    ///
    /// # Errors
    /// As [`decode`].
    pub fn decode(&mut self, files: &Files<'_>) -> Result<Rc<Image>, Corrupt> {
        let segments = segments(files);
        let slotted = recover_hard_state(hard_state_file(files), !segments.is_empty(), Planted::NONE)?;
        let image = Rc::make_mut(&mut self.image);
        image.hard_state = slotted.state;
        self.log.recover(&segments, &mut image.entries)?;
        Ok(self.image.clone())
    }
}

/// The segments of the log, in order.
fn segments<'a>(files: &Files<'a>) -> Vec<SegmentBytes<'a>> {
    let numbered = files.iter().filter_map(|(name, bytes)| {
        let number = wal::segment_number(name.to_str()?)?;
        Some(SegmentBytes { number, bytes })
    });
    let mut segments: Vec<SegmentBytes<'a>> = numbered.collect();
    segments.sort_by_key(|segment| segment.number);
    segments
}

fn hard_state_file<'a>(files: &Files<'a>) -> Option<&'a [u8]> {
    files.iter().find(|(name, _)| *name == HARD_STATE_FILE).map(|(_, bytes)| *bytes)
}

/// Reads term and vote, or decides that this is a server that never ran: the file is complete before it gets
/// its name, and it has its name before there is a log.
pub(crate) fn recover_hard_state(
    file: Option<&[u8]>,
    log_exists: bool,
    planted: Planted,
) -> Result<Slotted, Corrupt> {
    match file {
        Some(bytes) => Ok(hard_state::recover(bytes, planted)?),
        None if log_exists => Err(Corrupt::HardStateMissing),
        None => Ok(Slotted::FIRST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Command, Entry, Index, Term};

    fn files() -> BTreeMap<PathBuf, Vec<u8>> {
        let mut slots = vec![0; hard_state::FILE_BYTES as usize];
        let state = Slotted { state: HardState { term: Term(3), voted_for: None }, sequence: 1, slot: 0 };
        slots[..hard_state::SLOT_BYTES].copy_from_slice(&state.encode());
        let mut segment = Vec::new();
        wal::SegmentHeader::FIRST.encode(&mut segment);
        wal::encode_frame(&mut segment, 0, 0, Index(1), &Entry { term: Term(3), command: Command::Noop });
        BTreeMap::from([
            (PathBuf::from("/raft/hard-state"), slots),
            (PathBuf::from("/raft/log-00000001"), segment),
            (PathBuf::from("/raft/log-other"), vec![1]),
            (PathBuf::from("/elsewhere/log-00000001"), vec![1]),
        ])
    }

    #[test]
    fn a_directory_is_decoded_and_other_files_are_ignored() {
        let image = decode(&files(), Path::new("/raft"), Planted::NONE).expect("it is sound");
        assert_eq!(image.hard_state.term, Term(3));
        assert_eq!(image.entries.last().index, Index(1));
        let empty = decode(&BTreeMap::new(), Path::new("/raft"), Planted::NONE).expect("a new server");
        assert_eq!(empty.hard_state, HardState::default());
    }

    #[test]
    fn a_log_without_its_hard_state_is_refused() {
        let mut files = files();
        files.remove(Path::new("/raft/hard-state"));
        let refused = decode(&files, Path::new("/raft"), Planted::NONE);
        assert_eq!(refused.err(), Some(Corrupt::HardStateMissing));
    }
}
