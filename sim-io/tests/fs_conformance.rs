//! What an operating system does with files, case by case. Each case says what Linux does, and why.
//!
//!   body ──public API only──► sim_io::fs        (the bodies name no backend: they hold for any)
//!
//! Bodies get an empty folder of their own. They have been run against `std::fs` on Linux (ext4) as well, with the
//! same outcome. What only a crash can show is at the end, in scenes that need the
//! simulation.
//! Not here: which survivors a crash may leave (`fs_scenes.rs`, `fs_model`).

use std::ffi::OsStr;
use std::io::{self, ErrorKind, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use futures::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use sim_io::fs::{self, Disks, File};
use sim_runtime::time::{self, Instant, sleep};
use sim_runtime::{Handle, NodeId, Options, Owner, World};

const NODE: NodeId = NodeId(1);

/// Runs a body on a machine with an empty disk, in a folder that is its own.
fn on_a_machine(body: impl AsyncFnOnce(PathBuf) + 'static) {
    crashing(1, async move |n1| {
        n1.does(async move {
            fs::create_dir("/own").await?;
            body(PathBuf::from("/own")).await;
            Ok(())
        })
        .await;
    });
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    result.err().expect("it is refused").kind()
}

fn os_error<T>(result: io::Result<T>) -> Option<i32> {
    result.err().expect("it is refused").raw_os_error()
}

const EBADF: Option<i32> = Some(9);

/// A file with these bytes.
async fn has(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).await.expect("written");
}

async fn is(path: &Path, bytes: &[u8]) {
    assert_eq!(fs::read(path).await.expect("read"), bytes, "{}", path.display());
}

/// Open for reading and writing, created if it does not exist.
async fn both_ways(path: &Path) -> File {
    File::options().read(true).write(true).create(true).open(path).await.expect("opened")
}

async fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).await.expect("listed");
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

// ---- opening

/// open(2), O_CREAT: "If pathname does not exist, create it as a regular file." What is there stays.
#[test]
fn create_makes_a_missing_file_and_leaves_an_existing_one_alone() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        drop(both_ways(&path).await);
        is(&path, b"").await;
        has(&path, b"bytes").await;
        drop(both_ways(&path).await);
        is(&path, b"bytes").await;
    });
}

/// O_CREAT | O_EXCL: if "pathname already exists, then open() fails with the error EEXIST", be it a file or a folder.
#[test]
fn create_new_refuses_whatever_has_the_name() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"bytes").await;
        let new =
            |path: PathBuf| async move { File::options().write(true).create_new(true).open(path).await };
        assert_eq!(kind(new(dir.join("f")).await), ErrorKind::AlreadyExists);
        assert_eq!(kind(new(dir.clone()).await), ErrorKind::AlreadyExists);
        is(&dir.join("f"), b"bytes").await;
        new(dir.join("g")).await.expect("created");
    });
}

/// O_TRUNC: "it will be truncated to length 0", for every handle at once.
#[test]
fn truncate_cuts_the_file_under_handles_that_are_open() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        let other = both_ways(&path).await;
        other.write_all_at(b"bytes", 0).await.expect("written");
        File::options().write(true).truncate(true).open(&path).await.expect("opened");
        assert_eq!(other.len().await.expect("asked"), 0);
        assert_eq!(other.read_at(&mut [0; 5], 0).await.expect("read"), 0);
    });
}

/// `File::create` is O_WRONLY | O_CREAT | O_TRUNC.
#[test]
fn a_file_that_is_written_anew_keeps_nothing_of_a_longer_one() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"a long text").await;
        has(&dir.join("f"), b"short").await;
        is(&dir.join("f"), b"short").await;
    });
}

/// ENOENT for a file that is not there without O_CREAT, and for a folder on the way in any case.
#[test]
fn what_does_not_exist_is_not_found() {
    on_a_machine(async |dir| {
        assert_eq!(kind(File::open(dir.join("f")).await), ErrorKind::NotFound);
        assert_eq!(kind(File::create(dir.join("no/f")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::metadata(dir.join("f")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::read_dir(dir.join("no")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::remove_file(dir.join("f")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::remove_dir(dir.join("no")).await), ErrorKind::NotFound);
        assert_eq!(kind(File::open("").await), ErrorKind::NotFound);
    });
}

/// ENOTDIR: "A component used as a directory in pathname is not, in fact, a directory."
#[test]
fn a_path_that_goes_through_a_file_is_refused() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"").await;
        let through = dir.join("f").join("g");
        assert_eq!(kind(File::open(&through).await), ErrorKind::NotADirectory);
        assert_eq!(kind(File::create(&through).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::metadata(&through).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::create_dir(&through).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::remove_file(&through).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::read_dir(dir.join("f")).await), ErrorKind::NotADirectory);
    });
}

/// `std::fs::exists` says no to ENOENT alone; what cannot be looked at is an error.
#[test]
fn only_what_is_missing_does_not_exist() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"").await;
        assert!(fs::exists(dir.join("f")).await.expect("asked"));
        assert!(fs::exists(&dir).await.expect("asked"));
        assert!(!fs::exists(dir.join("g")).await.expect("asked"));
        assert!(!fs::exists(dir.join("no/g")).await.expect("asked"));
        assert_eq!(kind(fs::exists(dir.join("f/g")).await), ErrorKind::NotADirectory);
    });
}

/// EISDIR: "pathname refers to a directory and the access requested involved writing"; read(2) has it for the rest.
#[test]
fn a_folder_is_neither_written_nor_read_as_a_file() {
    on_a_machine(async |dir| {
        assert_eq!(kind(File::options().write(true).open(&dir).await), ErrorKind::IsADirectory);
        assert_eq!(kind(File::create(&dir).await), ErrorKind::IsADirectory);
        assert_eq!(kind(fs::read(&dir).await), ErrorKind::IsADirectory);
    });
}

/// path_resolution(7): a trailing slash "forces resolution of the preceding component as [...] a directory".
#[test]
fn a_trailing_slash_asks_for_a_folder() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"").await;
        assert_eq!(kind(File::open(dir.join("f/")).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::metadata(dir.join("f/")).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::remove_file(dir.join("f/")).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::rename(dir.join("f"), dir.join("g/")).await), ErrorKind::NotADirectory);
        assert_eq!(kind(File::create(dir.join("g/")).await), ErrorKind::IsADirectory);
        fs::create_dir(dir.join("d/")).await.expect("made");
        fs::rename(dir.join("d/"), dir.join("e/")).await.expect("renamed");
        assert_eq!(names(&dir).await, ["e", "f"]);
    });
}

/// `..` is an entry of the folder that is left, so that folder must exist; the root's leads to the root.
#[test]
fn the_way_up_leads_through_folders_that_exist() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"found").await;
        fs::create_dir(dir.join("d")).await.expect("made");
        is(&dir.join("d/../f"), b"found").await;
        is(&dir.join("./d/.././f"), b"found").await;
        assert_eq!(kind(fs::read(dir.join("no/../f")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::read(dir.join("f/../f")).await), ErrorKind::NotADirectory);
        assert!(fs::metadata("/../..").await.expect("the root").is_dir());
    });
}

/// `std::fs::OpenOptions` refuses with EINVAL before the system is asked.
#[test]
fn options_that_contradict_each_other_are_invalid() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        let mut none = File::options();
        let mut cuts_what_it_only_reads = File::options();
        let mut creates_what_it_only_reads = File::options();
        let mut appends_to_nothing = File::options();
        cuts_what_it_only_reads.read(true).truncate(true);
        creates_what_it_only_reads.read(true).create(true);
        appends_to_nothing.append(true).truncate(true);
        for options in [
            &mut none,
            &mut cuts_what_it_only_reads,
            &mut creates_what_it_only_reads,
            &mut appends_to_nothing,
        ] {
            assert_eq!(kind(options.open(&path).await), ErrorKind::InvalidInput);
        }
        assert!(!fs::exists(&path).await.expect("asked"));
    });
}

/// ENAMETOOLONG beyond NAME_MAX, 255 bytes; a NUL cannot be part of a path at all.
#[test]
fn names_are_up_to_255_bytes_without_a_nul() {
    on_a_machine(async |dir| {
        has(&dir.join("n".repeat(255)), b"").await;
        assert_eq!(kind(File::create(dir.join("n".repeat(256))).await), ErrorKind::InvalidFilename);
        assert_eq!(kind(File::create(dir.join("a\0b")).await), ErrorKind::InvalidInput);
        assert_eq!(kind(fs::metadata(dir.join("a\0b")).await), ErrorKind::InvalidInput);
    });
}

/// Names are bytes: neither case nor encoding means anything.
#[cfg(unix)]
#[test]
fn names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    on_a_machine(async |dir| {
        for name in [&b"log"[..], b"Log", b"\xFF\xFE"] {
            has(&dir.join(OsStr::from_bytes(name)), name).await;
        }
        for name in [&b"log"[..], b"Log", b"\xFF\xFE"] {
            is(&dir.join(OsStr::from_bytes(name)), name).await;
        }
        assert_eq!(fs::read_dir(&dir).await.expect("listed").len(), 3);
    });
}

// ---- names

/// unlink(2): "the file will remain in existence until the last file descriptor referring to it is closed".
#[test]
fn an_open_file_outlives_its_name() {
    on_a_machine(async |dir| {
        let file = both_ways(&dir.join("f")).await;
        file.write_all_at(b"old", 0).await.expect("written");
        fs::remove_file(dir.join("f")).await.expect("removed");
        assert!(!fs::exists(dir.join("f")).await.expect("asked"));
        assert_eq!(file.append(b"er").await.expect("written"), 3);
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).await.expect("read");
        assert_eq!(&bytes, b"older");
        assert_eq!(file.metadata().await.expect("asked").len(), 5);
        file.set_len(2).await.expect("cut");
        file.sync_all().await.expect("synced");
    });
}

/// The name that was removed is free; what gets it is another file.
#[test]
fn a_name_that_was_removed_can_be_taken_by_another_file() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        let old = both_ways(&path).await;
        old.write_all_at(b"old", 0).await.expect("written");
        fs::remove_file(&path).await.expect("removed");
        has(&path, b"new").await;
        old.write_all_at(b"OLD", 0).await.expect("written");
        is(&path, b"new").await;
    });
}

/// rename(2): "If newpath already exists, it will be atomically replaced"; "Open file descriptors for oldpath are
/// also unaffected."
#[test]
fn handles_stay_with_their_files_when_one_is_renamed_over_the_other() {
    on_a_machine(async |dir| {
        let (from, to) = (both_ways(&dir.join("from")).await, both_ways(&dir.join("to")).await);
        from.write_all_at(b"from", 0).await.expect("written");
        to.write_all_at(b"to", 0).await.expect("written");
        fs::rename(dir.join("from"), dir.join("to")).await.expect("renamed");
        from.append(b"!").await.expect("written");
        to.append(b"?").await.expect("written");
        is(&dir.join("to"), b"from!").await;
        let mut bytes = [0; 3];
        to.read_exact_at(&mut bytes, 0).await.expect("read");
        assert_eq!(&bytes, b"to?");
        assert_eq!(names(&dir).await, ["to"]);
    });
}

/// "If oldpath and newpath are existing hard links referring to the same file, then rename() does nothing".
#[test]
fn a_rename_onto_itself_does_nothing() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"bytes").await;
        fs::rename(dir.join("f"), dir.join("f")).await.expect("nothing to do");
        is(&dir.join("f"), b"bytes").await;
        fs::rename(&dir, &dir).await.expect("nothing to do");
    });
}

/// ENOENT: "The link named by oldpath does not exist; or, a directory component in newpath does not exist".
#[test]
fn a_rename_from_or_to_nowhere_is_not_found() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"bytes").await;
        assert_eq!(kind(fs::rename(dir.join("g"), dir.join("h")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::rename(dir.join("f"), dir.join("no/f")).await), ErrorKind::NotFound);
        is(&dir.join("f"), b"bytes").await;
    });
}

/// A folder moves with all that is in it, and handles of files in it do not care.
#[test]
fn a_folder_moves_with_what_is_in_it() {
    on_a_machine(async |dir| {
        fs::create_dir_all(dir.join("a/b")).await.expect("made");
        let file = both_ways(&dir.join("a/b/f")).await;
        fs::rename(dir.join("a"), dir.join("c")).await.expect("renamed");
        file.append(b"still here").await.expect("written");
        is(&dir.join("c/b/f"), b"still here").await;
        assert!(!fs::exists(dir.join("a")).await.expect("asked"));
    });
}

/// "oldpath can specify a directory. In this case, newpath must either not exist, or it must specify an empty
/// directory."
#[test]
fn a_folder_replaces_an_empty_folder_and_no_other() {
    on_a_machine(async |dir| {
        fs::create_dir_all(dir.join("a/inner")).await.expect("made");
        fs::create_dir(dir.join("empty")).await.expect("made");
        fs::create_dir(dir.join("full")).await.expect("made");
        has(&dir.join("full/f"), b"").await;
        assert_eq!(kind(fs::rename(dir.join("a"), dir.join("full")).await), ErrorKind::DirectoryNotEmpty);
        fs::rename(dir.join("a"), dir.join("empty")).await.expect("renamed");
        assert_eq!(names(&dir).await, ["empty", "full"]);
        assert_eq!(names(&dir.join("empty")).await, ["inner"]);
    });
}

/// EISDIR: "newpath is an existing directory, but oldpath is not a directory"; ENOTDIR: the other way round.
#[test]
fn files_replace_files_and_folders_replace_folders() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"").await;
        fs::create_dir(dir.join("d")).await.expect("made");
        assert_eq!(kind(fs::rename(dir.join("f"), dir.join("d")).await), ErrorKind::IsADirectory);
        assert_eq!(kind(fs::rename(dir.join("d"), dir.join("f")).await), ErrorKind::NotADirectory);
        assert_eq!(names(&dir).await, ["d", "f"]);
    });
}

/// EINVAL: "an attempt was made to make a directory a subdirectory of itself".
#[test]
fn a_folder_does_not_move_into_itself() {
    on_a_machine(async |dir| {
        fs::create_dir_all(dir.join("a/b")).await.expect("made");
        assert_eq!(kind(fs::rename(dir.join("a"), dir.join("a/c")).await), ErrorKind::InvalidInput);
        assert_eq!(kind(fs::rename(dir.join("a"), dir.join("a/b/c")).await), ErrorKind::InvalidInput);
        assert_eq!(kind(fs::rename(dir.join("a/b"), dir.join("a")).await), ErrorKind::DirectoryNotEmpty);
    });
}

/// unlink(2): EISDIR for a folder ("the non-POSIX value returned by Linux"); rmdir(2): ENOTDIR, ENOTEMPTY.
#[test]
fn files_and_empty_folders_are_removed_each_in_their_own_way() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"").await;
        fs::create_dir_all(dir.join("d/inner")).await.expect("made");
        assert_eq!(kind(fs::remove_file(dir.join("d")).await), ErrorKind::IsADirectory);
        assert_eq!(kind(fs::remove_dir(dir.join("f")).await), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::remove_dir(dir.join("d")).await), ErrorKind::DirectoryNotEmpty);
        fs::remove_dir(dir.join("d/inner")).await.expect("removed");
        fs::remove_dir(dir.join("d")).await.expect("removed");
        fs::remove_file(dir.join("f")).await.expect("removed");
        assert!(names(&dir).await.is_empty());
        has(&dir.join("d"), b"a file now").await;
    });
}

/// mkdir(2): EEXIST for whatever has the name, ENOENT when a folder on the way is missing.
#[test]
fn a_folder_is_made_where_nothing_is_and_its_parent_is() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"").await;
        assert_eq!(kind(fs::create_dir(&dir).await), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs::create_dir(dir.join("f")).await), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs::create_dir(dir.join("no/d")).await), ErrorKind::NotFound);
        assert_eq!(kind(fs::create_dir("/").await), ErrorKind::AlreadyExists);
    });
}

/// `std::fs::create_dir_all` is mkdir from the top down: what is a folder already is fine, a file is in the way.
#[test]
fn folders_are_made_all_the_way_down() {
    on_a_machine(async |dir| {
        fs::create_dir_all(dir.join("a/b/c/")).await.expect("made");
        fs::create_dir_all(dir.join("a/b/c")).await.expect("there already");
        has(&dir.join("a/f"), b"").await;
        assert_eq!(kind(fs::create_dir_all(dir.join("a/f")).await), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs::create_dir_all(dir.join("a/f/d")).await), ErrorKind::NotADirectory);
        assert_eq!(names(&dir.join("a")).await, ["b", "f"]);
    });
}

/// readdir(3) without `.` and `..`, which std leaves out; the order is nobody's promise.
#[test]
fn a_listing_has_every_name_once_and_says_what_it_is() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"bytes").await;
        fs::create_dir(dir.join("d")).await.expect("made");
        has(&dir.join("d/hidden"), b"").await;
        assert_eq!(names(&dir).await, ["d", "f"]);
        let entries = fs::read_dir(&dir).await.expect("listed");
        let file = entries.iter().find(|entry| entry.file_name() == "f").expect("listed");
        assert_eq!(file.path(), dir.join("f"));
        let about = fs::metadata(dir.join("f")).await.expect("asked");
        assert!(about.is_file() && !about.is_dir() && about.len() == 5);
        assert!(fs::metadata(dir.join("d")).await.expect("asked").is_dir());
    });
}

// ---- bytes

/// read(2): "zero indicates end of file"; fewer bytes than asked for are no error.
#[test]
fn a_read_gets_what_is_there_and_nothing_past_the_end() {
    on_a_machine(async |dir| {
        let file = both_ways(&dir.join("f")).await;
        file.write_all_at(b"bytes", 0).await.expect("written");
        let mut into = [0xFF; 4];
        assert_eq!(file.read_at(&mut into, 3).await.expect("read"), 2);
        assert_eq!(into, [b'e', b's', 0xFF, 0xFF]);
        assert_eq!(file.read_at(&mut into, 5).await.expect("read"), 0);
        assert_eq!(file.read_at(&mut into, 1 << 40).await.expect("read"), 0);
        assert_eq!(kind(file.read_exact_at(&mut into, 3).await), ErrorKind::UnexpectedEof);
    });
}

/// lseek(2): "subsequent reads of the data in the gap (a 'hole') return null bytes until data is actually written".
#[test]
fn a_write_beyond_the_end_leaves_a_hole_that_reads_zero() {
    on_a_machine(async |dir| {
        let file = both_ways(&dir.join("f")).await;
        file.write_all_at(b"a", 0).await.expect("written");
        file.write_all_at(b"z", 9).await.expect("written");
        is(&dir.join("f"), b"a\0\0\0\0\0\0\0\0z").await;
    });
}

/// write(2) of nothing to a regular file returns 0 "without causing any other effect".
#[test]
fn a_write_of_nothing_beyond_the_end_changes_nothing() {
    on_a_machine(async |dir| {
        let file = both_ways(&dir.join("f")).await;
        assert_eq!(file.write_at(b"", 100).await.expect("written"), 0);
        assert_eq!(file.len().await.expect("asked"), 0);
    });
}

/// ftruncate(2): "the extra data is lost. If the file previously was shorter, it is extended, and the extended part
/// reads as null bytes".
#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_grows() {
    on_a_machine(async |dir| {
        let file = both_ways(&dir.join("f")).await;
        file.write_all_at(b"secret", 0).await.expect("written");
        file.set_len(2).await.expect("cut");
        is(&dir.join("f"), b"se").await;
        file.set_len(6).await.expect("extended");
        is(&dir.join("f"), b"se\0\0\0\0").await;
    });
}

/// ftruncate(2): "The file offset is not changed", so a write through a cursor past the end leaves a hole.
#[test]
fn a_cut_leaves_the_cursor_where_it_is() {
    on_a_machine(async |dir| {
        let mut file = both_ways(&dir.join("f")).await;
        file.write_all(b"bytes").await.expect("written");
        file.set_len(1).await.expect("cut");
        assert_eq!(file.read(&mut [0; 4]).await.expect("read"), 0);
        file.write_all(b"!").await.expect("written");
        is(&dir.join("f"), b"b\0\0\0\0!").await;
    });
}

/// O_APPEND: "Before each write(2), the file offset is positioned at the end of the file".
#[test]
fn appends_go_to_the_end_whoever_wrote_there() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        let mut one = File::options().append(true).create(true).open(&path).await.expect("opened");
        let mut other = File::options().append(true).open(&path).await.expect("opened");
        one.write_all(b"one ").await.expect("written");
        other.write_all(b"two ").await.expect("written");
        one.seek(SeekFrom::Start(0)).await.expect("sought");
        one.write_all(b"three").await.expect("written");
        is(&path, b"one two three").await;
    });
}

/// pwrite(2), BUGS: "on Linux, if a file is opened with O_APPEND, pwrite() appends data to the end of the file,
/// regardless of the value of offset."
#[test]
fn a_file_opened_for_appending_is_written_at_its_end_and_nowhere_else() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        has(&path, b"bytes").await;
        let file = File::options().append(true).open(&path).await.expect("opened");
        assert_eq!(file.write_at(b"!", 0).await.expect("written"), 1);
        is(&path, b"bytes!").await;
    });
}

/// EBADF: "fd is not a valid file descriptor or is not open for writing" (and so for reading).
#[test]
fn a_handle_does_what_it_was_opened_for_and_nothing_else() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        has(&path, b"bytes").await;
        let reader = File::open(&path).await.expect("opened");
        let writer = File::options().write(true).open(&path).await.expect("opened");
        let appender = File::options().append(true).open(&path).await.expect("opened");
        assert_eq!(os_error(reader.write_at(b"!", 0).await), EBADF);
        assert_eq!(os_error((&reader).write(b"!").await), EBADF);
        assert_eq!(os_error(writer.read_at(&mut [0], 0).await), EBADF);
        assert_eq!(os_error(appender.read_at(&mut [0], 0).await), EBADF);
        is(&path, b"bytes").await;
    });
}

/// ftruncate(2) on what is not open for writing is EINVAL on Linux, where write(2) is EBADF.
#[test]
fn a_file_opened_for_reading_cannot_be_cut() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"bytes").await;
        let reader = File::open(dir.join("f")).await.expect("opened");
        assert_eq!(kind(reader.set_len(0).await), ErrorKind::InvalidInput);
        is(&dir.join("f"), b"bytes").await;
    });
}

/// fsync(2) is about the file, so any descriptor will do, one for reading too.
#[test]
fn a_file_opened_for_reading_can_be_synced() {
    on_a_machine(async |dir| {
        has(&dir.join("f"), b"bytes").await;
        let reader = File::open(dir.join("f")).await.expect("opened");
        reader.sync_all().await.expect("synced");
        reader.sync_data().await.expect("synced");
    });
}

/// There is one page cache: "a read(2) that can be proved to occur after a write() has returned will return the new
/// data".
#[test]
fn handles_see_what_others_wrote_at_once() {
    on_a_machine(async |dir| {
        let (one, other) = (both_ways(&dir.join("f")).await, both_ways(&dir.join("f")).await);
        one.write_all_at(b"bytes", 0).await.expect("written");
        let mut bytes = [0; 5];
        other.read_exact_at(&mut bytes, 0).await.expect("read");
        assert_eq!((&bytes, other.len().await.expect("asked")), (b"bytes", 5));
        other.set_len(1).await.expect("cut");
        assert_eq!(one.read_at(&mut bytes, 0).await.expect("read"), 1);
    });
}

/// open(2): "A call to open() creates a new open file description", with an offset of its own; dup(2) shares it.
#[test]
fn a_cursor_belongs_to_an_open_and_is_shared_by_clones() {
    on_a_machine(async |dir| {
        let path = dir.join("f");
        has(&path, b"hello, world").await;
        let mut file = File::open(&path).await.expect("opened");
        let mut clone = file.clone();
        let mut another = File::open(&path).await.expect("opened");
        let mut bytes = [0; 5];
        file.read_exact(&mut bytes).await.expect("read");
        assert_eq!(clone.seek(SeekFrom::Current(2)).await.expect("sought"), 7);
        let mut rest = String::new();
        file.read_to_string(&mut rest).await.expect("read");
        assert_eq!(rest, "world");
        another.read_exact(&mut bytes).await.expect("read");
        assert_eq!(&bytes, b"hello");
    });
}

/// pread(2): "The file offset is not changed."
#[test]
fn reads_and_writes_at_an_offset_leave_the_cursor_where_it_is() {
    on_a_machine(async |dir| {
        let mut file = both_ways(&dir.join("f")).await;
        file.write_all(b"bytes").await.expect("written");
        file.write_all_at(b"B", 0).await.expect("written");
        file.read_at(&mut [0; 2], 1).await.expect("read");
        assert_eq!(file.stream_position().await.expect("asked"), 5);
    });
}

/// lseek(2) "allows the file offset to be set beyond the end of the file (but this does not change the size of the
/// file)";
/// EINVAL for "the resulting file offset would be negative".
#[test]
fn a_cursor_may_stand_beyond_the_end_and_not_before_the_beginning() {
    on_a_machine(async |dir| {
        let mut file = both_ways(&dir.join("f")).await;
        file.write_all(b"bytes").await.expect("written");
        assert_eq!(file.seek(SeekFrom::End(3)).await.expect("sought"), 8);
        assert_eq!(file.read(&mut [0; 4]).await.expect("read"), 0);
        assert_eq!(file.len().await.expect("asked"), 5);
        assert_eq!(kind(file.seek(SeekFrom::Current(-9)).await), ErrorKind::InvalidInput);
        assert_eq!(file.stream_position().await.expect("asked"), 8, "a refused seek goes nowhere");
        assert_eq!(file.seek(SeekFrom::End(-5)).await.expect("sought"), 0);
    });
}

/// close(2) syncs nothing and loses nothing: the page cache is the kernel's.
#[test]
fn what_was_written_is_there_after_the_handle_is_gone() {
    on_a_machine(async |dir| {
        let mut file = both_ways(&dir.join("f")).await;
        file.write_all(b"bytes").await.expect("written");
        file.flush().await.expect("flushed");
        file.close().await.expect("closed");
        drop(file);
        is(&dir.join("f"), b"bytes").await;
        assert_eq!(fs::read_to_string(dir.join("f")).await.expect("it is text"), "bytes");
        has(&dir.join("f"), b"\xFF").await;
        assert_eq!(kind(fs::read_to_string(dir.join("f")).await), ErrorKind::InvalidData);
    });
}

// ---- what only a crash shows

/// The machine, seen from the harness.
#[derive(Clone)]
struct Machine {
    world: Handle,
    disks: Rc<Disks>,
}

impl Machine {
    async fn does<T: 'static>(&self, what: impl Future<Output = io::Result<T>> + 'static) -> T {
        let owner = Owner { node: NODE, incarnation: self.world.incarnation(NODE) };
        let done = self.world.spawn_on(owner, "scene", 0, what).await;
        done.expect("the machine is up").expect("no call is refused")
    }

    fn loses_power(&self) {
        self.world.power_off(&[NODE], 1);
        self.world.boot(NODE);
    }
}

/// Plays a scene in which the machine may crash.
fn crashing<T: 'static>(seed: u64, scene: impl AsyncFnOnce(Machine) -> T + 'static) -> T {
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
    let mut world = World::new(seed, options);
    let handle = world.handle();
    handle.add_node("n1", std::future::pending::<()>);
    handle.boot(NODE);
    let machine = Machine { disks: handle.device(), world: handle };
    let end = world.run(async move { scene(machine).await });
    end.unwrap_or_else(|| panic!("the scene did not end: {:?}", world.report().findings.failures))
}

/// In how many of 200 worlds a scene ends with `true`.
fn times(scene: impl AsyncFn(Machine) -> bool + Clone + 'static) -> usize {
    let play = |seed: &u64| {
        let scene = scene.clone();
        crashing(*seed, async move |n1| scene(n1).await)
    };
    (0..200).filter(play).count()
}

/// fdatasync(2) "does not flush modified metadata unless that metadata is needed in order to allow a subsequent data
/// retrieval to be correctly handled": the length is.
#[test]
fn a_sync_of_data_alone_keeps_the_length() {
    let kept = times(async |n1: Machine| {
        n1.does(async {
            let file = File::create("/f").await?;
            fs::sync_dir("/").await?;
            file.write_all_at(b"tail", 5_000).await?;
            file.sync_data().await?;
            file.set_len(9_000).await?;
            file.sync_data().await
        })
        .await;
        n1.loses_power();
        let bytes = n1.does(fs::read("/f")).await;
        bytes.len() == 9_000 && &bytes[5_000..5_004] == b"tail"
    });
    assert_eq!(kept, 200);
}

/// fsync(2) transfers "all modified in-core data of the file referred to by the file descriptor", whoever wrote it.
#[test]
fn a_sync_covers_what_other_handles_wrote() {
    let kept = times(async |n1: Machine| {
        n1.does(async {
            let (one, other) = (File::create("/f").await?, File::options().write(true).open("/f").await?);
            fs::sync_dir("/").await?;
            one.write_all_at(b"one", 0).await?;
            other.sync_all().await
        })
        .await;
        n1.loses_power();
        n1.does(fs::read("/f")).await == b"one"
    });
    assert_eq!(kept, 200);
}

/// fsync(2): "Calling fsync() does not necessarily ensure that the entry in the directory containing the file has
/// also reached disk." Nor that of the folder's folder.
#[test]
fn a_file_in_a_new_folder_is_safe_when_both_folders_are_synced_and_not_before() {
    let kept = |all_the_way: bool| {
        times(async move |n1: Machine| {
            n1.does(async move {
                fs::create_dir("/d").await?;
                let file = File::create("/d/f").await?;
                file.sync_all().await?;
                fs::sync_dir("/d").await?;
                if all_the_way { fs::sync_dir("/").await } else { Ok(()) }
            })
            .await;
            n1.loses_power();
            n1.does(fs::exists("/d/f")).await
        })
    };
    assert!((20..180).contains(&kept(false)));
    assert_eq!(kept(true), 200);
}

/// A removal is a change of the folder like any other: without a sync of it the file may be back.
#[test]
fn a_removed_file_may_be_back_after_a_power_loss_and_is_whole_then() {
    let back = times(async |n1: Machine| {
        n1.does(async {
            fs::write("/f", b"bytes").await?;
            File::open("/f").await?.sync_all().await?;
            fs::sync_dir("/").await?;
            fs::remove_file("/f").await
        })
        .await;
        n1.loses_power();
        let there = n1.does(fs::exists("/f")).await;
        assert!(!there || n1.does(fs::read("/f")).await == b"bytes");
        there
    });
    assert!((20..180).contains(&back), "{back}");
}

/// CLOCK_MONOTONIC starts anew with the machine; CLOCK_REALTIME is kept by a battery.
#[test]
fn after_a_restart_instants_begin_again_and_wall_time_goes_on() {
    crashing(1, async |n1: Machine| {
        let clocks = || async { Ok((Instant::now(), time::wall_now())) };
        sleep(Duration::from_secs(10)).await;
        let (boot, wall) = n1.does(clocks()).await;
        sleep(Duration::from_secs(5)).await;
        let before = n1.does(clocks()).await;
        assert_eq!((before.0 - boot, before.1 - wall), (Duration::from_secs(5), Duration::from_secs(5)));
        n1.loses_power();
        sleep(Duration::from_secs(1)).await;
        let after = n1.does(clocks()).await;
        assert!(after.0 < before.0, "an instant of the second boot is earlier than one of the first");
        assert_eq!(after.1 - wall, Duration::from_secs(6));
    });
}

/// What a power loss leaves is what programs see: nothing unsynced hides in a cache.
#[test]
fn after_a_power_loss_what_is_seen_is_what_is_on_the_disk() {
    let changed = times(async |n1: Machine| {
        n1.does(async {
            fs::create_dir("/d").await?;
            fs::write("/d/f", [7; 3_000]).await?;
            fs::write("/g", [8; 3_000]).await
        })
        .await;
        let before = n1.disks.visible_image(NODE);
        n1.loses_power();
        assert_eq!(n1.disks.visible_image(NODE), n1.disks.durable_image(NODE));
        n1.disks.visible_image(NODE) != before
    });
    assert!(changed > 100);
}
