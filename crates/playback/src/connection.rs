//! The protocol of one connection: bytes in, bytes out, independent of sockets.
//!
//! A connection has one statement in progress. Its messages are sent together, ending with one that
//! makes the server report that it is ready, and the server's messages up to then are its
//! [`Answer`]. Rows are skipped as they arrive, however long they are; none of them is kept, except
//! [requested columns](Connection::keep).
//!
//! | captured | sent |
//! |---|---|
//! | simple | `Query`, also of several statements: their rows add up, the last tag counts |
//! | extended, unnamed | `Parse`, `Bind`, `Describe`, `Execute`, `Sync` |
//! | extended, named | the same, but `Parse` only if the name does not refer to the text |
//! | a fetch from a portal | nothing: see below |
//!
//! If a name refers to another text, `Close` precedes `Parse`.
//!
//! Parameters are sent as text. The rows of each execution are described, as with libpq: otherwise
//! a server would have less work than in the capture. A client that caches the description of a
//! prepared statement (pgjdbc) requested it once.
//!
//! # What a log lacks
//!
//! **Portals with a limit.** A client may fetch a result in portions: `Execute` with a number of
//! rows, later more of it (`execute fetch from` in the log). No log contains the number, or whether
//! there was one. So every execution runs to its end, which costs the server the same rows; the
//! following fetches have nothing left to fetch, are not sent, and are counted as
//! [`Skip::UnknownPortal`]. A client that stopped early read less than its replay does. Cursors of
//! SQL (DECLARE, FETCH, MOVE, CLOSE) are ordinary statements.
//!
//! **The types of parameters.** The server infers them, unless it cannot ([`types`]). A client that
//! specified another type than the server infers (pgjdbc: a float for an integer column) may have
//! had another plan.
//!
//! **Batches.** A client may send many executions before one `Sync`, which makes them one
//! transaction without a BEGIN. Here each has its own.
//!
//! **The data of COPY FROM STDIN.** A server that requests them is told that there are none, and
//! answers with the error 57014. **Startup parameters** (encoding, `search_path` in
//! its options): the log has SET statements only, and these are sent.
//!
//! # The encoding
//!
//! It is described in [`seatrial_pgwire::startup`]: no conversion. A `SET client_encoding` or `SET
//! NAMES` of the trace would make the server convert text that a log already has in its own
//! encoding. A server reports each change; the next statement is then preceded by a SET that
//! reverts it, whose answer is ignored.

mod prepared;
#[cfg(test)]
mod tests;
mod types;

use seatrial_pgwire::answer::{Answer, ServerError, Tag, TransactionStatus};
use seatrial_pgwire::messages::{self, ErrorResponse, MessageHeader};
use seatrial_pgwire::startup::{self, NO_CONVERSION, Startup};
use seatrial_trace::captured::{Protocol, Skip};

use super::item::{Item, Skipped};
use prepared::Prepared;

pub use seatrial_pgwire::startup::Login;

/// Maximum length read of a message other than rows; the rest is skipped. Only errors that quote a
/// long text are longer, and their SQLSTATE and message come first.
pub const READ_BYTES_MAX: usize = 8 << 10;

/// Maximum size of a message or text for a server (its `MaxAllocSize`).
const SENT_BYTES_MAX: usize = (1 << 30) - (1 << 16);

const CONNECTION_FAILURE: [u8; 5] = *b"08006";

/// Events of a connection for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// It is authenticated, and the first statement may be sent.
    Ready,
    /// The statement in progress was answered, and the next may be sent.
    Answer(Answer),
    /// The server refused the client.
    Refused(ServerError),
    /// The server ended the connection.
    Lost(ServerError),
    /// An unexpected message arrived; the connection is unusable.
    NotUnderstood(String),
}

/// Whether a statement could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    Sent,
    Impossible(Skipped),
}

enum Stage {
    Startup(Startup),
    Idle,
    Busy,
    Ended,
}

/// The relevant encodings reported by the server.
#[derive(Default)]
struct Encodings {
    server: Vec<u8>,
    client: Vec<u8>,
}

impl Encodings {
    /// Whether the server converts its input.
    fn convert(&self) -> bool {
        self.client != NO_CONVERSION.as_bytes() && self.client != self.server
    }
}

pub struct Connection {
    stage: Stage,
    /// Remaining bytes of a message that is skipped.
    rest_bytes: usize,
    status: TransactionStatus,
    answer: Answer,
    is_extended: bool,
    /// Number of expected answers that belong to no statement of the trace.
    ignored_answers: u32,
    /// A warning that the server is about to end: it crashed, or was stopped immediately.
    shutdown_notice: Option<ServerError>,
    prepared: Prepared,
    encodings: Encodings,
    /// Columns of the next statement's rows to be kept.
    keeps: Vec<u32>,
    /// Maximum number of kept rows for it.
    keeps_rows: usize,
    process_id: i32,
    secret_key: Vec<u8>,
}

impl Connection {
    /// A connection whose startup message is appended.
    pub fn new(login: &Login<'_>, out: &mut Vec<u8>) -> Connection {
        login.write(out);
        Connection {
            stage: Stage::Startup(Startup::new(login)),
            rest_bytes: 0,
            status: TransactionStatus::Idle,
            answer: Answer::default(),
            is_extended: false,
            ignored_answers: 0,
            shutdown_notice: None,
            prepared: Prepared::default(),
            encodings: Encodings::default(),
            keeps: Vec::new(),
            keeps_rows: 0,
            process_id: 0,
            secret_key: Vec::new(),
        }
    }

    /// Processes incoming bytes, returns an event, and appends immediate replies.
    ///
    /// Returns how many bytes were processed; the rest, at most [`READ_BYTES_MAX`] and a header, is
    /// to be passed again before further bytes.
    pub fn take_in(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<ConnectionEvent>,
    ) -> usize {
        let mut taken = 0;
        loop {
            let passed = self.rest_bytes.min(input.len() - taken);
            self.rest_bytes -= passed;
            taken += passed;
            if matches!(self.stage, Stage::Ended) {
                return input.len();
            }
            let rest = &input[taken..];
            let Some(head) = MessageHeader::of(rest) else { return taken };
            let Some(body_bytes) = self.body_bytes(head) else {
                return taken + self.handle_invalid(head, rest, events);
            };
            let is_read = !is_skipped(head.kind) || (head.kind == b'D' && self.keeps_rows > 0);
            let read_bytes = if is_read { body_bytes.min(READ_BYTES_MAX) } else { 0 };
            let Some(body) = rest.get(MessageHeader::BYTES..MessageHeader::BYTES + read_bytes)
            else {
                return taken;
            };
            taken += MessageHeader::BYTES + read_bytes;
            self.rest_bytes = body_bytes - read_bytes;
            match self.stage {
                Stage::Startup(_) => self.message_at_startup(head.kind, body, out, events),
                _ => self.message(head.kind, body, out, events),
            }
        }
    }

    /// Appends all messages of a statement.
    pub fn send(&mut self, item: &Item, out: &mut Vec<u8>) -> SendOutcome {
        if !self.is_ready() {
            return SendOutcome::Impossible(Skipped::NoConnection);
        }
        if item.protocol == Protocol::Fetch {
            return SendOutcome::Impossible(Skipped::Unlogged(Skip::UnknownPortal));
        }
        if !is_sendable(item) {
            return SendOutcome::Impossible(Skipped::Unlogged(Skip::CutOff));
        }
        self.answer = Answer::default();
        self.is_extended = item.protocol == Protocol::Extended;
        if self.encodings.convert() && self.status != TransactionStatus::Failed {
            messages::query(out, b"SET client_encoding TO 'SQL_ASCII'");
            self.ignored_answers = 1;
        }
        self.prepared.send(item, out);
        if self.is_extended {
            messages::bind(out, &item.prepared, &item.parameters);
            messages::execute_and_sync(out);
        } else {
            messages::query(out, &item.sql);
        }
        self.stage = Stage::Busy;
        SendOutcome::Sent
    }

    /// Keeps some columns of the next statement's rows, up to a number of rows.
    pub fn keep(&mut self, columns: impl IntoIterator<Item = u32>, rows: usize) {
        self.keeps.clear();
        self.keeps.extend(columns);
        self.keeps_rows = rows;
    }

    /// Returns the event for a hang-up of the server, given the incomplete message so far.
    pub fn hung_up(&mut self, left: &[u8]) -> ConnectionEvent {
        let when = match &self.stage {
            _ if self.rest_bytes > 0 || !left.is_empty() => "in the middle of a message",
            Stage::Startup(_) => "before it let the client in",
            Stage::Busy => "before it answered",
            Stage::Idle | Stage::Ended => "between two statements",
        };
        let message = format!("the server closed the connection {when}, without a word");
        let without_a_word = ServerError { sqlstate: CONNECTION_FAILURE, message };
        let error = self.shutdown_notice.take().unwrap_or(without_a_word);
        let is_starting = matches!(self.stage, Stage::Startup(_));
        self.stage = Stage::Ended;
        if is_starting { ConnectionEvent::Refused(error) } else { ConnectionEvent::Lost(error) }
    }

    /// Appends `Terminate`.
    pub fn terminate(out: &mut Vec<u8>) {
        messages::terminate(out);
    }

    /// Appends a request that cancels the statement in progress, for a separate connection.
    pub fn cancel_request(&self, out: &mut Vec<u8>) {
        messages::cancel_request(out, self.process_id, &self.secret_key);
    }

    /// The server's process number, as in `pg_stat_activity`; 0 before authentication.
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    /// Whether a statement may be sent.
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    fn message_at_startup(
        &mut self,
        kind: u8,
        body: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<ConnectionEvent>,
    ) {
        let Stage::Startup(startup) = &mut self.stage else { return };
        match kind {
            b'R' => {
                if let Err(why) = startup.take_in(body, out) {
                    self.end(ConnectionEvent::Refused(why), events);
                }
            }
            b'E' => self.end(
                ConnectionEvent::Refused(startup::explained(ErrorResponse::of(body).error)),
                events,
            ),
            b'S' => self.parameter(body),
            b'K' if body.len() >= 4 => {
                self.process_id = messages::number(body).unwrap_or(0);
                self.secret_key = body[4..].to_vec();
            }
            b'Z' if startup.is_in() => {
                self.status = status(body);
                self.stage = Stage::Idle;
                events.push(ConnectionEvent::Ready);
            }
            // Notices, and unknown messages of an old server or a pooler.
            b'N' | b'v' => {}
            _ => self.reject_message(kind, events),
        }
    }

    fn message(
        &mut self,
        kind: u8,
        body: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<ConnectionEvent>,
    ) {
        match kind {
            b'D' if self.keeps_rows > 0 && self.ignored_answers == 0 => self.row(body),
            kind if is_skipped(kind) => {}
            b'C' => self.completed(body),
            b'Z' => self.ready(body, events),
            b'1' => {
                if self.ignored_answers == 0 {
                    self.prepared.parsed();
                }
            }
            b'E' => self.failed(body, events),
            b'N' => self.notice(body),
            b'S' => self.parameter(body),
            b'G' => {
                messages::copy_fail(out, "no log has the data of COPY FROM STDIN");
                // The server ignored the Sync behind Execute, as it was receiving data by then.
                if self.is_extended {
                    messages::sync(out);
                }
            }
            _ => self.reject_message(kind, events),
        }
    }

    fn row(&mut self, body: &[u8]) {
        self.keeps_rows -= 1;
        for &column in &self.keeps {
            self.answer.kept.push(messages::column(body, column).map(Box::from));
        }
    }

    fn completed(&mut self, body: &[u8]) {
        let (words, _) = messages::text(body);
        let tag = Tag::of(words);
        if let Some(rows) = messages::rows(words) {
            self.answer.rows = Some(self.answer.rows.unwrap_or(0).saturating_add(rows));
        }
        self.prepared.completed(&tag);
        self.answer.tag = tag;
    }

    fn ready(&mut self, body: &[u8], events: &mut Vec<ConnectionEvent>) {
        self.status = status(body);
        if !matches!(self.stage, Stage::Busy) {
            return self.reject_message(b'Z', events);
        }
        let mut answer = std::mem::take(&mut self.answer);
        if self.ignored_answers > 0 {
            self.ignored_answers -= 1;
            return;
        }
        answer.status = self.status;
        self.stage = Stage::Idle;
        self.keeps_rows = 0;
        events.push(ConnectionEvent::Answer(answer));
    }

    fn failed(&mut self, body: &[u8], events: &mut Vec<ConnectionEvent>) {
        let response = ErrorResponse::of(body);
        if response.is_fatal {
            return self.end(ConnectionEvent::Lost(response.error), events);
        }
        if self.ignored_answers == 0 {
            self.prepared.failed(response.error.sqlstate);
        }
        self.answer.error.get_or_insert(response.error);
    }

    fn notice(&mut self, body: &[u8]) {
        let error = ErrorResponse::of(body).error;
        if matches!(&error.sqlstate, b"57P01" | b"57P02") {
            self.shutdown_notice = Some(error);
        }
    }

    fn parameter(&mut self, body: &[u8]) {
        let (name, rest) = messages::text(body);
        let kept = match name {
            b"client_encoding" => &mut self.encodings.client,
            b"server_encoding" => &mut self.encodings.server,
            _ => return,
        };
        kept.clear();
        kept.extend_from_slice(messages::text(rest).0);
    }

    /// Length after the header of a message; None if it is not a valid header.
    #[inline]
    fn body_bytes(&self, head: MessageHeader) -> Option<usize> {
        match &self.stage {
            Stage::Startup(startup) => head.body_bytes.filter(|_| startup.awaits(head)),
            _ => head.body_bytes,
        }
    }

    /// Processes invalid messages; returns their length in bytes.
    ///
    /// A server that is too short of memory for this version of the protocol, or does not know it,
    /// reports that in an old version: an `E`, a text without a length, and a zero byte.
    fn handle_invalid(
        &mut self,
        head: MessageHeader,
        rest: &[u8],
        events: &mut Vec<ConnectionEvent>,
    ) -> usize {
        if !matches!(self.stage, Stage::Startup(_)) || head.kind != b'E' {
            self.reject_message(head.kind, events);
            return rest.len();
        }
        let text = &rest[1..rest.len().min(READ_BYTES_MAX)];
        if !text.contains(&0) && rest.len() < READ_BYTES_MAX {
            return 0;
        }
        let message = String::from_utf8_lossy(messages::text(text).0).trim_end().to_owned();
        self.end(
            ConnectionEvent::Refused(ServerError { sqlstate: CONNECTION_FAILURE, message }),
            events,
        );
        rest.len()
    }

    fn reject_message(&mut self, kind: u8, events: &mut Vec<ConnectionEvent>) {
        let kind = kind.escape_ascii();
        let sentence = if matches!(self.stage, Stage::Startup(_)) {
            format!(
                "what answers there does not speak PostgreSQL's protocol (its message begins with \
                 '{kind}'): check host and port"
            )
        } else {
            format!("the server sent a message '{kind}' that does not belong there")
        };
        self.end(ConnectionEvent::NotUnderstood(sentence), events);
    }

    fn end(&mut self, last: ConnectionEvent, events: &mut Vec<ConnectionEvent>) {
        self.stage = Stage::Ended;
        self.rest_bytes = 0;
        events.push(last);
    }
}

/// Whether only the type of a message is read: rows and their description, data of COPY,
/// descriptions of parameters, notifications, and confirmations of completed steps. An empty text
/// has no tag, and a portal is never suspended.
#[inline]
fn is_skipped(kind: u8) -> bool {
    matches!(
        kind,
        b'D' | b'2' | b'T' | b'd' | b'3' | b'n' | b'I' | b'A' | b't' | b'H' | b'c' | b's'
    )
}

/// Whether a server can read it: a text contains no zero bytes, and neither it nor the parameters
/// exceed the size of a message.
fn is_sendable(item: &Item) -> bool {
    let parameters = item.parameters.iter().flatten().map(Vec::len);
    let bytes = parameters.fold(item.sql.len(), usize::saturating_add);
    bytes <= SENT_BYTES_MAX
        && item.parameters.len() <= usize::from(u16::MAX)
        && memchr::memchr(0, &item.sql).is_none()
        && memchr::memchr(0, &item.prepared).is_none()
}

/// A transaction status, in the words of `ReadyForQuery`.
fn status(body: &[u8]) -> TransactionStatus {
    match body.first() {
        Some(b'T') => TransactionStatus::Active,
        Some(b'E') => TransactionStatus::Failed,
        _ => TransactionStatus::Idle,
    }
}
