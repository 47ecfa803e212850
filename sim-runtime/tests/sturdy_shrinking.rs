//! Of small failures, shrinking leaves one that does not hang by a hair; and it wanders where nothing can be taken out.

use sim_runtime::scenario::{Scenario, Timeline, Watch};
use sim_runtime::shrink::{Settings, shrink};
use sim_runtime::verdict::{Category, Failure, RunReport};
use sim_runtime::{Options, World};

fn report(seed: u64, fails: bool) -> RunReport {
    let mut world = World::new(seed, Options::default());
    if fails {
        world.handle().fail(Category::Invariant, "it", "", String::new());
    }
    world.report()
}

/// Something that happens at a time, and matters from 10 to 30.
struct InTime;

type At = Timeline<(), u32>;

impl InTime {
    fn at(timeline: &At, at: u32) -> At {
        Timeline { plan: at, ..timeline.clone() }
    }
}

impl Scenario for InTime {
    type Config = ();
    type Plan = u32;

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, (): &()) -> u32 {
        29
    }

    fn run(&self, timeline: &At, _watch: Watch) -> (RunReport, Vec<String>) {
        (report(timeline.seed, (10..=30).contains(&timeline.plan)), Vec::new())
    }

    fn moves(&self, timeline: &At, _failure: &Failure) -> Vec<At> {
        [8, 1].into_iter().filter_map(|by| Some(Self::at(timeline, timeline.plan.checked_sub(by)?))).collect()
    }

    fn disturbed(&self, timeline: &At) -> Vec<At> {
        [-4, -1, 1, 4].map(|by| Self::at(timeline, timeline.plan.saturating_add_signed(by))).to_vec()
    }

    fn sturdier(&self, timeline: &At, _failure: &Failure) -> Vec<At> {
        [3, 7].map(|by| Self::at(timeline, timeline.plan + by)).to_vec()
    }
}

#[test]
fn what_hangs_by_a_hair_is_made_sturdier_and_that_is_the_end_of_it() {
    for jobs in [1, 3] {
        let settings = Settings { jobs, ..Settings::default() };
        let shrunk = shrink(&InTime, InTime.timeline(1), &settings, |_| {}).expect("it fails");
        // The simplest that every disturbance leaves as it is.
        assert_eq!(shrunk.timeline.plan, 14);
        let again = shrink(&InTime, shrunk.timeline.clone(), &settings, |_| {}).expect("it fails");
        assert_eq!((again.timeline, again.steps), (shrunk.timeline, 0));
    }
}

/// Two things, of which one is enough once it has come far.
struct Far;

type Things = Timeline<(), Vec<u32>>;

impl Scenario for Far {
    type Config = ();
    type Plan = Vec<u32>;

    fn config(&self, _seed: u64) {}

    fn plan(&self, _seed: u64, (): &()) -> Vec<u32> {
        vec![0, 7]
    }

    fn run(&self, timeline: &Things, _watch: Watch) -> (RunReport, Vec<String>) {
        let fails = match timeline.plan[..] {
            [_, _] => true,
            [far] => far >= 50,
            _ => false,
        };
        (report(timeline.seed, fails), Vec::new())
    }

    fn weight(&self, timeline: &Things) -> u64 {
        timeline.plan.len() as u64
    }

    fn variation(&self, timeline: &Things, number: u32) -> Option<Things> {
        let mut varied = timeline.clone();
        if number.is_multiple_of(2) {
            varied.plan.pop();
        } else {
            varied.plan[0] += number % 5;
        }
        Some(varied)
    }
}

#[test]
fn it_wanders_to_where_something_can_go() {
    for jobs in [1, 3] {
        let settings = Settings { jobs, variations: 200, ..Settings::default() };
        let shrunk = shrink(&Far, Far.timeline(1), &settings, |_| {}).expect("it fails");
        assert_eq!((shrunk.timeline.plan.len(), shrunk.steps), (1, 1), "{:?}", shrunk.timeline);
        let few = Settings { variations: 10, ..settings };
        let stays = shrink(&Far, Far.timeline(1), &few, |_| {}).expect("it fails");
        assert_eq!((stays.timeline.plan, stays.steps), (vec![0, 7], 0));
    }
}
