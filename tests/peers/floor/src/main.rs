//! The floor: a queue of events and a `match`, no tasks, no futures, no sockets. Nothing that does the same can be
//! much faster, and nothing that is written as `async fn` gets quite there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::process::ExitCode;
use std::time::Duration;

use workload::{Message, NODES, Net, Peer};

/// Events in order of time, then of insertion.
struct Queue<E> {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<E>>,
    free: Vec<usize>,
    now_us: u64,
    inserted: u64,
}

impl<E> Queue<E> {
    fn new() -> Self {
        Self { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), now_us: 0, inserted: 0 }
    }

    fn after(&mut self, us: u64, event: E) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                self.events.len() - 1
            }
        };
        self.inserted += 1;
        self.heap.push(Reverse((self.now_us + us, self.inserted, place)));
    }

    fn next(&mut self) -> Option<E> {
        let Reverse((at_us, _, place)) = self.heap.pop()?;
        self.now_us = at_us;
        self.free.push(place);
        self.events[place].take()
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.now_us)
    }
}

struct Floor;

/// A message on its way to a server, or back.
struct Arrival {
    at_server: bool,
    node: u64,
    client: u64,
    k: u64,
    message: Message,
}

impl Peer for Floor {
    const NAME: &'static str = "floor";

    fn timers() -> Duration {
        let us = |i, k| workload::sleep_of(i, k).as_micros() as u64;
        let mut queue = Queue::new();
        for i in 0..workload::SLEEPERS {
            queue.after(us(i, 0), (i, 0));
        }
        while let Some((i, k)) = queue.next() {
            workload::note(us(i, k));
            if k + 1 < workload::SLEEPS {
                queue.after(us(i, k + 1), (i, k + 1));
            }
        }
        queue.now()
    }

    fn spawn() -> Duration {
        for batch in 0..workload::BATCHES {
            let tasks: Vec<Box<dyn FnOnce() -> u64>> = (0..workload::BATCH)
                .map(|n| Box::new(move || batch + n) as Box<dyn FnOnce() -> u64>)
                .collect();
            for task in tasks {
                workload::note(task());
            }
        }
        Duration::ZERO
    }

    fn net(seed: u64, net: Net) -> Result<Duration, &'static str> {
        let mut draws = workload::splitmix64(seed);
        let mut latency_us = || {
            draws = draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let (min, max) =
                (workload::LATENCY_MIN.as_micros() as u64, workload::LATENCY_MAX.as_micros() as u64);
            min + workload::splitmix64(draws) % (max - min + 1)
        };
        let mut queue = Queue::new();
        for node in 0..NODES {
            for client in 0..net.clients {
                let message = workload::request(node, client, 0);
                queue.after(latency_us(), Arrival { at_server: true, node, client, k: 0, message });
            }
        }
        while let Some(mut arrival) = queue.next() {
            workload::delivered(&arrival.message);
            if !arrival.at_server {
                arrival.k += 1;
                if arrival.k == net.round_trips {
                    continue;
                }
                arrival.message = workload::request(arrival.node, arrival.client, arrival.k);
            }
            arrival.at_server = !arrival.at_server;
            queue.after(latency_us(), arrival);
        }
        Ok(queue.now())
    }
}

fn main() -> ExitCode {
    workload::main::<Floor>()
}
