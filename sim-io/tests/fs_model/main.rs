//! Random programs against a disk, judged by a plain specification of what may survive.
//!
//!   seed ──► program (writes, syncs, renames, kills, power losses) ──► sim_io::fs
//!                                    └──────────────────────────────► spec ──judges──► every outcome
//!
//! Two questions: is every outcome permitted, and was every permitted kind of survivor seen?

mod spec;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use sim_io::fs::{self, Disks, File, FileId, Image};
use sim_io::records::FsyncStarted;
use sim_runtime::invariant::{Invariant, View};
use sim_runtime::rng::Stream;
use sim_runtime::verdict::Findings;
use sim_runtime::{Handle, JoinHandle, NodeId, Options, Owner, World, time};

use spec::{ALL_SEEN, Seen, SpecFile, SpecNames, Tally};

const NODE: NodeId = NodeId(1);
const ROOT: u64 = 1;
const NAMES: [&str; 6] = ["/a", "/b", "/c", "/d/x", "/d/y", "/e/x"];
const FOLDERS: [&str; 2] = ["/d", "/e"];

/// Notes when the latest sync will be done.
#[derive(Clone, Default)]
struct Watch(Rc<RefCell<Option<FsyncStarted>>>);

impl Invariant for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn observe(&mut self, view: &View<'_>, _found: &mut Findings) {
        let latest = view.fresh().iter().rev().find_map(|record| record.get::<FsyncStarted>());
        if let Some(started) = latest {
            *self.0.borrow_mut() = Some(started);
        }
    }
}

/// A sync in flight, as the specification sees it.
struct SpecSync {
    id: u64,
    of_names: bool,
    upto: usize,
    done_ns: u64,
    fails: bool,
    killed: bool,
    task: Option<JoinHandle<io::Result<()>>>,
}

struct Model {
    world: Handle,
    disks: Rc<Disks>,
    watch: Watch,
    rng: Stream,
    files: BTreeMap<u64, SpecFile>,
    names: SpecNames,
    handles: Vec<File>,
    dead: Vec<File>,
    syncs: Vec<SpecSync>,
    failing: u32,
    faults: u64,
    tally: Tally,
    story: Vec<String>,
}

impl Model {
    fn on_node<T: 'static>(&self, what: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let owner = Owner { node: NODE, incarnation: self.world.incarnation(NODE) };
        self.world.spawn_on(owner, "step", 0, what)
    }

    async fn ask<T: 'static>(&self, what: impl Future<Output = T> + 'static) -> T {
        self.on_node(what).await.expect("the node is up")
    }

    /// The folder's id and the name, of a path whose folder exists.
    fn place(&self, path: &str) -> Option<(u64, String)> {
        let (folder, name) = path.rsplit_once('/').expect("paths are absolute");
        let dir = if folder.is_empty() {
            ROOT
        } else {
            *self.names.visible.get(&(ROOT, folder[1..].to_owned()))?
        };
        Some((dir, name.to_owned()))
    }

    fn at(&self, path: &str) -> Option<u64> {
        self.names.visible.get(&self.place(path)?).copied()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn note(&mut self, what: String) {
        self.story.push(format!("{}: {what}", self.world.now_ns()));
    }

    /// Sleeps, and not until the very instant at which a sync is done: who is first then is not specified.
    async fn sleep(&self, duration: Duration) {
        time::sleep(duration).await;
        while self.syncs.iter().any(|sync| sync.done_ns == self.world.now_ns()) {
            time::sleep(Duration::from_nanos(1)).await;
        }
    }

    /// Syncs that are done by now take effect in the specification too.
    async fn catch_up(&mut self) -> Result<(), String> {
        self.syncs.sort_by_key(|sync| sync.done_ns);
        while self.syncs.first().is_some_and(|sync| sync.done_ns <= self.world.now_ns()) {
            let sync = self.syncs.remove(0);
            self.note(format!("sync of {} up to {} done, fails: {}", sync.id, sync.upto, sync.fails));
            match sync {
                SpecSync { of_names: true, fails: false, .. } => self.names.synced(sync.id, sync.upto),
                SpecSync { of_names: true, .. } => {}
                _ => {
                    if let Some(file) = self.files.get_mut(&sync.id) {
                        if sync.fails { file.sync_failed(sync.upto) } else { file.synced(sync.upto) }
                    }
                }
            }
            if sync.killed {
                *self.tally.entry(Seen::SyncAfterKill).or_default() += 1;
            } else if let Some(task) = sync.task {
                if !task.is_finished() {
                    return Err(format!("a sync of {} is late", sync.id));
                }
                let failed = task.await.expect("nobody aborts it").is_err();
                if failed != sync.fails {
                    return Err(format!("a sync of {}: failed {failed}, not {}", sync.id, sync.fails));
                }
            }
        }
        Ok(())
    }

    async fn start_sync(&mut self, id: u64, path: Option<&'static str>) {
        let file = self.handles.iter().find(|file| file.id().0 == id).cloned();
        let task = match path {
            Some(path) => self.on_node(fs::sync_dir(path)),
            None => {
                let file = file.expect("picked from the handles");
                self.on_node(async move { file.sync_data().await })
            }
        };
        *self.watch.0.borrow_mut() = None;
        self.sleep(Duration::from_nanos(1)).await;
        let started = self.watch.0.borrow_mut().take().expect("a sync that begins is recorded");
        assert_eq!(started.file, id);
        let of_names = path.is_some();
        let upto = if of_names { self.names.changes } else { self.files[&id].next() };
        let fails = !of_names && self.failing > 0;
        self.failing -= u32::from(fails);
        let task = if self.rng.chance(150_000) {
            task.abort();
            None
        } else {
            Some(task)
        };
        self.note(format!("sync of {id} begins, names: {of_names}, awaited: {}", task.is_some()));
        self.syncs.push(SpecSync {
            id,
            of_names,
            upto,
            done_ns: started.done_ns,
            fails,
            killed: false,
            task,
        });
    }

    async fn step(&mut self) -> Result<(), String> {
        self.catch_up().await?;
        if self.names.pending.len() > 9 {
            for path in ["/", "/d", "/e"] {
                if let Some(id) = if path == "/" { Some(ROOT) } else { self.at(path) } {
                    self.start_sync(id, Some(path)).await;
                }
            }
            self.sleep(Duration::from_millis(7)).await;
            return self.catch_up().await;
        }
        match self.rng.below(100) {
            0..14 => self.open().await,
            14..46 => self.write().await,
            46..52 => self.set_len().await,
            52..64 => {
                if let Some(file) = self.some_handle() {
                    self.start_sync(file.id().0, None).await;
                }
                Ok(())
            }
            64..70 => {
                let path = self.pick(&["/", "/d", "/e"]);
                if let Some(id) = if path == "/" { Some(ROOT) } else { self.at(path) } {
                    self.start_sync(id, Some(path)).await;
                }
                Ok(())
            }
            70..77 => self.rename().await,
            77..81 => self.remove().await,
            81..83 => self.make_folder().await,
            83..84 => {
                self.disks.fail_next_fsync(NODE);
                self.failing += 1;
                Ok(())
            }
            84..93 => {
                let pause = Duration::from_micros(self.rng.range(1, 7_000));
                self.sleep(pause).await;
                Ok(())
            }
            93..95 => self.kill().await,
            95..98 => self.power_off().await,
            _ => self.compare(),
        }
    }

    fn some_handle(&mut self) -> Option<File> {
        if self.handles.is_empty() {
            return None;
        }
        // The latest are the likeliest: pending operations pile up on few files.
        let back = self.rng.below(self.handles.len() as u64).min(self.rng.below(self.handles.len() as u64));
        Some(self.handles[self.handles.len() - 1 - back as usize].clone())
    }

    async fn open(&mut self) -> Result<(), String> {
        let path = self.pick(&NAMES);
        let (truncate, new) = (self.rng.chance(200_000), self.rng.chance(100_000));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(truncate && !new).create_new(new);
        let opened = self.ask(async move { options.open(path).await }).await;
        self.note(format!("open {path}, truncate {truncate}, new {new}: {opened:?}"));
        let (place, there) = (self.place(path), self.at(path));
        let file = match (opened, place, there) {
            (Err(error), None, _) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            (Err(error), _, Some(_)) if new && error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            (Ok(file), Some(_), Some(id)) if !new && file.id().0 == id => file,
            (Ok(file), Some(place), None) => {
                let id = file.id().0;
                if self.files.insert(id, SpecFile::default()).is_some() {
                    return Err(format!("the id {id} is used twice"));
                }
                self.names.change(vec![(place, None, Some(id))]);
                file
            }
            (opened, place, there) => return Err(format!("open {path}: {opened:?}, {place:?}, {there:?}")),
        };
        let known = self.files.get_mut(&file.id().0).expect("it is known");
        if truncate && !new {
            known.set_len(0);
        }
        self.handles.push(file);
        if self.handles.len() > 6 {
            self.handles.remove(0);
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), String> {
        let Some(file) = self.some_handle() else { return Ok(()) };
        let known = self.files.get_mut(&file.id().0).expect("it is known");
        let longest = if self.rng.chance(200_000) { 1_500 } else { 300 };
        let len = self.rng.below(longest) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| self.rng.range(1, 255) as u8).collect();
        let end = known.visible.len();
        let at = if self.rng.chance(600_000) {
            let at = file.append(&bytes).await.map_err(|error| format!("append: {error}"))?;
            if at != end as u64 {
                return Err(format!("an append landed at {at}, not at the end {end}"));
            }
            end
        } else {
            let at = self.rng.below((end as u64 + 200).min(2_500)) as usize;
            file.write_all_at(&bytes, at as u64).await.map_err(|error| format!("write: {error}"))?;
            at
        };
        known.write(at, &bytes);
        self.note(format!("write {len} at {at} of {}", file.id().0));
        Ok(())
    }

    async fn set_len(&mut self) -> Result<(), String> {
        let Some(file) = self.some_handle() else { return Ok(()) };
        let known = self.files.get_mut(&file.id().0).expect("it is known");
        let len = self.rng.below(known.visible.len() as u64 + 300);
        file.set_len(len).await.map_err(|error| format!("set_len: {error}"))?;
        known.set_len(len as usize);
        self.note(format!("set_len {len} of {}", file.id().0));
        Ok(())
    }

    async fn rename(&mut self) -> Result<(), String> {
        let (from, to) = if self.rng.chance(150_000) {
            (self.pick(&FOLDERS), self.pick(&FOLDERS))
        } else {
            (self.pick(&NAMES), self.pick(&NAMES))
        };
        let done = self.ask(fs::rename(from, to)).await;
        self.note(format!("rename {from} to {to}: {done:?}"));
        let (source, target) = (self.at(from), self.place(to));
        let (Some(source), Some(target)) = (source, target) else {
            let missing = done.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            return if missing { Ok(()) } else { Err(format!("rename {from} to {to} should fail")) };
        };
        let replaced = self.at(to);
        if replaced == Some(source) {
            return done.map_err(|error| format!("rename onto itself: {error}"));
        }
        let is_full = |dir: u64| self.names.visible.keys().any(|(of, _)| *of == dir);
        if replaced.is_some_and(is_full) {
            let full = done.is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty);
            return if full { Ok(()) } else { Err(format!("rename over the full folder {to} should fail")) };
        }
        done.map_err(|error| format!("rename {from} to {to}: {error}"))?;
        let place = self.place(from).expect("it is there");
        self.names.change(vec![(place, Some(source), None), (target, replaced, Some(source))]);
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), String> {
        let folder = self.rng.chance(150_000);
        let path = if folder { self.pick(&FOLDERS) } else { self.pick(&NAMES) };
        let done =
            if folder { self.ask(fs::remove_dir(path)).await } else { self.ask(fs::remove_file(path)).await };
        self.note(format!("remove {path}: {done:?}"));
        let Some(id) = self.at(path) else {
            let missing = done.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            return if missing { Ok(()) } else { Err(format!("remove {path}: it is not there")) };
        };
        if folder && self.names.visible.keys().any(|(of, _)| *of == id) {
            let full = done.is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty);
            return if full { Ok(()) } else { Err(format!("remove {path}: it is not empty")) };
        }
        done.map_err(|error| format!("remove {path}: {error}"))?;
        let place = self.place(path).expect("it is there");
        self.names.change(vec![(place, Some(id), None)]);
        Ok(())
    }

    async fn make_folder(&mut self) -> Result<(), String> {
        let path = self.pick(&FOLDERS);
        let done = self.ask(fs::create_dir(path)).await;
        self.note(format!("create_dir {path}: {done:?}"));
        if self.at(path).is_some() {
            let exists = done.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
            return if exists { Ok(()) } else { Err(format!("create_dir {path}: it is there")) };
        }
        done.map_err(|error| format!("create_dir {path}: {error}"))?;
        let id = self.ask(fs::metadata(path)).await.map_err(|error| format!("metadata: {error}"))?.id().0;
        let place = self.place(path).expect("the root is there");
        self.names.change(vec![(place, None, Some(id))]);
        Ok(())
    }

    /// Both sides of the disk are what they should be.
    fn compare(&self) -> Result<(), String> {
        let image = |names, side: fn(&SpecFile) -> &Vec<u8>| {
            let mut image = Image::default();
            for (path, id) in SpecNames::paths(names, ROOT) {
                match self.files.get(&id) {
                    Some(file) => drop(image.files.insert(PathBuf::from(path), side(file).clone())),
                    None => drop(image.folders.insert(PathBuf::from(path))),
                }
            }
            image
        };
        if self.disks.visible_image(NODE) != image(&self.names.visible, |file| &file.visible) {
            return Err("what is visible is not what was written".to_owned());
        }
        if self.disks.durable_image(NODE) != image(&self.names.durable, |file| &file.durable) {
            return Err("what is durable is not what was synced".to_owned());
        }
        Ok(())
    }

    async fn kill(&mut self) -> Result<(), String> {
        self.note("kill".to_owned());
        self.world.kill(NODE, self.faults);
        self.syncs.iter_mut().for_each(|sync| sync.killed = true);
        self.come_back().await
    }

    /// Handles of before are inert.
    async fn come_back(&mut self) -> Result<(), String> {
        self.dead.append(&mut self.handles);
        for at in 0..2 {
            if at == 1 {
                self.world.boot(NODE);
            }
            if let Some(file) = self.dead.last().cloned() {
                let gone = |result: io::Result<()>| {
                    result.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
                };
                let inert = gone(file.write_all_at(b"from the grave", 0).await)
                    && gone(file.set_len(3).await)
                    && gone(file.sync_data().await)
                    && gone(file.len().await.map(drop))
                    && gone(file.read_at(&mut [0], 0).await.map(drop));
                if !inert {
                    return Err("a handle of a dead process acts".to_owned());
                }
            }
            if at == 0 && self.rng.chance(500_000) {
                let pause = Duration::from_micros(self.rng.range(1, 3_000));
                self.sleep(pause).await;
            }
        }
        self.dead.truncate(4);
        self.catch_up().await?;
        self.compare()
    }

    async fn power_off(&mut self) -> Result<(), String> {
        self.catch_up().await?;
        self.note("power off".to_owned());
        let before = SpecNames::paths(&self.names.visible, ROOT);
        let claims = self.claims()?;
        self.faults += 1;
        self.world.power_off(&[NODE], self.faults);
        self.world.boot(NODE);

        let image = self.disks.visible_image(NODE);
        let mut found = BTreeMap::new();
        for path in image.files.keys().chain(&image.folders) {
            let asked = path.clone();
            let id =
                self.ask(fs::metadata(asked)).await.map_err(|error| format!("{path:?}: {error}"))?.id().0;
            found.insert(path.to_str().expect("names are letters").to_owned(), id);
        }
        let syncs = self.syncs.iter().filter(|sync| sync.of_names);
        let flushing: Vec<_> = syncs.map(|sync| (sync.id, sync.upto)).collect();
        self.names.judge(&found, ROOT, &flushing, &mut self.tally)?;
        let mut survivors = BTreeMap::new();
        for (path, bytes) in &image.files {
            let id = found[path.to_str().expect("names are letters")];
            let file = self.files.remove(&id).ok_or_else(|| format!("{path:?} is nobody's file"))?;
            let in_flight = self.syncs.iter().filter(|sync| !sync.of_names && !sync.fails && sync.id == id);
            let covered = in_flight.map(|sync| sync.upto.saturating_sub(file.first).min(file.ops.len()));
            let flushing = covered.max().unwrap_or(0);
            file.judge(bytes, flushing, &mut self.tally).map_err(|why| format!("{path:?} ({id}): {why}"))?;
            if !bytes.is_empty() && !before.values().any(|named| *named == id) {
                *self.tally.entry(Seen::UnlinkedSurvivor).or_default() += 1;
            }
            let survivor = SpecFile { durable: bytes.clone(), visible: bytes.clone(), ..SpecFile::default() };
            survivors.insert(id, survivor);
        }
        for id in before.values().filter(|id| !found.values().any(|still| still == *id)) {
            let kind = if self.files.contains_key(id) { Seen::FileLost } else { Seen::FolderLost };
            *self.tally.entry(kind).or_default() += 1;
        }
        for (id, from, bytes) in claims {
            let kept = survivors.get(&id).is_some_and(|file| file.visible[from..].starts_with(&bytes));
            if !kept {
                return Err(format!("{} bytes from {from} of {id} were called durable", bytes.len()));
            }
        }
        self.files = survivors;
        self.syncs.clear();
        self.names = SpecNames { changes: self.names.changes, ..SpecNames::default() };
        for (path, id) in &found {
            let (folder, name) = path.rsplit_once('/').expect("paths are absolute");
            let dir = if folder.is_empty() { ROOT } else { found[folder] };
            self.names.visible.insert((dir, name.to_owned()), *id);
        }
        self.names.durable = self.names.visible.clone();
        self.come_back_from_power_loss().await
    }

    async fn come_back_from_power_loss(&mut self) -> Result<(), String> {
        self.dead.append(&mut self.handles);
        self.compare()
    }

    /// Ranges that are said to be durable, with their bytes; of files whose removal is pending too.
    fn claims(&mut self) -> Result<Vec<(u64, usize, Vec<u8>)>, String> {
        let mut claims = Vec::new();
        let mut paths = SpecNames::paths(&self.names.visible, ROOT);
        let removed = SpecNames::paths(&self.names.durable, ROOT);
        paths.extend(removed.into_iter().map(|(path, id)| (format!("{path} (durable)"), id)));
        for (path, id) in &paths {
            let Some(file) = self.files.get(id) else { continue };
            let len = file.visible.len() as u64;
            let from = self.rng.below(len + 1);
            let to = self.rng.range(from, len);
            let durable = self.disks.is_durable(NODE, FileId(*id), from..to);
            let untouched = file.ops.is_empty() && !file.tainted && self.names.pending.is_empty();
            if untouched && !durable {
                return Err(format!("{from}..{to} of {path} is durable, and said not to be"));
            }
            if durable {
                claims.push((*id, from as usize, file.visible[from as usize..to as usize].to_vec()));
            }
        }
        Ok(claims)
    }
}

/// Runs the program of one seed.
fn run(seed: u64, tally: &mut Tally) -> Result<u64, String> {
    let options = Options { hold_per_million: 0, long_hold_per_million: 0, ..Options::default() };
    let mut world = World::new(seed, options);
    let handle = world.handle();
    let watch = Watch::default();
    world.watch(watch.clone());
    handle.add_node("n1", std::future::pending::<()>);
    handle.boot(NODE);
    let model = Model {
        disks: handle.device(),
        world: handle,
        watch,
        rng: Stream::derive(seed, "fs model"),
        files: BTreeMap::new(),
        names: SpecNames::default(),
        handles: Vec::new(),
        dead: Vec::new(),
        syncs: Vec::new(),
        failing: 0,
        faults: 0,
        tally: std::mem::take(tally),
        story: Vec::new(),
    };
    let (counted, outcome) = world
        .run(async move {
            let mut model = model;
            let steps = model.rng.range(10, 60);
            let mut outcome = Ok(());
            for _ in 0..steps {
                outcome = model.step().await;
                if outcome.is_err() {
                    break;
                }
            }
            if outcome.is_ok() {
                outcome = model.power_off().await;
            }
            let story = std::mem::take(&mut model.story).join("\n  ");
            (std::mem::take(&mut model.tally), outcome.map_err(|why| format!("{why}\n  {story}")))
        })
        .ok_or_else(|| "the program did not end".to_owned())?;
    *tally = counted;
    let report = world.report();
    outcome.map(|()| report.digest())
}

fn check(seeds: std::ops::Range<u64>) {
    let mut tally = Tally::new();
    for seed in seeds {
        if let Err(why) = run(seed, &mut tally) {
            panic!("seed {seed}: {why}");
        }
    }
    for kind in ALL_SEEN {
        println!("{:>18}  {:>10}", format!("{kind:?}"), tally.get(&kind).unwrap_or(&0));
    }
    let unseen: Vec<_> = ALL_SEEN.into_iter().filter(|kind| !tally.contains_key(kind)).collect();
    assert!(unseen.is_empty(), "permitted, and never seen: {unseen:?}");
}

#[test]
fn every_outcome_of_20_000_programs_is_permitted_and_every_kind_of_survivor_is_seen() {
    check(0..20_000);
}

#[test]
#[ignore = "minutes"]
fn every_outcome_of_1_000_000_programs_is_permitted() {
    check(1_000_000..2_000_000);
}

#[test]
fn the_same_program_has_the_same_digest() {
    for seed in 0..200 {
        let digest = run(seed, &mut Tally::new());
        assert_eq!(digest, run(seed, &mut Tally::new()), "seed {seed}");
    }
}
