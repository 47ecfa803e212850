//! Clients: one request after the other, each sent to another server until it is answered.

use std::io;

use sim_io::simulation::{parameter, processes};
use sim_runtime::rng::rng_named;
use sim_runtime::time::{Duration, Instant, sleep};
use sim_runtime::{NodeId, assert_sometimes_greater_than};

use crate::message::{Mailbox, Message, Role};
use crate::terms::Command;

/// The client on the node `me`.
pub async fn run(me: NodeId) -> io::Result<()> {
    let mailbox = Mailbox::of(Role::Client, me).await?;
    let (servers, mut chance) = (processes(), rng_named("client", 0));
    let mut server = *chance.pick(&servers);
    for number in 1..=parameter("requests") {
        let command = Command { client: me.0, number };
        tracing::info!(value = %command, "requested");
        let mut tries = 1;
        while !is_done(&mailbox, server, command).await? {
            server = *chance.pick(&servers);
            tries += 1;
        }
        assert_sometimes_greater_than!(tries, 5, "tries of a request");
        tracing::info!(value = %command, "acknowledged");
        sleep(Duration::from_micros(chance.below(parameter("think us") + 1))).await;
    }
    Ok(())
}

/// Sends it once and waits for a while.
async fn is_done(mailbox: &Mailbox, server: NodeId, command: Command) -> io::Result<bool> {
    mailbox.send(Role::Proposer, &[server], &Message::Request(command))?;
    let give_up = Instant::now() + Duration::from_millis(parameter("attempt ms"));
    while let Some((message, _)) = mailbox.receive_until(give_up).await? {
        if message == Message::Done(command) {
            return Ok(true);
        }
    }
    Ok(false)
}
