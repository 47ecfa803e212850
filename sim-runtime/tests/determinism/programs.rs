//! Programs that are wrong on purpose. The page "How async code becomes nondeterministic" shows each of them; a test
//! holds it to what stands here.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "they are wrong"
)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use rand::RngExt;
use sim_runtime::Handle;
use sim_runtime::time::sleep;

pub async fn hash_map() {
    let jobs: HashMap<&str, u32> = [("ada", 1), ("bob", 2), ("cid", 3), ("dora", 4), ("eve", 5)].into();
    for (who, job) in &jobs {
        tracing::info!(who, job, "begins");
        sleep(Duration::from_millis(1)).await;
    }
}

pub async fn hash_set() {
    let peers: HashSet<u16> = (1..8).collect();
    for peer in peers {
        tracing::info!(peer, "is asked");
    }
}

pub async fn instant() {
    for attempt in 0..20 {
        let begun = Instant::now();
        sleep(Duration::from_micros(100)).await;
        if begun.elapsed() > Duration::from_millis(1) {
            tracing::info!(attempt, "took long");
        }
    }
}

pub async fn system_time() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let weekday = since.as_secs() / 86_400 % 7;
    tracing::info!(weekday, "today");
}

pub async fn select() {
    for turn in 0..32 {
        let (mut left, mut right) = (sleep(Duration::ZERO).fuse(), sleep(Duration::ZERO).fuse());
        futures::select! {
            () = left => tracing::info!(turn, "left"),
            () = right => tracing::info!(turn, "right"),
        }
    }
}

pub async fn thread_rng() {
    let wait = rand::rng().random_range(1..1_000_000);
    sleep(Duration::from_nanos(wait)).await;
    tracing::info!("waited");
}

pub async fn global_rng() {
    static STATE: Mutex<u64> = Mutex::new(1);
    let wait = {
        let mut state = STATE.lock().expect("nobody panics");
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *state >> 44
    };
    sleep(Duration::from_nanos(wait)).await;
    tracing::info!("waited");
}

pub async fn static_counter() {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    tracing::info!(id, "connected");
}

pub async fn lazy_static() {
    static TABLES: Once = Once::new();
    TABLES.call_once(|| tracing::info!("tables are built"));
    tracing::info!("ready");
}

pub async fn pointer_map() {
    let sessions: Vec<Box<u64>> = (0..20).map(Box::new).collect();
    let by_address: BTreeMap<*const u64, &u64> =
        sessions.iter().map(|session| (std::ptr::from_ref::<u64>(session), &**session)).collect();
    for session in by_address.values() {
        tracing::info!(session, "is served");
    }
}

pub async fn pointer_order() {
    let mut sessions: Vec<Box<u64>> = (0..20).map(Box::new).collect();
    sessions.sort_by_key(|session| std::ptr::from_ref::<u64>(session).addr());
    for session in sessions {
        tracing::info!(session, "is served");
    }
}

pub async fn pointer_printed() {
    let session = Box::new(7_u64);
    tracing::info!("session {:p} is open", session);
}

pub async fn os_thread() {
    let (tell, mut told) = futures::channel::oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        tell.send("done")
    });
    while told.try_recv() == Ok(None) {
        tracing::info!("not yet");
        sleep(Duration::from_millis(1)).await;
    }
}

pub async fn environment() {
    let home = std::env::var("HOME").unwrap_or_default();
    tracing::info!(home, "at home");
}

pub async fn folder() {
    let folder = std::env::current_dir().expect("there is one");
    tracing::info!(?folder, "writes here");
}

pub async fn real_file() {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    tracing::info!(text, "has read");
}

pub async fn real_socket() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("it is bound").port();
    tracing::info!(port, "listens");
}

pub async fn ends_earlier() {
    static WARM: AtomicBool = AtomicBool::new(false);
    if WARM.swap(true, Ordering::Relaxed) {
        return;
    }
    sleep(Duration::from_millis(1)).await;
    tracing::info!("warmed up");
}

pub async fn other_output() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let runs = RUNS.fetch_add(1, Ordering::Relaxed);
    Handle::current().note_output("returned", || format!("{runs}"));
}

struct Session(u32);

impl Drop for Session {
    fn drop(&mut self) {
        tracing::info!(session = self.0, "closed");
    }
}

pub async fn late_drop() {
    static LATEST: Mutex<Option<Session>> = Mutex::new(None);
    let before = LATEST.lock().expect("nobody panics").replace(Session(1));
    tracing::info!("opened");
    drop(before);
}

pub async fn thread_local() {
    std::thread_local! {
        static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    CALLS.set(CALLS.get() + 1);
    tracing::info!(calls = CALLS.get(), "called");
}
