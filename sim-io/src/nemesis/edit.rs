//! Changes of a plan from a moment on, for a guided search.
//!
//! A change holds no absolute time: it says how long after the moment. So it goes with the moment when that comes at
//! another time.
//!
//! Invariants: what begins up to the moment stays as it is; only kinds that the plan's configuration has are put in.
//! Not here: which moments (`sim_runtime::explore`).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim_runtime::NodeId;
use sim_runtime::rng::{Stream, mix};
#[cfg(doc)]
use sim_runtime::scenario::Scenario;

use super::choose::Chooser;
use super::fault::{PlannedFault, Target, When};
use super::kind::FaultKind;
use super::plan::{Plan, PlanConfig};

/// A change of a plan after a moment on a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlanEdit {
    /// One fault more. Its times count from the moment, and [`Target::Hit`] is the moment's node where it is aimed at
    /// nothing else.
    Insert(PlannedFault),
    /// Without the nth fault, from 0, of those that begin after the moment.
    Remove {
        /// Which.
        nth: usize,
    },
    /// The nth fault, from 0, of those that begin after the moment, comes so long after it instead.
    Move {
        /// Which.
        nth: usize,
        /// How long.
        delay_us: u64,
    },
    /// All faults after the moment are drawn anew.
    Redraw {
        /// From this.
        seed: u64,
    },
    /// Everything is healed so long after the moment, unless it is sooner already.
    Heal {
        /// How long.
        delay_us: u64,
    },
}

impl PlanEdit {
    /// One that `plan`, derived from `config`, allows after a moment on `node` at `at_ns`; none where there is nothing to
    /// change.
    pub fn draw(
        plan: &Plan,
        config: &PlanConfig,
        node: NodeId,
        at_ns: u64,
        stream: &mut Stream,
    ) -> Option<Self> {
        let kinds: Vec<FaultKind> =
            config.kinds.iter().filter(|(_, weight)| **weight > 0).map(|(kind, _)| *kind).collect();
        let later = plan.later_than(at_ns).len() as u64;
        match stream.below(100) {
            0..25 if !kinds.is_empty() => Some(Self::Redraw { seed: stream.range(0, u64::MAX - 1) }),
            25..80 if !kinds.is_empty() => {
                // Harm comes of what goes down more than of anything else.
                let down =
                    [FaultKind::Kill, FaultKind::PowerOff].map(|kind| kinds.contains(&kind).then_some(kind));
                let down: Vec<FaultKind> = down.into_iter().flatten().collect();
                let takes_down = !down.is_empty() && stream.chance(500_000);
                let kind = *stream.pick(if takes_down { &down } else { &kinds });
                Some(Self::Insert(inserted(config, kind, node, stream)))
            }
            80..90 if later > 0 => Some(Self::Remove { nth: stream.below(later) as usize }),
            90..100 if later > 0 => {
                Some(Self::Move { nth: stream.below(later) as usize, delay_us: soon_us(stream) })
            }
            _ => None,
        }
    }

    /// An end soon after a moment at `at_ns`, as plain data: after the time of one fault to four.
    pub fn draw_end(plan: &Plan, config: &PlanConfig, at_ns: u64, stream: &mut Stream) -> Option<Value> {
        let delay_us = config.every_max_ms.max(1) * stream.range(1_000, 4_000);
        if at_ns.saturating_add(delay_us.saturating_mul(1_000)) >= plan.heal_at_ns {
            return None;
        }
        Some(serde_json::to_value(Self::Heal { delay_us }).expect("an edit is plain data"))
    }

    /// As [`PlanEdit::draw`], as plain data: [`Scenario::plan_edit`] of whatever has such a plan.
    pub fn draw_data(
        plan: &Plan,
        config: &PlanConfig,
        node: NodeId,
        at_ns: u64,
        stream: &mut Stream,
    ) -> Option<Value> {
        let edit = Self::draw(plan, config, node, at_ns, stream)?;
        Some(serde_json::to_value(edit).expect("an edit is plain data"))
    }

    /// As [`PlanEdit::apply`], from plain data, `None` also where that is no edit: [`Scenario::edit_plan`] of whatever has
    /// such a plan.
    pub fn apply_data(
        edit: &Value,
        plan: &Plan,
        config: &PlanConfig,
        node: NodeId,
        at_ns: u64,
    ) -> Option<Plan> {
        let edit: Self = serde_json::from_value(edit.clone()).ok()?;
        edit.apply(plan, config, node, at_ns)
    }

    /// `plan` with this change after a moment on `node` at `at_ns`; `None` when there is no such fault.
    pub fn apply(&self, plan: &Plan, config: &PlanConfig, node: NodeId, at_ns: u64) -> Option<Plan> {
        let mut edited = plan.clone();
        // What begins with the moment itself is before it.
        let after_ns = at_ns + 1;
        match self {
            Self::Insert(fault) => {
                let mut fault = fault.clone();
                fault.when.shift(|ns| after_ns.saturating_add(ns));
                if !fault.when.is_aimed() {
                    fault.what.replace_targets(|target| *target == Target::Hit, &Target::Nodes(vec![node]));
                }
                fault.id = plan.free_id();
                edited.faults.push(fault);
            }
            Self::Remove { nth } => {
                edited.faults.remove(*plan.later_than(at_ns).get(*nth)?);
            }
            Self::Move { nth, delay_us } => {
                let at = *plan.later_than(at_ns).get(*nth)?;
                let to_ns = after_ns.saturating_add(delay_us.saturating_mul(1_000));
                edited.faults[at].when.shift(|_| to_ns);
            }
            Self::Redraw { seed } => {
                edited.faults.retain(|fault| fault.when.earliest_ns() <= at_ns);
                let others = Plan::derive(mix(*seed, 1), config).faults.into_iter();
                let later = others.filter(|fault| fault.when.earliest_ns() > at_ns);
                let renamed = (edited.free_id()..).zip(later).map(|(id, fault)| PlannedFault { id, ..fault });
                edited.faults.extend(renamed);
            }
            Self::Heal { delay_us } => {
                let heal_at_ns = after_ns.saturating_add(delay_us.saturating_mul(1_000));
                edited.heal_at_ns = edited.heal_at_ns.min(heal_at_ns);
                edited.faults.retain(|fault| fault.when.earliest_ns() < edited.heal_at_ns);
            }
        }
        Some(edited)
    }
}

/// Soon after a moment, heavy-tailed: a microsecond to a quarter of a second.
fn soon_us(stream: &mut Stream) -> u64 {
    let low = 1 << stream.below(17);
    stream.range(low, low * 2)
}

fn inserted(config: &PlanConfig, kind: FaultKind, node: NodeId, stream: &mut Stream) -> PlannedFault {
    let own = Stream::derive(stream.range(0, u64::MAX - 1), "inserted fault");
    let delay_ns = soon_us(stream) * 1_000;
    let mut fault = Chooser { config, stream: own, hit_is_known: false }.fault(kind, 0, delay_ns);
    let is_server = (1..=config.servers).contains(&node.0);
    if !fault.when.is_aimed() && is_server && stream.chance(500_000) {
        let mut is_first = true;
        fault.what.replace_targets(|_| std::mem::take(&mut is_first), &Target::Hit);
    }
    fault
}

impl When {
    /// With other times.
    fn shift(&mut self, to: impl Fn(u64) -> u64) {
        match self {
            Self::At { at_ns } => *at_ns = to(*at_ns),
            Self::Window { after_ns, .. } | Self::Point { after_ns, .. } | Self::Role { after_ns, .. } => {
                *after_ns = to(*after_ns);
            }
        }
    }
}

impl Plan {
    /// The places of the faults that begin after `at_ns`, in the order of time.
    fn later_than(&self, at_ns: u64) -> Vec<usize> {
        let begins = |at: &usize| (self.faults[*at].when.earliest_ns(), self.faults[*at].id);
        let mut places: Vec<usize> = (0..self.faults.len()).filter(|at| begins(at).0 > at_ns).collect();
        places.sort_by_key(begins);
        places
    }

    fn free_id(&self) -> u32 {
        self.faults.iter().map(|fault| fault.id).max().unwrap_or(0) + 1
    }
}
