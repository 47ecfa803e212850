//! HTML: a picture of a history, in one self-contained page.
//!
//! ```text
//!   process 0   ├──put(7)──●┤                    ● where the operation took effect, in the longest valid prefix
//!   process 1        ├──get saw 7───●──┤         the offending operations in colour, the rest dimmed
//!   process 2   ├──put(8)─────────────────►      unknown: open-ended
//! ```
//!
//! The verdict and its explanation are plain text of the page, so that nothing that the script does can lose them.
//!
//! Invariants: everything that comes from a history is escaped; the page loads nothing.
//! Not here: drawing, zoom and pan (`html.js`), verdicts.

use std::fmt::Write;

use crate::check::{Options, order_before};
use crate::explain::{at_time, label};
use crate::history::{History, OpId, Outcome};
use crate::read::Names;
use crate::spec::Spec;
use crate::verdict::Verdict;

/// Operations that are drawn of a key; of longer ones, those nearest to the violation.
const DRAWN: usize = 2_000;

/// A page about a history that was judged key by key. Of several keys, those that are not linearizable are drawn, or
/// else the first. O(operations), and an order for each key drawn.
pub fn page<S: Spec>(
    spec: &S,
    history: &History<String, S::Input, S::Output>,
    verdicts: &[(String, Verdict<String>)],
    names: &Names,
    processes: &[String],
    title: &str,
) -> String {
    let is_wanted = |verdict: &Verdict<String>| !verdict.is_linearizable();
    let mut wanted: Vec<_> = verdicts.iter().filter(|(_, verdict)| is_wanted(verdict)).collect();
    wanted.extend(verdicts.first().filter(|_| wanted.is_empty()));
    let mut body = String::new();
    for (key, verdict) in wanted {
        let heading = if key.is_empty() { String::new() } else { format!("Key {key}: ") };
        let (word, text) = match verdict {
            Verdict::Linearizable(_) => ("linearizable", String::new()),
            Verdict::Undecided(_) => ("undecided", "The budget was used up.".to_owned()),
            Verdict::Violation(violation) => ("not linearizable", names.restore(&violation.explanation)),
        };
        let data = lanes(spec, history, key, verdict, names, processes);
        write!(
            body,
            "<section><h2>{}{word}</h2><p>{}</p>\n<div class=\"history\" tabindex=\"0\" role=\"group\" \
             aria-label=\"history; arrow keys move, plus and minus zoom\"></div>\n\
             <script type=\"application/json\">{data}</script></section>\n",
            escaped(&heading),
            escaped(&text)
        )
        .expect("a string takes it");
    }
    include_str!("html.template")
        .replace("{{title}}", &escaped(title))
        .replace("{{script}}", include_str!("html.js"))
        .replace("{{body}}", &body)
}

/// What the script draws, as JSON: `[{lane, from, to, label, when, mark, point}]`, times in events.
fn lanes<S: Spec>(
    spec: &S,
    history: &History<String, S::Input, S::Output>,
    key: &String,
    verdict: &Verdict<String>,
    names: &Names,
    processes: &[String],
) -> String {
    let violation = verdict.violation();
    let end = violation.map_or(u32::MAX, |violation| violation.last_event);
    let order = order_before(spec, history, key, end, &Options::default()).unwrap_or_default();
    let points = points(history, &order);
    let mut drawn: Vec<u32> =
        (0..history.len() as u32).filter(|id| history.operations()[*id as usize].key == *key).collect();
    let of_key = drawn.len();
    if drawn.len() > DRAWN {
        let is_part = |id: &u32| violation.is_some_and(|v| v.culprits.contains(&OpId(*id)));
        let distance = |id: &u32| history.operations()[*id as usize].invoked.event.abs_diff(end);
        drawn.sort_by_key(|id| (!is_part(id), distance(id)));
        drawn.truncate(DRAWN);
        drawn.sort_unstable();
    }
    let operations: Vec<_> = drawn
        .iter()
        .map(|id| {
            let op = &history.operations()[*id as usize];
            let id = OpId(*id);
            let to = op.returned.filter(|_| !matches!(op.outcome, Outcome::Unknown));
            let mark = match violation {
                Some(violation) if violation.culprits.contains(&id) => "culprit",
                Some(violation) if violation.operations.contains(&id) => "part",
                Some(_) => "dim",
                None => "plain",
            };
            let outcome = match op.outcome {
                Outcome::Ok(_) => "",
                Outcome::Failed => ", failed",
                Outcome::Unknown => ", outcome unknown",
            };
            let until = to.map_or_else(String::new, |to| format!(", done {}", at_time(to)));
            serde_json::json!({
                "lane": processes.get(op.process as usize).cloned().unwrap_or_else(|| op.process.to_string()),
                "from": op.invoked.event,
                "to": to.map(|to| to.event),
                "label": names.restore(&label(spec, id, op)),
                "when": format!("begun {}{until}{outcome}", at_time(op.invoked)),
                "mark": mark,
                "point": points.iter().find(|(at, _)| *at == id).map(|(_, point)| point),
            })
        })
        .collect();
    let data = serde_json::json!({ "operations": operations, "left_out": of_key - operations.len() });
    // A text in a history must not end the script.
    data.to_string().replace('<', "\\u003c")
}

/// When each operation of an order may have taken effect: as early as the order allows.
fn points<K, I, O>(history: &History<K, I, O>, order: &[OpId]) -> Vec<(OpId, f64)> {
    const STEP: f64 = 1.0 / 1024.0;
    let mut now = 0.0_f64;
    let mut point = |id: &OpId| {
        let invoked = f64::from(history.operations()[id.0 as usize].invoked.event);
        now = if invoked >= now { invoked + STEP } else { now + STEP };
        (*id, now)
    };
    order.iter().map(&mut point).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
