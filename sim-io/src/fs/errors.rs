//! The errors that a simulated disk gives: kinds and numbers as on Linux.
//!
//! Not here: when (`flights.rs`, `disk.rs`, `process.rs`).

use std::io::{Error, ErrorKind};

/// The number of EBADF on every Unix.
const EBADF: i32 = 9;
/// The number of EIO on every Unix.
const EIO: i32 = 5;
/// The number of EINVAL on every Unix.
const EINVAL: i32 = 22;

/// The handle belongs to an incarnation that has ended.
pub(super) fn process_gone() -> Error {
    Error::new(ErrorKind::BrokenPipe, "the process that opened this file is gone")
}

pub(super) fn not_found() -> Error {
    Error::from(ErrorKind::NotFound)
}

pub(super) fn exists() -> Error {
    Error::from(ErrorKind::AlreadyExists)
}

pub(super) fn not_a_folder() -> Error {
    Error::from(ErrorKind::NotADirectory)
}

pub(super) fn is_a_folder() -> Error {
    Error::from(ErrorKind::IsADirectory)
}

pub(super) fn folder_not_empty() -> Error {
    Error::from(ErrorKind::DirectoryNotEmpty)
}

pub(super) fn root() -> Error {
    Error::new(ErrorKind::ResourceBusy, "the root folder cannot be replaced")
}

pub(super) fn bad_path() -> Error {
    Error::new(ErrorKind::InvalidInput, "paths have no prefix and no NUL here")
}

pub(super) fn name_too_long() -> Error {
    Error::from(ErrorKind::InvalidFilename)
}

pub(super) fn not_text() -> Error {
    Error::new(ErrorKind::InvalidData, "the file is not UTF-8")
}

/// What ftruncate says of a file that is not open for writing.
pub(super) fn not_to_be_cut() -> Error {
    Error::from_raw_os_error(EINVAL)
}

pub(super) fn into_itself() -> Error {
    Error::new(ErrorKind::InvalidInput, "a folder cannot be moved into itself")
}

pub(super) fn bad_options() -> Error {
    Error::new(ErrorKind::InvalidInput, "these open options contradict each other")
}

pub(super) fn bad_seek() -> Error {
    Error::new(ErrorKind::InvalidInput, "a seek to before the first byte")
}

pub(super) fn too_large() -> Error {
    Error::from(ErrorKind::FileTooLarge)
}

pub(super) fn short_read() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "the file ends before the buffer is full")
}

pub(super) fn full() -> Error {
    Error::from(ErrorKind::StorageFull)
}

/// Not opened for reading, or not for writing.
pub(super) fn wrong_mode() -> Error {
    Error::from_raw_os_error(EBADF)
}

/// The disk failed.
pub(super) fn io_error() -> Error {
    Error::from_raw_os_error(EIO)
}
