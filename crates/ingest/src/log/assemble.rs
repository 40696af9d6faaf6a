//! Assembles the records of sessions into statements.
//!
//! PostgreSQL reports one statement in up to five records, depending on its settings:
//!
//! | setting | records |
//! |---|---|
//! | `log_statement` | `statement: ...` or `execute NAME: ...` when it begins |
//! | and `log_duration` | and `duration: ... ms` when each of parse, bind and execute ends |
//! | `log_min_duration_statement` | `duration: ... ms  parse`, `bind`, `execute` when each ends |
//! | `log_min_error_statement` | an error, with the statement that it came from |
//!
//! A statement begins when its record was written where that is written at the beginning, else at
//! that time less the duration. Its duration is that of its parse, bind and execution together, as
//! far as they followed each other at once. One that failed has none. Timestamps are truncated to
//! ms (`%t`: to s), so a time less a duration may be before the start of the previous statement;
//! that start is taken then.

use seatrial_sqltext::statements;
use seatrial_trace::captured::{Protocol, SessionId, Sink, Skip, Statement, UNKNOWN_ERROR};

use super::message::MessageKind;
use super::parameters::{self, Limit};
use super::record::{Record, Severity};
use super::record_counts::RecordCounts;
use super::session::{OpenSession, PendingStatement, SessionMatch, Sessions, Stage};

/// Codes of sessions that the server ends: `admin_shutdown`, `crash_shutdown`.
const ENDED_BY_SERVER: [[u8; 5]; 2] = [*b"57P01", *b"57P02"];

/// Parse, bind and execution are one if no more time than this is between them: timestamps are in
/// ms, and the client sends them together.
const GAP_US_MAX: i64 = 5_000;

/// Durations that a statement has before it is executed: of its parse and its bind. If more were
/// reported, some are of statements that were not logged, and which they are is unknown.
const PHASES: u64 = 2;

/// Limit for texts that are buffered until their durations arrive. Beyond it, a statement is
/// reported without waiting.
const BUFFERED_BYTES_MAX: usize = 64 << 20;

/// The period of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Start of the first statement.
    pub first_us: i64,
    /// End of the last one, according to the durations.
    pub last_us: i64,
}

/// A statement to be reported, its parameters still as the log writes them.
#[derive(Debug, Clone, Copy)]
struct Draft<'a> {
    start_us: i64,
    duration_us: Option<u64>,
    protocol: Protocol,
    prepared: &'a [u8],
    portal: &'a [u8],
    sql: &'a [u8],
    parameters: &'a [u8],
    transaction: u64,
    /// Statements reported before the record of its start was read.
    reported_at_start: Option<u64>,
    error: Option<[u8; 5]>,
    is_fast_path: bool,
    is_cut: bool,
}

impl<'a> Draft<'a> {
    fn of(pending: &'a PendingStatement) -> Draft<'a> {
        Draft {
            start_us: pending.start_us,
            duration_us: pending.duration_us,
            protocol: pending.protocol.unwrap_or(Protocol::Extended),
            prepared: &pending.prepared,
            portal: &pending.portal,
            sql: &pending.sql,
            parameters: &pending.parameters,
            transaction: pending.transaction,
            reported_at_start: pending.reported_at_start,
            error: None,
            is_fast_path: pending.is_fast_path,
            is_cut: pending.is_cut,
        }
    }
}

/// Takes in records in the order of the log, and reports sessions and statements to a sink.
#[derive(Debug)]
pub struct Assembler<'s, S> {
    sink: &'s mut S,
    sessions: Sessions,
    session_count: u32,
    /// Statements reported to the sink.
    reported: u64,
    parameters: Vec<Option<Vec<u8>>>,
    limit: Limit,
    buffered_bytes: usize,
    keeps_starts: bool,
    /// Where every record went.
    pub counted: RecordCounts,
    /// The period; None without statements that have a time.
    pub span: Option<Span>,
    /// Sessions that were taken to have ended because very many were open.
    pub forgotten: u64,
    /// Sessions that the server ended while it ran no statement of theirs.
    pub ended_idle: u64,
}

impl<'s, S: Sink> Assembler<'s, S> {
    /// Returns an assembler that reports to a sink.
    pub fn new(sink: &'s mut S) -> Assembler<'s, S> {
        Assembler {
            sink,
            sessions: Sessions::default(),
            session_count: 0,
            reported: 0,
            parameters: Vec::new(),
            limit: Limit::default(),
            buffered_bytes: 0,
            keeps_starts: false,
            counted: RecordCounts::default(),
            span: None,
            forgotten: 0,
            ended_idle: 0,
        }
    }

    /// For a log without sessions: statements overlap, so each keeps its start.
    pub fn keep_starts(&mut self) {
        self.keeps_starts = true;
    }

    /// Sessions reported to the sink.
    pub fn session_count(&self) -> u32 {
        self.session_count
    }

    /// Takes in a record, whose spans are of these bytes.
    ///
    /// # Errors
    ///
    /// When the sink gave up.
    #[inline]
    pub fn take_in(&mut self, record: &Record, bytes: &[u8]) -> Result<(), S::Error> {
        self.counted.records += 1;
        if record.origin.is_background {
            self.counted.others += 1;
            return Ok(());
        }
        match record.message.kind {
            MessageKind::Other if record.severity == Severity::Log => {
                self.counted.others += 1;
                Ok(())
            }
            MessageKind::Other => self.error(record, bytes),
            MessageKind::Received
            | MessageKind::Connection
            | MessageKind::Authorized
            | MessageKind::Disconnected => {
                self.counted.sessions += 1;
                self.connection(record, bytes)
            }
            MessageKind::Duration => self.duration(record, bytes),
            MessageKind::Parse | MessageKind::Bind => self.phase(record, bytes),
            MessageKind::Statement
            | MessageKind::Execute
            | MessageKind::Fetch
            | MessageKind::FastPath => self.statement(record, bytes),
        }
    }

    /// Reports everything that is still buffered.
    ///
    /// # Errors
    ///
    /// When the sink gave up.
    pub fn finish(&mut self) -> Result<(), S::Error> {
        for slot in self.sessions.all() {
            self.end(slot)?;
        }
        Ok(())
    }

    /// The session of a record; it is opened if it is new.
    #[inline]
    fn session(&mut self, record: &Record, bytes: &[u8]) -> Result<usize, S::Error> {
        let found = self.sessions.find(&record.origin, bytes);
        let slot = match found {
            SessionMatch::Open(slot) => slot,
            SessionMatch::Replaced(slot) => {
                self.end(slot)?;
                self.open(record, bytes)?
            }
            SessionMatch::Unknown => self.open(record, bytes)?,
        };
        let open = self.sessions.at(slot);
        let is_new = open.learn(&record.origin, bytes);
        if let (true, Some(id)) = (is_new, open.id) {
            self.sink.session_changed(id, &open.session)?;
        }
        Ok(slot)
    }

    #[cold]
    fn open(&mut self, record: &Record, bytes: &[u8]) -> Result<usize, S::Error> {
        for slot in self.sessions.too_many() {
            self.forgotten += 1;
            self.end(slot)?;
        }
        Ok(self.sessions.open(&record.origin, bytes))
    }

    /// Ends a session and reports its pending statement.
    fn end(&mut self, slot: usize) -> Result<(), S::Error> {
        self.flush(slot)?;
        let open = self.sessions.close(slot);
        self.counted.others += open.pending.reported_alone;
        Ok(())
    }

    #[cold]
    fn connection(&mut self, record: &Record, bytes: &[u8]) -> Result<(), S::Error> {
        let kind = record.message.kind;
        if !record.origin.has_session() {
            // Which session it is of is unknown.
            return Ok(());
        }
        if kind == MessageKind::Received {
            // The previous owner of the process number has ended.
            if let SessionMatch::Open(slot) | SessionMatch::Replaced(slot) =
                self.sessions.find(&record.origin, bytes)
            {
                self.end(slot)?;
            }
        }
        let slot = self.session(record, bytes)?;
        match kind {
            MessageKind::Received => {
                self.sessions.at(slot).session.connected_us = record.origin.time_us
            }
            MessageKind::Authorized => {
                self.introduce(slot)?;
            }
            MessageKind::Disconnected => {
                self.flush(slot)?;
                let open = self.sessions.at(slot);
                open.session.disconnected_us = record.origin.time_us;
                if let Some(id) = open.id {
                    self.sink.session_changed(id, &open.session)?;
                }
                self.end(slot)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the number of a session, which is reported to the sink the first time.
    #[inline]
    fn introduce(&mut self, slot: usize) -> Result<SessionId, S::Error> {
        let open = self.sessions.at(slot);
        if let Some(id) = open.id {
            return Ok(id);
        }
        let id = SessionId(self.session_count);
        open.id = Some(id);
        self.session_count += 1;
        self.sink.session(&open.session)?;
        Ok(id)
    }

    /// A statement began, or ended with its duration in the record.
    #[inline]
    fn statement(&mut self, record: &Record, bytes: &[u8]) -> Result<(), S::Error> {
        let slot = self.session(record, bytes)?;
        if self.sessions.at(slot).pending.stage == Stage::Running {
            self.flush(slot)?;
        }
        let mut draft = draft(record, bytes);
        let mut pending = std::mem::take(&mut self.sessions.at(slot).pending);
        self.join_earlier(&pending, &mut draft);
        pending.clear();
        let is_done = record.message.duration_us.is_some();
        draft.reported_at_start = (!is_done).then_some(self.reported);
        let bytes_count = draft.sql.len() + draft.parameters.len();
        let outcome = if is_done || self.buffered_bytes + bytes_count > BUFFERED_BYTES_MAX {
            self.report(slot, &draft)
        } else {
            self.buffered_bytes += bytes_count;
            hold(&mut pending, Stage::Running, &draft);
            pending.last_us = draft.start_us;
            Ok(())
        };
        self.sessions.at(slot).pending = pending;
        outcome
    }

    /// Joins the earlier records of a statement: its parse and bind, or their durations alone.
    #[inline]
    fn join_earlier(&mut self, pending: &PendingStatement, draft: &mut Draft<'_>) {
        let is_extended = draft.protocol != Protocol::Simple;
        let is_same = match pending.stage {
            Stage::None | Stage::Running => return,
            Stage::Timed => is_extended && pending.reported_alone <= PHASES,
            Stage::Parsed | Stage::Bound => {
                is_extended && pending.prepared == draft.prepared && pending.sql == draft.sql
            }
        };
        if is_same {
            self.counted.joined += pending.reported_alone;
        } else {
            self.counted.others += pending.reported_alone;
        }
        if is_same && draft.start_us - pending.last_us <= GAP_US_MAX {
            draft.start_us = draft.start_us.min(pending.start_us);
            if let Some(earlier_us) = pending.duration_us {
                draft.duration_us = Some(draft.duration_us.unwrap_or(0) + earlier_us);
            }
        }
    }

    /// A statement was parsed, or parameters were bound to it.
    #[inline]
    fn phase(&mut self, record: &Record, bytes: &[u8]) -> Result<(), S::Error> {
        self.counted.joined += 1;
        let slot = self.session(record, bytes)?;
        if self.sessions.at(slot).pending.stage == Stage::Running {
            self.flush(slot)?;
        }
        let mut draft = draft(record, bytes);
        let mut pending = std::mem::take(&mut self.sessions.at(slot).pending);
        let is_bind = record.message.kind == MessageKind::Bind;
        if is_bind && pending.stage == Stage::Parsed {
            self.join_earlier(&pending, &mut draft);
        } else {
            self.counted.others += pending.reported_alone;
        }
        pending.clear();
        hold(&mut pending, if is_bind { Stage::Bound } else { Stage::Parsed }, &draft);
        pending.last_us = record.origin.time_us.unwrap_or(0);
        self.sessions.at(slot).pending = pending;
        Ok(())
    }

    /// A duration alone: of the statement that is running, or of the next one.
    #[inline]
    fn duration(&mut self, record: &Record, bytes: &[u8]) -> Result<(), S::Error> {
        let slot = self.session(record, bytes)?;
        let time_us = record.origin.time_us.unwrap_or(0);
        let took_us = record.message.duration_us.unwrap_or(0);
        let pending = &mut self.sessions.at(slot).pending;
        let duration_us = pending.duration_us.unwrap_or(0).saturating_add(took_us);
        if pending.stage == Stage::Running {
            pending.duration_us = Some(duration_us);
            self.counted.joined += 1;
            return self.flush(slot);
        }
        let start_us = before(time_us, took_us);
        if pending.stage == Stage::Timed && start_us - pending.last_us <= GAP_US_MAX {
            pending.duration_us = Some(duration_us);
        } else {
            pending.stage = Stage::Timed;
            (pending.start_us, pending.duration_us) = (start_us, Some(took_us));
        }
        pending.reported_alone += 1;
        pending.last_us = time_us;
        Ok(())
    }

    /// An error: of the statement that is running or was bound, or of one that has no other
    /// record.
    #[cold]
    fn error(&mut self, record: &Record, bytes: &[u8]) -> Result<(), S::Error> {
        let sql = record.statement.of(bytes);
        if sql.is_empty() && record.severity == Severity::Fatal {
            self.ended_idle += u64::from(ENDED_BY_SERVER.contains(&record.origin.code));
            self.counted.others += 1;
            return Ok(());
        }
        if sql.is_empty() && self.sessions.find(&record.origin, bytes) == SessionMatch::Unknown {
            self.counted.others += 1;
            return Ok(());
        }
        let slot = self.session(record, bytes)?;
        let error = Some(match &record.origin.code {
            b"\0\0\0\0\0" | b"00000" => UNKNOWN_ERROR,
            code => *code,
        });
        let mut pending = std::mem::take(&mut self.sessions.at(slot).pending);
        let stage = pending.stage;
        let is_same = match stage {
            Stage::Running => sql.is_empty() || pending.sql == sql,
            Stage::Parsed | Stage::Bound => !sql.is_empty() && pending.sql == sql,
            Stage::None | Stage::Timed => false,
        };
        if !is_same {
            self.sessions.at(slot).pending = pending;
            return self.error_alone(slot, record, bytes, error);
        }
        let mut draft = Draft { error, duration_us: None, ..Draft::of(&pending) };
        if draft.parameters.is_empty() {
            draft.parameters = record.parameters.of(bytes);
        }
        let outcome = self.report(slot, &draft);
        if stage == Stage::Running {
            self.counted.joined += 1;
            self.buffered_bytes -= pending.sql.len() + pending.parameters.len();
        }
        pending.clear();
        self.sessions.at(slot).pending = pending;
        outcome
    }

    /// An error of a statement that has no other record.
    fn error_alone(
        &mut self,
        slot: usize,
        record: &Record,
        bytes: &[u8],
        error: Option<[u8; 5]>,
    ) -> Result<(), S::Error> {
        let sql = record.statement.of(bytes);
        if sql.is_empty() {
            self.counted.others += 1;
            return Ok(());
        }
        self.flush(slot)?;
        let is_extended = !record.parameters.is_empty() || statements::has_parameters(sql);
        let protocol = if is_extended { Protocol::Extended } else { Protocol::Simple };
        let text = draft(record, bytes);
        self.report(slot, &Draft { protocol, sql, error, ..text })
    }

    /// Reports a running statement without waiting for more records, and drops one that was only
    /// parsed.
    #[inline]
    fn flush(&mut self, slot: usize) -> Result<(), S::Error> {
        let mut pending = std::mem::take(&mut self.sessions.at(slot).pending);
        let mut outcome = Ok(());
        if pending.stage == Stage::Running {
            outcome = self.report(slot, &Draft::of(&pending));
            self.buffered_bytes -= pending.sql.len() + pending.parameters.len();
        } else {
            self.counted.others += pending.reported_alone;
        }
        pending.clear();
        self.sessions.at(slot).pending = pending;
        outcome
    }

    /// Reports a statement to the sink.
    #[inline]
    fn report(&mut self, slot: usize, draft: &Draft<'_>) -> Result<(), S::Error> {
        let session = self.introduce(slot)?;
        let is_whole = parameters::read(draft.parameters, &mut self.parameters, &mut self.limit);
        let open = self.sessions.at(slot);
        let skip = self::skip(open, draft, is_whole);
        if draft.protocol == Protocol::Extended {
            open.open_portal(draft.prepared, draft.portal);
        }
        let sql = if draft.is_fast_path { &[][..] } else { draft.sql };
        let transaction = open.block.step(sql, draft.transaction, draft.error.is_some());
        let not_before_us = if self.keeps_starts { i64::MIN } else { open.last_start_us };
        let start_us = draft.start_us.max(not_before_us);
        open.last_start_us = start_us;
        self.counted.statement(skip);
        self.note_time(start_us, draft.duration_us);
        let reported = self.reported;
        self.reported += 1;
        self.sink.statement(&Statement {
            session,
            start_us,
            duration_us: draft.duration_us,
            parameter_types: None,
            reported_meanwhile: draft
                .reported_at_start
                .map(|reported_at_start| reported - reported_at_start),
            protocol: draft.protocol,
            prepared: draft.prepared,
            sql: draft.sql,
            parameters: &self.parameters,
            transaction,
            rows: None,
            tag: None,
            returned: None,
            error: draft.error,
            skip,
        })
    }

    #[inline]
    fn note_time(&mut self, start_us: i64, duration_us: Option<u64>) {
        let end_us = start_us.saturating_add_unsigned(duration_us.unwrap_or(0));
        let span = self.span.get_or_insert(Span { first_us: start_us, last_us: end_us });
        span.first_us = span.first_us.min(start_us);
        span.last_us = span.last_us.max(end_us);
    }
}

/// Returns the statement of a record.
#[inline]
fn draft<'a>(record: &Record, bytes: &'a [u8]) -> Draft<'a> {
    let message = &record.message;
    let time_us = record.origin.time_us.unwrap_or(0);
    let protocol = match message.kind {
        MessageKind::Parse | MessageKind::Bind | MessageKind::Execute => Protocol::Extended,
        MessageKind::Fetch => Protocol::Fetch,
        _ => Protocol::Simple,
    };
    Draft {
        start_us: before(time_us, message.duration_us.unwrap_or(0)),
        duration_us: message.duration_us,
        protocol,
        prepared: message.name.of(bytes),
        portal: message.portal.of(bytes),
        sql: message.text.of(bytes),
        parameters: record.parameters.of(bytes),
        transaction: record.origin.transaction,
        reported_at_start: None,
        error: None,
        is_fast_path: message.kind == MessageKind::FastPath,
        is_cut: record.is_cut,
    }
}

/// A time less a duration.
#[inline]
fn before(time_us: i64, duration_us: u64) -> i64 {
    time_us.saturating_sub_unsigned(duration_us)
}

fn hold(pending: &mut PendingStatement, stage: Stage, draft: &Draft<'_>) {
    pending.stage = stage;
    pending.start_us = draft.start_us;
    pending.duration_us = draft.duration_us;
    pending.protocol = Some(draft.protocol);
    pending.prepared.extend_from_slice(draft.prepared);
    pending.portal.extend_from_slice(draft.portal);
    pending.sql.extend_from_slice(draft.sql);
    pending.parameters.extend_from_slice(draft.parameters);
    pending.transaction = draft.transaction;
    pending.reported_at_start = draft.reported_at_start;
    pending.is_fast_path = draft.is_fast_path;
    pending.is_cut = draft.is_cut;
}

/// Why a statement cannot be sent again.
#[inline]
fn skip(open: &OpenSession, draft: &Draft<'_>, is_whole: bool) -> Option<Skip> {
    if draft.is_fast_path {
        return Some(Skip::FastPath);
    }
    if draft.is_cut || !is_whole {
        return Some(Skip::CutOff);
    }
    if draft.protocol == Protocol::Fetch && !open.has_portal(draft.prepared, draft.portal) {
        return Some(Skip::UnknownPortal);
    }
    if draft.protocol != Protocol::Simple
        && draft.parameters.is_empty()
        && statements::has_parameters(draft.sql)
    {
        return Some(Skip::BinaryParameters);
    }
    let mut takes_data = false;
    statements::for_each_statement(draft.sql, |statement| {
        takes_data |= statements::is_copy_in(statement)
    });
    takes_data.then_some(Skip::CopyData)
}
