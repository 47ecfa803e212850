//! How fast a disk is. Not a test: `cargo test --release -p sim-io --test fs_speed -- --ignored --nocapture`.

use std::future::Future;
use std::time::Duration;

use sim_io::fs::{self, File};
use sim_runtime::{NodeId, Options, World, time};

const COUNT: u32 = 300_000;

#[expect(clippy::disallowed_methods, reason = "the wall clock is what is asked for")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Prints the real time that one of the `COUNT` turns of `program` takes.
fn speed<F: Future<Output = ()> + 'static>(what: &str, program: fn() -> F) {
    let turn_ns = |_| {
        let mut world = World::new(7, Options::default());
        let handle = world.handle();
        let node = handle.add_node("n1", program);
        handle.boot(node);
        let begin = now();
        world.run(async move {
            while handle.is_up(NodeId(1)) {
                time::sleep(Duration::from_secs(100)).await;
            }
        });
        begin.elapsed().as_nanos() as f64 / f64::from(COUNT)
    };
    let best = (0..5).map(turn_ns).fold(f64::MAX, f64::min);
    println!("{what}: {best:.0} ns");
}

async fn log() -> File {
    File::create("/log").await.expect("created")
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_a_write_and_a_sync() {
    speed("sleep", || async {
        for _ in 0..COUNT {
            time::sleep(Duration::from_millis(4)).await;
        }
    });
    speed("overwrite of 300 B, sync every 8th", || async {
        let log = log().await;
        let bytes = [7; 300];
        for n in 0..COUNT {
            log.write_all_at(&bytes, 64 * u64::from(n % 8)).await.expect("written");
            if n % 8 == 7 {
                log.sync_data().await.expect("synced");
            }
        }
    });
    speed("overwrite of 300 B, sync every 256th", || async {
        let log = log().await;
        let bytes = [7; 300];
        for n in 0..COUNT {
            log.write_all_at(&bytes, 64 * u64::from(n % 8)).await.expect("written");
            if n % 256 == 255 {
                log.sync_data().await.expect("synced");
            }
        }
    });
    speed("sync of nothing", || async {
        let log = log().await;
        for _ in 0..COUNT {
            log.sync_data().await.expect("synced");
        }
    });
    speed("append of 300 B and sync, a new file every 600th", || async {
        let bytes = [7; 300];
        for n in 0..COUNT / 600 {
            let log = File::options().append(true).create(true).open("/log").await.expect("created");
            for _ in 0..600 {
                log.append(&bytes).await.expect("written");
                log.sync_data().await.expect("synced");
            }
            drop(log);
            fs::remove_file("/log").await.expect("removed");
            if n % 5 == 4 {
                fs::sync_dir("/").await.expect("synced");
            }
        }
    });
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_a_run() {
    let runs = 200_u32;
    let begin = now();
    for seed in 0..runs {
        let mut world = World::new(u64::from(seed), Options::default());
        let handle = world.handle();
        for _ in 0..5 {
            let node = handle.add_node("n", || async {
                let log = log().await;
                for _ in 0..600 {
                    log.append(&[7; 300]).await.expect("written");
                    log.sync_data().await.expect("synced");
                }
            });
            handle.boot(node);
        }
        world.run(time::sleep(Duration::from_secs(100)));
    }
    let run_ns = begin.elapsed().as_nanos() as f64 / f64::from(runs);
    println!("a run of 5 nodes with 600 appends and syncs each: {run_ns:.0} ns");
}
