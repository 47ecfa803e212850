//! A client: one session, through which operations take effect at most once, several at a time if wanted.
//!
//!   call ──sequence number──► request to the supposed leader ──► reply, found by its number ──► call returns
//!          same number again ◄── hint at another, silence ──┘
//!
//! "If the client's first choice is not the leader, that server will reject the client's request and supply
//! information about the most recent leader it has heard from. If the leader crashes, client requests will time
//! out; clients then try again with randomly-chosen servers" (§8); here they take turns instead.
//!
//! Invariants: a retry carries the number of the first attempt; `ack_below` never passes a call that has not
//! returned.

use crate::types::{Op, OpReply, Sequence, ServerId, SessionId};
use crate::wire::{self, Answer, ClientReply, ClientRequest, Message};
use serde::{Deserialize, Serialize};
use sim_io::net::UdpSocket;
use sim_runtime::sync::{Either, mpsc, race};
use sim_runtime::time::{Instant, sleep_until};
use sim_runtime::{JoinHandle, task};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// What a client is told when it starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientConfig {
    /// Its session. Nobody else, and no other process of this client, may ever use it.
    pub session: SessionId,
    /// The servers of the cluster.
    pub servers: BTreeMap<ServerId, SocketAddr>,
    /// How long it waits for one server before it asks the next.
    pub attempt_timeout_ms: u64,
    /// How long it waits before it asks again where nobody knows of a leader.
    pub retry_pause_ms: u64,
}

impl ClientConfig {
    /// A session with patient timeouts.
    pub fn new(session: SessionId, servers: BTreeMap<ServerId, SocketAddr>) -> Self {
        Self { session, servers, attempt_timeout_ms: 120, retry_pause_ms: 20 }
    }
}

/// The call's time was up. The operation may have taken effect, may yet, or may never.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no answer in time: whether the operation took effect is not known")]
pub struct Unknown;

/// A session.
#[derive(Debug)]
pub struct Client {
    shared: Rc<Shared>,
    receiver: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    config: ClientConfig,
    servers: Vec<(ServerId, SocketAddr)>,
    socket: UdpSocket,
    next: Cell<Sequence>,
    /// Calls that have not returned, and where their answers go.
    calls: RefCell<BTreeMap<Sequence, mpsc::Sender<Answer>>>,
    /// Which server is supposed to lead.
    favourite: Cell<usize>,
}

impl Client {
    /// Opens a session from a free port of the caller's node.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Panics
    /// When the configuration names no server.
    pub async fn new(config: ClientConfig) -> io::Result<Self> {
        assert!(!config.servers.is_empty(), "session {} has no server to talk to", config.session);
        let servers: Vec<_> = config.servers.iter().map(|(&id, &at)| (id, at)).collect();
        let shared = Rc::new(Shared {
            socket: UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).await?,
            next: Cell::new(Sequence(1)),
            calls: RefCell::default(),
            // Clients begin at different servers.
            favourite: Cell::new(config.session.0 as usize % servers.len()),
            servers,
            config,
        });
        let receiver = task("client replies").key(shared.config.session.0).spawn(receive(shared.clone()));
        Ok(Self { shared, receiver })
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.shared.config.session
    }

    /// Carries out an operation, trying for at most `patience`. Calls may overlap.
    ///
    /// # Errors
    /// [`Unknown`] when the time is up. There is no definite failure: what was sent once may arrive whenever.
    pub async fn call(&self, op: Op, patience: Duration) -> Result<OpReply, Unknown> {
        let deadline = Instant::now() + patience;
        let call = Call::begin(self.shared.clone(), op);
        call.run(deadline).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.receiver.abort();
    }
}

/// Brings each reply to the call that waits for it; a reply to none is an old one.
async fn receive(shared: Rc<Shared>) {
    let mut frame = Vec::new();
    while poll_fn(|cx| shared.socket.poll_recv_into(cx, &mut frame)).await.is_ok() {
        let Ok(Message::ClientReply(reply)) = wire::decode(&frame) else { continue };
        let ClientReply { session, sequence, answer } = reply;
        if session != shared.config.session {
            continue;
        }
        let call = shared.calls.borrow().get(&sequence).cloned();
        if let Some(call) = call {
            // The call may have returned since.
            let _ = call.send(answer);
        }
    }
}

/// An operation that has not returned.
struct Call {
    shared: Rc<Shared>,
    sequence: Sequence,
    op: Op,
    answers: mpsc::Receiver<Answer>,
}

impl Call {
    fn begin(shared: Rc<Shared>, op: Op) -> Self {
        let sequence = shared.next.get();
        shared.next.set(Sequence(sequence.0 + 1));
        let (to_call, answers) = mpsc::unbounded();
        shared.calls.borrow_mut().insert(sequence, to_call);
        Self { shared, sequence, op, answers }
    }

    async fn run(mut self, deadline: Instant) -> Result<OpReply, Unknown> {
        let ClientConfig { attempt_timeout_ms, retry_pause_ms, .. } = self.shared.config;
        let mut redirects = 0;
        loop {
            let asked = self.ask();
            let silence = (Instant::now() + Duration::from_millis(attempt_timeout_ms)).min(deadline);
            match race(self.answers.recv(), sleep_until(silence)).await {
                Either::Left(Some(Answer::Done(reply))) => return Ok(reply),
                Either::Left(Some(Answer::NotLeader { hint })) => {
                    let somewhere_new = self.follow_hint(asked, hint);
                    redirects += 1;
                    // Servers that point at each other, or at nobody, need time and not questions.
                    if !somewhere_new || redirects > 2 {
                        redirects = 0;
                        let pause = Instant::now() + Duration::from_millis(retry_pause_ms);
                        sleep_until(pause.min(deadline)).await;
                    }
                }
                Either::Left(None) | Either::Right(()) => self.leave(asked),
            }
            if let Some(reply) = self.done_already() {
                return Ok(reply);
            }
            if Instant::now() >= deadline {
                return Err(Unknown);
            }
        }
    }

    /// Sends the request to the supposed leader; returns which that is.
    fn ask(&self) -> usize {
        let shared = &self.shared;
        let favourite = shared.favourite.get();
        let ack_below = shared.calls.borrow().keys().next().copied().unwrap_or(self.sequence);
        let request =
            ClientRequest { session: shared.config.session, sequence: self.sequence, ack_below, op: self.op };
        let mut frame = Vec::with_capacity(64);
        wire::encode(&Message::ClientRequest(request), &mut frame);
        // What cannot be sent is lost, and asked again like anything that is lost.
        let _ = shared.socket.try_send_to(&frame, shared.servers[favourite].1);
        favourite
    }

    /// True when the hint leads to another server than the one that gave it.
    fn follow_hint(&self, asked: usize, hint: Option<ServerId>) -> bool {
        let shared = &self.shared;
        let hinted = hint.and_then(|hint| shared.servers.iter().position(|(id, _)| *id == hint));
        match hinted {
            Some(leader) if leader != asked => {
                shared.favourite.set(leader);
                true
            }
            _ => {
                self.leave(asked);
                false
            }
        }
    }

    /// The server that was asked is no good; another call may have found that out already.
    fn leave(&self, asked: usize) {
        if self.shared.favourite.get() == asked {
            self.shared.favourite.set((asked + 1) % self.shared.servers.len());
        }
    }

    /// An answer that came while the call paused.
    fn done_already(&mut self) -> Option<OpReply> {
        while let Some(answer) = self.answers.try_recv() {
            if let Answer::Done(reply) = answer {
                return Some(reply);
            }
        }
        None
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.calls.borrow_mut().remove(&self.sequence);
    }
}
