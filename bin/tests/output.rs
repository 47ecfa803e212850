//! Where results go, and what is said when they cannot go there; what is said of files that contradict themselves.

#![expect(clippy::disallowed_methods, reason = "a command line deals with real files")]

use std::fs::{self, File};
use std::process::Stdio;

mod common;
use common::{bin, command, folder, stderr, stdout, text};

const HISTORY: &str = "{\"process\": 1, \"type\": \"invoke\", \"f\": \"get\"}\n";

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_behind_standard_output_is_an_error() {
    let folder = folder("full");
    let (history, part) = (folder.join("history.jsonl"), folder.join("part.json"));
    fs::write(&history, HISTORY).expect("written");
    assert_eq!(bin(&["campaign", "--seeds", "1", "--quiet", "--json", text(&part)]).status.code(), Some(0));
    for args in [
        &["--help"][..],
        &["--version"],
        &["campaign", "--seeds", "1"],
        &["campaign", "--seeds", "1", "--quiet", "--json", "-"],
        &["campaign", "--seeds", "1", "--quiet", "--mutant", "canary"],
        &["replay", "1"],
        &["replay", "1", "--plan"],
        &["replay", "1", "--trace", "--format", "json"],
        &["check-determinism", "--seeds", "1"],
        &["mutants", "--only", "kv_no_dedup", "--budget", "1", "--repeat", "1"],
        &["merge", text(&part)],
        &["check-history", text(&history)],
    ] {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = command(args).stdout(full).output().expect("it starts");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        let told = error.lines().filter(|line| line.starts_with("error: cannot write ")).count();
        assert_eq!(told, 1, "{args:?}: {error}");
    }
}

#[test]
fn a_dash_is_standard_output_and_no_file() {
    let folder = folder("dash");
    let history = folder.join("history.jsonl");
    fs::write(&history, HISTORY).expect("written");
    for args in [
        &["campaign", "--seeds", "2", "--json", "-"][..],
        &["replay", "1", "--json", "-"],
        &["replay", "1", "--perfetto", "-"],
        &["check-history", "history.jsonl", "--json", "-"],
    ] {
        let output = command(args).current_dir(&folder).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
        assert!(value.is_object(), "{args:?}");
        assert!(!stderr(&output).is_empty(), "{args:?}: the sentences are on standard error");
    }
    let page = command(&["check-history", "history.jsonl", "--html", "-"]).current_dir(&folder).output();
    assert!(stdout(&page.expect("it starts")).trim_start().starts_with("<!"));
    let names: Vec<_> = fs::read_dir(&folder)
        .expect("it is there")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(names, ["history.jsonl"]);
}

#[test]
fn what_standard_output_holds_already_stays() {
    let file = folder("append").join("log");
    fs::write(&file, "before\n").expect("written");
    let log = File::options().append(true).open(&file).expect("it is there");
    assert!(
        command(&["replay", "1", "--json", "-"])
            .stdout(log)
            .stderr(Stdio::null())
            .status()
            .expect("it starts")
            .success()
    );
    assert!(fs::read_to_string(&file).expect("readable").starts_with("before\n{"));
}

#[test]
fn a_dash_is_refused_where_it_makes_no_sense() {
    for args in [
        &["replay", "1", "--json", "-", "--perfetto", "-"][..],
        &["shrink", "1", "--mutant", "canary", "--out", "-"],
    ] {
        let output = bin(args);
        let error = stderr(&output);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{args:?}: {error}");
        assert!(error.contains("standard output"), "{args:?}: {error}");
    }
}

#[test]
fn a_page_that_is_drawn_over_a_longer_one_ends_where_it_ends() {
    let folder = folder("page");
    let (history, page) = (folder.join("history.jsonl"), folder.join("page.html"));
    fs::write(&history, HISTORY).expect("written");
    fs::write(&page, "x".repeat(1_000_000)).expect("written");
    assert!(bin(&["check-history", text(&history), "--html", text(&page)]).status.success());
    assert!(fs::read_to_string(&page).expect("readable").trim_end().ends_with("</html>"));
}

#[test]
fn help_says_in_its_first_line_what_there_is_to_do() {
    let help = stdout(&bin(&["--help"]));
    let first = help.lines().next().unwrap_or_default();
    for word in ["Raft", "finds failures", "replays", "shrinks", "histories"] {
        assert!(first.contains(word), "{word} in {first}");
    }
}

#[test]
fn faults_of_datagrams_do_not_apply_to_connections() {
    let output = bin(&["campaign", "--seeds", "10", "--transport", "tcp"]);
    let table = stdout(&output);
    assert!(!table.contains("NOT REACHED: datagrams"), "{table}");
    assert!(
        table.contains("does not apply: datagrams lost in a burst: with this transport no datagrams"),
        "{table}"
    );
}

#[test]
fn a_file_that_says_pass_of_a_run_that_fails_is_contradicted() {
    let folder = folder("edited");
    let args = ["campaign", "--seeds", "2", "--mutant", "canary", "--quiet", "--corpus", text(&folder)];
    assert_eq!(bin(&args).status.code(), Some(1));
    let entry = fs::read_dir(&folder).expect("it is there").next().expect("a failure was kept");
    let file = entry.expect("readable").path();
    let mut saved: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("readable")).expect("JSON");
    saved["expected"]["verdict"] = "pass".into();
    fs::write(&file, saved.to_string()).expect("written");
    let output = bin(&["replay", text(&file)]);
    assert_eq!(output.status.code(), Some(1));
    let told = stdout(&output);
    assert!(told.contains("not as the file says (pass), but invariant: election safety"), "{told}");
}

#[test]
fn a_report_whose_numbers_contradict_each_other_is_not_merged() {
    let file = folder("contradiction").join("1.json");
    assert_eq!(bin(&["campaign", "--seeds", "3", "--quiet", "--json", text(&file)]).status.code(), Some(0));
    let whole: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("readable")).expect("JSON");
    assert_eq!(bin(&["merge", text(&file)]).status.code(), Some(0));
    for (field, value, why) in [
        ("runs", serde_json::json!(4), "it says 4 runs, and its verdicts are of 3"),
        (
            "verdicts",
            serde_json::json!({ "pass": u64::MAX, "idle": 4 }),
            "it counts 18446744073709551615 of \"pass\", more than can be",
        ),
        ("steps", serde_json::json!(u64::MAX), "more than can be"),
        ("digest", serde_json::json!("00000000000000aa"), "its digest is 00000000000000aa"),
        ("seeds", serde_json::json!("1..9"), "it says 3 runs of 8 seeds"),
    ] {
        let mut edited = whole.clone();
        edited[field] = value;
        fs::write(&file, edited.to_string()).expect("written");
        let output = bin(&["merge", text(&file)]);
        let error = stderr(&output);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{field}: {error}");
        assert!(error.contains("1.json cannot be merged: ") && error.contains(why), "{field}: {error}");
    }
}

#[test]
fn histories_that_contradict_themselves_are_refused_and_empty_ones_are_called_so() {
    let folder = folder("histories");
    let check = |name: &str, history: &str| {
        let file = folder.join(name);
        fs::write(&file, history).expect("written");
        bin(&["check-history", text(&file)])
    };
    let call = "{\"process\": 1, \"type\": \"invoke\", \"f\": \"put\", \"value\": 1, \"time\": 9}\n";
    for (end, why) in [
        ("\"value\": 1, \"time\": 3}", ":2: lines in the order of their time expected"),
        ("\"value\": 2, \"time\": 10}", ":2: value 1 of `put`, as in line 1, or none expected, not 2"),
    ] {
        let end = format!("{{\"process\": 1, \"type\": \"ok\", \"f\": \"put\", {end}");
        let output = check("refused.jsonl", &format!("{call}{end}\n"));
        let error = stderr(&output);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(why), "{error}");
    }
    let coloured = "{\"process\": 0, \"type\": \"invoke\", \"f\": \"read\", \"key\": \"\\u001b[31mk\", \"value\": null}\n\
                    {\"process\": 0, \"type\": \"ok\", \"f\": \"read\", \"key\": \"\\u001b[31mk\", \"value\": \"5\"}\n";
    let told = stdout(&check("coloured.jsonl", coloured));
    assert!(told.contains("key \\u{1b}[31mk: ") && !told.contains('\u{1b}'), "{told}");
    let empty = check("empty.jsonl", "");
    assert_eq!(empty.status.code(), Some(0));
    assert!(stdout(&empty).contains("it has 0 operations"), "{}", stdout(&empty));
}

#[test]
fn one_of_anything_is_told_as_one() {
    let folder = folder("one");
    let small = folder.join("small.json");
    let args = ["shrink", "1", "--mutant", "canary", "--jobs", "1", "--clients", "1", "--out", text(&small)];
    let campaign = ["campaign", "--seeds", "1", "--jobs", "1", "--corpus", text(&folder)];
    for (args, part) in [
        (&args[..], " servers, 1 client, "),
        (&campaign, "corpus: 1 timeline, 1 failed"),
        (&campaign, "1 run of swarm ("),
        (&campaign, " s on 1 thread: "),
        (&["check-determinism", "--seeds", "1", "--profile", "reference"], "1 seed, "),
        (&["explore", "--runs", "1", "--jobs", "1"], "1 root, 1 run, "),
        (&["mutants", "--only", "canary", "--budget", "1", "--repeat", "1"], ": 1 range of 1 seed each"),
    ] {
        let told = stdout(&bin(args));
        assert!(told.contains(part), "{part} in {told}");
    }
}
