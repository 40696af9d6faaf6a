//! The messages of one direction of a connection, put together from the pieces in which they come.

use seatrial_pgwire::messages::MessageHeader;

/// Maximum bytes of a message that are read; the rest is forwarded unread.
pub const READ_BYTES_MAX: usize = 16 << 20;

/// Memory kept for the next message that arrives in pieces.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// A message, as far as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub kind: u8,
    /// The part of its body that is read.
    pub body: &'a [u8],
    /// Length of the whole body.
    pub body_bytes: usize,
}

/// The part of an incomplete message that has arrived.
#[derive(Debug, Default)]
pub struct Stream {
    partial: Vec<u8>,
    /// Remaining bytes of a message that is skipped.
    rest_bytes: usize,
}

/// The bytes are not PostgreSQL's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUnderstood;

/// Receives the messages of a direction.
pub trait Reader {
    /// Number of bytes of the body to be read, given the message's type.
    fn wanted_bytes(&mut self, kind: u8, body_bytes: usize) -> usize;

    /// Processes a message; false to stop reading.
    fn message(&mut self, message: Message<'_>) -> bool;
}

impl Stream {
    /// Takes in what came, message by message.
    ///
    /// # Errors
    ///
    /// When something has a length that no message has.
    pub fn take_in(&mut self, input: &[u8], reader: &mut impl Reader) -> Result<(), NotUnderstood> {
        if self.partial.is_empty() {
            let taken = self.messages(input, reader)?;
            self.partial.extend_from_slice(&input[taken..]);
            return Ok(());
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(input);
        let taken = self.messages(&partial, reader)?;
        if taken == partial.len() && partial.capacity() > KEPT_BYTES_MAX {
            return Ok(());
        }
        partial.drain(..taken);
        self.partial = partial;
        Ok(())
    }

    /// Number of bytes processed.
    fn messages(&mut self, input: &[u8], reader: &mut impl Reader) -> Result<usize, NotUnderstood> {
        let mut taken = 0;
        loop {
            let passed = self.rest_bytes.min(input.len() - taken);
            self.rest_bytes -= passed;
            taken += passed;
            let rest = &input[taken..];
            let Some(head) = MessageHeader::of(rest) else { return Ok(taken) };
            let body_bytes = head.body_bytes.ok_or(NotUnderstood)?;
            let wanted = reader.wanted_bytes(head.kind, body_bytes).min(body_bytes);
            let Some(body) = rest.get(MessageHeader::BYTES..MessageHeader::BYTES + wanted) else {
                return Ok(taken);
            };
            taken += MessageHeader::BYTES + wanted;
            self.rest_bytes = body_bytes - wanted;
            if !reader.message(Message { kind: head.kind, body, body_bytes }) {
                return Ok(input.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all of type `a`, and nothing else.
    #[derive(Default)]
    struct Bodies(Vec<usize>);

    impl Reader for Bodies {
        fn wanted_bytes(&mut self, kind: u8, body_bytes: usize) -> usize {
            if kind == b'a' { body_bytes } else { 0 }
        }

        fn message(&mut self, message: Message<'_>) -> bool {
            assert!(message.body.iter().all(|&byte| byte == 7));
            self.0.push(message.body.len());
            true
        }
    }

    fn message(kind: u8, body_bytes: usize) -> Vec<u8> {
        let length = (body_bytes as u32 + 4).to_be_bytes();
        [&[kind][..], &length, &vec![7; body_bytes]].concat()
    }

    #[test]
    fn messages_of_any_length_in_any_pieces() {
        let sizes = [0, 3, 70_000, 0, 200_000, 1];
        let sent: Vec<u8> = sizes.iter().flat_map(|&size| message(b'a', size)).collect();
        for piece in [1, 4, 5, 6, 1_000, 65_536, 1 << 20] {
            let (mut stream, mut bodies) = (Stream::default(), Bodies::default());
            for bytes in sent.chunks(piece) {
                stream.take_in(bytes, &mut bodies).unwrap();
            }
            assert_eq!(bodies.0, sizes, "in pieces of {piece}");
            assert!(stream.partial.is_empty() && stream.partial.capacity() <= KEPT_BYTES_MAX);
        }
    }

    #[test]
    fn skipped_bodies_are_not_buffered() {
        let (mut stream, mut bodies) = (Stream::default(), Bodies::default());
        for bytes in [message(b'd', 1 << 20), message(b'a', 1)].concat().chunks(10_000) {
            stream.take_in(bytes, &mut bodies).unwrap();
            assert!(stream.partial.len() < MessageHeader::BYTES);
        }
        assert_eq!(bodies.0, [0, 1]);
        assert_eq!(stream.take_in(b"a\0\0\0\x03", &mut bodies), Err(NotUnderstood));
    }
}
