//! Assertions: what each macro says of a run, of a campaign, and of what was never reached.

use std::sync::Arc;

use sim_runtime::assert::{Assertions, MOST_VALUES, catalogue, crate_of};
use sim_runtime::campaign::{self, Settings, Summary};
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::trace::{Kind, Payload};
use sim_runtime::verdict::{Category, Findings, RunReport};
use sim_runtime::{Options, World, assert_always, assert_always_greater_than, assert_sometimes, trace};
use sim_runtime::{assert_always_greater_than_or_equal_to, assert_always_less_than};
use sim_runtime::{assert_always_less_than_or_equal_to, assert_always_or_unreachable, assert_reachable};
use sim_runtime::{assert_sometimes_all, assert_sometimes_each, assert_sometimes_greater_than};
use sim_runtime::{assert_sometimes_greater_than_or_equal_to, assert_sometimes_less_than};
use sim_runtime::{assert_sometimes_less_than_or_equal_to, assert_unreachable};

const HERE: &[&str] = &["assertions"];

fn run(program: impl FnOnce() + 'static) -> RunReport {
    let mut world = World::new(1, Options::default());
    world.run(async move { program() });
    world.report()
}

/// The failure's property and macro.
fn complaints(report: &RunReport) -> Vec<(&str, &str)> {
    report.findings.failures.iter().map(|f| (f.property.as_str(), f.shape.as_str())).collect()
}

fn gaps_about(assertions: &Assertions, message: &str) -> Vec<String> {
    assertions.gaps(HERE).into_iter().filter(|line| line.contains(message)).collect()
}

#[test]
fn what_is_always_so_passes_and_what_is_not_fails_the_run_once_with_its_message_and_values() {
    type Program = fn(i32);
    let programs: [(Program, &str, &str); 6] = [
        (|n| assert_always!(n < 3, "always: small", "n is {n}"), "always: small", "assert_always!"),
        (
            |n| assert_always_or_unreachable!(n < 3, "or unreachable: small"),
            "or unreachable: small",
            "assert_always_or_unreachable!",
        ),
        (|n| assert_always_less_than!(n, 3, "less: small"), "less: small", "assert_always_less_than!"),
        (
            |n| assert_always_less_than_or_equal_to!(n, 2, "at most: small"),
            "at most: small",
            "assert_always_less_than_or_equal_to!",
        ),
        (
            |n| assert_always_greater_than!(-n, -3, "greater: small", "n is {n}"),
            "greater: small",
            "assert_always_greater_than!",
        ),
        (
            |n| assert_always_greater_than_or_equal_to!(-n, -2, "at least: small"),
            "at least: small",
            "assert_always_greater_than_or_equal_to!",
        ),
    ];
    for (program, message, name) in programs {
        let calm = run(move || (0..3).for_each(program));
        assert_eq!(calm.findings.category(), Category::Pass, "{name}");
        assert_eq!(calm.assertions.get(message).map(|hits| (hits.so, hits.not_so)), Some((3, 0)));
        let wild = run(move || (0..9).for_each(program));
        assert_eq!(
            (wild.findings.category(), complaints(&wild)),
            (Category::Invariant, vec![(message, name)])
        );
        assert_eq!(wild.assertions.get(message).map(|hits| (hits.so, hits.not_so)), Some((3, 6)));
        let evidence = &wild.findings.failures[0].evidence;
        assert!(
            evidence.starts_with("on host: assert_always") && evidence.contains("tests/assertions.rs:"),
            "{evidence}"
        );
        assert!(
            name == "assert_always_or_unreachable!"
                || evidence.contains(": n is 3")
                || evidence.contains("3 is not "),
            "{evidence}"
        );
    }
}

#[test]
fn what_is_unreachable_fails_where_it_is_reached() {
    let report = run(|| assert_unreachable!("nobody comes here", "with {}", 5));
    assert_eq!(complaints(&report), [("nobody comes here", "assert_unreachable!")]);
    assert!(report.findings.failures[0].evidence.ends_with(": with 5"));
}

fn never_called() {
    assert_reachable!("gap: a place");
    assert_always!(true, "gap: a fact");
    assert_sometimes!(true, "gap: a wish");
    assert_sometimes_each!("gap: values", [("x", 1)]);
    assert_always_less_than!(1, 2, "gap: numbers");
    assert_always_or_unreachable!(true, "gap: not this one");
    assert_unreachable!("gap: nor this");
}

#[test]
fn a_site_that_was_never_reached_is_listed() {
    // Referred to, never called.
    assert_ne!(std::hint::black_box(never_called as fn()) as usize, 0);
    let listed = gaps_about(&Assertions::default(), "gap:");
    let expected = [
        "assert_reachable! \"gap: a place\"",
        "assert_always! \"gap: a fact\"",
        "assert_sometimes! \"gap: a wish\"",
        "assert_sometimes_each! \"gap: values\"",
        "assert_always_less_than! \"gap: numbers\"",
    ];
    assert_eq!(listed.len(), expected.len(), "{listed:?}");
    for (line, beginning) in listed.iter().zip(expected) {
        assert!(line.starts_with(beginning) && line.ends_with("never reached"), "{line}");
        assert!(line.contains("tests/assertions.rs:"), "{line}");
    }
}

#[test]
fn the_catalogue_is_that_of_the_crates_asked_for_in_the_order_of_lines() {
    assert_eq!(catalogue(&["another_crate"]), Vec::<&sim_runtime::assert::Site>::new());
    let lines: Vec<u32> = catalogue(HERE).iter().map(|site| site.line).collect();
    assert!(lines.len() > 10 && lines.is_sorted());
    assert_eq!((crate_of("paxos::acceptor"), crate_of("&paxos")), ("paxos", "paxos"));
}

#[test]
fn what_is_sometimes_so_is_a_gap_until_it_was_and_says_how_near_it_came() {
    fn program(n: i32) {
        assert_sometimes!(n > 5, "some: large");
        assert_sometimes_all!("some: all", [("odd", n % 2 == 1), ("large", n > 5), ("seven", n == 7)]);
        assert_sometimes_greater_than!(n, 5, "some: greater");
        assert_sometimes_greater_than_or_equal_to!(n, 6, "some: at least");
        assert_sometimes_less_than!(-n, -5, "some: less");
        assert_sometimes_less_than_or_equal_to!(-n, -6, "some: at most");
        assert_reachable!("some: reached");
    }
    let few = run(|| (1..4).for_each(program));
    assert_eq!(few.findings.category(), Category::Pass);
    let gaps = gaps_about(&few.assertions, "some:");
    let ends = [
        "reached 3 times, never so",
        "never so, at most 1 of 3 at once",
        "never so, 3 at most",
        "never so, 3 at most",
        "never so, -3 at least",
        "never so, -3 at least",
    ];
    assert_eq!(gaps.len(), ends.len(), "{gaps:?}");
    gaps.iter().zip(ends).for_each(|(line, end)| assert!(line.ends_with(end), "{line}"));

    let more = run(|| (1..9).for_each(program));
    let mut both = few.assertions.clone();
    both.merge(&more.assertions);
    assert_eq!(gaps_about(&both, "some:"), Vec::<String>::new());
    assert_eq!(both.get("some: greater").and_then(|hits| hits.range), Some((1, 8)));
    assert_eq!(both.get("some: large").map(|hits| (hits.so, hits.not_so)), Some((3, 8)));
}

#[test]
fn each_value_is_kept_up_to_a_limit_that_is_reported_loudly() {
    fn program(n: usize) {
        assert_sometimes_each!("each: n", [("parity", n % 2), ("n", n)]);
    }
    let report = run(|| (0..4).chain(0..4).for_each(program));
    let values = &report.assertions.get("each: n").expect("it was reached").values;
    assert_eq!(values.iter().cloned().collect::<Vec<_>>(), [[0, 0], [0, 2], [1, 1], [1, 3]]);
    assert_eq!(report.assertions.limits_met(), Vec::<String>::new());

    let mut many = run(|| (0..MOST_VALUES + 5).for_each(program)).assertions;
    let hits = many.get("each: n").expect("it was reached");
    assert_eq!((hits.values.len(), hits.beyond_limit), (MOST_VALUES, 5));
    let said = many.limits_met();
    assert!(
        said.len() == 1 && said[0].starts_with("LIMIT MET") && said[0].contains("5 new ones"),
        "{said:?}"
    );
    many.merge(&run(|| (MOST_VALUES + 7..MOST_VALUES + 9).for_each(program)).assertions);
    let hits = many.get("each: n").expect("it was reached");
    assert_eq!((hits.values.len(), hits.beyond_limit), (MOST_VALUES, 7));
}

#[test]
fn runs_share_nothing_and_assertions_change_no_digest() {
    let quiet = run(|| {});
    for _ in 0..2 {
        let report = run(|| (0..9).for_each(|n| assert_sometimes!(n > 5, "shared: nothing")));
        assert_eq!(report.digest(), quiet.digest());
        assert_eq!(report.assertions.get("shared: nothing").map(|hits| hits.reached()), Some(9));
    }
    assert_eq!(quiet.assertions, Assertions::default());
}

#[test]
#[should_panic(expected = "assert_always! \"outside of any run\"")]
fn outside_a_run_what_is_not_always_so_panics() {
    assert_always!(std::hint::black_box(1) > 2, "outside of any run");
}

#[derive(Copy, Clone, PartialEq, Debug)]
struct Beat(u64);

impl Payload for Beat {
    const KIND: Kind = Kind(1_000);
    fn encode(&self) -> (u32, [u64; 5]) {
        (0, [self.0, 0, 0, 0, 0])
    }
    fn decode(_aux: u32, words: &[u64; 5]) -> Self {
        Self(words[0])
    }
}

struct Asserting;

impl Invariant for Asserting {
    fn name(&self) -> &'static str {
        "asserting"
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        for beat in view.fresh().iter().filter_map(|record| record.get::<Beat>()) {
            assert_always_less_than!(beat.0, 2, "in an invariant");
        }
    }
}

#[test]
fn invariants_may_assert_too() {
    let mut world = World::new(1, Options::default());
    world.watch(Asserting);
    world.run(async { (0..4).for_each(|n| trace::emit(Beat(n))) });
    assert_eq!(complaints(&world.report()), [("in an invariant", "assert_always_less_than!")]);
}

/// Fails at the seeds that can be divided by five.
struct Fives;

impl Scenario for Fives {
    type Config = ();
    type Plan = ();

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, _config: &()) {}

    fn run(&self, timeline: &Timeline<(), ()>, _watch: Watch) -> (RunReport, Vec<String>) {
        let seed = timeline.seed;
        let report = run(move || {
            assert_always!(!seed.is_multiple_of(5), "no fives", "seed {seed}");
            assert_sometimes!(seed == 7, "a seven");
        });
        (RunReport { seed, ..report }, Vec::new())
    }
}

fn fives(jobs: usize, seeds: std::ops::Range<u64>) -> Summary {
    let settings = Settings { jobs, ..Settings::default() };
    campaign::run(&Arc::new(Fives), seeds, &settings, |_, _| {})
}

#[test]
fn a_campaign_fails_with_a_run_and_merges_what_was_seen_in_any_order() {
    let (one, two) = (fives(1, 1..21), fives(2, 1..21));
    assert_eq!(one.assertions, two.assertions);
    assert_eq!((one.failed(), one.failures[0].first.property.as_str()), (4, "no fives"));
    assert_eq!(gaps_about(&one.assertions, "a seven"), Vec::<String>::new());
    let short = fives(2, 1..5);
    assert_eq!((short.failed(), gaps_about(&short.assertions, "a seven").len()), (0, 1));
}
