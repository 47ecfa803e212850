//! The functions that stand in for libc's, on Linux with glibc.
//!
//! Each has the name and signature of the one that it stands in for, so that the linker binds the callers in the
//! executable to it. The real one is the next of that name in search order, asked for once and kept; a raw system call
//! would go past the vDSO and cost a quarter of a microsecond a reading of the clock.
//!
//! `open` and `openat` are variadic in C. Defined with their optional argument they are the same to a caller in the
//! calling conventions of Linux on x86-64 and AArch64, which pass variadic integers as they pass others; an argument
//! that was not given is passed on as it came, and not looked at by the real function either.
#![allow(unsafe_code, reason = "these functions are C's")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::mem::transmute_copy;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    clockid_t, mode_t, pthread_attr_t, pthread_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

use crate::door::{Clock, Door};
use crate::watch::{ask, touch_entropy};

/// libc's function of a name, found at first use.
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// As a function of type `F`.
    ///
    /// # Safety
    /// `F` must be the type of a pointer to the C function of that name.
    #[inline]
    unsafe fn get<F: Copy>(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            address = self.find();
        }
        // SAFETY: `F` is a function pointer of that size, says the caller, and the address is that of the function.
        unsafe { transmute_copy::<*mut c_void, F>(&address) }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero, and `dlsym` has no other demands.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            // A libc without it. There is nobody to return an error to: the callers' contracts know none.
            std::process::abort();
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Defines a function that says which door is used, and by what name if an argument has one, and then does what libc's
/// does.
macro_rules! passing {
    ($function:ident($($arg:ident: $type:ty),*) -> $result:ty, $door:expr $(, named $name:ident)?) => {
        /// Stands in for libc's function of the same name.
        ///
        /// # Safety
        /// As of that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function($($arg: $type),*) -> $result {
            static REAL: Real = Real::new(c_name(concat!(stringify!($function), "\0")));
            ask(|watcher| {
                let what: &[u8] = b"";
                $(
                    // SAFETY: the contract of the function: null or a string that ends with a zero.
                    let what = if $name.is_null() { what } else { unsafe { CStr::from_ptr($name) }.to_bytes() };
                )?
                watcher.passed($door, what);
            });
            // SAFETY: the type is that of the C function, whose contract the caller keeps.
            unsafe { REAL.get::<unsafe extern "C" fn($($type),*) -> $result>()($($arg),*) }
        }
    };
}

const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero"),
    }
}

passing!(open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
passing!(open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
passing!(openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
passing!(openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, Door::File, named path);
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

/// What std asks for when it needs keys for its hash maps: 16 bytes that may be weak, so as never to wait.
fn is_for_hash_keys(len: size_t, flags: c_uint) -> bool {
    len == 16 && flags & (libc::GRND_INSECURE | libc::GRND_NONBLOCK) != 0
}

/// Has the watcher fill the buffer; false when there is none.
///
/// # Safety
/// `buffer` points to `len` bytes that may be written, as the C functions demand.
unsafe fn fill(door: Door, buffer: *mut c_void, len: size_t) -> bool {
    touch_entropy();
    if len == 0 {
        return false;
    }
    ask(|watcher| {
        // SAFETY: says the caller. The bytes may be uninitialised, so they are set before a slice is made of them.
        let bytes = unsafe {
            buffer.cast::<u8>().write_bytes(0, len);
            slice::from_raw_parts_mut(buffer.cast::<u8>(), len)
        };
        watcher.entropy(door, bytes);
    })
    .is_some()
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
    let clock = match id {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Clock::Wall,
        _ => Clock::Monotonic,
    };
    let ns = ask(|watcher| watcher.clock_ns(clock))?;
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
        // SAFETY: the contract of the function: what is not null may be written to.
        unsafe { time.write(timeval { tv_sec, tv_usec: ns / 1_000 }) };
        return 0;
    }
    // SAFETY: the type is that of the C function, whose contract the caller keeps.
    unsafe { REAL.get::<unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int>()(time, zone) }
}

/// Refers to every function above, so that the linker takes the file in which they are.
pub(crate) fn link() {
    let addresses: [*const (); 13] = [
        open as *const (),
        open64 as *const (),
        openat as *const (),
        openat64 as *const (),
        socket as *const (),
        connect as *const (),
        getenv as *const (),
        getcwd as *const (),
        pthread_create as *const (),
        getrandom as *const (),
        getentropy as *const (),
        clock_gettime as *const (),
        gettimeofday as *const (),
    ];
    black_box(addresses);
}
