//! Guided search of Raft from the command line: what it finds is replayed in a fresh process, for any number of workers.

#![cfg(feature = "mutants")]

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

mod common;
use common::{bin, folder, stdout};

fn explore(folder: &Path, more: &[&str]) -> (Output, Value) {
    let (out, json) = (folder.join("found"), folder.join("result.json"));
    let (out, json) = (out.to_str().expect("utf-8"), json.to_str().expect("utf-8"));
    let args = ["explore", "--out", out, "--json", json].into_iter().chain(more.iter().copied());
    let output = bin(&args.collect::<Vec<_>>());
    let text = fs::read_to_string(json).expect("a result");
    (output, serde_json::from_str(&text).expect("it is JSON"))
}

#[test]
fn what_is_found_does_not_depend_on_workers_and_is_replayed_in_a_fresh_process() {
    let of = |workers: &str| {
        let more = ["--mutant", "heartbeat_commit_overreach", "--runs", "24", "--jobs", workers];
        explore(&folder("exploring-found"), &more)
    };
    let ((output, alone), (_, together)) = (of("1"), of("2"));
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(alone, together);
    for key in ["roots", "runs", "states", "findings", "unreached"] {
        assert!(!alone[key].is_null(), "{key} in {alone}");
    }
    let findings = alone["findings"].as_array().expect("a list");
    assert!(!findings.is_empty());
    for finding in findings {
        let file = finding["timeline"].as_str().expect("a path");
        let replayed = bin(&["replay", file, "--json", "-"]);
        assert_eq!(replayed.status.code(), Some(1), "{file}");
        let text = stdout(&replayed);
        let property = finding["property"].as_str().expect("a name");
        assert!(
            text.contains(property) && text.contains(finding["verdict"].as_str().expect("a name")),
            "{text}"
        );
    }
}

#[test]
fn a_correct_raft_is_clean_and_the_report_says_what_such_a_search_is_worth() {
    let (output, result) = explore(&folder("clean"), &["--runs", "40"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!((result["runs"].as_u64(), result["findings"].as_array().map(Vec::len)), (Some(40), Some(0)));
    assert!(result["states"].as_u64() > Some(40), "{result}");
    for part in ["CAP: the most runs", "frontier over", "neither model checking nor a proof"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_deadline_aborts_the_search_with_status_3() {
    let (output, result) = explore(&folder("deadline"), &["--runs", "1000000", "--time", "300ms", "--quiet"]);
    assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
    assert_eq!(result["stopped"], "ABORTED: the time was over");
}

#[test]
fn what_is_shrunk_is_called_as_a_campaign_calls_it() {
    let folder = folder("exploring-shrunk");
    let (output, result) = explore(&folder, &["--mutant", "canary", "--runs", "1", "--shrink"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let found = result["findings"][0]["timeline"].as_str().expect("a path").to_owned();
    let shrunk = found.replace(".json", "-shrunk.json");
    let there = |path: &str| fs::exists(path).expect("it can be asked");
    assert!(there(&found) && there(&shrunk), "{shrunk}: {}", stdout(&output));
    assert!(!there(&found.replace(".json", ".shrunk.json")));
}
