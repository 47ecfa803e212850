//! Time as programs see it: each node reads the one time line through its own clock.
//!
//!   global time ──offset, drift──► Instant (restarts at boot, never jumps) ──► sleep, timeout, interval
//!                              └─► wall time (may jump)
//!
//! Invariants: an `Instant` of one incarnation never goes back; with no drift and at the first boot it equals
//! global time since that boot; a clock that drifts beyond its range (584 years) stands at its end, and what
//! waits for a later time waits for ever; a dropped `Sleep` takes its timer out of the queue.
//! Not here: moving the clock (`executor.rs`).

use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::pin::Pin;
use std::task::{Context, Poll};
pub use std::time::Duration;

use pin_project_lite::pin_project;

use crate::context;
use crate::fire::Fire;
use crate::node::NodeId;
use crate::timer::TimerKey;
use crate::world::Handle;

/// A node's own clock: rate and offset against global time.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct NodeClock {
    /// Global time at the latest boot.
    booted_ns: u64,
    /// How much faster than global time it runs, in parts per million.
    drift_ppm: i32,
    /// Local time that had passed when the drift last changed, and when that was.
    local_base_ns: u64,
    global_base_ns: u64,
    /// What wall time is ahead of global time by.
    wall_offset_ns: i64,
    /// How much of that is due to steps that have not been taken back.
    stepped_ns: i64,
}

const MILLION: i128 = 1_000_000;

impl NodeClock {
    pub(crate) fn boot(&mut self, now_ns: u64) {
        (self.booted_ns, self.global_base_ns, self.local_base_ns) = (now_ns, now_ns, 0);
    }

    /// Wall time at global `now_ns`, in nanoseconds since the Unix epoch.
    pub(crate) fn wall_ns(&self, now_ns: u64) -> u64 {
        START_NS.saturating_add(now_ns).saturating_add_signed(self.wall_offset_ns)
    }

    fn set_drift(&mut self, now_ns: u64, drift_ppm: i32) {
        self.local_base_ns = self.local_ns(now_ns);
        (self.global_base_ns, self.drift_ppm) = (now_ns, drift_ppm);
    }

    /// Local nanoseconds since boot at global `now_ns`.
    #[inline]
    pub(crate) fn local_ns(&self, now_ns: u64) -> u64 {
        let passed = now_ns - self.global_base_ns;
        if self.drift_ppm == 0 {
            return self.local_base_ns.saturating_add(passed);
        }
        // The rate is positive, so what does not fit is too large.
        let scaled = i128::from(passed) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        self.local_base_ns.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The first global time at which `duration_ns` have passed on the clock, from global `now_ns` on.
    #[inline]
    fn after_ns(&self, now_ns: u64, duration_ns: u64) -> u64 {
        if self.drift_ppm == 0 {
            return now_ns.saturating_add(duration_ns);
        }
        self.global_ns(self.local_ns(now_ns).saturating_add(duration_ns))
    }

    /// The first global time at which the clock shows `local_ns`, if it goes on at this rate. The end of the
    /// clock's range never comes.
    #[inline]
    fn global_ns(&self, local_ns: u64) -> u64 {
        if local_ns == u64::MAX {
            return u64::MAX;
        }
        let ahead = local_ns.saturating_sub(self.local_base_ns);
        if self.drift_ppm == 0 {
            return self.global_base_ns.saturating_add(ahead);
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        let passed = (i128::from(ahead) * MILLION + rate - 1) / rate;
        self.global_base_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// A point on the monotonic clock of a node's incarnation: nanoseconds since its boot.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instant(u64);

impl Instant {
    /// Now, on the caller's node.
    ///
    /// # Panics
    /// Outside a run.
    #[track_caller]
    pub fn now() -> Self {
        let now = context::with(|handle| Self(handle.local_ns(handle.owner().node)));
        now.expect("no simulation runs on this thread: call this from a task of a World")
    }

    /// Time since `earlier`; zero when that is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time since this instant.
    #[track_caller]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Durations beyond 584 years are as good as for ever.
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

/// When a run begins, in nanoseconds since the Unix epoch: 2020-01-01.
const START_NS: u64 = 1_577_836_800_000_000_000;

/// Wall time on the caller's node, as a duration since the Unix epoch. A run begins on 2020-01-01.
///
/// # Panics
/// Outside a run.
#[track_caller]
pub fn wall_now() -> Duration {
    let handle = context::current();
    let clock = handle.core.agenda.borrow().nodes[handle.owner().node.index()].clock;
    if clock.stepped_ns != 0 {
        handle.count(STEPPED, 1);
    }
    Duration::from_nanos(clock.wall_ns(handle.now_ns()))
}

/// How many waits began on a clock that drifted.
pub const DRIFTING: &str = "waits on a drifting clock";

/// How often a program read a wall clock that [`Handle::step_wall`] had moved.
pub const STEPPED: &str = "wall times read after a step";

impl Handle {
    #[cold]
    fn count_drifting(&self) {
        self.count(DRIFTING, 1);
    }

    fn local_ns(&self, node: NodeId) -> u64 {
        self.core.agenda.borrow().nodes[node.index()].clock.local_ns(self.now_ns())
    }

    /// From now on the node's clocks run `drift_ppm` parts per million faster than global time. Sleeps that
    /// are under way keep the deadline that they were given.
    ///
    /// # Panics
    /// At or below -1,000,000: time would stand still.
    pub fn set_drift(&self, node: NodeId, drift_ppm: i32) {
        assert!(drift_ppm > -1_000_000, "drift of {drift_ppm} ppm: time would stand still");
        self.core.agenda.borrow_mut().nodes[node.index()].clock.set_drift(self.now_ns(), drift_ppm);
    }

    /// How many parts per million faster than global time the node's clocks run.
    pub fn drift_ppm(&self, node: NodeId) -> i32 {
        self.core.agenda.borrow().nodes[node.index()].clock.drift_ppm
    }

    /// The node's wall clock jumps by `by_ns`, as when it is set by hand or by NTP. Its `Instant` does not move.
    pub fn step_wall(&self, node: NodeId, by_ns: i64) {
        let clock = &mut self.core.agenda.borrow_mut().nodes[node.index()].clock;
        clock.wall_offset_ns = clock.wall_offset_ns.saturating_add(by_ns);
        clock.stepped_ns = clock.stepped_ns.saturating_add(by_ns);
    }

    /// Sets what the node's wall clock is ahead of global time by. Its `Instant` does not move.
    pub fn set_wall_offset(&self, node: NodeId, ahead_ns: i64) {
        self.core.agenda.borrow_mut().nodes[node.index()].clock.wall_offset_ns = ahead_ns;
    }
}

/// Waits for `duration` on the caller's node clock.
///
/// # Panics
/// When polled first outside a run.
pub fn sleep(duration: Duration) -> Sleep {
    Sleep { state: SleepState::After(nanos(duration)) }
}

/// Waits until `deadline` on the caller's node clock.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { state: SleepState::Until(deadline) }
}

/// The future of [`sleep`] and [`sleep_until`]. The wait of `sleep` begins at the first poll.
#[derive(Debug)]
#[must_use = "a sleep that is not awaited does not wait"]
pub struct Sleep {
    state: SleepState,
}

#[derive(Debug)]
enum SleepState {
    After(u64),
    Until(Instant),
    Waiting { handle: Handle, key: TimerKey, deadline_ns: u64 },
    Never { handle: Handle },
    Done,
}

impl Sleep {
    /// Whether the time has come and was noticed.
    pub fn is_elapsed(&self) -> bool {
        matches!(self.state, SleepState::Done)
    }

    #[cold]
    fn poll_never(&self) -> Poll<()> {
        if let SleepState::Never { handle } = &self.state {
            handle.note_waiting("the end of time");
        }
        Poll::Pending
    }

    #[inline(never)]
    fn begin(&mut self, cx: &Context<'_>) -> Poll<()> {
        let handle = context::current();
        let now_ns = handle.now_ns();
        let fire = Fire::waking(cx.waker());
        let mut agenda = handle.core.agenda.borrow_mut();
        let clock = &agenda.nodes[handle.owner().node.index()].clock;
        if clock.drift_ppm != 0 {
            handle.count_drifting();
        }
        let deadline_ns = match self.state {
            SleepState::After(duration_ns) => clock.after_ns(now_ns, duration_ns),
            SleepState::Until(Instant(local_ns)) => clock.global_ns(local_ns),
            SleepState::Waiting { .. } | SleepState::Never { .. } | SleepState::Done => {
                unreachable!("begin is called once")
            }
        };
        if deadline_ns <= now_ns {
            self.state = SleepState::Done;
            return Poll::Ready(());
        }
        if deadline_ns == u64::MAX {
            // Beyond the end of time: no timer, so that a run in which nothing else can happen is seen to be stuck.
            drop(agenda);
            self.state = SleepState::Never { handle };
            return self.poll_never();
        }
        let key = agenda.timers.insert(deadline_ns, fire);
        drop(agenda);
        handle.note_waiting("a timer");
        self.state = SleepState::Waiting { handle, key, deadline_ns };
        Poll::Pending
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.state {
            SleepState::Done => Poll::Ready(()),
            SleepState::Never { .. } => self.poll_never(),
            SleepState::After(_) | SleepState::Until(_) => self.begin(cx),
            SleepState::Waiting { handle, key, deadline_ns } => {
                if handle.now_ns() < *deadline_ns {
                    rewake(handle, *key, cx);
                    return Poll::Pending;
                }
                // Whatever was due by now has fired before any task ran.
                self.state = SleepState::Done;
                Poll::Ready(())
            }
        }
    }
}

/// A sleep is polled before its time, perhaps by another task.
#[inline(never)]
fn rewake(handle: &Handle, key: TimerKey, cx: &Context<'_>) {
    let fire = Fire::waking(cx.waker());
    let before = handle.core.agenda.borrow_mut().timers.rewake(key, fire);
    drop(before);
    handle.note_waiting("a timer");
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let SleepState::Waiting { handle, key, .. } = &self.state {
            let cancelled = handle.core.agenda.borrow_mut().timers.cancel(*key);
            drop(cancelled);
        }
    }
}

/// The time was up before the future was done.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the deadline has passed")]
pub struct Elapsed;

pin_project! {
    /// The future of [`timeout`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        #[pin]
        sleep: Sleep,
    }
}

/// Gives `future` the time `duration` to finish. If both are due at one moment, the future wins.
///
/// # Errors
/// [`Elapsed`] when the time is up; the future is dropped with the `Timeout`.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future, sleep: sleep(duration) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.future.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        this.sleep.poll(cx).map(|()| Err(Elapsed))
    }
}

/// Ticks every `period`, at once for the first time. A tick that is late does not delay the later ones; ticks
/// that were missed altogether come at once, one after the other.
///
/// # Panics
/// If `period` is zero, or outside a run.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of zero would tick for ever in one instant");
    Interval { period, next: Instant::now() }
}

/// See [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    next: Instant,
}

impl Interval {
    /// Waits for the next tick and returns when it was due.
    pub async fn tick(&mut self) -> Instant {
        let due = self.next;
        sleep_until(due).await;
        self.next += self.period;
        due
    }
}
