//! What goes into the trace: statements with a complete answer, in the order in which they were
//! sent, with the number of their transaction.
//!
//! They are held until the server is ready for the next request, as only then it is known whether
//! several of one pipeline are one transaction, and whether a transaction is still open.

use std::rc::Rc;

use seatrial_pgwire::answer::Tag;
use seatrial_sqltext::statements::{Control, control};
use seatrial_trace::captured::{Protocol, SessionId, Skip};

use super::{Answer, Follower};
use crate::binary;
use crate::keeper::{Figures, Keeper, NULL};
use crate::request::{Bound, Prepared, Request, RequestKind, Text};
use crate::returned::PackedRows;

/// Maximum number of held statements of one pipeline.
const HELD_MAX: usize = 4 << 10;

/// What was executed.
#[derive(Debug)]
pub(super) enum What {
    /// A text.
    Query(Text),
    /// A prepared text with its parameters.
    Bound { prepared: Rc<Prepared>, bound: Rc<Bound>, is_fetch: bool },
    /// A text whose preparation failed.
    Parsed(Rc<Prepared>),
    /// A function, by its oid.
    Call(u32),
    /// A statement with unknown text.
    Unknown,
}

/// A statement and its result.
#[derive(Debug)]
pub(super) struct Done {
    what: What,
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

impl Done {
    /// A statement that was answered now.
    pub(super) fn answered(what: What, sent_us: i64, answer: Answer, keeper: &mut Keeper) -> Done {
        let has_failed = answer.error.is_some();
        let returned = answer.returned.filter(|_| !has_failed);
        let seen = &mut keeper.counted.seen;
        seen.returned_cut += u64::from(returned.as_ref().is_some_and(|rows| rows.is_cut));
        seen.returned_unread += returned.as_ref().map_or(0, |rows| rows.unread);
        Done {
            ended_us: keeper.now_us,
            is_answered: true,
            rows: answer.rows.filter(|_| !has_failed),
            tag: answer.tag.filter(|_| !has_failed),
            error: answer.error,
            returned: returned.and_then(super::Rows::finish),
            ..Done::unanswered(what, sent_us, answer.is_copy_data)
        }
    }

    /// A statement with unknown result.
    fn unanswered(what: What, sent_us: i64, is_copy_data: bool) -> Done {
        Done {
            what,
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

    /// It failed after all.
    pub(super) fn fail(&mut self, sqlstate: [u8; 5]) {
        (self.error, self.rows, self.tag, self.returned) = (Some(sqlstate), None, None, None);
    }

    fn text(&self) -> Option<&Text> {
        match &self.what {
            What::Query(text) => Some(text),
            What::Bound { prepared, .. } | What::Parsed(prepared) => Some(&prepared.text),
            What::Call(_) | What::Unknown => None,
        }
    }

    fn figures(&mut self, session: SessionId) -> Figures {
        let skip = match &self.what {
            What::Call(_) => Some(Skip::FastPath),
            What::Unknown => Some(Skip::UnknownText),
            _ if self.text().is_some_and(|text| text.is_cut) => Some(Skip::CutOff),
            _ if self.is_copy_data => Some(Skip::CopyData),
            _ if self.never_ran => Some(Skip::NeverRan),
            _ if self.is_rolled_back => Some(Skip::RolledBack),
            _ => None,
        };
        let protocol = match &self.what {
            What::Query(_) | What::Call(_) => Protocol::Simple,
            What::Bound { is_fetch: true, .. } => Protocol::Fetch,
            What::Bound { .. } | What::Parsed(_) | What::Unknown => Protocol::Extended,
        };
        let took_us = u64::try_from(self.ended_us - self.sent_us).unwrap_or(0);
        Figures {
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
    /// Holds a statement until its transaction is known.
    #[inline]
    pub(super) fn push(&mut self, done: Done, keeper: &mut Keeper) {
        self.done.push(done);
        if self.done.len() >= HELD_MAX {
            self.block.imply();
            let held = self.done.len() as u64;
            self.keep_done(None, keeper);
            self.kept_early = if self.block.is_implied() { self.kept_early + held } else { 0 };
        }
    }

    /// Keeps held statements; `is_open` is whether a transaction is open, if the server has
    /// reported it.
    #[inline]
    pub(super) fn keep_done(&mut self, is_open: Option<bool>, keeper: &mut Keeper) {
        let mut done = std::mem::take(&mut self.done);
        let count = done.len();
        for (place, statement) in done.iter_mut().enumerate() {
            let has_others = count - place > 1;
            statement.transaction = self.transaction(statement, has_others);
            statement.is_implied = self.block.is_implied();
        }
        if count > 1 || self.kept_early > 0 {
            self.roll_back(&mut done, keeper);
        }
        for statement in &mut done {
            self.keep(statement, keeper);
        }
        done.clear();
        self.done = done;
        if let Some(is_open) = is_open {
            self.kept_early = 0;
            self.block.settle(is_open);
        }
    }

    /// Statements of a transaction without a BEGIN are rolled back with the one that fails.
    fn roll_back(&self, done: &mut [Done], keeper: &mut Keeper) {
        for place in 0..done.len() {
            let Done { transaction, is_implied: true, error: Some(_), .. } = done[place] else {
                continue;
            };
            let is_of_it = |one: &&mut Done| one.is_implied && one.transaction == transaction;
            for other in done.iter_mut().filter(is_of_it) {
                other.is_rolled_back = other.error.is_none();
            }
            keeper.counted.seen.rolled_back_kept += self.kept_early;
        }
    }

    /// The number of a statement's transaction, shared by the following ones of one pipeline.
    #[inline]
    fn transaction(&mut self, statement: &Done, has_others: bool) -> u64 {
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

    fn keep(&self, done: &mut Done, keeper: &mut Keeper) {
        let Some(session) = self.id else {
            // A client that was not authenticated executed nothing.
            keeper.counted.others += 1;
            return;
        };
        keeper.counted.seen.unanswered += u64::from(!done.is_answered);
        let mut figures = done.figures(session);
        let is_foreign = self.encodings.is_foreign();
        if is_foreign && done.text().is_some_and(|text| !text.sql.is_ascii()) {
            figures.skip = figures.skip.or(Some(Skip::OtherEncoding));
        }
        match &done.what {
            What::Query(text) => keeper.statement(figures, b"", &text.sql, |_| (0, None)),
            What::Parsed(prepared) => {
                keeper.statement(figures, &prepared.name, &prepared.text.sql, |_| (0, None));
            }
            What::Bound { prepared, bound, .. } => {
                let put = |out: &mut Vec<u8>| put_parameters(prepared, bound, is_foreign, out);
                keeper.statement(figures, &prepared.name, &prepared.text.sql, put);
            }
            What::Call(function) => {
                let sql = format!("fastpath function call: (OID {function})");
                keeper.statement(figures, b"", sql.as_bytes(), |_| (0, None));
            }
            What::Unknown => keeper.statement(figures, b"", b"", |_| (0, None)),
        }
    }

    /// Keeps the rest when a session or the capture ends.
    pub(super) fn end_session(&mut self, is_gone: bool, keeper: &mut Keeper) {
        let mut answer = std::mem::take(&mut self.answer);
        while let Some(Request { sent_us, kind }) = self.requests.pop_front() {
            let what = match kind {
                RequestKind::Parse(prepared) => {
                    self.prepare(prepared);
                    continue;
                }
                RequestKind::Bind(bound) => {
                    self.open_portal(bound);
                    continue;
                }
                RequestKind::Query(text) => What::Query(text),
                RequestKind::Execute(portal) => self.execution(&portal),
                RequestKind::Call(function) => What::Call(function),
                _ => continue,
            };
            // The first of them may have had an effect; an error that ended the session belongs to
            // it.
            let answer = std::mem::take(&mut answer);
            self.done.push(if answer.error.is_some() {
                Done::answered(what, sent_us, answer, keeper)
            } else {
                Done::unanswered(what, sent_us, answer.is_copy_data)
            });
        }
        self.keep_done(None, keeper);
        if let Some(id) = self.id.take() {
            self.session.disconnected_us = is_gone.then_some(keeper.now_us);
            keeper.change_session(id, &self.session);
        }
    }
}

/// Packs parameters as text: their number, and why some are missing.
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
        let reported = &out[at + 4..];
        let why = match () {
            () if !is_known => Skip::BinaryParameters,
            () if is_foreign && !reported.is_ascii() => Skip::OtherEncoding,
            () => {
                let length = reported.len() as u32;
                out[at..at + 4].copy_from_slice(&length.to_be_bytes());
                return;
            }
        };
        out.truncate(at + 4);
        skip = Some(why);
    });
    (count, skip.or(read.err()))
}
