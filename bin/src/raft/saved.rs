//! A timeline as a file: what is run, and what came of it.
//!
//!   { format, program, seed, mutant, expected { verdict, property, fingerprint, digests, milestones }, config, plan, overrides }
//!
//! Everything that a run depends on is in it, so a file runs alone: no flag belongs to it. `expected` is absent where
//! nobody has run it yet, as in what `replay SEED --plan` prints and people edit.
//!
//! Invariant: a file that is read can be run; what is unknown, contradictory or absurd is refused, in one line.
//! Not here: what makes sense (`valid.rs`), what it means that a run differs (`command/replay.rs`).

use raft_async::Planted;
use serde::{Deserialize, Serialize};
use sim_io::nemesis::Plan;
use sim_runtime::rng::Override;
use sim_runtime::scenario::Timeline;
use sim_runtime::verdict::{Category, Failure, RunReport};

use super::config::Config;
use super::milestones::Milestones;
use super::{Raft, RaftTimeline, validate};

/// The format that is written, and the latest that is read.
const FORMAT: u32 = 1;

/// The version of this program: two that have it run every timeline alike.
pub const PROGRAM: &str = env!("RAFT_SIM_VERSION");

/// What a file holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The version of this format.
    format: u32,
    /// The version of the program that ran it.
    pub program: String,
    /// Seeds fields and streams.
    seed: u64,
    /// The defect in every server; the same as in `config`.
    mutant: Option<String>,
    /// What came of it.
    pub expected: Option<Expected>,
    config: Config,
    plan: Plan,
    overrides: Vec<Override>,
}

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The verdict.
    pub verdict: Category,
    /// The property that objected first; empty for a pass.
    pub property: String,
    /// What happened, in a sentence.
    pub evidence: String,
    /// What failures of one kind share.
    #[serde(with = "hex")]
    pub fingerprint: u64,
    /// The digest of every record.
    #[serde(with = "hex")]
    pub behaviour: u64,
    /// The digest of every draw.
    #[serde(with = "hex")]
    pub draws: u64,
    /// What the behaviour was up to some moments.
    pub milestones: Milestones,
}

impl Expected {
    fn of(report: &RunReport, milestones: Milestones) -> Self {
        let first = report.findings.first();
        Self {
            verdict: report.findings.category(),
            property: first.map(|failure| failure.property.clone()).unwrap_or_default(),
            evidence: first.map(|failure| failure.evidence.clone()).unwrap_or_default(),
            fingerprint: first.map_or(0, Failure::fingerprint),
            behaviour: report.behaviour,
            draws: report.draws,
            milestones,
        }
    }
}

impl Saved {
    /// `timeline`, which nobody has run.
    pub fn new(timeline: RaftTimeline) -> Self {
        let Timeline { seed, config, plan, overrides } = timeline;
        let mutant = config.planted.mutant().map(|mutant| mutant.name().to_owned());
        Self {
            format: FORMAT,
            program: PROGRAM.to_owned(),
            seed,
            mutant,
            expected: None,
            config,
            plan,
            overrides,
        }
    }

    /// `timeline` and what comes of it: it is run.
    pub fn with_outcome(timeline: RaftTimeline) -> Self {
        let (report, milestones) = Raft::survey(&timeline);
        Self { expected: Some(Expected::of(&report, milestones)), ..Self::new(timeline) }
    }

    /// Whether it failed when it was written.
    pub fn is_failure(&self) -> bool {
        self.expected.as_ref().is_some_and(|expected| expected.verdict.is_failure())
    }

    /// What is run.
    pub fn timeline(&self) -> RaftTimeline {
        let Self { seed, config, plan, overrides, .. } = self.clone();
        Timeline { seed, config, plan, overrides }
    }

    /// As text for a file.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a timeline is plain data") + "\n"
    }

    /// From the text of a file.
    ///
    /// # Errors
    /// See [`Unreadable`].
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        /// What any format has.
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let Any { format } = serde_json::from_str(text)?;
        if format != FORMAT {
            return Err(Unreadable::Format(format));
        }
        let saved: Self = serde_json::from_str(text)?;
        let planted = saved.config.planted;
        let of_config = planted.mutant().map(|mutant| mutant.name());
        if saved.mutant.as_deref() != of_config {
            let name = |mutant: Option<&str>| mutant.unwrap_or("nothing").to_owned();
            return Err(Unreadable::Mutants(name(saved.mutant.as_deref()), name(of_config)));
        }
        if planted != Planted::NONE && !cfg!(feature = "mutants") {
            return Err(Unreadable::NoMutants);
        }
        validate(&saved.timeline()).map_err(Unreadable::Nonsense)?;
        Ok(saved)
    }
}

/// Why a file cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no JSON, is cut off, or has other fields.
    #[error("it is not a timeline: {0}")]
    Json(#[from] serde_json::Error),
    /// Its format is not known here.
    #[error("it has format {0}, and this program reads format {FORMAT}")]
    Format(u32),
    /// It says two things about the planted defect.
    #[error("`mutant` is {0}, and `config.planted` is {1}")]
    Mutants(String, String),
    /// It needs a defect that is not compiled in.
    #[error("it plants a defect, and this binary was built without the feature `mutants`")]
    NoMutants,
    /// It makes no sense.
    #[error("it is no timeline that can be run: {0}")]
    Nonsense(String),
}

/// Digests as text: JSON numbers of 64 bits do not survive every tool.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(digest: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{digest:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom(format!("`{text}` is not a digest")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::Profile;
    use serde_json::{Value, json};
    use sim_runtime::scenario::Scenario;

    fn text(edit: impl FnOnce(&mut Value)) -> String {
        let mut raft = Raft::of(Profile::Reference);
        raft.duration_ms = Some(400);
        let saved = Saved::with_outcome(raft.timeline(1));
        let mut value = serde_json::to_value(&saved).expect("plain data");
        edit(&mut value);
        value.to_string()
    }

    #[test]
    fn a_file_holds_the_whole_timeline_and_what_came_of_it() {
        let raft = Raft::of(Profile::Swarm);
        let saved = Saved::with_outcome(raft.timeline(3));
        let read = Saved::parse(&saved.to_text()).expect("what was written");
        assert_eq!((read.timeline(), &read), (raft.timeline(3), &saved));
        let (expected, report) = (read.expected.expect("it was run"), raft.run_seed(3));
        assert_eq!((expected.behaviour, expected.draws), (report.behaviour, report.draws));
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        let refused = |edit: fn(&mut Value)| Saved::parse(&text(edit)).expect_err("refused").to_string();
        assert!(refused(|v| v["format"] = json!(2)).contains("format 2"));
        assert!(refused(|v| v["format"] = json!(0)).contains("format 0"));
        assert!(refused(|v| v["format"] = json!("new")).contains("invalid type"));
        assert!(refused(|v| *v = json!({})).contains("missing field `format`"));
        assert!(refused(|v| v["surprise"] = json!(1)).contains("surprise"));
        assert!(refused(|v| v["config"]["surprise"] = json!(1)).contains("surprise"));
        assert!(refused(|v| v["expected"]["surprise"] = json!(1)).contains("surprise"));
        assert!(refused(|v| v["expected"]["behaviour"] = json!("xyz")).contains("digest"));
        assert!(refused(|v| v["mutant"] = json!("canary")).contains("config.planted"));
        assert!(refused(|v| v["config"]["servers"] = json!(-1)).contains("invalid value"));
        assert!(refused(|v| v["config"]["servers"] = json!(60_000)).contains("servers"));
        let whole = text(|_| {});
        for cut in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
            assert!(matches!(Saved::parse(&whole[..cut]), Err(Unreadable::Json(_))), "{cut}");
        }
    }
}
