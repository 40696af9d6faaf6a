//! One connection's side of the protocol: bytes in, bytes out. It knows nothing of sockets.
//!
//! A connection has one statement on its way. What is sent for it goes out in one piece, ends with
//! what makes the server say that it is ready again, and what the server said until then is its
//! [`Answer`]. Rows are passed over as they come, however long they are; nothing is kept of them,
//! but for [columns that were asked for](Connection::keep).
//!
//! | captured | sent |
//! |---|---|
//! | simple | `Query`, also of several statements: their rows add up, the last tag counts |
//! | extended, no name | `Parse`, `Bind`, `Describe`, `Execute`, `Sync` |
//! | extended, a name | the same, but `Parse` only where the name does not stand for the text |
//! | a fetch from a portal | nothing: see below |
//!
//! Where a name stands for another text, `Close` goes before `Parse`.
//!
//! Parameters go as text. The rows of each execution are described, as libpq has them described:
//! without that a server would have less to do than it had. A client that keeps the description of
//! a prepared statement (pgjdbc) asked for it once.
//!
//! # What a log does not tell
//!
//! **Portals with a limit.** A client may take a result in portions: `Execute` with a number of
//! rows, later more of it (`execute fetch from` in the log). The number is in no log, not even
//! whether there was one. So every execution runs to its end, which costs the server the same rows;
//! the fetches that follow find nothing left to fetch, are not sent, and are counted as
//! [`Skip::UnknownPortal`]. A client that stopped early read less than its replay does. Cursors of
//! SQL (DECLARE, FETCH, MOVE, CLOSE) are statements like all others.
//!
//! **The types of parameters.** The server finds them by itself, but where there is nothing to find
//! them by ([`types`]). A client that named another type than the server finds (pgjdbc: a float for
//! a column of integers) may have had another plan.
//!
//! **Batches.** A client may send many executions before one `Sync`, which makes them one
//! transaction without a BEGIN. Here each has its own.
//!
//! **COPY ... FROM STDIN**: [`super::copying`]. **What was set as a client connected** (its
//! encoding, `search_path` in its options): the log has SET statements only, and these are sent.
//!
//! # The encoding
//!
//! It is decided in [`seatrial_pgwire::startup`]: no conversion. A `SET client_encoding` or `SET
//! NAMES` of the trace would have the server convert what a log holds in its own encoding already.
//! A server tells each change of it; the next statement then has a SET before it that takes the
//! change back, whose answer counts for nothing.

pub mod prepared;
#[cfg(test)]
mod tests;
pub mod types;

use seatrial_pgwire::answer::{Answer, ServerError, Tag, TransactionStatus};
use seatrial_pgwire::messages::{self, ErrorResponse, Head};
use seatrial_pgwire::startup::{self, NO_CONVERSION, Startup};
use seatrial_trace::captured::{Protocol, Skip};

use super::copying;
use super::item::{Item, Skipped};
use prepared::Prepared;

pub use seatrial_pgwire::startup::Login;

/// What is read of a message that says more than rows; the rest is passed over. Longer are only
/// errors that quote a long text, and the code and sentence that count come before it.
pub const READ_BYTES_MAX: usize = 8 << 10;

/// A server takes no longer message, nor a text of more (its `MaxAllocSize`).
const SENT_BYTES_MAX: usize = (1 << 30) - (1 << 16);

const CONNECTION_FAILURE: [u8; 5] = *b"08006";

/// What a connection has to say to those who hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The client is in, and the first statement may be sent.
    Ready,
    /// The statement on its way was answered, and the next may be sent.
    Answer(Answer),
    /// The server did not let the client in.
    Refused(ServerError),
    /// The server ended the connection.
    Lost(ServerError),
    /// What came is no message that belongs here; the connection is of no use any more.
    NotUnderstood(String),
}

/// Whether a statement could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It is on its way.
    Sent,
    /// It cannot be sent.
    Impossible(Skipped),
}

/// How far a connection is.
enum Stage {
    /// The client is on its way in.
    Startup(Startup),
    /// It waits for a statement.
    Idle,
    /// It waits for an answer.
    Busy,
    /// It has ended.
    Ended,
}

/// The encodings that the server tells, as far as they matter.
#[derive(Default)]
struct Encodings {
    server: Vec<u8>,
    client: Vec<u8>,
}

impl Encodings {
    /// Whether the server converts what comes.
    fn convert(&self) -> bool {
        self.client != NO_CONVERSION.as_bytes() && self.client != self.server
    }
}

/// One connection.
pub struct Connection {
    stage: Stage,
    /// What is still to come of a message that is passed over.
    rest_bytes: usize,
    status: TransactionStatus,
    answer: Answer,
    is_extended: bool,
    /// Answers to come that are of no statement of the trace.
    silent: u32,
    /// A warning that the server is about to go: it crashed, or was stopped at once.
    last_words: Option<ServerError>,
    prepared: Prepared,
    encodings: Encodings,
    /// Columns of the next statement's rows that are to be kept.
    keeps: Vec<u32>,
    /// Rows of which they are.
    keeps_rows: usize,
    process_id: i32,
    secret_key: Vec<u8>,
}

impl Connection {
    /// A connection whose first message is appended.
    pub fn new(login: &Login<'_>, out: &mut Vec<u8>) -> Connection {
        login.write(out);
        Connection {
            stage: Stage::Startup(Startup::new(login)),
            rest_bytes: 0,
            status: TransactionStatus::Idle,
            answer: Answer::default(),
            is_extended: false,
            silent: 0,
            last_words: None,
            prepared: Prepared::default(),
            encodings: Encodings::default(),
            keeps: Vec::new(),
            keeps_rows: 0,
            process_id: 0,
            secret_key: Vec::new(),
        }
    }

    /// Takes in what came, says what it means, and appends what the server is to be told at once.
    ///
    /// Returns how many bytes were taken; the rest, at most [`READ_BYTES_MAX`] and a head, is to be
    /// given again in front of what comes next.
    pub fn take_in(&mut self, input: &[u8], out: &mut Vec<u8>, said: &mut Vec<Said>) -> usize {
        let mut taken = 0;
        loop {
            let passed = self.rest_bytes.min(input.len() - taken);
            self.rest_bytes -= passed;
            taken += passed;
            if matches!(self.stage, Stage::Ended) {
                return input.len();
            }
            let rest = &input[taken..];
            let Some(head) = Head::of(rest) else { return taken };
            let Some(body_bytes) = self.body_bytes(head) else {
                return taken + self.strange(head, rest, said);
            };
            let is_read = !is_passed_over(head.kind) || (head.kind == b'D' && self.keeps_rows > 0);
            let read_bytes = if is_read { body_bytes.min(READ_BYTES_MAX) } else { 0 };
            let Some(body) = rest.get(Head::BYTES..Head::BYTES + read_bytes) else { return taken };
            taken += Head::BYTES + read_bytes;
            self.rest_bytes = body_bytes - read_bytes;
            self.answer.received_bytes += (Head::BYTES + body_bytes) as u64;
            match self.stage {
                Stage::Startup(_) => self.message_at_startup(head.kind, body, out, said),
                _ => self.message(head.kind, body, out, said),
            }
        }
    }

    /// Appends all that has to be sent for a statement.
    pub fn send(&mut self, item: &Item, out: &mut Vec<u8>) -> Sending {
        if !self.is_ready() {
            return Sending::Impossible(Skipped::NoConnection);
        }
        if item.protocol == Protocol::Fetch {
            return Sending::Impossible(Skipped::Unlogged(Skip::UnknownPortal));
        }
        if !can_be_written(item) {
            return Sending::Impossible(Skipped::Unlogged(Skip::CutOff));
        }
        self.answer = Answer::default();
        self.is_extended = item.protocol == Protocol::Extended;
        if self.encodings.convert() && self.status != TransactionStatus::Failed {
            messages::query(out, b"SET client_encoding TO 'SQL_ASCII'");
            self.silent = 1;
        }
        self.prepared.send(item, out);
        if self.is_extended {
            messages::bind(out, &item.prepared, &item.parameters);
            messages::execute_and_sync(out);
        } else {
            messages::query(out, &item.sql);
        }
        self.stage = Stage::Busy;
        Sending::Sent
    }

    /// Keeps some columns of the rows of the statement that is sent next, of so many rows at most.
    pub fn keep(&mut self, columns: impl IntoIterator<Item = u32>, rows: usize) {
        self.keeps.clear();
        self.keeps.extend(columns);
        self.keeps_rows = rows;
    }

    /// Says what it means that the server hung up, with what it had sent of a message by then.
    pub fn hung_up(&mut self, left: &[u8]) -> Said {
        let when = match &self.stage {
            _ if self.rest_bytes > 0 || !left.is_empty() => "in the middle of a message",
            Stage::Startup(_) => "before it let the client in",
            Stage::Busy => "before it answered",
            Stage::Idle | Stage::Ended => "between two statements",
        };
        let message = format!("the server closed the connection {when}, without a word");
        let without_a_word = ServerError { sqlstate: CONNECTION_FAILURE, message };
        let error = self.last_words.take().unwrap_or(without_a_word);
        let is_starting = matches!(self.stage, Stage::Startup(_));
        self.stage = Stage::Ended;
        if is_starting { Said::Refused(error) } else { Said::Lost(error) }
    }

    /// Appends the message that ends any connection.
    pub fn terminate(out: &mut Vec<u8>) {
        messages::terminate(out);
    }

    /// Appends what ends the statement on its way, when it is sent over a connection of its own.
    pub fn cancel_request(&self, out: &mut Vec<u8>) {
        messages::cancel_request(out, self.process_id, &self.secret_key);
    }

    /// The number of the server's process, as `pg_stat_activity` has it; 0 before the client is in.
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    /// What proves a request to cancel: 4 bytes, in versions of the protocol later than 3.0 more.
    pub fn secret_key(&self) -> &[u8] {
        &self.secret_key
    }

    /// Where its transaction stands.
    pub fn status(&self) -> TransactionStatus {
        self.status
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
        said: &mut Vec<Said>,
    ) {
        let Stage::Startup(startup) = &mut self.stage else { return };
        match kind {
            b'R' => {
                if let Err(why) = startup.take_in(body, out) {
                    self.end(Said::Refused(why), said);
                }
            }
            b'E' => {
                self.end(Said::Refused(startup::explained(ErrorResponse::of(body).error)), said)
            }
            b'S' => self.parameter(body),
            b'K' if body.len() >= 4 => {
                self.process_id = messages::number(body).unwrap_or(0);
                self.secret_key = body[4..].to_vec();
            }
            b'Z' if startup.is_in() => {
                self.status = status(body);
                self.stage = Stage::Idle;
                said.push(Said::Ready);
            }
            // Notices, and what of the protocol an old server or a pooler does not know.
            b'N' | b'v' => {}
            _ => self.no_message(kind, said),
        }
    }

    fn message(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>, said: &mut Vec<Said>) {
        match kind {
            b'D' if self.keeps_rows > 0 && self.silent == 0 => self.row(body),
            kind if is_passed_over(kind) => {}
            b'C' => self.completed(body),
            b'Z' => self.ready(body, said),
            b'1' => {
                if self.silent == 0 {
                    self.prepared.parsed();
                }
            }
            b'E' => self.failed(body, said),
            b'N' => self.noticed(body),
            b'S' => self.parameter(body),
            b'G' => copying::refuse_data(out, self.is_extended),
            _ => self.no_message(kind, said),
        }
    }

    fn row(&mut self, body: &[u8]) {
        self.keeps_rows -= 1;
        for &column in &self.keeps {
            self.answer.kept.push(messages::column(body, column).map(Box::from));
        }
    }

    fn completed(&mut self, body: &[u8]) {
        let (told, _) = messages::text(body);
        let tag = Tag::of(told);
        if let Some(rows) = messages::rows(told) {
            self.answer.rows = Some(self.answer.rows.unwrap_or(0).saturating_add(rows));
        }
        self.prepared.completed(&tag);
        self.answer.tag = tag;
    }

    fn ready(&mut self, body: &[u8], said: &mut Vec<Said>) {
        self.status = status(body);
        if !matches!(self.stage, Stage::Busy) {
            return self.no_message(b'Z', said);
        }
        let mut answer = std::mem::take(&mut self.answer);
        if self.silent > 0 {
            self.silent -= 1;
            return;
        }
        answer.status = self.status;
        self.stage = Stage::Idle;
        self.keeps_rows = 0;
        said.push(Said::Answer(answer));
    }

    fn failed(&mut self, body: &[u8], said: &mut Vec<Said>) {
        let told = ErrorResponse::of(body);
        if told.is_fatal {
            return self.end(Said::Lost(told.error), said);
        }
        if self.silent == 0 {
            self.prepared.failed(told.error.sqlstate);
        }
        self.answer.error.get_or_insert(told.error);
    }

    fn noticed(&mut self, body: &[u8]) {
        self.answer.notices += 1;
        let told = ErrorResponse::of(body).error;
        if matches!(&told.sqlstate, b"57P01" | b"57P02") {
            self.last_words = Some(told);
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

    /// Bytes that follow the head of a message; None where it is the head of none.
    #[inline]
    fn body_bytes(&self, head: Head) -> Option<usize> {
        match &self.stage {
            Stage::Startup(startup) => head.body_bytes.filter(|_| startup.awaits(head)),
            _ => head.body_bytes,
        }
    }

    /// Takes in what is no message; how many bytes that are.
    ///
    /// A server that is too short of memory for this version of the protocol, or does not know it,
    /// says so in that of its ancestors: an `E`, a text without a length, and a zero.
    fn strange(&mut self, head: Head, rest: &[u8], said: &mut Vec<Said>) -> usize {
        if !matches!(self.stage, Stage::Startup(_)) || head.kind != b'E' {
            self.no_message(head.kind, said);
            return rest.len();
        }
        let text = &rest[1..rest.len().min(READ_BYTES_MAX)];
        if !text.contains(&0) && rest.len() < READ_BYTES_MAX {
            return 0;
        }
        let message = String::from_utf8_lossy(messages::text(text).0).trim_end().to_owned();
        self.end(Said::Refused(ServerError { sqlstate: CONNECTION_FAILURE, message }), said);
        rest.len()
    }

    fn no_message(&mut self, kind: u8, said: &mut Vec<Said>) {
        let kind = kind.escape_ascii();
        let sentence = if matches!(self.stage, Stage::Startup(_)) {
            format!(
                "what answers there does not speak PostgreSQL's protocol (its message begins with \
                 '{kind}'): check host and port"
            )
        } else {
            format!("the server sent a message '{kind}' that does not belong there")
        };
        self.end(Said::NotUnderstood(sentence), said);
    }

    fn end(&mut self, last: Said, said: &mut Vec<Said>) {
        self.stage = Stage::Ended;
        self.rest_bytes = 0;
        said.push(last);
    }
}

/// Whether nothing of a message is read but its kind: rows and their description, data of COPY,
/// descriptions of parameters, notifications, and what tells of a step that was done. An empty text
/// has no tag, and a portal is never suspended.
#[inline]
fn is_passed_over(kind: u8) -> bool {
    matches!(
        kind,
        b'D' | b'2' | b'T' | b'd' | b'3' | b'n' | b'I' | b'A' | b't' | b'H' | b'c' | b's'
    )
}

/// Whether a server can read it: a text has no zeros in it, and neither it nor the parameters are
/// longer than a message.
fn can_be_written(item: &Item) -> bool {
    let parameters = item.parameters.iter().flatten().map(Vec::len);
    let bytes = parameters.fold(item.sql.len(), usize::saturating_add);
    bytes <= SENT_BYTES_MAX
        && item.parameters.len() <= usize::from(u16::MAX)
        && memchr::memchr(0, &item.sql).is_none()
        && memchr::memchr(0, &item.prepared).is_none()
}

/// Where a transaction stands, in the words of `ReadyForQuery`.
fn status(body: &[u8]) -> TransactionStatus {
    match body.first() {
        Some(b'T') => TransactionStatus::Active,
        Some(b'E') => TransactionStatus::Failed,
        _ => TransactionStatus::Idle,
    }
}
