//! A message that nobody heeds: for seeing what a new kind of message does to runs that are pinned.
//!
//! Every so often a server tells all others that it is there. It stands for what a later version may add to the protocol (a
//! gossip, a metric) and is off unless a test switches it on ([`Config::chatter_ms`]). Whoever gets one drops it before a
//! role sees it, so the protocol goes on as if it had not been sent; what differs is what is on the network.
//!
//! Not here: the messages of the protocol (`wire.rs`).
//!
//! [`Config::chatter_ms`]: crate::config::Config::chatter_ms

use std::rc::Rc;
use std::time::Duration;

use sim_runtime::time::sleep;

use crate::codec::Put;
use crate::node::Node;
use crate::wire::{self, FRAME_HEADER_BYTES};

/// The kind of the frame; no message of the protocol has it.
const CHATTER: u8 = 0xFF;

/// Sends to all others every `every`, for ever.
pub(crate) async fn chat(node: Rc<Node>, every: Duration) {
    let mut frame = Vec::new();
    wire::frame(&mut frame, CHATTER, |body| body.put_u16(node.me().0), |_| {});
    loop {
        node.others.iter().for_each(|other| node.transport.send_frame(*other, &frame));
        sleep(every).await;
    }
}

/// Whether `frame`, which is no message of the protocol, is such a one.
pub(crate) fn is_chatter(frame: &[u8]) -> bool {
    frame.get(FRAME_HEADER_BYTES) == Some(&CHATTER)
}
