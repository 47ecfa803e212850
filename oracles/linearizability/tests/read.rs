//! Histories of other tools, read and judged; and what is refused.

use linearizability::models::{CasRegister, Kv, Mutex, Queue, Set};
use linearizability::read::{FailedCas, Format, Model, Reading, Recorded, read};
use linearizability::{History, Options, Spec, Verdict, check_keys};

const EDN: Reading = Reading {
    format: Format::Edn,
    model: Model::CasRegister,
    failed_cas: FailedCas::DidNotHappen,
    first: Some(0),
};
const LOG: Reading =
    Reading { format: Format::JepsenLog, failed_cas: FailedCas::FoundAnother, first: None, ..EDN };
const STRINGS: Reading = Reading { model: Model::List, ..EDN };
const JSON: Reading = Reading { format: Format::JsonLines, model: Model::Kv, first: None, ..EDN };

fn is_linearizable(text: &str, reading: &Reading) -> Option<bool> {
    fn of<S: Spec>(spec: &S, history: &History<String, S::Input, S::Output>) -> Option<bool> {
        let verdicts = check_keys(spec, history, &Options::default());
        let undecided = verdicts.iter().any(|(_, verdict)| matches!(verdict, Verdict::Undecided(_)));
        (!undecided).then(|| verdicts.iter().all(|(_, verdict)| verdict.is_linearizable()))
    }
    match read(text, reading).unwrap_or_else(|error| panic!("{error}")).history {
        Recorded::Register { history, first } => of(&CasRegister { initial: first }, &history),
        Recorded::Kv(history) => of(&Kv, &history),
        Recorded::Set(history) => of(&Set, &history),
        Recorded::Queue(history) => of(&Queue, &history),
        Recorded::Mutex(history) => of(&Mutex, &history),
    }
}

#[test]
fn histories_of_other_tools_get_their_published_verdicts() {
    for (text, reading, expected) in [
        (include_str!("data/etcd_000.log"), LOG, false),
        (include_str!("data/etcd_002.log"), LOG, true),
        (include_str!("data/c01-bad.txt"), STRINGS, false),
        (include_str!("data/c01-ok.txt"), STRINGS, true),
        (include_str!("data/immediate-failure.edn"), EDN, false),
    ] {
        assert_eq!(is_linearizable(text, &reading), Some(expected), "{text}");
    }
}

/// `LIN_DATA` names a folder with a `MANIFEST.tsv` of more such files.
#[test]
#[expect(clippy::disallowed_methods, reason = "it says where data is, and real files hold it")]
fn all_files_of_a_manifest_get_their_published_verdicts() {
    let Ok(folder) = std::env::var("LIN_DATA") else {
        println!("skipped: LIN_DATA is not set");
        return;
    };
    let manifest = std::fs::read_to_string(format!("{folder}/MANIFEST.tsv")).expect("a manifest");
    let begun = std::time::Instant::now();
    let mut files = 0;
    for line in manifest.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let text =
            std::fs::read_to_string(format!("{folder}/{}", fields[0])).expect("a file of the manifest");
        let reading = match fields[0].rsplit_once('.') {
            Some((_, "log")) => LOG,
            Some((_, "edn")) => EDN,
            _ => STRINGS,
        };
        let expected = fields[3] == "linearizable";
        assert_eq!(Format::guess(&text), reading.format, "{}", fields[0]);
        assert_eq!(Model::guess(&text), reading.model, "{}", fields[0]);
        let one = std::time::Instant::now();
        assert_eq!(is_linearizable(&text, &reading), Some(expected), "{}", fields[0]);
        if one.elapsed().as_millis() > 20 {
            println!("{}: {:?}", fields[0], one.elapsed());
        }
        files += 1;
    }
    println!("{files} files in {:?}", begun.elapsed());
}

#[test]
fn json_lines_are_read_as_documented() {
    let text = r#"
{"process": 0, "type": "invoke", "f": "put", "key": "a", "value": "blue", "time": 1000000}
{"process": 0, "type": "ok", "f": "put", "key": "a", "value": "blue", "time": 2000000}
{"process": "p", "type": "invoke", "f": "get", "key": "a", "time": 3000000}
{"process": "p", "type": "ok", "f": "get", "key": "a", "value": null, "time": 4000000}
"#;
    let file = read(text, &JSON).expect("it is well formed");
    let Recorded::Kv(history) = &file.history else { panic!("{file:?}") };
    let verdicts = check_keys(&Kv, history, &Options::default());
    let violation = verdicts[0].1.violation().expect("the put is lost");
    let told = file.names.restore(&violation.explanation);
    assert!(told.contains("put#0(\"blue\"), begun at 1 ms, was done at 2 ms."), "{told}");
    assert_eq!(file.processes, ["0", "p"]);
}

#[test]
fn edn_is_read_whatever_its_dress() {
    let events = "{:process 0, :type :invoke, :f :read, :value nil} ; a comment
        {:process :nemesis, :type :info, :f :start, :value nil}
        #_ {:process 0 :type :ok} {:process 0 :type :ok :f :read :value 0}";
    for text in [events.to_owned(), format!("[{events}]"), format!("({events}\n)")] {
        assert_eq!(is_linearizable(&text, &EDN), Some(true), "{text}");
        assert_eq!(Format::guess(&text), Format::Edn);
    }
}

#[test]
fn what_a_failed_swap_means_can_be_said() {
    let text =
        "{:process 0 :type :invoke :f :cas :value [0 1]} {:process 0 :type :fail :f :cas :value [0 1]}";
    assert_eq!(is_linearizable(text, &EDN), Some(true));
    let found = Reading { failed_cas: FailedCas::FoundAnother, ..EDN };
    assert_eq!(is_linearizable(text, &found), Some(false), "0 was there");
}

#[test]
fn a_malformed_line_is_named_with_what_was_expected() {
    let json = |lines: &[&str]| lines.join("\n");
    let call = r#"{"process": 1, "type": "invoke", "f": "get"}"#;
    for (text, reading, line, part) in [
        (json(&[call, "{"]), JSON, 2, "a JSON object expected"),
        (json(&["[]"]), JSON, 1, "an object expected"),
        (
            json(&["", call, call]),
            JSON,
            3,
            "the return of process 1 expected, which still waits since line 2",
        ),
        (json(&[r#"{"process": 1, "type": "ok", "f": "get"}"#]), JSON, 1, "an invocation by process 1"),
        (
            json(&[r#"{"process": 1, "type": "invoke", "f": "jump"}"#]),
            JSON,
            1,
            "get, put, append, cas or delete",
        ),
        (json(&[r#"{"process": 1, "type": "begin", "f": "get"}"#]), JSON, 1, "type invoke, ok, fail or info"),
        (json(&[r#"{"process": 1, "f": "get"}"#]), JSON, 1, "an event with `type` expected"),
        (json(&[r#"{"process": 1, "type": "invoke", "f": "get", "time": -4}"#]), JSON, 1, "nanoseconds"),
        (json(&[r#"{"process": 1, "type": "invoke", "f": "cas", "value": 4}"#]), JSON, 1, "[expected, new]"),
        (json(&[r#"{"process": 1, "type": "invoke", "f": "put"}"#]), JSON, 1, "a value for `put` expected"),
        (
            json(&[call, r#"{"process": 1, "type": "ok", "f": "put"}"#]),
            JSON,
            2,
            "the return of `get` (line 1)",
        ),
        ("[{:process 0 :type :invoke :f :read}\n".to_owned(), EDN, 2, "`]` expected before the end"),
        ("[7]".to_owned(), EDN, 1, "a map `{..}` expected"),
        ("{:process 0 :type}".to_owned(), EDN, 1, "a value for every key"),
        ("{:process 0 \n :value \"x".to_owned(), EDN, 2, "at the end of a string"),
        ("[".repeat(100_000), EDN, 1, "expected"),
        (format!("{{:value {}", "[".repeat(100_000)), EDN, 1, "at most 64 nested values"),
        ("INFO  jepsen.util - x\t:ok\t:read\tnil".to_owned(), LOG, 1, "a number expected as process"),
        ("INFO  jepsen.util - 1 :ok".to_owned(), LOG, 1, "parted by blanks"),
        ("what is this".to_owned(), LOG, 1, "a line `INFO"),
    ] {
        let error = read(&text, &reading).expect_err("it is malformed");
        assert_eq!(error.line, line, "{error}");
        assert!(error.what.contains(part), "{error}");
    }
}
