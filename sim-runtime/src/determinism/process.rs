//! Runs in processes of their own: this executable again, with a request in a file.
//!
//!   parent ──request.json, request.fingerprints──► child: the same test or command, as far as its call of `check`
//!     ▲                                                       │ runs the timeline, compares, ends
//!     └──────────────────── request.reply ◄───────────────────┘
//!
//! A test is executed by its name, which is that of the thread that libtest runs it on; a command by its arguments. A
//! test that calls `check` several times answers in the call of the same number.
//!
//! Invariants: a child runs one timeline and nothing else of what the test or command does after that; one that gives
//! no answer is said to have given none.
#![expect(
    clippy::disallowed_methods,
    reason = "processes, files and their environment are what this is about"
)]

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, process, thread};

use serde::{Deserialize, Serialize};

use super::divergence::Answer;
use super::perform::Conditions;

/// Where a child finds its request.
const REQUEST: &str = "SIM_RUNTIME_ONE_RUN";

/// In what a run is executed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Surroundings {
    SameProcess,
    /// Another process, otherwise the same.
    Process,
    /// In another time zone.
    TimeZone,
    /// With other variables.
    Environment,
    /// In another folder.
    Folder,
}

/// How to start this test or command anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fresh {
    /// As the test of this name, of an executable that libtest's harness is in.
    Test(String),
    /// With these arguments.
    Command(Vec<OsString>),
    /// Not at all.
    Never,
}

impl Fresh {
    /// By the name of this thread, if it looks like a test's: the executable lies in a folder `deps`, as Cargo has it,
    /// and the thread is not the main one, as it is in programs, documentation tests and with `--test-threads 1`.
    pub fn of_this_thread() -> Self {
        let is_test =
            env::current_exe().is_ok_and(|exe| exe.parent().is_some_and(|dir| dir.ends_with("deps")));
        match thread::current().name() {
            Some(name) if is_test && name != "main" => Self::Test(name.to_owned()),
            _ => Self::Never,
        }
    }

    fn arguments(&self) -> Option<Vec<OsString>> {
        match self {
            Self::Test(name) => {
                Some([name, "--exact", "--include-ignored", "--nocapture"].map(OsString::from).to_vec())
            }
            Self::Command(arguments) => Some(arguments.clone()),
            Self::Never => None,
        }
    }
}

/// What a child is asked.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    /// Which call of `check` on its thread is to answer.
    call: u64,
    pub(super) timeline: serde_json::Value,
    pub(super) conditions: Conditions,
    /// Whether there are fingerprints to compare with.
    compare: bool,
}

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The number of this call on this thread, from 1.
pub(super) fn count_call() -> u64 {
    CALLS.set(CALLS.get() + 1);
    CALLS.get()
}

/// What to do in this process.
pub(super) enum Part {
    /// It is nobody's child.
    Parent,
    /// It is, and another call is meant.
    Bystander,
    /// It is to answer.
    Child(Box<Request>, Vec<u64>, PathBuf),
}

/// Which part call number `call` plays.
pub(super) fn part(call: u64) -> Part {
    let Some(path) = env::var_os(REQUEST).map(PathBuf::from) else { return Part::Parent };
    let request = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Request>(&text).ok());
    match request {
        Some(request) if request.call == call => {
            let expected =
                if request.compare { read_numbers(&path.with_extension("fingerprints")) } else { Vec::new() };
            Part::Child(Box::new(request), expected, path)
        }
        _ => Part::Bystander,
    }
}

/// Writes the answer and ends the process.
pub(super) fn answer(request: &Path, answer: &Answer) -> ! {
    let text = serde_json::to_vec(answer).expect("an answer is plain data");
    // A parent that finds no answer says so.
    let written = fs::write(request.with_extension("reply"), text);
    process::exit(i32::from(written.is_err()));
}

fn read_numbers(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap_or_default();
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Asks children about one baseline.
pub(super) struct Children<'a> {
    pub(super) fresh: &'a Fresh,
    pub(super) call: u64,
}

/// How long a child may take.
const PATIENCE: Duration = Duration::from_secs(120);

impl Children<'_> {
    /// Has the timeline run in another process. `None` when no answer comes.
    pub(super) fn ask(
        &self,
        surroundings: Surroundings,
        timeline: &serde_json::Value,
        conditions: &Conditions,
        expected: Option<&[u64]>,
    ) -> Option<Answer> {
        static REQUESTS: AtomicU64 = AtomicU64::new(0);
        let arguments = self.fresh.arguments()?;
        let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("sim-one-run-{}-{number}", process::id()));
        fs::create_dir_all(&folder).ok()?;
        let result = self.ask_in(&folder, arguments, surroundings, timeline, conditions, expected);
        // What is left over in the folder for temporary files harms nobody.
        let _ = fs::remove_dir_all(&folder);
        result.ok()
    }

    fn ask_in(
        &self,
        folder: &Path,
        arguments: Vec<OsString>,
        surroundings: Surroundings,
        timeline: &serde_json::Value,
        conditions: &Conditions,
        expected: Option<&[u64]>,
    ) -> io::Result<Answer> {
        let path = folder.join("request.json");
        let (timeline, conditions) = (timeline.clone(), conditions.clone());
        let request = Request { call: self.call, timeline, conditions, compare: expected.is_some() };
        fs::write(&path, serde_json::to_vec(&request)?)?;
        if let Some(expected) = expected {
            let bytes: Vec<u8> = expected.iter().flat_map(|n| n.to_le_bytes()).collect();
            fs::write(path.with_extension("fingerprints"), bytes)?;
        }
        let mut command = Command::new(env::current_exe()?);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match surroundings {
            Surroundings::SameProcess | Surroundings::Process => {}
            // Both far from everywhere: 14 hours ahead of UTC.
            Surroundings::TimeZone => drop(command.env("TZ", "<XYZ>-14")),
            Surroundings::Environment => change_variables(&mut command),
            Surroundings::Folder => drop(command.current_dir(folder)),
        }
        command.env(REQUEST, &path);
        let mut child = command.spawn()?;
        let since = Instant::now();
        while child.try_wait()?.is_none() {
            if since.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(serde_json::from_slice(&fs::read(path.with_extension("reply"))?)?)
    }
}

/// Takes away every variable that no process needs in order to start, and adds some.
fn change_variables(command: &mut Command) {
    let needed = |name: &str| {
        ["LD_", "DYLD_", "LLVM_", "SystemRoot"].iter().any(|prefix| name.starts_with(prefix))
            || ["PATH", "TMPDIR", "TZ"].contains(&name)
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_none_or(|name| !needed(name)) {
            command.env_remove(name);
        }
    }
    for (name, value) in [("HOME", "/nonexistent"), ("USER", "nobody"), ("LANG", "xx_XX"), ("DEBUG", "1")] {
        command.env(name, value);
    }
}
