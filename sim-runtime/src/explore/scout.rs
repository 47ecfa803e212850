//! Watches one run for a search: which moments come, which of them show something new.
//!
//!   windows, points, events, records ──► moments (name, node, ordinal) ──after the step──► state ──new?──► Sighting
//!                                                             └──► the anchors that somebody asks for
//!
//! Invariants: a scout changes nothing, so that a run with one has the digests of the run without; it exists only
//! while a search runs, and costs other runs a branch.
//! Not here: what is done with sightings (`frontier.rs`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::signature::{Glimpse, Signature};
use crate::event::Event;
use crate::node::NodeId;
use crate::rng::{hash_bytes, mix};
use crate::trace::Record;
use crate::verdict::Findings;
use crate::world::Handle;

/// A moment of a run by what happens in it: "after n2's third vote grant".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The name of the window that opens, of the point, of the event, or what the signature calls a record.
    pub moment: String,
    /// On which node.
    pub node: NodeId,
    /// The how many-th of that name on that node, from 1.
    pub ordinal: u64,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'s {:?} number {}", self.node, self.moment, self.ordinal)
    }
}

/// What kind of thing is new.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Novelty {
    /// A state of the system, by its signature.
    State,
    /// A premise is broken, in a state in which it was not yet: no harm so far.
    NearMiss(&'static str),
    /// An assertion shows something: its place, a value, a watermark.
    Assertion(&'static str),
}

/// Something that a run shows for the first time in that run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Equal for what is taken to be the same.
    pub key: u64,
    /// What kind of thing.
    pub novelty: Novelty,
    /// After which moment.
    pub anchor: Anchor,
    /// The time of that moment.
    pub time_ns: u64,
}

/// A near miss of a run that is no finding to whoever searches: something is violated that does not count.
pub(super) const VIOLATION: &str = "violation";

/// More of a run are counted and dropped.
const MOST_SIGHTINGS: usize = 4_096;

/// What a scout brings home.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scouted {
    /// In the order of the run.
    pub sightings: Vec<Sighting>,
    /// Sightings beyond what is kept of a run.
    pub dropped: u64,
    /// When the anchors that were asked for came; those that did not come are absent.
    pub anchors: BTreeMap<Anchor, u64>,
    /// The run was ended by the limit of steps.
    pub pruned: bool,
}

type Name = Cow<'static, str>;

struct State {
    signature: Box<dyn Signature>,
    most_steps: u64,
    wanted: BTreeSet<Anchor>,
    ordinals: BTreeMap<(NodeId, Name), u64>,
    fresh: Vec<(Name, NodeId)>,
    /// The latest moment: name, node, ordinal, time. An anchor is made of it only where one is wanted.
    latest: Option<(Name, NodeId, u64, u64)>,
    seen: BTreeSet<u64>,
    /// How often each premise was broken.
    premises: BTreeMap<&'static str, u64>,
    /// How many violations there are.
    failures: usize,
    scouted: Scouted,
}

/// Watches one run.
pub(crate) struct Scout(RefCell<State>);

thread_local! {
    static SENT: RefCell<Option<Rc<Scout>>> = const { RefCell::new(None) };
}

/// The scout that is to watch the world which is being made; nobody in ordinary runs.
pub(crate) fn sent() -> Option<Rc<Scout>> {
    SENT.with(|slot| slot.borrow_mut().take())
}

/// Runs `play` with a scout in the first world that it makes.
pub(crate) fn watched<R>(
    signature: Box<dyn Signature>,
    most_steps: u64,
    wanted: BTreeSet<Anchor>,
    play: impl FnOnce() -> R,
) -> (R, Scouted) {
    let state = State {
        signature,
        most_steps,
        wanted,
        ordinals: BTreeMap::new(),
        fresh: Vec::new(),
        latest: None,
        seen: BTreeSet::new(),
        premises: BTreeMap::new(),
        failures: 0,
        scouted: Scouted::default(),
    };
    let scout = Rc::new(Scout(RefCell::new(state)));
    SENT.with(|slot| slot.replace(Some(scout.clone())));
    let result = play();
    SENT.with(|slot| slot.take());
    let scouted = std::mem::take(&mut scout.0.borrow_mut().scouted);
    (result, scouted)
}

impl Scout {
    /// A window opens, or a point is passed.
    pub(crate) fn moment(&self, name: &'static str, node: NodeId) {
        self.0.borrow_mut().fresh.push((Name::Borrowed(name), node));
    }

    pub(crate) fn event(&self, event: &Event) {
        let mut state = self.0.borrow_mut();
        state.signature.event(event);
        state.fresh.push((Name::Owned(event.name.clone()), event.node));
    }

    pub(crate) fn record(&self, record: &Record) {
        let mut state = self.0.borrow_mut();
        if let Some(name) = state.signature.record(record) {
            state.fresh.push((Name::Borrowed(name), record.node));
        }
    }

    /// Whether the run has had its steps; says so to the search.
    pub(crate) fn is_over(&self, steps: u64) -> bool {
        let mut state = self.0.borrow_mut();
        let over = steps >= state.most_steps;
        state.scouted.pruned |= over;
        over
    }

    /// Called after each step.
    pub(crate) fn look(&self, world: &Handle) {
        let mut state = self.0.borrow_mut();
        let had_moments = state.note_moments(world.now_ns());
        let news = world.core.sites.borrow_mut().take_news();
        let broken = state.newly_broken(&world.core.findings.borrow());
        if !had_moments && news.is_empty() && broken.is_empty() {
            return;
        }
        for (site, number) in news {
            let place = hash_bytes(hash_bytes(2, site.module.as_bytes()), site.message.as_bytes());
            state.sight(mix(place, number), || Novelty::Assertion(site.message));
        }
        let now = state.signature.state(&Glimpse::new(world));
        for name in broken {
            // What comes of it depends on where it happens.
            state.sight(mix(hash_bytes(1, name.as_bytes()), now), || Novelty::NearMiss(name));
        }
        let broken_so_far = state.premises.keys().fold(0, |all, name| hash_bytes(all, name.as_bytes()));
        state.sight(mix(now, broken_so_far), || Novelty::State);
    }
}

impl State {
    fn note_moments(&mut self, now_ns: u64) -> bool {
        let mut fresh = std::mem::take(&mut self.fresh);
        let had_moments = !fresh.is_empty();
        for (name, node) in fresh.drain(..) {
            let ordinal = self.ordinals.entry((node, name.clone())).or_default();
            *ordinal += 1;
            let ordinal = *ordinal;
            if !self.wanted.is_empty() {
                let anchor = Anchor { moment: name.clone().into_owned(), node, ordinal };
                if self.wanted.contains(&anchor) {
                    self.scouted.anchors.insert(anchor, now_ns);
                }
            }
            self.latest = Some((name, node, ordinal, now_ns));
        }
        // Its room is used again.
        self.fresh = fresh;
        had_moments
    }

    /// The premises that were broken since this was asked last, and whether something is violated: where that is no
    /// finding to whoever searches, it is a near miss.
    fn newly_broken(&mut self, findings: &Findings) -> Vec<&'static str> {
        let mut broken = Vec::new();
        if findings.failures.len() > self.failures {
            self.failures = findings.failures.len();
            broken.push(VIOLATION);
        }
        let (counts, total) = (&findings.premise, |counts: &BTreeMap<_, u64>| counts.values().sum::<u64>());
        if total(counts) > total(&self.premises) {
            let known = std::mem::replace(&mut self.premises, counts.clone());
            let is_new = |(name, count): &(&&'static str, &u64)| known.get(*name) != Some(*count);
            broken.extend(counts.iter().filter(is_new).map(|(name, _)| *name));
        }
        broken
    }

    fn sight(&mut self, key: u64, novelty: impl FnOnce() -> Novelty) {
        let Some((name, node, ordinal, time_ns)) = &self.latest else { return };
        if !self.seen.insert(key) {
            return;
        }
        if self.scouted.sightings.len() < MOST_SIGHTINGS {
            let anchor = Anchor { moment: name.clone().into_owned(), node: *node, ordinal: *ordinal };
            let (time_ns, novelty) = (*time_ns, novelty());
            self.scouted.sightings.push(Sighting { key, novelty, anchor, time_ns });
        } else {
            self.scouted.dropped += 1;
        }
    }
}
