//! What must hold, judged by what servers and clients say through `tracing`: never by what is planted.
//!
//! | invariant | says | harm |
//! |---|---|---|
//! | [`Agreement`] | "only a single value is chosen" (§2.1), in each slot | two are |
//! | [`Validity`] | "only a value that has been proposed may be chosen" (§2.1) | one is that nobody asked for |
//! | [`Persistence`] | an acceptor "must remember this information even if it fails" (§2.2) | it forgot |
//! | [`Prefixes`] | all servers apply the same commands in the same order (§3) | two part ways |
//! | [`Clients`] | a request is applied once, and what was acknowledged was applied | twice, or never |

use std::collections::{BTreeMap, BTreeSet};

use sim_io::simulation::processes_in;
use sim_runtime::NodeId;
use sim_runtime::event::Event;
use sim_runtime::invariant::{Cursor, Invariant, View};
use sim_runtime::verdict::Findings;

fn number(event: &Event, field: &str) -> u64 {
    event.u64(field).expect("this program's events have it")
}

fn value(event: &Event) -> String {
    event.text("value").expect("this program's events have it").to_owned()
}

/// A proposal is chosen when a majority of acceptors has accepted it, whoever knows.
#[derive(Default)]
pub struct Agreement {
    seen: Cursor,
    /// By slot and ballot: the value, and who accepted it.
    accepted: BTreeMap<(u64, u64, String), BTreeSet<NodeId>>,
    chosen: BTreeMap<u64, String>,
}

impl Agreement {
    fn is_chosen(&mut self, event: &Event, found: &mut Findings) {
        let (slot, value) = (number(event, "slot"), value(event));
        let other = self.chosen.entry(slot).or_insert_with(|| value.clone());
        if *other != value {
            let evidence = format!("slot {slot}: {other}, and then {value} for {}", event.node);
            found.violation("agreement", "two values are chosen in a slot", evidence);
        }
    }
}

impl Invariant for Agreement {
    fn name(&self) -> &'static str {
        "agreement"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.events(&mut self.seen) {
            match event.name.as_str() {
                "accepted" => {
                    let proposal = (number(event, "slot"), number(event, "ballot"), value(event));
                    let acceptors = self.accepted.entry(proposal).or_default();
                    acceptors.insert(event.node);
                    if acceptors.len() > processes_in(view).len() / 2 {
                        self.is_chosen(event, found);
                    }
                }
                "learned" => {
                    if self.chosen.get(&number(event, "slot")) != Some(&value(event)) {
                        found.premise("learned means chosen", || format!("{event:?}"));
                    }
                    self.is_chosen(event, found);
                }
                _ => {}
            }
        }
    }
}

/// What is learned was requested by a client, or is a no-op.
#[derive(Default)]
pub struct Validity {
    requests: Cursor,
    lessons: Cursor,
    requested: BTreeSet<String>,
}

impl Invariant for Validity {
    fn name(&self) -> &'static str {
        "validity"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        self.requested.extend(view.since("requested", &mut self.requests).map(value));
        for event in view.since("learned", &mut self.lessons) {
            let value = value(event);
            if value != "no-op" && !self.requested.contains(&value) {
                found.violation("validity", "a value that nobody proposed", format!("{event:?}"));
            }
        }
    }
}

/// What an acceptor finds after a restart is not behind what it has said before.
#[derive(Default)]
pub struct Persistence {
    seen: Cursor,
    acceptors: BTreeMap<NodeId, Said>,
}

#[derive(Default)]
struct Said {
    promised: u64,
    /// By slot: the highest ballot accepted.
    accepted: BTreeMap<u64, u64>,
    /// The same, as found after the restart that is under way.
    remembered: BTreeMap<u64, u64>,
}

impl Invariant for Persistence {
    fn name(&self) -> &'static str {
        "acceptor persistence"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.events(&mut self.seen) {
            let said = self.acceptors.entry(event.node).or_default();
            match event.name.as_str() {
                "promised" => said.promised = said.promised.max(number(event, "ballot")),
                "accepted" => {
                    said.promised = said.promised.max(number(event, "ballot"));
                    said.accepted.insert(number(event, "slot"), number(event, "ballot"));
                }
                "remembers" => {
                    said.remembered.insert(number(event, "slot"), number(event, "ballot"));
                }
                "recovered" => {
                    let remembered = std::mem::take(&mut said.remembered);
                    let ballot = number(event, "ballot");
                    if ballot < said.promised {
                        let evidence =
                            format!("{} promised {} and recovers {ballot}", event.node, said.promised);
                        found.violation("acceptor persistence", "a promise is forgotten", evidence);
                    }
                    let is_lost = |(slot, ballot): &(&u64, &u64)| {
                        remembered.get(slot).is_none_or(|remembered| remembered < ballot)
                    };
                    if let Some((slot, ballot)) = said.accepted.iter().find(is_lost) {
                        let evidence = format!("{} accepted {ballot} in slot {slot}", event.node);
                        found.violation("acceptor persistence", "an acceptance is forgotten", evidence);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Every server applies slot after slot from 1, in each of its lives, and finds there what others found.
#[derive(Default)]
pub struct Prefixes {
    seen: Cursor,
    log: Vec<String>,
    /// How far each incarnation is.
    reached: BTreeMap<(NodeId, u32), u64>,
}

impl Invariant for Prefixes {
    fn name(&self) -> &'static str {
        "prefix consistency"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.since("applied", &mut self.seen) {
            let (slot, value) = (number(event, "slot"), value(event));
            let reached = self.reached.entry((event.node, event.incarnation)).or_default();
            *reached += 1;
            if slot != *reached {
                let evidence = format!("{}: slot {slot} is applied as number {reached}", event.node);
                found.violation("prefix consistency", "out of order", evidence);
            } else if slot > self.log.len() as u64 {
                self.log.push(value);
            } else if self.log[slot as usize - 1] != value {
                let evidence = format!("{}: {value} in place of {}", event.node, self.log[slot as usize - 1]);
                found.violation("prefix consistency", "two logs part ways", evidence);
            }
        }
    }
}

/// A request takes effect once, in one slot, in whichever life of a server; what is acknowledged has taken effect.
#[derive(Default)]
pub struct Clients {
    seen: Cursor,
    /// By request: the slot in which it has taken effect.
    effects: BTreeMap<String, u64>,
}

impl Invariant for Clients {
    fn name(&self) -> &'static str {
        "client semantics"
    }

    fn observe(&mut self, view: &View<'_>, found: &mut Findings) {
        for event in view.events(&mut self.seen) {
            match event.name.as_str() {
                "applied" if event.bool("fresh") == Ok(true) => {
                    let slot = number(event, "slot");
                    let first = *self.effects.entry(value(event)).or_insert(slot);
                    if first != slot {
                        let evidence =
                            format!("{}: {} in slots {first} and {slot}", event.node, value(event));
                        found.violation("client semantics", "applied twice", evidence);
                    }
                }
                "acknowledged" if !self.effects.contains_key(&value(event)) => {
                    let evidence = format!("{}: {}", event.node, value(event));
                    found.violation("client semantics", "acknowledged, not applied", evidence);
                }
                _ => {}
            }
        }
    }
}
