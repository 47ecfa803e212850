//! Timeline files as a user meets them: shrunk, run again, edited, broken.

#![cfg(feature = "mutants")]
#![expect(clippy::disallowed_methods, reason = "a command line deals with real files and real time")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

mod common;
use common::{bin, folder, stderr, stdout, text};

fn read(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).expect("it was written")).expect("it is JSON")
}

/// `replay` of `file`, with something else in it: status and output.
fn edited(file: &Path, edit: impl FnOnce(&mut Value)) -> (i32, String) {
    let mut value = read(file);
    edit(&mut value);
    let edited = file.with_extension("edited.json");
    fs::write(&edited, value.to_string()).expect("written");
    let output = bin(&["replay", text(&edited)]);
    (output.status.code().expect("it ends"), stdout(&output))
}

/// The first seed that fails with these flags: which one that is changes with the Raft.
fn failing_seed(flags: &[&str]) -> String {
    let campaign =
        bin(&[&["campaign", "--seeds", "100", "--fail-fast", "--quiet", "--jobs", "1"][..], flags].concat());
    let told = stdout(&campaign);
    let (_, after) = told.split_once("-- replay ").expect("a hundred seeds are enough");
    after.split_whitespace().next().expect("a seed").to_owned()
}

#[test]
fn a_failure_shrinks_to_a_small_file_that_fails_alike() {
    let folder = folder("shrink");
    let (file, again) = (folder.join("small.json"), folder.join("smaller.json"));
    let (file, again) = (text(&file), text(&again));
    let flags = ["--profile", "reference", "--mutant", "double_vote"];
    let shrunk = bin(&[&["shrink", &failing_seed(&flags), "--out", file][..], &flags].concat());
    assert_eq!(shrunk.status.code(), Some(1), "{shrunk:?}");
    assert!(stdout(&shrunk).contains("election safety"), "{}", stdout(&shrunk));
    // It tells the story, on a screen and with what proves it, as `replay --trace` does.
    let told = stdout(&bin(&["replay", file, "--trace"]));
    let story: Vec<&str> = told.lines().take_while(|line| !line.starts_with("seed ")).collect();
    assert!((5..=60).contains(&story.len()) && told.contains("ELECTION SAFETY is violated"), "{told}");
    assert!(stdout(&shrunk).contains(&story.join("\n")), "{}", stdout(&shrunk));

    let timeline: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(file).expect("it was written")).expect("it is JSON");
    assert_eq!(timeline["config"]["servers"], 3);
    let faults = timeline["plan"]["faults"].as_array().expect("a list").len();
    assert!(faults <= 2, "{faults} faults are left");

    let replayed = bin(&["replay", file]);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(stdout(&replayed).contains("election safety"));

    // Nothing is left to be taken away, whatever the number of threads.
    let once_more = bin(&["shrink", file, "--out", again, "--jobs", "1"]);
    assert_eq!(once_more.status.code(), Some(1), "{once_more:?}");
    let read = |file: &str| fs::read_to_string(file).expect("it was written");
    assert_eq!(read(file), read(again));
}

#[test]
fn what_passes_is_not_shrunk() {
    let file = folder("shrink-pass").join("small.json");
    let file = text(&file);
    let refused = bin(&["shrink", "1", "--profile", "reference", "--out", file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing to shrink"), "{refused:?}");
    assert!(!Path::new(file).exists());
}

#[test]
fn a_file_is_compared_with_what_it_says() {
    let file = folder("compare").join("small.json");
    let flags = ["--profile", "reference", "--mutant", "double_vote"];
    let shrunk = bin(&[&["shrink", &failing_seed(&flags), "--out", text(&file)][..], &flags].concat());
    assert_eq!(shrunk.status.code(), Some(1), "{shrunk:?}");
    let value = read(&file);
    assert_eq!((&value["format"], &value["mutant"]), (&json!(1), &json!("double_vote")));
    assert_eq!(value["expected"]["property"], "election safety");

    let (status, same) = edited(&file, |_| {});
    assert!(status == 1 && !same.contains("note"), "{same}");
    let (status, draws) = edited(&file, |v| v["expected"]["draws"] = json!("0"));
    assert!(status == 1 && draws.contains("note: the same behaviour from other draws"), "{draws}");
    let (status, other) = edited(&file, |v| v["expected"]["fingerprint"] = json!("0"));
    assert!(status == 1 && other.contains("it fails in another way"), "{other}");
    let (status, other) = edited(&file, |v| v["expected"]["property"] = json!("durability"));
    assert!(status == 1 && other.contains("but not as the file says (invariant: durability)"), "{other}");

    let (_, other) = edited(&file, |v| v["expected"]["property"] = json!("dura\nbility\u{1b}[31m"));
    assert!(other.contains(r"but not as the file says (invariant: dura\nbility\u{1b}[31m)"), "{other}");

    let mend = |v: &mut Value| (v["mutant"], v["config"]["planted"]) = (Value::Null, Value::Null);
    let (status, mended) = edited(&file, mend);
    assert_eq!(status, 3, "{mended}");
    let gone = "the failure no longer occurs: the file says invariant: election safety, this run is a";
    assert!(mended.contains(gone), "{mended}");
    assert!(mended.contains("the first difference is between "), "{mended}");
    let (status, elsewhere) = edited(&file, |v| {
        mend(v);
        v["program"] = json!("0.0.1+0");
    });
    assert!(status == 3 && elsewhere.contains("was written by version 0.0.1+0"), "{elsewhere}");
    assert!(!elsewhere.contains("first difference"), "{elsewhere}");
}

#[test]
fn a_file_that_cannot_be_run_is_refused_in_one_line_with_status_2() {
    let folder = folder("refused");
    let file = folder.join("plan.json");
    let whole = stdout(&bin(&["replay", "1", "--plan"]));
    fs::write(&file, &whole).expect("written");
    assert_eq!(bin(&["replay", text(&file)]).status.code(), Some(0), "what is printed can be run");
    let with = |edit: fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&whole).expect("JSON");
        edit(&mut value);
        value.to_string()
    };
    for (name, content) in [
        ("newer", with(|v| v["format"] = json!(9))),
        ("unversioned", with(|v| drop(v.as_object_mut().expect("an object").remove("format")))),
        ("truncated", whole[..whole.len() / 2].to_owned()),
        ("empty", String::new()),
        ("binary", "\u{0}\u{1}".to_owned()),
        ("unknown", with(|v| v["plan"]["colour"] = json!("blue"))),
        ("negative", with(|v| v["seed"] = json!(-1))),
        ("many-lines", with(|v| v["mutant"] = json!("one\ntwo\u{1b}[31m\u{2028}three"))),
        ("no-servers", with(|v| v["config"]["servers"] = json!(0))),
        ("far", with(|v| v["plan"]["faults"][0]["when"] = json!({"at": {"at_ns": u64::MAX}}))),
        ("long", with(|v| v["plan"]["faults"][0]["lasts_us"] = json!(u64::MAX))),
        ("slow", with(|v| v["config"]["network"]["latency_max_us"] = json!(u64::MAX))),
        ("twice", with(|v| v["plan"]["faults"][1] = v["plan"]["faults"][0].clone())),
        (
            "backwards",
            with(|v| {
                v["overrides"] =
                    json!([{"field": "net loss", "key": null, "from_ns": 9, "to_ns": 3, "set": "calm"}])
            }),
        ),
        (
            "nowhere",
            with(|v| {
                v["overrides"] =
                    json!([{"field": "colour", "key": null, "from_ns": 0, "to_ns": 3, "set": "calm"}])
            }),
        ),
    ] {
        let path = folder.join(format!("{name}.json"));
        fs::write(&path, content).expect("written");
        let output = bin(&["replay", text(&path)]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}{}", stdout(&output));
        let breaks = |c: char| c.is_control() || c == '\u{2028}';
        assert!(error.starts_with("error: ") && !error.trim_end().contains(breaks), "{name}: {error}");
        assert!(error.contains(name) && output.stdout.is_empty(), "{name}: {error}");
    }
}

#[test]
fn a_campaign_groups_its_failures_and_shrinks_one_of_each_kind() {
    let folder = folder("kinds");
    let campaign =
        ["campaign", "--seeds", "3", "--mutant", "canary", "--quiet", "--shrink", "--corpus", text(&folder)];
    let output = bin(&campaign);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("3 failures, 1 kind:") && text.contains("     3  invariant: election safety"),
        "{text}"
    );
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("-shrunk.json")).collect();
    assert_eq!(lines.len(), 1, "one of a kind: {text}");
    let args: Vec<&str> = lines[0].split("-- ").nth(1).expect("arguments").split(' ').collect();
    let again = bin(&args);
    assert_eq!(again.status.code(), Some(1), "{args:?}");
    assert!(stdout(&again).contains("election safety"), "{}", stdout(&again));
}

#[test]
fn who_interrupts_it_keeps_the_best_so_far() {
    let file = folder("interrupted").join("best.json");
    // A race of three leaders takes a while.
    let child = Command::new(env!("CARGO_BIN_EXE_bin"))
        .args(["shrink", "14", "--mutant", "figure8", "--jobs", "1", "--out", text(&file)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(700));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill exists").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("(interrupted)"), "{}", stdout(&output));
    assert_eq!(bin(&["replay", text(&file)]).status.code(), Some(1));
}

#[test]
fn progress_is_told_in_words() {
    let canary = ["--only", "canary", "--jobs", "1"];
    for (command, line) in [
        (
            ["shrink-report", "--seeds", "1"].as_slice(),
            "canary, seed 1: election safety: 3 servers, 1 client, ",
        ),
        (&["stability", "--files", "1", "--most", "50"], "fields, canary: failures that survive: operation "),
    ] {
        let told = stderr(&bin(&[command, &canary].concat()));
        assert!(told.lines().any(|told| told.starts_with(line)), "{line} in {told}");
        assert!(!told.contains(['{', '"']), "{told}");
    }
}
