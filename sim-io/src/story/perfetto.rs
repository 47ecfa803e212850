//! Perfetto: a run in the trace event format of Chrome, for <https://ui.perfetto.dev> or `chrome://tracing`.
//!
//! A process a node. What lasts is a slice on a track of its own (lives, roles, syncs, operations, faults), messages
//! are slices of a microsecond on the track `messages`, with an arrow from sending to receipt; everything else is an
//! instant on the track `deeds`. Times are microseconds of virtual time.
//!
//! Format: "Trace Event Format", Google, 2016 (JSON object form).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sim_runtime::NodeId;

use super::deeds::{Deed, Deeds, Passage};
use super::told::{Span, Weight};

/// The whole run as one document, whatever is shown elsewhere.
pub fn as_trace_events(deeds: &Deeds) -> Value {
    let mut writer = Writer::default();
    let mut end_ns = 0;
    for (ordinal, deed) in deeds.iter() {
        end_ns = deed.time_ns;
        writer.deed(ordinal, deed);
    }
    writer.end(end_ns);
    for (node, name) in deeds.names() {
        writer.events.push(json!({
            "ph": "M", "name": "process_name", "pid": node.0, "tid": 0, "args": { "name": name },
        }));
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": writer.events })
}

#[derive(Default)]
struct Writer {
    events: Vec<Value>,
    tracks: BTreeMap<(NodeId, String), u64>,
    /// What has begun on a track: its name, and when.
    open: BTreeMap<(NodeId, String), (String, u64)>,
}

fn micros(ns: u64) -> Value {
    // A double holds nanoseconds of a hundred days exactly enough.
    json!(ns as f64 / 1_000.0)
}

impl Writer {
    fn track(&mut self, node: NodeId, name: &str) -> u64 {
        let next = self.tracks.len() as u64 + 1;
        let key = (node, name.to_owned());
        if let Some(track) = self.tracks.get(&key) {
            return *track;
        }
        self.tracks.insert(key, next);
        self.events.push(json!({
            "ph": "M", "name": "thread_name", "pid": node.0, "tid": next, "args": { "name": name },
        }));
        next
    }

    fn deed(&mut self, ordinal: u64, deed: &Deed) {
        let Deed { time_ns, node, told, passage, .. } = deed;
        match &told.span {
            Span::None => {}
            Span::Begins(track, name) => {
                self.close(*node, track, *time_ns);
                self.open.insert((*node, track.clone()), (name.clone(), *time_ns));
            }
            Span::Ends(track) => self.close(*node, track, *time_ns),
        }
        let args = json!({ "record": ordinal, "causes": told.causes });
        let (ts, pid) = (micros(*time_ns), node.0);
        let flow = match passage {
            Passage::None => None,
            Passage::Sent { arrivals, .. } => Some(("s", ordinal)).filter(|_| !arrivals.is_empty()),
            Passage::Received { sent, .. } => sent.map(|sent| ("f", sent)),
        };
        if *passage != Passage::None {
            let tid = self.track(*node, "messages");
            self.events.push(json!({
                "ph": "X", "cat": "message", "name": told.text, "pid": pid, "tid": tid, "ts": ts, "dur": 1,
                "args": args,
            }));
            if let Some((ph, id)) = flow {
                self.events.push(json!({
                    "ph": ph, "cat": "message", "name": "message", "id": id, "bp": "e", "pid": pid, "tid": tid,
                    "ts": ts,
                }));
            }
        } else if told.weight > Weight::Detail {
            let tid = self.track(*node, "deeds");
            self.events.push(json!({
                "ph": "i", "s": "t", "name": told.text, "pid": pid, "tid": tid, "ts": ts, "args": args,
            }));
        }
    }

    fn close(&mut self, node: NodeId, track: &str, now_ns: u64) {
        let Some((name, from_ns)) = self.open.remove(&(node, track.to_owned())) else { return };
        let tid = self.track(node, track);
        self.events.push(json!({
            "ph": "X", "cat": track, "name": name, "pid": node.0, "tid": tid,
            "ts": micros(from_ns), "dur": micros(now_ns - from_ns),
        }));
    }

    fn end(&mut self, end_ns: u64) {
        let open: Vec<_> = self.open.keys().cloned().collect();
        open.into_iter().for_each(|(node, track)| self.close(node, &track, end_ns));
    }
}
