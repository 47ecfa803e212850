//! A stretch of a byte stream: appended to at its end, consumed at its beginning, contiguous in memory.
//!
//! Invariants: what is consumed is given back by moving the rest at most once per byte that was consumed, so
//! both ends cost constant time a byte; nothing is allocated once the buffer has grown.

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    bytes: Vec<u8>,
    /// How many of `bytes` are consumed.
    consumed: usize,
}

impl Stretch {
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > self.bytes.capacity() && self.consumed >= self.bytes.len() / 2 {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// All that is not consumed.
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.consumed += count;
        debug_assert!(self.consumed <= self.bytes.len(), "{count} bytes were not there");
        if self.consumed == self.bytes.len() {
            self.bytes.clear();
            self.consumed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_the_buffer_stays_small() {
        let mut stretch = Stretch::default();
        let (mut written, mut read) = (0_u64, 0_u64);
        for round in 0..10_000_u64 {
            let put: Vec<u8> = (written..written + round % 97).map(|at| at as u8).collect();
            stretch.append(&put);
            written += put.len() as u64;
            let take = stretch.rest().len().min((round % 101) as usize);
            let expected: Vec<u8> = (read..read + take as u64).map(|at| at as u8).collect();
            assert_eq!(stretch.rest()[..take], expected);
            stretch.consume(take);
            read += take as u64;
        }
        assert_eq!(stretch.rest().len() as u64, written - read);
        assert!(stretch.bytes.capacity() < 20_000, "{} bytes held", stretch.bytes.capacity());
    }
}
