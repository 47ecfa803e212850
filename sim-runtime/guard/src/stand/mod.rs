//! The functions that stand in for libc's.
//!
//! Each has the name and signature of the one that it stands in for, so that the linker binds the callers in the
//! executable to it. The real one is the next of that name in search order, asked for once and kept; a raw system call
//! would go past the vDSO and cost a quarter of a microsecond a reading of the clock.
//!
//! | module | what is in it |
//! |---|---|
//! | `posix` | what Linux and macOS have in common |
//! | `linux` | `getrandom`, and what opens files, with glibc |
//! | `macos` | Apple's own clocks and random bytes |
#![allow(unsafe_code, reason = "these functions are C's")]

mod posix;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::ffi::{CStr, c_char, c_void};
use std::hint::black_box;
use std::mem::transmute_copy;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

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
            static REAL: $crate::stand::Real =
                $crate::stand::Real::new($crate::stand::c_name(concat!(stringify!($function), "\0")));
            $crate::watch::ask(|watcher| {
                let what: &[u8] = b"";
                $(
                    // SAFETY: the contract of the function: null or a string that ends with a zero.
                    let what = unsafe { $crate::stand::text_at($name) }.unwrap_or(what);
                )?
                watcher.passed($door, what);
            });
            // SAFETY: the type is that of the C function, whose contract the caller keeps.
            unsafe { REAL.get::<unsafe extern "C" fn($($type),*) -> $result>()($($arg),*) }
        }
    };
}
use passing;

/// The bytes of a C string.
///
/// # Safety
/// `name` is null, or points to a string that ends with a zero and stays for the time of `'a`.
unsafe fn text_at<'a>(name: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: says the caller.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes())
}

const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero"),
    }
}

/// Has the watcher fill the buffer; false when there is none.
///
/// # Safety
/// `buffer` points to `len` bytes that may be written, as the C functions demand.
unsafe fn fill(door: Door, buffer: *mut c_void, len: usize) -> bool {
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

/// What the watcher's clock of that id shows, in nanoseconds; nothing without a watcher.
#[inline]
fn watched_ns(id: libc::clockid_t) -> Option<u64> {
    let clock = match id {
        libc::CLOCK_REALTIME => Clock::Wall,
        #[cfg(target_os = "linux")]
        libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Clock::Wall,
        _ => Clock::Monotonic,
    };
    ask(|watcher| watcher.clock_ns(clock))
}

/// Refers to every function of the platform, so that the linker takes the files in which they are.
pub(crate) fn link() {
    black_box(posix::functions());
    #[cfg(target_os = "linux")]
    black_box(linux::functions());
    #[cfg(target_os = "macos")]
    black_box(macos::functions());
}
