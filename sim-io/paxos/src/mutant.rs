//! Planted defects. A site reads `right || planted.has(Mutant::Wrong)`: without the cargo feature `mutants` the
//! question is the constant false and compiles to nothing.

use std::str::FromStr;

macro_rules! mutants {
    ($($mutant:ident $name:ident $sentence:literal)*) => {
        /// A mistake that people make with Paxos.
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $(#[doc = $sentence] $mutant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: [Self; 6] = [$(Self::$mutant),*];

            /// Its name on a command line, and the defect in a sentence.
            pub const fn name(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$mutant => (stringify!($name), $sentence),)*
                }
            }
        }
    };
}

mutants! {
    ForgottenPromise forgotten_promise "An acceptor answers a prepare request before its promise is durable."
    FirstAccepted first_accepted "A proposer takes the first accepted value that it hears of, whatever its number."
    HalfIsEnough half_is_enough "A majority of n is n/2."
    BelowPromise below_promise "An acceptor accepts proposals whatever it has promised."
    ReusedBallot reused_ballot "After a restart a proposer begins with the last number that it has used."
    MixedBallots mixed_ballots "A learner counts who accepted a value, in whichever proposals."
}

/// No mutant has that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no planted defect is called `{0}`")]
pub struct UnknownMutant(String);

impl FromStr for Mutant {
    type Err = UnknownMutant;

    fn from_str(name: &str) -> Result<Self, UnknownMutant> {
        let found = Self::ALL.into_iter().find(|mutant| mutant.name().0 == name);
        found.ok_or_else(|| UnknownMutant(name.to_owned()))
    }
}

/// The defect in every server, if any.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Planted(pub Option<Mutant>);

impl Planted {
    /// Whether `mutant` is planted.
    #[inline]
    pub fn has(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.0 == Some(mutant)
    }
}
