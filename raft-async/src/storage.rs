//! The files of a server: reading them at boot, and the order of writes and syncs afterwards.
//!
//!   dir / hard-state      two slots of term and vote (`hard_state.rs`)
//!   dir / log-00000001 …  segments of the log (`wal.rs`)
//!
//! What a server reads at boot may be in the page cache only: its predecessor was killed before its sync was
//! done, or its sync failed and left pages that the cache calls clean. So what no later write vouches for is
//! written once more, byte for byte where it stands, and synced, before this server vouches for it.
//!
//! Invariants: a file has its contents before it has its name, and its name before anything relies on it; a
//! segment is created only when all before it are durable; segments are removed from the back, one durably
//! after the other, so that what is left never has a hole.
//! Not here: what the bytes mean.

use crate::config::Config;
use crate::entries::Entries;
use crate::halt::Halt;
use crate::hard_state::{FILE_BYTES, HardState, Slotted};
use crate::image::{Corrupt, HARD_STATE_FILE, recover_hard_state};
use crate::mutant::{Mutant, Planted};
use crate::trace::{EntryWritten, HardStateWritten};
use crate::types::{Index, Term};
use crate::wal::{self, Place, SegmentBytes, SegmentHeader};
use futures::future::try_join;
use sim_io::fs::{self, File, OpenOptions};
use sim_runtime::{Handle, probe};
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

/// What a server starts with.
pub(crate) struct Recovered {
    pub(crate) hard_state: HardStateFile,
    pub(crate) segments: Segments,
    pub(crate) entries: Entries,
}

/// Reads a server's directory, creating it for a new server.
pub(crate) async fn recover(config: &Config, world: &Handle) -> Result<Recovered, Halt> {
    let dir = &config.dir;
    create_dir(dir, config.planted).await?;
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).await.map_err(Halt::DiskFailed)? {
        numbers.extend(wal::segment_number(&entry.file_name().to_string_lossy()));
    }
    numbers.sort_unstable();

    let hard_state = HardStateFile::recover(config, world, !numbers.is_empty());
    let log = Segments::recover(config, world, &numbers);
    let (hard_state, (segments, entries)) = try_join(hard_state, log).await?;
    // Names, too, may be in the cache only.
    sync_dir(dir, config.planted).await?;
    Ok(Recovered { hard_state, segments, entries })
}

/// The folder's own name must be durable before the first file in it is: where there is term and vote, it is.
async fn create_dir(dir: &Path, planted: Planted) -> Result<(), Halt> {
    if fs::exists(dir.join(HARD_STATE_FILE)).await.map_err(Halt::DiskFailed)? {
        return Ok(());
    }
    fs::create_dir_all(dir).await.map_err(Halt::DiskFailed)?;
    for parent in dir.ancestors().skip(1) {
        sync_dir(parent, planted).await?;
    }
    Ok(())
}

async fn sync(file: &File, planted: Planted) -> Result<(), Halt> {
    if planted.has(Mutant::ControlExtraFsync) {
        settle(file.sync_data().await, planted)?;
    }
    settle(file.sync_data().await, planted)
}

async fn sync_dir(dir: &Path, planted: Planted) -> Result<(), Halt> {
    settle(fs::sync_dir(dir).await, planted)
}

/// After a failed sync nobody knows what the disk holds, and the next sync may call it clean: there is no trying
/// again.
fn settle(synced: io::Result<()>, planted: Planted) -> Result<(), Halt> {
    match synced {
        Err(_) if planted.has(Mutant::FsyncErrorIgnored) => Ok(()),
        done => done.map_err(Halt::DiskFailed),
    }
}

/// The file of term and vote.
pub(crate) struct HardStateFile {
    file: File,
    current: Cell<Slotted>,
    /// How many saves are under way.
    saves: Cell<u32>,
    world: Handle,
    planted: Planted,
}

impl HardStateFile {
    async fn recover(config: &Config, world: &Handle, log_exists: bool) -> Result<Self, Halt> {
        let path = config.dir.join(HARD_STATE_FILE);
        let bytes = match read_if_there(&path).await {
            Err(_) if config.planted.has(Mutant::MetaMissingIsFresh) => None,
            read => read?,
        };
        let current = match recover_hard_state(bytes.as_deref(), log_exists, config.planted) {
            Err(Corrupt::HardStateMissing) if config.planted.has(Mutant::MetaMissingIsFresh) => {
                Slotted::FIRST
            }
            found => found?,
        };
        if bytes.is_none() {
            create_whole(&config.dir, current, config.planted).await?;
        }
        let file = open(&path).await?;
        let (world, planted) = (world.clone(), config.planted);
        let recovered = Self { file, current: Cell::new(current), saves: Cell::new(0), world, planted };
        recovered.write(current).await?;
        Ok(recovered)
    }

    /// Term and vote as they are durable.
    pub(crate) fn get(&self) -> HardState {
        self.current.get().state
    }

    /// Makes a new term or vote durable; [`HardStateFile::get`] has it afterwards.
    pub(crate) async fn save(&self, state: HardState) -> Result<(), Halt> {
        let mut written = state;
        if self.planted.has(Mutant::UnpersistedVote) {
            written.voted_for = None;
        }
        let next = self.current.get().following(written, self.planted);
        let under_way = Saving::begin(&self.saves);
        self.write(next).await?;
        drop(under_way);
        self.current.set(Slotted { state, ..next });
        Ok(())
    }

    /// Whether a later term or vote may be on the disk than [`HardStateFile::get`] says: until the save is done, nobody
    /// may speak for the one or the other.
    pub(crate) fn is_being_saved(&self) -> bool {
        self.saves.get() > 0
    }

    /// What planted defects do instead of [`HardStateFile::save`]: it is not on the disk.
    pub(crate) fn assume(&self, state: HardState) {
        self.current.set(Slotted { state, ..self.current.get() });
    }

    /// Writes what was only assumed. What is assumed meanwhile stays.
    pub(crate) async fn catch_up(&self) -> Result<(), Halt> {
        let next = self.current.get().following(self.get(), self.planted);
        self.write(next).await?;
        self.current.set(Slotted { state: self.get(), ..next });
        Ok(())
    }

    async fn write(&self, slotted: Slotted) -> Result<(), Halt> {
        let bytes = slotted.encode();
        self.file.write_all_at(&bytes, slotted.offset()).await.map_err(Halt::DiskFailed)?;
        self.world.emit(HardStateWritten {
            term: slotted.state.term.0,
            vote: slotted.state.voted_for.map_or(0, |server| server.0.into()),
            file: self.file.id().0,
            offset: slotted.offset(),
            len: bytes.len() as u64,
        });
        sync(&self.file, self.planted).await
    }
}

/// A save that is under way, for as long as this lives.
struct Saving<'a>(&'a Cell<u32>);

impl<'a> Saving<'a> {
    fn begin(saves: &'a Cell<u32>) -> Self {
        saves.set(saves.get() + 1);
        Self(saves)
    }
}

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The file appears under its name with all its bytes or not at all.
async fn create_whole(dir: &Path, first: Slotted, planted: Planted) -> Result<(), Halt> {
    let draft = dir.join("hard-state.draft");
    let mut bytes = vec![0; FILE_BYTES as usize];
    let slot = first.encode();
    bytes[..slot.len()].copy_from_slice(&slot);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let file = options.open(&draft).await.map_err(Halt::DiskFailed)?;
    file.write_all_at(&bytes, 0).await.map_err(Halt::DiskFailed)?;
    sync(&file, planted).await?;
    fs::rename(&draft, dir.join(HARD_STATE_FILE)).await.map_err(Halt::DiskFailed)?;
    sync_dir(dir, planted).await
}

async fn open(path: &Path) -> Result<File, Halt> {
    OpenOptions::new().read(true).write(true).open(path).await.map_err(Halt::DiskFailed)
}

async fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Halt> {
    match fs::read(path).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Halt::DiskFailed(error)),
    }
}

struct Segment {
    header: SegmentHeader,
    file: File,
    len: u64,
}

/// The files of the log. Owned by the log writer.
pub(crate) struct Segments {
    dir: PathBuf,
    full_at_bytes: u64,
    world: Handle,
    planted: Planted,
    segments: Vec<Segment>,
    /// Where each entry is, from index 1.
    places: Vec<Place>,
    /// A torn tail was cut at boot, and the cut itself is not durable. The first sync of the file makes it so;
    /// until then the chain tells old frames from new ones.
    unsynced_cut: bool,
    batch: Batch,
    /// Open while a boot reads and mends the log, and then for as long as `unsynced_cut`: a tail can be torn twice.
    recovering: Option<probe::WindowGuard>,
}

/// An entry on its way to the disk.
struct Frame {
    term: Term,
    digest: u64,
    place: Place,
}

/// Frames that go to the disk as one write.
struct Batch {
    creates: Option<SegmentHeader>,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
}

impl Batch {
    fn new() -> Self {
        Self { creates: None, bytes: Vec::with_capacity(1024), frames: Vec::with_capacity(16) }
    }
}

impl Segments {
    async fn recover(config: &Config, world: &Handle, numbers: &[u64]) -> Result<(Self, Entries), Halt> {
        let recovering = Some(probe::window("log being recovered", None));
        let mut contents = Vec::new();
        for &number in numbers {
            let path = config.dir.join(wal::segment_name(number));
            contents.push((number, fs::read(&path).await.map_err(Halt::DiskFailed)?));
        }
        let bytes: Vec<_> =
            contents.iter().map(|(number, bytes)| SegmentBytes { number: *number, bytes }).collect();
        let found = wal::recover(&bytes, config.planted).map_err(Corrupt::Log)?;

        let mut files = Self {
            dir: config.dir.clone(),
            full_at_bytes: config.segment_bytes,
            world: world.clone(),
            planted: config.planted,
            segments: Vec::new(),
            places: found.places,
            unsynced_cut: false,
            batch: Batch::new(),
            recovering,
        };
        for (header, (_, bytes)) in found.segments.into_iter().zip(&contents) {
            let file = open(&files.path(header.number)).await?;
            files.segments.push(Segment { header, file, len: bytes.len() as u64 });
        }
        if let Some(number) = found.unborn {
            fs::remove_file(files.path(number)).await.map_err(Halt::DiskFailed)?;
        }
        if let Some((_, bytes)) = contents.get(files.segments.len().wrapping_sub(1)) {
            files.make_durable(bytes, found.claimed, found.cut).await?;
        }
        files.recovering = files.recovering.filter(|_| files.unsynced_cut);
        Ok((files, found.entries.into()))
    }

    /// Writes again what no frame calls durable, syncs it, and then cuts the torn tail: in this order, since the
    /// tail needs no sync of its own.
    async fn make_durable(&mut self, bytes: &[u8], claimed: u64, cut: Option<u64>) -> Result<(), Halt> {
        let segment = self.segments.last_mut().expect("the caller has found it");
        let good = cut.unwrap_or(segment.len);
        let doubtful = claimed.saturating_sub(segment.header.base);
        let again = &bytes[doubtful as usize..good as usize];
        segment.file.write_all_at(again, doubtful).await.map_err(Halt::DiskFailed)?;
        sync(&segment.file, self.planted).await?;
        if cut.is_some() && !self.planted.has(Mutant::WalNoTailTrim) {
            self.world.count("torn log tail cut", 1);
            segment.file.set_len(good).await.map_err(Halt::DiskFailed)?;
            segment.len = good;
            self.unsynced_cut = true;
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(wal::segment_name(number))
    }

    /// The last entry that the files hold.
    pub(crate) fn last(&self) -> Index {
        Index(self.places.len() as u64)
    }

    /// The position of the first byte behind the log. All before it is durable between two writes.
    fn end(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.header.base + segment.len)
    }

    fn chain(&self) -> u32 {
        self.places.last().map_or(SegmentHeader::FIRST.chain, |place| place.chain)
    }

    /// Puts together the next write: what the log has behind [`Segments::last`], as far as it fits the segment.
    pub(crate) fn encode_batch(&mut self, log: &Entries) {
        let full = self.segments.last().is_none_or(|segment| segment.len >= self.full_at_bytes);
        let (durable, mut chain, mut index) = (self.end(), self.chain(), self.last().next());
        let batch = &mut self.batch;
        batch.bytes.clear();
        batch.frames.clear();
        batch.creates = full.then(|| SegmentHeader {
            number: self.segments.last().map_or(1, |segment| segment.header.number + 1),
            base: durable,
            first: index,
            chain,
        });
        let start = match &batch.creates {
            Some(header) => {
                header.encode(&mut batch.bytes);
                0
            }
            None => self.segments.last().map_or(0, |segment| segment.len),
        };
        let segment = (self.segments.len() + usize::from(full) - 1) as u32;
        while let Some(&entry) = log.get(index)
            && (batch.frames.is_empty() || start + (batch.bytes.len() as u64) < self.full_at_bytes)
        {
            let before = batch.bytes.len();
            chain = wal::encode_frame(&mut batch.bytes, chain, durable, index, &entry);
            let len = (batch.bytes.len() - before) as u32;
            let place = Place { segment, offset: (start + before as u64) as u32, len, chain };
            let digest = log.command_digest(index).unwrap_or_default();
            batch.frames.push(Frame { term: entry.term, digest, place });
            index = index.next();
        }
    }

    /// Writes what [`Segments::encode_batch`] put together, and makes it durable.
    pub(crate) async fn write(&mut self) -> Result<(), Halt> {
        let created = self.batch.creates.take();
        let _roll = created.map(|_| probe::window("log segment being created", None));
        if let Some(header) = created {
            self.create(header).await?;
        }
        let segment = self.segments.last_mut().expect("a batch without a segment creates one");
        let Batch { bytes, frames, .. } = &self.batch;
        segment.file.write_all_at(bytes, segment.len).await.map_err(Halt::DiskFailed)?;
        segment.len += bytes.len() as u64;
        for &Frame { term, digest, place } in frames {
            self.places.push(place);
            self.world.emit(EntryWritten {
                index: self.places.len() as u64,
                term: term.0,
                digest,
                file: segment.file.id().0,
                place: u64::from(place.offset) << 24 | u64::from(place.len),
            });
        }
        sync(&segment.file, self.planted).await?;
        self.unsynced_cut = false;
        self.recovering = None;
        if created.is_some() && !self.planted.has(Mutant::SegmentNoDirsync) {
            sync_dir(&self.dir, self.planted).await?;
        }
        Ok(())
    }

    async fn create(&mut self, header: SegmentHeader) -> Result<(), Halt> {
        if let Some(segment) = self.segments.last()
            && self.unsynced_cut
        {
            sync(&segment.file, self.planted).await?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(self.path(header.number)).await.map_err(Halt::DiskFailed)?;
        self.segments.push(Segment { header, file, len: 0 });
        self.world.count("log segment created", 1);
        Ok(())
    }

    /// Removes everything behind `keep`, durably: what is written in its place could otherwise not be told from
    /// damage, since the old frames claim to have been durable.
    pub(crate) async fn cut(&mut self, keep: Index) -> Result<(), Halt> {
        let _cut = probe::window("log being cut", None);
        let first = self.places[keep.0 as usize];
        let kept_segments = first.segment as usize + 1;
        while self.segments.len() > kept_segments {
            let at = if self.planted.has(Mutant::TruncateFrontToBack) {
                kept_segments
            } else {
                self.segments.len() - 1
            };
            let number = self.segments.remove(at).header.number;
            fs::remove_file(self.path(number)).await.map_err(Halt::DiskFailed)?;
            sync_dir(&self.dir, self.planted).await?;
            self.world.count("log segment removed", 1);
        }
        let segment = self.segments.last_mut().expect("the entry to remove is in one");
        segment.file.set_len(first.offset.into()).await.map_err(Halt::DiskFailed)?;
        segment.len = first.offset.into();
        sync(&segment.file, self.planted).await?;
        self.places.truncate(keep.0 as usize);
        Ok(())
    }
}
