//! Is this history linearizable? An item is one operation. Clients overlap: each begins its next operation before the
//! others have finished theirs.

use divan::Bencher;
use divan::counter::ItemsCount;
use linearizability::models::kv::{Input, Kv, Output, Value};
use linearizability::{History, Options, Verdict, check};

const OPERATIONS: u64 = 2_000;

/// Of a register under `clients` clients: writes of unique values, and reads of the latest that took effect.
fn of_a_register(clients: u64) -> History<&'static str, Input, Output> {
    let mut history = History::new();
    let mut latest = None;
    for round in 0..OPERATIONS / clients {
        let begun: Vec<_> = (0..clients)
            .map(|client| {
                let value = Value::Register(round * clients + client);
                let input = if client % 2 == 0 { Input::Put(value.clone()) } else { Input::Get };
                (history.invoke(client as u32, "x", input), client, value)
            })
            .collect();
        for (operation, client, value) in begun {
            if client % 2 == 0 {
                latest = Some(value);
                history.complete(operation, Output::Written);
            } else {
                history.complete(operation, Output::Value(latest.clone()));
            }
        }
    }
    history
}

#[divan::bench(args = [2, 4, 8], sample_count = 20)]
fn register(bencher: Bencher<'_, '_>, clients: u64) {
    let history = of_a_register(clients);
    bencher.counter(ItemsCount::new(OPERATIONS)).bench(|| {
        assert!(matches!(check(&Kv, &history, &Options::default()), Verdict::Linearizable(_)));
    });
}
