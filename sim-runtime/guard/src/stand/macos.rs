//! What is there on macOS alone: Apple's own clocks and random bytes. Compiled only: nobody has run this.
//!
//! Names are bound with the library that they were found in, so what calls from within a shared library goes to libc's
//! function and past these. The executable's own callers, std and crates among them, come here.
//!
//! `open` and `openat` are not here: Apple passes the optional argument of a variadic function on the stack on AArch64,
//! and stable Rust cannot define such a function. The door "file" stays unwatched.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use libc::{clockid_t, size_t};

use super::{Real, fill, watched_ns};
use crate::door::Door;

/// `CCRNGStatus` of success.
const DONE: c_int = 0;

/// Stands in for the function of the same name, to which std goes for the keys of its hash maps: 16 bytes at a time.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CCRandomGenerateBytes(buffer: *mut c_void, len: size_t) -> c_int {
    static REAL: Real = Real::new(c"CCRandomGenerateBytes");
    let door = if len == 16 { Door::HashKeys } else { Door::Entropy };
    // SAFETY: the contract of the function, which the caller keeps.
    if unsafe { fill(door, buffer, len) } {
        return DONE;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(*mut c_void, size_t) -> c_int>()(buffer, len) }
}

/// Stands in for libc's function of the same name.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arc4random_buf(buffer: *mut c_void, len: size_t) {
    static REAL: Real = Real::new(c"arc4random_buf");
    // SAFETY: the contract of the function, which the caller keeps.
    if unsafe { fill(Door::Entropy, buffer, len) } {
        return;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(*mut c_void, size_t)>()(buffer, len) }
}

/// Stands in for libc's function of the same name.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime_nsec_np(id: clockid_t) -> u64 {
    static REAL: Real = Real::new(c"clock_gettime_nsec_np");
    match watched_ns(id) {
        Some(ns) => ns,
        // SAFETY: the type is that of the C function, whose contract the caller keeps.
        None => unsafe { REAL.get::<unsafe extern "C" fn(clockid_t) -> u64>()(id) },
    }
}

#[repr(C)]
#[derive(Copy, Clone)]
struct Timebase {
    numer: u32,
    denom: u32,
}

unsafe extern "C" {
    /// How many nanoseconds a tick has, as a fraction; returns 0.
    fn mach_timebase_info(info: *mut Timebase) -> c_int;
}

fn timebase() -> Timebase {
    static TIMEBASE: OnceLock<Timebase> = OnceLock::new();
    *TIMEBASE.get_or_init(|| {
        let mut timebase = Timebase { numer: 1, denom: 1 };
        // SAFETY: it may be written to, and has the layout of C's `mach_timebase_info_data_t`.
        unsafe { mach_timebase_info(&raw mut timebase) };
        timebase
    })
}

/// Stands in for libc's function of the same name, which counts ticks.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mach_absolute_time() -> u64 {
    static REAL: Real = Real::new(c"mach_absolute_time");
    match watched_ns(libc::CLOCK_MONOTONIC) {
        Some(ns) => {
            let Timebase { numer, denom } = timebase();
            (u128::from(ns) * u128::from(denom) / u128::from(numer)) as u64
        }
        // SAFETY: the type is that of the C function.
        None => unsafe { REAL.get::<unsafe extern "C" fn() -> u64>()() },
    }
}

/// Where they are.
pub(super) fn functions() -> [*const (); 4] {
    [
        CCRandomGenerateBytes as *const (),
        arc4random_buf as *const (),
        clock_gettime_nsec_np as *const (),
        mach_absolute_time as *const (),
    ]
}
