//! The server's side of a connection.

use std::rc::Rc;

use seatrial_pgwire::answer::Tag;
use seatrial_pgwire::messages::{self, ErrorResponse};
use seatrial_sqltext::statements::{deallocated, for_each_statement};

use super::trace_output::{Execution, FinishedStatement};
use super::{Answer, Follower, Portal, Stage, UnreadReason};
use crate::request::{Prepared, Request, RequestKind, RowRetention};
use crate::request::{columns, each_column, named, types};
use crate::returned::{self, Rows};
use crate::stream::{Message, Reader};
use crate::trace_queue::TraceQueue;

/// Maximum length read of a message other than rows.
const READ_BYTES_MAX: usize = 8 << 10;

/// Maximum length read of a description of columns or parameters: 1,600 columns with their names.
const DESCRIPTION_BYTES_MAX: usize = 256 << 10;

/// The number of a server's process; the key after it in the message is not read.
const PROCESS_BYTES: usize = 4;

/// Maximum number of prepared statements, and of portals, that are remembered.
const NAMED_MAX: usize = 64 << 10;

pub(super) struct AnswerReader<'a> {
    pub follower: &'a mut Follower,
    pub queue: &'a mut TraceQueue,
}

impl Reader for AnswerReader<'_> {
    #[inline]
    fn wanted_bytes(&mut self, kind: u8, _: usize) -> usize {
        match kind {
            b'D' => self.follower.wanted_of_row(),
            b'C' | b'Z' | b'E' | b'S' => READ_BYTES_MAX,
            b'T' | b't' => DESCRIPTION_BYTES_MAX,
            b'K' => PROCESS_BYTES,
            _ => 0,
        }
    }

    #[inline]
    fn message(&mut self, message: Message<'_>) -> bool {
        match self.follower.stage {
            Stage::Login => self.follower.message_at_login(message, self.queue),
            Stage::Open => self.follower.answer_message(message, self.queue),
            _ => {}
        }
        matches!(self.follower.stage, Stage::Login | Stage::Open)
    }
}

impl Follower {
    fn message_at_login(&mut self, message: Message<'_>, queue: &mut TraceQueue) {
        match message.kind {
            b'K' => {
                let process = messages::number(message.body).unwrap_or(0);
                self.session.name = process.to_string().into_bytes();
            }
            b'S' => {
                self.take_setting(message.body);
            }
            b'Z' => {
                self.stage = Stage::Open;
                self.settings.drain(..).for_each(|name| queue.counted.wire.setting(name));
                self.id = Some(queue.begin_session(&self.session));
            }
            b'R' | b'E' | b'N' | b'v' => {}
            _ => self.stop_reading(UnreadReason::NotUnderstood, queue),
        }
    }

    #[inline]
    fn answer_message(&mut self, message: Message<'_>, queue: &mut TraceQueue) {
        let body = message.body;
        match message.kind {
            b'D' => self.row(body),
            b'C' => self.completed(body, queue),
            b'Z' => self.ready(body, queue),
            b'1' => self.parsed(queue),
            b'2' => self.bound(queue),
            b'T' => self.described(body, queue),
            b'n' => drop(self.take(queue, is_describe)),
            b't' => self.parameters_described(body),
            b'I' => self.finish_execution(false, queue),
            b's' => self.finish_execution(true, queue),
            b'3' => self.closed(queue),
            b'E' => self.failed(body, queue),
            b'G' => self.copies_in(),
            b'W' => self.stop_reading(UnreadReason::Replication, queue),
            b'S' => {
                if self.take_setting(body) {
                    self.id.inspect(|&id| queue.change_session(id, &self.session));
                }
            }
            // Notices, notifications, results of functions, data of COPY.
            b'N' | b'A' | b'V' | b'H' | b'd' | b'c' | b'K' | b'R' | b'v' => {}
            _ => self.stop_reading(UnreadReason::NotUnderstood, queue),
        }
    }

    /// Takes the first request that matches; those before it were never answered.
    fn take(
        &mut self,
        queue: &mut TraceQueue,
        is_meant: fn(&RequestKind) -> bool,
    ) -> Option<Request> {
        if self.requests.front().is_some_and(|first| is_meant(&first.kind)) {
            return self.requests.pop_front();
        }
        queue.counted.wire.out_of_step += 1;
        self.is_out_of_step = true;
        while let Some(request) = self.requests.pop_front() {
            if is_meant(&request.kind) {
                return Some(request);
            }
            queue.counted.others += u64::from(request.kind.is_statement());
        }
        None
    }

    fn parsed(&mut self, queue: &mut TraceQueue) {
        let request = self.take(queue, |kind| matches!(kind, RequestKind::Parse(_)));
        if let Some(RequestKind::Parse(prepared)) = request.map(|request| request.kind) {
            self.prepare(prepared);
        }
    }

    pub(super) fn prepare(&mut self, prepared: Rc<super::Prepared>) {
        if self.prepared.len() < NAMED_MAX || self.prepared.contains_key(&prepared.name) {
            self.prepared.insert(named(&prepared.name), prepared);
        }
    }

    fn bound(&mut self, queue: &mut TraceQueue) {
        let request = self.take(queue, |kind| matches!(kind, RequestKind::Bind(_)));
        if let Some(RequestKind::Bind(bound)) = request.map(|request| request.kind) {
            self.open_portal(bound);
        }
    }

    pub(super) fn open_portal(&mut self, bound: Rc<super::Bound>) {
        let prepared = self.prepared.get(&bound.prepared).cloned();
        let columns =
            prepared.as_ref().filter(|known| known.text.retention != RowRetention::Nothing);
        let columns = columns.map_or_else(Rc::default, |known| known.columns.borrow().clone());
        let portal = Portal { prepared, bound: bound.clone(), columns, is_begun: false };
        // An unnamed one, the most frequent, replaces its predecessor.
        if let Some(open) = self.portals.get_mut(&bound.portal) {
            *open = portal;
        } else if self.portals.len() < NAMED_MAX {
            self.portals.insert(named(&bound.portal), portal);
        }
    }

    fn described(&mut self, body: &[u8], queue: &mut TraceQueue) {
        if let Some(RequestKind::Query(text)) = self.requests.front().map(|first| &first.kind) {
            self.answer.results += 1;
            let is_unclear = self.answer.results == 2 && text.retention == RowRetention::All;
            queue.counted.wire.returned_unclear += u64::from(is_unclear);
            let retention =
                if self.answer.results == 1 { text.retention } else { RowRetention::Nothing };
            self.answer.returned = (retention != RowRetention::Nothing)
                .then(|| Rows::of(each_column(body), None, retention));
            self.answer.retention = Some(retention);
            return;
        }
        match self.take(queue, is_describe).map(|request| request.kind) {
            Some(RequestKind::DescribeStatement(name)) => {
                let retention =
                    |known: &&Rc<Prepared>| known.text.retention != RowRetention::Nothing;
                let known = self.prepared.get(&name).filter(retention);
                known.inspect(|known| *known.columns.borrow_mut() = columns(body));
            }
            Some(RequestKind::DescribePortal(name)) => {
                let portal = self.portals.get_mut(&name).filter(|open| open.retains_rows());
                // Most clients ask each time, and the answer is the same.
                let is_new = |open: &&mut Portal| {
                    let known = open.columns.iter();
                    each_column(body).ne(known.map(|column| (&column.name[..], column.type_oid)))
                };
                if let Some(portal) = portal.filter(is_new) {
                    portal.columns = columns(body);
                    // A client that caches it requests it once (pgjdbc), whatever it binds later.
                    if let Some(prepared) = &portal.prepared {
                        prepared.columns.borrow_mut().clone_from(&portal.columns);
                    }
                }
            }
            _ => {}
        }
    }

    fn parameters_described(&mut self, body: &[u8]) {
        if let Some(RequestKind::DescribeStatement(name)) =
            self.requests.front().map(|one| &one.kind)
        {
            let known = self.prepared.get(name);
            known.inspect(|known| *known.types.borrow_mut() = types(body));
        }
    }

    /// How much of a row is read: whether rows are kept is decided at the first.
    #[inline]
    fn wanted_of_row(&mut self) -> usize {
        match self.answer.retention.unwrap_or_else(|| self.look_at_first_row()) {
            RowRetention::Nothing => 0,
            RowRetention::Few => returned::FEW_ROWS_BYTES_EACH_MAX,
            RowRetention::All => returned::BYTES_MAX,
        }
    }

    fn look_at_first_row(&mut self) -> RowRetention {
        let portal = match self.requests.front().map(|first| &first.kind) {
            Some(RequestKind::Execute(name)) => self.portals.get(name),
            _ => None,
        };
        let portal = portal.filter(|open| open.retains_rows());
        let retention = portal.and_then(|open| open.prepared.as_ref());
        let retention = retention.map_or(RowRetention::Nothing, |prepared| prepared.text.retention);
        self.answer.returned = portal.map(|portal| {
            let columns = portal.columns.iter().map(|column| (&column.name[..], column.type_oid));
            Rows::of(columns, Some(&portal.bound), retention)
        });
        self.answer.retention = Some(retention);
        retention
    }

    #[inline]
    fn row(&mut self, body: &[u8]) {
        if self.answer.returned.is_none() {
            return;
        }
        let portal = match self.requests.front().map(|first| &first.kind) {
            Some(RequestKind::Execute(name)) => self.portals.get(name),
            _ => None,
        };
        let bound = portal.map(|portal| &*portal.bound);
        if let Some(rows) = &mut self.answer.returned {
            rows.take(body, bound, self.encodings.is_foreign());
            if rows.are_too_many() {
                (self.answer.returned, self.answer.retention) = (None, Some(RowRetention::Nothing));
            }
        }
    }

    fn completed(&mut self, body: &[u8], queue: &mut TraceQueue) {
        let (words, _) = messages::text(body);
        if let Some(rows) = messages::rows(words) {
            self.answer.rows = Some(self.answer.rows.unwrap_or(0).saturating_add(rows));
        }
        let tag = Tag::of(words);
        self.forget_prepared(&tag);
        self.answer.tag = Some(tag);
        self.finish_execution(false, queue);
    }

    /// A command was completed, which may release prepared statements.
    #[inline]
    fn forget_prepared(&mut self, tag: &Tag) {
        match tag.words() {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => self.prepared.retain(|name, _| name.is_empty()),
            b"DEALLOCATE" => {
                let name = self.deallocated(self.answer.deallocated);
                self.answer.deallocated += 1;
                name.map(|name| self.prepared.remove(&name));
            }
            _ => {}
        }
    }

    /// The name in the text's N-th DEALLOCATE of a name.
    fn deallocated(&self, index: usize) -> Option<Vec<u8>> {
        let text = match &self.requests.front()?.kind {
            RequestKind::Query(text) => text,
            RequestKind::Execute(portal) => &self.portals.get(portal)?.prepared.as_ref()?.text,
            _ => return None,
        };
        let mut names = Vec::new();
        for_each_statement(&text.sql, |statement| names.extend(deallocated(statement)));
        names.into_iter().nth(index)
    }

    /// A portal was executed to its end or row limit; a simple query continues to the end of its
    /// text.
    fn finish_execution(&mut self, is_suspended: bool, queue: &mut TraceQueue) {
        if matches!(self.requests.front().map(|first| &first.kind), Some(RequestKind::Query(_))) {
            return;
        }
        let request = self.take(queue, |kind| matches!(kind, RequestKind::Execute(_)));
        let Some(Request { sent_us, kind: RequestKind::Execute(name) }) = request else { return };
        self.is_copying = false;
        let answer = std::mem::take(&mut self.answer);
        let execution = self.execution(&name);
        // The number of rows is unknown until the last was fetched.
        let answer = if is_suspended { Answer { rows: None, ..answer } } else { answer };
        self.push(FinishedStatement::answered(execution, sent_us, answer, queue), queue);
    }

    pub(super) fn execution(&mut self, portal: &[u8]) -> Execution {
        let Some(portal) = self.portals.get_mut(portal) else { return Execution::Unknown };
        let is_fetch = std::mem::replace(&mut portal.is_begun, true);
        match &portal.prepared {
            None => Execution::Unknown,
            Some(prepared) => Execution::Bound {
                prepared: prepared.clone(),
                bound: portal.bound.clone(),
                is_fetch,
            },
        }
    }

    fn closed(&mut self, queue: &mut TraceQueue) {
        let is_close = |kind: &RequestKind| {
            matches!(kind, RequestKind::CloseStatement(_) | RequestKind::ClosePortal(_))
        };
        match self.take(queue, is_close).map(|request| request.kind) {
            Some(RequestKind::CloseStatement(name)) => drop(self.prepared.remove(&name)),
            Some(RequestKind::ClosePortal(name)) => drop(self.portals.remove(&name)),
            _ => {}
        }
    }

    fn copies_in(&mut self) {
        self.answer.is_copy_data = true;
        if matches!(self.requests.front().map(|first| &first.kind), Some(RequestKind::Execute(_))) {
            self.is_copying = true;
            self.requests.retain(|request| !matches!(request.kind, RequestKind::Sync));
        }
    }

    fn failed(&mut self, body: &[u8], queue: &mut TraceQueue) {
        let sqlstate = ErrorResponse::of(body).error.sqlstate;
        match self.requests.front().map(|first| &first.kind) {
            None => {}
            Some(RequestKind::Query(_) | RequestKind::Call(_)) => {
                self.answer.error.get_or_insert(sqlstate);
            }
            Some(RequestKind::Sync) => {
                // Deferred constraints and serialization may still fail until then.
                if let Some(last) = self.finished.last_mut() {
                    last.fail(sqlstate);
                }
            }
            Some(_) => self.failed_in_pipeline(sqlstate, queue),
        }
    }

    /// A step of the extended protocol failed: everything up to the next `Sync` is skipped.
    fn failed_in_pipeline(&mut self, sqlstate: [u8; 5], queue: &mut TraceQueue) {
        let Some(Request { sent_us, kind }) = self.requests.pop_front() else { return };
        let answer = Answer { error: Some(sqlstate), ..std::mem::take(&mut self.answer) };
        let never_ran = never_ran(&kind, sqlstate);
        let (execution, was_joined) = match kind {
            RequestKind::Execute(name) => (self.execution(&name), false),
            RequestKind::Parse(prepared) => (Execution::Parsed(prepared), true),
            RequestKind::Bind(bound) => {
                let prepared = self.prepared.get(&bound.prepared).cloned();
                let known = |prepared| Execution::Bound { prepared, bound, is_fetch: false };
                (prepared.map_or(Execution::Unknown, known), true)
            }
            _ => (Execution::Unknown, true),
        };
        self.is_copying = false;
        match execution {
            Execution::Unknown => queue.counted.others += u64::from(!was_joined),
            execution => {
                queue.counted.joined -= u64::from(was_joined);
                let mut finished = FinishedStatement::answered(execution, sent_us, answer, queue);
                finished.never_ran = never_ran;
                self.push(finished, queue);
            }
        }
        while let Some(next) = self.requests.front() {
            if matches!(next.kind, RequestKind::Sync) {
                return;
            }
            queue.counted.others += u64::from(next.kind.is_statement());
            self.requests.pop_front();
        }
        self.is_discarding = true;
    }

    fn ready(&mut self, body: &[u8], queue: &mut TraceQueue) {
        let ends = |kind: &RequestKind| {
            matches!(kind, RequestKind::Sync | RequestKind::Query(_) | RequestKind::Call(_))
        };
        let request = self.take(queue, ends);
        self.is_copying = false;
        let answer = std::mem::take(&mut self.answer);
        match request {
            Some(Request { sent_us, kind: RequestKind::Query(text) }) => {
                self.push(
                    FinishedStatement::answered(Execution::Query(text), sent_us, answer, queue),
                    queue,
                );
            }
            Some(Request { sent_us, kind: RequestKind::Call(function) }) => {
                self.push(
                    FinishedStatement::answered(Execution::Call(function), sent_us, answer, queue),
                    queue,
                );
            }
            Some(Request { sent_us, .. }) => {
                // It was committed only now, unless its client waited in between.
                let now_us = queue.now_us;
                if let Some(last) = self.finished.last_mut().filter(|last| last.ended_us >= sent_us)
                {
                    last.ended_us = now_us;
                }
            }
            None => {}
        }
        let is_open = body.first() != Some(&b'I');
        self.keep_finished(Some(is_open), queue);
        if !is_open && self.portals.len() > 1 {
            self.portals.clear();
        }
    }

    /// Processes a setting reported by the server; whether it changes the session.
    fn take_setting(&mut self, body: &[u8]) -> bool {
        let (name, rest) = messages::text(body);
        let kept = match name {
            b"client_encoding" => &mut self.encodings.client,
            b"server_encoding" => &mut self.encodings.server,
            b"application_name" => &mut self.session.application,
            _ => return false,
        };
        let value = messages::text(rest).0;
        let is_other = kept != value;
        if is_other {
            kept.clear();
            kept.extend_from_slice(value);
        }
        is_other && name == b"application_name"
    }
}

impl Portal {
    fn retains_rows(&self) -> bool {
        self.prepared
            .as_ref()
            .is_some_and(|prepared| prepared.text.retention != RowRetention::Nothing)
    }
}

/// Whether a failed statement was not executed for a temporary reason, so that it would be executed
/// if sent again: a name that was taken or missing, an outdated plan; for a failed preparation,
/// whose parameters are unknown, any reason except those in its text.
fn never_ran(kind: &RequestKind, sqlstate: [u8; 5]) -> bool {
    match (kind, &sqlstate) {
        (RequestKind::Parse(_), b"42P05") => true,
        (RequestKind::Parse(_), code) => {
            ![b"22", b"25", b"0A", b"3F", b"42", b"54"].iter().any(|class| code.starts_with(*class))
        }
        (RequestKind::Bind(_), b"26000" | b"0A000" | b"42P03") => true,
        _ => false,
    }
}

fn is_describe(kind: &RequestKind) -> bool {
    matches!(kind, RequestKind::DescribeStatement(_) | RequestKind::DescribePortal(_))
}
