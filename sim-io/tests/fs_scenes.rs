//! What programs can rely on, and what they cannot, when machines crash and disks fail, as scenes. Each quotes the
//! sentence that it holds. (What an operating system does without any of that: `fs_conformance.rs`.)
//!
//! Scenes that depend on a fate run under many seeds, for both outcomes must occur.

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use futures::io::AsyncWriteExt;
use sim_io::fs::{self, DiskConfig, Disks, FSYNC_WINDOW, File};
use sim_runtime::rng::{Override, Set};
use sim_runtime::verdict::RunReport;
use sim_runtime::{Handle, NodeId, Options, Owner, World, probe, time};

const NODE: NodeId = NodeId(1);

/// The machine whose disk it is, seen from the host.
#[derive(Clone)]
struct Machine {
    world: Handle,
    disks: Rc<Disks>,
}

impl Machine {
    /// Runs `what` on the machine.
    async fn does<T: 'static>(&self, what: impl Future<Output = T> + 'static) -> T {
        let owner = Owner { node: NODE, incarnation: self.world.incarnation(NODE) };
        self.world.spawn_on(owner, "scene", 0, what).await.expect("the machine is up")
    }

    /// Starts `what` on the machine.
    fn begins(&self, what: impl Future<Output = ()> + 'static) {
        let owner = Owner { node: NODE, incarnation: self.world.incarnation(NODE) };
        drop(self.world.spawn_on(owner, "scene", 1, what));
    }

    fn loses_power(&self) {
        self.world.power_off(&[NODE], 1);
        self.world.boot(NODE);
    }

    fn is_killed(&self) {
        self.world.kill(NODE, 1);
        self.world.boot(NODE);
    }

    /// A file with these bytes that every power loss leaves alone.
    async fn has_durable(&self, path: &'static str, bytes: Vec<u8>) -> File {
        self.does(async move {
            let file = File::options().read(true).write(true).create(true).open(path).await.expect("created");
            file.write_all_at(&bytes, 0).await.expect("written");
            file.sync_all().await.expect("synced");
            fs::sync_dir("/").await.expect("synced");
            file
        })
        .await
    }

    async fn reads(&self, path: &'static str) -> Vec<u8> {
        self.does(async move { fs::read(path).await.expect("it is there") }).await
    }
}

fn world(seed: u64) -> World {
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
    World::new(seed, options)
}

/// Plays a scene in the world of a seed.
fn play_in<T, F>(mut world: World, scene: impl FnOnce(Machine) -> F) -> (T, RunReport)
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let handle = world.handle();
    handle.add_node("n1", std::future::pending::<()>);
    handle.boot(NODE);
    let machine = Machine { disks: handle.device(), world: handle };
    let end = world.run(scene(machine));
    let report = world.report();
    let failures = &report.findings.failures;
    (end.unwrap_or_else(|| panic!("the scene did not end: {failures:?}")), report)
}

fn play<T, F>(seed: u64, scene: impl FnOnce(Machine) -> F) -> T
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    play_in(world(seed), scene).0
}

/// Plays a scene under many seeds, and counts how often it ends with `true`.
fn times<F>(scene: impl Fn(Machine) -> F) -> usize
where
    F: Future<Output = bool> + 'static,
{
    (0..SEEDS as u64).filter(|seed| play(*seed, &scene)).count()
}

const SEEDS: usize = 400;

/// "Creating, renaming and removing a name is durable only after `sync_dir`."
#[test]
fn a_synced_file_whose_folder_was_not_synced_can_lose_its_name_and_all_with_it() {
    let survived = times(|n1| async move {
        n1.does(async {
            let file = File::create("/log").await.expect("created");
            file.append(b"acknowledged").await.expect("written");
            file.sync_all().await.expect("synced");
        })
        .await;
        assert!(n1.disks.visible_image(NODE).files.contains_key(Path::new("/log")));
        assert!(n1.disks.durable_image(NODE).files.is_empty());
        n1.loses_power();
        let found = n1.disks.visible_image(NODE).files;
        assert!(
            found.values().all(|bytes| bytes == b"acknowledged"),
            "a name that survives has its synced data"
        );
        !found.is_empty()
    });
    assert!((SEEDS / 5..SEEDS * 4 / 5).contains(&survived), "{survived} of {SEEDS}");
}

#[test]
fn with_its_folder_synced_the_name_survives_always() {
    let survived = times(|n1| async move {
        let file = n1.has_durable("/log", b"acknowledged".to_vec()).await;
        assert!(n1.disks.is_durable(NODE, file.id(), 0..12));
        n1.loses_power();
        n1.reads("/log").await == b"acknowledged"
    });
    assert_eq!(survived, SEEDS);
}

/// "Rename-over leaves the old or the new file, never none."
#[test]
fn rename_over_leaves_the_old_file_or_the_new_never_none() {
    let new = times(|n1| async move {
        n1.has_durable("/state", b"old".to_vec()).await;
        n1.has_durable("/state.tmp", b"new".to_vec()).await;
        n1.does(async { fs::rename("/state.tmp", "/state").await.expect("renamed") }).await;
        n1.loses_power();
        let there = n1.disks.visible_image(NODE).files;
        match n1.reads("/state").await.as_slice() {
            b"new" => {
                assert_eq!(there.len(), 1, "both names changed, or none");
                true
            }
            b"old" => {
                assert_eq!(there.len(), 2, "both names changed, or none");
                false
            }
            other => panic!("neither: {other:?}"),
        }
    });
    assert!((SEEDS / 5..SEEDS * 4 / 5).contains(&new), "{new} of {SEEDS}");
}

/// "A write is ... durable only after an fsync": renaming does not stand in for one.
#[test]
fn rename_over_without_a_sync_of_the_data_can_leave_an_empty_new_file() {
    let empty = times(|n1| async move {
        n1.has_durable("/state", b"old".to_vec()).await;
        n1.does(async {
            fs::write("/state.tmp", b"new").await.expect("written");
            fs::rename("/state.tmp", "/state").await.expect("renamed");
            fs::sync_dir("/").await.expect("synced");
        })
        .await;
        n1.loses_power();
        n1.reads("/state").await.is_empty()
    });
    assert!(empty > SEEDS / 10, "{empty} of {SEEDS}");
}

/// "A failed fsync leaves data not durable *and* reported clean to the next one."
#[test]
fn after_a_failed_fsync_the_next_one_succeeds_and_the_data_is_lost_all_the_same() {
    for seed in 0..100 {
        play(seed, |n1| async move {
            let log = n1.has_durable("/log", b"one".to_vec()).await;
            n1.disks.fail_next_fsync(NODE);
            let (file, disks) = (log.clone(), n1.disks.clone());
            n1.does(async move {
                file.append(b"two").await.expect("written");
                let error = file.sync_data().await.expect_err("it was told to fail");
                assert_eq!(error.raw_os_error(), Some(5), "EIO");
                file.sync_data().await.expect("nothing is dirty");
                file.append(b"three").await.expect("written");
                file.sync_data().await.expect("the disk works again");
                let mut seen = [0; 11];
                file.read_exact_at(&mut seen, 0).await.expect("read");
                assert_eq!(&seen, b"onetwothree", "the page cache still has it");
                assert!(disks.is_durable(NODE, file.id(), 0..3));
                assert!(!disks.is_durable(NODE, file.id(), 3..6));
                assert!(disks.is_durable(NODE, file.id(), 6..11));
            })
            .await;
            n1.loses_power();
            assert_eq!(n1.reads("/log").await, b"one\0\0\0three");
        });
    }
}

/// "`kill`: ... page cache survives."
#[test]
fn a_kill_loses_nothing_that_was_written_and_an_fsync_in_flight_goes_on() {
    let ((), report) = play_in(world(1), |n1| async move {
        let log = n1.has_durable("/log", Vec::new()).await;
        let id = log.id();
        n1.begins(async move {
            log.append(b"unsynced").await.expect("written");
            log.sync_data().await.expect("never gets here");
            panic!("the process was killed before");
        });
        probe::next(FSYNC_WINDOW, Some(NODE)).await;
        n1.is_killed();
        assert_eq!(n1.reads("/log").await, b"unsynced");
        assert!(!n1.disks.is_durable(NODE, id, 0..8));
        time::sleep(Duration::from_millis(7)).await;
        assert!(n1.disks.is_durable(NODE, id, 0..8));
        n1.loses_power();
        assert_eq!(n1.reads("/log").await, b"unsynced");
    });
    assert_eq!(report.coverage.get("fsyncs that outlived a kill"), 1);
    assert_eq!(report.coverage.get("fsyncs that nobody awaited to the end"), 1);
}

/// A page cache outlives a process, not the power.
#[test]
fn a_machine_that_loses_power_after_its_process_was_killed_loses_what_was_not_synced() {
    let lost = times(|n1| async move {
        let log = n1.has_durable("/log", b"old".to_vec()).await;
        n1.does(async move { log.write_all_at(b"new", 0).await.expect("written") }).await;
        n1.world.kill(NODE, 1);
        n1.world.power_off(&[NODE], 2);
        n1.world.boot(NODE);
        n1.reads("/log").await == b"old"
    });
    assert!(lost > 0);
}

/// "What a dead incarnation still holds is inert."
#[test]
fn a_handle_of_a_dead_process_does_nothing() {
    play(1, |n1| async move {
        let log = n1.has_durable("/log", b"kept".to_vec()).await;
        let in_time = {
            let log = log.clone();
            async move { log.sync_data().await }
        };
        n1.is_killed();
        let errors = [
            log.append(b"ghost").await.map(drop),
            log.write_all_at(b"ghost", 0).await,
            log.set_len(0).await,
            log.sync_all().await,
            log.read_at(&mut [0], 0).await.map(drop),
            log.metadata().await.map(drop),
            (&log).write_all(b"ghost").await,
            in_time.await,
        ];
        for error in errors {
            assert_eq!(error.expect_err("it is dead").kind(), ErrorKind::BrokenPipe);
        }
        assert_eq!(n1.reads("/log").await, b"kept");
    });
}

/// "Durable bytes that the write does not cover are never touched."
#[test]
fn durable_bytes_beside_an_unsynced_overwrite_are_never_touched() {
    let mut fates = [0, 0, 0];
    for seed in 0..1_000 {
        let fate = play(seed, |n1| async move {
            let slots = n1.has_durable("/slots", vec![b'o'; 2_000]).await;
            n1.does(async move { slots.write_all_at(&[b'n'; 700], 100).await.expect("written") }).await;
            n1.loses_power();
            let found = n1.reads("/slots").await;
            assert_eq!(found.len(), 2_000);
            assert!(found[..100].iter().chain(&found[800..]).all(|byte| *byte == b'o'));
            let landed = found[100..800].iter().filter(|byte| **byte == b'n').count();
            assert!(found[100..800].iter().all(|byte| b"on".contains(byte)), "nothing was zeroed");
            match landed {
                0 => 0,
                700 => 2,
                _ => 1,
            }
        });
        fates[fate] += 1;
    }
    assert!(fates.iter().all(|count| *count > 100), "lost, torn, kept: {fates:?}");
}

/// "fsync ... is a window in which a crash flushes part of what is in flight."
#[test]
fn a_power_loss_in_an_fsync_flushes_part_of_it() {
    let mut partial = 0;
    for seed in 0..200 {
        let (torn, report) = play_in(world(seed), |n1| async move {
            let log = n1.has_durable("/log", vec![b'o'; 4_096]).await;
            n1.begins(async move {
                log.write_all_at(&[b'n'; 4_096], 0).await.expect("written");
                let _ = log.sync_data().await;
            });
            let opened = probe::next(FSYNC_WINDOW, Some(NODE)).await;
            let expected = Duration::from_nanos(opened.expected_ns.expect("a disk knows"));
            assert!((2..=6).contains(&expected.as_millis()));
            time::sleep(expected / 2).await;
            n1.loses_power();
            let found = n1.reads("/log").await;
            found.contains(&b'o') && found.contains(&b'n')
        });
        assert_eq!(report.coverage.get("partial flushes"), u64::from(torn), "seed {seed}");
        assert_eq!(report.coverage.get("window hit: fsync in flight"), 1);
        assert_eq!(report.coverage.get("power losses in an fsync"), 1);
        partial += usize::from(torn);
    }
    assert!(partial > 80, "{partial} of 200");
}

/// "`lying_fsync` exists and is off: the boundary of what the model may blame the code for."
#[test]
fn a_lying_disk_loses_acknowledged_data() {
    let lost = times(|n1| async move {
        n1.disks.configure_node(NODE, DiskConfig { lying_fsync: true, ..DiskConfig::default() });
        let log = n1.has_durable("/log", b"acknowledged".to_vec()).await;
        assert!(!n1.disks.is_durable(NODE, log.id(), 0..12), "the device does not lie to oracles");
        n1.loses_power();
        n1.disks.visible_image(NODE).files.get(Path::new("/log")).is_none_or(|bytes| bytes != b"acknowledged")
    });
    assert!((SEEDS / 4..SEEDS).contains(&lost), "{lost} of {SEEDS}");
}

/// "A write is ... durable only after an fsync that *began* after it completes."
#[test]
fn a_write_during_an_fsync_is_not_covered_by_it() {
    play(1, |n1| async move {
        let log = n1.has_durable("/log", b"a".to_vec()).await;
        let (id, disks) = (log.id(), n1.disks.clone());
        n1.does(async move {
            log.append(b"b").await.expect("written");
            let mut sync = std::pin::pin!(log.sync_data());
            assert!(futures::poll!(sync.as_mut()).is_pending());
            log.append(b"c").await.expect("written");
            sync.await.expect("synced");
            assert!(disks.is_durable(NODE, id, 0..2));
            assert!(!disks.is_durable(NODE, id, 0..3));
        })
        .await;
    });
}

/// Where its field is calm, a power loss keeps everything: what shrinking makes of it.
#[test]
fn a_calm_power_loss_is_a_kill() {
    for seed in 0..50 {
        let calm = |field: &str| Override {
            field: field.to_owned(),
            key: None,
            from_ns: 0,
            to_ns: u64::MAX,
            set: Set::Calm,
        };
        let overrides = vec![calm("crash fate"), calm("name fate"), calm("fsync duration")];
        let world = World::new(seed, Options { overrides, ..Options::default() });
        play_in(world, |n1| async move {
            n1.does(async {
                let log = File::create("/log").await.expect("created");
                for _ in 0..20 {
                    log.append(&[b'x'; 300]).await.expect("written");
                }
                log.set_len(5_000).await.expect("cut");
                fs::create_dir("/d").await.expect("made");
            })
            .await;
            let before = n1.disks.visible_image(NODE);
            n1.loses_power();
            assert_eq!(n1.disks.visible_image(NODE), before);
        });
    }
}

/// "EIO, ENOSPC and bit rot exist, off by default."
#[test]
fn a_disk_can_fail_fill_up_and_rot() {
    let ((), report) = play_in(world(1), |n1| async move {
        let log = n1.has_durable("/log", vec![0; 1_000]).await;
        n1.disks.configure(DiskConfig { capacity_bytes: Some(1_100), ..DiskConfig::default() });
        let error = log.append(&[1; 200]).await.expect_err("it does not fit");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(log.len().await.expect("asked"), 1_000, "nothing was written");
        log.append(&[0; 100]).await.expect("that fits");

        n1.disks.configure(DiskConfig { io_error_per_million: 1_000_000, ..DiskConfig::default() });
        assert_eq!(log.len().await.expect_err("broken").raw_os_error(), Some(5));
        n1.disks.configure(DiskConfig { bit_rot_per_million: 1_000_000, ..DiskConfig::default() });
        n1.does(async move { log.sync_all().await.expect("synced") }).await;
        n1.loses_power();
        let ones: u32 = n1.reads("/log").await.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, 3, "a bit in each sector");
    });
    assert_eq!(report.coverage.get("writes to a full disk"), 1);
    assert_eq!(report.coverage.get("disk io errors"), 1);
    assert_eq!(report.coverage.get("sectors: rotten"), 3);
}

/// A bad sector belongs to one file: beside it, at the same moment, others can be read.
#[test]
fn one_file_can_fail_while_another_is_sound() {
    play_in(world(1), |n1| async move {
        let a = n1.has_durable("/a", vec![1; 100]).await;
        let b = n1.has_durable("/b", vec![2; 100]).await;
        n1.disks.configure(DiskConfig { io_error_per_million: 500_000, ..DiskConfig::default() });
        let mut seen = [0; 4];
        for _ in 0..100 {
            let (a, b) = (a.len().await.is_ok(), b.len().await.is_ok());
            seen[usize::from(a) + 2 * usize::from(b)] += 1;
            time::sleep(Duration::from_millis(3)).await;
        }
        assert!(seen.iter().all(|times| *times > 10), "{seen:?}");
    });
}

#[test]
fn rot_can_spare_what_the_latest_sync_made_durable() {
    let ((), report) = play_in(world(1), |n1| async move {
        let log = n1.has_durable("/log", vec![0; 2_048]).await;
        n1.does(async move {
            log.write_all_at(&[0; 512], 512).await.expect("written");
            log.sync_all().await.expect("synced");
        })
        .await;
        let rot = DiskConfig {
            bit_rot_per_million: 1_000_000,
            bit_rot_spares_latest: true,
            ..DiskConfig::default()
        };
        n1.disks.configure(rot);
        n1.loses_power();
        let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let sectors: Vec<u32> = n1.reads("/log").await.chunks(512).map(ones).collect();
        assert_eq!(sectors, [1, 0, 1, 1]);
    });
    assert_eq!(report.coverage.get("sectors: rotten"), 3);
}

/// The cut may land or not: either way, what was before it may be the latest that is left.
#[test]
fn rot_spares_what_a_cut_under_way_made_the_latest() {
    let ((), report) = play_in(world(1), |n1| async move {
        let log = n1.has_durable("/log", vec![0; 64 * 512]).await;
        n1.does(async move {
            log.write_all_at(&[0; 512], 63 * 512).await.expect("written");
            log.sync_all().await.expect("synced");
            log.set_len(63 * 512).await.expect("cut");
        })
        .await;
        let rot = DiskConfig {
            bit_rot_per_million: 1_000_000,
            bit_rot_spares_latest: true,
            ..DiskConfig::default()
        };
        n1.disks.configure(rot);
        n1.loses_power();
        let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let sectors: Vec<u32> = n1.reads("/log").await.chunks(512).map(ones).collect();
        assert_eq!(sectors[..47], [1; 47]);
        assert!(sectors[47..].iter().all(|ones| *ones == 0), "{sectors:?}");
    });
    assert_eq!(report.coverage.get("sectors: rotten"), 47);
}

#[test]
fn disks_stall_and_slow_down_by_field() {
    let ((), report) = play_in(world(1), |n1| async move {
        let config =
            DiskConfig { stall_per_million: 100_000, slow_per_million: 200_000, ..DiskConfig::default() };
        n1.disks.configure(config);
        n1.does(async {
            let log = File::create("/log").await.expect("created");
            for _ in 0..500 {
                let begin = time::Instant::now();
                log.append(b"x").await.expect("written");
                log.sync_data().await.expect("synced");
                assert!((2..=6 * 8 + 200).contains(&begin.elapsed().as_millis()));
            }
        })
        .await;
    });
    assert!((20..100).contains(&report.coverage.get("disk stalls")), "{:?}", report.coverage);
    assert!(report.coverage.get("fsyncs on a slow disk") >= 10, "{:?}", report.coverage);
    assert_eq!(report.coverage.get("fsyncs"), 500);
    assert!(report.coverage.iter().any(|(name, count)| name == "torn writes" && count == 0), "0 is reported");
}

/// "Flipping one payload byte or one fate changes the behaviour digest."
#[test]
fn one_byte_or_one_fate_changes_the_behaviour_digest() {
    let run = |byte: u8, overrides: Vec<Override>| {
        let world = World::new(3, Options { overrides, ..Options::default() });
        let (found, report) = play_in(world, |n1| async move {
            let log = n1.has_durable("/log", vec![b'o'; 1_024]).await;
            let mut bytes = [b'n'; 1_024];
            bytes[77] = byte;
            n1.does(async move { log.write_all_at(&bytes, 0).await.expect("written") }).await;
            n1.loses_power();
            n1.reads("/log").await
        });
        (found, report.behaviour, report.digest())
    };
    let plain = run(b'n', Vec::new());
    assert_eq!(plain, run(b'n', Vec::new()));
    assert_ne!(plain.1, run(b'm', Vec::new()).1);
    let digests: Vec<_> = (0..20)
        .map(|seed| {
            let set = Set::Reseed(seed);
            let field = "crash fate".to_owned();
            run(b'n', vec![Override { field, key: None, from_ns: 0, to_ns: u64::MAX, set }])
        })
        .collect();
    for other in &digests {
        assert_eq!(plain.0 == other.0, plain.1 == other.1, "another fate, another digest");
    }
    assert!(digests.iter().any(|other| other.0 != plain.0));
}

/// A move of a folder to another one flushes the journal: some subsets of such moves would tie it into itself.
#[test]
fn a_folder_that_moves_to_another_folder_has_moved_durably() {
    let moved = times(|n1| async move {
        n1.does(async {
            fs::create_dir_all("/raft/log").await.expect("made");
            fs::create_dir("/other").await.expect("made");
            fs::rename("/raft/log", "/other/log").await.expect("moved");
        })
        .await;
        n1.loses_power();
        let folders = n1.disks.durable_image(NODE).folders;
        folders.iter().map(|path| path.display().to_string()).eq(["/other", "/other/log", "/raft"])
    });
    assert_eq!(moved, SEEDS);
}
