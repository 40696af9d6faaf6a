//! One direction of a connection: its bytes in order, once each, whatever the network does to the
//! packets that bring them.
//!
//! Sequence numbers have 32 bits and wrap around, so only distances mean anything; no two numbers
//! in use are 2 GiB apart.

/// Maximum bytes buffered out of order, for all connections together.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;

/// The same for one direction: more than any TCP window in use.
const DIRECTION_BYTES_MAX: usize = 16 << 20;

/// Bytes buffered for all connections.
#[derive(Debug, Default)]
pub struct ReorderBudget {
    pub bytes: usize,
}

/// How a segment fits the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its bytes from this index on are next.
    Next(usize),
    /// They were received before.
    Duplicate,
    /// They arrived out of order, and are buffered.
    OutOfOrder,
    /// The buffer is full: the missing bytes count as lost.
    Overflow,
}

#[derive(Debug, Default)]
pub struct Direction {
    /// Sequence number of the next byte; None while unknown.
    next: Option<u32>,
    /// Bytes received out of order, by sequence number.
    ahead: Vec<(u32, Vec<u8>)>,
    ahead_bytes: usize,
    /// Sequence number behind the last byte, once known.
    end: Option<u32>,
}

/// Distance from one sequence number to another; negative if it is before.
pub fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

impl Direction {
    /// Continues at a sequence number, whatever was before.
    pub fn restart(&mut self, at: u32, budget: &mut ReorderBudget) {
        self.drop_ahead(budget);
        (self.next, self.end) = (Some(at), None);
    }

    /// Sequence number of the next byte.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Records the sequence number at which it ends.
    pub fn ends_at(&mut self, sequence: u32) {
        self.end = Some(sequence);
    }

    /// Whether all of it has been received.
    pub fn is_over(&self) -> bool {
        self.end.is_some() && self.end == self.next
    }

    /// Bytes up to a sequence number that were acknowledged but never captured.
    pub fn missing_bytes(&self, acknowledged: u32) -> u32 {
        let Some(next) = self.next else { return 0 };
        // FIN takes a sequence number too.
        let has_ended = self.end == Some(next) && acknowledged == next.wrapping_add(1);
        let missing = distance(next, acknowledged);
        if has_ended || missing <= 0 {
            return 0;
        }
        let ahead = self.ahead.iter().map(|(sequence, bytes)| {
            let end = sequence.wrapping_add(bytes.len() as u32);
            distance(*sequence, if distance(end, acknowledged) < 0 { acknowledged } else { end })
        });
        let ahead: i64 = ahead.filter(|&bytes| bytes > 0).map(i64::from).sum();
        u32::try_from(i64::from(missing) - ahead).unwrap_or(0).max(1)
    }

    /// Processes bytes. If they are next, the caller reads them, reports [`Direction::took`], and
    /// then calls [`Direction::pop`].
    #[inline]
    pub fn take(&mut self, sequence: u32, bytes: &[u8], budget: &mut ReorderBudget) -> Arrival {
        let next = *self.next.get_or_insert(sequence);
        let ahead = distance(next, sequence);
        if ahead <= 0 {
            let known = ahead.unsigned_abs() as usize;
            return if known < bytes.len() { Arrival::Next(known) } else { Arrival::Duplicate };
        }
        let is_full = self.ahead_bytes + bytes.len() > DIRECTION_BYTES_MAX;
        if is_full || budget.bytes + bytes.len() > BUFFER_BYTES_MAX {
            return Arrival::Overflow;
        }
        let at = self.ahead.partition_point(|(other, _)| distance(*other, sequence) > 0);
        if self
            .ahead
            .get(at)
            .is_some_and(|(other, known)| *other == sequence && known.len() >= bytes.len())
        {
            return Arrival::Duplicate;
        }
        self.ahead.insert(at, (sequence, bytes.to_vec()));
        self.ahead_bytes += bytes.len();
        budget.bytes += bytes.len();
        Arrival::OutOfOrder
    }

    /// Records that this many bytes were read.
    #[inline]
    pub fn took(&mut self, bytes: usize) {
        self.next = self.next.map(|next| next.wrapping_add(bytes as u32));
    }

    /// Bytes received out of order that are next by now, if any.
    pub fn pop(&mut self, budget: &mut ReorderBudget) -> Option<Vec<u8>> {
        let next = self.next?;
        while self.ahead.first().is_some_and(|(sequence, _)| distance(next, *sequence) <= 0) {
            let (sequence, mut bytes) = self.ahead.remove(0);
            self.ahead_bytes -= bytes.len();
            budget.bytes -= bytes.len();
            let known = distance(sequence, next).unsigned_abs() as usize;
            if known < bytes.len() {
                bytes.drain(..known);
                return Some(bytes);
            }
        }
        None
    }

    /// Drops the bytes received out of order.
    pub fn drop_ahead(&mut self, budget: &mut ReorderBudget) {
        budget.bytes -= self.ahead_bytes;
        self.ahead_bytes = 0;
        self.ahead = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A direction that looks at what comes.
    #[derive(Default)]
    struct Reader {
        direction: Direction,
        budget: ReorderBudget,
        read: Vec<u8>,
    }

    impl Reader {
        fn at(sequence: u32) -> Reader {
            let mut reader = Reader::default();
            reader.direction.restart(sequence, &mut reader.budget);
            reader
        }

        fn take(&mut self, sequence: u32, bytes: &[u8]) -> Arrival {
            let arrival = self.direction.take(sequence, bytes, &mut self.budget);
            if let Arrival::Next(from) = arrival {
                self.direction.took(bytes.len() - from);
                self.read.extend_from_slice(&bytes[from..]);
                while let Some(bytes) = self.direction.pop(&mut self.budget) {
                    self.direction.took(bytes.len());
                    self.read.extend_from_slice(&bytes);
                }
            }
            arrival
        }
    }

    #[test]
    fn early_segments_are_buffered_and_duplicates_dropped() {
        let mut reader = Reader::at(100);
        assert_eq!(reader.take(103, b"de"), Arrival::OutOfOrder);
        assert_eq!(reader.take(103, b"de"), Arrival::Duplicate);
        assert_eq!(reader.take(106, b"g"), Arrival::OutOfOrder);
        assert_eq!((reader.direction.missing_bytes(103), reader.budget.bytes), (3, 3));
        assert_eq!(reader.direction.missing_bytes(107), 4);
        assert_eq!(reader.take(100, b"abcd"), Arrival::Next(0));
        assert_eq!(reader.read, b"abcde");
        // One byte of it is new; a probe whether somebody is there is none.
        assert_eq!(reader.take(102, b"cdef"), Arrival::Next(3));
        assert_eq!(reader.take(106, b"x"), Arrival::Duplicate);
        assert_eq!(reader.take(107, b""), Arrival::Duplicate);
        assert_eq!((&reader.read[..], reader.budget.bytes), (&b"abcdefg"[..], 0));
        assert_eq!(reader.direction.missing_bytes(107), 0);
        assert_eq!(reader.direction.missing_bytes(108), 1);
        reader.direction.ends_at(107);
        assert_eq!(reader.direction.missing_bytes(108), 0);
        assert!(reader.direction.is_over());
    }

    #[test]
    fn reorder_buffer_is_bounded() {
        let mut reader = Reader::at(0);
        let bytes = vec![0; 64 << 10];
        let arrival: Vec<Arrival> =
            (1..=300).map(|sequence| reader.take(sequence * (64 << 10), &bytes)).collect();
        assert_eq!(arrival.iter().filter(|&&arrival| arrival == Arrival::OutOfOrder).count(), 256);
        assert_eq!(arrival[299], Arrival::Overflow);
        reader.direction.drop_ahead(&mut reader.budget);
        assert_eq!(reader.budget.bytes, 0);
    }

    proptest! {
        /// Random segments in random order, repeated, with sequence numbers that wrap around.
        #[test]
        fn reassembled_stream_equals_what_was_sent(
            before in 0_u32..3_000,
            bytes in 1_usize..4_000,
            order in prop::collection::vec((0_usize..4_000, 1_usize..700), 0..60),
        ) {
            let sent: Vec<u8> = (0..bytes).map(|sequence| (sequence % 251) as u8).collect();
            let begin = 0_u32.wrapping_sub(before);
            let mut reader = Reader::at(begin);
            let whole = (0..bytes).step_by(97).map(|sequence| (sequence, 97));
            for (sequence, length) in order.into_iter().chain(whole.collect::<Vec<_>>()) {
                let from = sequence.min(bytes);
                let piece = &sent[from..(from + length).min(bytes)];
                reader.take(begin.wrapping_add(from as u32), piece);
                prop_assert_eq!(&reader.read[..], &sent[..reader.read.len()]);
            }
            prop_assert_eq!(reader.read, sent);
            prop_assert_eq!(reader.budget.bytes, 0);
        }
    }
}
