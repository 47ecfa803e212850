//! `#[sim_runtime::test]`: many seeds, and a message that says how to run the one that fails.

use std::process::Command;
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

/// For the test below, which runs it in processes of its own.
#[sim_runtime::test(seeds = 300)]
#[ignore = "it fails on purpose"]
async fn fails_now_and_then() {
    assert_ne!(sim_runtime::rng().next_u64() % 32, 0, "it was drawn");
}

#[test]
fn variables_say_which_seeds_are_run() {
    let run = |variable: Option<(&str, u64)>| {
        let mut command = Command::new(std::env::current_exe().expect("it has a name"));
        command.args(["fails_now_and_then", "--exact", "--ignored", "--nocapture"]);
        command.env_remove("SIM_SEED").env_remove("SIM_SEEDS");
        command.envs(variable.map(|(name, value)| (name, value.to_string())));
        let output = command.output().expect("it starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, told) = run(None);
    let seed = told.split("reproduce: SIM_SEED=").nth(1).and_then(|rest| rest.split(' ').next());
    let seed: u64 = seed.and_then(|seed| seed.parse().ok()).unwrap_or_else(|| panic!("no seed in {told}"));
    let line = format!(
        "reproduce: SIM_SEED={seed} cargo test -p sim-runtime --test attribute fails_now_and_then -- --exact"
    );
    assert!(!passed && seed > 1 && told.contains(&line), "{told}");
    let (passed, again) = run(Some(("SIM_SEED", seed)));
    assert!(!passed && again.contains(&format!("seed {seed}: ")), "{again}");
    assert!(run(Some(("SIM_SEEDS", 1))).0 && run(Some(("SIM_SEED", 1))).0, "the first seed passes");
    assert!(!run(Some(("SIM_SEEDS", seed))).0);
}
