//! `check_determinism` against programs that are wrong on purpose: each is caught, and called by its name.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod programs;
mod limits;
mod page;

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use rand_core::Rng;
use sim_runtime::determinism::{CauseKind, Checked, Divergence, Fresh, Perturbation, Settings, check};
use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::sync::Notify;
use sim_runtime::time::sleep;
use sim_runtime::verdict::{Category, RunReport};
use sim_runtime::{NodeId, Options, World, check_determinism};

/// A program that runs on one node.
struct Program(Box<dyn Fn() -> LocalBoxFuture<'static, ()> + Sync>);

impl Program {
    fn of<F: Future<Output = ()> + 'static>(main: impl Fn() -> F + Sync + 'static) -> Self {
        Self(Box::new(move || main().boxed_local()))
    }
}

impl Scenario for Program {
    type Config = ();
    /// Numbers that the program does not look at.
    type Plan = Vec<u32>;

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, _config: &()) -> Vec<u32> {
        vec![1, 2, 3]
    }

    fn simpler(&self, plan: &Vec<u32>) -> Vec<Vec<u32>> {
        (0..plan.len()).map(|gone| [&plan[..gone], &plan[gone + 1..]].concat()).collect()
    }

    fn run(&self, timeline: &Timeline<(), Vec<u32>>, _watch: Watch) -> (RunReport, Vec<String>) {
        let mut world = World::new(timeline.seed, Options::default());
        let (handle, done) = (world.handle(), std::rc::Rc::new(Notify::new()));
        let main = (self.0)();
        let (main, told) = (std::cell::Cell::new(Some(main)), done.clone());
        handle.add_node("program", move || {
            let (main, told) = (main.take().expect("it boots once"), told.clone());
            main.map(move |()| told.notify_one())
        });
        world.run(async move {
            handle.boot(NodeId(1));
            done.notified().await;
        });
        (world.report(), Vec::new())
    }
}

/// The first divergence that is found.
#[track_caller]
fn caught(program: Program) -> (Divergence, Checked) {
    let checked = check_determinism(&program, [1]);
    assert_eq!(checked.category(), Category::Nondeterministic, "{checked}");
    assert!(checked.skipped.is_empty(), "{checked}");
    println!("{checked}");
    (checked.divergences[0].clone(), checked)
}

/// It is called `kind`, and found in the programs.
#[track_caller]
fn assert_named(program: Program, kind: CauseKind, perturbation: Perturbation) -> Divergence {
    let (divergence, checked) = caught(program);
    let is_right = divergence.cause.kind == kind
        && divergence.perturbation == perturbation
        && divergence.cause.place.starts_with("sim-runtime/tests/determinism/");
    assert!(is_right, "not {kind:?} by {perturbation:?}, but {checked}");
    assert_eq!(divergence.failure().category, Category::Nondeterministic);
    divergence
}

macro_rules! hazards {
    ($($program:ident: $kind:ident by $perturbation:ident;)*) => {
        $(
            #[test]
            fn $program() {
                let program = Program::of(programs::$program);
                assert_named(program, CauseKind::$kind, Perturbation::$perturbation);
                page::assert_tells(stringify!($program), CauseKind::$kind, Perturbation::$perturbation);
            }
        )*
    };
}

hazards! {
    hash_map: HashOrder by HashKeys;
    hash_set: HashOrder by HashKeys;
    instant: MonotonicClock by MonotonicClock;
    system_time: WallClock by WallClock;
    select: Select by Again;
    thread_rng: Entropy by Entropy;
    global_rng: SurvivingState by Again;
    static_counter: SurvivingState by Again;
    lazy_static: SurvivingState by Again;
    environment: Environment by Environment;
    folder: Folder by Folder;
    real_file: File by Again;
    real_socket: Socket by Again;
    thread_local: ThreadLocal by AfterOthers;
}

/// The second run may be given the same address by chance; another process is not.
#[test]
fn pointer_printed() {
    assert_named_any_place(Program::of(programs::pointer_printed), CauseKind::Address);
    page::assert_tells("pointer_printed", CauseKind::Address, Perturbation::Again);
}

/// Real time decides how often the thread is waited for: two runs may agree by chance.
#[test]
fn os_thread() {
    let divergence = assert_named_any_place(Program::of(programs::os_thread), CauseKind::Thread);
    assert!(divergence.cause.place.starts_with("sim-runtime/tests/determinism/programs.rs:"));
    page::assert_tells("os_thread", CauseKind::Thread, Perturbation::Again);
}

/// What the heap gives to the second run is its own business: where other tests allocate beside it, the order may differ by
/// itself, and then nothing else is tried. So there are a few tries, in each of which the cause is the same. Each is the first
/// call of its own thread: a fresh process would fail in the calls before, which it makes for nothing, and give no answer.
#[track_caller]
fn assert_order_of_addresses(name: &str, program: impl Fn() -> Program + Sync) {
    let is_by_heap_order = || {
        let (divergence, checked) = caught(program());
        assert_eq!(divergence.cause.kind, CauseKind::AddressOrder, "{checked}");
        checked.divergences.iter().any(|d| d.perturbation == Perturbation::HeapOrder)
    };
    let on_its_own_thread = || {
        let thread = std::thread::Builder::new().name(name.to_owned());
        std::thread::scope(|scope| {
            thread.spawn_scoped(scope, is_by_heap_order).expect("a thread starts").join()
        })
    };
    assert!((0..6).any(|_| on_its_own_thread().expect("each try names the cause")));
    page::assert_tells(name, CauseKind::AddressOrder, Perturbation::HeapOrder);
}

#[test]
fn pointer_order() {
    assert_order_of_addresses("pointer_order", || Program::of(programs::pointer_order));
}

#[test]
fn pointer_map() {
    assert_order_of_addresses("pointer_map", || Program::of(programs::pointer_map));
}

#[test]
fn ends_earlier() {
    let program = Program::of(programs::ends_earlier);
    let divergence = assert_named_any_place(program, CauseKind::SurvivingState);
    assert!(divergence.second.entries < divergence.first.entries);
}

#[test]
fn other_output() {
    let program = Program::of(programs::other_output);
    let divergence = assert_named_any_place(program, CauseKind::SurvivingState);
    let text = divergence.first.differing().map(|line| line.what.clone()).unwrap_or_default();
    assert!(text.starts_with("at the end, returned: "), "{text}");
}

#[test]
fn late_drop() {
    let program = Program::of(programs::late_drop);
    let divergence = assert_named_any_place(program, CauseKind::SurvivingState);
    let lines = [&divergence.first, &divergence.second].map(|side| format!("{:?}", side.differing()));
    assert_ne!(lines[0], lines[1]);
}

#[track_caller]
fn assert_named_any_place(program: Program, kind: CauseKind) -> Divergence {
    let (divergence, checked) = caught(program);
    assert_eq!(divergence.cause.kind, kind, "{checked}");
    divergence
}

/// Virtual time, the simulation's own chance, ordered maps; a hash map that is only asked, never gone through.
#[expect(clippy::disallowed_types, reason = "it is only asked")]
async fn sound() {
    let known: std::collections::HashMap<u32, u32> = (0..50).map(|n| (n, n * n)).collect();
    for n in 0..20 {
        let wait = sim_runtime::rng().next_u64() % 1_000_000;
        sleep(Duration::from_nanos(wait)).await;
        let sessions: Vec<Box<u64>> = (0..n).map(Box::new).collect();
        tracing::info!(square = known[&(n as u32)], sessions = sessions.len(), "step");
    }
}

#[test]
fn a_deterministic_program_raises_no_alarm() {
    let checked = check_determinism(&Program::of(sound), 1..6);
    checked.expect_deterministic();
    assert_eq!((checked.seeds, checked.perturbations.len()), (5, Perturbation::ALL.len()));
    assert!(checked.skipped.is_empty());
}

#[test]
fn the_divergence_is_shown_on_the_smallest_timeline() {
    let (divergence, _) = caught(Program::of(programs::hash_map));
    assert_eq!((&divergence.timeline["plan"], divergence.shrink_steps), (&serde_json::json!([]), 3));
}

/// A line of this file, and not of the simulator, is the place of the main task.
#[test]
fn a_main_task_is_spawned_where_its_program_was_added() {
    let (divergence, checked) = caught(Program::of(programs::static_counter));
    let place = &divergence.first.differing().expect("both runs count").spawned_at;
    assert!(place.starts_with("sim-runtime/tests/determinism/main.rs:"), "{place}");
    assert!(checked.to_string().contains(&format!("spawned at {place}")), "{checked}");
}

/// The second run draws once more: the report says from which stream, as which draw, after what.
#[test]
fn the_report_shows_ten_entries_before_and_names_the_draw() {
    async fn draws_more_by_the_time() {
        static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let runs = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        for _ in 0..20 + u64::from(runs > 0) {
            sim_runtime::rng().next_u64();
        }
        sleep(Duration::from_millis(1)).await;
    }
    let (divergence, checked) = caught(Program::of(draws_more_by_the_time));
    let line = divergence.second.differing().expect("it goes on");
    assert!(line.what.ends_with(", number 20 of stream the program's on n1, incarnation 1"), "{line:?}");
    assert_eq!((line.task.as_str(), divergence.second.lines.len()), ("main of n1 (incarnation 1)", 11));
    assert!(line.time_ns < 1_000_000, "the task is woken some microseconds after its boot: {line:?}");
    for part in ["first :", "second:", "number 19 of stream", "number 20 of stream", "there main of n1"] {
        assert!(checked.to_string().contains(part), "{part}: {checked}");
    }
}

/// The second call is answered by processes that come past the first; unless they fail there, which is said.
#[test]
fn a_later_call_is_answered_unless_the_test_fails_before_it() {
    let processes = |_| {
        let settings = Settings { perturbations: vec![Perturbation::FreshProcess], ..Settings::default() };
        check(&Program::of(sound), [1], &settings, |_| {})
    };
    let [first, second] = [1, 2].map(processes);
    assert!(first.skipped.is_empty() && second.skipped.is_empty(), "{first}{second}");
    assert_eq!(first.seeds, 1, "of a process that is asked about a later call, this is the end");
    let third = processes(3);
    assert_eq!(third.skipped, [(Perturbation::FreshProcess, "a process gave no answer".to_owned())]);
}

#[test]
fn what_cannot_be_done_is_reported_as_skipped() {
    let settings = Settings { fresh: Fresh::Never, ..Settings::default() };
    let checked = check(&Program::of(sound), [1], &settings, |_| {});
    let skipped: Vec<_> = checked.skipped.iter().map(|(perturbation, _)| *perturbation).collect();
    use Perturbation::{Environment, Folder, FreshProcess, WallClock};
    assert_eq!(skipped, [FreshProcess, WallClock, Environment, Folder]);
    assert!(checked.to_string().contains("skipped: fresh process: nothing says how to start"), "{checked}");
}

#[test]
fn the_failures_of_both_runs_are_kept() {
    async fn fails_by_turns() {
        static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let runs = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let property = if runs.is_multiple_of(2) { "even" } else { "odd" };
        sim_runtime::Handle::current().fail(Category::Invariant, property, "", format!("run {runs}"));
    }
    let (divergence, _) = caught(Program::of(fails_by_turns));
    let of = |side: &sim_runtime::determinism::Side| side.failures[0].property.clone();
    assert_eq!((divergence.first.failures.len(), divergence.second.failures.len()), (1, 1));
    assert_ne!(of(&divergence.first), of(&divergence.second));
}
