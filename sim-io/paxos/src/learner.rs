//! Learners: "to learn that a value has been chosen, a learner must find out that a proposal has been accepted by a
//! majority of acceptors" (§2.3). They apply what is chosen, in the order of the slots.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use sim_io::simulation::{parameter, processes};
use sim_runtime::time::{Duration, Instant};
use sim_runtime::{NodeId, assert_sometimes, assert_sometimes_greater_than};

use crate::message::{Mailbox, Message, Role};
use crate::mutant::{Mutant, Planted};
use crate::terms::{Command, Proposal, Slot, majority};

/// How many slots one learner tells another of.
const TOLD: usize = 32;

/// What a server knows to be chosen. Its proposer is "a learner in all instances" too (§3), and shares it.
#[derive(Clone, Default)]
pub struct Learned(Rc<RefCell<Knowledge>>);

#[derive(Default)]
struct Knowledge {
    chosen: BTreeMap<Slot, Command>,
    /// How many slots are applied; there is none unknown among them.
    applied: u64,
    /// The latest request of each client that is applied. A client waits for one before it sends the next.
    latest: BTreeMap<u16, u64>,
    /// Requests that came to this server and are not answered.
    awaited: BTreeSet<Command>,
}

impl Learned {
    /// Whether it is known what is chosen there.
    pub fn knows(&self, slot: Slot) -> bool {
        self.0.borrow().chosen.contains_key(&slot)
    }

    /// The first slot of which that is not known.
    pub fn first_unknown(&self) -> Slot {
        self.0.borrow().applied + 1
    }

    /// A client asks for it here. True when it is applied already; else it is answered when it is.
    pub fn hear(&self, command: Command) -> bool {
        let mut known = self.0.borrow_mut();
        let is_applied = known.latest.get(&command.client).is_some_and(|latest| *latest >= command.number);
        if !is_applied {
            known.awaited.insert(command);
        }
        is_applied
    }

    fn learn(&self, slot: Slot, value: Command, mailbox: &Mailbox) -> io::Result<()> {
        let mut known = self.0.borrow_mut();
        if known.chosen.contains_key(&slot) {
            return Ok(());
        }
        known.chosen.insert(slot, value);
        tracing::info!(slot, %value, "learned");
        while let Some(value) = known.chosen.get(&(known.applied + 1)).copied() {
            known.applied += 1;
            let latest = known.latest.entry(value.client).or_default();
            // A request that was sent twice may have been chosen twice.
            let fresh = value.number > *latest;
            *latest = value.number.max(*latest);
            tracing::info!(slot = known.applied, %value, fresh, "applied");
            assert_sometimes!(!fresh && value != Command::NO_OP, "a request is chosen twice");
            assert_sometimes_greater_than!(known.applied, 40, "slots that are decided");
            if known.awaited.remove(&value) {
                mailbox.send(Role::Client, &[NodeId(value.client)], &Message::Done(value))?;
            }
        }
        Ok(())
    }
}

/// The learner on the node `me`.
pub async fn run(me: NodeId, learned: Learned, planted: Planted) -> io::Result<()> {
    let mailbox = Mailbox::of(Role::Learner, me).await?;
    let servers = processes();
    let mut votes: BTreeMap<Slot, BTreeSet<(NodeId, Proposal)>> = BTreeMap::new();
    let mut ask_at = Instant::now();
    loop {
        match mailbox.receive_until(ask_at).await? {
            Some((Message::Accepted(proposal), acceptor)) if !learned.knows(proposal.slot) => {
                let votes_there = votes.entry(proposal.slot).or_default();
                votes_there.insert((acceptor, proposal));
                let is_for_it = |vote: &Proposal| {
                    vote.ballot == proposal.ballot
                        || planted.has(Mutant::MixedBallots) && vote.value == proposal.value
                };
                let voters: BTreeSet<_> =
                    votes_there.iter().filter(|(_, vote)| is_for_it(vote)).map(|(voter, _)| voter).collect();
                if voters.len() >= majority(servers.len(), planted) {
                    votes.remove(&proposal.slot);
                    learned.learn(proposal.slot, proposal.value, &mailbox)?;
                }
            }
            Some((Message::Chosen(slot, value), _)) => learned.learn(slot, value, &mailbox)?,
            Some((Message::Report(first), from)) => {
                let known = learned.0.borrow();
                for (slot, value) in known.chosen.range(first..).take(TOLD) {
                    mailbox.send(Role::Learner, &[from], &Message::Chosen(*slot, *value))?;
                }
            }
            Some(_) => {}
            // "Because of message loss, a value could be chosen with no learner ever finding out. The learner could ask
            // the acceptors what proposals they have accepted" (§2.3).
            None => {
                let report = Message::Report(learned.first_unknown());
                mailbox.send(Role::Acceptor, &servers, &report)?;
                mailbox.send(Role::Learner, &servers, &report)?;
                ask_at = Instant::now() + Duration::from_millis(parameter("report ms"));
            }
        }
    }
}
