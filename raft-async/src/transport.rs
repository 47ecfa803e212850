//! How messages leave and arrive.
//!
//!   role, replicator, applier ──send──► Transport ──► link            link ──► Inbox ──open──► role
//!
//! Sending never waits and never fails as far as a sender is concerned: what is lost is sent again by whoever
//! still needs it. Replies come back as messages into the one inbox, tied to nothing.
//!
//! Invariants: a frame that is not one of ours is counted and dropped; a message that ended a role is still in
//! the inbox for the next role.
//! Not here: what frames look like (`wire.rs`) and travel on (`link.rs`), sending again (`replicator.rs`, `candidate.rs`).

use crate::chatter::is_chatter;
use crate::config::Config;
use crate::link::Link;
use crate::mutant::{Mutant, Planted};
use crate::trace::FrameRejected;
use crate::types::{Entry, ServerId};
use crate::wire::{self, AppendRequest, Message, TYPICAL_FRAME_BYTES};
use sim_io::net::node_of;
use sim_runtime::{Handle, task, time};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The sending side of a server.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    link: Rc<Link>,
    servers: Rc<Vec<(ServerId, SocketAddr)>>,
    /// Every frame is built here.
    frame: Rc<RefCell<Vec<u8>>>,
    planted: Planted,
    /// For how long [`Mutant::ControlLateReply`] holds a reply: no longer than an election rides out ("broadcastTime
    /// << electionTimeout", §5.6), or it would be no harmless change.
    reply_late_by: Duration,
}

impl Transport {
    /// Listens at the server's own address.
    pub(crate) async fn bind(config: &Config) -> io::Result<Self> {
        let own = config.servers.get(&config.id).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let others = config.servers.values().copied().filter(|at| at != own).collect::<Vec<_>>();
        let patience = Duration::from_millis(config.election_timeout_min_ms);
        Ok(Self {
            link: Rc::new(Link::listen(config.carrier, *own, &others, patience).await?),
            servers: Rc::new(config.servers.iter().map(|(&id, &at)| (id, at)).collect()),
            frame: Rc::new(RefCell::new(Vec::with_capacity(TYPICAL_FRAME_BYTES))),
            planted: config.planted,
            reply_late_by: Duration::from_millis(20).min(patience / 6),
        })
    }

    /// Sends to a server of the cluster.
    pub(crate) fn send(&self, to: ServerId, message: &Message<'_>) {
        if let Some(at) = self.address_of(to) {
            self.send_to(at, message);
        }
    }

    /// Sends AppendEntries, its entries straight from the log.
    pub(crate) fn send_append(&self, to: ServerId, head: &AppendRequest<'_>, entries: &[Entry]) {
        let Some(at) = self.address_of(to) else { return };
        let mut frame = self.frame.take();
        wire::encode_append(head, entries, &mut frame);
        self.link.transmit(&frame, at);
        if self.planted.has(Mutant::ControlDuplicateSend) {
            self.link.transmit(&frame, at);
        }
        self.frame.replace(frame);
    }

    /// Sends to whoever is at an address, a client for example.
    pub(crate) fn send_to(&self, at: SocketAddr, message: &Message<'_>) {
        let mut frame = self.frame.take();
        wire::encode(message, &mut frame);
        if self.planted.has(Mutant::ControlLateReply) && is_reply(message) {
            let (link, frame, late_by) = (self.link.clone(), frame.clone(), self.reply_late_by);
            task("late reply").spawn(async move {
                time::sleep(late_by).await;
                link.transmit(&frame, at);
            });
        } else {
            self.link.transmit(&frame, at);
        }
        if self.planted.has(Mutant::ControlDuplicateSend) {
            self.link.transmit(&frame, at);
        }
        self.frame.replace(frame);
    }

    /// Sends what is a frame already.
    pub(crate) fn send_frame(&self, to: ServerId, frame: &[u8]) {
        if let Some(at) = self.address_of(to) {
            self.link.transmit(frame, at);
        }
    }

    fn address_of(&self, server: ServerId) -> Option<SocketAddr> {
        self.servers.iter().find(|(id, _)| *id == server).map(|(_, at)| *at)
    }
}

fn is_reply(message: &Message<'_>) -> bool {
    matches!(message, Message::VoteReply(_) | Message::AppendReply(_) | Message::ClientReply(_))
}

/// The receiving side: one frame at a time, decoded where it arrived.
#[derive(Debug)]
pub(crate) struct Inbox {
    link: Rc<Link>,
    own: ServerId,
    servers: Rc<Vec<(ServerId, SocketAddr)>>,
    world: Handle,
    frame: Vec<u8>,
    sender: SocketAddr,
    /// The frame in the buffer is to be handed out once more.
    put_back: Cell<bool>,
}

impl Inbox {
    pub(crate) fn new(transport: &Transport, own: ServerId, world: &Handle) -> Self {
        Self {
            link: transport.link.clone(),
            own,
            servers: transport.servers.clone(),
            world: world.clone(),
            frame: Vec::with_capacity(TYPICAL_FRAME_BYTES),
            sender: SocketAddr::from(([0, 0, 0, 0], 0)),
            put_back: Cell::new(false),
        }
    }

    /// Waits for the next frame, which [`Inbox::open`] reads. May be dropped before it is done: no message is lost.
    pub(crate) fn arrival(&mut self) -> Arrival<'_> {
        Arrival(self)
    }

    /// What the frame that arrived says; `None` when it is dropped, because it is none of ours, says that it comes from
    /// a server that is not in the cluster, or is chatter.
    pub(crate) fn open(&self) -> Option<Message<'_>> {
        match wire::decode(&self.frame) {
            Ok(message) if message.sender().is_none_or(|server| self.is_peer(server)) => Some(message),
            Err(wire::Malformed) if is_chatter(&self.frame) => None,
            Ok(_) | Err(wire::Malformed) => {
                self.reject();
                None
            }
        }
    }

    #[cold]
    fn reject(&self) {
        let from = node_of(self.sender.ip()).map_or(0, |node| node.0.into());
        self.world.emit(FrameRejected { len: self.frame.len() as u64, from });
        self.world.count("frames rejected", 1);
    }

    /// Where the frame that arrived comes from.
    pub(crate) fn sender(&self) -> SocketAddr {
        self.sender
    }

    fn is_peer(&self, server: ServerId) -> bool {
        server != self.own && self.servers.iter().any(|(id, _)| *id == server)
    }

    /// The message ends the role that got it: the next role gets it first.
    pub(crate) fn put_back(&self) {
        self.put_back.set(true);
    }
}

/// What [`Inbox::arrival`] waits for. Written out, because every message and every look at an empty inbox goes through
/// it; and without the message, which would be carried from hand to hand.
pub(crate) struct Arrival<'a>(&'a mut Inbox);

impl Future for Arrival<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let inbox = &mut *self.0;
        if inbox.put_back.take() {
            return Poll::Ready(());
        }
        match ready!(inbox.link.poll_receive(cx, &mut inbox.frame)) {
            Ok(sender) => {
                inbox.sender = sender;
                Poll::Ready(())
            }
            // A link fails only when its incarnation is gone, and this task with it: nothing will arrive.
            Err(_) => Poll::Pending,
        }
    }
}
