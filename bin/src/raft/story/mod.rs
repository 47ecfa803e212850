//! The story of a run of Raft.
//!
//! | module | what is in it |
//! |---|---|
//! | `words` | what operations, values and messages are called |
//! | `shadow` | what is remembered of each server |
//! | `facts` | what a proof may have to name |
//! | `teller`, `logs`, `lives` | what records mean, and what they follow from |
//! | `messages` | what messages say, and what they meet |
//! | `proof`, `client_proof`, `node_proof` | which records show the violation, and the sentences for it |
//!
//! Messages are read from the bytes that were sent, disks from what the device recorded; the plan of a run is not
//! looked at, and neither is what was planted in it.
//!
//! Not here: lines and columns (`sim_io::story`).

mod words;
mod shadow;
mod facts;
mod teller;
mod logs;
mod lives;
mod messages;
mod proof;
mod client_proof;
mod node_proof;

use linearizability::Verdict;
use oracles::Recorder;
use serde_json::Value;
use sim_io::story::{
    Deeds, Program, Proof, Reach, Seen, Style, Tape, as_json_lines, as_plain_lines, as_trace_events, draw,
    select, usual_words,
};
use sim_runtime::trace::Record;
use sim_runtime::verdict::{Category, Findings, RunReport};

use super::RaftTimeline;
use teller::Teller;

/// A run, ready to be told.
pub struct Story {
    /// What it was found to be.
    pub report: RunReport,
    deeds: Deeds,
    proof: Proof,
    teller: Teller,
}

impl Story {
    /// Runs a timeline, and keeps everything.
    pub fn of(timeline: &RaftTimeline) -> Self {
        super::play_and_keep(timeline)
    }

    pub(super) fn read(servers: u16, tape: &Tape, report: RunReport, clients: &Recorder) -> Self {
        let mut teller = Teller::new(servers, tape);
        let deeds = Deeds::read(tape, &mut teller);
        let proof = prove(&teller, &deeds, &report.findings, clients);
        Self { report, deeds, proof, teller }
    }

    /// The account, for a person.
    pub fn lines(&self, reach: Reach, style: Style) -> Vec<String> {
        draw(&self.deeds, &self.proof, &self.teller, reach, style)
    }

    /// The same deeds as JSON, one a line; see [`sim_io::story::lines`].
    pub fn json_lines(&self, reach: Reach) -> Vec<String> {
        let shown = select(&self.deeds, &self.proof, reach, std::collections::BTreeSet::len);
        as_json_lines(&self.deeds, &shown, &self.proof)
    }

    /// The whole run in the trace event format of Chrome and Perfetto.
    pub fn trace_events(&self) -> Value {
        as_trace_events(&self.deeds)
    }

    /// Every record in a line, without columns.
    pub fn plain_lines(&self) -> Vec<String> {
        as_plain_lines(&self.deeds)
    }
}

/// What a record says by itself, without those before it.
pub(super) fn describe(record: &Record) -> String {
    let (messages, peer) = (Vec::new(), record.node);
    let seen = Seen { ordinal: 0, record, event: None, messages, peer, arrives: false, sent: None };
    Teller::default().tell(&seen).map_or_else(|| usual_words(record), |told| told.text)
}

fn prove(teller: &Teller, deeds: &Deeds, found: &Findings, clients: &Recorder) -> Proof {
    let Some(failure) = found.first() else { return Proof::default() };
    let verdict = (failure.category == Category::Linearizability)
        .then(|| clients.judge(&linearizability::Options::default()));
    let violation = verdict.as_ref().and_then(Verdict::violation);
    let proof = proof::prove(teller, deeds, failure)
        .or_else(|| client_proof::prove(teller, deeds, failure, violation))
        .or_else(|| node_proof::prove(teller, failure));
    let Some(mut proof) = proof else { return Proof::of_first(found, deeds) };
    if let Some(first) = proof.sentences.first_mut() {
        *first = format!("{} is violated. {first}", failure.property.to_uppercase());
    }
    proof
}
