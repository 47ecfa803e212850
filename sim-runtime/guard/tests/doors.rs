//! std's own calls come to the watcher while it watches, and go past it afterwards and on other threads.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these are the doors")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, net, thread};

use sim_guard::{Clock, Door, Watcher, watched};

#[derive(Default)]
struct Notes(RefCell<Vec<(Door, String)>>);

impl Notes {
    fn note(&self, door: Door, what: &[u8]) {
        self.0.borrow_mut().push((door, String::from_utf8_lossy(what).into_owned()));
    }

    fn doors(&self) -> Vec<Door> {
        self.0.borrow().iter().map(|(door, _)| *door).collect()
    }
}

impl Watcher for Notes {
    fn entropy(&self, door: Door, buffer: &mut [u8]) {
        // Who watches is not watched.
        let _ = (Instant::now(), env::var("HOME"));
        self.note(door, b"");
        buffer.fill(7);
    }

    fn clock_ns(&self, clock: Clock) -> u64 {
        let door = if clock == Clock::Wall { Door::WallClock } else { Door::Monotonic };
        self.note(door, b"");
        5_000_000_000
    }

    fn passed(&self, door: Door, what: &[u8]) {
        self.note(door, what);
    }
}

/// On a thread whose hash keys nobody has asked for.
fn fresh<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    sim_guard::link();
    thread::scope(|scope| scope.spawn(f).join().expect("it does not panic"))
}

#[test]
fn clocks_stand_where_the_watcher_says() {
    fresh(|| {
        let notes = Notes::default();
        let (one, two, wall) = watched(&notes, || (Instant::now(), Instant::now(), SystemTime::now()));
        assert_eq!(one, two);
        assert_eq!(wall, SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        assert_eq!(notes.doors(), [Door::Monotonic, Door::Monotonic, Door::WallClock]);
        assert!(SystemTime::now() > wall + Duration::from_secs(1_000_000_000));
        assert_eq!(notes.doors().len(), 3);
    });
}

#[test]
fn hash_keys_are_the_watchers_and_the_thread_says_so() {
    let hash = || {
        fresh(|| {
            assert!(!sim_guard::entropy_touched());
            let notes = Notes::default();
            let hash = watched(&notes, || {
                let map: HashMap<u32, ()> = HashMap::new();
                map.hasher().hash_one(1_u32)
            });
            assert_eq!(notes.doors(), [Door::HashKeys]);
            assert!(sim_guard::entropy_touched());
            hash
        })
    };
    assert_eq!(hash(), hash());
    assert_ne!(fresh(|| RandomState::new().hash_one(1_u32)), fresh(|| RandomState::new().hash_one(1_u32)));
}

#[test]
fn what_is_opened_and_read_is_named_and_still_works() {
    fresh(|| {
        let notes = Notes::default();
        watched(&notes, || {
            assert!(
                fs::read_to_string("/proc/self/stat").expect("Linux has it").starts_with(char::is_numeric)
            );
            assert!(fs::File::open("/no/such/file").is_err());
            assert_eq!(env::var_os("SIM_GUARD_TEST"), None);
            env::current_dir().expect("there is one");
            net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
            assert_eq!(thread::spawn(Instant::now).join().expect("it returns").elapsed(), Duration::ZERO);
        });
        let seen = notes.0.take();
        let named = |door: Door| seen.iter().filter(move |(d, _)| *d == door).map(|(_, what)| what.as_str());
        assert_eq!(named(Door::File).collect::<Vec<_>>(), ["/proc/self/stat", "/no/such/file"]);
        assert!(named(Door::Environment).any(|name| name == "SIM_GUARD_TEST"));
        assert_eq!(
            (named(Door::Folder).count(), named(Door::Socket).count(), named(Door::Thread).count()),
            (1, 1, 1)
        );
    });
}

#[test]
fn a_panic_ends_the_watch() {
    fresh(|| {
        let notes = Notes::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            watched(&notes, || std::panic::resume_unwind(Box::new(())));
        }));
        assert!(panicked.is_err());
        let _ = Instant::now();
        assert_eq!(notes.doors(), []);
    });
}
