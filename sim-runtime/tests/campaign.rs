//! Campaigns over a small scenario: order and number of threads do not matter, nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand_core::Rng;
use sim_runtime::campaign::{self, Settings, Summary};
use sim_runtime::rng::Stream;
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::time::sleep;
use sim_runtime::verdict::{Category, RunReport};
use sim_runtime::{Handle, Options, World, rng};

/// Sleeps by chance; misbehaves at the seeds that it is told to.
#[derive(Default)]
struct Sleeper {
    panics_at: Option<u64>,
    hangs_at: Option<u64>,
    breaks_harness_at: Option<u64>,
    release: Arc<AtomicBool>,
}

impl Scenario for Sleeper {
    type Config = u64;
    type Plan = Vec<u64>;

    fn config(&self, seed: u64) -> u64 {
        Stream::derive(seed, "config").range(1, 5)
    }

    fn plan(&self, seed: u64, _config: &u64) -> Vec<u64> {
        vec![Stream::derive(seed, "plan").below(10)]
    }

    fn run(&self, timeline: &Timeline<u64, Vec<u64>>, _watch: Watch) -> (RunReport, Vec<String>) {
        let seed = timeline.seed;
        assert_ne!(self.breaks_harness_at, Some(seed), "the harness breaks");
        let mut world = World::new(seed, Options::default());
        let (config, plan) = (timeline.config, timeline.plan.clone());
        let (panics, hangs) = (self.panics_at == Some(seed), self.hangs_at == Some(seed));
        let release = self.release.clone();
        world.run(async move {
            for _ in 0..config {
                sleep(Duration::from_millis(plan[0] + rng().next_u64() % 10)).await;
                Handle::current().count("naps", 1);
            }
            assert!(!panics, "told to");
            while hangs && !release.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        (world.report(), Vec::new())
    }
}

fn summary(scenario: Sleeper, seeds: impl Iterator<Item = u64> + Send + 'static, jobs: usize) -> Summary {
    // Where nothing hangs, a machine that is busy with other things is not to look like it.
    let hung_after = Duration::from_secs(if scenario.hangs_at.is_some() { 1 } else { 60 });
    let settings = Settings { jobs, hung_after, distributions: vec!["naps"], ..Settings::default() };
    campaign::run(&Arc::new(scenario), seeds, &settings, |_, _| {})
}

#[test]
fn the_digest_is_the_same_for_any_number_of_threads_and_any_order() {
    let one = summary(Sleeper::default(), 1..101, 1);
    assert_eq!((one.runs, one.count(Category::Pass)), (100, 100));
    assert_eq!(one.distributions["naps"].iter().sum::<u64>(), one.coverage.get("naps"));
    for other in [
        summary(Sleeper::default(), 1..101, 2),
        summary(Sleeper::default(), (1..101).rev(), 1),
        summary(Sleeper::default(), (1..101).rev(), 5),
    ] {
        assert_eq!((other.digest, other.runs, &other.coverage), (one.digest, 100, &one.coverage));
    }
    assert_ne!(one.digest, summary(Sleeper::default(), 1..100, 1).digest);
    assert_ne!(one.digest, summary(Sleeper::default(), 2..102, 1).digest);
}

#[test]
fn a_panic_in_a_task_or_in_the_harness_is_counted_with_its_seed() {
    let panics = summary(Sleeper { panics_at: Some(7), ..Sleeper::default() }, 1..21, 2);
    assert_eq!((panics.runs, panics.failed(), panics.count(Category::Crash)), (20, 1, 1));
    assert_eq!(panics.failures[0].seed, 7);
    assert!(panics.failures[0].first.evidence.contains("told to"));
    let breaks = summary(Sleeper { breaks_harness_at: Some(9), ..Sleeper::default() }, 1..21, 2);
    assert_eq!((breaks.runs, breaks.failed()), (20, 1));
    assert_eq!(breaks.failures[0].first.property, "panic in the harness");
}

#[test]
fn a_task_that_never_yields_is_hung_and_the_rest_goes_on() {
    let release = Arc::new(AtomicBool::new(false));
    let scenario = Sleeper { hangs_at: Some(5), release: release.clone(), ..Sleeper::default() };
    let hung = summary(scenario, 1..31, 2);
    release.store(true, Ordering::Relaxed);
    assert_eq!((hung.runs, hung.count(Category::Hung), hung.count(Category::Pass)), (30, 1, 29));
    assert_eq!(hung.failures[0].seed, 5);
}

#[test]
fn a_campaign_that_is_stopped_says_so() {
    let settings = Settings { jobs: 1, ..Settings::default() };
    let stop = settings.stop.clone();
    let scenario = Arc::new(Sleeper::default());
    let summary = campaign::run(&scenario, 1..1_000_000, &settings, |_, summary| {
        if summary.runs == 10 {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(summary.interrupted && summary.runs >= 10 && summary.runs < 1_000_000);
}
