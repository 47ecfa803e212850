//! Links: what happens to a message on its way from one node to another.
//!
//!   (link, bucket of now) ──fields──► Conditions, cached until the bucket ends ──► Fate of a message
//!   nemesis ──cut, heal──► counters per directed link: open when no fault holds it
//!           └─burst, calm─► what is done to a link on top of its configuration, read with the conditions
//!
//! All that a message meets depends on the link and the time bucket in which it is sent, never on how many
//! were sent before: taking one message out of a run leaves the fate of all others as it was.
//!
//! Invariants: conditions are read at the beginning of their bucket, so an override holds for the buckets that
//! begin in its interval; a node's link to itself is always open, quick and true.
//! Not here: who cuts (`nemesis`), what is under way (`packet.rs`).

use sim_runtime::rng::{BUCKET_NS, Field, Row, Sample};
use sim_runtime::{Handle, NodeId};

use super::config::{Burst, NetConfig};

/// How long a message takes on a link, by [`link_key`] and buckets of 2 ms.
pub const LATENCY: Field = Field::new("net latency");
/// Whether messages are lost on a link.
pub const LOSS: Field = Field::new("net loss");
/// Whether messages arrive twice on a link.
pub const DUPLICATION: Field = Field::new("net duplication");
/// Whether messages are held up on a link while later ones are not: buckets of 100 µs.
pub const REORDERING: Field = Field::new("net reordering").with_bucket(REORDERING_BUCKET_NS);
/// Whether a link is slow: buckets of 250 ms.
pub const SLOWNESS: Field = Field::new("net slowness").with_bucket(250_000_000);

const REORDERING_BUCKET_NS: u64 = 100_000;

/// What a message to oneself takes.
const LOOPBACK_NS: u64 = 10_000;

/// The key of a directed link in the fields of the network.
#[inline]
pub const fn link_key(from: NodeId, to: NodeId) -> u64 {
    (from.0 as u64) << 16 | to.0 as u64
}

/// What a link does to a message that is sent now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It arrives after so long; `copy_ns` says after how long a copy of it does, if there is one.
    Arrives {
        after_ns: u64,
        copy_ns: Option<u64>,
        held_up: bool,
    },
    Lost,
}

/// A directed link: its conditions as of the current bucket.
#[derive(Debug)]
pub(super) struct Link {
    from: NodeId,
    to: NodeId,
    /// Until then a message takes `latency_ns`, and nothing else happens to it.
    plain_until_ns: u64,
    known_until_ns: u64,
    latency_ns: u64,
    copy_ns: Option<u64>,
    lost: bool,
    extra_known_until_ns: u64,
    extra_ns: u64,
    bases: Bases,
    /// Numbers the messages, to see who overtakes whom.
    pub(super) sent: u64,
    /// The highest number that has arrived.
    pub(super) arrived: u64,
    /// Faults by id, and what they do.
    bursts: Vec<(u64, Burst)>,
    pub(super) struck: Struck,
}

/// Where the fields of a link begin; see [`Row::base`].
#[derive(Copy, Clone, Debug, Default)]
struct Bases {
    known: bool,
    latency: u64,
    slowness: u64,
    loss: u64,
    duplication: u64,
    reordering: u64,
}

impl Bases {
    #[cold]
    fn of(world: &Handle, key: u64) -> Self {
        let base = |field| world.row(field, key).base();
        Self {
            known: true,
            latency: base(LATENCY),
            slowness: base(SLOWNESS),
            loss: base(LOSS),
            duplication: base(DUPLICATION),
            reordering: base(REORDERING),
        }
    }
}

/// What bursts, and nothing else, do to messages in the current bucket.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Struck {
    pub(super) slowed: bool,
    pub(super) lost: bool,
    pub(super) duplicated: bool,
}

impl Link {
    fn new(from: NodeId, to: NodeId) -> Self {
        let nothing_known = Self {
            from,
            to,
            plain_until_ns: 0,
            known_until_ns: 0,
            latency_ns: LOOPBACK_NS,
            copy_ns: None,
            lost: false,
            extra_known_until_ns: 0,
            extra_ns: 0,
            bases: Bases::default(),
            sent: 0,
            arrived: 0,
            bursts: Vec::new(),
            struck: Struck::default(),
        };
        let for_ever = if from == to { u64::MAX } else { 0 };
        Self {
            plain_until_ns: for_ever,
            known_until_ns: for_ever,
            extra_known_until_ns: for_ever,
            ..nothing_known
        }
    }

    /// Finds out what happens to messages that are sent now, unless it is known.
    #[inline]
    pub(super) fn look(&mut self, world: &Handle, config: &NetConfig, now_ns: u64) {
        if now_ns >= self.plain_until_ns {
            self.look_closely(world, config, now_ns);
        }
    }

    #[inline(never)]
    fn look_closely(&mut self, world: &Handle, config: &NetConfig, now_ns: u64) {
        if now_ns >= self.known_until_ns {
            self.read(world, config, now_ns);
        }
        if self.lost {
            return;
        }
        if now_ns >= self.extra_known_until_ns {
            self.read_extra(world, config, now_ns);
        }
        if self.extra_ns == 0 && self.copy_ns.is_none() && self.struck == Struck::default() {
            self.plain_until_ns = self.known_until_ns.min(self.extra_known_until_ns);
        }
    }

    /// How long a message takes that is sent now, if nothing else happens to it. To be asked after a [`Link::look`].
    #[inline]
    pub(super) fn plain(&self, now_ns: u64) -> Option<u64> {
        (now_ns < self.plain_until_ns).then_some(self.latency_ns)
    }

    /// What happens to a message that is sent now. To be asked after a [`Link::look`].
    #[inline]
    pub(super) fn fate(&self) -> Fate {
        if self.lost {
            return Fate::Lost;
        }
        let after_ns = self.latency_ns + self.extra_ns;
        Fate::Arrives { after_ns, copy_ns: self.copy_ns, held_up: self.extra_ns > 0 }
    }

    fn read(&mut self, world: &Handle, config: &NetConfig, now_ns: u64) {
        let key = link_key(self.from, self.to);
        if !self.bases.known {
            self.bases = Bases::of(world, key);
        }
        let bucket = now_ns / BUCKET_NS;
        let at_ns = bucket * BUCKET_NS;
        // Where conditions come from streams, each message has its own.
        let is_lasting = world.chance().is_lasting();
        self.known_until_ns = if is_lasting { at_ns + BUCKET_NS } else { now_ns };
        let latency = world.sample_row(Row::with_base(LATENCY, key, self.bases.latency), bucket, at_ns);
        let base_ns = latency.range(config.latency_min_us * 1_000, config.latency_max_us * 1_000);
        self.latency_ns = base_ns;
        (self.lost, self.copy_ns, self.struck) = (false, None, Struck::default());
        let chances = config.tail_per_million
            | config.slow_per_million
            | config.loss_per_million
            | config.duplicate_per_million;
        if chances > 0 {
            self.read_harshness(world, config, bucket, latency);
        }
        if !self.bursts.is_empty() {
            self.read_bursts(world, config, at_ns, base_ns);
        }
    }

    /// What a link does that is not always as quick as can be.
    #[inline]
    fn read_harshness(&mut self, world: &Handle, config: &NetConfig, bucket: u64, latency: Sample) {
        let (key, at_ns) = (link_key(self.from, self.to), bucket * BUCKET_NS);
        let sample = |field, base| world.sample_row(Row::with_base(field, key, base), bucket, at_ns);
        if config.tail_per_million > 0 && latency.split(0).chance(config.tail_per_million) {
            self.latency_ns *= config.tail_factor;
        }
        if config.slow_per_million > 0 {
            let row = Row::with_base(SLOWNESS, key, self.bases.slowness);
            if world.sample_row(row, SLOWNESS.bucket(at_ns), at_ns).chance(config.slow_per_million) {
                self.latency_ns *= config.slow_factor;
            }
        }
        self.lost =
            config.loss_per_million > 0 && sample(LOSS, self.bases.loss).chance(config.loss_per_million);
        if config.duplicate_per_million > 0 {
            let sample = sample(DUPLICATION, self.bases.duplication);
            if sample.chance(config.duplicate_per_million) {
                let after = sample.split(0).range(0, config.latency_max_us * 1_000);
                self.copy_ns = Some(self.latency_ns + after);
            }
        }
    }

    #[cold]
    fn read_bursts(&mut self, world: &Handle, config: &NetConfig, at_ns: u64, base_ns: u64) {
        let key = link_key(self.from, self.to);
        let (mut slow, mut loss, mut duplication) = (1, 0, 0);
        for (_, burst) in &self.bursts {
            match *burst {
                Burst::Slow { factor } => slow = slow.max(factor),
                Burst::Loss { per_million } => loss = loss.max(per_million),
                Burst::Duplication { per_million } => duplication = duplication.max(per_million),
            }
        }
        // The same fields as without a fault, so that where one is calm it is calm for faults too.
        if slow > 1 && world.sample_at(SLOWNESS, key, at_ns).is_calm() {
            slow = 1;
        }
        let latency_ns = self.latency_ns;
        // Not the tail on top of that: messages that are under way for many seconds outlive the fault, and hold up all that
        // a stream sends after them.
        self.latency_ns = latency_ns.max(base_ns.saturating_mul(slow.into()));
        self.copy_ns = self.copy_ns.map(|copy_ns| copy_ns - latency_ns + self.latency_ns);
        let is_lost = loss > 0 && world.sample_at(LOSS, key, at_ns).split(1).chance(loss);
        let sample = (duplication > 0).then(|| world.sample_at(DUPLICATION, key, at_ns).split(1));
        let copied = sample.filter(|sample| self.copy_ns.is_none() && sample.chance(duplication));
        self.struck = Struck { slowed: slow > 1, lost: is_lost && !self.lost, duplicated: copied.is_some() };
        self.lost |= is_lost;
        if let Some(sample) = copied {
            let after = sample.split(0).range(0, config.latency_max_us * 1_000);
            self.copy_ns = Some(self.latency_ns + after);
        }
    }

    /// The conditions are read anew: of the same bucket, and as the same fields say.
    fn forget(&mut self) {
        let (sent, arrived, bursts) = (self.sent, self.arrived, std::mem::take(&mut self.bursts));
        *self = Self { sent, arrived, bursts, ..Self::new(self.from, self.to) };
    }

    fn read_extra(&mut self, world: &Handle, config: &NetConfig, now_ns: u64) {
        self.extra_ns = 0;
        if config.reorder_per_million == 0 {
            self.extra_known_until_ns = u64::MAX;
            return;
        }
        let is_lasting = world.chance().is_lasting();
        self.extra_known_until_ns = if is_lasting { REORDERING.bucket_end_ns(now_ns) } else { now_ns };
        let bucket = now_ns / REORDERING_BUCKET_NS;
        let row = Row::with_base(REORDERING, link_key(self.from, self.to), self.bases.reordering);
        let sample = world.sample_row(row, bucket, bucket * REORDERING_BUCKET_NS);
        if sample.chance(config.reorder_per_million) {
            self.extra_ns = sample.split(0).range(1_000, (config.reorder_extra_max_us * 1_000).max(1_000));
        }
    }
}

/// All links between nodes that have spoken, and all cuts. A thousand nodes that do not all speak to each
/// other cost four bytes a pair at most.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// By sender, then receiver: the place in `links`, plus one.
    places: Vec<Vec<u32>>,
    links: Vec<Link>,
    /// By sender, then receiver: how many faults hold the link cut.
    cuts: Vec<Vec<u16>>,
    /// The sum of `cuts`.
    held: u64,
}

impl Links {
    #[inline]
    pub(super) fn place(&mut self, from: NodeId, to: NodeId) -> u32 {
        if let Some(row) = self.places.get(from.index())
            && let Some(place) = row.get(to.index())
            && *place > 0
        {
            return *place - 1;
        }
        self.add(from, to)
    }

    #[cold]
    fn add(&mut self, from: NodeId, to: NodeId) -> u32 {
        let place = u32::try_from(self.links.len()).expect("there are at most 2^32 pairs of nodes");
        self.links.push(Link::new(from, to));
        *entry(&mut self.places, from, to) = place + 1;
        place
    }

    #[inline]
    pub(super) fn link(&mut self, place: u32) -> &mut Link {
        &mut self.links[place as usize]
    }

    /// Forgets what is known of the conditions: they are read anew.
    pub(super) fn forget_conditions(&mut self) {
        self.links.iter_mut().for_each(Link::forget);
    }

    /// From now on until [`Links::calm`], the fault does this to the link.
    pub(super) fn burst(&mut self, fault: u64, from: NodeId, to: NodeId, burst: Burst) {
        assert_ne!(from, to, "a node's link to itself is always quick and true");
        let place = self.place(from, to);
        let link = self.link(place);
        link.bursts.push((fault, burst));
        link.forget();
    }

    /// The fault does nothing to any link any more.
    pub(super) fn calm(&mut self, fault: u64) {
        for link in &mut self.links {
            let before = link.bursts.len();
            link.bursts.retain(|(id, _)| *id != fault);
            if link.bursts.len() < before {
                link.forget();
            }
        }
    }

    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        assert_ne!(from, to, "a node's link to itself cannot be cut");
        *entry(&mut self.cuts, from, to) += 1;
        self.held += 1;
    }

    pub(super) fn heal(&mut self, from: NodeId, to: NodeId) {
        // Somebody may have healed all in between.
        if !self.is_cut(from, to) {
            return;
        }
        *entry(&mut self.cuts, from, to) -= 1;
        self.held -= 1;
    }

    pub(super) fn heal_all(&mut self) {
        self.cuts.clear();
        self.held = 0;
    }

    #[inline]
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.held > 0
            && self.cuts.get(from.index()).and_then(|row| row.get(to.index())).is_some_and(|n| *n > 0)
    }
}

fn entry<T: Default + Clone>(rows: &mut Vec<Vec<T>>, from: NodeId, to: NodeId) -> &mut T {
    if rows.len() <= from.index() {
        rows.resize(from.index() + 1, Vec::new());
    }
    let row = &mut rows[from.index()];
    if row.len() <= to.index() {
        row.resize(to.index() + 1, T::default());
    }
    &mut row[to.index()]
}
