//! `stability`: whether a pinned failure survives small edits that have nothing to do with it.
//!
//!   where conditions come from x defect ──► failing seeds ──► shrink ──► edit ──► does it still fail the same way?
//!
//! | edit | what it is |
//! |---|---|
//! | operation | one more client carries out one operation, on a key of its own, at the beginning |
//! | message | servers send each other a message of a new kind that nobody heeds, every 5 ms |
//! | fault | of the timeline before shrinking, a fault goes that shrinking found not to matter |
//!
//! Fields are compared with what others do: one random stream for everything, and streams by thing ("message 17 of this
//! link"). For each, seeds that fail are found and shrunk anew, since a timeline means another run there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use raft_async::Carrier;
use raft_async::mutant::{Mutant, Planted};
use sim_runtime::rng::Chance;
use sim_runtime::scenario::{Scenario, Watch};
use sim_runtime::shrink::{self, Settings};
use sim_runtime::words::counted;

use super::corpus::read_timeline;
use super::shrink::settings;
use super::shrink_report::failing_seeds;
use super::tabular::{left, print, right, table};
use crate::cli::{StabilityArgs, Status, Unusable, create, write_json};
use crate::out::{Out, complain};
use crate::raft::{Raft, RaftTimeline};
use crate::{say, signals};

/// How often servers chatter.
const CHATTER_MS: u64 = 5;

const EDITS: [&str; 3] = ["operation", "message", "fault"];

/// Where conditions come from, and what that is called.
const KINDS: [(&str, Chance); 3] =
    [("fields", Chance::Fields), ("one stream", Chance::Stream), ("streams by thing", Chance::Ordinals)];

/// Edits pinned failures and prints how many survive.
///
/// # Errors
/// When a file cannot be read or written, the system refuses signal handlers, or no defect is compiled in.
pub fn run(args: &StabilityArgs, out: &mut Out) -> Result<Status, Unusable> {
    if !cfg!(feature = "mutants") {
        return Err(Unusable::NoMutants);
    }
    if let Some(folder) = &args.from {
        // A misspelt name would mean hours of shrinking.
        std::fs::read_dir(folder).map_err(|error| Unusable::Read(folder.clone(), error))?;
    }
    let file = create(args.result.json.as_deref())?;
    let settings = Settings { most: args.most.unwrap_or(u64::MAX), ..settings(args.workers.jobs) };
    signals::install(&settings.stop).map_err(|error| Unusable::System("install signal handlers", error))?;
    let mut results = Vec::new();
    for (name, chance) in KINDS {
        for mutant in args.hunted.mutants() {
            let raft = Raft { planted: Planted::one(mutant), chance, ..Raft::default() };
            let folder = args.from.as_deref().filter(|_| chance == Chance::Fields);
            let files =
                if chance == Chance::Fields { args.files } else { args.compared.unwrap_or(args.files) };
            let pinned = pinned(&raft, mutant, (files, args.hunted.budget), folder, &settings)?;
            let mut survivors = Survivors::default();
            pinned.iter().for_each(|(seed, timeline)| survivors.add(&raft, *seed, timeline));
            complain(&format!("{name}, {mutant}: {}", survivors.in_words()));
            results.push((name, mutant, survivors));
            if settings.stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    report(args, &results, out);
    let rows: Vec<Value> = results.iter().map(|(name, mutant, found)| found.to_json(name, *mutant)).collect();
    write_json(
        file,
        &json!({ "files": args.files, "compared": args.compared, "most": args.most, "rows": rows }),
    )?;
    Ok(if settings.stop.load(Ordering::Relaxed) { Status::NotAPass } else { Status::Clean })
}

/// Shrunk failures with the seeds that they come from.
fn pinned(
    raft: &Raft,
    mutant: Mutant,
    (files, budget): (u64, u64),
    folder: Option<&Path>,
    settings: &Settings,
) -> Result<Vec<(u64, RaftTimeline)>, Unusable> {
    let seeds = failing_seeds(raft, files, budget, settings);
    let mut pinned = Vec::new();
    for seed in seeds {
        let known =
            folder.map(|folder| folder.join(format!("{mutant}-{seed}.json"))).filter(|path| path.exists());
        let timeline = match known {
            Some(path) => Some(read_timeline(&path)?.timeline()),
            None => shrink::shrink(raft, raft.timeline(seed), settings, |_| {}).map(|shrunk| shrunk.timeline),
        };
        if settings.stop.load(Ordering::Relaxed) {
            break;
        }
        pinned.extend(timeline.map(|timeline| (seed, timeline)));
    }
    Ok(pinned)
}

/// How many edits of each kind were made to failures over each carrier, and after how many the failure was the same.
#[derive(Clone, Debug, Default)]
struct Survivors(BTreeMap<(&'static str, &'static str), (u64, u64)>);

/// What servers and clients talk over.
const CARRIERS: [&str; 2] = ["datagrams", "streams"];

fn carrier(timeline: &RaftTimeline) -> &'static str {
    match timeline.config.carrier {
        Carrier::Datagrams => CARRIERS[0],
        Carrier::Streams => CARRIERS[1],
    }
}

impl Survivors {
    fn add(&mut self, raft: &Raft, seed: u64, timeline: &RaftTimeline) {
        let Some((wanted, _)) = failure_of(timeline) else { return };
        let mut with_visitor = timeline.clone();
        with_visitor.config.visitor = true;
        let mut with_chatter = timeline.clone();
        with_chatter.config.raft.chatter_ms = Some(CHATTER_MS);
        self.count("operation", wanted, &with_visitor);
        self.count("message", wanted, &with_chatter);
        let whole = raft.timeline(seed);
        if let Some(without) = without_an_idle_fault(&whole, timeline)
            && let Some((whole_fails, _)) = failure_of(&whole)
        {
            self.count("fault", whole_fails, &without);
        }
    }

    fn count(&mut self, edit: &'static str, wanted: u64, edited: &RaftTimeline) {
        let (made, survived) = self.0.entry((edit, carrier(edited))).or_default();
        *made += 1;
        *survived += u64::from(failure_of(edited).is_some_and(|(now, _)| now == wanted));
    }

    /// For whoever waits for the table.
    fn in_words(&self) -> String {
        let told = EDITS.map(|edit| (edit, self.of(edit))).into_iter().filter(|(_, (made, _))| *made > 0);
        let told: Vec<_> =
            told.map(|(edit, (made, survived))| format!("{edit} {survived} of {made}")).collect();
        if told.is_empty() {
            "nothing to edit was found".to_owned()
        } else {
            format!("failures that survive: {}", told.join(", "))
        }
    }

    fn of(&self, edit: &str) -> (u64, u64) {
        CARRIERS.iter().map(|carrier| self.over(carrier, edit)).fold((0, 0), sum)
    }

    fn over(&self, carrier: &str, edit: &str) -> (u64, u64) {
        let known = self.0.iter().find(|((of, over), _)| (*of, *over) == (edit, carrier));
        known.map(|(_, counts)| *counts).unwrap_or_default()
    }

    fn to_json(&self, name: &str, mutant: Mutant) -> Value {
        let edits = EDITS.map(|edit| {
            let (made, survived) = self.of(edit);
            (edit.to_owned(), json!({ "made": made, "survived": survived }))
        });
        json!({ "chance": name, "defect": mutant.name(), "edits": Value::Object(edits.into_iter().collect()) })
    }
}

/// The fingerprint of the failure, and when it was seen.
fn failure_of(timeline: &RaftTimeline) -> Option<(u64, u64)> {
    let report = Raft::default().run(timeline, Watch::default()).0;
    let failure = report.findings.first().filter(|failure| failure.category.is_failure())?;
    Some((failure.fingerprint(), failure.time_ns))
}

/// `whole` without one fault that is planned before it fails and that `shrunk` does without: the one in the middle.
fn without_an_idle_fault(whole: &RaftTimeline, shrunk: &RaftTimeline) -> Option<RaftTimeline> {
    let (_, seen_ns) = failure_of(whole)?;
    let needed: BTreeSet<u32> = shrunk.plan.faults.iter().map(|fault| fault.id).collect();
    let mut idle: Vec<_> = whole.plan.faults.iter().filter(|fault| !needed.contains(&fault.id)).collect();
    idle.retain(|fault| fault.when.earliest_ns() < seen_ns);
    idle.sort_by_key(|fault| (fault.when.earliest_ns(), fault.id));
    let id = idle.get(idle.len() / 2)?.id;
    Some(RaftTimeline { plan: whole.plan.without(id), ..whole.clone() })
}

fn sum(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

fn share((made, survived): (u64, u64)) -> String {
    match made {
        0 => "-".to_owned(),
        _ => format!("{} % ({survived}/{made})", (survived * 100 + made / 2) / made),
    }
}

fn report(args: &StabilityArgs, results: &[(&str, Mutant, Survivors)], out: &mut Out) {
    let failures = counted(args.files, "shrunk failure");
    say!(out, "{failures} of each defect, edited: how many fail the same way afterwards");
    if let Some(compared) = args.compared {
        say!(out, "{compared} where conditions do not come from fields: each is found and shrunk anew");
    }
    if let Some(most) = args.most {
        let candidates = counted(most, "candidate");
        say!(out, "what was shrunk for this was shrunk by {candidates} at most");
    }
    say!(out, "operation: one more client, one operation on a key of its own, at the beginning");
    say!(out, "message:   servers send each other a message that nobody heeds, every {CHATTER_MS} ms");
    say!(
        out,
        "fault:     in the timeline before shrinking, one fault less that shrinking found not to matter"
    );
    say!(out);
    let mut summary = table(&[&["conditions from"][..], &EDITS].concat());
    for (name, _) in KINDS {
        let of_kind = || results.iter().filter(|(kind, ..)| *kind == name);
        let all = |edit: &str| right(share(of_kind().map(|(.., found)| found.of(edit)).fold((0, 0), sum)));
        summary.add_row([left(name)].into_iter().chain(EDITS.map(all)));
        for carrier in CARRIERS {
            let over = |edit: &str| of_kind().map(|(.., found)| found.over(carrier, edit)).fold((0, 0), sum);
            let cells = EDITS.map(|edit| right(share(over(edit))));
            summary.add_row([left(&format!("  over {carrier}"))].into_iter().chain(cells));
        }
    }
    print(&summary, out);
    say!(out);
    let titles: Vec<String> =
        KINDS.iter().flat_map(|(name, _)| EDITS.map(|edit| format!("{name}: {edit}"))).collect();
    let titles: Vec<&str> = ["defect"].into_iter().chain(titles.iter().map(String::as_str)).collect();
    let mut by_defect = table(&titles);
    for mutant in args.hunted.mutants() {
        let cell = |name: &str, edit: &str| {
            let found = results.iter().find(|(kind, of, _)| *kind == name && *of == mutant);
            let (made, survived) = found.map(|(.., found)| found.of(edit)).unwrap_or_default();
            right(format!("{survived}/{made}"))
        };
        let cells = KINDS.iter().flat_map(|(name, _)| EDITS.map(|edit| cell(name, edit)));
        by_defect.add_row([left(mutant.name())].into_iter().chain(cells));
    }
    print(&by_defect, out);
}
