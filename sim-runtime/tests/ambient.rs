//! What code gets that asks the process for random bytes and the time, under each policy.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "that is what is tested")]

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sim_runtime::ambient::{Door, Policy};
use sim_runtime::campaign::{self, Settings, Summary};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::time::{sleep, wall_now};
use sim_runtime::verdict::{Category, RunReport};
use sim_runtime::{Options, World};

/// Goes through a hash map, and waits as the real clock says.
async fn careless() {
    let peers: HashMap<u32, u32> = (0..10).map(|n| (n, n)).collect();
    let begun = Instant::now();
    for peer in peers.keys() {
        tracing::info!(peer, waited = begun.elapsed().as_nanos() as u64, "is asked");
        sleep(Duration::from_millis(1)).await;
    }
}

struct Careless(Policy);

impl Scenario for Careless {
    type Config = ();
    type Plan = ();

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, _config: &()) {}

    fn run(&self, timeline: &Timeline<(), ()>, _watch: Watch) -> (RunReport, Vec<String>) {
        let mut world = World::new(timeline.seed, Options { ambient: self.0, ..Options::default() });
        world.run(careless());
        (world.report(), Vec::new())
    }
}

/// On a thread without hash keys.
fn fresh<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(f).join().expect("it does not panic"))
}

fn campaign(seeds: impl Iterator<Item = u64> + Send + 'static, jobs: usize) -> Summary {
    let settings = Settings { jobs, ..Settings::default() };
    campaign::run(&Arc::new(Careless(Policy::Virtualise)), seeds, &settings, |_, _| {})
}

#[test]
fn a_campaign_of_a_program_with_hash_maps_has_one_digest_since_workers_are_retired() {
    let one = campaign(1..41, 1);
    assert_eq!((one.runs, one.count(Category::Pass)), (40, 40));
    assert_eq!(one.digest, campaign(1..41, 2).digest);
    assert_eq!(one.digest, campaign((1..41).rev(), 3).digest);
}

#[test]
fn different_seeds_go_through_a_hash_map_in_different_orders() {
    let behaviour = |seed| fresh(|| Careless(Policy::Virtualise).run_seed(seed).behaviour);
    assert_eq!(behaviour(1), behaviour(1));
    assert_ne!(behaviour(1), behaviour(2));
}

#[test]
fn clocks_show_virtual_time() {
    fresh(|| {
        let mut world = World::new(1, Options::default());
        world
            .run(async {
                let begun = Instant::now();
                sleep(Duration::from_secs(3_600)).await;
                assert_eq!(begun.elapsed(), Duration::from_secs(3_600));
                assert_eq!(SystemTime::now().duration_since(UNIX_EPOCH).ok(), Some(wall_now()));
            })
            .expect("the run goes to its end");
        assert_eq!(world.report().findings.category(), Category::Pass);
    });
}

#[test]
fn nobody_is_listed_unless_that_is_wanted() {
    let doors = |policy| fresh(move || Careless(policy).run_seed(1).doors);
    assert!(doors(Policy::Virtualise).is_empty());
    let listed = doors(Policy::Report);
    let of = |door: Door| listed.iter().find(|used| used.door == door).expect("it was used");
    assert_eq!((listed.len(), of(Door::HashKeys).count, of(Door::Monotonic).count), (2, 1, 11));
    assert!(
        of(Door::Monotonic).backtrace.to_string().contains("careless"),
        "{}",
        of(Door::Monotonic).backtrace
    );
}

#[test]
fn what_is_forbidden_fails_where_it_happens() {
    let report = fresh(|| Careless(Policy::Forbid).run_seed(1));
    let first = report.findings.first().expect("it fails");
    assert_eq!((first.category, first.time_ns), (Category::Nondeterministic, 0));
    assert!(
        first.evidence.contains("hash keys") && first.evidence.contains("careless"),
        "{}",
        first.evidence
    );
    assert!(report.virtual_ns < 1_000_000, "the run goes on for {} ns", report.virtual_ns);
}

#[test]
fn outside_a_poll_the_real_clock_answers() {
    fresh(|| {
        let mut world = World::new(1, Options::default());
        world.run(async {});
        let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        assert!(real > Duration::from_secs(1_700_000_000), "{real:?}");
    });
}
