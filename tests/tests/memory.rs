//! What pending timers cost in memory, counted at the allocator: of the whole process, so this file has one test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sim_runtime::{Options, World, time};

/// The system's allocator, and how many bytes are in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST_IN_USE: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator can be counted at no other place")]
// SAFETY: all is passed on to the system's allocator as it comes, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST_IN_USE.fetch_max(in_use, Ordering::Relaxed);
        // SAFETY: the caller's promises are the ones that are asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; what is given back came from `alloc`, and so from the system.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TIMERS: usize = 1_000_000;

/// One task that waits for a million sleeps: what is counted is them, in the task and in the queue of timers.
#[test]
fn a_million_pending_timers_cost_at_most_200_bytes_each() {
    let mut world = World::new(1, Options::default());
    let handle = world.handle();
    let bytes = world.run(async move {
        let before = IN_USE.load(Ordering::Relaxed);
        MOST_IN_USE.store(before, Ordering::Relaxed);
        let mut sleeps = Vec::with_capacity(TIMERS);
        let mut context = Context::from_waker(Waker::noop());
        for n in 0..TIMERS as u64 {
            // From milliseconds to hours: in every wheel that matters.
            let mut sleep = Box::pin(time::sleep(Duration::from_micros(1 + n * n % 10_000_000_019)));
            assert_eq!(sleep.as_mut().poll(&mut context), Poll::Pending);
            sleeps.push(sleep);
        }
        assert_eq!(handle.pending_timers(), TIMERS);
        let bytes = IN_USE.load(Ordering::Relaxed) - before;
        let most = MOST_IN_USE.load(Ordering::Relaxed) - before;
        println!("{} bytes a pending timer, {} while the queue grew", bytes / TIMERS, most / TIMERS);
        drop(sleeps);
        assert_eq!(handle.pending_timers(), 0);
        bytes
    });
    let bytes = bytes.expect("nothing ends the run before");
    assert!(bytes <= 200 * TIMERS, "{} bytes each", bytes / TIMERS);
}
