//! Invariants over `tracing` events, windows and hits, and program randomness.

use std::time::Duration;

use rand_core::Rng;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::probe;
use sim_runtime::time::sleep;
use sim_runtime::verdict::{Category, Findings};
use sim_runtime::{Handle, Options, World, rng};

/// No two nodes may say that they lead in one term.
#[derive(Default)]
struct OneLeader {
    cursor: Cursor,
    led: Vec<(u64, u16)>,
}

impl Invariant for OneLeader {
    fn name(&self) -> &'static str {
        "one leader"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.since("leader_elected", &mut self.cursor) {
            let term = event.u64("term").expect("leader_elected has a term");
            assert!(event.text("term").is_err() && event.u64("nothing").is_err());
            if self.led.iter().any(|(t, n)| *t == term && *n != event.node.0) {
                found.violation("one leader", "two leaders", format!("two leaders in term {term}"));
            }
            self.led.push((term, event.node.0));
        }
    }
}

fn elections(terms: [u64; 2]) -> (Category, u64) {
    let mut world = World::new(3, Options::default());
    let handle = world.handle();
    world.watch(OneLeader::default());
    for term in terms {
        let id = handle.add_node("n", move || async move {
            sleep(Duration::from_millis(term)).await;
            tracing::debug!(term = 0_u64, "not this one");
            tracing::info!(term, why = ?"timeout", "leader_elected");
        });
        handle.boot(id);
    }
    world.run(sleep(Duration::from_millis(100)));
    let report = world.report();
    (report.findings.category(), report.behaviour)
}

#[test]
fn an_invariant_sees_named_events_with_node_and_fields() {
    assert_eq!(elections([1, 2]).0, Category::Pass);
    assert_eq!(elections([2, 2]).0, Category::Invariant);
}

#[test]
fn events_enter_the_behaviour_digest() {
    assert_eq!(elections([1, 2]).1, elections([1, 2]).1);
    assert_ne!(elections([1, 2]).1, elections([1, 3]).1);
}

#[test]
fn a_fault_in_an_open_window_is_a_hit_and_one_outside_is_not() {
    let mut world = World::new(3, Options::default());
    let handle = world.handle();
    let id = handle.add_node("n", || async {
        sleep(Duration::from_millis(10)).await;
        let window = probe::window("saving", Some(Duration::from_millis(5)));
        sleep(Duration::from_millis(5)).await;
        drop(window);
        std::future::pending::<()>().await;
    });
    handle.boot(id);
    let h: Handle = handle.clone();
    world.run(async move {
        let opened = probe::next("saving", Some(id)).await;
        assert_eq!((opened.node, opened.expected_ns), (id, Some(5_000_000)));
        sleep(Duration::from_millis(2)).await;
        assert!(h.is_window_open(id, "saving"));
        h.kill(id, 1);
        assert!(!h.is_window_open(id, "saving"));
        h.restart(id);
        sleep(Duration::from_millis(100)).await;
        h.kill(id, 2);
    });
    let coverage = world.report().coverage;
    assert_eq!(coverage.get("window opened: saving"), 2);
    assert_eq!(coverage.get("window hit: saving"), 1);
}

#[test]
fn a_fault_soon_after_a_point_is_a_hit_and_a_late_one_is_not() {
    let hits = |delay_us: u64| {
        let mut world = World::new(3, Options::default());
        let handle = world.handle();
        let id = handle.add_node("n", || async {
            sleep(Duration::from_millis(10)).await;
            probe::point("said yes");
            std::future::pending::<()>().await;
        });
        handle.boot(id);
        let h = handle.clone();
        world.run(async move {
            probe::next("said yes", None).await;
            sleep(Duration::from_micros(delay_us)).await;
            h.kill(id, 1);
        });
        world.report().coverage.get("window hit: said yes")
    };
    assert_eq!((hits(1_000), hits(2_500)), (1, 0));
}

#[test]
fn program_randomness_belongs_to_node_and_incarnation() {
    fn draws(seed: u64, extra_node: bool) -> Vec<u64> {
        let drawn = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let mut world = World::new(seed, Options::default());
        let handle = world.handle();
        let id = {
            let drawn = drawn.clone();
            handle.add_node("n", move || {
                let drawn = drawn.clone();
                async move { drawn.borrow_mut().push(rng().next_u64()) }
            })
        };
        if extra_node {
            let other = handle.add_node("other", || async {
                for _ in 0..100 {
                    rng().next_u64();
                }
            });
            handle.boot(other);
        }
        handle.boot(id);
        let h = handle.clone();
        world.run(async move {
            sleep(Duration::from_millis(50)).await;
            h.boot(id);
            sleep(Duration::from_millis(50)).await;
        });
        drawn.take()
    }
    let plain = draws(1, false);
    assert_ne!(plain[0], plain[1], "incarnations draw from streams of their own");
    assert_eq!(plain, draws(1, true), "what another node draws does not matter");
    assert_ne!(plain, draws(2, false));
}

/// Logs, and panics at the third event.
#[derive(Default)]
struct Fragile {
    cursor: Cursor,
    seen: usize,
}

impl Invariant for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        self.seen += view.since("tick", &mut self.cursor).count();
        tracing::info!(seen = self.seen, "an invariant may log");
        assert!(self.seen < 3, "three is too many");
    }
}

#[test]
fn an_invariant_may_log_and_one_that_panics_is_the_verdict_by_name() {
    let mut world = World::new(3, Options::default());
    world.watch(Fragile::default());
    world.run(async {
        for _ in 0..5 {
            tracing::info!("tick");
            sleep(Duration::from_millis(1)).await;
        }
    });
    let report = world.report();
    let first = report.findings.first().expect("a failure");
    assert_eq!(first.category, Category::Crash);
    assert!(first.evidence.contains("fragile") && first.evidence.contains("three is too many"));
}

/// Reads what `field` says in every event, or looks only once, at the end.
struct Reader {
    field: &'static str,
    looks_late: bool,
    cursor: Cursor,
    sum: i64,
}

impl Reader {
    fn read(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.since("tick", &mut self.cursor) {
            self.sum += found.field(event.i64(self.field)).unwrap_or(0);
        }
    }
}

impl Invariant for Reader {
    fn name(&self) -> &'static str {
        "reader"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        if !self.looks_late {
            self.read(view, found);
        }
    }

    fn finish(&mut self, view: &View<'_>, found: &mut Findings) {
        self.read(view, found);
        if self.sum != 0 {
            found.violation("sums to nothing", "", self.sum.to_string());
        }
    }
}

fn read(field: &'static str, looks_late: bool, ticks: i64) -> (Option<String>, String) {
    let mut world = World::new(3, Options::default());
    world.watch(Reader { field, looks_late, cursor: Cursor::default(), sum: 0 });
    world.run(async move {
        for n in 0..ticks {
            tracing::info!(signed = if n % 2 == 0 { -1 } else { 1 }, text = "one", "tick");
            sleep(Duration::from_millis(1)).await;
        }
    });
    let first = world.report().findings.first().cloned();
    (first.as_ref().map(|f| f.property.clone()), first.map(|f| f.evidence).unwrap_or_default())
}

#[test]
fn fields_are_typed_and_what_an_event_does_not_have_is_said_clearly() {
    assert_eq!(read("signed", false, 4), (None, String::new()));
    let (property, evidence) = read("text", false, 4);
    assert_eq!(property.as_deref(), Some("fields of events"));
    assert_eq!(evidence, r#"field "text" of event "tick" is Text("one"), not i64"#);
    let (property, evidence) = read("none", false, 4);
    assert_eq!(property.as_deref(), Some("fields of events"));
    assert_eq!(evidence, r#"event "tick" has no field "none"; it has ["signed", "text"]"#);
}

#[test]
fn a_cursor_that_fell_behind_is_told_so_and_misses_nothing_in_silence() {
    assert_eq!(read("signed", true, 100), (None, String::new()));
    let (property, evidence) = read("signed", true, 5_000);
    assert_eq!(property.as_deref(), Some("panic"));
    assert!(evidence.contains("reader") && evidence.contains("move each cursor"), "{evidence}");
}
