//! Guided search: it gets where plain seeds do not, in the same order for any number of workers, and says what it left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand_core::Rng;
use sim_runtime::explore::{
    Anchor, Change, Edit, Exploration, Explored, Lost, Novelty, Recipe, Settings, Stopped, explore,
    until_coverage_stable,
};
use sim_runtime::rng::{ALL_FIELDS, Field, Set};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::time::sleep;
use sim_runtime::verdict::{Category, RunReport};
use sim_runtime::{Handle, NodeId, Options, World, assert_sometimes_each, rng};

/// How a [`Walk`] shows where it is.
#[derive(Copy, Clone, PartialEq)]
enum Shows {
    /// By the role of the node, which the general signature sees.
    Roles,
    /// By an assertion, and nothing else.
    Assertions,
    /// Not at all, but for an event that is always the same.
    Nothing,
}

/// Gates one behind the other, each with one try: who passes all has found the bug.
struct Walk {
    shows: Shows,
    /// In which order fate is asked: of the program's stream, or of a field.
    by_field: bool,
    is_endless: bool,
    /// Something from outside the seed: counts runs.
    runs: Option<AtomicU64>,
}

const WALK: Walk = Walk { shows: Shows::Roles, by_field: false, is_endless: false, runs: None };
const GATES: [&str; 6] = ["start", "gate 1", "gate 2", "gate 3", "gate 4", "gate 5"];
const FATE: Field = Field::new("fate");

impl Scenario for Walk {
    type Config = ();
    type Plan = ();

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, _config: &()) {}

    fn run(&self, timeline: &Timeline<(), ()>, _watch: Watch) -> (RunReport, Vec<String>) {
        let overrides = timeline.overrides.clone();
        let options =
            Options { overrides, hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
        let mut world = World::new(timeline.seed, options);
        let (shows, by_field, is_endless) = (self.shows, self.by_field, self.is_endless);
        let nth = self.runs.as_ref().map_or(0, |runs| runs.fetch_add(1, Ordering::Relaxed));
        let handle = world.handle();
        let node = handle.add_node("walker 1", move || async move {
            let world = Handle::current();
            sleep(Duration::from_nanos(nth)).await;
            for (gate, name) in GATES.into_iter().enumerate() {
                tracing::info!("a gate");
                match shows {
                    Shows::Roles => world.set_role(name),
                    Shows::Assertions => assert_sometimes_each!("gates", [("gate", gate)]),
                    Shows::Nothing => {}
                }
                sleep(Duration::from_millis(10)).await;
                let draw = if by_field { world.sample(FATE, 1).range(0, 5) } else { rng().next_u64() % 6 };
                if draw != 0 {
                    if !is_endless {
                        return;
                    }
                    loop {
                        sleep(Duration::from_micros(1)).await;
                    }
                }
            }
            world.fail(Category::Invariant, "nobody gets through", "", String::new());
        });
        handle.boot(node);
        world.run(sleep(Duration::from_millis(200)));
        (world.report(), Vec::new())
    }
}

type Known = Explored<(), ()>;

fn settings(workers: usize, max_runs: u64) -> Settings {
    Settings {
        exploration: Exploration { workers, ..Exploration::default() },
        max_runs,
        ..Settings::default()
    }
}

fn found(walk: Walk, settings: &Settings) -> Known {
    explore(&Arc::new(walk), settings, |_| {})
}

/// Everything that is to be the same.
fn told(known: &Known) -> String {
    format!("{known:?}")
}

#[test]
fn it_gets_through_gates_where_plain_seeds_do_not_by_state_or_by_assertions() {
    const RUNS: u64 = 1_500;
    assert!((1..=RUNS).all(|seed| WALK.run_seed(seed).findings.category() == Category::Pass));
    let variants = [
        WALK,
        Walk { by_field: true, ..WALK },
        Walk { shows: Shows::Assertions, ..WALK },
        Walk { shows: Shows::Assertions, by_field: true, ..WALK },
    ];
    for walk in variants {
        let known = found(walk, &Settings { stops_at_first: true, ..settings(2, RUNS) });
        assert_eq!((known.findings.len(), known.stopped), (1, Stopped::Finding), "{}", told(&known));
    }
    let blind = found(Walk { shows: Shows::Nothing, ..WALK }, &settings(2, 300));
    assert_eq!((blind.findings.len(), blind.states), (0, 1), "nothing to go by: {}", told(&blind));
}

#[test]
fn any_number_of_workers_makes_the_same_search() {
    let of = |workers| told(&found(WALK, &settings(workers, 600)));
    let alone = of(1);
    assert_eq!(alone, of(2));
    assert_eq!(alone, of(5));
    let other = told(&found(WALK, &Settings { seed: 1, ..settings(2, 600) }));
    assert_ne!(alone, other, "another seed is another search");
}

#[test]
fn a_finding_is_a_timeline_that_fails_again_and_its_recipe_leads_to_it() {
    let known = found(WALK, &settings(2, 1_500));
    let finding = known.findings.first().expect("it is found");
    assert_eq!(finding.failure.category, Category::Invariant);
    let again = WALK.run(&finding.timeline, Watch::default()).0;
    assert_eq!(again.findings.first(), Some(&finding.failure));
    assert!(!finding.recipe.0.is_empty(), "plain seeds do not fail");
    assert_eq!(finding.recipe.follow(&WALK, &WALK.timeline(finding.root)), Ok(finding.timeline.clone()));
    // As plain data, there and back.
    let text = serde_json::to_string(&finding.recipe).expect("plain data");
    assert_eq!(serde_json::from_str::<Recipe>(&text).expect("what was written"), finding.recipe);
}

#[test]
fn beginning_anew_needs_no_moment_and_keeps_nothing_but_the_configuration() {
    let after = Anchor { moment: "never".to_owned(), node: NodeId(7), ordinal: 1 };
    let recipe = Recipe(vec![edit("a gate", 1, 5), Edit { after, changes: vec![Change::Anew { seed: 9 }] }]);
    assert_eq!(recipe.follow(&WALK, &WALK.timeline(1)), Ok(WALK.timeline(9)));
    assert!(recipe.to_string().ends_with("; all but the configuration from seed 9"), "{recipe}");
}

fn edit(moment: &str, ordinal: u64, seed: u64) -> Edit {
    let after = Anchor { moment: moment.to_owned(), node: NodeId(1), ordinal };
    let set = Set::Reseed(seed);
    let field = ALL_FIELDS.to_owned();
    Edit { after, changes: vec![Change::Field { field, key: None, for_ns: None, set }] }
}

#[test]
fn a_recipe_goes_with_its_moments_and_says_which_does_not_come() {
    let root = WALK.timeline(1);
    let late = Walk { runs: Some(AtomicU64::new(7)), ..WALK };
    let recipe = Recipe(vec![edit("a gate", 1, 5)]);
    let from_ns =
        |walk: &Walk| recipe.follow(walk, &root).expect("the first gate comes").overrides[0].from_ns;
    assert_eq!((from_ns(&WALK), from_ns(&late)), (1, 8));
    let lost = Recipe(vec![edit("a gate", 1, 5), edit("a gate", 99, 5)]).follow(&WALK, &root);
    let Err(Lost::NoMoment { number: 2, anchor }) = &lost else { panic!("{lost:?}") };
    assert_eq!(anchor.to_string(), "n1's \"a gate\" number 99");
    let plan =
        Recipe(vec![Edit { changes: vec![Change::Plan(serde_json::Value::Null)], ..edit("a gate", 1, 5) }]);
    assert!(matches!(plan.follow(&WALK, &root), Err(Lost::NoPlan { number: 1, .. })));
}

#[test]
fn a_run_is_what_its_parent_was_up_to_the_edit() {
    let seeds = (1..200).filter(|seed| {
        let plain = WALK.timeline(*seed);
        let recipe = Recipe(vec![edit("a gate", 2, 9)]);
        // Only runs that come to the second gate can be edited there.
        let Ok(edited) = recipe.follow(&WALK, &plain) else { return false };
        assert!(edited.overrides[0].from_ns > 10_000_000);
        let events = |timeline| WALK.run(timeline, Watch::default()).0.records;
        assert!(events(&edited) >= 3 && events(&plain) >= 3);
        true
    });
    assert!(seeds.count() > 10);
}

#[test]
fn what_has_limits_says_when_they_are_met() {
    let endless = Walk { is_endless: true, ..WALK };
    let pruned = found(endless, &Settings { most_steps: 500, ..settings(1, 40) });
    assert!(pruned.pruned > 30 && pruned.findings.is_empty(), "{}", told(&pruned));
    let lines = pruned.lines(&["exploring"]).join("\n");
    assert!(lines.contains("LIMIT MET") && lines.contains("limit of steps"), "{lines}");

    let exploration = Exploration { workers: 1, max_frontier: 2, ..Exploration::default() };
    let narrow = found(WALK, &Settings { exploration, ..settings(1, 300) });
    assert!(narrow.evicted > 0 && narrow.frontier.iter().all(|size| *size <= 2));
    assert_eq!(narrow.stopped, Stopped::MaxRuns);
    assert!(narrow.stopped.why().starts_with("CAP"));

    let exploration = Exploration { workers: 1, max_recipe_len: 1, ..Exploration::default() };
    let short = found(WALK, &Settings { exploration, max_roots: 20, ..settings(1, 2_000) });
    assert!(short.findings.iter().all(|finding| finding.recipe.0.len() <= 1));

    let exploration = Exploration { workers: 1, max_runs_per_seed: 10, ..Exploration::default() };
    let few = found(WALK, &Settings { exploration, max_roots: 3, plateau_roots: 99, ..settings(1, 2_000) });
    assert!(few.roots.len() == 3 && few.roots.iter().all(|root| root.runs <= 10 + 2 * 4), "{}", told(&few));
    assert_eq!(few.stopped, Stopped::MaxRoots);
}

#[test]
fn a_deadline_ends_the_whole_search_with_what_is_known() {
    let settings = Settings { deadline: Some(Duration::ZERO), ..settings(2, 1_000_000) };
    let known = found(Walk { is_endless: true, ..WALK }, &settings);
    assert_eq!(known.stopped, Stopped::Deadline);
    assert!(known.stopped.is_abort());
}

#[test]
fn what_does_not_run_alike_the_second_time_is_nondeterministic() {
    let counted = Walk { runs: Some(AtomicU64::new(0)), ..WALK };
    let known = found(counted, &settings(1, 3_000));
    let finding = known.findings.first().expect("somebody gets through");
    assert_eq!(finding.failure.category, Category::Nondeterministic);
}

#[test]
fn coverage_gets_stable_without_any_assertion_and_a_cap_is_said_to_be_one() {
    let walk = Arc::new(Walk { by_field: true, ..WALK });
    let of = |workers, limits| until_coverage_stable(&walk, workers, limits, Duration::from_secs(60));
    let stable = of(2, (100, 10_000));
    assert!(stable.is_flat && stable.summary.runs == stable.last_new_after + 100, "{}", stable.line());
    assert!(stable.seen >= 3 && stable.line().ends_with("coverage is flat"), "{}", stable.line());
    let alone = of(1, (100, 10_000));
    assert_eq!((alone.line(), alone.summary.digest), (stable.line(), stable.summary.digest));
    let capped = of(2, (100, 20));
    assert!(!capped.is_flat && capped.summary.runs == 20, "{}", capped.line());
    assert!(capped.line().contains("CAP"), "{}", capped.line());
}

#[test]
fn the_report_says_what_is_new_where_it_was_reached_first_and_how_the_frontier_grew() {
    let known = found(Walk { shows: Shows::Assertions, ..WALK }, &settings(1, 200));
    assert!(known.assertion_steps >= 3);
    assert_eq!((known.first_hits.len(), known.first_hits[0].run), (1, 1));
    let lines = known.lines(&["exploring"]).join("\n");
    for part in [
        "root 1:",
        "frontier over",
        "first reached in run 1, from root 1",
        "neither model checking nor a proof",
    ] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    assert_eq!(known.roots.iter().map(|root| root.runs).sum::<u64>(), known.runs);
    assert_ne!(Novelty::State, Novelty::Assertion("gates"));
}
