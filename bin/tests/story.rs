//! Stories of Raft: one to the letter, and what holds of all.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use raft_async::mutant::{Mutant, Planted};
use raft_sim::raft::story::Story;
use raft_sim::raft::{Profile, Raft, RaftTimeline};
use sim_io::nemesis::{Fault, PlannedFault, Target, When};
use sim_io::story::{Reach, Style};
use sim_runtime::NodeId;
use sim_runtime::scenario::Scenario;

/// Three servers that keep their votes in memory only and are killed once; a client that does nothing.
fn forgetful() -> RaftTimeline {
    let mutant = Mutant::planted().find(|mutant| mutant.name() == "unpersisted_vote").expect("it is planted");
    let raft = Raft {
        planted: Planted::one(mutant),
        servers: Some(3),
        clients: Some(1),
        duration_ms: Some(600),
        ..Raft::of(Profile::Reference)
    };
    let mut timeline = raft.timeline(1);
    timeline.config.operations = Some(0);
    timeline.plan.faults = vec![PlannedFault {
        id: 1,
        when: When::At { at_ns: 500_000_000 },
        what: Fault::Kill { target: Target::Nodes((1..=3).map(NodeId).collect()) },
        lasts_us: 2_000,
    }];
    timeline
}

const SNAPSHOT: &str = include_str!("story.txt");

#[cfg(feature = "mutants")]
#[test]
fn a_story_to_the_letter() {
    let lines = Story::of(&forgetful()).lines(Reach::default(), Style::default());
    let text = lines.join("\n") + "\n";
    assert_eq!(text, SNAPSHOT, "the story is now:\n{text}");
}

/// A seed of the reference profile with every kind of message, crashes and an unlucky client.
fn busy() -> Story {
    Story::of(&Raft::of(Profile::Reference).timeline(4))
}

#[test]
fn everything_is_a_line_a_record_and_fits_the_screen() {
    let story = busy();
    let brief = story.lines(Reach::default(), Style::default());
    let all = story.lines(Reach { all: true, ..Reach::default() }, Style::default());
    assert!(
        brief.len() <= 60 && all.len() as u64 > story.report.records,
        "{} and {}",
        brief.len(),
        all.len()
    );
    let too_wide = |line: &&String| line.chars().count() > 100 || line.contains('\x1b');
    assert_eq!(all.iter().chain(&brief).find(too_wide), None);
    assert_eq!(story.plain_lines().len() as u64, story.report.records);
    for what in
        ["RequestVote t", "AppendEntries t", "AppendReply t", "ask n", "becomes LEADER", "finds on its disk"]
    {
        assert!(all.iter().any(|line| line.contains(what)), "{what}");
    }
}

/// Over streams, messages are found in the bytes as they are in datagrams.
#[test]
fn messages_of_streams_have_meanings() {
    let raft = Raft { carrier: Some(raft_async::Carrier::Streams), ..Raft::of(Profile::Reference) };
    let lines = Story::of(&raft.timeline(4)).plain_lines();
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert!(count("heartbeat t") > 100 && count("AppendReply t") > 100 && count("vote granted, t") > 0);
    assert_eq!(count("malformed"), 0);
}

/// What a server says of its votes and what arrives, over a run of every record: a vote that is counted was granted.
#[test]
fn causes_lie_before_what_follows_from_them() {
    let lines = busy().json_lines(Reach { all: true, ..Reach::default() });
    let (mut votes, mut with_cause) = (0, 0);
    for line in &lines[..lines.len() - 1] {
        let deed: serde_json::Value = serde_json::from_str(line).expect("an object");
        let record = deed["record"].as_u64().expect("a number");
        let causes = deed["causes"].as_array().expect("a list");
        assert!(causes.iter().all(|cause| cause.as_u64().expect("a number") < record), "{line}");
        if deed["text"].as_str().is_some_and(|text| text.contains("counts a vote of")) {
            votes += 1;
            let is_grant = |cause: &serde_json::Value| {
                let at = cause.as_u64().expect("a number") as usize;
                lines[at].contains("vote granted, t")
            };
            with_cause += u32::from(causes.iter().any(is_grant));
        }
    }
    assert!(votes > 0 && votes == with_cause, "{votes} votes, {with_cause} with a cause");
}

fn bin(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bin")).args(args).stdin(Stdio::null()).output().expect("it starts")
}

#[test]
fn the_command_line_tells_writes_and_stops() {
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text(&bin(&["replay", "1", "--profile", "reference", "--mutant", "canary", "--trace"]));
    assert!(told.contains("ELECTION SAFETY is violated. Term 1 has two leaders: "), "{told}");
    assert!(!told.contains('\x1b'), "no colours where nobody sees them");

    let file = std::env::temp_dir().join(format!("story-{}.json", std::process::id()));
    let name = file.to_str().expect("UTF-8");
    let output =
        bin(&["replay", "1", "--duration-ms", "300", "--trace", "--format", "json", "--perfetto", name]);
    let objects = text(&output);
    assert!(objects.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{objects}");
    let written = std::fs::read_to_string(PathBuf::from(name)).expect("it was written");
    std::fs::remove_file(&file).expect("it can be removed");
    let document: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert!(document["traceEvents"].as_array().is_some_and(|events| events.len() > 100));

    let until = text(&bin(&["replay", "1", "--duration-ms", "300", "--trace", "--all", "--until", "50"]));
    assert!(until.contains("     #50 ") && !until.contains("     #51 "), "{until}");
    assert_eq!(bin(&["replay", "1", "--until", "50"]).status.code(), Some(2), "there is nothing to stop");
}
