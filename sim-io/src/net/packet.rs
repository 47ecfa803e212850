//! Datagrams under way and in receive buffers, in slots whose byte buffers are used again and again.
//!
//! Invariants: a slot is either free, under way (a timer has its number), or in exactly one receive buffer.

use sim_runtime::{NodeId, Owner};

/// One datagram: a line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Packet {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
}

const _: () = assert!(size_of::<Packet>() == 64);

/// What is known of a datagram beside its bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Header {
    /// The datagram's own number, shared by its copies.
    pub(super) id: u64,
    pub(super) payload_hash: u64,
    /// The message's number on its link; of a copy with [`COPY`] besides.
    pub(super) number: u64,
    /// The link's place in [`super::link::Links`].
    pub(super) link: u32,
    /// The sender in two parts, which as an [`Owner`] would not fit.
    pub(super) incarnation: u32,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) from_port: u16,
    pub(super) to_port: u16,
}

/// Marks the number of a copy.
pub(super) const COPY: u64 = 1 << 63;

impl Header {
    const BLANK: Self = Self {
        id: 0,
        payload_hash: 0,
        number: 0,
        link: 0,
        incarnation: 0,
        from: NodeId::HOST,
        to: NodeId::HOST,
        from_port: 0,
        to_port: 0,
    };

    #[inline]
    pub(super) fn sender(&self) -> Owner {
        Owner { node: self.from, incarnation: self.incarnation }
    }
}

/// Buffers that are larger are not kept for the next datagram.
const KEPT_BYTES: usize = 4_096;

/// All datagrams of a world.
#[derive(Debug, Default)]
pub(super) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    /// Takes a slot and puts `bytes` into its buffer.
    #[inline]
    pub(super) fn insert(&mut self, header: Header, bytes: &[u8]) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.add());
        let packet = &mut self.slots[slot as usize];
        packet.header = header;
        packet.bytes.clear();
        packet.bytes.extend_from_slice(bytes);
        slot
    }

    #[cold]
    fn add(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 datagrams are under way");
        self.slots.push(Packet { header: Header::BLANK, bytes: Vec::new() });
        slot
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Packet {
        &self.slots[slot as usize]
    }

    /// Gives the slot back.
    #[inline]
    pub(super) fn free(&mut self, slot: u32) {
        let bytes = &mut self.slots[slot as usize].bytes;
        if bytes.capacity() > KEPT_BYTES {
            *bytes = Vec::new();
        }
        self.free.push(slot);
    }

    /// Swaps the bytes for a buffer that the slot keeps.
    #[inline]
    pub(super) fn swap_bytes(&mut self, slot: u32, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.slots[slot as usize].bytes, buffer);
    }

    /// Gives the slot back and its bytes away.
    pub(super) fn take_bytes(&mut self, slot: u32) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.slots[slot as usize].bytes);
        self.free.push(slot);
        bytes
    }
}
