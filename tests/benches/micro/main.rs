//! Micro-benchmarks: `cargo bench -p tests --bench micro [FILTER]`.
//!
//! | module | what is measured |
//! |---|---|
//! | `runtime` | timers, spawn and join, a record and an invariant's look at it |
//! | `net` | echo by datagrams and by streams |
//! | `disk` | write and sync |
//! | `codec` | messages to frames and back |
//! | `histories` | is this history linearizable |

mod runtime;
mod net;
mod disk;
mod codec;
mod histories;

fn main() {
    divan::main();
}
