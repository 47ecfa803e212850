//! Runs that end before their time shrink like any other: a panic, a run that cannot end, one that does not get on.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::shrink::{Settings, shrink};
use sim_runtime::time::sleep;
use sim_runtime::verdict::{Category, Failure, RunReport};
use sim_runtime::{Options, World, task};

/// Steps of a program that waits a while for each, and is beyond help once it has made both 3 and 7.
struct Doomed(Category);

type Steps = Timeline<u32, Vec<u32>>;

impl Scenario for Doomed {
    /// Tasks that only wait.
    type Config = u32;
    type Plan = Vec<u32>;

    fn config(&self, _seed: u64) -> u32 {
        6
    }

    fn plan(&self, _seed: u64, _config: &u32) -> Vec<u32> {
        (0..10).collect()
    }

    fn run(&self, timeline: &Steps, _watch: Watch) -> (RunReport, Vec<String>) {
        let options = Options {
            limit_ns: 10_000_000_000,
            polls_at_instant: 1_000,
            steps_at_instant: 5_000,
            ..Options::default()
        };
        let mut world = World::new(timeline.seed, options);
        let (plan, bystanders, doom) = (timeline.plan.clone(), timeline.config, self.0);
        let node = world.handle().add_node("doomed", move || {
            let plan = plan.clone();
            async move {
                for n in 0..bystanders {
                    task("bystander").key(n.into()).spawn(sleep(Duration::from_secs(1)));
                }
                for step in &plan {
                    sleep(Duration::from_millis(u64::from(*step) + 1)).await;
                }
                if plan.contains(&3) && plan.contains(&7) {
                    meet(doom).await;
                }
            }
        });
        let handle = world.handle();
        world.run(async move {
            handle.boot(node);
            while handle.is_up(node) {
                sleep(Duration::from_millis(100)).await;
            }
        });
        (world.report(), Vec::new())
    }

    fn moves(&self, timeline: &Steps, _failure: &Failure) -> Vec<Steps> {
        let without = |at: usize| {
            let mut simpler = timeline.clone();
            simpler.plan.remove(at);
            simpler
        };
        let fewer =
            (timeline.config > 0).then(|| Timeline { config: timeline.config - 1, ..timeline.clone() });
        (0..timeline.plan.len()).map(without).chain(fewer).collect()
    }
}

async fn meet(doom: Category) {
    match doom {
        Category::Crash => panic!("three and seven"),
        Category::Stuck => std::future::pending().await,
        // It is always ready, and never done.
        _ => {
            poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::<()>::Pending
            })
            .await;
        }
    }
}

#[test]
fn a_panic_a_stuck_run_and_a_livelock_shrink_to_what_they_need() {
    for doom in [Category::Crash, Category::Stuck, Category::Livelock] {
        let shrunk = shrink(&Doomed(doom), Doomed(doom).timeline(1), &Settings::default(), |_| {});
        let shrunk = shrunk.unwrap_or_else(|| panic!("{doom}: it fails"));
        assert_eq!(shrunk.failure.category, doom);
        assert_eq!(
            (shrunk.timeline.plan.as_slice(), shrunk.timeline.config),
            ([3, 7].as_slice(), 0),
            "{doom}"
        );
        let again = shrink(&Doomed(doom), shrunk.timeline.clone(), &Settings::default(), |_| {});
        assert_eq!(again.expect("it fails").timeline, shrunk.timeline, "{doom}");
    }
}
