//! JSON lines.
//!
//! Invariants: one object a line; empty lines are skipped.
//! Not here: what the keys mean (`datum.rs`).

use serde_json::Value;

use super::datum::{Datum, Event, event_of};
use super::{Malformed, malformed};

pub fn events(text: &str) -> Result<Vec<Event>, Malformed> {
    let mut events = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(Value::Object(map)) => {
                let mut pairs = Vec::with_capacity(map.len());
                for (key, value) in map {
                    pairs.push((Datum::Text(key), datum(value, number)?));
                }
                events.extend(event_of(&pairs, number)?);
            }
            Ok(other) => return malformed(number, format!("an object expected, not `{other}`")),
            Err(error) => {
                let text = error.to_string();
                let why = text.split(" at line").next().unwrap_or_default();
                return malformed(
                    number,
                    format!("a JSON object expected: {why} at column {}", error.column()),
                );
            }
        }
    }
    Ok(events)
}

fn datum(value: Value, line: usize) -> Result<Datum, Malformed> {
    Ok(match value {
        Value::Null => Datum::Nil,
        Value::Bool(value) => Datum::Bool(value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Datum::Int(number),
            None => return malformed(line, format!("a whole number below 2^63 expected, not `{number}`")),
        },
        Value::String(text) => Datum::Text(text),
        Value::Array(items) => {
            Datum::List(items.into_iter().map(|item| datum(item, line)).collect::<Result<_, _>>()?)
        }
        Value::Object(_) => return malformed(line, "a number, a string or an array expected, not an object"),
    })
}
