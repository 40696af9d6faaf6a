//! A log without sessions, such as a plain file of SQL, split into streams that run side by side.
//!
//! Where it has times and durations, [`timed`] opens as many streams as were active at once.
//! Otherwise [`StreamSplitter`] makes the requested number of streams, by transactions and
//! conflicts:
//!
//! Statements stay in order where it matters: within a transaction, and between transactions that
//! access the same table, at least one of them writing. All else may overlap, as far as there are
//! streams. Splitting is a [`Sink`], independent of any reader: [`StreamSplitter`] takes in one
//! session and passes on N of them.
//!
//! A file of SQL has no times, so each statement is given one: the N-th of a stream's statements
//! begins N times [`STATEMENT_US`] after the first, later where its transaction has to wait. In
//! these times no two conflicting transactions overlap, whichever their streams. Keeping the order
//! of commits across sessions therefore keeps every conflict's order.
//!
//! A log with times and without durations is split likewise, no statement before its own time. How
//! long one lasts is not known, so of those that conflict the later begins at least 1 µs after.
//!
//! Assumptions, because the text does not show it:
//!
//! - Transactions do not interleave: between BEGIN and COMMIT all statements are of one session.
//! - A table's name is its last part, in whatever schema: too many conflicts rather than too few.
//! - A statement reads tables that it names. Tables that it accesses through a view, a
//!   function, a trigger, a rule or a foreign key are not seen.
//! - A statement that is not understood (DDL, CALL, DO ...) conflicts with every other.
//! - What lasts beyond a transaction (SET, PREPARE, temporary tables, cursors WITH HOLD, LISTEN,
//!   advisory locks) is in the first stream, with all that names it; the other streams do not have
//!   it.
//!
//! | part | rule |
//! |---|---|
//! | [`schedule`] | which stream, and when |
//! | [`timed`] | which stream, where times and durations are known |

pub mod schedule;
#[cfg(test)]
mod tests;
pub mod timed;

use seatrial_sqltext::table_access::{SessionLocalNames, TableAccess};
use seatrial_trace::captured::{Protocol, Session, SessionId, Sink, Skip, Statement};
use seatrial_trace::origin::Streams;

use schedule::{Placement, Schedule};

/// The assumed duration of a statement, as the log has none.
pub const STATEMENT_US: u64 = 1_000;

/// Text of a transaction that is buffered until its end is read. One that is longer conflicts with
/// every other, so that it need not be known in full before it is placed.
const BUFFERED_BYTES_MAX: usize = 1 << 20;

/// A sink that splits one session into several: see the module.
#[derive(Debug)]
pub struct StreamSplitter<'s, S> {
    sink: &'s mut S,
    schedule: Schedule,
    names: SessionLocalNames,
    streams: usize,
    /// Transactions of each stream that were blocks.
    blocks: Vec<u64>,
    /// Statements that wait for the end of their transaction.
    buffered: Vec<BufferedStatement>,
    buffered_bytes: usize,
    table_access: TableAccess,
    /// Number of the transaction that is open, as the reader counts it; 0 for none.
    open: u64,
    /// Its session in the log: one that identifies users has several.
    session: SessionId,
    has_times: bool,
    /// Time of the first statement; None before it.
    first_us: Option<i64>,
    /// Placement and next tick of an open transaction that was already placed.
    running: Option<(Placement, u64)>,
    report: Streams,
}

/// A statement that is kept beyond the reader's call.
#[derive(Debug)]
struct BufferedStatement {
    start_us: i64,
    protocol: Protocol,
    prepared: Vec<u8>,
    sql: Vec<u8>,
    parameters: Vec<Option<Vec<u8>>>,
    rows: Option<u64>,
    error: Option<[u8; 5]>,
    skip: Option<Skip>,
}

impl<'s, S: Sink> StreamSplitter<'s, S> {
    /// Splits into at most this number of streams, at least one; a log with times or without.
    pub fn new(sink: &'s mut S, streams: usize, has_times: bool) -> StreamSplitter<'s, S> {
        let streams = streams.max(1);
        StreamSplitter {
            sink,
            schedule: Schedule::new(streams, has_times),
            names: SessionLocalNames::default(),
            streams,
            blocks: vec![0; streams],
            buffered: Vec::new(),
            buffered_bytes: 0,
            table_access: TableAccess::default(),
            open: 0,
            session: SessionId(0),
            has_times,
            first_us: None,
            running: None,
            report: Streams::default(),
        }
    }

    /// Passes on the buffered statements, and returns the result of the split.
    ///
    /// # Errors
    ///
    /// When the sink cannot keep a statement.
    pub fn finish(mut self) -> Result<Streams, S::Error> {
        self.end_transaction()?;
        self.report.steps = (!self.has_times).then(|| self.schedule.steps());
        self.report.streams = self.schedule.streams_used();
        Ok(self.report)
    }

    fn buffer(&mut self, statement: &Statement<'_>) {
        self.table_access.add(self.names.of(statement.sql));
        self.buffered_bytes += statement.sql.len();
        self.first_us.get_or_insert(statement.start_us);
        self.buffered.push(BufferedStatement {
            start_us: statement.start_us,
            protocol: statement.protocol,
            prepared: statement.prepared.to_vec(),
            sql: statement.sql.to_vec(),
            parameters: statement.parameters.to_vec(),
            rows: statement.rows,
            error: statement.error,
            skip: statement.skip,
        });
    }

    /// Passes on the buffered statements at their transaction's placement; returns placement and
    /// end.
    fn flush(&mut self) -> Result<(Placement, u64), S::Error> {
        let (placement, mut now) = match self.running {
            Some(running) => running,
            None => self.begin(),
        };
        let transaction = if self.open == 0 { 0 } else { self.blocks[placement.stream] };
        for buffered in std::mem::take(&mut self.buffered) {
            now = now.max(self.earliest(buffered.start_us));
            self.sink.statement(&Statement {
                session: SessionId(placement.stream as u32),
                start_us: self.time_us(now),
                duration_us: None,
                parameter_types: None,
                reported_meanwhile: None,
                protocol: buffered.protocol,
                prepared: &buffered.prepared,
                sql: &buffered.sql,
                parameters: &buffered.parameters,
                transaction,
                rows: buffered.rows,
                tag: None,
                returned: None,
                error: buffered.error,
                skip: buffered.skip,
            })?;
            now += 1;
        }
        self.buffered_bytes = 0;
        Ok((placement, now))
    }

    /// Places a transaction whose statements are about to be passed on.
    fn begin(&mut self) -> (Placement, u64) {
        let earliest = self.buffered.first().map_or(0, |first| self.earliest(first.start_us));
        let placement = self.schedule.placement_for(&self.table_access, earliest);
        self.report.transactions += 1;
        self.report.pinned += u64::from(self.table_access.is_pinned);
        self.report.alone += u64::from(self.table_access.everything);
        self.blocks[placement.stream] += u64::from(self.open != 0);
        (placement, placement.start)
    }

    /// The first tick at which a statement may begin; the tick of its time, if the log has times.
    fn earliest(&self, start_us: i64) -> u64 {
        let since_first_us = start_us.saturating_sub(self.first_us.unwrap_or(0));
        if self.has_times { since_first_us.max(0) as u64 } else { 0 }
    }

    /// The time of a tick.
    fn time_us(&self, tick: u64) -> i64 {
        if self.has_times {
            self.first_us.unwrap_or(0).saturating_add_unsigned(tick)
        } else {
            (tick * STATEMENT_US) as i64
        }
    }

    fn end_transaction(&mut self) -> Result<(), S::Error> {
        if self.buffered.is_empty() && self.running.is_none() {
            return Ok(());
        }
        let (placement, end) = self.flush()?;
        self.schedule.take_in(placement, std::mem::take(&mut self.table_access), end);
        self.running = None;
        Ok(())
    }
}

impl<S: Sink> Sink for StreamSplitter<'_, S> {
    type Error = S::Error;

    /// Opens the streams instead of the first session; such a log has no other.
    fn session(&mut self, session: &Session) -> Result<(), S::Error> {
        for stream in 0..std::mem::take(&mut self.streams) {
            let name = format!("stream {}", stream + 1).into_bytes();
            self.sink.session(&Session { name, ..session.clone() })?;
        }
        Ok(())
    }

    /// A log without sessions shows neither their ends nor their `application_name`.
    fn session_changed(&mut self, _id: SessionId, _session: &Session) -> Result<(), S::Error> {
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), S::Error> {
        let is_same = (statement.transaction, statement.session) == (self.open, self.session);
        if statement.transaction == 0 || !is_same {
            self.end_transaction()?;
            (self.open, self.session) = (statement.transaction, statement.session);
        }
        self.buffer(statement);
        if self.buffered_bytes > BUFFERED_BYTES_MAX && self.open != 0 {
            (self.table_access.everything, self.table_access.is_pinned) = (true, true);
            self.running = Some(self.flush()?);
        }
        Ok(())
    }
}
