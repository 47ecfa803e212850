//! What Linux and macOS have in common.

use std::ffi::{c_char, c_int, c_void};

use libc::{clockid_t, pthread_attr_t, pthread_t, size_t, sockaddr, socklen_t, timespec, timeval};

use super::{Real, fill, passing, watched_ns};
use crate::door::Door;

passing!(socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int, Door::Socket);
passing!(connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int, Door::Socket);
passing!(getenv(name: *const c_char) -> *mut c_char, Door::Environment, named name);
passing!(getcwd(buffer: *mut c_char, len: size_t) -> *mut c_char, Door::Folder);
passing!(
    pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void
    ) -> c_int,
    Door::Thread
);

/// Stands in for libc's function of the same name.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(buffer: *mut c_void, len: size_t) -> c_int {
    static REAL: Real = Real::new(c"getentropy");
    // Beyond this the real one refuses.
    const MOST: size_t = 256;
    // SAFETY: the contract of the function, which the caller keeps.
    if len <= MOST && unsafe { fill(Door::Entropy, buffer, len) } {
        return 0;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(*mut c_void, size_t) -> c_int>()(buffer, len) }
}

const NS_PER_S: u64 = 1_000_000_000;

/// What the watcher's clock of that id shows, in seconds and nanoseconds; nothing without a watcher.
#[inline]
fn watched_clock(id: clockid_t) -> Option<(i64, i64)> {
    let ns = watched_ns(id)?;
    Some(((ns / NS_PER_S) as i64, (ns % NS_PER_S) as i64))
}

/// Stands in for libc's function of the same name.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: clockid_t, time: *mut timespec) -> c_int {
    static REAL: Real = Real::new(c"clock_gettime");
    if let Some((tv_sec, tv_nsec)) = watched_clock(id) {
        // SAFETY: the contract of the function: it may be written to.
        unsafe { time.write(timespec { tv_sec, tv_nsec }) };
        return 0;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int>()(id, time) }
}

/// Stands in for libc's function of the same name.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    static REAL: Real = Real::new(c"gettimeofday");
    if !time.is_null()
        && let Some((tv_sec, ns)) = watched_clock(libc::CLOCK_REALTIME)
    {
        let tv_usec = (ns / 1_000) as libc::suseconds_t;
        // SAFETY: the contract of the function: what is not null may be written to.
        unsafe { time.write(timeval { tv_sec, tv_usec }) };
        return 0;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int>()(time, zone) }
}

/// Where they are.
pub(super) fn functions() -> [*const (); 8] {
    [
        socket as *const (),
        connect as *const (),
        getenv as *const (),
        getcwd as *const (),
        pthread_create as *const (),
        getentropy as *const (),
        clock_gettime as *const (),
        gettimeofday as *const (),
    ]
}
