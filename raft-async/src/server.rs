//! A server's life: recover, then one role after the other, until it halts.
//!
//!   recover ──► follower ◄──► candidate ──► leader ──┐
//!                  ▲                                 │
//!                  └─────────────────────────────────┘
//!
//! Three tasks run for as long as the server does: the roles, the log writer and the applier. The server's own
//! task only waits for the first of them to end, so that it costs nothing for each message.

use crate::applier;
use crate::candidate::campaign;
use crate::chatter::chat;
use crate::config::Config;
use crate::follower::follow;
use crate::halt::Halt;
use crate::hard_state::HardState;
use crate::leader::lead;
use crate::log::{self, Log};
use crate::machine::StateMachine;
use crate::mutant::Mutant;
use crate::node::{Node, Role};
use crate::storage::{self, Recovered};
use crate::trace::{self, Became, Halted, RoleKind};
use crate::transport::{Inbox, Transport};
use sim_runtime::{Handle, JoinHandle, node, select, task};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

/// Runs a server until it halts, and returns why.
///
/// The machine is in its first state: what the log holds is applied to it again after each start.
///
/// # Panics
/// Outside a run, and when the configuration makes no sense: a server that is not in its own cluster, a period of
/// zero.
pub async fn run<S: StateMachine + 'static>(config: Config, machine: S) -> Halt {
    config.assert_usable();
    let world = Handle::current();
    let halt = match serve(config, Box::new(machine), &world).await {
        Ok(never) => match never {},
        Err(halt) => halt,
    };
    world.emit(Halted { reason: halt.code() });
    world.set_role("");
    halt
}

async fn serve(config: Config, machine: Box<dyn StateMachine>, world: &Handle) -> Result<Infallible, Halt> {
    let Recovered { hard_state, segments, entries } = storage::recover(&config, world).await?;
    let HardState { term, voted_for } = hard_state.get();
    world.emit(trace::Recovered {
        term: term.0,
        vote: voted_for.map_or(0, |server| server.0.into()),
        last_index: entries.last().index.0,
        last_term: entries.last().term.0,
        log_digest: entries.digest(),
    });
    let transport = Transport::bind(&config).await.map_err(Halt::NoAddress)?;
    let inbox = Inbox::new(&transport, config.id, world);
    let log = Log::new(world.clone(), config.planted, entries);
    let node = Rc::new(Node::new(config, world.clone(), hard_state, log, transport, machine));
    if node.planted().has(Mutant::Canary) {
        claim_leadership(&node);
    }

    let mut writer = {
        let node = node.clone();
        AbortOnDrop(task("log writer").spawn(async move { log::write(&node, segments).await }))
    };
    let mut applier = {
        let node = node.clone();
        AbortOnDrop(task("applier").spawn(async move { applier::apply(&node).await }))
    };
    let _chatter = node.config.chatter_ms.map(|every_ms| {
        AbortOnDrop(task("chatter").spawn(chat(node.clone(), Duration::from_millis(every_ms))))
    });
    let mut roles = AbortOnDrop(task("role").spawn(take_roles(node, inbox)));
    select! {
        halt = &mut roles.0 => halt.unwrap_or(Err(Halt::TaskFailed)),
        _ = &mut applier.0 => Err(Halt::TaskFailed),
        halt = &mut writer.0 => halt.unwrap_or(Err(Halt::TaskFailed)),
        () = node::shutdown_requested() => Err(Halt::Shutdown),
    }
}

async fn take_roles(node: Rc<Node>, mut inbox: Inbox) -> Result<Infallible, Halt> {
    let (node, inbox) = (&node, &mut inbox);
    let mut role = Role::Follower;
    loop {
        role = match role {
            Role::Follower => follow(node, inbox).await?,
            Role::Candidate => campaign(node, inbox).await?,
            Role::Leader => lead(node, inbox).await?,
        };
        if role == Role::Follower && node.planted().has(Mutant::VoteForgottenOnRoleChange) {
            node.hard_state.assume(HardState { voted_for: None, ..node.hard_state.get() });
        }
    }
}

/// The canary: what every node says here cannot be true of more than one.
fn claim_leadership(node: &Node) {
    let last = node.log.last();
    node.world.emit(Became {
        role: RoleKind::Leader,
        term: 1,
        last_index: last.index.0,
        last_term: last.term.0,
        commit: 0,
    });
}

/// A task that ends with the scope that started it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
