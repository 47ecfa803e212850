//! Tests of programs: many seeds of one, with a line that reproduces what fails. For the attribute
//! [`macro@crate::test`].
//!
//! | variable | meaning |
//! |---|---|
//! | `SIM_SEED=17` | this seed only, with its story when it fails |
//! | `SIM_SEEDS=5000` | so many seeds, from 1 on |

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::campaign;
use crate::determinism::{self, Fresh};
use crate::scenario::{Scenario, Timeline, Watch};
use crate::verdict::{Category, RunReport};
use crate::world::{Options, World};

/// What is known of a test.
#[derive(Copy, Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: &'static str,
    /// The module that it is in, with the crate's name first.
    pub module: &'static str,
    /// The package.
    pub package: &'static str,
    /// How many seeds, when no variable says otherwise.
    pub seeds: u64,
    /// How many of them are checked for determinism.
    pub check_determinism: u64,
}

/// What a test's main future may return: nothing, or an error that makes it fail.
pub trait Outcome {
    /// What went wrong.
    fn error(self) -> Option<String>;
}

impl Outcome for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl<E: Debug> Outcome for Result<(), E> {
    fn error(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}

/// A scenario that is one future on the host, in a world with the usual options.
struct Main {
    make: Box<dyn Fn() -> LocalBoxFuture<'static, Option<String>> + Send + Sync>,
    /// The line of the test, for reports.
    place: &'static Location<'static>,
}

impl Scenario for Main {
    type Config = ();
    type Plan = ();

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, _config: &()) {}

    fn run(&self, timeline: &Timeline<(), ()>, _watch: Watch) -> (RunReport, Vec<String>) {
        let mut world = World::new(timeline.seed, Options::default());
        let returned = world.run_from(self.place, (self.make)());
        if let Some(Some(error)) = &returned {
            let evidence = format!("the test returned {error}");
            world.handle().fail(Category::Crash, "the test failed", "error returned", evidence);
        }
        world.handle().note_output("returned", || format!("{returned:?}"));
        (world.report(), Vec::new())
    }
}

/// Runs a test that is an async function: its future is the main task of a world, on the host.
///
/// # Panics
/// If a seed fails.
#[track_caller]
pub fn run_main<F>(test: &Test, main: fn() -> F)
where
    F: Future<Output: Outcome> + 'static,
{
    let make = Box::new(move || main().map(Outcome::error).boxed_local());
    run(test, Main { make, place: Location::caller() });
}

/// Runs a test that is a function which returns a scenario.
///
/// # Panics
/// If a seed fails.
pub fn run_scenario<S>(test: &Test, scenario: fn() -> S)
where
    S: Scenario + Send + Sync + 'static,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    run(test, scenario());
}

/// Which seeds a variable asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Wanted {
    One(u64),
    Many(u64),
}

#[expect(clippy::disallowed_methods, reason = "which seeds are run is up to whoever runs the tests")]
fn wanted(test: &Test) -> Wanted {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is wanted")))
    };
    match (number("SIM_SEED"), number("SIM_SEEDS")) {
        (Some(seed), _) => Wanted::One(seed),
        (None, Some(seeds)) => Wanted::Many(seeds),
        (None, None) => Wanted::Many(test.seeds),
    }
}

fn run<S>(test: &Test, scenario: S)
where
    S: Scenario + Send + Sync + 'static,
    S::Config: PartialEq + Send + Sync,
    S::Plan: PartialEq + Send + Sync,
{
    let wanted = wanted(test);
    let scenario = Arc::new(scenario);
    if test.check_determinism > 0 {
        let seeds: Vec<u64> = match wanted {
            Wanted::One(seed) => vec![seed],
            Wanted::Many(seeds) => (1..=seeds.min(test.check_determinism)).collect(),
        };
        let settings = determinism::Settings { fresh: Fresh::Test(test.path()), ..Default::default() };
        let checked = determinism::check(&*scenario, seeds, &settings, |_| {});
        if let Some(first) = checked.divergences.first() {
            panic!("{checked}  reproduce: {}", test.reproduce(first.seed));
        }
    }
    let seeds = match wanted {
        Wanted::One(seed) => seed..=seed,
        Wanted::Many(seeds) => 1..=seeds,
    };
    let settings = campaign::Settings::default();
    let failed = settings.failed.clone();
    let seeds = seeds.take_while(move |_| !failed.load(Ordering::Relaxed));
    let summary = campaign::run(&scenario, seeds, &settings, |_, _| {});
    let Some(run) = summary.failures.iter().find(|run| run.first.category.is_failure()) else { return };
    if matches!(wanted, Wanted::One(_)) {
        let timeline = scenario.timeline(run.seed);
        for line in scenario.run(&timeline, Watch { story: true }).1 {
            println!("{line}");
        }
    }
    let first = &run.first;
    panic!(
        "seed {}: {}: {}: {}\n  reproduce: {}",
        run.seed,
        first.category,
        first.property,
        first.evidence,
        test.reproduce(run.seed)
    );
}

impl Test {
    /// Its name as the test harness knows it.
    fn path(&self) -> String {
        match self.module.split_once("::") {
            Some((_, module)) => format!("{module}::{}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// The line that runs `seed` again.
    fn reproduce(&self, seed: u64) -> String {
        let of = self.module.split("::").next().unwrap_or_default();
        let target =
            if of == self.package.replace('-', "_") { String::new() } else { format!(" --test {of}") };
        format!(
            "SIM_SEED={seed} cargo test -p {}{target} {} -- --exact --nocapture",
            self.package,
            self.path()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_reproduces_names_the_test_and_its_target() {
        let test =
            Test { name: "t", module: "own_protocol::a", package: "sim-io", seeds: 1, check_determinism: 0 };
        assert_eq!(
            test.reproduce(7),
            "SIM_SEED=7 cargo test -p sim-io --test own_protocol a::t -- --exact --nocapture"
        );
        let unit = Test { module: "sim_io::net", ..test };
        assert_eq!(unit.reproduce(7), "SIM_SEED=7 cargo test -p sim-io net::t -- --exact --nocapture");
    }
}
