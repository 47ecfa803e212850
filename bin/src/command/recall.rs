//! What a run is, compared with what its file says of it.
//!
//! | file says | run | sentence | status |
//! |---|---|---|---|
//! | a failure | the same (fingerprint) | none, or a note that behaviour or draws differ | 1 |
//! | a failure | another | that it is another | 1 |
//! | a failure | none | that it no longer occurs, and where the first difference is | 3 |
//! | no failure | of that verdict | none, or a note | that of the run |
//! | no failure | of another | that it is not as the file says | that of the run |
//! | nothing | any | none | that of the run |

use sim_runtime::verdict::{Failure, RunReport};

use crate::cli::Status;
use crate::out::escaped;
use crate::raft::{Expected, PROGRAM, Raft, Saved};

/// What there is to say, and how the command ends where that is not up to the run alone.
pub(super) struct Recall {
    pub(super) lines: Vec<String>,
    pub(super) status: Option<Status>,
}

impl Recall {
    /// Of the run of `saved` that `report` tells of.
    pub(super) fn of(saved: &Saved, report: &RunReport) -> Self {
        let Self { lines, status } = Self::unescaped(saved, report);
        Self { lines: lines.iter().map(|line| escaped(line)).collect(), status }
    }

    /// With the strings of the file as they are.
    fn unescaped(saved: &Saved, report: &RunReport) -> Self {
        let Some(expected) = &saved.expected else {
            return Self { lines: Vec::new(), status: None };
        };
        let first = report.findings.first().filter(|failure| failure.category.is_failure());
        let was = format!("{}: {}", expected.verdict, expected.property);
        match first {
            _ if !expected.verdict.is_failure() => {
                let mut lines = notes(saved, expected, report);
                let is = report.findings.category();
                if is != expected.verdict {
                    let property = first.map(|now| format!(": {}", now.property)).unwrap_or_default();
                    lines.insert(
                        0,
                        format!("not as the file says ({}), but {is}{property}", expected.verdict),
                    );
                }
                Self { lines, status: None }
            }
            Some(now)
                if now.fingerprint() == expected.fingerprint
                    && format!("{}: {}", now.category, now.property) == was =>
            {
                Self { lines: notes(saved, expected, report), status: Some(Status::Failed) }
            }
            Some(now) => {
                let mut lines = vec![another(&was, now, expected)];
                lines.extend(notes(saved, expected, report));
                Self { lines, status: Some(Status::Failed) }
            }
            None => {
                let verdict = report.findings.category();
                let mut lines = vec![format!(
                    "the failure no longer occurs: the file says {was}, this run is a {verdict}"
                )];
                lines.extend(difference(saved, expected));
                Self { lines, status: Some(Status::NotAPass) }
            }
        }
    }
}

fn another(was: &str, now: &Failure, expected: &Expected) -> String {
    let is = format!("{}: {}", now.category, now.property);
    if is == was {
        format!("it fails in another way: the file says {was}: {}", expected.evidence)
    } else {
        format!("it fails, but not as the file says ({was})")
    }
}

/// What differs where the failure is the same.
fn notes(saved: &Saved, expected: &Expected, report: &RunReport) -> Vec<String> {
    if report.behaviour != expected.behaviour {
        vec![format!("note: the run is another than the one in the file{}", by_program(saved))]
    } else if report.draws != expected.draws {
        vec!["note: the same behaviour from other draws".to_owned()]
    } else {
        Vec::new()
    }
}

fn by_program(saved: &Saved) -> String {
    if saved.program == PROGRAM {
        ", although the program's version is the same: the file was edited, or something outside the timeline had a say"
            .to_owned()
    } else {
        format!(", which was written by version {} (this is {PROGRAM})", saved.program)
    }
}

/// Where the run and the one in the file part ways. With another program there is little sense in asking.
fn difference(saved: &Saved, expected: &Expected) -> Vec<String> {
    let why = format!("the run is another than the one in the file{}", by_program(saved));
    if saved.program != PROGRAM {
        return vec![why];
    }
    let (_, milestones) = Raft::survey(&saved.timeline());
    let place = match expected.milestones.first_difference(&milestones) {
        Some((from_ms, to_ms)) => {
            format!("the first difference is between {from_ms} and {to_ms} ms of virtual time")
        }
        None => "no difference up to the last milestone".to_owned(),
    };
    vec![why, place]
}
