//! The command line as a user meets it: exit statuses, one-line errors, closed pipes, reproduction.

#![expect(clippy::disallowed_methods, reason = "a command line deals with real files and real time")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod common;
use common::{bin, folder, stderr, stdout, text};

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

#[test]
fn a_clean_campaign_exits_0_and_prints_its_table() {
    let output = bin(&["campaign", "--profile", "reference", "--seeds", "20"]);
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
        &["campaign", "--shard", "3/2"],
        &["campaign", "--time", "soon"],
        &["campaign", "--seeds", "1", "--corpus", "Cargo.toml/corpus"],
        &["campaign", "--mutant", "no_such\n\u{1b}[31mdefect"],
        &["shrink-report", "--only", "controls", "--budget", "1"],
        &["stability", "--only", "a,controls", "--budget", "1"],
        &["explore-report", "--only", "control_extra_fsync", "--repeat", "1", "--budget", "1ms"],
        &["merge", "/no/such/file.json"],
        &["replay", "/no/such/timeline.json"],
        &["check-history"],
        &["check-history", "/no/such/file.edn"],
        &["check-history", "Cargo.toml", "--format", "jsonl"],
        &["check-history", "Cargo.toml", "--model", "tree"],
        &["replay"],
        &["replay", "-1"],
        &["explore", "--first-root", "18446744073709551615"],
        &["explore", "--roots", "18446744073709551615"],
        &["explore", "--steps", "0"],
        &["campaign", "--profile", "reference", "--without", "pursuit"],
        &["mutants", "--profile", "reference", "--ablation"],
        &["check-determinism", "--seeds", "0"],
        &["check-determinism", "--json", "/no/such/folder/file.json"],
        &["replay", "1", "--json", "/no/such/folder/file.json"],
        &["no_such_command"],
        &[],
    ] {
        let output = bin(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(!error.trim_end().contains(char::is_control), "{args:?}: {error}");
        assert!(error.starts_with("error: "), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let is_of_controls = args.iter().any(|arg| arg.contains("control"));
        assert_eq!(error.contains("controls are harmless changes"), is_of_controls, "{args:?}: {error}");
    }
}

#[test]
fn raft_is_deterministic_whatever_is_changed_around_it() {
    for profile in ["swarm", "reference"] {
        let output = bin(&[
            "check-determinism",
            "--seeds",
            "3",
            "--profile",
            profile,
            "--quiet",
            "--json",
            "/dev/stdout",
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        let value = json(&output);
        assert_eq!((&value["seeds"], &value["divergences"]), (&3.into(), &serde_json::json!([])));
        assert_eq!(value["perturbations"].as_array().map(Vec::len), Some(12), "{value}");
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

/// What a command says that is interrupted after a while.
fn interrupted(args: &[&str]) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_bin"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill exists").success());
    child.wait_with_output().expect("it ends")
}

#[test]
fn what_is_interrupted_prints_what_is_known() {
    for (args, known) in [
        (&["campaign", "--seeds", "1000000"][..], " of 1000000 seeds were run"),
        (
            &["check-determinism", "--seeds", "100000", "--profile", "reference"],
            " of 100000 seeds were checked",
        ),
    ] {
        let output = interrupted(args);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("interrupted: ") && text.contains(known), "{text}");
    }
}

#[test]
fn an_abort_names_the_seeds_in_flight_and_ends_the_process() {
    let child = Command::new(env!("CARGO_BIN_EXE_bin"))
        .args(["campaign", "--seeds", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
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

#[test]
fn merged_shards_are_what_one_run_gives() {
    let folder = folder("shards");
    let whole = folder.join("whole.json");
    // The defect fills the list of failures, too.
    let base = ["campaign", "--seeds", "1..41", "--mutant", "kv_no_dedup", "--quiet", "--json"];
    let run = |file: &Path, shard: &[&str]| {
        let args: Vec<&str> = base.iter().copied().chain([text(file)]).chain(shard.iter().copied()).collect();
        assert_eq!(bin(&args).status.code(), Some(1));
    };
    run(&whole, &[]);
    let shards: Vec<PathBuf> = ["3/3", "1/3", "2/3"]
        .iter()
        .enumerate()
        .map(|(at, shard)| {
            let file = folder.join(format!("{at}.json"));
            run(&file, &["--shard", shard]);
            file
        })
        .collect();
    let args: Vec<&str> = ["merge"].into_iter().chain(shards.iter().map(|file| text(file))).collect();
    let merged = bin(&args);
    assert_eq!(merged.status.code(), Some(1), "a failure in any shard is one of the whole");
    let failed = json(&merged)["failures"].as_array().expect("a list").len();
    assert_eq!(stderr(&merged), format!("{failed} of 40 runs failed\n"));
    let timeless = |mut value: serde_json::Value| {
        let fields = value.as_object_mut().expect("an object");
        assert!(fields.remove("wall_ms").is_some() && fields.remove("seeds_per_second").is_some());
        value
    };
    let whole = serde_json::from_slice(&fs::read(whole).expect("written")).expect("JSON");
    assert_eq!(timeless(json(&merged)), timeless(whole));

    let incomplete = bin(&["merge", text(&shards[0]), text(&shards[1])]);
    assert_eq!(incomplete.status.code(), Some(2));
    let error = String::from_utf8_lossy(&incomplete.stderr);
    assert!(error.contains("shard 2/3 is missing"), "{error}");
    let twice = bin(&["merge", text(&shards[0]), text(&shards[0])]);
    assert_eq!(twice.status.code(), Some(2));
}

#[test]
fn a_campaign_ends_when_its_time_is_over() {
    let output = bin(&["campaign", "--seeds", "1000000", "--time", "700ms"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("the time is over: ") && text.contains("of 1000000 seeds were run"), "{text}");
}

#[test]
fn the_first_failure_is_the_last_where_that_is_wanted() {
    let args = ["campaign", "--seeds", "1000000", "--mutant", "canary", "--fail-fast", "--jobs", "1"];
    let output = bin(&args);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("stopped at the first failure: 1 of 1000000 seeds"), "{text}");
}

#[test]
fn a_corpus_keeps_what_failed_and_runs_it_first() {
    let folder = folder("corpus").join("that is").join("not there");
    let campaign = ["campaign", "--seeds", "3", "--corpus", text(&folder)];
    let found = bin(&[&campaign[..], &["--mutant", "canary"]].concat());
    assert_eq!(found.status.code(), Some(1), "{}", stdout(&found));
    let files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("it is there").map(|entry| entry.expect("readable").path()).collect();
    assert_eq!(files.len(), 1, "one of a kind: {files:?}");

    let again = bin(&["replay", text(&files[0])]);
    assert_eq!(again.status.code(), Some(1), "{}", stdout(&again));
    assert_eq!(bin(&["replay", text(&files[0]), "--nodes", "3"]).status.code(), Some(2));

    // The seeds are sound without the defect; what is remembered is not.
    let remembered = bin(&campaign);
    assert_eq!(remembered.status.code(), Some(1));
    assert!(stdout(&remembered).contains("corpus: 1 timeline, 1 failed"), "{}", stdout(&remembered));

    // Once the defect is gone from the file, it passes, and that is told.
    let mended = fs::read_to_string(&files[0]).expect("readable").replace("\"canary\"", "null");
    fs::write(&files[0], mended).expect("written");
    let passing = bin(&campaign);
    assert_eq!(passing.status.code(), Some(0), "{}", stdout(&passing));
    assert!(stdout(&passing).contains("0 failed, 1 that failed once passes now"), "{}", stdout(&passing));

    fs::write(folder.join("broken.json"), "{").expect("written");
    let refused = bin(&campaign);
    assert_eq!(refused.status.code(), Some(2));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("broken.json: it is not a timeline") && error.lines().count() == 1, "{error}");
}

#[test]
fn what_a_swarm_seed_drew_is_printed() {
    let plan = |seed| json(&bin(&["replay", seed, "--plan"]))["config"].clone();
    assert_eq!(plan("1")["profile"], "swarm");
    assert_ne!(plan("1")["raft"], plan("2")["raft"]);
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

/// A history of one key as JSON lines: (process, type, f, value).
fn history_file(name: &str, events: &[(u32, &str, &str, &str)]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("check-history-{}-{name}.jsonl", std::process::id()));
    let line = |(at, (process, kind, f, value)): (usize, &(u32, &str, &str, &str))| {
        let time = (at + 1) * 1_000_000;
        format!(
            r#"{{"process": {process}, "type": "{kind}", "f": "{f}", "key": "k", "value": {value}, "time": {time}}}"#
        )
    };
    let lines: Vec<String> = events.iter().enumerate().map(line).collect();
    fs::write(&path, lines.join("\n")).expect("a history can be written");
    path
}

#[test]
fn histories_are_judged_with_their_reasons() {
    let lost = [
        (0, "invoke", "put", "7"),
        (0, "info", "put", "7"),
        (1, "invoke", "get", "null"),
        (1, "ok", "get", "7"),
    ];
    let good = history_file("good", &lost);
    let mut stale = lost.to_vec();
    stale.extend([(1, "invoke", "get", "null"), (1, "ok", "get", "null")]);
    let bad = history_file("bad", &stale);
    let (good_arg, bad_arg) = (good.to_str().expect("UTF-8"), bad.to_str().expect("UTF-8"));

    let output = bin(&["check-history", good_arg]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let condition = "key k: linearizable only if unknown put#0(7) took effect between 1 ms and 4 ms";
    assert!(text.contains(condition), "{text}");

    let page = bad.with_extension("html");
    let html = ["check-history", good_arg, bad_arg, "--html", page.to_str().expect("UTF-8")];
    let output = bin(&html);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("key k: ") && text.contains("get#2, begun at 5 ms"), "{text}");
    assert!(fs::read_to_string(&page).expect("a page").contains("not linearizable"));

    let output = bin(&["check-history", bad_arg, "--json", "/dev/stderr"]).swapped();
    let json = json(&output);
    assert_eq!(json["files"][0]["verdict"], "not linearizable");
    assert_eq!(json["files"][0]["operations"], 3);
    for path in [&good, &bad, &page] {
        let _ = fs::remove_file(path);
    }
}

/// Knossos's registers hold 0 at first, Jepsen's later ones nothing: where the file does not tell, both are tried.
#[test]
fn what_was_there_at_first_can_be_said() {
    let path = std::env::temp_dir().join(format!("check-history-{}-first.edn", std::process::id()));
    let arg = path.to_str().expect("UTF-8");
    let zero = "{:process 0 :type :invoke :f :read} {:process 0 :type :ok :f :read :value 0}";
    fs::write(&path, zero).expect("a history can be written");
    let output = bin(&["check-history", arg]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("if 0 was there at first"), "{output:?}");
    for (initial, status) in [("0", 0), ("nothing", 1), ("-5", 1)] {
        assert_eq!(
            bin(&["check-history", arg, "--initial", initial]).status.code(),
            Some(status),
            "{initial}"
        );
    }
    let nothing = "{:process 1 :type :invoke :f :read} {:process 1 :type :ok :f :read :value nil}";
    fs::write(&path, format!("{nothing}\n{zero}")).expect("a history can be written");
    assert_eq!(bin(&["check-history", arg]).status.code(), Some(1), "nobody wrote the 0");
    let _ = fs::remove_file(&path);
}

#[test]
fn a_file_that_is_no_text_is_refused_with_its_line() {
    let path = std::env::temp_dir().join(format!("check-history-{}-bytes.jsonl", std::process::id()));
    fs::write(&path, b"\n\n{\"process\": \xFF}").expect("a file can be written");
    let output = bin(&["check-history", path.to_str().expect("UTF-8")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(".jsonl:3: UTF-8 expected"), "{error}");
    let _ = fs::remove_file(&path);
}

/// Forty puts of few values at once, swaps between them, and a value that no order leaves.
#[test]
fn a_budget_that_is_used_up_exits_3_and_names_the_key() {
    let values: Vec<(String, String)> =
        (0..40).map(|v| (format!("{}", v % 20), format!("[{}, {}]", v % 20, (v * 7 + 1) % 20))).collect();
    let mut events = Vec::new();
    for kind in ["invoke", "ok"] {
        for (at, (put, cas)) in values.iter().enumerate() {
            let process = at as u32;
            events.push((process, kind, "put", put.as_str()));
            events.push((process + 100, kind, "cas", cas.as_str()));
        }
    }
    events.extend([(0, "invoke", "get", "null"), (0, "ok", "get", "99")]);
    let path = history_file("hard", &events);
    let output = bin(&["check-history", path.to_str().expect("UTF-8"), "--budget", "1000"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("key k: undecided"), "{text}");
    let _ = fs::remove_file(&path);
}

#[test]
fn an_ablation_searches_once_for_each_feature() {
    let output = bin(&["mutants", "--ablation", "--only", "kv_no_dedup", "--budget", "2", "--repeat", "1"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("with everything: kv_no_dedup"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("dearer: ")).count(), 13, "{text}");
    // What is missed is no pass, as without --ablation.
    let hard = ["mutants", "--only", "figure8", "--budget", "1", "--repeat", "1"];
    for ablation in [&[][..], &["--ablation"]] {
        let missed = bin(&[&hard[..], ablation].concat());
        assert_eq!(missed.status.code(), Some(3), "{}", stdout(&missed));
    }
    assert!(stdout(&bin(&["mutants", "--help"])).contains("3 no range caught some defect"));
    let both = bin(&["mutants", "--ablation", "--without", "aims"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_folder_of_shrunk_failures_that_is_not_there_is_said_before_the_work_begins() {
    let output = bin(&["stability", "--files", "1", "--from", "no such folder"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.contains("cannot read no such folder") && said.lines().count() == 1, "{said}");
}
