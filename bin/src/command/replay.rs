//! `replay`: one seed again, or the timeline in a file.

use serde_json::json;

use sim_io::story::Reach;
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::verdict::Category;
use sim_runtime::words::counted;

use super::corpus::timeline_of;
use super::recall::Recall;
use crate::cli::{ReplayArgs, SeedOrFile, Status, StoryFormat, Unusable, create, write_json};
use crate::out::Out;
use crate::raft::RaftTimeline;
use crate::raft::story::Story;
use crate::say;

/// Runs the timeline, or prints it.
///
/// # Errors
/// When a file cannot be read or written, or flags contradict a file.
pub fn run(args: &ReplayArgs, out: &mut Out) -> Result<Status, Unusable> {
    let file = create(args.result.json.as_deref())?;
    let scenario = args.shape.scenario();
    let saved = timeline_of(&args.what, &args.shape)?;
    let timeline = saved.timeline();
    let reproduce = match &args.what {
        SeedOrFile::Seed(seed) => args.shape.reproduce(*seed),
        SeedOrFile::File(path) => format!("cargo run --release -p bin -- replay {}", path.display()),
    };
    if args.plan {
        say!(out, "{}", saved.to_text().trim_end());
        return Ok(Status::Clean);
    }
    let trace_events = create(args.perfetto.as_deref())?;
    let report = if args.trace || trace_events.is_some() {
        let story = Story::of(&timeline);
        write_json(trace_events, &story.trace_events())?;
        if args.trace {
            tell(&story, args, out);
        }
        story.report
    } else {
        scenario.run(&timeline, Watch::default()).0
    };
    let silent = args.trace && args.format == StoryFormat::Json;
    let mut quiet = Out::none();
    let out = if silent { &mut quiet } else { out };
    let verdict = report.findings.category();
    let first = report.findings.first();
    say!(out, "seed {}: {verdict}", timeline.seed);
    for failure in &report.findings.failures {
        let at_ms = failure.time_ns / 1_000_000;
        say!(out, "  {} at {at_ms} ms, record {}: {}", failure.property, failure.record, failure.evidence);
    }
    for (property, count) in &report.findings.premise {
        let evidence = report.findings.premise_evidence.get(property).map_or("", String::as_str);
        say!(out, "  premise broken {}: {property}: {evidence}", counted(*count, "time"));
    }
    say!(
        out,
        "  digest {:016x} (behaviour {:016x}, draws {:016x})",
        report.digest(),
        report.behaviour,
        report.draws
    );
    let virtual_ms = report.virtual_ns / 1_000_000;
    let (records, steps) = (counted(report.records, "record"), counted(report.steps, "step"));
    say!(out, "  {virtual_ms} ms of virtual time, {records}, {steps}");
    if verdict != Category::Pass {
        say!(out, "  reproduce: {reproduce}");
    }
    let recall = Recall::of(&saved, &report);
    for line in &recall.lines {
        say!(out, "  {line}");
    }
    let value = json!({
        "seed": timeline.seed,
        "verdict": verdict.name(),
        "property": first.map(|f| f.property.clone()),
        "digest": format!("{:016x}", report.digest()),
        "behaviour_digest": format!("{:016x}", report.behaviour),
        "draw_digest": format!("{:016x}", report.draws),
        "virtual_ms": virtual_ms,
        "events": report.records,
        "compared_with_file": recall.lines,
        "failures": report.findings.failures.iter().map(|f| json!({
            "verdict": f.category.name(),
            "property": f.property,
            "fingerprint": format!("{:016x}", f.fingerprint()),
            "evidence": f.evidence,
            "at_ms": f.time_ns / 1_000_000,
            "record": f.record,
        })).collect::<Vec<_>>(),
        "coverage": report.coverage,
    });
    write_json(file, &value)?;
    let of_run = match verdict {
        Category::Pass => Status::Clean,
        category if category.is_failure() => Status::Failed,
        _ => Status::NotAPass,
    };
    Ok(recall.status.unwrap_or(of_run))
}

/// Tells a story as the arguments say.
fn tell(story: &Story, args: &ReplayArgs, out: &mut Out) {
    let reach = Reach { all: args.all, until: args.until, lines: args.lines };
    let lines = match args.format {
        StoryFormat::Text => story.lines(reach, out.style()),
        StoryFormat::Json => story.json_lines(reach),
    };
    for line in lines {
        say!(out, "{line}");
    }
}

/// Tells the story of a timeline in about as many lines as fit a screen; for whoever has just found it.
pub(super) fn tell_briefly(timeline: &RaftTimeline, out: &mut Out) {
    for line in Story::of(timeline).lines(Reach::default(), out.style()) {
        say!(out, "{line}");
    }
}
