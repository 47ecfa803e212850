//! What is to blame: a guess from which perturbations matter, which doors were used, and what differs.
//!
//! When two runs under the *same* conditions differ, something in the process (or outside) confuses the other
//! comparisons. Then the perturbations are tried once more in fresh processes, in which no earlier run has left
//! anything: if two fresh processes agree, what differs is something that survives in a process.
//!
//! It is a guess: a program with two causes is told of one, and of the other when that is cured.

use std::collections::BTreeSet;
use std::fmt;

use crate::ambient::Door;

use super::divergence::{DoorNote, Side};
use super::perturbation::Perturbation;

/// Kinds of causes.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CauseKind {
    /// The order of a std `HashMap` or `HashSet`.
    HashOrder,
    /// Random bytes of the system, mostly the seed of a generator.
    Entropy,
    /// `std::time::Instant`.
    MonotonicClock,
    /// `std::time::SystemTime`.
    WallClock,
    /// The time zone.
    TimeZone,
    /// A thread of the operating system.
    Thread,
    /// A real file.
    File,
    /// A real socket.
    Socket,
    /// An environment variable.
    Environment,
    /// The working directory.
    Folder,
    /// The shuffle of `futures::select!`.
    Select,
    /// A static that an earlier run has changed.
    SurvivingState,
    /// A thread-local that an earlier run has changed.
    ThreadLocal,
    /// The order of addresses.
    AddressOrder,
    /// An address as a value.
    Address,
    /// Something that other threads of the process do.
    OtherThreads,
    /// Something that no door shows.
    Unknown,
}

impl CauseKind {
    /// A name for files.
    pub fn name(self) -> &'static str {
        match self {
            Self::HashOrder => "hash order",
            Self::Entropy => "entropy",
            Self::MonotonicClock => "std::time::Instant",
            Self::WallClock => "std::time::SystemTime",
            Self::TimeZone => "time zone",
            Self::Thread => "thread",
            Self::File => "file",
            Self::Socket => "socket",
            Self::Environment => "environment variable",
            Self::Folder => "working directory",
            Self::Select => "futures::select!",
            Self::SurvivingState => "surviving state",
            Self::ThreadLocal => "thread-local",
            Self::AddressOrder => "address order",
            Self::Address => "address",
            Self::OtherThreads => "other threads",
            Self::Unknown => "unknown",
        }
    }

    /// In a few words.
    fn says(self) -> &'static str {
        match self {
            Self::HashOrder => "iteration order of a std HashMap or HashSet",
            Self::Entropy => {
                "random numbers from the operating system, as thread-local and global generators use them"
            }
            Self::MonotonicClock => "std::time::Instant is read",
            Self::WallClock => "std::time::SystemTime is read",
            Self::TimeZone => "the time zone of the process",
            Self::Thread => "a thread of the operating system takes part",
            Self::File => "a real file is read or written",
            Self::Socket => "a real socket is used",
            Self::Environment => "an environment variable is read",
            Self::Folder => "the working directory is asked for",
            Self::Select => {
                "futures::select! picked another branch: its shuffle is seeded by a counter of the process"
            }
            Self::SurvivingState => {
                "something survives from an earlier run in the process: a static, or a counter (thread ids are one)"
            }
            Self::ThreadLocal => "a thread-local survives from an earlier run on the same thread",
            Self::AddressOrder => "the order of addresses: a map or a sort by pointer",
            Self::Address => "an address is used as a value, as `{:p}` prints it",
            Self::OtherThreads => {
                "what other threads of the process do meanwhile has a say: a shared static, or real time"
            }
            Self::Unknown => {
                "nothing that was watched: two fresh processes differ too, so it comes from outside past the \
                 doors (a raw system call, the vDSO, an instruction, an address)"
            }
        }
    }
}

/// What is to blame, as far as can be guessed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// What kind of thing.
    pub kind: CauseKind,
    /// Which file or variable, if one has a name.
    pub what: String,
    /// The line of the program: where the door was used, or from where the first entry that differs came.
    pub place: String,
    /// How the program got there, if that is known.
    pub backtrace: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.says())?;
        if !self.what.is_empty() {
            write!(f, " ({})", self.what)?;
        }
        if self.place.is_empty() { Ok(()) } else { write!(f, ", in {}", self.place) }
    }
}

/// What is known when a cause is looked for.
pub(super) struct Evidence<'a> {
    /// Under which perturbations the seed diverges.
    pub(super) diverging: &'a BTreeSet<Perturbation>,
    /// Which of them make fresh processes differ from a fresh process; nothing if that could not be tried, or was not.
    pub(super) isolated: Option<BTreeSet<Perturbation>>,
    pub(super) first: &'a Side,
    pub(super) second: &'a Side,
    /// Whether `futures::select!` shuffled.
    pub(super) shuffled: bool,
    /// From where the first entry that differs came, if it came from a program.
    pub(super) origin: &'a str,
}

/// Makes the guess.
pub(super) fn explain(evidence: &Evidence<'_>) -> Cause {
    let kind = kind_of(evidence);
    let door = door_of(kind).and_then(|door| evidence.door(door));
    let (what, backtrace) = match door {
        Some(note) => (note.what.clone(), without_own_head(&note.backtrace)),
        None => (String::new(), without_own_head(evidence.origin)),
    };
    let lines = [evidence.first, evidence.second].into_iter().filter_map(Side::differing);
    let spawned = || lines.into_iter().find(|line| !line.spawned_at.is_empty());
    let place = place_in(&backtrace)
        .or_else(|| spawned().map(|line| format!("the task spawned at {}", line.spawned_at)))
        .unwrap_or_default();
    Cause { kind, what, place, backtrace }
}

/// The door whose use is shown for a cause.
fn door_of(kind: CauseKind) -> Option<Door> {
    Some(match kind {
        CauseKind::HashOrder => Door::HashKeys,
        CauseKind::Entropy => Door::Entropy,
        CauseKind::MonotonicClock => Door::Monotonic,
        CauseKind::WallClock => Door::WallClock,
        CauseKind::Thread => Door::Thread,
        CauseKind::File => Door::File,
        CauseKind::Socket => Door::Socket,
        CauseKind::Environment => Door::Environment,
        CauseKind::Folder => Door::Folder,
        _ => return None,
    })
}

impl Evidence<'_> {
    fn door(&self, door: Door) -> Option<&DoorNote> {
        let of = |side: &'_ Side| side.doors.iter().position(|note| note.is(door));
        match of(self.first) {
            Some(at) => self.first.doors.get(at),
            None => self.second.doors.get(of(self.second)?),
        }
    }

    fn uses(&self, door: Door) -> bool {
        self.door(door).is_some()
    }

    fn diverges(&self, perturbation: Perturbation) -> bool {
        self.diverging.contains(&perturbation)
    }

    /// Whether fresh processes differ from each other by this perturbation alone; `None` when that is not known.
    fn isolated(&self, perturbation: Perturbation) -> Option<bool> {
        self.isolated.as_ref().map(|set| set.contains(&perturbation))
    }

    fn has_foreign_wake(&self) -> bool {
        [self.first, self.second]
            .iter()
            .any(|side| side.failures.iter().any(|f| f.property == "foreign wake"))
    }

    /// Whether what differs are numbers that look like addresses, and nothing else.
    fn differs_in_addresses(&self) -> bool {
        let (Some(first), Some(second)) = (self.first.differing(), self.second.differing()) else {
            return false;
        };
        let (one, other) = (&first.what, &second.what);
        one != other && one.contains("0x") && without_addresses(one) == without_addresses(other)
    }
}

/// `text` with every number from `0x` on taken out.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push_str("0x");
        rest.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    rest
}

fn kind_of(evidence: &Evidence<'_>) -> CauseKind {
    if evidence.has_foreign_wake() {
        CauseKind::Thread
    } else if evidence.differs_in_addresses() {
        CauseKind::Address
    } else {
        kind_of_steady(evidence).unwrap_or_else(|| kind_of_unsteady(evidence))
    }
}

/// When runs differ by what was changed and not by themselves.
fn kind_of_steady(evidence: &Evidence<'_>) -> Option<CauseKind> {
    use Perturbation as P;
    if evidence.diverges(P::Again) {
        return None;
    }
    // A door that was not used cannot be it: then runs differ by themselves, and these did by chance.
    let by_door = [
        (P::HashKeys, Door::HashKeys, CauseKind::HashOrder),
        (P::Entropy, Door::Entropy, CauseKind::Entropy),
        (P::MonotonicClock, Door::Monotonic, CauseKind::MonotonicClock),
    ];
    let is_it = |(perturbation, door, _): &&(P, Door, CauseKind)| {
        evidence.diverges(*perturbation) && evidence.uses(*door)
    };
    if let Some((_, _, kind)) = by_door.iter().find(is_it) {
        return Some(*kind);
    }
    if evidence.diverges(P::HeapOrder) && !evidence.uses(Door::Thread) {
        return Some(CauseKind::AddressOrder);
    }
    if evidence.diverges(P::FreshProcess) {
        return None;
    }
    if evidence.diverges(P::WallClock) {
        let is_clock = evidence.uses(Door::WallClock);
        return Some(if is_clock { CauseKind::WallClock } else { CauseKind::TimeZone });
    }
    if evidence.diverges(P::Folder) {
        // A relative name finds another file, or none.
        return Some(if evidence.uses(Door::Folder) { CauseKind::Folder } else { CauseKind::File });
    }
    if evidence.diverges(P::Environment) {
        return Some(CauseKind::Environment);
    }
    if evidence.diverges(P::AfterOthers) && !evidence.uses(Door::Thread) {
        return Some(CauseKind::ThreadLocal);
    }
    let by_threads = evidence.diverging.iter().all(|p| matches!(p, P::Workers | P::Busy));
    (by_threads && !evidence.uses(Door::Thread)).then_some(CauseKind::OtherThreads)
}

/// When even the same again differs, or a fresh process from this one.
fn kind_of_unsteady(evidence: &Evidence<'_>) -> CauseKind {
    use Perturbation as P;
    if evidence.uses(Door::Thread) {
        return CauseKind::Thread;
    }
    let fresh_ones_agree = evidence.isolated(P::Again).map(|differ| !differ);
    if fresh_ones_agree == Some(true) && evidence.isolated(P::HeapOrder) == Some(true) {
        return CauseKind::AddressOrder;
    }
    if evidence.shuffled && fresh_ones_agree != Some(false) {
        return CauseKind::Select;
    }
    if evidence.uses(Door::Socket) {
        return CauseKind::Socket;
    }
    if evidence.uses(Door::File) {
        return CauseKind::File;
    }
    if fresh_ones_agree == Some(false) {
        return CauseKind::Unknown;
    }
    CauseKind::SurvivingState
}

/// The first line of a backtrace that is neither std's nor the simulation's, as `path:line`.
pub(super) fn place_in(backtrace: &str) -> Option<String> {
    let is_foreign = |place: &String| {
        !is_own(place)
            && !["/rustc/", "/library/std/src/", "/library/core/src/", "/library/alloc/src/"]
                .iter()
                .any(|std| place.contains(std))
            && !PLUMBING.iter().any(|own| place.contains(own))
    };
    backtrace.lines().filter_map(place_of).find(is_foreign).map(|place| shorten(&place))
}

/// Crates that do as they are told: the line that is to blame is in who calls them.
const PLUMBING: [&str; 8] = [
    "/tracing-",
    "/tracing-core-",
    "/futures-util-",
    "/getrandom-",
    "/rand-",
    "/rand_core-",
    "/rand_chacha-",
    "/chacha20-",
];

/// The place that a line of a backtrace names, if it does.
fn place_of(line: &str) -> Option<String> {
    let place = line.trim().strip_prefix("at ")?;
    Some(match place.strip_prefix("./") {
        Some(rest) => {
            std::env::current_dir().map(|dir| dir.join(rest).display().to_string()).unwrap_or_default()
        }
        None => place.to_owned(),
    })
}

/// Whether a place is in this crate or in the guard.
fn is_own(place: &str) -> bool {
    const OURS: [&str; 2] =
        [concat!(env!("CARGO_MANIFEST_DIR"), "/src/"), concat!(env!("CARGO_MANIFEST_DIR"), "/guard/")];
    OURS.iter().any(|ours| place.starts_with(ours))
}

/// A backtrace from where the program calls on: without the frames in which the simulation takes the backtrace.
fn without_own_head(backtrace: &str) -> String {
    let lines: Vec<&str> = backtrace.lines().collect();
    let is_head =
        |line: &&str| place_of(line).is_some_and(|place| is_own(&place) || place.contains("/backtrace.rs:"));
    // The frames of the executor, below the program, are not to be mistaken for the head.
    let end = lines
        .iter()
        .position(|line| place_of(line).is_some_and(|place| !is_own(&place) && !place.contains("/rustc/")));
    let head = lines[..end.unwrap_or(lines.len())].iter().rposition(is_head).map_or(0, |at| at + 1);
    lines[head..].join("\n")
}

/// Without the folders that differ from machine to machine, and without the column.
fn shorten(place: &str) -> String {
    let place = match place.rsplitn(3, ':').collect::<Vec<_>>()[..] {
        [column, line, path] if column.parse::<u32>().is_ok() && line.parse::<u32>().is_ok() => {
            format!("{path}:{line}")
        }
        _ => place.to_owned(),
    };
    if let Some((_, crates)) = place.split_once("/registry/src/") {
        return crates.split_once('/').map_or(crates, |(_, path)| path).to_owned();
    }
    // The workspace is what lies above this crate.
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    let above = std::path::Path::new(workspace).parent().and_then(|dir| dir.parent());
    above.and_then(|dir| place.strip_prefix(&format!("{}/", dir.display()))).unwrap_or(&place).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_the_first_line_that_is_not_std() {
        let backtrace = "   0: std::backtrace::Backtrace::create\n             \
            at /rustc/abc/library/std/src/backtrace.rs:331:13\n   \
            1: clock_gettime\n             at /rustc/abc/library/x.rs:1:2\n   2: yamux::connection\n             at \
            /cargo/registry/src/index-19/yamux-0.13.1/src/connection.rs:40:9\n";
        assert_eq!(place_in(backtrace).as_deref(), Some("yamux-0.13.1/src/connection.rs:40"));
        assert_eq!(place_in("   0: nothing\n"), None);
    }

    #[test]
    fn addresses_are_told_from_other_numbers() {
        assert_eq!(without_addresses("at 0x7f00a1 and 12"), without_addresses("at 0x5500ffee and 12"));
        assert_ne!(without_addresses("at 0x7f00a1 and 12"), without_addresses("at 0x7f00a1 and 13"));
    }
}
