//! `merge`: the JSON of all parts of a campaign, put together as if one process had run it.

use std::path::{Path, PathBuf};

use super::audit::contradiction;
use super::outcome::{Outcome, Shard};
use crate::cli::{MergeArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::say;

use sim_runtime::words::counted;

/// Merges the files.
///
/// # Errors
/// When a file cannot be read or is not such an outcome, when its numbers contradict each other, when the parts do not belong together, when one is missing
/// or there twice.
pub fn run(args: &MergeArgs, out: &mut Out) -> Result<Status, Unusable> {
    let mut parts = Vec::new();
    for file in &args.files {
        parts.push((file.as_path(), read(file)?));
    }
    let whole = merge(parts)?;
    let output = create(args.json.as_deref())?;
    let value = serde_json::to_value(&whole).expect("an outcome is plain data");
    if output.is_some() {
        write_json(output, &value)?;
    } else {
        say!(out, "{value:#}");
    }
    // The JSON is all there is on standard output, and the exit status wants a word.
    if let Some(failures) = failures(&whole) {
        complain(&failures);
    }
    Ok(whole.status(args.idle_allowed))
}

/// How many runs and files of the corpus failed, in a sentence.
fn failures(whole: &Outcome) -> Option<String> {
    let of_runs =
        (whole.failed() > 0).then(|| format!("{} of {} failed", whole.failed(), counted(whole.runs, "run")));
    let corpus = whole.corpus.as_ref().filter(|corpus| corpus.failed() > 0);
    let of_corpus = corpus.map(|corpus| {
        format!("{} of {} of the corpus failed", corpus.failed(), counted(corpus.files, "timeline"))
    });
    let told: Vec<_> = of_runs.into_iter().chain(of_corpus).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn read(file: &Path) -> Result<Outcome, Unusable> {
    let text = std::fs::read_to_string(file).map_err(|error| Unusable::Read(file.to_owned(), error))?;
    let outcome = serde_json::from_str(&text).map_err(|error| Unusable::Outcome(file.to_owned(), error))?;
    match contradiction(&outcome) {
        Some(why) => Err(Unusable::Parts(file.to_owned(), why)),
        None => Ok(outcome),
    }
}

/// The parts in order; each is of one whole, and none is missing.
fn merge(mut parts: Vec<(&Path, Outcome)>) -> Result<Outcome, Unusable> {
    let shard = |outcome: &Outcome| outcome.shard.unwrap_or(Shard::WHOLE);
    parts.sort_by_key(|(_, outcome)| shard(outcome));
    let of = parts.first().map_or(1, |(_, first)| shard(first).of);
    let mut expected = 1;
    let mut whole: Option<Outcome> = None;
    for (file, part) in parts {
        let Shard { number, of: theirs } = shard(&part);
        let refuse = |why: String| Err(Unusable::Parts(PathBuf::from(file), why));
        if theirs != of {
            return refuse(format!("it is one of {theirs} shards, another file is one of {of}"));
        }
        if number < expected {
            return refuse(format!("shard {number}/{of} is there twice"));
        }
        if number > expected {
            return refuse(format!("shard {expected}/{of} is missing before it"));
        }
        expected += 1;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) if (&whole.seeds, &whole.flags) != (&part.seeds, &part.flags) => {
                let (seeds, flags) = (&whole.seeds, &whole.flags);
                return refuse(format!(
                    "it is of seeds {} `{}`, another file of seeds {seeds} `{flags}`",
                    part.seeds, part.flags
                ));
            }
            Some(whole) => {
                if let Err(not_a_digest) = whole.merge(part) {
                    return refuse(not_a_digest.to_string());
                }
            }
        }
    }
    let mut whole = whole.expect("a file at least is given");
    if expected <= of {
        return Err(Unusable::Missing(Shard { number: expected, of }));
    }
    whole.shard = None;
    Ok(whole)
}
