//! Whether `futures::select!` shuffled branches on this thread.
//!
//! Its generator is a thread-local that is seeded at first use from a counter of the process, so neither a door nor the
//! trace shows it. But it can be asked, by selecting: a generator that nobody has used yet makes the first choices of
//! *some* value of the counter, and after use it makes others.
//!
//! It is asked for the `futures` that this crate is built with; programs with another major version have another
//! generator.

use std::hash::{DefaultHasher, Hasher};

use futures::FutureExt;
use futures::future::ready;

/// The choices that are compared, a bit each: two generators agree in all of them once in 2^64.
type Choices = u64;

/// How far the counter is followed. One that has gone further cannot be told.
const FURTHEST: usize = 100_000;

/// Whether a choice was drawn on this thread before; `None` when that cannot be told. Draws some itself.
pub(super) fn was_drawn_on_this_thread() -> Option<bool> {
    if is_fresh(choose()) {
        return Some(false);
    }
    // On a thread that certainly has not drawn: does the counter still lie in the range, and is it computed so?
    let fresh = std::thread::scope(|scope| scope.spawn(choose).join()).ok()?;
    is_fresh(fresh).then_some(true)
}

/// Selects between two futures that are ready, again and again.
#[expect(clippy::disallowed_macros, reason = "it is this macro that is asked")]
fn choose() -> Choices {
    let choice = |_| {
        let (mut zero, mut one) = (ready(0).fuse(), ready(1).fuse());
        let choice = async { futures::select!(zero = zero => zero, one = one => one) };
        choice.now_or_never().expect("both are ready")
    };
    (0..Choices::BITS).map(choice).fold(0, |choices, choice| choices << 1 | choice)
}

/// Whether a thread chooses like that when its generator is new.
fn is_fresh(choices: Choices) -> bool {
    (0..FURTHEST).any(|counter| first_choices(counter) == choices)
}

/// What a thread chooses first, whose generator was seeded at that value of the counter. As `futures_util` does it.
fn first_choices(counter: usize) -> Choices {
    let mut hasher = DefaultHasher::new();
    hasher.write_usize(counter);
    let mut state = hasher.finish();
    let choice = |_| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        // The last of two changes places with the one of that number, so 0 makes it the first.
        1 - state.wrapping_mul(0x2545_F491_4F6C_DD1D) % 2
    };
    (0..Choices::BITS).map(choice).fold(0, |choices, choice| choices << 1 | choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_whether_a_select_shuffled() {
        let on_thread = |draws: usize| {
            let work = move || {
                for _ in 0..draws {
                    let _ = choose();
                }
                was_drawn_on_this_thread()
            };
            std::thread::scope(|scope| scope.spawn(work).join().expect("it returns"))
        };
        for _ in 0..20 {
            assert_eq!((on_thread(0), on_thread(1), on_thread(7)), (Some(false), Some(true), Some(true)));
        }
    }
}
