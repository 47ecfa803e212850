//! JSON lines.
//!
//! Invariants: one object a line; empty lines are skipped; time does not go back from line to line.
//! Not here: what the keys mean (`datum.rs`).

use serde_json::Value;

use super::datum::{Datum, Event, KEYS, event_of};
use super::{Malformed, malformed};

pub fn events(text: &str) -> Result<Vec<Event>, Malformed> {
    let mut events: Vec<Event> = Vec::new();
    // The latest time, and its line.
    let mut latest: Option<(u64, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(Value::Object(map)) => {
                let mut pairs = Vec::with_capacity(map.len());
                // What else a tool notes down may be anything.
                for (key, value) in map.into_iter().filter(|(key, _)| KEYS.contains(&key.as_str())) {
                    pairs.push((Datum::Text(key), datum(value, number)?));
                }
                let Some(event) = event_of(&pairs, number)? else { continue };
                if let (Some(time_ns), Some((latest_ns, line))) = (event.time_ns, latest)
                    && time_ns < latest_ns
                {
                    let what = format!(
                        "lines in the order of their time expected: {time_ns} is before {latest_ns} of line {line}"
                    );
                    return malformed(number, what);
                }
                latest = event.time_ns.map(|time_ns| (time_ns, number)).or(latest);
                events.push(event);
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
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Datum::Int(number),
            // What is larger has lost digits by now, and two of them might seem equal.
            (_, Some(float)) if number.is_u64() || float.fract() != 0.0 => Datum::Literal(number.to_string()),
            _ => return malformed(line, format!("a whole number below 2^64 expected, not `{number}`")),
        },
        Value::String(text) => Datum::Text(text),
        Value::Array(items) => {
            Datum::List(items.into_iter().map(|item| datum(item, line)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let pair = |(key, value)| Ok((Datum::Text(key), datum(value, line)?));
            Datum::Map(map.into_iter().map(pair).collect::<Result<_, _>>()?)
        }
    })
}
