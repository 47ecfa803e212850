//! Gives the program a version that changes with everything that decides a run: `RAFT_SIM_VERSION` is the crate's
//! version and a digest of the sources of the simulator, the Raft and the oracles. Neither the profile nor the machine
//! nor the command line enters it.

#![expect(clippy::disallowed_methods, reason = "a build script reads real files")]

use std::fs;
use std::path::{Path, PathBuf};

/// What decides a run, seen from this crate.
const SOURCES: [&str; 7] = [
    "../sim-runtime/src",
    "../sim-io/src",
    "../raft-async/src",
    "../oracles/src",
    "../oracles/linearizability/src",
    "src/raft",
    "../Cargo.lock",
];

fn main() {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        add_files(Path::new(source), &mut files);
    }
    files.sort_unstable();
    let mut digest = Fnv::new();
    for file in &files {
        digest.add(file.to_str().expect("sources have plain names").as_bytes());
        digest.add(&fs::read(file).expect("a source can be read"));
    }
    println!("cargo::rustc-env=RAFT_SIM_VERSION={}+{:016x}", env!("CARGO_PKG_VERSION"), digest.0);
}

fn add_files(path: &Path, files: &mut Vec<PathBuf>) {
    if !path.is_dir() {
        files.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(path).expect("a folder of sources can be read") {
        add_files(&entry.expect("and its entries").path(), files);
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): std's hasher may differ from one compiler to the next.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}
