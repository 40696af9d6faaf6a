//! The client's side of a connection.

use super::Follower;
use crate::request::{Request, RequestKind};
use crate::stream::{Message, READ_BYTES_MAX, Reader};
use crate::trace_queue::TraceQueue;

/// Maximum length read of a message that contains a name.
const NAME_BYTES_MAX: usize = 1 << 10;

pub(super) struct RequestReader<'a> {
    pub follower: &'a mut Follower,
    pub queue: &'a mut TraceQueue,
}

impl Reader for RequestReader<'_> {
    #[inline]
    fn wanted_bytes(&mut self, kind: u8, _: usize) -> usize {
        match kind {
            b'Q' | b'P' | b'B' => READ_BYTES_MAX,
            b'E' | b'D' | b'C' | b'F' => NAME_BYTES_MAX,
            _ => 0,
        }
    }

    #[inline]
    fn message(&mut self, message: Message<'_>) -> bool {
        let counted = &mut self.queue.counted;
        counted.records += 1;
        match message.kind {
            b'p' | b'X' => counted.sessions += 1,
            b'd' | b'H' => counted.joined += 1,
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'F' | b'c' | b'f' | b'S' => {
                if let Some(kind) = RequestKind::of(message) {
                    self.follower.take_request(kind, self.queue);
                }
            }
            _ => counted.not_understood += 1,
        }
        true
    }
}

impl Follower {
    #[inline]
    fn take_request(&mut self, kind: RequestKind, queue: &mut TraceQueue) {
        let is_statement = kind.is_statement();
        queue.counted.joined += u64::from(!is_statement);
        let is_heard = match kind {
            RequestKind::CopyEnd => {
                self.is_copying = false;
                false
            }
            // During a COPY the server ignores it; libpq sends one anyway.
            RequestKind::Sync if self.is_copying => false,
            RequestKind::Sync => {
                self.is_discarding = false;
                true
            }
            _ => !self.is_discarding,
        };
        if is_heard {
            self.requests.push_back(Request { sent_us: queue.now_us, kind });
        } else {
            queue.counted.others += u64::from(is_statement);
        }
    }
}
