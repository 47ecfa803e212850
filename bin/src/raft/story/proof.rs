//! Proof: which records show that a property is violated, and the sentences that say so.
//!
//!   Failure { property } + Facts up to it ──► records that prove it, two or three sentences
//!
//! The facts are searched for the violation once more, because a failure holds a sentence and no records. Where the
//! search finds nothing (a property that is about everything, as liveness is), the oracle's own sentence is told.
//!
//! Not here: what clients saw (`client_proof.rs`).

use std::collections::BTreeMap;

use oracles::Property;
use sim_io::story::{Deeds, Proof};
use sim_runtime::verdict::{Category, Failure};

use super::facts::{Applies, Claims, Facts, Leads, Logged, Note, Recovers};
use super::teller::Teller;
use super::words;

/// What proves `failure`, if the facts do.
pub(super) fn prove(teller: &Teller, deeds: &Deeds, failure: &Failure) -> Option<Proof> {
    let facts = &teller.facts;
    let until = failure.record;
    let is = |property: Property| failure.property == property.name();
    if is(Property::ElectionSafety) {
        two_leaders(teller, until)
    } else if is(Property::LeaderCompleteness) {
        leader_without(teller, until)
    } else if is(Property::StateMachineSafety) {
        two_commands(facts, until)
    } else if is(Property::LogMatching) {
        two_logs(facts, until)
    } else if is(Property::Monotonicity) {
        taken_back(facts, until)
    } else if failure.category == Category::Crash {
        let panic = facts.panics.iter().rfind(|at| **at < until)?;
        let sentence = format!("{} (#{panic}): {}", deeds.sentence(*panic), failure.evidence);
        Some(Proof { roots: vec![*panic], sentences: vec![sentence] })
    } else {
        None
    }
}

const MOST_SENTENCES: usize = 5;

fn proof(roots: impl IntoIterator<Item = u64>, sentences: Vec<String>) -> Option<Proof> {
    Some(Proof { roots: roots.into_iter().collect(), sentences })
}

/// Two lives lead in one term: which votes did each count, and who gave two?
fn two_leaders(teller: &Teller, until: u64) -> Option<Proof> {
    let mut first: BTreeMap<u64, &Leads> = BTreeMap::new();
    let mut pair = None;
    for leads in teller.facts.leads.iter().filter(|leads| leads.at < until) {
        let known = first.entry(leads.term).or_insert(leads);
        if (known.node, known.life) != (leads.node, leads.life) {
            pair = Some((*known, leads));
            break;
        }
    }
    let (one, other) = pair?;
    let term = one.term;
    let by = |leads: &Leads| {
        let voters = [u64::from(leads.node)].into_iter().chain(leads.votes.iter().map(|(voter, _)| *voter));
        let voters: Vec<String> = voters.map(|voter| format!("n{voter}")).collect();
        let how = if leads.elected {
            "elected by"
        } else {
            "which was not elected and sends AppendEntries; votes:"
        };
        format!("n{} (#{}), {how} {}", leads.node, leads.at, voters.join(" "))
    };
    let mut sentences = vec![format!("Term {term} has two leaders: {}; and {}.", by(one), by(other))];
    let mut roots = vec![one.at, other.at];
    let votes = |leads: &Leads| leads.votes.clone();
    for (voter, counted) in votes(one).into_iter().chain(votes(other)) {
        roots.push(counted);
        let given = teller.nodes.get(&voter).and_then(|server| server.granted.get(&term));
        let given: Vec<_> = given.into_iter().flatten().filter(|granted| granted.sent < until).collect();
        let told = |candidate: u16| given.iter().find(|granted| granted.candidate == u64::from(candidate));
        if let (Some(a), Some(b)) = (told(one.node), told(other.node)) {
            roots.extend([a.sent, b.sent]);
            let sentence = format!(
                "n{voter} gave its vote of term {term} to n{} (#{}) and to n{} (#{}).",
                one.node, a.sent, other.node, b.sent
            );
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let candidate = if one.votes.contains(&(voter, counted)) { one.node } else { other.node };
        if told(candidate).is_none() {
            sentences.push(format!(
                "n{voter} gave n{candidate} no vote of term {term}, yet one is counted (#{counted})."
            ));
        }
    }
    for voter in [one, other] {
        let granted = teller.nodes.get(&u64::from(voter.node)).and_then(|server| server.granted.get(&term));
        let rival = if voter.node == one.node { other } else { one };
        let given = granted.into_iter().flatten().find(|granted| granted.candidate == u64::from(rival.node));
        if let Some(given) = given.filter(|given| given.sent < until && voter.node != rival.node) {
            roots.push(given.sent);
            let to = format!("to itself and to n{} (#{})", rival.node, given.sent);
            sentences.push(format!("n{} gave its vote of term {term} {to}.", voter.node));
        }
    }
    proof(roots, sentences)
}

/// When a pair was complete, and at which index.
type Complete = (u64, usize);
/// Index, term, digest.
type Entry = (u64, u64, u64);

/// An entry is taken for committed that the leader of a later term does not have.
fn leader_without(teller: &Teller, until: u64) -> Option<Proof> {
    let facts = &teller.facts;
    let claims = facts.claims.iter().filter(|claim| claim.at < until);
    let leads: Vec<&Leads> = facts.leads.iter().filter(|leads| leads.at < until && leads.elected).collect();
    // Of all pairs, the one that was complete first.
    let mut found: Option<(Complete, &Claims, &Leads, Entry)> = None;
    for claim in claims {
        let Some((term, digest)) = claim.log.last().copied() else { continue };
        let index = claim.log.len();
        let lacks = |leads: &&&Leads| {
            leads.term > claim.term.max(term) && leads.log.get(index - 1).is_none_or(|held| held.0 != term)
        };
        if let Some(leader) = leads.iter().find(lacks) {
            let complete = (claim.at.max(leader.at), index);
            if found.as_ref().is_none_or(|(known, ..)| complete < *known) {
                found = Some((complete, claim, *leader, (index as u64, term, digest)));
            }
        }
    }
    let (_, claim, leader, (index, term, digest)) = found?;
    let has = match leader.log.get(index as usize - 1) {
        Some((other, _)) => format!("has {} there", words::entry(index, *other)),
        None => {
            let last = leader.log.last().map_or(0, |(term, _)| *term);
            format!("ends {}", words::entry(leader.log.len() as u64, last))
        }
    };
    let entry = format!("{} ({})", words::entry(index, term), facts.command(digest));
    let earlier = if term < claim.term { ", of an earlier term than its own," } else { "" };
    let mut sentences = vec![
        format!(
            "n{} takes entry {entry}{earlier} for committed in term {} (#{}).",
            claim.node, claim.term, claim.at
        ),
        format!(
            "The leader of term {}, n{} (#{}), is elected without it: its log {has}.",
            leader.term, leader.node, leader.at
        ),
    ];
    let mut roots = vec![claim.at, leader.at];
    // How the entry got lost where it was, if it was there; and which of the voters had it.
    // Who lost it before it counted, and had not vouched for it, did nothing wrong by that.
    let counted = |lost: &Logged| lost.at > claim.at || facts.vouched_for(lost).is_some();
    for lost in facts.dropped.iter().filter(|lost| {
        (lost.index, lost.term) == (index, term)
            && lost.at < until
            && leader.has_vote_of(lost.node)
            && counted(lost)
    }) {
        let (records, sentence) = facts.loss(lost);
        roots.extend(records);
        sentences.push(sentence);
    }
    for (voter, _) in &leader.votes {
        let granted = teller.nodes.get(voter).and_then(|server| server.granted.get(&leader.term));
        let given = granted.into_iter().flatten().find(|given| given.candidate == u64::from(leader.node));
        if let Some(given) = given.filter(|given| given.log.get(index as usize - 1) == Some(&term)) {
            roots.push(given.sent);
            let ends = words::entry(given.log.len() as u64, given.log.last().copied().unwrap_or(0));
            let last = leader.log.last().map_or(0, |(term, _)| *term);
            let candidate_ends = words::entry(leader.log.len() as u64, last);
            let whom = format!("n{}, whose log ended {candidate_ends} (#{})", leader.node, given.sent);
            sentences.push(format!(
                "n{voter} had {}, its log ended {ends}, and voted for {whom}.",
                words::entry(index, term)
            ));
        }
    }
    sentences.truncate(MOST_SENTENCES);
    proof(roots, sentences)
}

/// One index, two commands, or one command and two replies.
fn two_commands(facts: &Facts, until: u64) -> Option<Proof> {
    let mut first: BTreeMap<u64, Applies> = BTreeMap::new();
    for applies in facts.applies.iter().filter(|applies| applies.at < until) {
        let known = *first.entry(applies.index).or_insert(*applies);
        let what = |a: &Applies| (a.term, a.digest, a.reply);
        if what(&known) == what(applies) {
            continue;
        }
        let say = |a: &Applies| {
            format!(
                "n{} applies {} {} (#{})",
                a.node,
                words::entry(a.index, a.term),
                facts.command(a.digest),
                a.at
            )
        };
        let how = if (known.term, known.digest) == (applies.term, applies.digest) {
            ", and the replies differ".to_owned()
        } else {
            String::new()
        };
        let sentence = format!("At index {}, {} and {}{how}.", applies.index, say(&known), say(applies));
        return proof([known.at, applies.at], vec![sentence]);
    }
    None
}

/// Two logs have an entry of one index and term, and differ in or before it.
fn two_logs(facts: &Facts, until: u64) -> Option<Proof> {
    let mut first: BTreeMap<(u64, u64), Logged> = BTreeMap::new();
    for logged in facts.appended.iter().filter(|logged| logged.at < until) {
        let known = *first.entry((logged.index, logged.term)).or_insert(*logged);
        if known.prefix == logged.prefix {
            continue;
        }
        let mut roots = vec![known.at, logged.at];
        let entry = words::entry(logged.index, logged.term);
        let mut sentences = vec![format!(
            "n{} (#{}) and n{} (#{}) both have entry {entry}, but not the same log before it.",
            known.node, known.at, logged.node, logged.at
        )];
        // The entries before, as they came to be there.
        let before = |of: &Logged, index: u64| {
            let here =
                facts.appended.iter().filter(|a| a.node == of.node && a.index == index && a.at <= of.at);
            here.max_by_key(|a| a.at).copied()
        };
        let parts =
            (1..=logged.index).filter_map(|index| Some((before(&known, index)?, before(logged, index)?)));
        if let Some((one, other)) = parts.into_iter().find(|(one, other)| one.prefix != other.prefix) {
            roots.extend([one.at, other.at]);
            let say = |l: &Logged| {
                format!(
                    "n{} has {} {} (#{})",
                    l.node,
                    words::entry(l.index, l.term),
                    facts.command(l.digest),
                    l.at
                )
            };
            sentences.push(format!("They part at index {}: {}, {}.", one.index, say(&one), say(&other)));
        }
        return proof(roots, sentences);
    }
    None
}

/// A server comes back with less than it had shown or synced.
fn taken_back(facts: &Facts, until: u64) -> Option<Proof> {
    let falls_short = |r: &&Recovers| {
        let ((term, vote), _) = r.bound;
        r.at < until && (r.found.0 < term || r.found.0 == term && vote != 0 && r.found.1 != vote)
    };
    let Recovers { node, at, found, bound: (was, since) } = *facts.recovers.iter().find(falls_short)?;
    let since = since?;
    let state = |(term, vote): (u64, u64)| format!("term {term}, {}", words::vote(vote));
    let sentence = format!(
        "n{node} had shown others, or synced, {} (#{since}), and comes back with {} (#{at}).",
        state(was),
        state(found)
    );
    // What it had written until it showed that, and what it wrote last before it went down.
    let down =
        facts.notes.iter().rfind(|(note, who, down)| (*note, *who) == (Note::Down, node) && *down < at);
    let down = down.map_or(at, |(.., down)| *down);
    let mine = || facts.hard.iter().filter(|(who, ..)| *who == node);
    let until_shown = mine().rfind(|(.., written)| *written < since);
    let last = mine().rfind(|(.., written)| *written < down);
    let mut sentences = vec![sentence];
    if let Some((_, hard, written)) = until_shown {
        sentences.push(format!("What it had written before it showed that: {} (#{written}).", state(*hard)));
    }
    if let Some((_, hard, written)) = last.filter(|last| Some(*last) != until_shown) {
        sentences.push(format!("What it wrote last before it went down: {} (#{written}).", state(*hard)));
    }
    let writes = until_shown.into_iter().chain(last).map(|(.., written)| *written);
    let crashed = facts.notes.iter().filter(|(note, who, _)| (*note, *who) == (Note::Crashed, node));
    let crashed = crashed.map(|(.., crashed)| *crashed).filter(|crashed| (down..at).contains(crashed));
    proof([since, down, at].into_iter().chain(writes).chain(crashed), sentences)
}
