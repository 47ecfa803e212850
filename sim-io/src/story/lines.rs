//! Lines: a story for programs: as JSON, one object a line, or as plain text, one record a line.
//!
//! In JSON, a deed:
//!
//! ```json
//! {"record": 812, "time_ns": 31204000, "node": 1, "name": "n1", "incarnation": 1, "what": "own", "text": "..",
//!  "causes": [790, 803], "proves": false}
//! ```
//!
//! `causes` are records; `proves` tells those that the violation rests on. `what` may also be `sent`, with `to` (a
//! node), `arrivals` (records), and `lost` (a reason) if it did not arrive; or `received`, with `from` (a node) and `sent`
//! (a record, or null). The last line is `{"violation": ["sentence", ..], "roots": [..]}`, both empty where nothing is
//! wrong.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::deeds::{Deed, Deeds, Passage};
use super::past::Proof;

/// The deeds that are shown, and the proof.
pub fn as_json_lines(deeds: &Deeds, shown: &BTreeSet<u64>, proof: &Proof) -> Vec<String> {
    let of = |ordinal: &u64| object(deeds, *ordinal, proof.roots.contains(ordinal)).to_string();
    let last = json!({ "violation": proof.sentences, "roots": proof.roots });
    shown.iter().map(of).chain([last.to_string()]).collect()
}

/// Every record in a line: its ordinal, its time, who, and what.
pub fn as_plain_lines(deeds: &Deeds) -> Vec<String> {
    let of = |(ordinal, deed): (u64, &Deed)| {
        let us = deed.time_ns / 1_000;
        format!("{ordinal:>7} {:>6}.{:03} ms  {}", us / 1_000, us % 1_000, deeds.sentence(ordinal))
    };
    deeds.iter().map(of).collect()
}

fn object(deeds: &Deeds, ordinal: u64, proves: bool) -> Value {
    let Deed { time_ns, node, incarnation, told, passage } = &deeds[ordinal];
    let mut object = json!({
        "record": ordinal,
        "time_ns": time_ns,
        "node": node.0,
        "name": deeds.name(*node),
        "incarnation": incarnation,
        "text": told.text,
        "causes": told.causes,
        "proves": proves,
    });
    match passage {
        Passage::None => object["what"] = "own".into(),
        Passage::Sent { to, arrivals, lost } => {
            object["what"] = "sent".into();
            object["to"] = to.0.into();
            object["arrivals"] = arrivals.clone().into();
            if let Some(why) = lost {
                object["lost"] = (*why).into();
            }
        }
        Passage::Received { from, sent, .. } => {
            object["what"] = "received".into();
            object["from"] = from.0.into();
            object["sent"] = (*sent).into();
        }
    }
    object
}
