//! Recipes: edits of a timeline, each from a moment on that is named by what happens in it.
//!
//!   root timeline ──run──► when anchor 1 comes ──edit──► timeline ──run──► when anchor 2 comes ──edit──► ..
//!
//! A run is what its parent was up to the anchor, so anchors are found one after the other, each in the run of the
//! timeline so far. Code that changes elsewhere moves the times, and the recipe goes with them; one whose moment does
//! not come any more says so. The timeline that comes out is plain data without any anchor: that is what is replayed.
//!
//! Not here: which edits are worth trying (`search.rs`).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scout::{self, Anchor};
use crate::rng::{Override, Set};
use crate::scenario::{Scenario, Timeline, Watch};

/// One thing that is otherwise from a moment on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A field is held, calmed or as if under another seed.
    Field {
        /// Its name; [`crate::rng::ALL_FIELDS`] for all, and the streams of programs too.
        field: String,
        /// At which key; at all when absent.
        key: Option<u64>,
        /// For how long; to the end when absent.
        for_ns: Option<u64>,
        /// To what.
        set: Set,
    },
    /// The plan is another one: what the scenario makes of it, see [`Scenario::edit_plan`].
    Plan(Value),
    /// The same configuration once more from the beginning, and everything else from another seed, whenever the moment
    /// is: what comes with the configuration stays likely, and nothing else stays.
    Anew {
        /// From this.
        seed: u64,
    },
}

/// Changes from a moment on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// After which moment.
    pub after: Anchor,
    /// What is changed then.
    pub changes: Vec<Change>,
}

/// Edits, in the order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recipe(pub Vec<Edit>);

/// Why a recipe cannot be followed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lost {
    /// The run has no such moment.
    #[error("edit {number}: {anchor} does not come")]
    NoMoment {
        /// Which edit, from 1.
        number: usize,
        /// The moment.
        anchor: Anchor,
    },
    /// The scenario cannot change its plan so.
    #[error("edit {number}: the plan cannot be changed by {change}")]
    NoPlan {
        /// Which edit, from 1.
        number: usize,
        /// The change.
        change: Value,
    },
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |change: &Change| match change {
            Change::Field { field, set, .. } => format!("{field} {set:?}"),
            Change::Plan(value) => value.to_string(),
            Change::Anew { seed } => format!("all but the configuration from seed {seed}"),
        };
        for (at, Edit { after, changes }) in self.0.iter().enumerate() {
            if let [change @ Change::Anew { .. }] = changes.as_slice() {
                write!(f, "{}{}", if at == 0 { "" } else { "; " }, named(change))?;
                continue;
            }
            let changes: Vec<_> = changes.iter().map(named).collect();
            write!(f, "{}after {after}: {}", if at == 0 { "" } else { "; " }, changes.join(", "))?;
        }
        Ok(())
    }
}

/// `timeline` with these changes after the moment `anchor`, which came at `at_ns`; `None` when the scenario does not
/// understand one.
pub(super) fn changed<S: Scenario>(
    scenario: &S,
    timeline: &Timeline<S::Config, S::Plan>,
    anchor: &Anchor,
    at_ns: u64,
    changes: &[Change],
) -> Result<Timeline<S::Config, S::Plan>, Value> {
    let mut changed = timeline.clone();
    for change in changes {
        match change {
            Change::Field { field, key, for_ns, set } => {
                // What happens at the very instant of the moment stays.
                let from_ns = at_ns.saturating_add(1);
                let to_ns = for_ns.map_or(u64::MAX, |ns| from_ns.saturating_add(ns.max(1)));
                changed.overrides.push(Override {
                    field: field.clone(),
                    key: *key,
                    from_ns,
                    to_ns,
                    set: *set,
                });
            }
            Change::Plan(value) => {
                let plan = scenario.edit_plan(&changed, anchor.node, at_ns, value);
                changed.plan = plan.ok_or_else(|| value.clone())?;
            }
            Change::Anew { seed } => {
                changed.seed = *seed;
                changed.plan = scenario.plan(*seed, &changed.config);
                changed.overrides.clear();
            }
        }
    }
    Ok(changed)
}

impl Recipe {
    /// The timeline that comes of it: `root` is run once for each edit.
    ///
    /// # Errors
    /// When the moment of an edit does not come, or the plan cannot be changed so.
    pub fn follow<S: Scenario>(
        &self,
        scenario: &S,
        root: &Timeline<S::Config, S::Plan>,
    ) -> Result<Timeline<S::Config, S::Plan>, Lost> {
        let mut timeline = root.clone();
        for (at, Edit { after, changes }) in self.0.iter().enumerate() {
            let number = at + 1;
            if let [Change::Anew { .. }] = changes.as_slice() {
                timeline = changed(scenario, &timeline, after, 0, changes)
                    .map_err(|change| Lost::NoPlan { number, change })?;
                continue;
            }
            let wanted = BTreeSet::from([after.clone()]);
            let run = || drop(scenario.run(&timeline, Watch::default()));
            let ((), scouted) = scout::watched(scenario.signature(), u64::MAX, wanted, run);
            let Some(at_ns) = scouted.anchors.get(after) else {
                return Err(Lost::NoMoment { number, anchor: after.clone() });
            };
            timeline = changed(scenario, &timeline, after, *at_ns, changes)
                .map_err(|change| Lost::NoPlan { number, change })?;
        }
        Ok(timeline)
    }
}
