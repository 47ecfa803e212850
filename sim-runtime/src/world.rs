//! The owner of one run, and the handle that everyone else holds.
//!
//!   World ──owns──► Core { clock, agenda (tasks, timers, nodes), fields, trace, devices, windows }
//!   tasks, devices, harness ──hold──► Handle (a counted pointer to Core)
//!
//! Invariants: two worlds share nothing; a `RefCell` borrow ends before an await, a wake, a drop of a future
//! or a callback (but that of a scheduler); dropping the `World` drops every task, and with them the last handles.
//! Not here: the loop (`executor.rs`), what it goes by (`agenda.rs`).

use std::any::TypeId;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::agenda::{Agenda, Holds};
use crate::ambient::Ambient;
use crate::assert::Sites;
use crate::context;
use crate::determinism::{Tape, arranged};
use crate::device::{AnyDevice, DEVICES, Device, DeviceId};
use crate::event::Events;
use crate::explore::Scout;
use crate::fire::Fire;
use crate::node::{Node, NodeId, Owner};
pub use crate::options::Options;
use crate::probe::Windows;
use crate::rng::{Chance, Draws, Field, Fields, Row, Sample, Stream, hash_name, mix};
use crate::schedule::{Ranking, Scheduler, TaskInfo};
use crate::timer::TimerKey;
use crate::trace::{Payload, Record, Trace};
use crate::verdict::{Category, Failure, Findings};
use crate::waker::{Inbox, Registered, TaskRef, WorldNumber};

/// The code that runs now.
#[derive(Copy, Clone)]
pub(crate) struct Current {
    pub(crate) owner: Owner,
    /// As in records: its number, plus one; 0 for devices and the runtime.
    pub(crate) task: u32,
    /// Its place in the task list, if it is a task.
    slot: u32,
    pub(crate) identity: u64,
}

impl Current {
    pub(crate) const HOST: Self = Self::of(Owner::HOST);

    /// A device or the runtime, on behalf of `owner`.
    const fn of(owner: Owner) -> Self {
        Self { owner, task: 0, slot: 0, identity: 0 }
    }

    #[inline]
    pub(crate) fn task(task: TaskRef, number: u32, info: TaskInfo) -> Self {
        Self { owner: info.owner, task: number + 1, slot: task.slot(), identity: info.identity }
    }

    /// The place of the task in the list.
    pub(crate) fn slot(self) -> Option<u32> {
        (self.task != 0).then_some(self.slot)
    }
}

/// Everything that changes in a run.
pub(crate) struct Core {
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) now_ns: Cell<u64>,
    pub(crate) agenda: RefCell<Agenda>,
    pub(crate) born: Cell<u64>,
    /// The task with whose end the run ends.
    pub(crate) main: Cell<Option<TaskRef>>,
    last_place: Cell<(Option<&'static Location<'static>>, u64)>,
    pub(crate) roles_taken: Cell<u64>,
    pub(crate) current: Cell<Current>,
    /// An incarnation that is known to be alive, in one word: that of the task which was polled last, until some node goes
    /// down. Most handles that ask are in its hands.
    pub(crate) alive: Cell<u64>,
    /// Invariants are looking: nothing may be appended.
    pub(crate) observing: Cell<bool>,
    pub(crate) waiting: Cell<&'static str>,
    pub(crate) draws: Draws,
    /// Where everything is noted, when this run is compared with another.
    pub(crate) tape: Option<Rc<Tape>>,
    pub(crate) ambient: Ambient,
    pub(crate) fields: Fields,
    pub(crate) trace: RefCell<Trace>,
    pub(crate) events: RefCell<Events>,
    pub(crate) windows: RefCell<Windows>,
    pub(crate) counters: RefCell<BTreeMap<&'static str, u64>>,
    pub(crate) holds: Holds,
    /// What happened at the assertions.
    pub(crate) sites: RefCell<Sites>,
    /// Who watches the run for a search.
    pub(crate) scout: Option<Rc<Scout>>,
    pub(crate) findings: RefCell<Findings>,
    /// Set when the run must end before its main task does.
    pub(crate) ended: Cell<bool>,
    /// Set when the executor has to look at something that is not looked at after every step.
    pub(crate) attention: Cell<bool>,
    devices: [OnceCell<(TypeId, Rc<dyn AnyDevice>)>; DEVICES],
    registered: Registered,
}

impl Core {
    #[inline]
    pub(crate) fn inbox(&self) -> &Inbox {
        &self.registered.inbox
    }

    /// A hash of a line of code. The last one is remembered, as tasks without a name are started in loops.
    #[inline]
    pub(crate) fn hash_of_place(&self, place: &'static Location<'static>) -> u64 {
        let (known, hash) = self.last_place.get();
        if known.is_some_and(|known| std::ptr::eq(known, place)) {
            return hash;
        }
        let hash = mix(hash_name(place.file()), u64::from(place.line()) << 32 | u64::from(place.column()));
        self.last_place.set((Some(place), hash));
        hash
    }

    /// The run must end before its main task does.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.attention.set(true);
    }

    /// Which of the process's worlds this is.
    #[inline]
    pub(crate) fn number(&self) -> WorldNumber {
        self.registered.number
    }

    /// A task is to be polled again, if it is there and not about to be.
    #[inline]
    pub(crate) fn wake(&self, task: TaskRef) {
        self.agenda.borrow_mut().wake(self, task);
    }
}

/// A cheap handle to a running world.
#[derive(Clone)]
pub struct Handle {
    pub(crate) core: Rc<Core>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("seed", &self.core.seed).field("now_ns", &self.now_ns()).finish()
    }
}

impl Handle {
    pub(crate) fn of(core: Rc<Core>) -> Self {
        Self { core }
    }

    /// The world that runs on this thread.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn current() -> Self {
        context::current()
    }

    /// The world that runs on this thread, if any.
    pub fn try_current() -> Option<Self> {
        context::try_current()
    }

    /// Global virtual time in nanoseconds since the run began.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns.get()
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.core.seed
    }

    /// What `field` says about `key` now.
    #[inline]
    pub fn sample(&self, field: Field, key: u64) -> Sample {
        self.core.fields.read(field, key, self.now_ns())
    }

    /// What `field` says about `key` in the bucket of `at_ns`.
    #[inline]
    pub fn sample_at(&self, field: Field, key: u64, at_ns: u64) -> Sample {
        self.core.fields.read(field, key, at_ns)
    }

    /// Where conditions come from.
    pub fn chance(&self) -> Chance {
        self.core.fields.chance()
    }

    /// `field` at `key`, in all buckets, to be read by [`Handle::sample_row`].
    pub fn row(&self, field: Field, key: u64) -> Row {
        self.core.fields.row(field, key)
    }

    /// What the field of `row` says in its bucket number `bucket`, which contains `at_ns`.
    #[inline]
    pub fn sample_row(&self, row: Row, bucket: u64, at_ns: u64) -> Sample {
        self.core.fields.read_row(row, bucket, at_ns)
    }

    /// What `field` says about `key`, at whatever time.
    #[inline]
    pub fn sample_fixed(&self, field: Field, key: u64) -> Sample {
        self.core.fields.read_fixed(field, key, self.now_ns())
    }

    /// A stream of its own for (`name`, `key`), from its beginning.
    pub fn stream(&self, name: &str, key: u64) -> Stream {
        let seed = mix(mix(self.core.seed, hash_name(name)), key);
        let seed = self.core.fields.reseeded_streams(self.now_ns()).map_or(seed, |by| mix(seed, by));
        if let Some(tape) = &self.core.tape {
            tape.name_stream(seed, format!("{name:?} at {key}"));
        }
        Stream::new(seed, self.core.draws.clone())
    }

    pub(crate) fn node_stream<R>(&self, draw: impl FnOnce(&mut Stream) -> R) -> R {
        let reseeded = self.core.fields.reseeded_streams(self.now_ns());
        let mut agenda = self.core.agenda.borrow_mut();
        let stream = &mut agenda.nodes[self.owner().node.index()].stream;
        if let Some(by) = reseeded {
            stream.reseed_once(by);
        }
        draw(stream)
    }

    /// The world's device of type `D`, created at first use.
    ///
    /// # Panics
    /// If another type of device has the same id.
    pub fn device<D: Device>(&self) -> Rc<D> {
        let slot = &self.core.devices[usize::from(D::ID.0)];
        let (_, device) = slot.get_or_init(|| (TypeId::of::<D>(), Rc::new(D::new(self))));
        device.clone().as_any().downcast().expect("a device id belongs to one type")
    }

    pub(crate) fn devices(&self) -> impl Iterator<Item = &Rc<dyn AnyDevice>> {
        self.core.devices.iter().filter_map(|slot| slot.get().map(|(_, device)| device))
    }

    #[inline]
    pub(crate) fn fire_device(&self, id: DeviceId, token: u64) {
        if let Some((_, device)) = self.core.devices[usize::from(id.0)].get() {
            device.fire(self, token);
        }
    }

    /// Calls [`Device::fire`] with `token` at `deadline_ns` (now, when that is past).
    #[inline]
    pub fn at(&self, deadline_ns: u64, device: DeviceId, token: u64) -> TimerKey {
        let deadline_ns = deadline_ns.max(self.now_ns());
        self.core.agenda.borrow_mut().timers.insert(deadline_ns, Fire::Device(device, token))
    }

    /// Takes a timer back; false when it has fired or was cancelled before.
    pub fn cancel(&self, key: TimerKey) -> bool {
        let fire = self.core.agenda.borrow_mut().timers.cancel(key);
        fire.is_some()
    }

    /// How many timers are pending.
    pub fn pending_timers(&self) -> usize {
        self.core.agenda.borrow().timers.len()
    }

    /// How many tasks are alive.
    pub fn living_tasks(&self) -> usize {
        self.core.agenda.borrow().tasks.len()
    }

    /// The incarnation whose code runs now; the host between tasks.
    #[inline]
    pub fn owner(&self) -> Owner {
        self.core.current.get().owner
    }

    pub(crate) fn current_identity(&self) -> u64 {
        self.core.current.get().identity
    }

    /// Runs `f` as if it were code of `owner`, outside any task: devices use it to act for a node.
    pub(crate) fn acting_for<R>(&self, owner: Owner, f: impl FnOnce() -> R) -> R {
        let before = self.core.current.replace(Current::of(owner));
        let result = f();
        self.core.current.set(before);
        result
    }

    /// Whether that incarnation is still alive. Whatever holds a handle for a node asks this before it acts.
    #[inline]
    pub fn is_live(&self, owner: Owner) -> bool {
        self.core.alive.get() == owner.bits() || self.core.agenda.borrow().is_live(owner)
    }

    /// Appends a record on behalf of the code that runs now.
    #[inline]
    pub fn emit<P: Payload>(&self, payload: P) {
        let current = self.core.current.get();
        self.push_record(current.owner, current.task, payload);
    }

    /// Appends a record on behalf of `owner`; for devices.
    #[inline]
    pub fn emit_for<P: Payload>(&self, owner: Owner, payload: P) {
        self.push_record(owner, 0, payload);
    }

    #[inline]
    fn push_record<P: Payload>(&self, owner: Owner, task: u32, payload: P) {
        let (aux, words) = payload.encode();
        let Owner { node, incarnation } = owner;
        let time_ns = self.now_ns();
        {
            let mut trace = self.core.trace.borrow_mut();
            trace.push(Record { time_ns, node, kind: P::KIND, task, incarnation, aux, words });
            if trace.wants_look() {
                self.core.attention.set(true);
            }
        }
        if self.core.tape.is_some() || self.core.scout.is_some() {
            self.show_last_record();
        }
    }

    /// Read back from the trace, so that a record is written to its place at once where nobody follows the run.
    #[cold]
    fn show_last_record(&self) {
        let last = *self.core.trace.borrow().held().1.last().expect("one was appended");
        if let Some(tape) = &self.core.tape {
            tape.record(last);
        }
        if let Some(scout) = &self.core.scout {
            scout.record(&last);
        }
    }

    /// Counts something for the coverage table. Not for every message: devices keep their own counters.
    pub fn count(&self, name: &'static str, n: u64) {
        *self.core.counters.borrow_mut().entry(name).or_default() += n;
    }

    /// Says what a run came to beside records and verdict: a history, a returned value. Asked for the text only when
    /// the run is compared with another.
    pub fn note_output(&self, what: &'static str, text: impl FnOnce() -> String) {
        if let Some(tape) = &self.core.tape {
            tape.end(what, text());
        }
    }

    /// Puts a failure on record, as the harness's own judgement.
    pub fn fail(&self, category: Category, property: &str, shape: &str, evidence: String) {
        let failure = Failure {
            category,
            property: property.to_owned(),
            shape: shape.to_owned(),
            evidence,
            time_ns: self.now_ns(),
            record: self.core.trace.borrow().len(),
        };
        self.core.findings.borrow_mut().failures.push(failure);
    }

    /// Says what the current task waits for, for the list of a run in which nothing can run any more.
    #[inline]
    pub fn note_waiting(&self, what: &'static str) {
        self.core.waiting.set(what);
    }

    /// Adds a node that is not booted yet; `boot` makes its main future at every boot, and when that future
    /// returns the process has ended. The caller's line is shown as the place where the main task is spawned.
    #[track_caller]
    pub fn add_node<F>(&self, name: &str, boot: impl Fn() -> F + 'static) -> NodeId
    where
        F: Future<Output = ()> + 'static,
    {
        self.add_node_from(Location::caller(), name, boot)
    }

    /// The same for a harness that was given the program at another line than its own.
    pub fn add_node_from<F>(
        &self,
        place: &'static Location<'static>,
        name: &str,
        boot: impl Fn() -> F + 'static,
    ) -> NodeId
    where
        F: Future<Output = ()> + 'static,
    {
        let boot = Rc::new(move || -> LocalBoxFuture<'static, ()> { boot().boxed_local() });
        let nodes = &mut self.core.agenda.borrow_mut().nodes;
        let id = NodeId(u16::try_from(nodes.len()).expect("fewer than 65,536 nodes"));
        let stream = Stream::new(0, self.core.draws.clone());
        nodes.push(Node::new(name.to_owned(), Some(boot), place, stream));
        id
    }
}

/// The owner of one run.
pub struct World {
    pub(crate) handle: Handle,
    pub(crate) invariants: Vec<Box<dyn crate::invariant::Invariant>>,
    pub(crate) steps: u64,
    /// How many steps had been taken when time last moved.
    pub(crate) instant_began: u64,
    /// How often it has moved, modulo 2^32.
    pub(crate) instants: u32,
}

impl World {
    /// A world in which nothing has happened. Everything in it follows from `seed` and `options`.
    pub fn new(seed: u64, options: Options) -> Self {
        let (tape, salts) = arranged();
        let scout = crate::explore::sent();
        let draws = Draws::onto(tape.clone());
        if let Some(tape) = &tape {
            tape.name_stream(seed, "the host's".to_owned());
        }
        let ambient = Ambient::new(options.ambient, salts);
        let host = {
            let mut host =
                Node::new("host".to_owned(), None, Location::caller(), Stream::new(seed, draws.clone()));
            (host.incarnation, host.up) = (1, true);
            host
        };
        let core = Core {
            seed,
            now_ns: Cell::new(0),
            agenda: RefCell::new(Agenda::new(Ranking::new(options.schedule, options.chance, seed), host)),
            born: Cell::new(0),
            main: Cell::new(None),
            last_place: Cell::new((None, 0)),
            roles_taken: Cell::new(0),
            current: Cell::new(Current::HOST),
            alive: Cell::new(Owner::NOBODY),
            observing: Cell::new(false),
            waiting: Cell::new(""),
            fields: Fields::new(seed, options.overrides.clone(), options.chance, draws.clone()),
            draws,
            tape,
            ambient,
            trace: RefCell::new(Trace::new(options.keep_trace)),
            events: RefCell::default(),
            windows: RefCell::default(),
            counters: RefCell::default(),
            holds: Holds::default(),
            sites: RefCell::new(Sites::new(scout.is_some())),
            scout,
            findings: RefCell::default(),
            ended: Cell::new(false),
            attention: Cell::new(false),
            devices: Default::default(),
            registered: Registered::new(),
            options,
        };
        Self {
            handle: Handle { core: Rc::new(core) },
            invariants: Vec::new(),
            steps: 0,
            instant_began: 0,
            instants: 0,
        }
    }

    /// A handle to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Has `invariant` look at the trace after every step.
    pub fn watch(&mut self, invariant: impl crate::invariant::Invariant + 'static) {
        self.handle.core.trace.borrow_mut().look_at(|kind| invariant.concerns(kind));
        self.invariants.push(Box::new(invariant));
    }

    /// Uses a scheduler of the caller's own instead of the one in the options.
    pub fn schedule_with(&mut self, scheduler: impl Scheduler + 'static) {
        let ranking = Ranking::Custom(Box::new(scheduler));
        let before = std::mem::replace(&mut self.handle.core.agenda.borrow_mut().ranking, ranking);
        // Outside the borrow: what it holds may call the world.
        drop(before);
    }
}
