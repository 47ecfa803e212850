//! What came of a task: who gets it, when it is dropped, and what the next task in its place inherits (nothing).

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sim_runtime::schedule::{Scheduler, TaskInfo};
use sim_runtime::trace::{Kind, Payload, emit};
use sim_runtime::{JoinError, JoinHandle, Options, World, spawn, time};

const MS: Duration = Duration::from_millis(1);

fn exact() -> Options {
    Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() }
}

/// Says when it is dropped.
struct Loud(Rc<RefCell<Vec<&'static str>>>, &'static str);

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

#[test]
fn results_wait_for_who_joins_and_places_are_used_again() {
    let sum = World::new(1, exact()).run(async {
        let mut sum = 0;
        // Joined in another order than they end, and some never: the next round finds all kinds of places.
        for round in 0..50_u64 {
            let mut handles: Vec<JoinHandle<u64>> = (0..40)
                .map(|n| {
                    spawn(async move {
                        time::sleep(MS * (1 + (n * 7 % 13) as u32)).await;
                        round * 1_000 + n
                    })
                })
                .collect();
            let texts: Vec<JoinHandle<String>> =
                (0..5).map(|n| spawn(async move { format!("{round}.{n}") })).collect();
            handles.rotate_left((round % 40) as usize);
            handles.truncate(30);
            for handle in handles.into_iter().rev() {
                let value = handle.await.unwrap();
                assert_eq!(value / 1_000, round);
                sum += value;
            }
            for (n, text) in texts.into_iter().enumerate().skip(1) {
                assert_eq!(text.await.unwrap(), format!("{round}.{n}"));
            }
        }
        sum
    });
    let expected: u64 =
        (0..50).flat_map(|round| (0..30).map(move |k| round * 1_000 + (round % 40 + k) % 40)).sum();
    assert_eq!(sum, Some(expected));
}

#[test]
fn a_future_goes_before_its_result_and_a_result_that_nobody_wants_goes_at_once() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let (in_task, at_end) = (log.clone(), log.clone());
    World::new(1, exact()).run(async move {
        let loud = |what| Loud(in_task.clone(), what);
        let (held, result) = (loud("held"), loud("result"));
        let task = spawn(async move {
            time::sleep(MS).await;
            let _held = held;
            result
        });
        time::sleep(2 * MS).await;
        in_task.borrow_mut().push("over");
        drop(task.await);
        in_task.borrow_mut().push("joined");

        let unwanted = loud("unwanted");
        drop(spawn(async move { unwanted }));
        time::sleep(MS).await;
        in_task.borrow_mut().push("later");

        let unclaimed = loud("unclaimed");
        let handle = spawn(async move { unclaimed });
        time::sleep(MS).await;
        assert!(handle.is_finished());
        in_task.borrow_mut().push("still there");
        drop(handle);

        let aborted = loud("aborted");
        let handle = spawn(async move {
            let _aborted = aborted;
            pending::<()>().await;
        });
        time::sleep(MS).await;
        handle.abort();
        assert_eq!(handle.await, Err(JoinError::Cancelled));
        in_task.borrow_mut().push("told");
    });
    assert_eq!(
        *at_end.borrow(),
        [
            "held",
            "over",
            "result",
            "joined",
            "unwanted",
            "later",
            "still there",
            "unclaimed",
            "aborted",
            "told"
        ]
    );
}

/// Tells records apart.
struct Here;

impl Payload for Here {
    const KIND: Kind = Kind(1_000);
    fn encode(&self) -> (u32, [u64; 5]) {
        (0, [0; 5])
    }
    fn decode(_aux: u32, _words: &[u64; 5]) -> Self {
        Self
    }
}

#[test]
fn records_do_not_tell_whether_tasks_are_joined() {
    let digest = |keeps: bool| {
        let mut world = World::new(1, exact());
        world.run(async move {
            let mut kept = Vec::new();
            for n in 0..100_u64 {
                let task = spawn(async move {
                    time::sleep(MS * (n % 5) as u32).await;
                    emit(Here);
                    n
                });
                if keeps {
                    kept.push(task);
                } else if n % 3 == 0 {
                    drop(task);
                }
                time::sleep(2 * MS).await;
            }
        });
        world.report().behaviour
    };
    assert_eq!(digest(true), digest(false));
}

#[test]
fn a_result_outlives_its_world_and_an_end_is_heard_once() {
    let mut world = World::new(1, exact());
    let (done, cut) = world
        .run(async {
            let done = spawn(async { String::from("kept") });
            let cut = spawn(async {
                pending::<()>().await;
                String::from("never")
            });
            time::sleep(MS).await;
            (done, cut)
        })
        .unwrap();
    drop(world);
    let mut cx = Context::from_waker(Waker::noop());
    let (mut done, mut cut) = (pin!(done), pin!(cut));
    assert_eq!(done.as_mut().poll(&mut cx), Poll::Ready(Ok(String::from("kept"))));
    assert_eq!(done.as_mut().poll(&mut cx), Poll::Ready(Err(JoinError::Cancelled)));
    assert_eq!(cut.as_mut().poll(&mut cx), Poll::Ready(Err(JoinError::Cancelled)));
    assert!(done.is_finished() && cut.is_finished());
}

#[test]
fn the_next_task_of_a_kind_inherits_nothing() {
    // One kind of future, started in a place where another of its kind has been polled, dropped half way or panicked.
    async fn kind(which: u64, polls: Rc<Cell<u64>>) -> u64 {
        let mut left = which % 4;
        poll_fn(|cx| {
            polls.set(polls.get() + 1);
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        assert!(which % 5 != 4, "one in five");
        if which % 7 == 6 {
            pending::<()>().await;
        }
        which
    }
    let options = Options { panic_ends_run: false, ..exact() };
    World::new(1, options).run(async {
        for which in 0..200 {
            let polls = Rc::new(Cell::new(0));
            let task = spawn(kind(which, polls.clone()));
            time::sleep(MS).await;
            assert_eq!(polls.get(), which % 4 + 1, "task {which}");
            assert_eq!(Rc::strong_count(&polls), if task.is_finished() { 1 } else { 2 });
            task.abort();
            let came = task.await;
            match (which % 5, which % 7) {
                (4, _) => assert!(matches!(came, Err(JoinError::Panicked(_))), "{which}: {came:?}"),
                (_, 6) => assert_eq!(came, Err(JoinError::Cancelled)),
                _ => assert_eq!(came, Ok(which)),
            }
        }
    });
}

/// Panics when it is woken.
struct Grumpy;

impl Wake for Grumpy {
    fn wake(self: Arc<Self>) {
        panic!("not now");
    }
}

#[test]
fn who_is_blamed_for_a_panic_at_the_end_of_a_task_is_the_task() {
    let mut world = World::new(1, exact());
    world.run(async {
        let mut handle = sim_runtime::task("worker").spawn(time::sleep(MS));
        let grumpy = Waker::from(Arc::new(Grumpy));
        assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&grumpy)).is_pending());
        time::sleep(2 * MS).await;
    });
    let evidence = &world.report().findings.failures[0].evidence;
    assert!(evidence.starts_with("worker of host") && evidence.contains("not now"), "{evidence}");
}

/// A scheduler that owns the handle of a task of its world.
struct Owning(Option<JoinHandle<()>>);

impl Scheduler for Owning {
    fn rank(&mut self, _task: TaskInfo, _now_ns: u64) -> u64 {
        u64::from(self.0.is_some())
    }
}

#[test]
fn a_scheduler_may_own_handles_of_the_world_that_lets_it_go() {
    let mut world = World::new(1, exact());
    let handle = world.run(async { Owning(Some(spawn(time::sleep(MS)))) });
    world.schedule_with(handle.expect("it ends"));
    world.schedule_with(Owning(None));
    assert_eq!(world.run(async { 5 }), Some(5));
}

#[test]
fn what_a_task_waits_for_is_told_by_text_and_not_by_place() {
    const TEXT: &str = "a letter from far away";
    let mut world = World::new(1, exact());
    world.run(async {
        let mut told = 0;
        poll_fn::<(), _>(move |cx| {
            sim_runtime::Handle::current().note_waiting(if told == 0 { TEXT } else { &TEXT[..8] });
            told += 1;
            if told == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    });
    let evidence = &world.report().findings.failures[0].evidence;
    assert!(evidence.ends_with("waits for a letter"), "{evidence}");
}

/// A scheduler that calls the world, which it must not.
struct Curious;

impl Scheduler for Curious {
    fn rank(&mut self, _task: TaskInfo, _now_ns: u64) -> u64 {
        sim_runtime::Handle::current().living_tasks() as u64
    }
}

#[test]
fn a_scheduler_that_panics_is_a_finding() {
    let mut world = World::new(1, exact());
    world.schedule_with(Curious);
    assert_eq!(world.run(async { 5 }), None);
    let report = world.report();
    assert_eq!(report.findings.category(), sim_runtime::verdict::Category::Crash);
}
