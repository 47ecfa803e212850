//! CPU time: what other work on the machine does not change.

/// Whose time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// That of the calling thread.
    Thread,
    /// That of all threads of this process.
    Process,
}

/// CPU time so far, in microseconds.
pub(super) fn cpu_us(whose: Whose) -> u64 {
    let clock = match whose {
        Whose::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
        Whose::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is that of a live timespec, which the call fills; the clocks are the caller's own.
    #[expect(unsafe_code, reason = "std has no clock of CPU time")]
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(status, 0, "POSIX lets every thread read its own CPU time");
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
