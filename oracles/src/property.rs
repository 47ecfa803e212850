//! The names of what is judged, and the way from a judgement to the run's findings.
//!
//! Outcome properties see harm and fail a run. Premises see a rule broken, often long before any harm; they are
//! counted apart, so that a search can climb towards a failure without premises posing as one.
//!
//!   oracle ──(property, shape, evidence)──► Report ──unless switched off──► Findings
//!
//! Invariant: a shape holds roles and relations and no number, so that failures of one cause share it.

use std::collections::BTreeSet;

use sim_runtime::verdict::{Category, Findings};

macro_rules! names {
    ($(#[$doc:meta])* $enum:ident { $($(#[$each:meta])* $variant:ident = $name:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum $enum { $($(#[$each])* $variant),* }

        impl $enum {
            /// All of them, in the order of reports.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in reports and files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

names! {
    /// A property whose violation is harm.
    Property {
        /// At most one leader in a term (§5.2).
        ElectionSafety = "election safety",
        /// A leader neither overwrites nor removes entries of its own log (§5.3).
        LeaderAppendOnly = "leader append-only",
        /// Logs with an equal entry (index, term) are equal up to there (§5.3).
        LogMatching = "log matching",
        /// What was committed in a term is in the logs of the leaders of later terms (§5.4).
        LeaderCompleteness = "leader completeness",
        /// No two servers apply different entries at one index (§5.4.3).
        StateMachineSafety = "state machine safety",
        /// Terms, votes, commit index and applied index do not go back (Figure 2).
        Monotonicity = "monotonicity",
        /// What was acknowledged is still there after settling (§8).
        Durability = "durability",
        /// A command takes effect once, and its retries get its reply (§8).
        ExactlyOnce = "exactly once",
        /// Once faults end, there is a leader, and operations complete (§5.6).
        Liveness = "liveness",
        /// What the node says, what its records say and what its disk holds are one.
        Fidelity = "fidelity",
        /// What clients saw can be explained by one copy of the data (§8).
        Linearizability = "linearizability",
    }
}

impl Property {
    /// The abbreviation in the catalogue of planted defects.
    pub fn abbreviation(self) -> &'static str {
        match self {
            Self::ElectionSafety => "ES",
            Self::LeaderAppendOnly => "LAO",
            Self::LogMatching => "LM",
            Self::LeaderCompleteness => "LC",
            Self::StateMachineSafety => "SMS",
            Self::Monotonicity => "MONO",
            Self::Durability => "DUR",
            Self::ExactlyOnce => "SES",
            Self::Liveness => "LIVE",
            Self::Fidelity => "FID",
            Self::Linearizability => "LIN",
        }
    }
}

names! {
    /// A rule whose breach does no harm by itself.
    Premise {
        /// Something was taken for committed that no majority had accepted.
        ClaimedNotChosen = "claimed before chosen",
        /// A follower vouched for entries that its disk did not hold.
        AppendAnsweredEarly = "append acknowledged before durable",
        /// A vote was granted that the voter's disk did not hold.
        VoteGrantedEarly = "vote granted before durable",
        /// A candidate solicited votes before its disk held its own.
        VoteAskedEarly = "vote solicited before durable",
        /// A disk held a term and vote, and later an older term, or another vote of that term.
        HardStateTakenBack = "durable term or vote taken back",
        /// A message carried a term that its sender's disk did not hold.
        TermSentEarly = "term sent before durable",
        /// A candidate counted a vote that was never durably cast for it in that term.
        VoteCountedNotCast = "vote counted but not cast",
        /// A read was answered from a state that was older than its read index.
        ReadServedEarly = "read served before applied",
        /// A client was told that its write is done before any server had carried it out.
        AcknowledgedEarly = "acknowledged before applied",
    }
}

/// A set of properties and premises.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Names(u32);

impl Names {
    /// Those whose names are in `names`.
    ///
    /// # Panics
    /// If a name belongs to none of them: an oracle would stay on that somebody wanted off.
    pub fn of(names: &BTreeSet<&str>) -> Self {
        let mut set = Self::default();
        for name in names {
            let property = Property::ALL.iter().find(|p| p.name() == *name).map(|p| p.bit());
            let premise = || Premise::ALL.iter().find(|p| p.name() == *name).map(|p| p.bit());
            set.0 |= property.or_else(premise).unwrap_or_else(|| panic!("no oracle is named {name:?}"));
        }
        set
    }
}

impl Property {
    fn bit(self) -> u32 {
        1 << self as u8
    }
}

impl Premise {
    fn bit(self) -> u32 {
        1 << (16 + self as u8)
    }
}

/// Where oracles put what they find.
pub struct Report<'a> {
    found: &'a mut Findings,
    off: Names,
}

impl<'a> Report<'a> {
    /// A report into `found` that leaves out what is switched off.
    pub fn new(found: &'a mut Findings, off: Names) -> Self {
        Self { found, off }
    }

    /// Harm was done.
    #[cold]
    pub fn violation(&mut self, property: Property, shape: &str, evidence: impl FnOnce() -> String) {
        self.failure(Category::Invariant, property, shape, evidence);
    }

    /// As [`Report::violation`], in another category.
    #[cold]
    pub fn failure(
        &mut self,
        category: Category,
        property: Property,
        shape: &str,
        evidence: impl FnOnce() -> String,
    ) {
        // One cause can object at every step; its sentence is put together once.
        let known = |f: &sim_runtime::verdict::Failure| f.property == property.name() && f.shape == shape;
        if self.off.0 & property.bit() == 0 && !self.found.failures.iter().any(known) {
            self.found.failure(category, property.name(), shape, evidence());
        }
    }

    /// A rule was broken.
    #[cold]
    pub fn premise(&mut self, premise: Premise, evidence: impl FnOnce() -> String) {
        if self.off.0 & premise.bit() == 0 {
            self.found.premise(premise.name(), evidence);
        }
    }

    /// The run did too little to be called a pass.
    pub fn idle(&mut self, evidence: String) {
        self.found.failure(Category::Idle, "idle", "no operation completed", evidence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_no_two_share_a_bit() {
        let names: BTreeSet<&str> =
            Property::ALL.iter().map(|p| p.name()).chain(Premise::ALL.iter().map(|p| p.name())).collect();
        assert_eq!(names.len(), Property::ALL.len() + Premise::ALL.len());
        assert_eq!(Names::of(&names).0.count_ones() as usize, names.len());
    }

    #[test]
    #[should_panic(expected = "no oracle is named \"election safty\"")]
    fn a_misspelt_name_is_refused() {
        let _ = Names::of(&BTreeSet::from(["election safty"]));
    }

    #[test]
    fn a_kind_of_failure_is_told_once() {
        let mut found = Findings::default();
        let mut report = Report::new(&mut found, Names::default());
        report.violation(Property::LogMatching, "shape", || "first".to_owned());
        report.violation(Property::LogMatching, "shape", || unreachable!("it is known"));
        assert_eq!(found.failures.len(), 1);
    }
}
