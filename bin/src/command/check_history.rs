//! `check-history`: linearizability of recorded histories.
//!
//! Invariants: a file that cannot be read ends the command before any verdict is printed; the worst verdict of all
//! files is the exit status: a violation (1), else undecided (3), else 0.
//! Not here: formats and models (crate `linearizability`), the picture (`linearizability::html`).

use std::path::Path;
use std::time::Instant;

use linearizability::html::page;
use linearizability::models::register::Output;
use linearizability::models::{CasRegister, Kv, Mutex, Queue, Set};
use linearizability::read::{FailedCas, File, Format, Malformed, Model, Reading, Recorded, read, text};
use linearizability::{History, Options, Outcome, Spec, Verdict, check_keys};
use serde_json::{Value, json};
use sim_runtime::words::counted;

use crate::cli::{CheckHistoryArgs, Initial, Status, Unusable, create, write_json, write_text};
use crate::out::Out;
use crate::say;

/// What was found in a file.
struct Judged {
    keys: Vec<(String, Verdict<String>)>,
    operations: usize,
    /// Unknown operations that linearizable keys rely on, by key: some in sentences, the others by their number.
    conditions: Vec<(String, String)>,
    more_conditions: usize,
}

/// More conditions than this are counted and not told.
const CONDITIONS: usize = 5;

/// Judges the files.
///
/// # Errors
/// When a file cannot be read, is malformed, or a result cannot be written.
#[expect(clippy::disallowed_methods, reason = "histories are real files")]
pub fn run(args: &CheckHistoryArgs, out: &mut Out) -> Result<Status, Unusable> {
    let output = create(args.result.json.as_deref())?;
    let page = create(args.html.as_deref())?;
    let mut files = Vec::new();
    for path in &args.files {
        let bytes = std::fs::read(path).map_err(|error| Unusable::Read(path.clone(), error))?;
        let malformed = |Malformed { line, what }| Unusable::History(path.clone(), line, what);
        let text = text(bytes).map_err(malformed)?;
        let reading = reading(args, &text);
        let file = read(&text, &reading).map_err(malformed)?;
        let is_open = args.initial.is_none() && reading.format == Format::Edn && !has_found_nothing(&file);
        let zero = is_open.then(|| read(&text, &Reading { first: Some(0), ..reading }).map_err(malformed));
        files.push((path, file, zero.transpose()?));
    }
    let options = Options { budget_nodes: args.budget, witness: true, ..Options::default() };
    let mut status = Status::Clean;
    let mut results = Vec::new();
    let mut shown: Option<(&Path, &File, Judged)> = None;
    for (path, file, zero) in &files {
        let ((file, judged, is_assumed), wall_ms) = timed(|| {
            let judged = judge(&file.history, &options);
            let zero = zero.as_ref().filter(|_| has_failed(&judged));
            let other = zero.map(|zero| (zero, judge(&zero.history, &options), true));
            other.filter(|(_, judged, _)| !has_failed(judged)).unwrap_or((file, judged, false))
        });
        let (verdict, its_status) = worst(&judged);
        status = match (status, its_status) {
            (Status::Failed, _) | (_, Status::Failed) => Status::Failed,
            (Status::NotAPass, _) | (_, Status::NotAPass) => Status::NotAPass,
            _ => Status::Clean,
        };
        say!(
            out,
            "{}: {verdict} ({}, {}, {wall_ms:.1} ms)",
            path.display(),
            counted(judged.operations as u64, "operation"),
            counted(judged.keys.len() as u64, "key")
        );
        if judged.operations == 0 {
            say!(out, "  it has 0 operations: any history without one is linearizable");
        }
        if is_assumed {
            say!(out, "  if 0 was there at first; --initial says what was");
        }
        let mut explanations = Vec::new();
        for (key, verdict) in &judged.keys {
            let name =
                if key.is_empty() { String::new() } else { format!("key {}: ", crate::out::escaped(key)) };
            let text = match verdict {
                Verdict::Violation(violation) => file.names.restore(&violation.explanation),
                Verdict::Undecided(_) => {
                    format!("undecided: the budget of {} nodes was used up", args.budget)
                }
                Verdict::Linearizable(_) => continue,
            };
            say!(out, "  {name}{text}");
            explanations.push(format!("{name}{text}"));
        }
        for (key, text) in &judged.conditions {
            let name =
                if key.is_empty() { String::new() } else { format!("key {}: ", crate::out::escaped(key)) };
            say!(out, "  {name}{}", file.names.restore(text));
        }
        if judged.more_conditions > 0 {
            say!(out, "  and {} more unknown operations that took effect", judged.more_conditions);
        }
        results.push(result(path, verdict, &judged, wall_ms, &explanations));
        // Of several files, the first that is not linearizable has the picture.
        if shown.is_none()
            || (its_status == Status::Failed && !shown.as_ref().is_some_and(|shown| has_failed(&shown.2)))
        {
            shown = Some((path, file, judged));
        }
    }
    if let (Some(_), Some((path, file, judged))) = (&page, shown) {
        write_text(page, &picture(path, file, &judged.keys))?;
    }
    write_json(output, &json!({ "files": results }))?;
    Ok(status)
}

fn reading(args: &CheckHistoryArgs, text: &str) -> Reading {
    let format = args.format.unwrap_or_else(|| Format::guess(text));
    // Logs come from tests of etcd, whose clients say so when a comparison failed.
    let found = if format == Format::JepsenLog { FailedCas::FoundAnother } else { FailedCas::DidNotHappen };
    Reading {
        format,
        model: args.model.unwrap_or_else(|| Model::guess(text)),
        failed_cas: args.failed_cas.unwrap_or(found),
        first: args.initial.and_then(|Initial(first)| first),
    }
}

/// Whether somebody read a register that held nothing, or it is no history of registers.
fn has_found_nothing(file: &File) -> bool {
    let Recorded::Register { history, first } = &file.history else { return true };
    let nothing = Outcome::Ok(Output::Value(*first));
    history.operations().iter().any(|op| op.outcome == nothing)
}

fn judge(history: &Recorded, options: &Options) -> Judged {
    fn of<S: Spec>(spec: &S, history: &History<String, S::Input, S::Output>, options: &Options) -> Judged {
        let keys = check_keys(spec, history, options);
        let (mut conditions, mut more_conditions) = (Vec::new(), 0);
        for (key, verdict) in &keys {
            let Verdict::Linearizable(witnesses) = verdict else { continue };
            for witness in witnesses {
                let most = CONDITIONS - conditions.len();
                let found = linearizability::conditions(spec, history, &witness.order, most);
                conditions.extend(found.sentences.into_iter().map(|text| (key.clone(), text)));
                more_conditions += found.more;
            }
        }
        Judged { keys, operations: history.len(), conditions, more_conditions }
    }
    match history {
        Recorded::Register { history, first } => of(&CasRegister { initial: *first }, history, options),
        Recorded::Kv(history) => of(&Kv, history, options),
        Recorded::Set(history) => of(&Set, history, options),
        Recorded::Queue(history) => of(&Queue, history, options),
        Recorded::Mutex(history) => of(&Mutex, history, options),
    }
}

fn has_failed(judged: &Judged) -> bool {
    worst(judged).1 == Status::Failed
}

fn picture(path: &Path, file: &File, verdicts: &[(String, Verdict<String>)]) -> String {
    let (names, processes) = (&file.names, &file.processes[..]);
    let title = path.display().to_string();
    match &file.history {
        Recorded::Register { history, first } => {
            page(&CasRegister { initial: *first }, history, verdicts, names, processes, &title)
        }
        Recorded::Kv(history) => page(&Kv, history, verdicts, names, processes, &title),
        Recorded::Set(history) => page(&Set, history, verdicts, names, processes, &title),
        Recorded::Queue(history) => page(&Queue, history, verdicts, names, processes, &title),
        Recorded::Mutex(history) => page(&Mutex, history, verdicts, names, processes, &title),
    }
}

fn worst(judged: &Judged) -> (&'static str, Status) {
    let has = |test: fn(&Verdict<String>) -> bool| judged.keys.iter().any(|(_, verdict)| test(verdict));
    if has(|verdict| matches!(verdict, Verdict::Violation(_))) {
        ("not linearizable", Status::Failed)
    } else if has(|verdict| matches!(verdict, Verdict::Undecided(_))) {
        ("undecided", Status::NotAPass)
    } else {
        ("linearizable", Status::Clean)
    }
}

#[expect(clippy::disallowed_methods, reason = "it tells a user how long it took; no verdict depends on it")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed().as_secs_f64() * 1e3)
}

fn result(path: &Path, verdict: &str, judged: &Judged, wall_ms: f64, explanations: &[String]) -> Value {
    let keys = judged.keys.iter().map(|(key, verdict)| {
        let word = match verdict {
            Verdict::Linearizable(_) => "linearizable",
            Verdict::Violation(_) => "not linearizable",
            Verdict::Undecided(_) => "undecided",
        };
        json!({ "key": key, "verdict": word })
    });
    json!({
        "file": path.display().to_string(),
        "verdict": verdict,
        "keys": keys.collect::<Vec<_>>(),
        "operations": judged.operations,
        "wall_ms": wall_ms,
        "explanation": explanations.join("\n"),
    })
}
