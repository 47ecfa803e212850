//! Assertions about what is always so, and about what is to be seen at least once.
//!
//!   assert_sometimes!(..) ──link time──► catalogue of all sites, by crate ──► what was never reached
//!           └──run──► the world's Hits ──► RunReport ──merged by a campaign──► what was, how often, how far
//!
//! | macro | complains when | listed as a gap when |
//! |---|---|---|
//! | [`assert_always!`](crate::assert_always) | it is false | never reached |
//! | [`assert_always_or_unreachable!`](crate::assert_always_or_unreachable) | it is false | |
//! | [`assert_unreachable!`](crate::assert_unreachable) | reached | |
//! | [`assert_reachable!`](crate::assert_reachable) | | never reached |
//! | [`assert_sometimes!`](crate::assert_sometimes) | | never true |
//! | [`assert_sometimes_all!`](crate::assert_sometimes_all) | | never all true at once |
//! | [`assert_sometimes_each!`](crate::assert_sometimes_each) | | never reached |
//! | [`assert_always_greater_than!`](crate::assert_always_greater_than) and its like | it is false | never reached |
//! | [`assert_sometimes_greater_than!`](crate::assert_sometimes_greater_than) and its like | | never true |
//!
//! The names are those of the Antithesis SDK. What complains is a [`Failure`](crate::verdict::Failure) whose property
//! is the message: run, campaign and exit status fail, and the run goes on. What an assertion holds of one run is in
//! its [`RunReport`](crate::verdict::RunReport), and a search takes what is new there for progress: a site that is
//! reached, a value, a watermark.
//!
//! Invariants: hits belong to a world, so a run is a function of its timeline; an assertion leaves no record and draws
//! nothing, so it changes no digest; what grows with a run is bounded by [`MOST_VALUES`], and a report says where
//! that bound was met.
//! Not here: properties of the trace (`invariant.rs`), what a search makes of it (`explore`).

mod hits;
mod macros;
mod site;

pub(crate) use hits::Sites;
pub use hits::{Assertions, Hits, MOST_VALUES, Measure};
pub use site::{Comparison, Duty, Listed, Shape, Site, catalogue, crate_of};

#[doc(hidden)]
pub use inventory;

use crate::context;
use crate::verdict::Category;
use crate::world::Handle;

impl Site {
    /// Something is looked at, and is so or not. For the macros.
    #[doc(hidden)]
    #[inline]
    pub fn see(&'static self, is_so: bool, evidence: impl FnOnce() -> String) {
        let seen = context::with(|world| {
            world.core.sites.borrow_mut().note(self, |hits| hits.see(is_so));
        });
        self.judge(seen.is_some(), is_so, evidence);
    }

    /// Two numbers are compared. For the macros.
    #[doc(hidden)]
    pub fn compare(
        &'static self,
        left: impl Measure,
        right: impl Measure,
        evidence: impl FnOnce() -> String,
    ) {
        let Shape::Number(comparison) = self.shape else {
            unreachable!("the macro of a comparison makes a site for numbers")
        };
        let (left, right) = (left.measure(), right.measure());
        let is_so = comparison.holds(left, right);
        let seen = context::with(|world| {
            world.core.sites.borrow_mut().note(self, |hits| {
                hits.see(is_so);
                hits.mark(left);
            });
        });
        self.judge(seen.is_some(), is_so, || {
            let text = evidence();
            let rest = if text.is_empty() { text } else { format!(": {text}") };
            format!("{left} is not {comparison} {right}{rest}")
        });
    }

    /// So many of several things are so. For the macros.
    #[doc(hidden)]
    pub fn see_together(&'static self, are_so: &[bool]) {
        context::with(|world| {
            world.core.sites.borrow_mut().note(self, |hits| {
                hits.see(are_so.iter().all(|is_so| *is_so));
                hits.mark(are_so.iter().filter(|is_so| **is_so).count() as i64);
            });
        });
    }

    /// These values are taken. For the macros.
    #[doc(hidden)]
    pub fn see_values(&'static self, values: &[i64]) {
        context::with(|world| {
            world.core.sites.borrow_mut().note(self, |hits| {
                hits.see(true);
                hits.take(values);
            });
        });
    }

    fn judge(&'static self, in_a_run: bool, is_so: bool, evidence: impl FnOnce() -> String) {
        if is_so || self.duty != Duty::Always {
            return;
        }
        let text = evidence();
        let rest = if text.is_empty() { text } else { format!(": {text}") };
        let evidence = format!("{self}{rest}");
        assert!(in_a_run, "{evidence}");
        if let Some(world) = context::try_current() {
            world.complain(self, evidence);
        }
    }
}

impl Handle {
    /// An assertion does not hold.
    fn complain(&self, site: &'static Site, evidence: String) {
        let who = self.owner().node;
        let evidence = format!("on {who}: {evidence}");
        let record = self.core.trace.borrow().len();
        match self.core.findings.try_borrow_mut() {
            Ok(mut findings) => {
                findings.at(self.now_ns(), record);
                findings.failure(Category::Invariant, site.message, site.macro_name(), evidence);
            }
            // An invariant asserts while it is asked: its own findings come first.
            Err(_) => self.core.sites.borrow_mut().postpone(site, evidence),
        }
    }

    /// Puts on record what invariants asserted in vain.
    #[inline]
    pub(crate) fn complain_of_postponed(&self) {
        if !self.core.sites.borrow().has_postponed() {
            return;
        }
        let postponed = self.core.sites.borrow_mut().take_postponed();
        for (site, evidence) in postponed {
            let mut findings = self.core.findings.borrow_mut();
            findings.failure(Category::Invariant, site.message, site.macro_name(), evidence);
        }
    }
}
