//! Node proof: violations that are about the state of one server, or about what did not happen. The deeds that made
//! that server what it is: how it went down, what its disk kept, what it found there, what it told its leader last.

use oracles::Property;
use sim_io::story::Proof;
use sim_runtime::verdict::Failure;

use super::facts::{Facts, Note};
use super::teller::Teller;
use super::words;

/// What shows how the server that `failure` names came to where it is.
pub(super) fn prove(teller: &Teller, failure: &Failure) -> Option<Proof> {
    let is = |property: Property| failure.property == property.name();
    let facts = &teller.facts;
    if !is(Property::Fidelity) && !is(Property::Liveness) {
        return None;
    }
    let mut sentences = vec![sentence(&failure.evidence)];
    let mut roots = Vec::new();
    if let Some(node) = named(&failure.evidence) {
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
    } else if let Some(asked) =
        facts.asked.iter().find(|asked| asked.answered.is_none() && asked.invoked < failure.record)
    {
        roots.push(asked.invoked);
        sentences.push(format!(
            "{} was called (#{}) and has no answer.",
            facts.call(asked.call),
            asked.invoked
        ));
    }
    (!roots.is_empty()).then_some(Proof { roots, sentences })
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
