//! `#[sim_runtime::test]`: many seeds, and a message that says how to run the one that fails.

use std::time::Duration;

use rand_core::Rng;
use sim_runtime::time::{Instant, sleep};

#[sim_runtime::test(seeds = 20, check_determinism)]
async fn a_sleep_takes_as_long_as_it_says() {
    let begun = Instant::now();
    sleep(Duration::from_millis(5)).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(5));
}

/// It fails under the first seed whose draw is one of four.
#[sim_runtime::test(seeds = 100)]
#[should_panic(expected = "reproduce: SIM_SEED=")]
async fn a_failure_says_how_to_reproduce_it() {
    assert_ne!(sim_runtime::rng().next_u64() % 4, 0, "it was drawn");
}

#[sim_runtime::test]
#[should_panic(expected = "the test returned \"no luck\"")]
async fn an_error_is_a_failure() -> Result<(), &'static str> {
    Err("no luck")
}

#[sim_runtime::test(seeds = 3, check_determinism = 1)]
#[should_panic(expected = "something survives from an earlier run")]
async fn what_is_not_deterministic_fails() {
    static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let runs = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    tracing::info!(runs, "counted");
}
