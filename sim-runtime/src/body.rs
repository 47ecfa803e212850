//! What the world holds of a task: its future, and afterwards what came of it.
//!
//!   future ──polled──► done, panicked or dropped ──► what came of it ──given to who joins──► spent ──► the next future
//!
//! A body outlives its task: the next task of the same type that takes its place is put into it, so that starting tasks
//! of one kind again and again allocates nothing.
//!
//! Invariants: a future is dropped before anyone hears what came of it; a panic, in a poll or in a drop, is a finding; one
//! that has panicked is never polled again.
//! Not here: when a task is polled (`executor.rs`), who may still ask for what came of it (`tasks.rs`).

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::context;
use crate::panics::payload_text;
use crate::task::JoinError;

/// A body, whatever its future is.
pub(crate) type Body = Pin<Box<dyn Work>>;

/// What can be done with a body without knowing its type. All but `refill` and `give` may run code of programs.
pub(crate) trait Work {
    /// Polls the future; `Ready` when it is gone and something came of it.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops the future where it stands.
    fn cancel(self: Pin<&mut Self>);

    /// Drops what came of it.
    fn forget(self: Pin<&mut Self>);

    /// Moves what came of it to `came`, which is an empty `Option<Result<_, JoinError>>` of its type.
    fn give(self: Pin<&mut Self>, came: &mut dyn Any);

    /// What came of it, in a body of its own.
    fn remains(self: Pin<&mut Self>) -> Body;

    /// Takes the future out of an `Option` if it is of its type; a spent body only.
    fn refill(self: Pin<&mut Self>, future: &mut dyn Any) -> bool;
}

/// What is kept of the body of a task that is over: all of it, for the next task, or what came of it if it is large.
#[inline]
pub(crate) fn kept(mut body: Body) -> Body {
    if size_of_val(&*body) > KEPT_BYTES { body.as_mut().remains() } else { body }
}

/// A body for `future`: the spent one, if it fits.
#[inline]
pub(crate) fn embody<F>(spent: Option<Body>, future: F) -> Body
where
    F: Future + 'static,
    F::Output: 'static,
{
    let mut future = Some(future);
    if let Some(mut body) = spent
        && body.as_mut().refill(&mut future)
    {
        return body;
    }
    Box::pin(Typed { future, came: None })
}

/// Bodies that are larger are not kept: as many as there ever were tasks at once would stay until the end of the world.
const KEPT_BYTES: usize = 1_024;

pin_project! {
    struct Typed<F: Future> {
        #[pin]
        future: Option<F>,
        came: Option<Result<F::Output, JoinError>>,
    }
}

/// A panic in the drop is a finding.
fn drop_future<F>(mut future: Pin<&mut Option<F>>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| future.set(None))) {
        let text = format!("while it was dropped: {}", payload_text(&*payload));
        context::current().note_panic(&text);
    }
}

impl<F> Work for Typed<F>
where
    F: Future + 'static,
    F::Output: 'static,
{
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let future = this.future.as_mut().as_pin_mut().expect("a body that is polled has its future");
        let came = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => Err(JoinError::Panicked(context::current().note_panic(payload_text(&*payload)))),
        };
        drop_future(this.future);
        *this.came = Some(came);
        Poll::Ready(())
    }

    fn cancel(self: Pin<&mut Self>) {
        let this = self.project();
        drop_future(this.future);
        *this.came = Some(Err(JoinError::Cancelled));
    }

    fn forget(self: Pin<&mut Self>) {
        *self.project().came = None;
    }

    #[inline]
    fn give(self: Pin<&mut Self>, came: &mut dyn Any) {
        let came = came.downcast_mut().expect("a handle has the type of its task");
        *came = self.project().came.take();
    }

    fn remains(self: Pin<&mut Self>) -> Body {
        Box::pin(Remains { came: self.project().came.take() })
    }

    #[inline]
    fn refill(self: Pin<&mut Self>, future: &mut dyn Any) -> bool {
        let Some(future) = future.downcast_mut::<Option<F>>() else { return false };
        self.project().future.set(future.take());
        true
    }
}

/// What came of a task whose body was not kept.
struct Remains<T> {
    came: Option<Result<T, JoinError>>,
}

// Nothing in it is ever pinned.
impl<T> Unpin for Remains<T> {}

impl<T: 'static> Work for Remains<T> {
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        unreachable!("a task that is over is not polled")
    }

    fn cancel(self: Pin<&mut Self>) {}

    fn forget(self: Pin<&mut Self>) {
        self.get_mut().came = None;
    }

    fn give(self: Pin<&mut Self>, came: &mut dyn Any) {
        let came = came.downcast_mut().expect("a handle has the type of its task");
        *came = self.get_mut().came.take();
    }

    fn remains(self: Pin<&mut Self>) -> Body {
        Box::pin(Self { came: self.get_mut().came.take() })
    }

    fn refill(self: Pin<&mut Self>, _future: &mut dyn Any) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn what_is_large_is_not_kept_for_the_next_task() {
        let large = [7_u8; 100_000];
        let mut body = embody(None, async move {
            std::future::ready(()).await;
            large.len()
        });
        assert!(size_of_val(&*body) > 100_000);
        assert_eq!(body.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        let mut remains = kept(body);
        assert!(size_of_val(&*remains) < 100);
        let mut came: Option<Result<usize, JoinError>> = None;
        remains.as_mut().give(&mut came);
        assert_eq!(came, Some(Ok(100_000)));
        // A small one is, and the next future of its kind is put into it.
        let kind = || async { 3_u8 };
        let mut small = embody(Some(remains), kind());
        assert_eq!(small.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        let place = std::ptr::from_ref(&*small).addr();
        let mut small = kept(small);
        small.as_mut().forget();
        assert_eq!(std::ptr::from_ref(&*embody(Some(small), kind())).addr(), place);
    }
}
