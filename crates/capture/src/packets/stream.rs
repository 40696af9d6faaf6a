//! One direction of a connection: its bytes in order, once each, whatever the network does to the
//! packets that bring them.
//!
//! Places are numbers of 32 bits that go round, so only distances mean anything; no two places that
//! are of use at a time are 2 GiB apart.

/// What may be held of bytes that came ahead of others, of all connections together.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Of one direction: more than a window of TCP that anybody uses.
const HELD_OF_ONE_BYTES_MAX: usize = 16 << 20;

/// What is held of all connections.
#[derive(Debug, Default)]
pub struct Held {
    /// Bytes.
    pub bytes: usize,
}

/// What came of a packet's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// They are the next ones, from this one of them on.
    Next(usize),
    /// They were there already.
    Again,
    /// They came ahead of others, and are held.
    Ahead,
    /// So much is held that what is missing will not come any more.
    TooMuch,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Direction {
    /// Place of the next byte; None while nothing is known.
    next: Option<u32>,
    /// What came ahead, by place.
    ahead: Vec<(u32, Vec<u8>)>,
    ahead_bytes: usize,
    /// Place behind the last byte, once that is known.
    end: Option<u32>,
}

/// How far a place is behind another one; negative where it is before it.
pub fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

impl Direction {
    /// Goes on at a place, whatever was before.
    pub fn restart(&mut self, at: u32, held: &mut Held) {
        self.drop_ahead(held);
        (self.next, self.end) = (Some(at), None);
    }

    /// Place of the next byte.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Takes note of where it ends.
    pub fn ends_at(&mut self, place: u32) {
        self.end = Some(place);
    }

    /// Whether all of it has come.
    pub fn is_over(&self) -> bool {
        self.end.is_some() && self.end == self.next
    }

    /// Bytes that the other side has got up to a place and that never came here; 0 where all came.
    pub fn missing_bytes(&self, acknowledged: u32) -> u32 {
        let Some(next) = self.next else { return 0 };
        // What ends a direction takes a place too.
        let has_ended = self.end == Some(next) && acknowledged == next.wrapping_add(1);
        let missing = distance(next, acknowledged);
        if has_ended || missing <= 0 {
            return 0;
        }
        let ahead = self.ahead.iter().map(|(place, bytes)| {
            let end = place.wrapping_add(bytes.len() as u32);
            distance(*place, if distance(end, acknowledged) < 0 { acknowledged } else { end })
        });
        let ahead: i64 = ahead.filter(|&bytes| bytes > 0).map(i64::from).sum();
        u32::try_from(i64::from(missing) - ahead).unwrap_or(0).max(1)
    }

    /// Takes in bytes. Where they are the next, the caller looks at them, says
    /// [`Direction::took`], and asks for [`Direction::pop`].
    #[inline]
    pub fn take(&mut self, place: u32, bytes: &[u8], held: &mut Held) -> Came {
        let next = *self.next.get_or_insert(place);
        let ahead = distance(next, place);
        if ahead <= 0 {
            let known = ahead.unsigned_abs() as usize;
            return if known < bytes.len() { Came::Next(known) } else { Came::Again };
        }
        let is_full = self.ahead_bytes + bytes.len() > HELD_OF_ONE_BYTES_MAX;
        if is_full || held.bytes + bytes.len() > HELD_BYTES_MAX {
            return Came::TooMuch;
        }
        let at = self.ahead.partition_point(|(other, _)| distance(*other, place) > 0);
        if self
            .ahead
            .get(at)
            .is_some_and(|(other, held)| *other == place && held.len() >= bytes.len())
        {
            return Came::Again;
        }
        self.ahead.insert(at, (place, bytes.to_vec()));
        self.ahead_bytes += bytes.len();
        held.bytes += bytes.len();
        Came::Ahead
    }

    /// So many bytes were looked at.
    #[inline]
    pub fn took(&mut self, bytes: usize) {
        self.next = self.next.map(|next| next.wrapping_add(bytes as u32));
    }

    /// What came ahead and is next by now, if there is any.
    pub fn pop(&mut self, held: &mut Held) -> Option<Vec<u8>> {
        let next = self.next?;
        while self.ahead.first().is_some_and(|(place, _)| distance(next, *place) <= 0) {
            let (place, mut bytes) = self.ahead.remove(0);
            self.ahead_bytes -= bytes.len();
            held.bytes -= bytes.len();
            let known = distance(place, next).unsigned_abs() as usize;
            if known < bytes.len() {
                bytes.drain(..known);
                return Some(bytes);
            }
        }
        None
    }

    /// Lets go of what came ahead.
    pub fn drop_ahead(&mut self, held: &mut Held) {
        held.bytes -= self.ahead_bytes;
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
        held: Held,
        read: Vec<u8>,
    }

    impl Reader {
        fn at(place: u32) -> Reader {
            let mut reader = Reader::default();
            reader.direction.restart(place, &mut reader.held);
            reader
        }

        fn take(&mut self, place: u32, bytes: &[u8]) -> Came {
            let came = self.direction.take(place, bytes, &mut self.held);
            if let Came::Next(from) = came {
                self.direction.took(bytes.len() - from);
                self.read.extend_from_slice(&bytes[from..]);
                while let Some(bytes) = self.direction.pop(&mut self.held) {
                    self.direction.took(bytes.len());
                    self.read.extend_from_slice(&bytes);
                }
            }
            came
        }
    }

    #[test]
    fn what_comes_ahead_waits_and_what_comes_again_is_let_go() {
        let mut reader = Reader::at(100);
        assert_eq!(reader.take(103, b"de"), Came::Ahead);
        assert_eq!(reader.take(103, b"de"), Came::Again);
        assert_eq!(reader.take(106, b"g"), Came::Ahead);
        assert_eq!((reader.direction.missing_bytes(103), reader.held.bytes), (3, 3));
        assert_eq!(reader.direction.missing_bytes(107), 4);
        assert_eq!(reader.take(100, b"abcd"), Came::Next(0));
        assert_eq!(reader.read, b"abcde");
        // One byte of it is new; a probe whether somebody is there is none.
        assert_eq!(reader.take(102, b"cdef"), Came::Next(3));
        assert_eq!(reader.take(106, b"x"), Came::Again);
        assert_eq!(reader.take(107, b""), Came::Again);
        assert_eq!((&reader.read[..], reader.held.bytes), (&b"abcdefg"[..], 0));
        assert_eq!(reader.direction.missing_bytes(107), 0);
        assert_eq!(reader.direction.missing_bytes(108), 1);
        reader.direction.ends_at(107);
        assert_eq!(reader.direction.missing_bytes(108), 0);
        assert!(reader.direction.is_over());
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut reader = Reader::at(0);
        let bytes = vec![0; 64 << 10];
        let came: Vec<Came> =
            (1..=300).map(|place| reader.take(place * (64 << 10), &bytes)).collect();
        assert_eq!(came.iter().filter(|&&came| came == Came::Ahead).count(), 256);
        assert_eq!(came[299], Came::TooMuch);
        reader.direction.drop_ahead(&mut reader.held);
        assert_eq!(reader.held.bytes, 0);
    }

    proptest! {
        /// Whatever pieces of it come in whatever order and however often, from a place on that
        /// goes round.
        #[test]
        fn a_direction_is_what_was_sent(
            before in 0_u32..3_000,
            bytes in 1_usize..4_000,
            order in prop::collection::vec((0_usize..4_000, 1_usize..700), 0..60),
        ) {
            let sent: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
            let begin = 0_u32.wrapping_sub(before);
            let mut reader = Reader::at(begin);
            let whole = (0..bytes).step_by(97).map(|place| (place, 97));
            for (place, length) in order.into_iter().chain(whole.collect::<Vec<_>>()) {
                let from = place.min(bytes);
                let piece = &sent[from..(from + length).min(bytes)];
                reader.take(begin.wrapping_add(from as u32), piece);
                prop_assert_eq!(&reader.read[..], &sent[..reader.read.len()]);
            }
            prop_assert_eq!(reader.read, sent);
            prop_assert_eq!(reader.held.bytes, 0);
        }
    }
}
