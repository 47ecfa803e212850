//! The first of several futures, tried in the order in which they are written.
//!
//! `futures::select!` shuffles its branches with a generator that is seeded per thread from a process-wide
//! counter: the second run in a process takes other branches than the first. Nothing here draws anything.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Which of two was first.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Either<L, R> {
    /// The first.
    Left(L),
    /// The second.
    Right(R),
}

pin_project! {
    /// The future of [`race`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Race<L, R> {
        #[pin]
        left: L,
        #[pin]
        right: R,
    }
}

/// Waits for the first of two futures; when both are done, it is the left one. The other is dropped with the
/// `Race`, or goes on when it was passed by `&mut`.
pub fn race<L: Future, R: Future>(left: L, right: R) -> Race<L, R> {
    Race { left, right }
}

impl<L: Future, R: Future> Future for Race<L, R> {
    type Output = Either<L::Output, R::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.left.poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        this.right.poll(cx).map(Either::Right)
    }
}

/// Waits for the first of several futures and runs its arm. Branches are polled in the order written; the
/// others are dropped before the arm runs.
///
/// ```
/// # let mut world = sim_runtime::World::new(1, Default::default());
/// # world.run(async {
/// use sim_runtime::{select, time::sleep};
/// use std::time::Duration;
/// let first = select! {
///     () = sleep(Duration::from_millis(2)) => "slow",
///     () = sleep(Duration::from_millis(1)) => "fast",
/// };
/// assert_eq!(first, "fast");
/// # });
/// ```
#[macro_export]
macro_rules! select {
    ($pattern:pat = $future:expr => $arm:expr $(,)?) => {{
        let $pattern = $future.await;
        $arm
    }};
    ($pattern:pat = $future:expr => $arm:expr, $($rest:tt)+) => {
        $crate::__select_fold!([] $pattern = $future => $arm, $($rest)+)
    };
}

/// Builds nested races for [`select!`]; not for direct use.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_fold {
    ([$(($p:pat, $f:expr, $a:expr))*] $pattern:pat = $future:expr => $arm:expr, $($rest:tt)+) => {
        $crate::__select_fold!([$(($p, $f, $a))* ($pattern, $future, $arm)] $($rest)+)
    };
    ([$(($p:pat, $f:expr, $a:expr))*] $pattern:pat = $future:expr => $arm:expr $(,)?) => {
        $crate::__select_run!($(($p, $f, $a))* ($pattern, $future, $arm))
    };
}

/// Runs what [`select!`] collected; not for direct use.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_run {
    (($p1:pat, $f1:expr, $a1:expr) ($p2:pat, $f2:expr, $a2:expr)) => {
        match $crate::sync::race($f1, $f2).await {
            $crate::sync::Either::Left($p1) => $a1,
            $crate::sync::Either::Right($p2) => $a2,
        }
    };
    (($p1:pat, $f1:expr, $a1:expr) ($p2:pat, $f2:expr, $a2:expr) ($p3:pat, $f3:expr, $a3:expr)) => {
        match $crate::sync::race($f1, $crate::sync::race($f2, $f3)).await {
            $crate::sync::Either::Left($p1) => $a1,
            $crate::sync::Either::Right($crate::sync::Either::Left($p2)) => $a2,
            $crate::sync::Either::Right($crate::sync::Either::Right($p3)) => $a3,
        }
    };
    (($p1:pat, $f1:expr, $a1:expr) ($p2:pat, $f2:expr, $a2:expr) ($p3:pat, $f3:expr, $a3:expr)
     ($p4:pat, $f4:expr, $a4:expr)) => {
        match $crate::sync::race($crate::sync::race($f1, $f2), $crate::sync::race($f3, $f4)).await {
            $crate::sync::Either::Left($crate::sync::Either::Left($p1)) => $a1,
            $crate::sync::Either::Left($crate::sync::Either::Right($p2)) => $a2,
            $crate::sync::Either::Right($crate::sync::Either::Left($p3)) => $a3,
            $crate::sync::Either::Right($crate::sync::Either::Right($p4)) => $a4,
        }
    };
}
