//! The output to the trace: statements with a complete answer, in the order in which they were
//! sent, with the number of their transaction.
//!
//! They are buffered until the server is ready for the next request, as only then it is known
//! whether several of one pipeline are one transaction, and whether a transaction is still open.

use std::rc::Rc;

use seatrial_pgwire::answer::Tag;
use seatrial_sqltext::statements::{Control, control};
use seatrial_trace::captured::{Protocol, SessionId, Skip};

use super::{Answer, Follower};
use crate::binary;
use crate::request::{Bound, Prepared, Request, RequestKind, Text};
use crate::returned::PackedRows;
use crate::trace_queue::{NULL, StatementFields, TraceQueue};

/// Maximum number of buffered statements of one pipeline.
const BUFFERED_MAX: usize = 4 << 10;

#[derive(Debug)]
pub(super) enum Execution {
    Query(Text),
    Bound {
        prepared: Rc<Prepared>,
        bound: Rc<Bound>,
        is_fetch: bool,
    },
    /// A text whose preparation failed.
    Parsed(Rc<Prepared>),
    /// A function, by its oid.
    Call(u32),
    Unknown,
}

#[derive(Debug)]
pub(super) struct FinishedStatement {
    execution: Execution,
    sent_us: i64,
    /// When it ended; when it was sent, if it never ended.
    pub ended_us: i64,
    is_answered: bool,
    rows: Option<u64>,
    tag: Option<Tag>,
    error: Option<[u8; 5]>,
    is_copy_data: bool,
    returned: Option<PackedRows>,
    /// See [`Skip::NeverRan`].
    pub never_ran: bool,
    /// See [`Skip::RolledBack`].
    is_rolled_back: bool,
    /// Number of its transaction, and whether that has no BEGIN, when known.
    transaction: u64,
    is_implied: bool,
}

impl FinishedStatement {
    /// A statement that was answered now.
    pub(super) fn answered(
        execution: Execution,
        sent_us: i64,
        answer: Answer,
        queue: &mut TraceQueue,
    ) -> FinishedStatement {
        let has_failed = answer.error.is_some();
        let returned = answer.returned.filter(|_| !has_failed);
        let wire = &mut queue.counted.wire;
        wire.returned_cut += u64::from(returned.as_ref().is_some_and(|rows| rows.is_cut));
        wire.returned_unread += returned.as_ref().map_or(0, |rows| rows.unread);
        FinishedStatement {
            ended_us: queue.now_us,
            is_answered: true,
            rows: answer.rows.filter(|_| !has_failed),
            tag: answer.tag.filter(|_| !has_failed),
            error: answer.error,
            returned: returned.and_then(super::Rows::finish),
            ..FinishedStatement::unanswered(execution, sent_us, answer.is_copy_data)
        }
    }

    /// A statement with unknown result.
    fn unanswered(execution: Execution, sent_us: i64, is_copy_data: bool) -> FinishedStatement {
        FinishedStatement {
            execution,
            sent_us,
            ended_us: sent_us,
            is_answered: false,
            rows: None,
            tag: None,
            error: None,
            is_copy_data,
            returned: None,
            never_ran: false,
            is_rolled_back: false,
            transaction: 0,
            is_implied: false,
        }
    }

    /// Its transaction or pipeline failed later.
    pub(super) fn fail(&mut self, sqlstate: [u8; 5]) {
        (self.error, self.rows, self.tag, self.returned) = (Some(sqlstate), None, None, None);
    }

    fn text(&self) -> Option<&Text> {
        match &self.execution {
            Execution::Query(text) => Some(text),
            Execution::Bound { prepared, .. } | Execution::Parsed(prepared) => Some(&prepared.text),
            Execution::Call(_) | Execution::Unknown => None,
        }
    }

    fn fields(&mut self, session: SessionId) -> StatementFields {
        let skip = match &self.execution {
            Execution::Call(_) => Some(Skip::FastPath),
            Execution::Unknown => Some(Skip::UnknownText),
            _ if self.text().is_some_and(|text| text.is_cut) => Some(Skip::CutOff),
            _ if self.is_copy_data => Some(Skip::CopyData),
            _ if self.never_ran => Some(Skip::NeverRan),
            _ if self.is_rolled_back => Some(Skip::RolledBack),
            _ => None,
        };
        let protocol = match &self.execution {
            Execution::Query(_) | Execution::Call(_) => Protocol::Simple,
            Execution::Bound { is_fetch: true, .. } => Protocol::Fetch,
            Execution::Bound { .. } | Execution::Parsed(_) | Execution::Unknown => {
                Protocol::Extended
            }
        };
        let took_us = u64::try_from(self.ended_us - self.sent_us).unwrap_or(0);
        StatementFields {
            session,
            start_us: self.sent_us,
            duration_us: Some(took_us).filter(|_| self.is_answered),
            protocol,
            transaction: self.transaction,
            rows: self.rows,
            tag: self.tag.filter(|tag| !tag.words().is_empty()),
            returned: self.returned.take(),
            error: self.error,
            skip,
        }
    }
}

impl Follower {
    /// Buffers a statement until its transaction is known.
    #[inline]
    pub(super) fn push(&mut self, finished: FinishedStatement, queue: &mut TraceQueue) {
        self.finished.push(finished);
        if self.finished.len() >= BUFFERED_MAX {
            self.block.imply();
            let buffered = self.finished.len() as u64;
            self.keep_finished(None, queue);
            self.kept_early = if self.block.is_implied() { self.kept_early + buffered } else { 0 };
        }
    }

    /// Keeps buffered statements; `is_open` is whether a transaction is open, if the server has
    /// reported it.
    #[inline]
    pub(super) fn keep_finished(&mut self, is_open: Option<bool>, queue: &mut TraceQueue) {
        let mut finished = std::mem::take(&mut self.finished);
        let count = finished.len();
        for (index, statement) in finished.iter_mut().enumerate() {
            let has_others = count - index > 1;
            statement.transaction = self.transaction(statement, has_others);
            statement.is_implied = self.block.is_implied();
        }
        if count > 1 || self.kept_early > 0 {
            self.roll_back(&mut finished, queue);
        }
        for statement in &mut finished {
            self.keep(statement, queue);
        }
        finished.clear();
        self.finished = finished;
        if let Some(is_open) = is_open {
            self.kept_early = 0;
            self.block.settle(is_open);
        }
    }

    /// Rolls back the statements of a transaction without a BEGIN that failed.
    fn roll_back(&self, finished: &mut [FinishedStatement], queue: &mut TraceQueue) {
        for index in 0..finished.len() {
            let FinishedStatement { transaction, is_implied: true, error: Some(_), .. } =
                finished[index]
            else {
                continue;
            };
            let is_of_it =
                |one: &&mut FinishedStatement| one.is_implied && one.transaction == transaction;
            for other in finished.iter_mut().filter(is_of_it) {
                other.is_rolled_back = other.error.is_none();
            }
            queue.counted.wire.rolled_back_kept += self.kept_early;
        }
    }

    /// The number of a statement's transaction, shared by the following ones of one pipeline.
    #[inline]
    fn transaction(&mut self, statement: &FinishedStatement, has_others: bool) -> u64 {
        let text = statement.text();
        let sql = text.filter(|text| text.may_control).map(|text| &text.sql[..]);
        if has_others && !sql.is_some_and(|sql| matches!(control(sql), Control::Begin)) {
            self.block.imply();
        }
        match sql {
            Some(sql) => self.block.step(sql, 0, statement.error.is_some()),
            None => self.block.number(),
        }
    }

    fn keep(&self, finished: &mut FinishedStatement, queue: &mut TraceQueue) {
        let Some(session) = self.id else {
            // A client that was not authenticated executed nothing.
            queue.counted.others += 1;
            return;
        };
        queue.counted.wire.unanswered += u64::from(!finished.is_answered);
        let mut fields = finished.fields(session);
        let is_foreign = self.encodings.is_foreign();
        if is_foreign && finished.text().is_some_and(|text| !text.sql.is_ascii()) {
            fields.skip = fields.skip.or(Some(Skip::OtherEncoding));
        }
        match &finished.execution {
            Execution::Query(text) => queue.statement(fields, b"", &text.sql, None, |_| (0, None)),
            Execution::Parsed(prepared) => {
                let types = Some(&prepared.declared_types[..]);
                queue.statement(fields, &prepared.name, &prepared.text.sql, types, |_| (0, None));
            }
            Execution::Bound { prepared, bound, .. } => {
                let put = |out: &mut Vec<u8>| put_parameters(prepared, bound, is_foreign, out);
                let types = Some(&prepared.declared_types[..]);
                queue.statement(fields, &prepared.name, &prepared.text.sql, types, put);
            }
            Execution::Call(function) => {
                let sql = format!("fastpath function call: (OID {function})");
                queue.statement(fields, b"", sql.as_bytes(), None, |_| (0, None));
            }
            Execution::Unknown => queue.statement(fields, b"", b"", None, |_| (0, None)),
        }
    }

    /// Keeps the remaining statements when a session or the capture ends.
    pub(super) fn end_session(&mut self, is_gone: bool, queue: &mut TraceQueue) {
        let mut answer = std::mem::take(&mut self.answer);
        while let Some(Request { sent_us, kind }) = self.requests.pop_front() {
            let execution = match kind {
                RequestKind::Parse(prepared) => {
                    self.prepare(prepared);
                    continue;
                }
                RequestKind::Bind(bound) => {
                    self.open_portal(bound);
                    continue;
                }
                RequestKind::Query(text) => Execution::Query(text),
                RequestKind::Execute(portal) => self.execution(&portal),
                RequestKind::Call(function) => Execution::Call(function),
                _ => continue,
            };
            // The first of them may have had an effect; an error that ended the session belongs to
            // it.
            let answer = std::mem::take(&mut answer);
            self.finished.push(if answer.error.is_some() {
                FinishedStatement::answered(execution, sent_us, answer, queue)
            } else {
                FinishedStatement::unanswered(execution, sent_us, answer.is_copy_data)
            });
        }
        self.keep_finished(None, queue);
        if let Some(id) = self.id.take() {
            self.session.disconnected_us = is_gone.then_some(queue.now_us);
            queue.change_session(id, &self.session);
        }
    }
}

/// Packs parameters as text; returns their number, and why some are missing.
fn put_parameters(
    prepared: &Prepared,
    bound: &Bound,
    is_foreign: bool,
    out: &mut Vec<u8>,
) -> (usize, Option<Skip>) {
    let types = prepared.types.borrow();
    let (mut count, mut skip) = (0, None);
    let read = bound.parameters(|sent| {
        let type_oid = types.get(count).copied().unwrap_or(0);
        count += 1;
        let at = out.len();
        out.extend_from_slice(&NULL.to_be_bytes());
        let Some(value) = sent.value else { return };
        let is_known = if sent.is_binary {
            binary::text(type_oid, value, out).is_some()
        } else {
            out.extend_from_slice(value);
            true
        };
        let text = &out[at + 4..];
        let why = match () {
            () if !is_known => Skip::BinaryParameters,
            () if is_foreign && !text.is_ascii() => Skip::OtherEncoding,
            () => {
                let length = text.len() as u32;
                out[at..at + 4].copy_from_slice(&length.to_be_bytes());
                return;
            }
        };
        out.truncate(at + 4);
        skip = Some(why);
    });
    (count, skip.or(read.err()))
}
