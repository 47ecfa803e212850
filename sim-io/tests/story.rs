//! A story of a program that says nothing of itself but its `tracing` events.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use serde_json::Value;
use sim_io::nemesis::{FaultKind, PlanConfig};
use sim_io::net::{SocketAddr, UdpSocket, addr_of};
use sim_io::simulation::Simulation;
use sim_io::story::{Deeds, Passage, Plain, Proof, Reach, Style, as_json_lines, as_trace_events, select};
use sim_runtime::NodeId;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::verdict::Findings;

const SERVER: SocketAddr = addr_of(NodeId(1), 7000);

/// Says yes to everybody; two at a time are one too many.
async fn doorkeeper() -> io::Result<()> {
    let socket = UdpSocket::bind(SERVER).await?;
    loop {
        let (_, guest) = socket.recv().await?;
        tracing::info!("lets in");
        socket.send_to(b"come in", guest).await?;
    }
}

async fn guest(id: NodeId) -> io::Result<()> {
    let socket = UdpSocket::bind(addr_of(id, 0)).await?;
    for visit in 1..=20_u64 {
        tracing::info!(visit, "knocks");
        socket.send_to(b"knock, knock", SERVER).await?;
        let _ = sim_runtime::time::timeout(Duration::from_millis(20), socket.recv()).await;
    }
    Ok(())
}

/// More are let in than that.
#[derive(Default)]
struct Full {
    seen: Cursor,
    inside: u64,
}

impl Invariant for Full {
    fn name(&self) -> &'static str {
        "full house"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        self.inside += view.since("lets in", &mut self.seen).count() as u64;
        if self.inside > 30 {
            found.violation("full house", "too many", format!("{} are inside", self.inside));
        }
    }
}

fn house() -> Simulation {
    Simulation::new("house")
        .processes(1, |_| doorkeeper())
        .workloads(3, guest)
        .invariant(Full::default)
        .faults(PlanConfig::only(&[FaultKind::Pause, FaultKind::Kill]))
        .duration(Duration::from_secs(1))
}

fn told(reach: Reach, style: Style) -> Vec<String> {
    let house = house();
    house.tell(&house.timeline(3), reach, style).1
}

fn width(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn the_account_of_any_program_ends_with_its_violation_and_fits_the_screen() {
    let lines = told(Reach::default(), Style::default());
    assert!(lines.len() <= 60, "{} lines", lines.len());
    assert!(lines.iter().all(|line| width(line) <= 100 && !line.contains('\x1b')), "{lines:#?}");
    let last = lines.last().expect("there are lines");
    assert!(last.contains("31 are inside") || lines[lines.len() - 2].contains("31 are inside"), "{lines:#?}");
    for what in ["lets in", "knocks", "→n1 12 bytes"] {
        assert!(lines.iter().any(|line| line.contains(what)), "{what} in {lines:#?}");
    }
}

#[test]
fn everything_is_more_than_what_matters_and_until_stops() {
    let brief = told(Reach::default(), Style::default());
    let all = told(Reach { all: true, ..Reach::default() }, Style::default());
    assert!(all.len() > 2 * brief.len(), "{} and {} lines", all.len(), brief.len());
    let record = |line: &String| line.split_whitespace().next()?.strip_prefix('#')?.parse::<u64>().ok();
    for all in [false, true] {
        let lines = told(Reach { all, until: Some(100), ..Reach::default() }, Style::default());
        let records: Vec<u64> = lines.iter().filter_map(record).collect();
        assert!(!records.is_empty() && records.iter().all(|record| *record <= 100), "{records:?}");
        assert!(!lines.iter().any(|line| line.contains("are inside")), "what comes later is not told");
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_lines_and_a_colourful_one_colours() {
    let narrow = told(Reach { all: true, ..Reach::default() }, Style { width: 60, colour: false });
    assert!(narrow.iter().all(|line| width(line) <= 60), "{narrow:#?}");
    let colourful = told(Reach::default(), Style { colour: true, ..Style::default() });
    let bare = |line: &String| {
        let parts = line.split('\x1b').enumerate();
        parts
            .map(|(at, part)| if at == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) })
            .collect()
    };
    let bare: Vec<String> = colourful.iter().map(bare).collect();
    assert!(colourful.iter().any(|line| line.contains('\x1b')));
    assert_eq!(bare, told(Reach::default(), Style::default()), "colours change nothing else");
}

fn deeds() -> Deeds {
    let house = house();
    let tape = house.record(&house.timeline(3)).1;
    Deeds::read(&tape, &mut Plain::default())
}

#[test]
fn a_receipt_follows_from_its_sending() {
    let deeds = deeds();
    let mut receipts = 0;
    for (ordinal, deed) in deeds.iter() {
        if let Passage::Received { from, sent, alone: true } = deed.passage {
            receipts += 1;
            let sent = sent.expect("every datagram was sent");
            assert!(deed.told.causes.contains(&sent) && sent < ordinal);
            assert_eq!(deeds[sent].node, from);
            assert!(
                matches!(&deeds[sent].passage, Passage::Sent { arrivals, .. } if arrivals.contains(&ordinal))
            );
        }
    }
    assert!(receipts > 50, "{receipts}");
}

#[test]
fn json_has_an_object_a_line_and_ends_with_the_violation() {
    let deeds = deeds();
    let proof = Proof { roots: vec![200], sentences: vec!["So it is.".to_owned()] };
    let shown = select(&deeds, &proof, Reach::default(), BTreeSet::len);
    let lines: Vec<Value> = as_json_lines(&deeds, &shown, &proof)
        .iter()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let (last, told) = lines.split_last().expect("there are lines");
    assert_eq!(last["violation"][0], "So it is.");
    assert!(told.iter().any(|deed| deed["record"] == 200 && deed["proves"] == true));
    for deed in told {
        assert!(deed["time_ns"].is_u64() && deed["node"].is_u64() && deed["causes"].is_array(), "{deed}");
        let of_its_kind = match deed["what"].as_str() {
            Some("own") => true,
            Some("sent") => deed["to"].is_u64() && deed["arrivals"].is_array(),
            Some("received") => deed["from"].is_u64(),
            _ => false,
        };
        assert!(of_its_kind && deed["text"].is_string(), "{deed}");
    }
}

/// The required fields of each phase in "Trace Event Format", and that both ends of each arrow are there.
#[test]
fn perfetto_gets_the_shape_that_it_wants() {
    let document = as_trace_events(&deeds());
    let events = document["traceEvents"].as_array().expect("an array");
    let mut flows: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let mut tracks = BTreeSet::new();
    let mut named = BTreeSet::new();
    for event in events {
        let phase = event["ph"].as_str().expect("a phase");
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["name"].is_string(), "{event}");
        let track = (event["pid"].as_u64(), event["tid"].as_u64());
        let is_time = |field: &str| event[field].as_f64().is_some_and(|time| time >= 0.0);
        match phase {
            "M" => {
                assert!(event["args"]["name"].is_string(), "{event}");
                named.insert(track);
                continue;
            }
            "X" => assert!(is_time("ts") && is_time("dur"), "{event}"),
            "i" => assert!(is_time("ts") && event["s"] == "t", "{event}"),
            "s" | "f" => {
                let ends = flows.entry(event["id"].as_u64().expect("an id")).or_default();
                if phase == "s" {
                    ends.0 += 1
                } else {
                    ends.1 += 1
                }
                assert!(is_time("ts"), "{event}");
            }
            other => panic!("phase {other}"),
        }
        tracks.insert(track);
    }
    assert!(tracks.is_subset(&named), "every track has a name");
    assert!(flows.len() > 50 && flows.values().all(|(begun, ended)| *begun == 1 && *ended >= 1), "{flows:?}");
}

#[test]
fn a_run_that_is_told_is_the_same_run() {
    let house = house();
    let timeline = house.timeline(3);
    let plain = house.run(&timeline, Watch::default()).0;
    let (watched, tape) = house.record(&timeline);
    assert_eq!((plain.digest(), plain.records), (watched.digest(), tape.records.len() as u64));
}

/// Roles of one server that talk over its own sockets, say.
#[test]
fn a_node_that_sends_to_itself_is_told_and_its_messages_are_read() {
    async fn hermit() -> io::Result<()> {
        let socket = UdpSocket::bind(SERVER).await?;
        socket.send_to(b"note to self", SERVER).await?;
        socket.recv().await.map(drop)
    }
    let hermitage = Simulation::new("hermitage")
        .processes(1, |_| hermit())
        .duration(Duration::from_millis(100))
        .reading(|bytes| std::str::from_utf8(bytes).ok().map(|text| format!("a {text}")));
    let reach = Reach { all: true, ..Reach::default() };
    let (report, lines) = hermitage.tell(&hermitage.timeline(1), reach, Style::default());
    assert!(report.findings.failures.is_empty(), "{:?}", report.findings);
    let says = |what: &str| lines.iter().any(|line| line.contains(what));
    assert!(says("n1→n1 a note to self") && says("n1 receives from n1: a note to self"), "{lines:#?}");
}
