//! A log on a simulated disk: 128 bytes at its end, and a sync. An item is both.

use divan::counter::ItemsCount;
use sim_io::fs::File;
use sim_runtime::{Options, World};

const RECORDS: u64 = 50_000;
const RECORD: [u8; 128] = [7; 128];

#[divan::bench(sample_count = 5, sample_size = 1)]
fn write_and_sync(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let ended = World::new(7, Options::default()).run(async {
            let log = File::create("/log").await.expect("the folder is there");
            for n in 0..RECORDS {
                log.write_all_at(&RECORD, n * RECORD.len() as u64).await.expect("the disk has room");
                log.sync_data().await.expect("the disk is sound");
            }
        });
        ended.expect("all is written");
    });
}
