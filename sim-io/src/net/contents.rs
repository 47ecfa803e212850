//! What was sent, byte for byte: kept only for a run whose story is told.
//!
//! Records carry hashes of payloads, which is all that a judge needs. One who tells what a message meant needs the
//! bytes, so the devices keep a copy on request. Nothing in a run can ask for them: they are taken when it is over.

use std::collections::BTreeMap;

use sim_runtime::NodeId;

/// All that was sent over a network.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// By the number of the datagram.
    datagrams: BTreeMap<u64, Vec<u8>>,
    /// By connection and receiver: everything written, whether or not it has arrived.
    streams: BTreeMap<(u64, NodeId), Vec<u8>>,
}

impl Contents {
    /// The bytes of a datagram ([`crate::records::DatagramSent::id`]).
    pub fn datagram(&self, id: u64) -> Option<&[u8]> {
        self.datagrams.get(&id).map(Vec::as_slice)
    }

    /// All datagrams, in the order in which they were sent.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.datagrams.values().map(Vec::as_slice)
    }

    /// What was written towards `to` on a connection. The place of its first byte, as records count, is 1.
    pub fn stream(&self, connection: u64, to: NodeId) -> &[u8] {
        self.streams.get(&(connection, to)).map_or(&[], Vec::as_slice)
    }

    /// All streams: connection, receiver, bytes.
    pub fn streams(&self) -> impl Iterator<Item = (u64, NodeId, &[u8])> {
        self.streams.iter().map(|((connection, to), bytes)| (*connection, *to, bytes.as_slice()))
    }

    #[cold]
    pub(super) fn sent(&mut self, id: u64, bytes: &[u8]) {
        self.datagrams.insert(id, bytes.to_owned());
    }

    #[cold]
    pub(super) fn written(&mut self, connection: u64, to: NodeId, bytes: &[u8]) {
        self.streams.entry((connection, to)).or_default().extend_from_slice(bytes);
    }
}
