//! What passes by the guard, so that nobody relies on it: no door sees these programs, not even where every door is
//! forbidden; `check_determinism` catches them all the same, because it compares what runs do.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;

use sim_runtime::ambient::Policy;
use sim_runtime::determinism::{CauseKind, Perturbation};
use sim_runtime::verdict::Category;
use sim_runtime::{Options, World};

use crate::{Program, caught};

/// Neither listed nor forbidden.
#[track_caller]
fn assert_unseen<F: Future<Output = ()> + 'static>(program: fn() -> F) {
    for ambient in [Policy::Report, Policy::Forbid] {
        let mut world = World::new(1, Options { ambient, ..Options::default() });
        world.run(program());
        let report = world.report();
        assert_eq!(report.findings.category(), Category::Pass, "{:?}", report.findings.first());
        assert!(report.doors.is_empty(), "{:?}", report.doors);
    }
}

/// The runs differ, and no more can be said than that no door was used.
#[track_caller]
fn assert_caught_without_a_name<F: Future<Output = ()> + 'static>(program: fn() -> F) {
    let (divergence, checked) = caught(Program::of(program));
    assert_eq!(divergence.cause.kind, CauseKind::Unknown, "{checked}");
    assert!(divergence.first.doors.is_empty());
}

/// A raw system call asks the kernel and not libc.
#[expect(unsafe_code, reason = "a raw system call")]
async fn clock_by_raw_system_call() {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes a time to where it may.
    let time = unsafe {
        libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    tracing::info!(ns = time.tv_nsec, "now");
}

#[test]
fn a_clock_that_is_read_by_a_raw_system_call_passes_by() {
    assert_unseen(clock_by_raw_system_call);
    assert_caught_without_a_name(clock_by_raw_system_call);
}

/// As getrandom 0.2 does where libc has no function for it.
#[expect(unsafe_code, reason = "a raw system call")]
async fn entropy_by_raw_system_call() {
    let mut bytes = [0_u8; 8];
    // SAFETY: the kernel writes as many bytes as there are.
    let len = unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0) };
    assert_eq!(len, 8);
    tracing::info!(dice = u64::from_le_bytes(bytes), "rolled");
}

#[test]
fn random_bytes_by_a_raw_system_call_pass_by() {
    assert_unseen(entropy_by_raw_system_call);
    assert_caught_without_a_name(entropy_by_raw_system_call);
}

/// rustix finds the kernel's functions in the vDSO by itself, and calls them without libc.
async fn clock_by_vdso() {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    tracing::info!(ns = time.tv_nsec, "now");
}

#[test]
fn a_clock_that_is_read_in_the_vdso_without_libc_passes_by() {
    assert_unseen(clock_by_vdso);
    assert_caught_without_a_name(clock_by_vdso);
}

/// Thread ids count up in the process, and each run has a thread of its own: fastrand seeds its generator by them.
async fn seeded_by_thread_id() {
    let mut hasher = DefaultHasher::new();
    std::thread::current().id().hash(&mut hasher);
    tracing::info!(seed = hasher.finish(), "seeded");
}

#[test]
fn a_generator_that_is_seeded_by_the_thread_id_passes_by() {
    assert_unseen(seeded_by_thread_id);
    let (divergence, checked) = caught(Program::of(seeded_by_thread_id));
    assert_eq!(divergence.cause.kind, CauseKind::SurvivingState, "{checked}");
    assert_eq!(divergence.perturbation, Perturbation::Again);
}
