//! What a run is found to be.
//!
//! A run goes on after its first violation, so that everything that objects is known; the verdict is that of
//! the first failure. Premise findings ("the rule was broken, no harm yet") are counted apart and never fail a
//! run. What is not a pass is never rounded to one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ambient::DoorUse;
use crate::assert::Assertions;
use crate::device::Coverage;
use crate::event::FieldError;
use crate::rng::{hash_bytes, mix};

/// The kinds of verdict.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Nothing objects, and something was done.
    Pass,
    /// A safety or liveness property is violated.
    Invariant,
    /// What clients saw cannot be explained by one copy of the data.
    Linearizability,
    /// A panic: a symptom, not a diagnosis.
    Crash,
    /// Nothing could ever run again, or the run did not end in its time.
    Stuck,
    /// A task is polled endlessly while time stands still.
    Livelock,
    /// A task never yields (seen by the real-time watchdog).
    Hung,
    /// A judge ran out of budget. Never a pass.
    Undecided,
    /// No operation completed.
    Idle,
    /// Something outside the seed had a say.
    Nondeterministic,
}

impl Category {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Pass,
        Self::Invariant,
        Self::Linearizability,
        Self::Crash,
        Self::Stuck,
        Self::Livelock,
        Self::Hung,
        Self::Undecided,
        Self::Idle,
        Self::Nondeterministic,
    ];

    /// The name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Invariant => "invariant",
            Self::Linearizability => "linearizability",
            Self::Crash => "crash",
            Self::Stuck => "stuck",
            Self::Livelock => "livelock",
            Self::Hung => "hung",
            Self::Undecided => "undecided",
            Self::Idle => "idle",
            Self::Nondeterministic => "nondeterministic",
        }
    }

    /// Whether it means that something is wrong. `undecided` and `idle` are neither this nor a pass.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Pass | Self::Undecided | Self::Idle)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that was found wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of thing.
    pub category: Category,
    /// The property that is violated.
    pub property: String,
    /// What violations of one cause have in common: roles and relations, no numbers.
    pub shape: String,
    /// What happened, in a sentence.
    pub evidence: String,
    /// Global virtual time at which it was noticed.
    pub time_ns: u64,
    /// How many records there were then.
    pub record: u64,
}

impl Failure {
    /// A number for (category, property, shape): failures that share it are taken for one kind.
    pub fn fingerprint(&self) -> u64 {
        let category = mix(0, self.category as u64);
        hash_bytes(hash_bytes(category, self.property.as_bytes()), self.shape.as_bytes())
    }
}

/// What the judges of one run found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order in which they were noticed.
    pub failures: Vec<Failure>,
    /// Premise properties, and how often each was broken.
    pub premise: BTreeMap<&'static str, u64>,
    /// The first evidence for each broken premise.
    pub premise_evidence: BTreeMap<&'static str, String>,
    now_ns: u64,
    record: u64,
}

/// Beyond this many failures a run only counts on: one cause can object at every step.
const KEPT_FAILURES: usize = 64;

impl Findings {
    pub(crate) fn at(&mut self, now_ns: u64, record: u64) {
        (self.now_ns, self.record) = (now_ns, record);
    }

    /// A safety or liveness property is violated. `shape` says how in terms of roles and relations, without
    /// numbers; `evidence` says it in full.
    pub fn violation(&mut self, property: &'static str, shape: &str, evidence: String) {
        self.failure(Category::Invariant, property, shape, evidence);
    }

    /// Something of another category is wrong.
    pub fn failure(&mut self, category: Category, property: &'static str, shape: &str, evidence: String) {
        let known = |f: &Failure| f.category == category && f.property == property && f.shape == shape;
        if self.failures.len() >= KEPT_FAILURES || self.failures.iter().any(known) {
            return;
        }
        let (property, shape) = (property.to_owned(), shape.to_owned());
        let (time_ns, record) = (self.now_ns, self.record);
        self.failures.push(Failure { category, property, shape, evidence, time_ns, record });
    }

    /// What a field of an event holds. An event that does not have it, or as something else, is a failure of the run
    /// which says what the event has instead.
    ///
    /// ```
    /// # use sim_runtime::{event::Event, verdict::Findings};
    /// # fn observe(event: &Event, found: &mut Findings) {
    /// if let Some(term) = found.field(event.u64("term")) {
    ///     assert_ne!(term, 0);
    /// }
    /// # }
    /// ```
    pub fn field<T>(&mut self, value: Result<T, FieldError>) -> Option<T> {
        let refused = |error: FieldError| {
            self.failure(
                Category::Crash,
                "fields of events",
                "an event is not as declared",
                error.to_string(),
            );
        };
        value.map_err(refused).ok()
    }

    /// A rule was broken; whether harm follows is for others to see.
    pub fn premise(&mut self, property: &'static str, evidence: impl FnOnce() -> String) {
        let count = self.premise.entry(property).or_default();
        *count += 1;
        if *count == 1 {
            self.premise_evidence.insert(property, evidence());
        }
    }

    /// The failure that is the run's verdict: the first, but nondeterminism outranks all (nothing else can be
    /// trusted then), and what is merely not a pass comes last.
    pub fn first(&self) -> Option<&Failure> {
        let rank = |failure: &&Failure| match failure.category {
            Category::Nondeterministic => 0,
            category if category.is_failure() => 1,
            _ => 2,
        };
        self.failures.iter().min_by_key(rank)
    }

    /// The verdict.
    pub fn category(&self) -> Category {
        self.first().map_or(Category::Pass, |failure| failure.category)
    }
}

/// What one run was.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Digest of every trace record.
    pub behaviour: u64,
    /// Digest of every draw, field read and scheduling choice.
    pub draws: u64,
    /// How many trace records.
    pub records: u64,
    /// How many polls and timer events.
    pub steps: u64,
    /// Virtual time at the end.
    pub virtual_ns: u64,
    /// What happened how often.
    pub coverage: Coverage,
    /// What happened at assertions.
    pub assertions: Assertions,
    /// What was found.
    pub findings: Findings,
    /// What the process was asked for meanwhile, under a policy that lists it.
    pub doors: Vec<DoorUse>,
}

impl RunReport {
    /// Both digests in one number, which does not depend on other runs.
    pub fn digest(&self) -> u64 {
        mix(mix(self.seed, self.behaviour), self.draws)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_the_verdict_and_undecided_never_hides_one() {
        let mut found = Findings::default();
        assert_eq!(found.category(), Category::Pass);
        found.failure(Category::Undecided, "linearizability", "", String::new());
        assert_eq!(found.category(), Category::Undecided);
        found.violation("log matching", "", String::new());
        found.violation("election safety", "", String::new());
        assert_eq!(found.first().map(|f| f.property.as_str()), Some("log matching"));
        found.failure(Category::Nondeterministic, "foreign wake", "", String::new());
        assert_eq!(found.category(), Category::Nondeterministic);
    }

    #[test]
    fn a_broken_premise_is_no_failure() {
        let mut found = Findings::default();
        found.premise("reply after durable", || "n1".to_owned());
        found.premise("reply after durable", || "n2".to_owned());
        assert_eq!(found.category(), Category::Pass);
        assert_eq!(found.premise["reply after durable"], 2);
        assert_eq!(found.premise_evidence["reply after durable"], "n1");
    }
}
