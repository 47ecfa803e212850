//! The runtime: timers, spawn and join, records with an invariant.
//!
//! 1,000 tasks of 1,000 sleeps each, and 1,000,000 trivial tasks spawned and joined in batches of 1,000, as in
//! `tests/peers`.

use divan::counter::ItemsCount;
use std::time::Duration;

use sim_runtime::invariant::{Invariant, View};
use sim_runtime::time::sleep;
use sim_runtime::trace::{self, Kind, Payload};
use sim_runtime::verdict::Findings;
use sim_runtime::{Options, World, spawn};

fn splitmix64(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// 1,000 tasks x 1,000 sleeps of (splitmix64(i * 1000 + k) mod 100,000) + 1 microseconds.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn timers(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(1_000_000_u64)).bench(|| {
        World::new(1, Options::default()).run(async {
            let sleepers: Vec<_> = (0..1_000_u64)
                .map(|i| {
                    spawn(async move {
                        for k in 0..1_000 {
                            let us = splitmix64(i * 1_000 + k) % 100_000 + 1;
                            sleep(Duration::from_micros(us)).await;
                        }
                    })
                })
                .collect();
            for sleeper in sleepers {
                sleeper.await.expect("it ends");
            }
        })
    });
}

/// 1,000,000 trivial tasks, spawned and joined in batches of 1,000.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn spawn_and_join(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(1_000_000_u64)).bench(|| {
        World::new(1, Options::default()).run(async {
            let mut sum = 0;
            for batch in 0..1_000_u64 {
                let tasks: Vec<_> = (0..1_000).map(|n| spawn(async move { batch + n })).collect();
                for task in tasks {
                    sum += task.await.expect("it ends");
                }
            }
            sum
        })
    });
}

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

#[derive(Default)]
struct Sum(u64);

impl Invariant for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        let notes = view.fresh().iter().filter_map(trace::Record::get::<Note>);
        self.0 = notes.fold(self.0, |sum, note| sum.wrapping_add(note.0));
    }
}

/// A record a step, seen by one invariant.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn record_and_invariant(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(1_000_000_u64)).bench(|| {
        let mut world = World::new(1, Options::default());
        world.watch(Sum::default());
        world.run(async {
            for n in 0..1_000_000 {
                trace::emit(Note(n));
                step().await;
            }
        })
    });
}

/// Lets the executor take a step.
async fn step() {
    let mut first = true;
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::take(&mut first) { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
}
