//! Datum: a value as a file has it, and an event made of such values.
//!
//! Invariants: numbers are integers; a key is written the same way whatever the format.
//! Not here: syntax (`json.rs`, `edn.rs`), meaning (`meaning.rs`).

use std::fmt;

use super::{Malformed, malformed};

/// A value of JSON or EDN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// `null`, `nil`.
    Nil,
    /// `true`, `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Any other number, and a character of EDN, as it is written. It is a value like others, equal to itself only.
    Literal(String),
    /// A string.
    Text(String),
    /// An EDN keyword, without the colon.
    Keyword(String),
    /// Any sequence.
    List(Vec<Datum>),
    /// Pairs, in the order of the file.
    Map(Vec<(Datum, Datum)>),
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Nil => f.write_str("nil"),
            Datum::Bool(value) => write!(f, "{value}"),
            Datum::Int(value) => write!(f, "{value}"),
            Datum::Text(text) | Datum::Literal(text) => f.write_str(text),
            Datum::Keyword(word) => write!(f, ":{word}"),
            Datum::List(items) => {
                let items: Vec<String> = items.iter().map(Datum::to_string).collect();
                write!(f, "[{}]", items.join(" "))
            }
            Datum::Map(_) => f.write_str("{..}"),
        }
    }
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

/// One event of a history.
#[derive(Clone, Debug)]
pub struct Event {
    pub line: usize,
    pub process: String,
    pub kind: Kind,
    pub f: String,
    pub key: String,
    pub value: Datum,
    pub time_ns: Option<u64>,
}

impl Kind {
    pub fn of(word: &str, line: usize) -> Result<Kind, Malformed> {
        match word {
            "invoke" => Ok(Kind::Invoke),
            "ok" => Ok(Kind::Ok),
            "fail" => Ok(Kind::Fail),
            "info" => Ok(Kind::Info),
            _ => malformed(line, format!("type invoke, ok, fail or info expected, not `{word}`")),
        }
    }
}

/// What is looked at of an event.
pub const KEYS: [&str; 6] = ["process", "type", "f", "key", "value", "time"];

/// The event that a map stands for; `None` if it is of no client.
pub fn event_of(map: &[(Datum, Datum)], line: usize) -> Result<Option<Event>, Malformed> {
    let find = |name: &str| {
        let is_it = |key: &Datum| matches!(key, Datum::Keyword(word) | Datum::Text(word) if word == name);
        map.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
    };
    let word = |name: &str| match find(name) {
        Some(Datum::Keyword(word) | Datum::Text(word)) => Ok(word.clone()),
        Some(other) => malformed(line, format!("a name expected as {name}, not `{other}`")),
        None => malformed(line, format!("an event with `{name}` expected")),
    };
    let process = match find("process") {
        Some(Datum::Int(number)) => number.to_string(),
        // Faults and other actors that are not clients; a keyword becomes a string on its way from EDN to JSON.
        Some(Datum::Keyword(_)) => return Ok(None),
        Some(Datum::Text(name)) if name == "nemesis" || name.starts_with(':') => return Ok(None),
        Some(Datum::Text(name)) => name.clone(),
        Some(other) => return malformed(line, format!("a number expected as process, not `{other}`")),
        None => return malformed(line, "an event with `process` expected"),
    };
    let kind = Kind::of(&word("type")?, line)?;
    let f = word("f")?;
    let time_ns = match find("time") {
        None | Some(Datum::Nil) => None,
        Some(Datum::Int(time)) if *time >= 0 => Some(*time as u64),
        Some(other) => return malformed(line, format!("nanoseconds expected as time, not `{other}`")),
    };
    let key = find("key").map(Datum::to_string).unwrap_or_default();
    let value = find("value").cloned().unwrap_or(Datum::Nil);
    Ok(Some(Event { line, process, kind, f, key, value, time_ns }))
}
