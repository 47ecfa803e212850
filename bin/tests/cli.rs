//! The command line as a user meets it: exit statuses, one-line errors, closed pipes, reproduction.

use std::process::{Command, Output, Stdio};

fn bin(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bin")).args(args).stdin(Stdio::null()).output().expect("it starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

#[test]
fn a_clean_campaign_exits_0_and_prints_its_table() {
    let output = bin(&["campaign", "--seeds", "20"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["pass", "operations ok", "leader changes", "torn writes", "seeds a second", "digest"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line_with_status_2() {
    for args in [
        &["campaign", "--seeds", "0"][..],
        &["campaign", "--seeds", "5..3"],
        &["campaign", "--seeds", "many"],
        &["campaign", "--seeds", "999999999999999999999999"],
        &["campaign", "--no-such-flag"],
        &["campaign", "--mutant", "no_such_defect"],
        &["campaign", "--profile", "no_such_profile"],
        &["campaign", "--jobs", "0"],
        &["campaign", "--seeds", "1", "--json", "/no/such/folder/file.json"],
        &["replay"],
        &["replay", "-1"],
        &["replay", "1", "--json", "/no/such/folder/file.json"],
        &["no_such_command"],
        &[],
    ] {
        let output = bin(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
        assert!(error.starts_with("error: "), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_failure_exits_1_and_its_line_reproduces_it() {
    let output = bin(&["campaign", "--seeds", "2", "--mutant", "canary", "--quiet"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let line =
        text.lines().find_map(|line| line.trim().strip_prefix("reproduce: ")).expect("a line to reproduce");
    let args: Vec<&str> = line.split("-- ").nth(1).expect("arguments").split(' ').collect();
    let again = bin(&args);
    assert_eq!(again.status.code(), Some(1), "{line}");
    assert!(stdout(&again).contains("election safety"), "{}", stdout(&again));
}

#[test]
fn replay_gives_the_digest_that_another_process_gives() {
    let digest = |seed| json(&bin(&["replay", seed, "--json", "/dev/stderr"]).swapped())["digest"].clone();
    assert_eq!(digest("7"), digest("7"));
    assert_ne!(digest("7"), digest("8"));
}

#[test]
fn campaign_digests_agree_between_processes_threads_and_orders() {
    let digest = |extra: &[&str]| {
        let base = ["campaign", "--seeds", "1..21", "--quiet", "--json", "/dev/stdout"];
        let args: Vec<&str> = base.iter().chain(extra).copied().collect();
        json(&bin(&args))["digest"].clone()
    };
    let first = digest(&["--jobs", "1"]);
    assert_eq!(first, digest(&["--jobs", "2"]));
    assert_eq!(first, digest(&["--reverse"]));
}

#[test]
fn the_plan_of_a_seed_is_printed_as_json_and_not_run() {
    let output = bin(&["replay", "3", "--plan"]);
    assert_eq!(output.status.code(), Some(0));
    let timeline = json(&output);
    assert_eq!(timeline["seed"], 3);
    assert!(timeline["plan"]["faults"].as_array().is_some_and(|faults| !faults.is_empty()));
}

#[test]
fn a_reader_that_goes_away_does_no_harm() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bin"))
        .args(["replay", "1", "--trace"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_interrupted_campaign_prints_what_is_known() {
    let child = Command::new(env!("CARGO_BIN_EXE_bin"))
        .args(["campaign", "--seeds", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    #[expect(clippy::disallowed_methods, reason = "the other process needs real time")]
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill exists").success());
    let output = child.wait_with_output().expect("it ends");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("interrupted: ") && text.contains("of 1000000 seeds were run"), "{text}");
}

#[test]
fn an_abort_names_the_seeds_in_flight_and_ends_the_process() {
    let child = Command::new(env!("CARGO_BIN_EXE_bin"))
        .args(["campaign", "--seeds", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    #[expect(clippy::disallowed_methods, reason = "the other process needs real time")]
    std::thread::sleep(std::time::Duration::from_millis(500));
    let abort = Command::new("kill").args(["-ABRT", &child.id().to_string()]).status();
    assert!(abort.expect("kill exists").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), None, "a signal ended it");
    let error = String::from_utf8_lossy(&output.stderr);
    let seeds = error.split("seeds in flight:").nth(1).expect("they are named");
    assert!(seeds.split_whitespace().next().is_some_and(|seed| seed.parse::<u64>().is_ok()), "{error}");
}

#[test]
fn replay_gives_the_digest_that_the_campaign_recorded() {
    let campaign = json(&bin(&["campaign", "--seeds", "1..9", "--quiet", "--json", "/dev/stdout"]));
    let replay = json(&bin(&["replay", "5", "--json", "/dev/stderr"]).swapped());
    assert_eq!(campaign["run_digests"]["5"], replay["digest"]);
}

/// So that JSON on standard error can be read like that on standard output.
trait Swapped {
    fn swapped(self) -> Self;
}

impl Swapped for Output {
    fn swapped(self) -> Self {
        Self { stdout: self.stderr, stderr: self.stdout, ..self }
    }
}
