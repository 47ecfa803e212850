//! What a few ranges of seeds say about all seeds.
//!
//! A range that was searched to its end without a catch counts as longer than any other, so a median or worst of
//! such is not a number but "not in N". Ranks are rounded up: the report never looks better than what was seen.

/// Seeds until the first catch, for each range; `None`: not in its budget.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Spread(Vec<Option<u64>>);

impl Spread {
    pub(super) fn of(values: impl IntoIterator<Item = Option<u64>>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_unstable_by_key(|value| value.unwrap_or(u64::MAX));
        Self(values)
    }

    /// The smallest value that at least so many percent of all do not exceed; of two middle ones the greater.
    pub(super) fn percentile(&self, percents: usize) -> Option<u64> {
        let rank = (self.0.len() * percents / 100).min(self.0.len().checked_sub(1)?);
        self.0[rank]
    }

    pub(super) fn median(&self) -> Option<u64> {
        self.percentile(50)
    }

    pub(super) fn p90(&self) -> Option<u64> {
        self.percentile(90)
    }

    pub(super) fn worst(&self) -> Option<u64> {
        *self.0.last()?
    }
}

/// A share with its 95 % interval.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(super) struct Rate {
    pub(super) is: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The 97.5 % point of the normal distribution.
const Z: f64 = 1.959_963_985;

/// Wilson's interval for `hits` of `tries`: unlike the usual one it makes sense for none and for all.
///
/// Ranges end with a hit, so the share is a little too high where hits are rare and ranges few.
pub(super) fn wilson(hits: u64, tries: u64) -> Rate {
    if tries == 0 {
        return Rate { is: 0.0, low: 0.0, high: 1.0 };
    }
    let (hits, tries) = (hits as f64, tries as f64);
    let share = hits / tries;
    let shrink = 1.0 + Z * Z / tries;
    let middle = (share + Z * Z / (2.0 * tries)) / shrink;
    let half = Z / shrink * (share * (1.0 - share) / tries + Z * Z / (4.0 * tries * tries)).sqrt();
    // At the ends, rounding could put the share itself outside.
    Rate { is: share, low: (middle - half).clamp(0.0, share), high: (middle + half).clamp(share, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_rounded_up_and_what_was_not_caught_is_worst() {
        let twenty = Spread::of((1..=20).rev().map(Some));
        assert_eq!((twenty.median(), twenty.p90(), twenty.worst()), (Some(11), Some(19), Some(20)));
        let some = Spread::of([Some(3), None, Some(9), None]);
        assert_eq!((some.percentile(0), some.percentile(25), some.median()), (Some(3), Some(9), None));
        assert_eq!((some.p90(), some.worst()), (None, None));
        assert_eq!(Spread::of([Some(7)]).median(), Some(7));
        assert_eq!(Spread::of([]).median(), None);
        assert_eq!(Spread::of([]).worst(), None);
    }

    /// Values from a published table (Newcombe 1998) for 15 of 148, 81 of 263 and 0 of 20.
    #[test]
    fn wilsons_interval_is_wilsons() {
        let thousandths = |hits, tries| {
            let Rate { low, high, .. } = wilson(hits, tries);
            ((low * 10_000.0).round() as u32, (high * 10_000.0).round() as u32)
        };
        assert_eq!(thousandths(15, 148), (624, 1605));
        assert_eq!(thousandths(81, 263), (2553, 3662));
        assert_eq!(thousandths(0, 20), (0, 1611));
        assert_eq!(thousandths(0, 0), (0, 10_000));
    }

    #[test]
    fn a_rate_lies_in_its_interval() {
        for tries in [1, 7, 20, 40_000] {
            for hits in [0, 1, tries / 2, tries] {
                let Rate { is, low, high } = wilson(hits, tries);
                assert!(0.0 <= low && low <= is && is <= high && high <= 1.0, "{hits} of {tries}");
            }
        }
    }
}
