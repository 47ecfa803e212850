//! `check-history`.

use std::path::PathBuf;

use clap::Args;

use linearizability::read::{FailedCas, Format, Model};

use super::shared::ResultFile;

/// `check-history`
#[derive(Args, Clone, Debug)]
pub struct CheckHistoryArgs {
    /// Recorded histories.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// What was called [default: as the functions in the file suggest].
    #[arg(long, value_parser = model)]
    pub model: Option<Model>,
    /// How it is written down: jsonl, edn or log [default: as the file begins].
    #[arg(long, value_parser = format)]
    pub format: Option<Format>,
    /// What a failed compare-and-swap says: did-not-happen (Jepsen) or found-another (Porcupine's etcd model)
    /// [default: did-not-happen; of logs, found-another].
    #[arg(long, value_parser = failed_cas)]
    pub failed_cas: Option<FailedCas>,
    /// What a register holds at first: a number or nothing [default: nothing, or in EDN, where no read found nothing
    /// and it matters, Knossos's 0].
    #[arg(long, allow_hyphen_values = true, value_parser = initial)]
    pub initial: Option<Initial>,
    /// How many nodes the searches may visit together before a key is undecided.
    #[arg(long, value_name = "NODES", default_value_t = 20_000_000)]
    pub budget: u64,
    /// Draw the history on a page of its own; of several files, the first that is not linearizable. `-` as with `--json`.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Where the result goes.
    #[command(flatten)]
    pub result: ResultFile,
}

fn model(text: &str) -> Result<Model, String> {
    let found = Model::ALL.iter().find(|(name, _)| *name == text);
    let names = || Model::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, model)| *model).ok_or_else(|| format!("no such model; there are {}", names()))
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "jsonl" => Ok(Format::JsonLines),
        "edn" => Ok(Format::Edn),
        "log" => Ok(Format::JepsenLog),
        _ => Err("no such format; there are jsonl, edn, log".to_owned()),
    }
}

/// What a register holds at first.
#[derive(Clone, Copy, Debug)]
pub struct Initial(pub Option<i64>);

fn initial(text: &str) -> Result<Initial, String> {
    match text {
        "nothing" => Ok(Initial(None)),
        _ => text
            .parse()
            .map(|number| Initial(Some(number)))
            .map_err(|_| "a number or nothing is wanted".to_owned()),
    }
}

fn failed_cas(text: &str) -> Result<FailedCas, String> {
    match text {
        "did-not-happen" => Ok(FailedCas::DidNotHappen),
        "found-another" => Ok(FailedCas::FoundAnother),
        _ => Err("did-not-happen or found-another is wanted".to_owned()),
    }
}
