//! What every peer does, in numbers, and how it is measured: what is not here may differ, what is here is the same.
//!
//!   timers        1,000 tasks, 1,000 sleeps each of (splitmix64(i * 1,000 + k) mod 100,000) + 1 µs
//!   spawn         1,000,000 trivial tasks, spawned and joined in batches of 1,000
//!   udp-W, tcp-W  5 nodes, an echo server on each, W clients a node that each have one request under way, 64 bytes
//!                 there and back, 1,000,000 deliveries in sum, latency uniform 1-10 ms, nothing lost
//!   short-seeds   a fresh world for each of 1,000 seeds: 5 nodes, TCP, a client a node, 20 round trips each
//!
//! One run is one line: peer, workload, how much, seconds, how much a second, checksum, virtual time. The checksum is
//! made where messages are read and sleeps end, so peers with equal ones did the same; the virtual time says whether
//! they slept and waited for as long.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Tasks that sleep.
pub const SLEEPERS: u64 = 1_000;
/// Sleeps of each.
pub const SLEEPS: u64 = 1_000;
/// Batches of trivial tasks.
pub const BATCHES: u64 = 1_000;
/// Tasks in each.
pub const BATCH: u64 = 1_000;
/// Machines with a server and clients.
pub const NODES: u64 = 5;
/// Bytes of a request and of its answer.
pub const MESSAGE_BYTES: usize = 64;
/// Requests and answers that arrive in a run of the network.
pub const DELIVERIES: u64 = 1_000_000;
/// Shortest latency, one way.
pub const LATENCY_MIN: Duration = Duration::from_millis(1);
/// Longest latency, one way.
pub const LATENCY_MAX: Duration = Duration::from_millis(10);
/// Fresh worlds.
pub const SEEDS: u64 = 1_000;
/// Round trips of each client in one.
pub const SHORT_ROUND_TRIPS: u64 = 20;
/// The servers' port.
pub const PORT: u16 = 7_000;
/// How long clients wait before the first datagram, so that servers have bound their ports; and after a refused
/// connection.
pub const PATIENCE: Duration = Duration::from_millis(1);

/// A message: what every delivery carries.
pub type Message = [u8; MESSAGE_BYTES];

/// One step of the generator of that name.
pub const fn splitmix64(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// How long the `k`-th sleep of the `i`-th task is.
pub const fn sleep_of(i: u64, k: u64) -> Duration {
    Duration::from_micros(splitmix64(i * 1_000 + k) % 100_000 + 1)
}

/// How messages travel.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A connection a client.
    Tcp,
}

/// A run of the network.
#[derive(Copy, Clone, Debug)]
pub struct Net {
    /// How messages travel.
    pub transport: Transport,
    /// Clients a node.
    pub clients: u64,
    /// Round trips a client.
    pub round_trips: u64,
}

impl Net {
    const fn with(transport: Transport, clients: u64) -> Self {
        Self { transport, clients, round_trips: DELIVERIES / 2 / NODES / clients }
    }
}

/// The node whose server the `client`-th client of `node` asks: one of the four others.
pub const fn server_of(node: u64, client: u64) -> u64 {
    (node + 1 + client % (NODES - 1)) % NODES
}

/// The `k`-th request of a client.
pub fn request(node: u64, client: u64, k: u64) -> Message {
    let mut message = [0x5A; MESSAGE_BYTES];
    let number = splitmix64((node << 48) + (client << 32) + k);
    message[..8].copy_from_slice(&number.to_le_bytes());
    message
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static CHECKSUM: Cell<u64> = const { Cell::new(0) };
}

/// To be called with whatever arrives, at servers and clients.
pub fn delivered(message: &Message) {
    let number = u64::from_le_bytes(*message.first_chunk().expect("a message is longer"));
    note(number);
}

/// To be called at the end of each sleep, and with what each trivial task returns.
pub fn note(number: u64) {
    COUNT.set(COUNT.get() + 1);
    CHECKSUM.set(CHECKSUM.get().wrapping_add(number));
}

/// What a peer can do. All return the virtual time that it took.
pub trait Peer {
    /// As the table calls it.
    const NAME: &'static str;

    /// Sleepers.
    fn timers() -> Duration;

    /// Trivial tasks.
    fn spawn() -> Duration;

    /// Echo.
    ///
    /// # Errors
    /// Why it cannot do that.
    fn net(seed: u64, net: Net) -> Result<Duration, &'static str>;
}

fn short_seeds<P: Peer>() -> Result<Duration, &'static str> {
    let net = Net { transport: Transport::Tcp, clients: 1, round_trips: SHORT_ROUND_TRIPS };
    (1..=SEEDS).map(|seed| P::net(seed, net)).sum()
}

fn run<P: Peer>(workload: &str) -> Option<Result<Duration, &'static str>> {
    let net = |transport, clients| P::net(1, Net::with(transport, clients));
    Some(match workload {
        "timers" => Ok(P::timers()),
        "spawn" => Ok(P::spawn()),
        "udp-1" => net(Transport::Udp, 1),
        "udp-32" => net(Transport::Udp, 32),
        "tcp-1" => net(Transport::Tcp, 1),
        "tcp-32" => net(Transport::Tcp, 32),
        "short-seeds" => short_seeds::<P>(),
        _ => return None,
    })
}

/// The `main` of a peer: runs the workload that its argument names, and prints one line.
pub fn main<P: Peer>() -> ExitCode {
    let workload = std::env::args().nth(1).unwrap_or_default();
    let begin = Instant::now();
    let Some(outcome) = run::<P>(&workload) else {
        eprintln!("workloads: timers spawn udp-1 udp-32 tcp-1 tcp-32 short-seeds");
        return ExitCode::from(2);
    };
    let seconds = begin.elapsed().as_secs_f64();
    let name = P::NAME;
    match outcome {
        Err(why) => println!("{name} {workload} - {why}"),
        Ok(virtual_time) => {
            let count = if workload == "short-seeds" { SEEDS } else { COUNT.get() };
            let rate = count as f64 / seconds;
            let (checksum, virtual_ms) = (CHECKSUM.get(), virtual_time.as_millis());
            println!("{name} {workload} {count} {seconds:.4} {rate:.0} {checksum:016x} {virtual_ms}");
        }
    }
    ExitCode::SUCCESS
}
