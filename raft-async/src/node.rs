//! What all roles of a server share: its hard state, its log, its commit index.
//!
//! Handles are cheap and the owner of each thing is one field here. The roles decide and order effects; the
//! tasks beside them (log writer, applier) hold the same node.
//!
//! Invariants: the commit index never falls; the term that is read here is durable.

use crate::applier::{self, Answers};
use crate::config::Config;
use crate::follower::{self, Standing};
use crate::halt::Halt;
use crate::hard_state::HardState;
use crate::log::Log;
use crate::machine::StateMachine;
use crate::mutant::{Mutant, Planted};
use crate::planted;
use crate::rules::Voter;
use crate::storage::HardStateFile;
use crate::trace::{Became, CommitAdvanced, LogSummary, RoleKind};
use crate::transport::Transport;
use crate::types::{Index, ServerId, Term};
use crate::wire::{Answer, ClientReply, ClientRequest, Message};
use sim_runtime::Handle;
use sim_runtime::sync::Notify;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

/// What a server does next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Follower,
    Candidate,
    Leader,
}

/// A server, apart from its role.
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) world: Handle,
    pub(crate) hard_state: HardStateFile,
    pub(crate) log: Log,
    pub(crate) transport: Transport,
    /// The other servers.
    pub(crate) others: Vec<ServerId>,
    commit: Cell<Index>,
    /// Tells an applier that has its own pace that the commit index moves. Keeps a permit, for one that is busy just
    /// then.
    pub(crate) committed: Notify,
    /// Of a follower that has heard of a leader: how it stands with it.
    pub(crate) standing: Cell<Option<Standing>>,
    /// Who leads the current term, if known.
    pub(crate) leader: Cell<Option<ServerId>>,
    pub(crate) machine: RefCell<Box<dyn StateMachine>>,
    pub(crate) answers: Answers,
}

impl Node {
    pub(crate) fn new(
        config: Config,
        world: Handle,
        hard_state: HardStateFile,
        log: Log,
        transport: Transport,
        machine: Box<dyn StateMachine>,
    ) -> Self {
        let others = config.servers.keys().copied().filter(|&id| id != config.id).collect();
        Self {
            config,
            world,
            hard_state,
            log,
            transport,
            others,
            commit: Cell::new(Index::ZERO),
            committed: Notify::new(),
            standing: Cell::new(None),
            leader: Cell::new(None),
            machine: RefCell::new(machine),
            answers: Answers::default(),
        }
    }

    pub(crate) fn me(&self) -> ServerId {
        self.config.id
    }

    pub(crate) fn planted(&self) -> Planted {
        self.config.planted
    }

    pub(crate) fn servers(&self) -> usize {
        self.config.servers.len()
    }

    /// The current term.
    pub(crate) fn term(&self) -> Term {
        self.hard_state.get().term
    }

    /// What this server decides votes by.
    pub(crate) fn voter(&self) -> Voter {
        let HardState { term, voted_for } = self.hard_state.get();
        Voter { term, voted_for, last: self.log.last() }
    }

    /// Makes a new term (and vote) durable, then current. Whoever led an earlier term is of no interest then.
    pub(crate) async fn save(&self, state: HardState) -> Result<(), Halt> {
        let new_term = state.term != self.term();
        if self.planted().has(Mutant::CancelledSave) {
            planted::save_or_not(self, state).await;
        } else {
            self.hard_state.save(state).await?;
        }
        if new_term {
            self.leader.set(None);
        }
        follower::acknowledge_synced(self);
        Ok(())
    }

    /// "index of highest log entry known to be committed".
    pub(crate) fn commit(&self) -> Index {
        self.commit.get()
    }

    /// Moves the commit index forward, and has what it passed applied.
    pub(crate) fn advance_commit(&self, to: Index) {
        if to <= self.commit.get() {
            return;
        }
        self.commit.set(to);
        let entry_term = self.log.entries().term_at(to).unwrap_or_default();
        self.world.emit(CommitAdvanced { index: to.0, term: self.term().0, entry_term: entry_term.0 });
        applier::follow_commit(self);
    }

    /// The log is durable further than before.
    pub(crate) fn log_synced(&self) {
        if !follower::acknowledge_synced(self) {
            self.log.synced.notify_one();
        }
    }

    /// Says which role the server takes.
    pub(crate) fn announce(&self, role: RoleKind) {
        let name = match role {
            RoleKind::Follower => "follower",
            RoleKind::Candidate => "candidate",
            RoleKind::Leader => "leader",
        };
        self.world.set_role(name);
        let last = self.log.last();
        self.world.emit(Became {
            role,
            term: self.term().0,
            last_index: last.index.0,
            last_term: last.term.0,
            commit: self.commit().0,
        });
        if role == RoleKind::Leader {
            let log_digest = self.log.entries().digest();
            self.world.emit(LogSummary { last_index: last.index.0, last_term: last.term.0, log_digest });
        }
    }

    /// Sends a client to the leader, as far as this server knows it.
    pub(crate) fn redirect(&self, request: &ClientRequest, client: SocketAddr) {
        let answer = Answer::NotLeader { hint: self.leader.get().filter(|&leader| leader != self.me()) };
        let ClientRequest { session, sequence, .. } = *request;
        self.transport.send_to(client, &Message::ClientReply(ClientReply { session, sequence, answer }));
    }
}
