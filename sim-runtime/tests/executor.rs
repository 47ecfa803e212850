//! The executor, seen from a program: time, tasks, nodes, wakes, and what ends a run.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use sim_runtime::schedule::Schedule;
use sim_runtime::sync::{Mutex, Notify, mpsc, oneshot, watch};
use sim_runtime::time::{self, Instant, interval, sleep, timeout};
use sim_runtime::trace::{self, Kind, Payload};
use sim_runtime::verdict::Category;
use sim_runtime::{Handle, JoinError, NodeId, Options, World, node, spawn, task};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A record for tests: one number.
#[derive(Copy, Clone)]
struct Note(u64);

impl Payload for Note {
    const KIND: Kind = Kind(1_000);
    fn encode(&self) -> (u32, [u64; 5]) {
        (0, [self.0, 0, 0, 0, 0])
    }
    fn decode(_aux: u32, words: &[u64; 5]) -> Self {
        Self(words[0])
    }
}

/// Nothing held back: for tests about exact times.
fn exact() -> Options {
    Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() }
}

fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    World::new(1, exact()).run(main).expect("the run finishes")
}

#[test]
fn a_minute_of_sleep_costs_one_event_and_moves_time_exactly() {
    let mut world = World::new(1, exact());
    world.run(async {
        let start = Instant::now();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(60));
    });
    assert!(world.report().steps < 10);
}

#[test]
fn a_timer_that_was_cancelled_leaves_nothing_behind() {
    run(async {
        for _ in 0..1_000 {
            assert!(timeout(ms(1), sleep(ms(500))).await.is_err());
            assert!(timeout(ms(500), sleep(ms(1))).await.is_ok());
        }
        assert_eq!(Handle::current().pending_timers(), 0);
    });
}

#[test]
fn an_interval_does_not_drift() {
    run(async {
        let start = Instant::now();
        let mut ticks = interval(ms(10));
        for n in 0..5 {
            assert_eq!(ticks.tick().await - start, ms(10) * n);
            sleep(ms(3)).await;
        }
    });
}

#[test]
fn a_join_handle_gives_the_value_and_abort_drops_the_task_at_its_await() {
    run(async {
        assert_eq!(spawn(async { 7 }).await, Ok(7));
        let dropped = Rc::new(Cell::new(false));
        struct Flag(Rc<Cell<bool>>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let flag = Flag(dropped.clone());
        let sleeper = spawn(async move {
            let _flag = flag;
            sleep(ms(1_000)).await;
        });
        sleep(ms(1)).await;
        sleeper.abort();
        assert_eq!(sleeper.await, Err(JoinError::Cancelled));
        assert!(dropped.get());
    });
}

#[test]
fn a_panic_is_the_verdict_with_node_task_place_and_message() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let n1 = handle.add_node("n1", || async {
        task("worker").spawn(async { panic!("seven is not eight") });
        sleep(ms(5)).await;
    });
    handle.boot(n1);
    assert!(world.run(sleep(ms(10))).is_none());
    let report = world.report();
    let first = report.findings.first().expect("a failure");
    assert_eq!(first.category, Category::Crash);
    for part in ["worker", "n1", "executor.rs", "seven is not eight"] {
        assert!(first.evidence.contains(part), "{part} in {}", first.evidence);
    }
}

#[test]
fn where_a_panic_does_not_end_the_run_the_join_handle_reports_it() {
    let mut world = World::new(1, Options { panic_ends_run: false, ..exact() });
    let joined = world.run(async { spawn(async { panic!("gone") }).await });
    assert!(matches!(joined, Some(Err(JoinError::Panicked(text))) if text.contains("gone")));
    assert_eq!(world.report().findings.category(), Category::Crash);
}

#[test]
fn when_nothing_can_run_again_the_report_says_who_waits_for_what() {
    let mut world = World::new(1, exact());
    let ended = world.run(async {
        let (_tx, mut rx) = mpsc::unbounded::<()>();
        let waiter = task("reader").spawn(async move { rx.recv().await });
        let notify = Notify::new();
        let _keep = (waiter, _tx);
        notify.notified().await;
    });
    assert!(ended.is_none());
    let report = world.report();
    let first = report.findings.first().expect("a failure");
    assert_eq!(first.category, Category::Stuck);
    assert!(first.evidence.contains("reader of host"), "{}", first.evidence);
    assert!(first.evidence.contains("waits for a channel value"), "{}", first.evidence);
    assert!(first.evidence.contains("waits for a notification"), "{}", first.evidence);
}

#[test]
fn a_task_that_spins_in_one_instant_is_a_livelock_and_a_million_tasks_are_not() {
    let mut world = World::new(1, Options { polls_at_instant: 10_000, ..exact() });
    world.run(async {
        std::future::poll_fn::<(), _>(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    });
    assert_eq!(world.report().findings.category(), Category::Livelock);

    let mut world = World::new(1, Options { polls_at_instant: 10_000, ..exact() });
    let done = world.run(async {
        let count = Rc::new(Cell::new(0));
        for _ in 0..1_000_000 {
            let count = count.clone();
            drop(spawn(async move { count.set(count.get() + 1) }));
        }
        sleep(ms(1)).await;
        count.get()
    });
    assert_eq!(done, Some(1_000_000));
    assert_eq!(world.report().findings.category(), Category::Pass);
}

#[test]
fn the_time_limit_ends_a_run_that_would_go_on_for_ever() {
    let mut world = World::new(1, Options { limit_ns: 1_000_000_000, ..exact() });
    assert!(world.run(async { sleep(Duration::from_secs(3_600)).await }).is_none());
    assert_eq!(world.report().findings.category(), Category::Stuck);
}

#[test]
fn a_wake_from_a_foreign_thread_is_safe_and_reported() {
    let mut world = World::new(1, exact());
    let woken = world.run(async {
        let (tx, rx) = futures::channel::oneshot::channel();
        let waiter = spawn(rx);
        sleep(ms(1)).await;
        #[expect(clippy::disallowed_methods, reason = "the foreign thread is what is tested")]
        let foreign = std::thread::spawn(move || tx.send(5));
        foreign.join().expect("the thread ends").expect("the receiver waits");
        waiter.await
    });
    assert_eq!(woken, Some(Ok(Ok(5))));
    let report = world.report();
    let first = report.findings.first().expect("it is reported");
    assert_eq!(first.category, Category::Nondeterministic);
    assert!(first.evidence.contains("executor.rs"), "{}", first.evidence);
}

#[test]
fn killed_tasks_are_dropped_at_once_and_what_they_held_is_inert() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let log = Rc::new(RefCell::new(Vec::new()));
    let n1 = {
        let log = log.clone();
        handle.add_node("n1", move || {
            let log = log.clone();
            async move {
                struct Tell(Rc<RefCell<Vec<String>>>, u32);
                impl Drop for Tell {
                    fn drop(&mut self) {
                        self.0.borrow_mut().push(format!("dropped {}", self.1));
                        // Code that runs while its node dies starts nothing.
                        let late = spawn(async { unreachable!("the node is dead") });
                        assert!(late.is_finished());
                    }
                }
                let _tell = Tell(log.clone(), node::incarnation());
                log.borrow_mut().push(format!("boot {}", node::incarnation()));
                spawn(async { sleep(ms(100)).await });
                std::future::pending::<()>().await;
            }
        })
    };
    handle.boot(n1);
    let h = handle.clone();
    world
        .run(async move {
            sleep(ms(1)).await;
            let owner = sim_runtime::Owner { node: n1, incarnation: 1 };
            assert!(h.is_live(owner));
            h.kill(n1, 1);
            assert!(!h.is_live(owner) && !h.is_up(n1));
            assert_eq!(h.living_tasks(), 1, "only the main task is left");
            assert_eq!(h.pending_timers(), 0);
            assert_eq!(h.spawn_on(owner, "late", 0, async {}).await, Err(JoinError::Cancelled));
            h.restart(n1);
            sleep(ms(1)).await;
            assert!(!h.is_live(owner), "a new incarnation is another owner");
            h.power_off(&[n1], 2);
        })
        .expect("the run goes to its end");
    assert_eq!(*log.borrow(), ["boot 1", "dropped 1", "boot 2", "dropped 2"]);
    drop(handle);
}

#[test]
fn a_node_that_kills_itself_stops_at_its_next_await() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let reached = Rc::new(Cell::new(0));
    let n1 = {
        let (handle, reached) = (handle.clone(), reached.clone());
        handle.clone().add_node("n1", move || {
            let (handle, reached) = (handle.clone(), reached.clone());
            async move {
                reached.set(1);
                let owner = handle.owner();
                assert!(handle.is_live(owner));
                handle.kill(NodeId(1), 0);
                assert!(!handle.is_live(owner), "what goes on after its end is inert");
                reached.set(2);
                sleep(ms(1)).await;
                reached.set(3);
            }
        })
    };
    handle.boot(n1);
    world.run(sleep(ms(10)));
    assert_eq!(reached.get(), 2);
}

#[test]
fn a_main_that_returns_has_ended_its_process() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let n1 = handle.add_node("n1", || async {
        spawn(sleep(ms(1_000)));
        node::shutdown_requested().await;
    });
    handle.boot(n1);
    let h = handle.clone();
    world
        .run(async move {
            sleep(ms(1)).await;
            assert!(h.is_up(n1));
            h.shutdown(n1);
            sleep(ms(1)).await;
            assert!(!h.is_up(n1));
            assert_eq!(h.living_tasks(), 1);
        })
        .expect("the run goes to its end");
}

#[test]
fn a_paused_node_does_nothing_and_misses_nothing() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let ticks = Rc::new(Cell::new(0));
    let n1 = {
        let ticks = ticks.clone();
        handle.add_node("n1", move || {
            let ticks = ticks.clone();
            async move {
                loop {
                    sleep(ms(10)).await;
                    ticks.set(ticks.get() + 1);
                }
            }
        })
    };
    handle.boot(n1);
    let h = handle.clone();
    world
        .run(async move {
            sleep(ms(35)).await;
            h.pause(n1);
            sleep(ms(100)).await;
            assert_eq!(ticks.get(), 3);
            h.resume(n1);
            sleep(ms(25)).await;
            assert_eq!(ticks.get(), 6, "the tick that was due, then two more");
        })
        .expect("the run goes to its end");
}

#[test]
fn a_node_clock_drifts_restarts_at_boot_and_never_jumps() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let n1 = {
        let seen = seen.clone();
        handle.add_node("n1", move || {
            let seen = seen.clone();
            async move {
                let start = Instant::now();
                sleep(ms(110)).await;
                seen.borrow_mut().push((start.elapsed(), time::wall_now()));
            }
        })
    };
    handle.set_drift(n1, 100_000);
    handle.boot(n1);
    let h = handle.clone();
    world
        .run(async move {
            h.set_wall_offset(n1, 5_000_000_000);
            // 110 ms on a clock that runs 10 % fast are 100 ms.
            sleep(ms(99)).await;
            assert!(h.is_up(n1));
            sleep(ms(2)).await;
            assert!(!h.is_up(n1));
        })
        .expect("the run goes to its end");
    let (elapsed, wall) = seen.borrow()[0];
    assert_eq!(elapsed, ms(110));
    assert_eq!(wall.as_millis() % 100_000_000, (1_577_836_800_000 + 5_100) % 100_000_000);
}

#[test]
fn a_clock_that_drifts_beyond_its_range_stands_at_its_end_and_panics_nowhere() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let ticks = Rc::new(Cell::new(0));
    let n1 = {
        let ticks = ticks.clone();
        handle.add_node("n1", move || {
            let ticks = ticks.clone();
            async move {
                // At 2,148 times the rate of global time, 584 years are over after 99 days.
                sleep(Duration::from_secs(580 * 365 * 86_400)).await;
                loop {
                    let before = Instant::now();
                    sleep(Duration::from_secs(365 * 86_400)).await;
                    assert!(Instant::now() >= before);
                    ticks.set(ticks.get() + 1);
                }
            }
        })
    };
    handle.boot(n1);
    handle.set_drift(n1, i32::MAX);
    let h = handle.clone();
    world.run(async move {
        sleep(Duration::from_secs(365 * 86_400)).await;
        h.set_drift(n1, -999_999);
        h.set_drift(n1, 0);
        sleep(Duration::from_secs(365 * 86_400)).await;
    });
    assert!((1..5).contains(&ticks.get()), "{} years before the end", ticks.get());
    assert_eq!(world.report().findings.failures, []);
}

#[test]
fn a_wall_clock_that_is_stepped_jumps_and_its_instant_does_not() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let n1 = handle.add_node("n1", || async {
        let (wall, start) = (time::wall_now(), Instant::now());
        sleep(ms(10)).await;
        assert_eq!(time::wall_now() + Duration::from_secs(3_600), wall + ms(10));
        assert_eq!(start.elapsed(), ms(10));
        sleep(ms(10)).await;
        assert_eq!(time::wall_now(), wall + ms(20));
    });
    handle.boot(n1);
    world.run(async move {
        sleep(ms(5)).await;
        handle.step_wall(n1, -3_600_000_000_000);
        sleep(ms(10)).await;
        handle.step_wall(n1, 3_600_000_000_000);
        sleep(ms(10)).await;
    });
    let report = world.report();
    assert_eq!(report.findings.failures, []);
    assert_eq!(report.coverage.get(time::STEPPED), 1);
}

/// Several tasks that become ready at one moment, on several nodes, and leave records.
fn busy(seed: u64, options: Options, flip: bool) -> (u64, u64, Vec<u64>) {
    let mut world = World::new(seed, options);
    let handle = world.handle();
    let order = Rc::new(RefCell::new(Vec::new()));
    for n in 1..=3_u64 {
        let order = order.clone();
        let id = handle.add_node("n", move || {
            let order = order.clone();
            async move {
                for worker in 0..4 {
                    let order = order.clone();
                    task("worker").key(worker).spawn(async move {
                        for round in 0..20 {
                            sleep(ms(3)).await;
                            let bit = u64::from(flip && (n, worker, round) == (2, 3, 10));
                            trace::emit(Note((n * 1_000 + worker) << 1 | bit));
                            order.borrow_mut().push(n * 1_000 + worker);
                        }
                    });
                }
                std::future::pending::<()>().await;
            }
        });
        handle.boot(id);
    }
    world.run(sleep(ms(100)));
    let report = world.report();
    (report.behaviour, report.draws, order.take())
}

#[test]
fn one_seed_is_one_run_and_other_seeds_are_others() {
    let first = busy(5, Options::default(), false);
    assert_eq!(first, busy(5, Options::default(), false));
    assert_ne!(first.0, busy(6, Options::default(), false).0);
}

#[test]
fn one_flipped_bit_changes_the_behaviour_digest_alone() {
    let plain = busy(5, Options::default(), false);
    let flipped = busy(5, Options::default(), true);
    assert_ne!(plain.0, flipped.0);
    assert_eq!(plain.1, flipped.1);
}

#[test]
fn the_field_schedule_shuffles_what_fifo_keeps_in_order() {
    let fifo = busy(5, Options { schedule: Schedule::Fifo, ..exact() }, false).2;
    let rounds: Vec<&[u64]> = fifo.chunks(12).collect();
    assert!(rounds.windows(2).all(|pair| pair[0] == pair[1]), "every round has the same order");
    let field = busy(5, exact(), false).2;
    assert!(field.chunks(12).collect::<Vec<_>>().windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn a_world_leaves_no_task_and_no_memory_of_itself_behind() {
    let witness = Rc::new(());
    let weak = {
        let mut world = World::new(1, Options::default());
        let handle = world.handle();
        let held = witness.clone();
        let n1 = handle.add_node("n1", move || {
            let held = held.clone();
            async move {
                let _held = held;
                let (tx, rx) = oneshot::channel::<()>();
                spawn(async move {
                    let _tx = tx;
                    std::future::pending::<()>().await;
                });
                let _ = rx.await;
            }
        });
        handle.boot(n1);
        world.run(sleep(ms(1)));
        Rc::downgrade(&witness)
    };
    assert_eq!(weak.strong_count(), 1, "only this test holds it");
}

#[test]
fn a_notification_without_a_waiter_is_stored() {
    run(async {
        let notify = Notify::new();
        notify.notify_one();
        notify.notified().await;
        assert!(timeout(ms(1), notify.notified()).await.is_err(), "one permit, not two");
    });
}

#[test]
fn a_notification_given_to_a_waiter_that_goes_away_is_passed_on() {
    run(async {
        let notify = Notify::new();
        let mut first = Box::pin(notify.notified());
        let mut second = Box::pin(notify.notified());
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        notify.notify_one();
        drop(first);
        timeout(ms(1), second).await.expect("the second is told");
    });
}

#[test]
fn a_bounded_channel_blocks_and_goes_on_and_ends() {
    run(async {
        let (tx, mut rx) = mpsc::bounded(2);
        let sender = spawn(async move {
            for n in 0..10 {
                tx.send_when_free(n).await.expect("the receiver lives");
            }
        });
        sleep(ms(1)).await;
        assert_eq!(rx.len(), 2);
        let mut got = Vec::new();
        while let Some(n) = rx.recv().await {
            got.push(n);
        }
        assert_eq!(got, (0..10).collect::<Vec<_>>());
        sender.await.expect("it ended");
    });
}

#[test]
fn a_watcher_does_not_miss_a_change_that_came_before_it_looked() {
    run(async {
        let (tx, mut rx) = watch::channel(0);
        tx.send(1);
        rx.changed().await.expect("the sender lives");
        assert_eq!(rx.get(), 1);
        assert!(timeout(ms(1), rx.changed()).await.is_err());
        drop(tx);
        assert!(rx.changed().await.is_err());
    });
}

#[test]
fn a_mutex_is_given_in_order_of_arrival() {
    run(async {
        let mutex = Rc::new(Mutex::new(Vec::new()));
        let first = mutex.lock().await;
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let mutex = mutex.clone();
                spawn(async move {
                    sleep(ms(n)).await;
                    let mut list = mutex.lock().await;
                    sleep(ms(10)).await;
                    list.push(n);
                })
            })
            .collect();
        sleep(ms(5)).await;
        drop(first);
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(*mutex.lock().await, [0, 1, 2]);
    });
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the bomb goes off");
    }
}

#[test]
fn a_panic_in_the_drop_of_a_task_is_a_finding_and_not_the_end_of_the_process() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let n1 = handle.add_node("n1", || async {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
    });
    handle.boot(n1);
    let h = handle.clone();
    world.run(async move {
        sleep(ms(1)).await;
        h.kill(n1, 1);
        sleep(ms(1)).await;
    });
    let report = world.report();
    let first = report.findings.first().expect("it is found");
    assert_eq!(first.category, Category::Crash);
    assert!(first.evidence.contains("the bomb goes off"), "{}", first.evidence);
}

#[test]
fn tasks_that_start_tasks_without_end_in_one_instant_are_a_livelock() {
    fn go() {
        drop(spawn(async { go() }));
    }
    let mut world = World::new(1, Options { steps_at_instant: 100_000, ..exact() });
    world.run(async {
        go();
        sleep(ms(1)).await;
    });
    assert_eq!(world.report().findings.category(), Category::Livelock);
}

#[test]
fn a_sleep_beyond_the_end_of_time_never_ends_and_the_run_is_stuck() {
    let mut world = World::new(1, exact());
    assert!(world.run(sleep(Duration::MAX)).is_none());
    assert_eq!(world.report().findings.category(), Category::Stuck);
}

#[test]
fn a_sender_that_gives_up_does_not_take_the_wake_of_the_next() {
    run(async {
        let (tx, mut rx) = mpsc::bounded(1);
        tx.send(0).expect("the receiver lives");
        let other = tx.clone();
        assert!(timeout(ms(1), tx.send_when_free(1)).await.is_err());
        let second = spawn(async move { other.send_when_free(2).await });
        sleep(ms(1)).await;
        assert_eq!(rx.recv().await, Some(0));
        assert_eq!(timeout(ms(1), rx.recv()).await, Ok(Some(2)));
        second.await.expect("it ends").expect("the receiver lives");
    });
}

#[test]
fn notifying_all_waiters_stores_nothing_even_when_one_of_them_goes_away() {
    run(async {
        let notify = Notify::new();
        let mut waiter = Box::pin(notify.notified());
        assert!(futures::poll!(&mut waiter).is_pending());
        notify.notify_waiters();
        drop(waiter);
        assert!(timeout(ms(1), notify.notified()).await.is_err());
    });
}

#[test]
fn a_world_inside_another_may_wake_the_outer_one() {
    let mut outer = World::new(1, exact());
    let got = outer.run(async {
        let (tx, rx) = oneshot::channel();
        let waiter = spawn(rx);
        sleep(ms(1)).await;
        World::new(2, exact()).run(async move { tx.send(7) });
        waiter.await
    });
    assert_eq!(got, Some(Ok(Ok(7))));
    assert_eq!(outer.report().findings.category(), Category::Pass);
}

#[test]
fn what_cannot_lose_its_power_is_refused_before_anything_goes_down() {
    let mut world = World::new(1, exact());
    let handle = world.handle();
    let n1 = handle.add_node("n1", std::future::pending);
    handle.boot(n1);
    world
        .run(async move {
            sleep(ms(1)).await;
            for wrong in [NodeId::HOST, NodeId(99)] {
                let cut = catch_unwind(AssertUnwindSafe(|| handle.power_off(&[n1, wrong], 0)));
                assert!(cut.is_err() && handle.is_up(n1), "{wrong}");
            }
        })
        .expect("nothing is said in vain");
}
