//! Past: what is told of a run by default.
//!
//!   proof ──roots──► causes of causes, nearest first ─┐
//!   deeds that set the scene meanwhile ───────────────┴──► as many as fit
//!
//! Nearly all of a run is in the causal past of its end: every heartbeat is. So a deed counts by how many steps of
//! *reasons* lie between it and the violation (a program says what a deed follows from, not only what came before
//! it), and the nearest are shown.
//!
//! Invariants: what proves the violation is always shown; a receipt and its sending are shown together or not at all.
//! Not here: what follows from what ([`super::Told::causes`]), lines (`rows.rs`).

use std::collections::{BTreeMap, BTreeSet};

use sim_runtime::NodeId;
use sim_runtime::verdict::Findings;

use super::deeds::{Deeds, Passage};
use super::told::Weight;

/// Why a run is a failure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// The records that prove it.
    pub roots: Vec<u64>,
    /// The violation in plain sentences, which name the records.
    pub sentences: Vec<String>,
}

impl Proof {
    /// The proof of the failure that is the run's verdict, for a program of which nothing is known: the last deed
    /// before it that is no detail.
    pub fn of_first(found: &Findings, deeds: &Deeds) -> Self {
        let Some(failure) = found.first() else { return Self::default() };
        let until = failure.record.min(deeds.len());
        let root = (0..until).rev().find(|deed| {
            let deed = &deeds[*deed];
            deed.told.weight >= Weight::Scene && deed.node != NodeId::HOST
        });
        let named = root.map_or_else(String::new, |root| {
            format!(" The last before it: {} (#{root}).", deeds.sentence(root))
        });
        let sentence = format!("{}: {}.{named}", failure.property.to_uppercase(), failure.evidence);
        Self { roots: root.into_iter().collect(), sentences: vec![sentence] }
    }
}

/// How much is told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Every record.
    pub all: bool,
    /// No record after this one.
    pub until: Option<u64>,
    /// At most so many lines, unless all is told, or the proof alone takes more.
    pub lines: usize,
}

impl Default for Reach {
    fn default() -> Self {
        Self { all: false, until: None, lines: 60 }
    }
}

/// Beyond so many steps a reason explains nothing any more.
const FARTHEST: u32 = 40;
/// Steps from the violation at which a deed that sets the scene counts, by weight. It does at the nodes, and in the
/// time, of the deeds that are near.
const TURN: u32 = 4;
const SCENE: u32 = 9;
const NODES: u32 = 4;
const TIME: u32 = 8;

/// Which deeds are told, so that `height` of them is within reach.
pub fn select(
    deeds: &Deeds,
    proof: &Proof,
    reach: Reach,
    height: impl Fn(&BTreeSet<u64>) -> usize,
) -> BTreeSet<u64> {
    let end = reach.until.map_or(deeds.len(), |until| deeds.len().min(until.saturating_add(1)));
    if reach.all {
        return (0..end).collect();
    }
    let steps = steps_back(deeds, &proof.roots);
    let mut ranked: Vec<(u32, u64)> =
        ranked(deeds, proof, &steps).into_iter().filter(|(_, deed)| *deed < end).collect();
    // Of what is equally far, the latest first.
    ranked.sort_by_key(|(steps, deed)| (*steps, u64::MAX - deed));
    let certain = ranked.iter().take_while(|(steps, _)| *steps == 0).count();
    let (mut fits, mut too_many) = (certain, ranked.len() + 1);
    while too_many - fits > 1 {
        let guess = fits + (too_many - fits) / 2;
        if height(&with_messages(deeds, &ranked[..guess], end)) <= reach.lines {
            fits = guess;
        } else {
            too_many = guess;
        }
    }
    with_messages(deeds, &ranked[..fits], end)
}

/// How many steps of reasons lie between each deed of the causal past and the roots.
fn steps_back(deeds: &Deeds, roots: &[u64]) -> BTreeMap<u64, u32> {
    let mut steps: BTreeMap<u64, u32> = BTreeMap::new();
    let mut edge: Vec<u64> = roots.iter().copied().filter(|root| *root < deeds.len()).collect();
    let mut far = 0;
    while !edge.is_empty() && far <= FARTHEST {
        let mut next = Vec::new();
        while let Some(deed) = edge.pop() {
            if steps.contains_key(&deed) {
                continue;
            }
            steps.insert(deed, far);
            let sent = match deeds[deed].passage {
                Passage::Received { sent, .. } => sent,
                _ => None,
            };
            for cause in deeds[deed].told.causes.iter().filter(|cause| **cause < deed) {
                // A message is one step, however long it takes.
                if Some(*cause) == sent { edge.push(*cause) } else { next.push(*cause) }
            }
        }
        edge = next;
        far += 1;
    }
    steps
}

/// Deeds with their distances, those that set the scene among them.
fn ranked(deeds: &Deeds, proof: &Proof, steps: &BTreeMap<u64, u32>) -> Vec<(u32, u64)> {
    let near = |most: u32| steps.iter().filter(move |(_, steps)| **steps <= most).map(|(deed, _)| *deed);
    let involved: BTreeSet<_> = near(NODES).map(|deed| deeds[deed].node).collect();
    let first = near(TIME).min().unwrap_or(0);
    let last = proof.roots.iter().copied().max().unwrap_or(deeds.len());
    let mut ranked: Vec<(u32, u64)> = steps.iter().map(|(deed, steps)| (*steps, *deed)).collect();
    for (ordinal, deed) in deeds.iter().filter(|(ordinal, _)| (first..=last).contains(ordinal)) {
        let struck = deed.told.struck.iter().any(|node| involved.contains(node));
        let far = match deed.told.weight {
            _ if !(struck || involved.is_empty() || involved.contains(&deed.node)) => continue,
            Weight::Turn => TURN,
            Weight::Scene => SCENE,
            Weight::Cause | Weight::Detail => continue,
        };
        if !steps.contains_key(&ordinal) {
            ranked.push((far, ordinal));
        }
    }
    ranked
}

/// A receipt without its sending, or a sending whose receipt matters, would be half a message.
fn with_messages(deeds: &Deeds, ranked: &[(u32, u64)], end: u64) -> BTreeSet<u64> {
    let is_told = |(steps, deed): &&(u32, u64)| *steps == 0 || deeds[*deed].told.weight > Weight::Detail;
    let mut shown: BTreeSet<u64> = ranked.iter().filter(is_told).map(|(_, deed)| *deed).collect();
    for (_, deed) in ranked.iter().filter(is_told) {
        match &deeds[*deed].passage {
            Passage::Received { sent: Some(sent), .. } => {
                shown.insert(*sent);
            }
            Passage::Sent { arrivals, .. } if !arrivals.iter().any(|arrival| shown.contains(arrival)) => {
                shown.extend(arrivals.first().filter(|arrival| **arrival < end));
            }
            _ => {}
        }
    }
    shown
}
