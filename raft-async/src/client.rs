//! A client: one session, through which operations take effect at most once, several at a time if wanted.
//!
//!   call ──sequence number──► request to the supposed leader ──► reply, found by its number ──► call returns
//!          same number again ◄── hint at another, silence ──┘
//!
//! "If the client's first choice is not the leader, that server will reject the client's request and supply
//! information about the most recent leader it has heard from. If the leader crashes, client requests will time
//! out; clients then try again with randomly-chosen servers" (§8); here they take turns instead.
//!
//! There is no task behind a client: the calls that wait read what arrives, each for all of them.
//!
//! Invariants: a retry carries the number of the first attempt; `ack_below` never passes a call that has not
//! returned.

use crate::link::{Carrier, Link};
use crate::types::{Op, OpReply, Sequence, ServerId, SessionId};
use crate::wire::{self, Answer, ClientReply, ClientRequest, Message, TYPICAL_FRAME_BYTES};
use serde::{Deserialize, Serialize};
use sim_runtime::sync::{Either, race};
use sim_runtime::time::{Instant, sleep_until};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
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
    /// How it is connected; the servers' choice.
    pub carrier: Carrier,
}

impl ClientConfig {
    /// A session with patient timeouts.
    pub fn new(session: SessionId, servers: BTreeMap<ServerId, SocketAddr>) -> Self {
        Self { session, servers, attempt_timeout_ms: 120, retry_pause_ms: 20, carrier: Carrier::default() }
    }
}

/// The call's time was up. The operation may have taken effect, may yet, or may never.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no answer in time: whether the operation took effect is not known")]
pub struct Unknown;

/// A session.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    servers: Vec<(ServerId, SocketAddr)>,
    link: Link,
    next: Cell<Sequence>,
    /// Calls that have not returned, in the order of their numbers.
    calls: RefCell<Vec<Outstanding>>,
    /// Which server is supposed to lead.
    favourite: Cell<usize>,
    /// Every frame is built, and every reply received, here.
    frame: RefCell<Vec<u8>>,
}

/// A call that has not returned, as the others see it.
#[derive(Debug)]
struct Outstanding {
    sequence: Sequence,
    /// What others have read for it.
    answers: VecDeque<Answer>,
    waker: Option<Waker>,
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
        let addresses: Vec<_> = servers.iter().map(|(_, at)| *at).collect();
        let patience = Duration::from_millis(config.attempt_timeout_ms);
        Ok(Self {
            link: Link::open(config.carrier, &addresses, patience).await?,
            next: Cell::new(Sequence(1)),
            calls: RefCell::default(),
            // Clients begin at different servers.
            favourite: Cell::new(config.session.0 as usize % servers.len()),
            frame: RefCell::new(Vec::with_capacity(TYPICAL_FRAME_BYTES)),
            servers,
            config,
        })
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.config.session
    }

    /// Carries out an operation, trying for at most `patience`. Calls may overlap.
    ///
    /// # Errors
    /// [`Unknown`] when the time is up. There is no definite failure: what was sent once may arrive whenever.
    pub async fn call(&self, op: Op, patience: Duration) -> Result<OpReply, Unknown> {
        let deadline = Instant::now() + patience;
        Call::begin(self, op).run(deadline).await
    }

    /// Reads replies until there is one for the call of that number; those for others are brought to them. A reply to
    /// no call is an old one.
    fn poll_answer(&self, sequence: Sequence, cx: &mut Context<'_>) -> Poll<Answer> {
        if let Some(answer) = self.call_of(sequence, |call| call.answers.pop_front()) {
            return Poll::Ready(answer);
        }
        let mut frame = self.frame.take();
        let mut found = Poll::Pending;
        // A link fails only when its incarnation is gone, and this task with it.
        while let (Poll::Pending, Poll::Ready(Ok(_))) = (&found, self.link.poll_receive(cx, &mut frame)) {
            let Ok(Message::ClientReply(reply)) = wire::decode(&frame) else { continue };
            let ClientReply { session, sequence: answered, answer } = reply;
            if session != self.config.session {
                continue;
            }
            if answered == sequence {
                found = Poll::Ready(answer);
            } else {
                self.deliver(answered, answer);
            }
        }
        self.frame.replace(frame);
        if found.is_pending() {
            self.call_of(sequence, |call| call.waker.replace(cx.waker().clone()));
        }
        found
    }

    fn deliver(&self, sequence: Sequence, answer: Answer) {
        let waker = self.call_of(sequence, |call| {
            call.answers.push_back(answer);
            call.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Lends the call of that number, if it has not returned.
    fn call_of<T>(&self, sequence: Sequence, lend: impl FnOnce(&mut Outstanding) -> Option<T>) -> Option<T> {
        let mut calls = self.calls.borrow_mut();
        calls.iter_mut().find(|call| call.sequence == sequence).and_then(lend)
    }
}

/// An operation that has not returned.
struct Call<'a> {
    client: &'a Client,
    sequence: Sequence,
    op: Op,
}

impl<'a> Call<'a> {
    fn begin(client: &'a Client, op: Op) -> Self {
        let sequence = client.next.get();
        client.next.set(Sequence(sequence.0 + 1));
        let (answers, waker) = (VecDeque::new(), None);
        client.calls.borrow_mut().push(Outstanding { sequence, answers, waker });
        Self { client, sequence, op }
    }

    async fn run(self, deadline: Instant) -> Result<OpReply, Unknown> {
        let ClientConfig { attempt_timeout_ms, retry_pause_ms, .. } = self.client.config;
        let mut redirects = 0;
        loop {
            let asked = self.ask();
            let silence = (Instant::now() + Duration::from_millis(attempt_timeout_ms)).min(deadline);
            let answer = poll_fn(|cx| self.client.poll_answer(self.sequence, cx));
            match race(answer, sleep_until(silence)).await {
                Either::Left(Answer::Done(reply)) => return Ok(reply),
                Either::Left(Answer::NotLeader { hint }) => {
                    let somewhere_new = self.follow_hint(asked, hint);
                    redirects += 1;
                    // Servers that point at each other, or at nobody, need time and not questions.
                    if !somewhere_new || redirects > 2 {
                        redirects = 0;
                        let pause = Instant::now() + Duration::from_millis(retry_pause_ms);
                        sleep_until(pause.min(deadline)).await;
                    }
                }
                Either::Right(()) => self.leave(asked),
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
        let client = self.client;
        let favourite = client.favourite.get();
        let ack_below = client.calls.borrow().first().map_or(self.sequence, |call| call.sequence);
        let request =
            ClientRequest { session: client.config.session, sequence: self.sequence, ack_below, op: self.op };
        let mut frame = client.frame.take();
        wire::encode(&Message::ClientRequest(request), &mut frame);
        // What is lost is asked again.
        client.link.transmit(&frame, client.servers[favourite].1);
        client.frame.replace(frame);
        favourite
    }

    /// True when the hint leads to another server than the one that gave it.
    fn follow_hint(&self, asked: usize, hint: Option<ServerId>) -> bool {
        let client = self.client;
        let hinted = hint.and_then(|hint| client.servers.iter().position(|(id, _)| *id == hint));
        match hinted {
            Some(leader) if leader != asked => {
                client.favourite.set(leader);
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
        let client = self.client;
        if client.favourite.get() == asked {
            client.favourite.set((asked + 1) % client.servers.len());
        }
    }

    /// An answer that came while the call paused.
    fn done_already(&self) -> Option<OpReply> {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(answer) = self.client.poll_answer(self.sequence, &mut cx) {
            if let Answer::Done(reply) = answer {
                return Some(reply);
            }
        }
        None
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.client.calls.borrow_mut().retain(|call| call.sequence != self.sequence);
    }
}
