//! What passes by the guard, so that nobody relies on it: these programs are caught, but not made reproducible.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;

use sim_runtime::determinism::{CauseKind, Perturbation};

use crate::{Program, caught};

/// A raw system call asks the kernel and not libc: rustix and getrandom 0.2 do it.
#[expect(unsafe_code, reason = "a raw system call")]
async fn raw_system_call() {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes a time to where it may.
    let time = unsafe {
        libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    tracing::info!(ns = time.tv_nsec, "now");
}

#[test]
fn a_raw_system_call_passes_by() {
    let (divergence, checked) = caught(Program::of(raw_system_call));
    assert_eq!(divergence.cause.kind, CauseKind::Unknown, "{checked}");
    assert!(divergence.first.doors.is_empty());
}

/// Thread ids count up in the process, and each run has a thread of its own: fastrand seeds its generator by them.
async fn seeded_by_thread_id() {
    let mut hasher = DefaultHasher::new();
    std::thread::current().id().hash(&mut hasher);
    tracing::info!(seed = hasher.finish(), "seeded");
}

#[test]
fn a_generator_that_is_seeded_by_the_thread_id_passes_by() {
    let (divergence, checked) = caught(Program::of(seeded_by_thread_id));
    assert_eq!(divergence.cause.kind, CauseKind::SurvivingState, "{checked}");
    assert_eq!(divergence.perturbation, Perturbation::Again);
}
