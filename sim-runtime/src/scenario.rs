//! Timelines as data, and what can run one.
//!
//!   seed ──config(seed)──► config ──plan(seed, config)──► plan ──┐
//!                                             overrides ─────────┴─► Timeline ──run──► RunReport
//!
//! A timeline is everything that a run depends on. Configuration and plan are derived from the seed before the
//! run, each from its own stream; they are plain values, so one fault can be taken out and the rest stays.
//! Campaign, replay, shrinking and exploring are written against [`Scenario`] and know no protocol.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::explore::{General, Signature};
use crate::node::NodeId;
use crate::rng::{Override, Stream};
use crate::trace::Record;
use crate::verdict::{Failure, RunReport};

/// Everything that a run is a function of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline<C, P> {
    /// Seeds fields and streams.
    pub seed: u64,
    /// What is run: nodes, clients, rates, timeouts.
    pub config: C,
    /// What goes wrong: when, what, where.
    pub plan: P,
    /// Edits of the fields.
    #[serde(default)]
    pub overrides: Vec<Override>,
}

/// How a run is watched; never what happens in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Watch {
    /// Keep and print the story of the run.
    pub story: bool,
}

/// A program under test with its world and its judges.
pub trait Scenario: Sync {
    /// What is run.
    type Config: Clone + Serialize + DeserializeOwned;
    /// What goes wrong.
    type Plan: Clone + Serialize + DeserializeOwned;

    /// The configuration of `seed`, from a stream of its own.
    fn config(&self, seed: u64) -> Self::Config;

    /// The fault plan of `seed` for that configuration, from a stream of its own.
    fn plan(&self, seed: u64, config: &Self::Config) -> Self::Plan;

    /// Builds the world, runs the timeline and judges it. Returns the report, and the story when one is
    /// wanted.
    fn run(&self, timeline: &Timeline<Self::Config, Self::Plan>, watch: Watch) -> (RunReport, Vec<String>);

    /// Plans that are one step simpler than `plan`, the most promising first; for shrinking.
    fn simpler(&self, plan: &Self::Plan) -> Vec<Self::Plan> {
        let _ = plan;
        Vec::new()
    }

    /// Timelines that are one step simpler than `timeline`, which fails as `failure` says; the most promising first.
    /// Each must be smaller in some respect, so that shrinking comes to an end.
    fn moves(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        failure: &Failure,
    ) -> Vec<Timeline<Self::Config, Self::Plan>> {
        let _ = failure;
        let with = |plan| Timeline { plan, ..timeline.clone() };
        self.simpler(&timeline.plan).into_iter().map(with).collect()
    }

    /// Those of the moves after which much is gone: each is tried under many more seeds before shrinking ends.
    fn great_moves(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        failure: &Failure,
    ) -> Vec<Timeline<Self::Config, Self::Plan>> {
        let _ = (timeline, failure);
        Vec::new()
    }

    /// Number `number` of many random variations of `timeline`, by [`Scenario::weight`] lighter or as heavy: tried when
    /// nothing else is left, on the way from one that fails alike to the next. A function of its arguments. `None` where
    /// it is not worth it.
    fn variation(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        number: u32,
    ) -> Option<Timeline<Self::Config, Self::Plan>> {
        let _ = (timeline, number);
        None
    }

    /// How much there is in a timeline that a reader has to understand. No move makes it more.
    fn weight(&self, timeline: &Timeline<Self::Config, Self::Plan>) -> u64 {
        let _ = timeline;
        0
    }

    /// The timeline with small disturbances that have nothing to do with what goes wrong in it, one in each. The more of
    /// them fail alike, the sturdier it is.
    fn disturbed(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
    ) -> Vec<Timeline<Self::Config, Self::Plan>> {
        let _ = timeline;
        Vec::new()
    }

    /// Timelines that are no heavier and may be sturdier: faults last longer, come at other times, wait for a moment.
    fn sturdier(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        failure: &Failure,
    ) -> Vec<Timeline<Self::Config, Self::Plan>> {
        let _ = (timeline, failure);
        Vec::new()
    }

    /// The same timeline with everything that waits for a moment fixed to the moment that came, for shrinking; then with
    /// some of it. They need not be exact: those that fail otherwise are not used.
    fn concrete(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
    ) -> Vec<Timeline<Self::Config, Self::Plan>> {
        let _ = timeline;
        Vec::new()
    }

    /// The crates, as in paths, whose assertions are those of the program: a report lists which of these were never
    /// reached. See [`crate::assert`].
    fn asserting(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What a state of the program is to a search; that of any program by default.
    fn signature(&self) -> Box<dyn Signature> {
        Box::new(General::default())
    }

    /// A change of the plan that a search may try after a moment on `node` at `at_ns`, for [`Scenario::edit_plan`]: a
    /// fault more, less, elsewhere in time. Plain data, without absolute times; none where the plan has nothing to change.
    fn plan_edit(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        node: NodeId,
        at_ns: u64,
        stream: &mut Stream,
    ) -> Option<Value> {
        let _ = (timeline, node, at_ns, stream);
        None
    }

    /// A change of the plan, for [`Scenario::edit_plan`], with which a run is over soon after a moment: what comes of the
    /// moment is seen by then, and the rest of the run is saved. None where a plan has no end of its own.
    fn plan_end(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        at_ns: u64,
        stream: &mut Stream,
    ) -> Option<Value> {
        let _ = (timeline, at_ns, stream);
        None
    }

    /// The plan of `timeline`, changed as `edit` says after a moment on `node` at `at_ns`, and the same before; `None`
    /// when that is not understood.
    fn edit_plan(
        &self,
        timeline: &Timeline<Self::Config, Self::Plan>,
        node: NodeId,
        at_ns: u64,
        edit: &Value,
    ) -> Option<Self::Plan> {
        let _ = (timeline, node, at_ns, edit);
        None
    }

    /// From when on nothing is worth a search any more: the faults are over.
    fn explored_until_ns(&self, timeline: &Timeline<Self::Config, Self::Plan>) -> u64 {
        let _ = timeline;
        u64::MAX
    }

    /// A record of the program's own in words, for reports.
    fn describe(&self, record: &Record) -> Option<String> {
        let _ = record;
        None
    }

    /// The timeline of a bare seed.
    fn timeline(&self, seed: u64) -> Timeline<Self::Config, Self::Plan> {
        let config = self.config(seed);
        let plan = self.plan(seed, &config);
        Timeline { seed, config, plan, overrides: Vec::new() }
    }

    /// Runs a bare seed.
    fn run_seed(&self, seed: u64) -> RunReport {
        self.run(&self.timeline(seed), Watch::default()).0
    }
}
