//! Wakers that outlive what they wake, and the order in which a crowd of woken tasks runs.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use sim_runtime::schedule::{Scheduler, TaskInfo};
use sim_runtime::time::sleep;
use sim_runtime::verdict::Category;
use sim_runtime::{JoinError, Options, World, spawn, task};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Nothing held back: for tests about exact times.
fn exact() -> Options {
    Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() }
}

/// A future that never ends, counts its polls, and gives its waker away.
fn counting(waker: &Rc<RefCell<Option<Waker>>>, polls: &Rc<Cell<u32>>) -> impl Future<Output = ()> + use<> {
    let (waker, polls) = (waker.clone(), polls.clone());
    poll_fn(move |cx| {
        waker.replace(Some(cx.waker().clone()));
        polls.set(polls.get() + 1);
        Poll::Pending
    })
}

#[test]
fn a_waker_that_outlives_its_task_wakes_nobody_who_came_after_it() {
    let (waker, polls) = (Rc::default(), Rc::default());
    let (of_the_next, polls_of_the_next) = (Rc::default(), Rc::<Cell<u32>>::default());
    let mut world = World::new(1, exact());
    let kept = world.run({
        let (waker, polls) = (Rc::clone(&waker), Rc::clone(&polls));
        let (of_the_next, polls_of_the_next) = (Rc::clone(&of_the_next), Rc::clone(&polls_of_the_next));
        async move {
            let first = spawn(counting(&waker, &polls));
            sleep(ms(1)).await;
            first.abort();
            assert_eq!(first.await, Err(JoinError::Cancelled));
            // It takes the place that the first one had.
            let _next = spawn(counting(&of_the_next, &polls_of_the_next));
            sleep(ms(1)).await;
            let stale: Waker = waker.borrow_mut().take().expect("it was polled");
            let own: Waker = of_the_next.borrow().clone().expect("it was polled");
            assert!(!stale.will_wake(&own));
            stale.wake_by_ref();
            sleep(ms(1)).await;
            assert_eq!(polls_of_the_next.get(), 1);
            own.wake();
            sleep(ms(1)).await;
            assert_eq!(polls_of_the_next.get(), 2);
            stale
        }
    });
    drop(world);
    // Neither does it once its world is gone, from wherever it is woken.
    let stale = kept.expect("main ends");
    stale.wake_by_ref();
    let mut other = World::new(2, exact());
    other.run(async move {
        stale.wake_by_ref();
        sleep(ms(1)).await;
    });
    assert_eq!(other.report().findings.category(), Category::Pass);
    assert_eq!(polls.get(), 1);
}

#[test]
fn a_crowd_runs_in_the_order_of_its_ranks_also_when_some_come_later() {
    struct ByKey;
    impl Scheduler for ByKey {
        fn rank(&mut self, task: TaskInfo, _now_ns: u64) -> u64 {
            task.identity
        }
    }
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut world = World::new(1, exact());
    world.schedule_with(ByKey);
    world.run({
        let order = order.clone();
        async move {
            let named = |key: u64| {
                let order = order.clone();
                task("one").key(key).spawn(async move {
                    order.borrow_mut().push(key);
                    if key.is_multiple_of(3) {
                        let late = order.clone();
                        drop(task("late").key(key).spawn(async move { late.borrow_mut().push(1_000 + key) }));
                    }
                })
            };
            let tasks: Vec<_> = (0..200).map(named).collect();
            sleep(ms(1)).await;
            drop(tasks);
        }
    });
    let order = order.borrow();
    let firsts: Vec<u64> = order.iter().copied().filter(|key| *key < 1_000).collect();
    assert_eq!((order.len(), firsts.len()), (200 + 67, 200));
    // The same tasks, all ready at once and two at a time, are ranked alike: the highest first.
    let mut by_rank = firsts.clone();
    by_rank.sort_unstable();
    assert_ne!(firsts, by_rank, "identities are hashes");
    let pair = |one: u64, other: u64| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut world = World::new(1, exact());
        world.schedule_with(ByKey);
        let filled = order.clone();
        world.run(async move {
            for key in [one, other] {
                let order = filled.clone();
                drop(task("one").key(key).spawn(async move { order.borrow_mut().push(key) }));
            }
            sleep(ms(1)).await;
        });
        order.take()
    };
    for pairs in firsts.windows(2) {
        assert_eq!(pair(pairs[0], pairs[1]), pairs);
        assert_eq!(pair(pairs[1], pairs[0]), pairs);
    }
}

#[test]
fn a_foreign_wake_of_a_task_that_is_gone_is_none_of_the_task_that_has_its_place() {
    let (waker, polls) = (Rc::default(), Rc::default());
    let mut world = World::new(1, exact());
    world
        .run(async move {
            let first = spawn(counting(&waker, &polls));
            sleep(ms(1)).await;
            first.abort();
            assert_eq!(first.await, Err(JoinError::Cancelled));
            let stale: Waker = waker.borrow_mut().take().expect("it was polled");
            let _next = spawn(counting(&waker, &polls));
            sleep(ms(1)).await;
            #[expect(clippy::disallowed_methods, reason = "the foreign thread is what is tested")]
            let foreign = std::thread::spawn(move || stale.wake());
            foreign.join().expect("the thread ends");
            sleep(ms(1)).await;
        })
        .expect("the run goes to its end");
    assert_eq!(world.report().findings.category(), Category::Pass);
}
