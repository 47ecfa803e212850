//! Read: recorded histories from files.
//!
//! ```text
//!   text ─┬─ json lines ─┐
//!         ├─ edn ────────┼─► events (process, type, f, key, value, time, line) ─► pairing ─► history of a model
//!         └─ jepsen log ─┘
//! ```
//!
//! **JSON lines**: one object a line, one event each: `process` (a number or a string), `type` (`invoke`, `ok`,
//! `fail`, `info`), `f` (what was called), optionally `key` (anything; without it there is one object), `value` and
//! `time` (nanoseconds). Empty lines are skipped, and so are all other members, and the events of a process `"nemesis"`.
//! The order of the lines is the order of the events; a `time` that contradicts it is refused.
//!
//! | model | `f` | `value` of the call | `value` of the answer |
//! |---|---|---|---|
//! | register, cas-register | `read` | | what was there, `null` for nothing |
//! | | `write` | what is stored | |
//! | cas-register | `cas` | `[expected, new]` | |
//! | kv | `get`, `read` | | what was there: a value, a list, or `null` |
//! | | `put`, `write` | a value or a list | |
//! | | `append` | an element | |
//! | | `cas` | `[expected, new]` | of a failed one, what was there, if it is a `value` other than the call's |
//! | | `delete` | | |
//! | list | `get`, `read`, `put`, `append` | as kv; values may be concatenated strings: `"x 0 1 yx 0 2 y"` | |
//! | set | `add`, `remove`, `contains` | the element | `true` or `false`; else, but for `contains`, that it did something |
//! | queue | `enqueue`, `dequeue` | the element | of a dequeue, the element, `null` for none |
//! | mutex | `acquire`, `release` | | |
//!
//! **EDN** (Jepsen's histories): the same keys as keywords, in a vector, in a list, or as bare maps; commas and
//! comments are as in EDN. The order in the file counts, as it does in Jepsen; `:time` is told in explanations and not
//! compared, since older versions of Jepsen note it down before the event has its place. **Jepsen logs**: `INFO  jepsen.util - PROCESS :TYPE :F VALUE`.
//! Events of processes that are not numbers (`:nemesis`) are skipped in both.
//!
//! An answer to a write may repeat its value, as Jepsen's do, or say something of another kind or nothing; one that says
//! that another value was written is refused.
//!
//! What `fail` says of a compare-and-swap differs between tools: see [`FailedCas`]. A read that failed says nothing.
//!
//! Invariants: what cannot be read is an error with its line and with what was expected there, never a guess.
//! Not here: files (the caller's), verdicts.

mod json;
mod edn;
mod log;
mod datum;
mod pairing;
mod meaning;

use std::collections::BTreeSet;

use crate::history::History;
use crate::models::{collections, kv, mutex, register};

pub use meaning::Names;

/// How a history is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    JsonLines,
    /// Jepsen's EDN, and Porcupine's key-value files.
    Edn,
    /// Lines of Jepsen's log.
    JepsenLog,
}

/// Which object was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A number that is read and written.
    Register,
    /// The same with compare-and-swap.
    CasRegister,
    /// Registers and lists by key.
    Kv,
    /// Lists by key, written as concatenated strings or as arrays.
    List,
    /// A set.
    Set,
    /// A queue.
    Queue,
    /// A lock.
    Mutex,
}

/// What `fail` means of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCas {
    /// It did not happen (Jepsen, Knossos).
    DidNotHappen,
    /// It found another value (Porcupine's etcd model).
    FoundAnother,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// How it is written down.
    pub format: Format,
    /// What was called.
    pub model: Model,
    /// What a failed compare-and-swap says.
    pub failed_cas: FailedCas,
    /// What a register holds first; `None`: nothing.
    pub first: Option<i64>,
}

/// Why a history cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Malformed {
    /// Counted from 1.
    pub line: usize,
    /// What was expected, and what is there.
    pub what: String,
}

/// A history of some model, keys as they are written.
#[derive(Debug)]
pub enum Recorded {
    /// Of registers, with and without compare-and-swap.
    Register {
        /// The history.
        history: History<String, register::Input, register::Output>,
        /// What is there at first.
        first: u64,
    },
    /// Of keys that hold registers or lists.
    Kv(History<String, kv::Input, kv::Output>),
    /// Of sets.
    Set(History<String, collections::SetInput, bool>),
    /// Of queues.
    Queue(History<String, collections::QueueInput, collections::QueueOutput>),
    /// Of locks.
    Mutex(History<String, mutex::Input, bool>),
}

/// A history with the names of what was numbered to read it.
#[derive(Debug)]
pub struct File {
    /// The history.
    pub history: Recorded,
    /// Values by their numbers, for explanations.
    pub names: Names,
    /// Processes by their numbers.
    pub processes: Vec<String>,
}

/// The text of a file, without a byte order mark.
///
/// # Errors
/// With the line of the first byte that is not UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, Malformed> {
    let mut text = String::from_utf8(bytes).or_else(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        malformed(line, format!("UTF-8 expected, not the byte {:#04x}", error.as_bytes()[good.len()]))
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Reads a history. O(size).
///
/// # Errors
/// What is malformed first.
pub fn read(text: &str, reading: &Reading) -> Result<File, Malformed> {
    let events = match reading.format {
        Format::JsonLines => json::events(text)?,
        Format::Edn => edn::events(text)?,
        Format::JepsenLog => log::events(text)?,
    };
    meaning::history(events, reading)
}

impl Format {
    /// The format that a text seems to have.
    pub fn guess(text: &str) -> Format {
        let start = text.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let mut rest = start.chars();
        match (rest.next(), rest.find(|c| !c.is_whitespace())) {
            (Some('{'), Some('"')) => Format::JsonLines,
            (Some('{' | '[' | '(' | ';' | '#'), _) => Format::Edn,
            (None, _) => Format::JsonLines,
            _ => Format::JepsenLog,
        }
    }
}

impl Model {
    /// All models by name.
    pub const ALL: [(&'static str, Model); 7] = [
        ("register", Model::Register),
        ("cas-register", Model::CasRegister),
        ("kv", Model::Kv),
        ("list", Model::List),
        ("set", Model::Set),
        ("queue", Model::Queue),
        ("mutex", Model::Mutex),
    ];

    /// The model that these calls seem to be of.
    pub fn guess(text: &str) -> Model {
        let functions = functions(text);
        let has = |f: &str| functions.contains(f);
        if has("acquire") || has("release") {
            Model::Mutex
        } else if has("enqueue") || has("dequeue") {
            Model::Queue
        } else if has("add") || has("contains") || has("remove") {
            Model::Set
        } else if has("append") && text.contains("\"x ") {
            Model::List
        } else if has("get") || has("put") || has("append") || has("delete") {
            Model::Kv
        } else {
            Model::CasRegister
        }
    }
}

/// Which functions seem to be called: the words after `"f"`, `:f` and, in logs, `:invoke`.
fn functions(text: &str) -> BTreeSet<&str> {
    let mut functions = BTreeSet::new();
    for mark in ["\"f\"", ":f", ":invoke"] {
        for (at, _) in text.match_indices(mark) {
            let rest = &text[at + mark.len()..];
            let word = rest.trim_start_matches(|c: char| c.is_whitespace() || ",:\"".contains(c));
            // Not `:foo` for `:f`.
            if word.len() < rest.len() {
                let end = word.find(|c: char| !c.is_alphanumeric() && !"-_".contains(c));
                functions.insert(&word[..end.unwrap_or(word.len())]);
            }
        }
    }
    functions
}

fn malformed<T>(line: usize, what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed { line, what: what.into() })
}
