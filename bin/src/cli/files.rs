//! Files that results go to; `-` is standard output.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::Unusable;
use crate::raft::Saved;

/// Whether a result that goes to `path` goes to standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file for a result before the work begins, so that a wrong path costs nothing. What it held stays until there is
/// a result: it may be what is to be read.
///
/// # Errors
/// [`Unusable::Write`].
pub fn create(path: Option<&Path>) -> Result<Option<(PathBuf, File)>, Unusable> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let open = |path: &Path| {
        let opened = if is_stdout(path) {
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else {
            options.open(path)
        };
        match opened {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => Err(Unusable::Write(path.to_owned(), error)),
        }
    };
    path.map(open).transpose()
}

/// Writes a timeline.
///
/// # Errors
/// [`Unusable::Write`]; a closed pipe is none.
pub fn write_saved(file: Option<(PathBuf, File)>, saved: &Saved) -> Result<(), Unusable> {
    write_text(file, &saved.to_text())
}

/// Writes a result as JSON.
///
/// # Errors
/// [`Unusable::Write`]; a closed pipe is none.
pub fn write_json(file: Option<(PathBuf, File)>, value: &serde_json::Value) -> Result<(), Unusable> {
    write_text(file, &format!("{value:#}\n"))
}

/// Writes a result as it is.
///
/// # Errors
/// [`Unusable::Write`]; a closed pipe is none.
pub fn write_text(file: Option<(PathBuf, File)>, text: &str) -> Result<(), Unusable> {
    let Some((path, mut file)) = file else { return Ok(()) };
    // What is no regular file cannot be cut, and need not be; what standard output holds already is not ours.
    if !is_stdout(&path) {
        let _ = file.set_len(0);
    }
    match file.write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Unusable::Write(path, error)),
        _ => Ok(()),
    }
}
