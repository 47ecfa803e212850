//! Runs a timeline under given conditions, each time on a thread of its own, and notes everything down.
//!
//!   timeline + Conditions ──► fresh thread: heap laid out, other runs before, others beside ──► Recording
//!
//! A deterministic program cannot see any of the conditions.
//! Not here: which conditions are tried (`perturbation.rs`), other processes (`process.rs`).

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::ambient::Salts;
use crate::panics::payload_text;
use crate::rng::Stream;
use crate::scenario::{Scenario, Timeline, Watch};

use super::fairness;
use super::tape::{Recording, Tape};

/// What a deterministic program cannot see.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Conditions {
    pub(super) salts: Salts,
    /// The order of free blocks in the heap: by address, or shuffled by a seed.
    pub(super) heap: Option<u64>,
    /// How many other seeds are run on the thread before.
    pub(super) before: u64,
    /// How many threads run other seeds meanwhile.
    pub(super) beside: u64,
    /// How many threads compute and allocate meanwhile.
    pub(super) busy: u64,
    /// The entry of which the origin is to be noted.
    pub(super) mark: Option<usize>,
}

struct Arrangement {
    tape: Rc<Tape>,
    salts: Salts,
}

thread_local! {
    static ARRANGED: RefCell<Option<Arrangement>> = const { RefCell::new(None) };
}

/// What the worlds of this thread are to note everything on, and what answers depend on; nothing in ordinary runs.
pub(crate) fn arranged() -> (Option<Rc<Tape>>, Option<Salts>) {
    ARRANGED.with(|slot| {
        let slot = slot.borrow();
        (slot.as_ref().map(|a| a.tape.clone()), slot.as_ref().map(|a| a.salts))
    })
}

/// The stack of a thread that runs a scenario, as campaigns have it.
const STACK_BYTES: usize = 8 << 20;

/// Runs `timeline`.
pub(super) fn perform<S>(
    scenario: &S,
    timeline: &Timeline<S::Config, S::Plan>,
    conditions: &Conditions,
) -> Recording
where
    S: Scenario,
    S::Config: Sync,
    S::Plan: Sync,
{
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let start = |name: &str| thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        for n in 0..conditions.busy {
            let over = &over;
            start("busy")
                .spawn_scoped(scope, move || keep_busy(n, over))
                .expect("the system can start a thread");
        }
        for n in 0..conditions.beside {
            let over = &over;
            let work = move || {
                let mut seed = timeline.seed.wrapping_add(n + 1);
                while !over.load(Ordering::Relaxed) {
                    run_other(scenario, seed);
                    seed = seed.wrapping_add(7);
                }
            };
            start("beside").spawn_scoped(scope, work).expect("the system can start a thread");
        }
        let run = start("check").spawn_scoped(scope, || here(scenario, timeline, conditions));
        let recording = run.expect("the system can start a thread").join();
        over.store(true, Ordering::Relaxed);
        recording.expect("panics of the scenario are caught")
    })
}

fn here<S>(scenario: &S, timeline: &Timeline<S::Config, S::Plan>, conditions: &Conditions) -> Recording
where
    S: Scenario,
    S::Config: Sync,
    S::Plan: Sync,
{
    for n in 1..=conditions.before {
        run_other(scenario, timeline.seed.wrapping_add(n));
    }
    if conditions.before > 0 && sim_guard::entropy_touched() {
        // Where a campaign retires a worker, this thread ends too.
        let fresh = Conditions { before: 0, ..conditions.clone() };
        return perform(scenario, timeline, &fresh);
    }
    let held = lay_out_heap(conditions.heap);
    let tape = Rc::new(Tape::new(conditions.mark));
    let arrangement = Arrangement { tape: tape.clone(), salts: conditions.salts };
    ARRANGED.with(|slot| slot.replace(Some(arrangement)));
    let ran = catch_unwind(AssertUnwindSafe(|| scenario.run(timeline, Watch::default()).0));
    drop(ARRANGED.with(|slot| slot.take()));
    drop(held);
    match &ran {
        Ok(report) => tape.conclude(report),
        Err(payload) => tape.end("panic in the harness", payload_text(&**payload).to_owned()),
    }
    // The world is gone, unless the program keeps one from run to run.
    let tape = Rc::try_unwrap(tape).unwrap_or_else(|kept| kept.take());
    // Asked only when somebody looks for a cause, since it takes its time.
    let shuffled = conditions.mark.and_then(|_| fairness::was_drawn_on_this_thread());
    tape.into_recording(ran.ok(), shuffled)
}

/// Another run, of which nothing is noted.
fn run_other<S: Scenario>(scenario: &S, seed: u64) {
    // What it comes to is not asked here.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(scenario.run(&scenario.timeline(seed), Watch::default()))));
}

/// Blocks that keep the free ones between them from growing together.
type Held = Vec<Vec<u8>>;

/// Fills the lists of free blocks of all usual sizes, in the order of addresses or in a shuffled one. Most blocks that
/// a run is given then come from these lists.
fn lay_out_heap(order: Option<u64>) -> Held {
    const STEP: usize = 16;
    const LARGEST: usize = 1_024;
    const OF_EACH: usize = 48;
    let mut held = Vec::new();
    for size in (STEP..=LARGEST).step_by(STEP) {
        let mut blocks: Vec<Vec<u8>> =
            (0..2 * OF_EACH).map(|_| Vec::with_capacity(size - STEP / 2)).collect();
        blocks.sort_by_key(|block| block.as_ptr());
        let mut free = Vec::with_capacity(OF_EACH);
        for (place, block) in blocks.into_iter().enumerate() {
            if place % 2 == 0 { free.push(block) } else { held.push(block) }
        }
        if let Some(seed) = order {
            Stream::derive(seed, "free lists").shuffle(&mut free);
        }
        free.into_iter().for_each(drop);
    }
    held
}

/// Computes, allocates and yields until told to end.
fn keep_busy(n: u64, over: &AtomicBool) {
    let mut sum = n;
    while !over.load(Ordering::Relaxed) {
        let block: Vec<u64> = (0..64 + sum % 64).collect();
        sum = std::hint::black_box(block).iter().fold(sum, |sum, word| sum.rotate_left(3) ^ word);
        if sum.is_multiple_of(8) {
            thread::yield_now();
        }
    }
}
