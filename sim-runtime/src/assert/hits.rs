//! What happened at the sites of assertions: in one run, or in many together.
//!
//! Invariants: merging is commutative and associative, but for which values are dropped at the limit: there the least
//! stay.
//! Not here: what is expected (`site.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::rng::mix;
use crate::words::counted;

use super::site::{Duty, Shape, Site, catalogue};

/// So many different values of one `assert_sometimes_each!` are told apart. More are counted, and said to be too many.
pub const MOST_VALUES: usize = 4_096;

/// What a number that an assertion looks at can be. Beyond 63 bits it is taken for the nearest that fits.
pub trait Measure: Copy {
    /// As a number.
    fn measure(self) -> i64;
}

macro_rules! measures {
    ($($type:ty),*) => {
        $(impl Measure for $type {
            fn measure(self) -> i64 {
                i64::try_from(self).unwrap_or_else(|_| if self > 0 as $type { i64::MAX } else { i64::MIN })
            }
        })*
    };
}

measures!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl Measure for bool {
    fn measure(self) -> i64 {
        i64::from(self)
    }
}

/// In nanoseconds.
impl Measure for Duration {
    fn measure(self) -> i64 {
        self.as_nanos().measure()
    }
}

/// What happened at one site.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hits {
    /// How often it was so.
    pub so: u64,
    /// How often it was not.
    pub not_so: u64,
    /// The least and the greatest number seen; of several things, how many were so at once.
    pub range: Option<(i64, i64)>,
    /// The values seen.
    pub values: BTreeSet<Vec<i64>>,
    /// How often a value was new and there were [`MOST_VALUES`] already.
    pub beyond_limit: u64,
    /// The value that was new last, as a hash.
    latest: u64,
}

impl Hits {
    pub(super) fn see(&mut self, is_so: bool) {
        if is_so {
            self.so += 1;
        } else {
            self.not_so += 1;
        }
    }

    pub(super) fn mark(&mut self, number: i64) {
        let (least, greatest) = self.range.unwrap_or((number, number));
        self.range = Some((least.min(number), greatest.max(number)));
    }

    pub(super) fn take(&mut self, values: &[i64]) {
        if self.values.contains(values) {
            return;
        }
        if self.values.len() < MOST_VALUES {
            self.values.insert(values.to_vec());
            self.latest = values.iter().fold(1, |hash, value| mix(hash, *value as u64));
        } else {
            self.beyond_limit += 1;
        }
    }

    /// How far a run has come at this site, as a number that is another when it comes further: it is so for the first
    /// time, has a value that is new, or a watermark rises.
    fn progress(&self, site: &Site) -> u64 {
        let first = u64::from(self.so > 0) << 1 | u64::from(self.reached() > 0);
        let mark = self.range.map(|(least, greatest)| match site.shape {
            // What is always so is nearest to failing at the other end.
            Shape::Number(comparison) if comparison.is_upward() == (site.duty == Duty::Always) => least,
            _ => greatest,
        });
        mix(mix(first, mark.map_or(0, |mark| mark as u64)), self.latest)
    }

    /// How often it was reached.
    pub fn reached(&self) -> u64 {
        self.so + self.not_so
    }

    fn merge(&mut self, other: &Self) {
        self.so += other.so;
        self.not_so += other.not_so;
        if let Some((least, greatest)) = other.range {
            self.mark(least);
            self.mark(greatest);
        }
        self.beyond_limit += other.beyond_limit;
        self.values.extend(other.values.iter().cloned());
        while self.values.len() > MOST_VALUES {
            self.values.pop_last();
            self.beyond_limit += 1;
        }
    }
}

/// What happened at all sites that were reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assertions(BTreeMap<&'static Site, Hits>);

impl Assertions {
    /// The sites that were reached.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Site, &Hits)> {
        self.0.iter().map(|(site, hits)| (*site, hits))
    }

    /// What happened at the sites with this message.
    pub fn get(&self, message: &str) -> Option<&Hits> {
        self.0.iter().find(|(site, _)| site.message == message).map(|(_, hits)| hits)
    }

    /// Adds what happened in another run.
    pub fn merge(&mut self, other: &Self) {
        for (site, hits) in &other.0 {
            self.0.entry(site).or_default().merge(hits);
        }
    }

    /// The sites of these crates that were never reached, and those of what never was so.
    pub fn missing(&self, crates: &[&str]) -> Vec<&'static Site> {
        let is_missing = |site: &&'static Site| match self.0.get(site) {
            None => site.must_be_reached,
            Some(hits) => site.duty == Duty::Sometimes && hits.so == 0,
        };
        catalogue(crates).into_iter().filter(is_missing).collect()
    }

    /// The same in words, a line each, with how near it came.
    pub fn gaps(&self, crates: &[&str]) -> Vec<String> {
        let told = |site: &'static Site| match self.0.get(site) {
            None => format!("{site}: never reached"),
            Some(hits) => {
                let times = counted(hits.reached(), "time");
                format!("{site}: reached {times}, never so{}", self.closest(site))
            }
        };
        self.missing(crates).into_iter().map(told).collect()
    }

    fn closest(&self, site: &Site) -> String {
        let Some((least, greatest)) = self.0.get(site).and_then(|hits| hits.range) else {
            return String::new();
        };
        match site.shape {
            Shape::All(names) => format!(", at most {greatest} of {} at once", names.len()),
            Shape::Number(comparison) if comparison.is_upward() => format!(", {greatest} at most"),
            Shape::Number(_) => format!(", {least} at least"),
            _ => String::new(),
        }
    }

    /// Where the limit of values was met: from there on new ones are not told apart.
    pub fn limits_met(&self) -> Vec<String> {
        let met = self.0.iter().filter(|(_, hits)| hits.beyond_limit > 0);
        let line = |(site, hits): (&&Site, &Hits)| {
            format!(
                "LIMIT MET: {site} has more than {MOST_VALUES} values; {} new ones were not told apart and guide nothing",
                hits.beyond_limit
            )
        };
        met.map(line).collect()
    }
}

/// The sites of one world.
#[derive(Default)]
pub(crate) struct Sites {
    /// By address: one comparison at a hit. The order is nobody's business; see [`Sites::report`].
    hits: BTreeMap<usize, (&'static Site, Hits)>,
    postponed: Vec<(&'static Site, String)>,
    /// What is new, with a number for it, where a search asks.
    news: Option<Vec<(&'static Site, u64)>>,
}

impl Sites {
    /// With news for a search, or without.
    pub(crate) fn new(with_news: bool) -> Self {
        Self { news: with_news.then(Vec::new), ..Self::default() }
    }

    /// Something happens at `site`.
    pub(super) fn note(&mut self, site: &'static Site, happen: impl FnOnce(&mut Hits)) {
        let address = std::ptr::from_ref(site) as usize;
        let hits = &mut self.hits.entry(address).or_insert_with(|| (site, Hits::default())).1;
        let Some(news) = &mut self.news else { return happen(hits) };
        let before = hits.progress(site);
        happen(hits);
        let after = hits.progress(site);
        if before != after {
            news.push((site, after));
        }
    }

    /// What is new since this was asked last.
    pub(crate) fn take_news(&mut self) -> Vec<(&'static Site, u64)> {
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn postpone(&mut self, site: &'static Site, evidence: String) {
        self.postponed.push((site, evidence));
    }

    #[inline]
    pub(super) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    pub(super) fn take_postponed(&mut self) -> Vec<(&'static Site, String)> {
        std::mem::take(&mut self.postponed)
    }

    pub(crate) fn report(&self) -> Assertions {
        let mut all = Assertions::default();
        for (site, hits) in self.hits.values() {
            all.0.entry(site).or_default().merge(hits);
        }
        all
    }
}
