//! What the swarm can do without, to measure what each of its features is worth.

use std::fmt;
use std::str::FromStr;

macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident $name:literal;)*) => {
        /// A feature of the swarm that can be switched off.
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Feature { $($(#[$doc])* $feature,)* }

        impl Feature {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$feature),*];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$feature => $name),* }
            }
        }
    };
}

features! {
    /// Runs whose faults pursue leaders or elections.
    Pursuit "pursuit";
    /// Faults aimed at windows, points and roles, also in pursuits.
    Aims "aims";
    /// Latency and syncs in proportion to the election timeout.
    Proportion "proportion";
    /// Election timeouts from 30 ms.
    ShortTimeouts "short-timeouts";
    /// Three servers in half of the seeds.
    ThreeServers "three-servers";
    /// One or two entries an append.
    SmallAppends "small-appends";
    /// Log segments of less than 8 KiB.
    SmallSegments "small-segments";
    /// Disks that stall and slow down.
    Stalls "stalls";
    /// Power losses.
    PowerLoss "power-loss";
    /// State machines that lag behind.
    DelayedApply "delayed-apply";
    /// Load from idle to saturated.
    Load "load";
    /// Schedules other than the usual, wakes that are held back.
    Schedules "schedules";
    /// Disks that fail, fill up or rot.
    BadDisks "bad-disks";
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|feature| feature.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|feature| feature.name()).collect();
            format!("no such feature; there are {}", names.join(", "))
        })
    }
}

/// Features that are switched off.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Without(u32);

impl Without {
    /// Whether `feature` is off.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u8 != 0
    }
}

impl<'a> FromIterator<&'a Feature> for Without {
    fn from_iter<I: IntoIterator<Item = &'a Feature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |off, feature| off | 1 << *feature as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_go_by_their_names() {
        for feature in Feature::ALL {
            assert_eq!(feature.name().parse(), Ok(*feature));
            let without: Without = [feature].into_iter().collect();
            let off: Vec<_> = Feature::ALL.iter().filter(|feature| without.has(**feature)).collect();
            assert_eq!(off, [feature]);
        }
        assert!("luck".parse::<Feature>().is_err());
    }
}
