//! Node proof: violations that are about the state of one server, or about what did not happen. The deeds that made
//! that server what it is: how it went down, what its disk kept, what it found there, what it told its leader last.

use oracles::Property;
use sim_io::story::Proof;
use sim_runtime::verdict::Failure;

use super::facts::{Asked, Facts, Note};
use super::teller::Teller;
use super::words;

/// So many entries that were lost are named.
const MOST_LOSSES: usize = 3;

/// What shows how the server that `failure` names came to where it is.
pub(super) fn prove(teller: &Teller, failure: &Failure) -> Option<Proof> {
    let is = |property: Property| failure.property == property.name();
    let facts = &teller.facts;
    if !is(Property::Fidelity) && !is(Property::Liveness) {
        return None;
    }
    let mut sentences = vec![sentence(&failure.evidence)];
    let mut roots = Vec::new();
    if let Some(node) = named(&failure.evidence).filter(|node| *node <= teller.servers) {
        let last = |note: Note, count: usize| latest(facts, failure.record, node, note, count);
        for (note, count) in [(Note::Down, 1), (Note::Recovered, 1), (Note::Halted, 1)] {
            roots.extend(last(note, count));
        }
        // Both slots of the state file may matter; and what a server that lags told its leader last.
        let (note, count) = if is(Property::Fidelity) { (Note::HardWritten, 2) } else { (Note::Answered, 1) };
        roots.extend(last(note, count));
        let down = last(Note::Down, 1).first().copied().unwrap_or(0);
        roots.extend(last(Note::Crashed, usize::MAX).into_iter().filter(|at| *at > down));
        let dropped = facts.dropped.iter().filter(|entry| entry.node == node && entry.at < failure.record);
        if let Some(lost) = dropped.max_by_key(|entry| (entry.at, entry.index)) {
            let (records, sentence) = facts.loss(lost);
            roots.extend(records);
            sentences.push(sentence);
        }
        // Who took for committed what the server lacks.
        if is(Property::Liveness)
            && let Some(claim) = facts
                .claims
                .iter()
                .filter(|claim| claim.at < failure.record)
                .max_by_key(|claim| (claim.log.len(), u64::MAX - claim.at))
        {
            roots.push(claim.at);
            let (index, term) = (claim.log.len() as u64, claim.log.last().map_or(0, |(term, _)| *term));
            sentences.push(format!(
                "n{} takes {} for committed (#{}).",
                claim.node,
                words::entry(index, term),
                claim.at
            ));
        }
    } else if let Some(asked) = waiting(facts, failure) {
        roots.push(asked.invoked);
        let name = facts.call(asked.call);
        sentences.push(format!("{name} was called (#{}) and has no answer.", asked.invoked));
        let until = failure.record;
        let is_its = |digest: u64| facts.commands.get(&digest).is_some_and(|(_, call)| *call == asked.call);
        let appended = facts.appended.iter().rfind(|entry| is_its(entry.digest) && entry.at < until);
        roots.extend(appended.map(|entry| entry.at));
        // What each server told the leader last, and what any lost that it had vouched for.
        for node in 1..=teller.servers {
            roots.extend(latest(facts, until, node, Note::Answered, 1));
        }
        let vouched =
            facts.dropped.iter().filter(|lost| lost.at < until && facts.vouched_for(lost).is_some());
        for lost in vouched.take(MOST_LOSSES) {
            let (records, sentence) = facts.loss(lost);
            roots.extend(records);
            sentences.push(sentence);
        }
    }
    (!roots.is_empty()).then_some(Proof { roots, sentences })
}

/// The operation that has no answer: the one that a sentence names, else the first.
fn waiting<'a>(facts: &'a Facts, failure: &Failure) -> Option<&'a Asked> {
    let waits = |asked: &&Asked| {
        asked.invoked < failure.record && asked.answered.is_none_or(|at| at >= failure.record)
    };
    let is_named = |asked: &&Asked| {
        let (session, sequence) = asked.call;
        failure.evidence.contains(&format!("operation {sequence} of session {session} "))
    };
    let mut named = facts.asked.iter().filter(is_named);
    named.next().or_else(|| facts.asked.iter().find(waits))
}

fn latest(facts: &Facts, until: u64, node: u16, note: Note, count: usize) -> Vec<u64> {
    let notes =
        facts.notes.iter().rev().filter(|(kind, who, at)| (*kind, *who) == (note, node) && *at < until);
    notes.take(count).map(|(.., at)| *at).collect()
}

/// The first server that a sentence names.
fn named(evidence: &str) -> Option<u16> {
    evidence.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| word.strip_prefix('n')?.parse().ok())
}

fn sentence(evidence: &str) -> String {
    let mut sentence = evidence.trim_end_matches('.').to_owned() + ".";
    if let Some(first) = sentence.get_mut(..1).filter(|_| !evidence.starts_with('n')) {
        first.make_ascii_uppercase();
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_that_a_sentence_names_is_found() {
        assert_eq!(named("the disk of n3: both slots are unreadable"), Some(3));
        assert_eq!(named("no operation has completed"), None);
        assert_eq!(sentence("the disk of n3"), "The disk of n3.");
    }
}
