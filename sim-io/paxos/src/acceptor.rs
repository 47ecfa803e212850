//! Acceptors: phases 1b and 2b. "An acceptor records its intended response in stable storage before actually sending
//! the response" (§2.5).

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use sim_io::simulation::processes;
use sim_runtime::{NodeId, assert_reachable, assert_sometimes, probe};

use crate::journal::Journal;
use crate::message::{Mailbox, Message, Role};
use crate::mutant::{Mutant, Planted};
use crate::terms::{Ballot, Proposal, Slot};

/// How many proposals a report tells of.
const REPORTED: usize = 32;

/// "An acceptor needs to remember only the highest-numbered proposal that it has ever accepted and the number of the
/// highest-numbered prepare request to which it has responded" (§2.2).
#[derive(Default)]
struct Memory {
    promised: Ballot,
    accepted: BTreeMap<Slot, Proposal>,
}

#[derive(Copy, Clone, Serialize, Deserialize)]
enum Entry {
    Promised(Ballot),
    Accepted(Proposal),
}

impl Memory {
    fn remember(&mut self, entry: Entry) {
        let ballot = match entry {
            Entry::Promised(ballot) => ballot,
            Entry::Accepted(proposal) => {
                self.accepted.insert(proposal.slot, proposal);
                proposal.ballot
            }
        };
        self.promised = self.promised.max(ballot);
    }
}

/// The acceptor on the node `me`.
pub async fn run(me: NodeId, planted: Planted) -> io::Result<()> {
    let mailbox = Mailbox::of(Role::Acceptor, me).await?;
    let (journal, entries) = Journal::open("acceptor").await?;
    let mut memory = Memory::default();
    entries.into_iter().for_each(|entry| memory.remember(entry));
    for Proposal { slot, ballot, value } in memory.accepted.values() {
        tracing::info!(slot, ballot = ballot.0, %value, "remembers");
    }
    tracing::info!(ballot = memory.promised.0, "recovered");
    assert_sometimes!(!memory.accepted.is_empty(), "an acceptor recovers what it had accepted");
    loop {
        let (message, from) = mailbox.receive().await?;
        match message {
            // "If an acceptor receives a prepare request with number n greater than that of any prepare request to
            // which it has already responded, then it responds to the request with a promise .. and with the
            // highest-numbered proposal (if any) that it has accepted" (§2.2). To the same request it responds again.
            Message::Prepare(ballot, first) if ballot >= memory.promised => {
                if ballot > memory.promised {
                    memory.remember(Entry::Promised(ballot));
                    journal.append(&Entry::Promised(ballot)).await?;
                    if !planted.has(Mutant::ForgottenPromise) {
                        journal.sync().await?;
                    }
                }
                tracing::info!(ballot = ballot.0, "promised");
                let accepted = memory.accepted.range(first..).map(|(_, proposal)| *proposal).collect();
                mailbox.send(Role::Proposer, &[from], &Message::Promise(ballot, accepted))?;
                probe::point("promise sent");
            }
            // "It accepts the proposal unless it has already responded to a prepare request having a number greater
            // than n" (§2.2).
            Message::Accept(proposal)
                if proposal.ballot >= memory.promised || planted.has(Mutant::BelowPromise) =>
            {
                // A number has one value: what has this one is the same proposal, sent again.
                if memory.accepted.get(&proposal.slot).map(|known| known.ballot) != Some(proposal.ballot) {
                    memory.remember(Entry::Accepted(proposal));
                    journal.append(&Entry::Accepted(proposal)).await?;
                    journal.sync().await?;
                }
                tell(&mailbox, &processes(), memory.accepted[&proposal.slot])?;
                probe::point("acceptance sent");
            }
            Message::Prepare(..) | Message::Accept(_) => {
                assert_reachable!("a stale ballot is refused");
                mailbox.send(Role::Proposer, &[from], &Message::Refused(memory.promised))?;
            }
            Message::Report(first) => {
                for proposal in memory.accepted.range(first..).map(|(_, proposal)| *proposal).take(REPORTED) {
                    tell(&mailbox, &[from], proposal)?;
                }
            }
            _ => {}
        }
    }
}

/// Phase 2b: "whenever it accepts a proposal, respond to all learners" (§2.3), or later to one that asks.
fn tell(mailbox: &Mailbox, learners: &[NodeId], proposal: Proposal) -> io::Result<()> {
    let Proposal { slot, ballot, value } = proposal;
    tracing::info!(slot, ballot = ballot.0, %value, "accepted");
    mailbox.send(Role::Learner, learners, &Message::Accepted(proposal))
}
