//! Client proof: violations that show in what clients were told, with the operations and their intervals.

use linearizability::Violation;
use oracles::Property;
use sim_io::story::{Deeds, Proof};
use sim_runtime::verdict::{Category, Failure};
use sim_runtime::words::counted;

use super::facts::{Asked, Facts};
use super::teller::Teller;
use super::words;

/// Beyond so many operations a window is not read.
const SHOWN: usize = 8;

/// What proves `failure`, if clients or their operations do. The operations of `violation` are the calls, in
/// their order.
pub(super) fn prove(
    teller: &Teller,
    deeds: &Deeds,
    failure: &Failure,
    violation: Option<&Violation<u64>>,
) -> Option<Proof> {
    let facts = &teller.facts;
    let is = |property: Property| failure.property == property.name();
    if failure.category == Category::Linearizability {
        no_order(facts, deeds, violation?)
    } else if is(Property::ExactlyOnce) {
        twice(facts, failure)
    } else if is(Property::Durability) {
        forgotten(facts, failure)
    } else {
        None
    }
}

fn interval(deeds: &Deeds, asked: &Asked) -> String {
    let ms = |at: u64| format!("{}.{:03}", deeds[at].time_ns / 1_000_000, deeds[at].time_ns / 1_000 % 1_000);
    match asked.answered {
        Some(answered) => {
            format!("{} to {} ms (#{} to #{answered})", ms(asked.invoked), ms(answered), asked.invoked)
        }
        None => format!("from {} ms on, without an answer (#{})", ms(asked.invoked), asked.invoked),
    }
}

/// The operations of a window that no order explains, with their intervals.
fn no_order(facts: &Facts, deeds: &Deeds, violation: &Violation<u64>) -> Option<Proof> {
    let (window, culprits) = (&violation.operations, &violation.culprits);
    let told = if window.len() <= SHOWN || culprits.is_empty() { window } else { culprits };
    let told = &told[told.len().saturating_sub(SHOWN)..];
    let asked: Vec<&Asked> = told.iter().filter_map(|id| facts.asked.get(id.0 as usize)).collect();
    let mut sentences = vec![format!(
        "No order of these {} on k{} agrees with their answers and with what ended before what began:",
        counted(window.len() as u64, "operation"),
        violation.key
    )];
    let mut roots = Vec::new();
    for asked in asked {
        roots.extend([Some(asked.invoked), asked.answered].into_iter().flatten());
        let outcome = asked.answered.and_then(|_| facts.outcomes.get(&asked.call));
        let outcome = outcome.map_or_else(String::new, |outcome| format!(": {outcome}"));
        sentences.push(format!("  {}{outcome}; {}", facts.call(asked.call), interval(deeds, asked)));
    }
    Some(Proof { roots, sentences })
}

/// One operation takes effect twice.
fn twice(facts: &Facts, failure: &Failure) -> Option<Proof> {
    let mut earlier: Vec<&(u16, u32, words::Call, u64, u64)> = Vec::new();
    for executes in facts.executes.iter().filter(|(.., at)| *at < failure.record) {
        let same = |other: &&&(u16, u32, words::Call, u64, u64)| {
            (other.0, other.1, other.2) == (executes.0, executes.1, executes.2)
        };
        if let Some(first) = earlier.iter().find(same) {
            let (node, _, call, index, at) = *executes;
            let sentence = format!(
                "n{node} carries out {} twice: for entry {} (#{}) and again for entry {index} (#{at}).",
                facts.call(call),
                first.3,
                first.4
            );
            let asked = facts.asked.iter().find(|asked| asked.call == call).map(|asked| asked.invoked);
            return Some(Proof {
                roots: [first.4, at].into_iter().chain(asked).collect(),
                sentences: vec![sentence],
            });
        }
        earlier.push(executes);
    }
    None
}

/// A write that a client was told is done is in no state.
fn forgotten(facts: &Facts, failure: &Failure) -> Option<Proof> {
    // The oracle judges the state in which things settled; the facts know which entries left a log.
    let dropped = |asked: &&Asked| {
        let is_of = |digest: u64| facts.commands.get(&digest).is_some_and(|(_, call)| *call == asked.call);
        asked.write && facts.dropped.iter().any(|entry| is_of(entry.digest) && entry.at < failure.record)
    };
    let name = |asked: &&Asked| {
        let (session, sequence) = asked.call;
        failure.evidence.contains(&format!("operation {sequence} of session {session} "))
    };
    let answered = || facts.asked.iter().filter(|asked| asked.answered.is_some_and(|at| at < failure.record));
    let asked = answered().find(name).or_else(|| answered().find(dropped))?;
    let answered = asked.answered?;
    let mut sentences = vec![format!(
        "{} was answered as done (#{answered}), and is in no state any more.",
        facts.call(asked.call)
    )];
    let mut roots = vec![answered];
    for entry in &facts.dropped {
        if facts.commands.get(&entry.digest).is_some_and(|(_, call)| *call == asked.call) {
            let (records, sentence) = facts.loss(entry);
            roots.extend(records);
            sentences.push(sentence);
        }
    }
    sentences.truncate(4);
    Some(Proof { roots, sentences })
}
