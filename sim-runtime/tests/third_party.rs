//! Code that others wrote, with std's hash keys and clock inside, under the guard.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::time::Duration;

use moka::future::Cache;
use rand_core::Rng;
use sim_runtime::determinism::{CauseKind, Fresh, Perturbation, Settings, check};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::time::sleep;
use sim_runtime::verdict::RunReport;
use sim_runtime::{Options, World, rng, task};

/// Several tasks share a cache that is too small, and whose entries expire.
struct Cached;

impl Scenario for Cached {
    type Config = ();
    type Plan = ();

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, _config: &()) {}

    fn run(&self, timeline: &Timeline<(), ()>, _watch: Watch) -> (RunReport, Vec<String>) {
        let mut world = World::new(timeline.seed, Options::default());
        world.run(async {
            let cache: Cache<u64, u64> =
                Cache::builder().max_capacity(16).time_to_live(Duration::from_millis(20)).build();
            let users = (0..4_u64).map(|user| task("user").key(user).spawn(use_it(user, cache.clone())));
            for user in users.collect::<Vec<_>>() {
                user.await.expect("it does not panic");
            }
        });
        (world.report(), Vec::new())
    }
}

async fn use_it(user: u64, cache: Cache<u64, u64>) {
    for _ in 0..60 {
        let key = rng().next_u64() % 40;
        let was_there = cache.contains_key(&key);
        let value = cache.get_with(key, async { key * key }).await;
        cache.run_pending_tasks().await;
        let held: Vec<u64> = cache.iter().map(|(key, _)| *key).collect();
        tracing::info!(user, key, value, was_there, ?held, "asked");
        sleep(Duration::from_micros(rng().next_u64() % 2_000)).await;
    }
}

/// Whatever a process can have differently, its behaviour is a function of the seed..
#[test]
fn it_is_reproducible() {
    use Perturbation as P;
    let steady = [P::Again, P::AfterOthers, P::FreshProcess, P::Environment, P::Folder, P::Workers, P::Busy];
    let settings = Settings { perturbations: steady.to_vec(), ..Settings::default() };
    let checked = check(&Cached, 1..6, &settings, |_| {});
    checked.expect_deterministic();
    assert_eq!(checked.perturbations, steady);
}

/// .. and that is the guard's merit: with other hash keys it does other things, and by another clock too.
#[test]
fn it_depends_on_hash_keys_and_clock() {
    for (perturbation, kind) in [
        (Perturbation::HashKeys, CauseKind::HashOrder),
        (Perturbation::MonotonicClock, CauseKind::MonotonicClock),
    ] {
        let settings =
            Settings { perturbations: vec![perturbation], fresh: Fresh::Never, ..Settings::default() };
        let checked = check(&Cached, 1..4, &settings, |_| {});
        assert!(!checked.divergences.is_empty(), "{perturbation}");
        let cause = &checked.divergences[0].cause;
        assert_eq!(cause.kind, kind);
        assert!(cause.place.starts_with("moka-") || cause.place.contains("third_party.rs"), "{cause}");
    }
}
