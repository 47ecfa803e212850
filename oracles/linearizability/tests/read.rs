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

/// In Jepsen the order of the file counts, and old versions note a time down before the event has its place.
#[test]
fn a_time_that_contradicts_the_order_of_lines_is_refused_in_json_and_not_looked_at_in_edn() {
    let json = |second_ns: u64| {
        format!(
            "{{\"process\": 1, \"type\": \"invoke\", \"f\": \"get\", \"time\": 9}}\n\
             {{\"process\": \"nemesis\", \"type\": \"info\", \"f\": \"start\", \"time\": 1}}\n\
             {{\"process\": 1, \"type\": \"ok\", \"f\": \"get\", \"value\": null, \"time\": {second_ns}}}"
        )
    };
    assert_eq!(is_linearizable(&json(9), &JSON), Some(true));
    let error = read(&json(8), &JSON).expect_err("time goes back");
    assert_eq!(
        (error.line, error.what.as_str()),
        (3, "lines in the order of their time expected: 8 is before 9 of line 1")
    );
    let edn = "{:process 0 :type :invoke :f :read :time 9} {:process 0 :type :ok :f :read :value 0 :time 8}";
    assert_eq!(is_linearizable(edn, &EDN), Some(true));
}

#[test]
fn an_answer_that_another_value_was_written_is_refused_and_an_echo_or_a_reason_is_none() {
    let edn = |f: &str, called: &str, answer: &str| {
        let of = |kind: &str, value: &str| format!("{{:process 0 :type :{kind} :f :{f} :value {value}}}\n");
        of("invoke", called) + &of("ok", answer)
    };
    for (f, called, answer) in
        [("write", "3", "4"), ("write", "\"a\"", "\"b\""), ("write", "1.5", "2.5"), ("cas", "[0 1]", "[0 2]")]
    {
        let error = read(&edn(f, called, answer), &EDN).expect_err("the two contradict");
        assert!(error.line == 2 && error.what.contains("as in line 1"), "{error}");
    }
    for (called, answer) in [
        ("3", "3"),
        ("3", "nil"),
        ("3", ":done"),
        ("3", "true"),
        ("3", "\"OK\""),
        ("\"a\"", "\"ok\""),
        ("3", "[3 9]"),
    ] {
        assert_eq!(is_linearizable(&edn("write", called, answer), &EDN), Some(true), "{called} {answer}");
    }
    assert_eq!(is_linearizable(&edn("cas", "[0 1]", "1"), &EDN), Some(true));
    assert_eq!(is_linearizable(&edn("read", "7", "0"), &EDN), Some(true), "what a read finds is its answer");
    let failed = edn("write", "3", "4").replace(":ok", ":fail");
    assert_eq!(is_linearizable(&failed, &EDN), Some(true), "what failed may say anything");
}

#[test]
fn marks_line_ends_and_what_is_no_utf_8() {
    let text = |bytes: &[u8]| linearizability::read::text(bytes.to_vec());
    assert_eq!(text(b"\xEF\xBB\xBF{}").as_deref(), Ok("{}"));
    for (bytes, line) in [(&b"a\nb\n\xFFc"[..], 3), (b"\xC3", 1), (b"\xFF\xFE{\0", 1)] {
        let error = text(bytes).expect_err("it is no UTF-8");
        assert!(error.line == line && error.what.contains("UTF-8 expected"), "{error}");
    }
    let call = r#"{"process": 1, "type": "invoke", "f": "get"}"#;
    let end = r#"{"process": 1, "type": "ok", "f": "get", "value": null}"#;
    assert_eq!(is_linearizable(&format!("{call}\r\n\r\n{end}\r\n"), &JSON), Some(true));
    let edn = "[{:process 0 :type :invoke :f :read}\r\n{:process 0 :type :ok :f :read :value 0}\r\n]\r\n";
    assert_eq!(is_linearizable(edn, &EDN), Some(true));
    let log = "INFO  jepsen.util - 1\t:invoke\t:read\tnil\r\nINFO  jepsen.util - 1\t:ok\t:read\tnil\r\n";
    assert_eq!(is_linearizable(log, &LOG), Some(true));
}

#[test]
fn nothing_is_a_history_of_no_operations() {
    for text in ["", "\n\n", " ", "[]", "()", "; nothing", "#_ {:process 0}"] {
        let reading = Reading { format: Format::guess(text), ..EDN };
        assert_eq!(is_linearizable(text, &reading), Some(true), "{text:?}");
    }
}

/// What tools note down beside the history may be anything.
#[test]
fn members_that_are_not_looked_at_may_hold_what_they_like() {
    let json = r#"{"process": 1, "type": "invoke", "f": "get", "error": {"a": [1.5e300]}, "index": 1e99}"#;
    assert_eq!(is_linearizable(json, &JSON), Some(true));
    let edn = r#"^{:name "x"} [#jepsen.history.Op{:index 0, :process 0 :type :invoke :f :read :latency 1.5M, :ratio 3/4
        :error [:boom #inst "2016-01-01" \a \( ##NaN #{1 2} #"re" -1e9 99999999999999999999 foo/bar +]}]"#;
    assert_eq!(is_linearizable(edn, &EDN), Some(true));
    let nemesis = r#"{"process": "nemesis", "type": "info", "f": "start", "value": {"n1": []}}"#;
    assert_eq!(is_linearizable(nemesis, &JSON), Some(true));
    let later_log = "2016-01-01 INFO [worker 1] jepsen.util: 1\t:invoke\t:read\tnil";
    assert_eq!(is_linearizable(later_log, &LOG), Some(true));
}

/// Values that look alike are told apart, and equal ones are found equal.
#[test]
fn values_may_be_large_or_strange() {
    let run = |put: &str, seen: &str| {
        is_linearizable(
            &format!(
                "{{\"process\": 1, \"type\": \"invoke\", \"f\": \"put\", \"value\": {put}}}\n\
                 {{\"process\": 1, \"type\": \"ok\", \"f\": \"put\"}}\n\
                 {{\"process\": 1, \"type\": \"invoke\", \"f\": \"get\"}}\n\
                 {{\"process\": 1, \"type\": \"ok\", \"f\": \"get\", \"value\": {seen}}}"
            ),
            &JSON,
        )
    };
    for value in
        ["0", "-1", "9223372036854775807", "18446744073709551615", "1.5", "\"1\"", "true", "{\"a\": 1}"]
    {
        assert_eq!(run(value, value), Some(true), "{value}");
    }
    for (put, seen) in [("1", "\"1\""), ("18446744073709551615", "18446744073709551614"), ("-1", "1")] {
        assert_eq!(run(put, seen), Some(false), "{put} {seen}");
    }
    let too_large = r#"{"process": 1, "type": "invoke", "f": "put", "value": 99999999999999999999}"#;
    let error = read(too_large, &JSON).expect_err("it would lose digits");
    assert!(error.line == 1 && error.what.contains("a whole number below 2^64"), "{error}");
}

#[test]
fn the_model_is_guessed_by_functions_and_not_by_values() {
    for (text, model) in [
        ("{:process 0 :type :invoke :f :write :value :address}", Model::CasRegister),
        ("{:process 0, :type :invoke, :f :write, :value \"add\"}", Model::CasRegister),
        ("{:process 0, :type :invoke, :value 1, :f :add}", Model::Set),
        ("{\"f\":\"dequeue\"}", Model::Queue),
        ("{\"f\": \"release\"}", Model::Mutex),
        ("{\"f\" : \"get\", \"value\": \"enqueue\"}", Model::Kv),
        ("INFO  jepsen.util - 3\t:invoke\t:cas\t[1 2]", Model::CasRegister),
        ("{:f :append :key \"0\" :value \"x 1 2 y\"}", Model::List),
    ] {
        assert_eq!(Model::guess(text), model, "{text}");
    }
}

/// Histories of every format, damaged at random: an error with a line that exists, or a history; never a panic.
#[test]
fn damaged_files_are_read_or_refused() {
    let whole = [
        (include_str!("data/etcd_000.log"), LOG),
        (include_str!("data/c01-bad.txt"), STRINGS),
        (include_str!("data/immediate-failure.edn"), EDN),
        (
            "{\"process\": 0, \"type\": \"invoke\", \"f\": \"cas\", \"value\": [1, \"é\"], \"time\": 5}\n",
            JSON,
        ),
    ];
    let scraps = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        "#",
        "#_",
        "##",
        "^",
        ":",
        "\n",
        "\t",
        "9".repeat(30).as_str(),
        "-",
        "nil",
        "é",
        "\u{feff}",
        "\0",
    ]
    .map(str::to_owned);
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let mut refused = 0;
    for round in 0..4_000 {
        let (text, reading) = whole[round % whole.len()];
        let mut chars: Vec<char> = text.chars().take(600 + below(400)).collect();
        for _ in 0..1 + below(3) {
            let at = below(chars.len() + 1);
            match below(3) {
                0 => drop(chars.drain(at..chars.len().min(at + 1))),
                1 => chars.truncate(at),
                _ => drop(chars.splice(at..at, scraps[below(scraps.len())].chars())),
            }
        }
        let text: String = chars.into_iter().collect();
        if let Err(error) = read(&text, &reading) {
            refused += 1;
            assert!((1..=text.split('\n').count()).contains(&error.line), "{error}: {text}");
            assert!(error.what.contains("expected"), "{error}: {text}");
        }
    }
    assert!(refused > 1_000, "{refused}");
}
