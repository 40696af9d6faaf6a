//! One connection, followed from both sides: the client's requests and the server's answers become
//! sessions and statements.
//!
//! Answers come in the order of the requests, so requests are queued until they are answered, and
//! only an answer changes the known state: which texts are prepared, which portals are open. What
//! the server skips after an error, up to the next `Sync`, was never executed and is not a
//! statement.
//!
//! **Times.** A statement begins when it is forwarded to the server, and ends when the end of its
//! answer arrives; if it is committed by a `Sync`, it ends with that. Executions of one pipeline
//! are each timed so, and therefore overlap.
//!
//! **What is never read**: passwords and other authentication data, the cancel key, data of COPY,
//! rows that are not kept. These are skipped by their length.
//!
//! | part | rule |
//! |---|---|
//! | `startup` | how a connection begins |
//! | `client_side` | the client's side |
//! | `server_side` | the server's side |
//! | `trace_output` | what goes into the trace |

mod client_side;
mod server_side;
mod startup;
#[cfg(test)]
pub(crate) mod tests;
mod trace_output;

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use seatrial_pgwire::answer::Tag;
use seatrial_sqltext::block::Block;
use seatrial_trace::captured::{Session, SessionId};

use super::pair::Side;
use super::request::{Bound, Column, Prepared, Request, RowRetention};
use super::returned::Rows;
use super::stream::Stream;
use super::trace_queue::TraceQueue;
use trace_output::FinishedStatement;

/// Why a connection is forwarded without being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadReason {
    Encrypted,
    Replication,
    Cancel,
    /// It is not PostgreSQL's protocol.
    NotUnderstood,
    /// Its beginning or a part of it was missed; it is unread until [`Follower::join`].
    Lost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Startup,
    /// The client requested encryption, and the server has yet to answer.
    EncryptionRequested,
    Login,
    Open,
    NotRead(UnreadReason),
}

/// Parameters bound to a prepared statement.
#[derive(Debug)]
struct Portal {
    prepared: Option<Rc<Prepared>>,
    bound: Rc<Bound>,
    columns: Rc<[Column]>,
    /// It was executed at least once.
    is_begun: bool,
}

/// The answer to the first request in the queue, as far as it has arrived.
#[derive(Debug, Default)]
struct Answer {
    rows: Option<u64>,
    tag: Option<Tag>,
    error: Option<[u8; 5]>,
    is_copy_data: bool,
    results: u32,
    returned: Option<Rows>,
    /// Which rows are kept; None if not decided yet.
    retention: Option<RowRetention>,
    /// Number of names released by DEALLOCATE so far.
    deallocated: usize,
}

#[derive(Debug, Default)]
struct Encodings {
    server: Vec<u8>,
    client: Vec<u8>,
}

impl Encodings {
    /// Whether texts are in another encoding than the database's.
    fn is_foreign(&self) -> bool {
        let is_plain = |name: &[u8]| name.is_empty() || name == b"SQL_ASCII";
        !is_plain(&self.client) && !is_plain(&self.server) && self.client != self.server
    }
}

/// A connection, initially new.
#[derive(Debug, Default)]
pub struct Follower {
    stage: Stage,
    startup: Vec<u8>,
    from_client: Stream,
    from_server: Stream,
    session: Session,
    id: Option<SessionId>,
    encodings: Encodings,
    /// Parameters set by the client at startup, by name.
    settings: Vec<String>,
    requests: VecDeque<Request>,
    prepared: HashMap<Vec<u8>, Rc<Prepared>>,
    portals: HashMap<Vec<u8>, Portal>,
    /// The server skips everything up to the next `Sync`, which has not been sent.
    is_discarding: bool,
    /// The server is receiving data of a COPY, and ignores a `Sync`.
    is_copying: bool,
    answer: Answer,
    finished: Vec<FinishedStatement>,
    block: Block,
    /// Statements of the open transaction that were kept before its outcome is known.
    kept_early: u64,
    /// An answer matched no request.
    is_out_of_step: bool,
}

impl Follower {
    /// A connection that is never read.
    pub fn blind() -> Follower {
        Follower { stage: Stage::NotRead(UnreadReason::NotUnderstood), ..Follower::default() }
    }

    /// A connection that is not read until it is joined.
    pub fn later(session: Session) -> Follower {
        Follower { stage: Stage::NotRead(UnreadReason::Lost), session, ..Follower::default() }
    }

    /// Processes bytes of a side. A failure only ends reading, not forwarding.
    #[inline]
    pub fn look_at(&mut self, side: Side, bytes: &[u8], queue: &mut TraceQueue) {
        let looked = catch_unwind(AssertUnwindSafe(|| match side {
            Side::Client => self.requested(bytes, queue),
            Side::Server => self.answered(bytes, queue),
        }));
        if looked.is_err() {
            *self = Follower::blind();
            queue.counted.wire.defects += 1;
        }
    }

    /// Data was missed: the session ends here, and the connection is not read until it is joined.
    /// The client's prepared statements are then unknown.
    pub fn lost(&mut self, queue: &mut TraceQueue) {
        self.end_session(true, queue);
        let session = Session {
            connected_us: None,
            disconnected_us: None,
            ..std::mem::take(&mut self.session)
        };
        let encodings = std::mem::take(&mut self.encodings);
        let stage = Stage::NotRead(UnreadReason::Lost);
        *self = Follower { stage, session, encodings, ..Follower::default() };
    }

    /// Starts reading an idle connection without an open transaction.
    pub fn join(&mut self, queue: &mut TraceQueue) {
        self.stage = Stage::Open;
        self.id = Some(queue.begin_session(&self.session));
    }

    /// Why the connection is not read; None if it is.
    #[inline]
    pub fn unread(&self) -> Option<UnreadReason> {
        match self.stage {
            Stage::NotRead(why) => Some(why),
            _ => None,
        }
    }

    /// Whether an answer matched no request.
    #[inline]
    pub fn is_out_of_step(&self) -> bool {
        self.is_out_of_step
    }

    /// Processes bytes from the client.
    pub fn requested(&mut self, mut bytes: &[u8], queue: &mut TraceQueue) {
        queue.counted.wire.to_server_bytes += bytes.len() as u64;
        if matches!(self.stage, Stage::Startup | Stage::EncryptionRequested) {
            let taken = self.take_startup(bytes, queue);
            bytes = &bytes[taken..];
        }
        if bytes.is_empty() || !matches!(self.stage, Stage::Login | Stage::Open) {
            return;
        }
        let mut stream = std::mem::take(&mut self.from_client);
        let taken =
            stream.take_in(bytes, &mut client_side::RequestReader { follower: self, queue });
        self.from_client = stream;
        if taken.is_err() {
            self.give_up(queue);
        }
    }

    /// Processes bytes from the server.
    pub fn answered(&mut self, mut bytes: &[u8], queue: &mut TraceQueue) {
        queue.counted.wire.to_clients_bytes += bytes.len() as u64;
        if matches!(self.stage, Stage::EncryptionRequested) {
            let taken = self.take_word(bytes, queue);
            bytes = &bytes[taken..];
        }
        if bytes.is_empty() || !matches!(self.stage, Stage::Login | Stage::Open) {
            return;
        }
        let mut stream = std::mem::take(&mut self.from_server);
        let taken = stream.take_in(bytes, &mut server_side::AnswerReader { follower: self, queue });
        self.from_server = stream;
        if taken.is_err() {
            self.give_up(queue);
        }
    }

    /// The connection has ended, or reading has.
    pub fn ended(&mut self, queue: &mut TraceQueue) {
        queue.counted.wire.not_let_in += u64::from(self.stage == Stage::Login);
        self.end_session(true, queue);
        self.stage = Stage::NotRead(UnreadReason::Cancel);
    }

    /// The capture has ended while the connection continues.
    pub fn left(&mut self, queue: &mut TraceQueue) {
        self.end_session(false, queue);
        self.stage = Stage::NotRead(UnreadReason::Lost);
    }

    /// Forwards the rest without reading.
    fn stop_reading(&mut self, why: UnreadReason, queue: &mut TraceQueue) {
        let wire = &mut queue.counted.wire;
        let is_open = self.stage == Stage::Open;
        wire.broken_off += u64::from(is_open && why == UnreadReason::NotUnderstood);
        match why {
            UnreadReason::Encrypted => queue.encrypted(),
            UnreadReason::Replication => wire.replication += 1,
            UnreadReason::Cancel => wire.cancels += 1,
            UnreadReason::NotUnderstood => wire.not_understood += 1,
            UnreadReason::Lost => {}
        }
        self.end_session(true, queue);
        self.stage = Stage::NotRead(why);
    }

    fn give_up(&mut self, queue: &mut TraceQueue) {
        self.stop_reading(UnreadReason::NotUnderstood, queue);
    }
}
