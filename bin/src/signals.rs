//! Ctrl-C, and the seeds in flight when the process dies.
//!
//! The first Ctrl-C asks the campaign to stop after the runs that are under way; the second ends the process.
//! On an abort (a panic while panicking, a stack overflow) no report can be written any more, so the handler
//! writes the seeds that were being run, byte by byte: in a signal handler nothing may be allocated.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGABRT, SIGINT};
use sim_runtime::campaign::in_flight;

/// Exit status of a process that was interrupted twice, as shells have it.
const INTERRUPTED: i32 = 130;

/// Installs the handlers; `stop` is set by the first Ctrl-C.
///
/// # Errors
/// When the system refuses.
pub fn install(stop: &Arc<AtomicBool>) -> io::Result<()> {
    signal_hook::flag::register_conditional_shutdown(SIGINT, INTERRUPTED, stop.clone())?;
    signal_hook::flag::register(SIGINT, stop.clone())?;
    // SAFETY: the handler only reads atomics, calls write(2), which POSIX lists as async-signal-safe, and
    // `emulate_default_handler`, which is documented to be; it neither allocates nor locks nor panics.
    #[expect(unsafe_code, reason = "a signal handler is unsafe to install")]
    unsafe {
        signal_hook::low_level::register(SIGABRT, write_seeds_in_flight)?;
    }
    Ok(())
}

fn write_seeds_in_flight() {
    write_stderr(b"\nabort; seeds in flight:");
    for seed in in_flight() {
        let mut digits = [0_u8; 21];
        write_stderr(decimal(seed, &mut digits));
    }
    write_stderr(
        b"\nreproduce each with: cargo run --release -p bin -- replay SEED (and the flags of this run)\n",
    );
    // libc's abort() would end the process now in any case, a signal from outside would not. If that fails too,
    // there is nobody left to tell.
    let _ = signal_hook::low_level::emulate_default_handler(SIGABRT);
}

/// The digits of `n` after a space, in `buffer`.
fn decimal(mut n: u64, buffer: &mut [u8; 21]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    at -= 1;
    buffer[at] = b' ';
    &buffer[at..]
}

fn write_stderr(bytes: &[u8]) {
    // SAFETY: the pointer and length are those of a live slice; a short or failed write is accepted.
    #[expect(unsafe_code, reason = "std's writers may lock, which a signal handler must not")]
    unsafe {
        libc::write(2, bytes.as_ptr().cast(), bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn digits_are_written_without_allocation() {
        for n in [0, 7, 10, 1_234_567, u64::MAX] {
            let mut buffer = [0; 21];
            assert_eq!(decimal(n, &mut buffer), format!(" {n}").as_bytes());
        }
    }
}
