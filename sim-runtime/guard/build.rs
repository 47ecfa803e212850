//! Says in one name where the functions that stand in for libc's are compiled: with the feature, on Linux with glibc
//! and on macOS.
#![allow(clippy::disallowed_methods, reason = "cargo tells build scripts by variables")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(stands)");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let platform = is("CARGO_CFG_TARGET_OS", "macos")
        || is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if platform && std::env::var_os("CARGO_FEATURE_STAND").is_some() {
        println!("cargo::rustc-cfg=stands");
    }
}
