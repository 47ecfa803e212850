//! Lines of Jepsen's log: `INFO  jepsen.util - 3 :invoke :read nil`, parted by tabs or blanks;
//! whatever stands before `jepsen.util`, and with a colon for the dash in later versions.
//!
//! Invariants: lines of other loggers are skipped, lines of processes that are not numbers too.
//! Not here: what an answer like `:timed-out` says (`meaning.rs`).

use super::datum::{Datum, Event, Kind};
use super::{Malformed, edn, malformed};

pub fn events(text: &str) -> Result<Vec<Event>, Malformed> {
    let mut events = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let event = line.split_once("jepsen.util - ").or_else(|| line.split_once("jepsen.util: "));
        let Some((_, event)) = event else {
            let is_log = ["INFO", "WARN", "ERROR", "DEBUG"].iter().any(|level| line.contains(level));
            if is_log || line.trim().is_empty() {
                continue;
            }
            return malformed(number, "a line `INFO  jepsen.util - PROCESS :TYPE :F VALUE` expected");
        };
        let (process, rest) = word_and_rest(event);
        let (kind, rest) = word_and_rest(rest);
        let (f, value) = word_and_rest(rest);
        if f.is_empty() {
            return malformed(number, "process, type, function and value, parted by blanks, expected");
        }
        if process.starts_with(':') {
            continue;
        }
        if process.parse::<u64>().is_err() {
            return malformed(number, format!("a number expected as process, not `{process}`"));
        }
        let word = |text: &str| match text.strip_prefix(':') {
            Some(word) => Ok(word.to_owned()),
            None => malformed(number, format!("a keyword expected, not `{text}`")),
        };
        let value = if value.is_empty() { Datum::Nil } else { edn::value(value, number)? };
        events.push(Event {
            line: number,
            process: process.to_owned(),
            kind: Kind::of(&word(kind)?, number)?,
            f: word(f)?,
            key: String::new(),
            value,
            time_ns: None,
        });
    }
    Ok(events)
}

fn word_and_rest(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}
