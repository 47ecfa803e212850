//! What is there on Linux with glibc alone.
//!
//! `open` and `openat` are variadic in C. Defined with their optional argument they are the same to a caller in the
//! calling conventions of Linux on x86-64 and AArch64, which pass variadic integers as they pass others; an argument
//! that was not given is passed on as it came, and not looked at by the real function either.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{mode_t, size_t, ssize_t};

use super::{Real, fill, passing};
use crate::door::Door;

passing!(open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
passing!(open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
passing!(openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
passing!(openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);

/// What std asks for when it needs keys for its hash maps: 16 bytes that may be weak, so as never to wait.
fn is_for_hash_keys(len: size_t, flags: c_uint) -> bool {
    len == 16 && flags & (libc::GRND_INSECURE | libc::GRND_NONBLOCK) != 0
}

/// Stands in for libc's function of the same name.
///
/// # Safety
/// As of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    static REAL: Real = Real::new(c"getrandom");
    let door = if is_for_hash_keys(len, flags) { Door::HashKeys } else { Door::Entropy };
    // SAFETY: the contract of the function, which the caller keeps.
    if unsafe { fill(door, buffer, len) } {
        return len as ssize_t;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t>()(buffer, len, flags) }
}

/// Where they are.
pub(super) fn functions() -> [*const (); 5] {
    [
        open as *const (),
        open64 as *const (),
        openat as *const (),
        openat64 as *const (),
        getrandom as *const (),
    ]
}
