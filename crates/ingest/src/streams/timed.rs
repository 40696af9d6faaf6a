//! A log with times and durations, but without sessions: as many streams as were active at once.
//!
//! Statements keep their times. A transaction goes to the stream that has been free the shortest
//! time when it begins, else to a new one: the streams so opened are the concurrency. Logs are in
//! the order of ends, and in that order the rule opens no more streams than statements overlap: to
//! taking the stream that became free last leaves the others to longer statements that began
//! earlier.
//!
//! A transaction block is in one stream from BEGIN to COMMIT. A statement that begins while a
//! block's last statement is still active, or is a BEGIN itself, is of another session, so its
//! stream is another. Any other is taken to be of the block; of several, of the one that has been
//! idle the shortest time.
//!
//! Timestamps are truncated, so a start may be early by less than their resolution. By so little it
//! may be before its stream is free; it is then taken to begin when it is.

use seatrial_sqltext::block::Block;
use seatrial_sqltext::statements::{Control, control, for_each_statement};
use seatrial_sqltext::table_access::SessionLocalNames;
use seatrial_trace::captured::{Session, SessionId, Sink, Skip, Statement};
use seatrial_trace::origin::Streams;

/// A stream and its state.
#[derive(Debug)]
struct Stream {
    user: Vec<u8>,
    database: Vec<u8>,
    /// When its last statement ended.
    free_us: i64,
    /// When its last statement began.
    last_start_us: i64,
    block: Block,
}

impl Stream {
    fn is_of(&self, session: &Session) -> bool {
        self.user == session.user && self.database == session.database
    }
}

/// A sink that assigns statements of unknown sessions to streams, by their times.
#[derive(Debug)]
pub struct TimedStreams<'s, S> {
    sink: &'s mut S,
    streams_max: usize,
    resolution_us: i64,
    names: SessionLocalNames,
    /// User and database of the statements that follow.
    session: Session,
    streams: Vec<Stream>,
    report: Streams,
}

impl<'s, S: Sink> TimedStreams<'s, S> {
    /// Opens at most this number of streams, at least one; times are known to this resolution.
    pub fn new(sink: &'s mut S, streams_max: usize, resolution_us: i64) -> TimedStreams<'s, S> {
        TimedStreams {
            sink,
            streams_max: streams_max.max(1),
            resolution_us,
            names: SessionLocalNames::default(),
            session: Session::default(),
            streams: Vec::new(),
            report: Streams::default(),
        }
    }

    /// Returns the result of the split.
    pub fn finish(self) -> Streams {
        Streams { is_measured: true, streams: self.streams.len(), ..self.report }
    }

    /// The stream of a statement; it is opened if it is new.
    fn assign(&mut self, statement: &Statement<'_>) -> Result<usize, S::Error> {
        let is_pinned = self.names.of(statement.sql).is_pinned;
        let begins = begins_block(statement.sql);
        let in_block = if begins { None } else { self.free(statement.start_us, true) };
        if let Some(stream) = in_block {
            return Ok(stream);
        }
        self.report.pinned += u64::from(is_pinned);
        let first = || self.streams.iter().position(|stream| stream.is_of(&self.session));
        if let Some(stream) = is_pinned.then(first).flatten() {
            return Ok(stream);
        }
        if let Some(stream) = self.free(statement.start_us, false) {
            return Ok(stream);
        }
        if self.streams.len() < self.streams_max {
            return self.open(statement.start_us);
        }
        Ok(self.first_free())
    }

    /// The stream of this user that has been free the shortest time, with a block open or without.
    fn free(&self, start_us: i64, in_block: bool) -> Option<usize> {
        let fits = |stream: &Stream| {
            stream.block.is_open() == in_block
                && stream.is_of(&self.session)
                && stream.free_us - start_us < self.resolution_us.max(1)
        };
        let fitting = self.streams.iter().enumerate().filter(|(_, stream)| fits(stream));
        fitting.max_by_key(|(_, stream)| stream.free_us).map(|(stream_index, _)| stream_index)
    }

    /// The stream that ends first, if all are active; preferably of this user and outside of a
    /// block.
    fn first_free(&self) -> usize {
        let streams = self.streams.iter().enumerate();
        let first = streams.min_by_key(|(_, stream)| {
            (!stream.is_of(&self.session), stream.block.is_open(), stream.free_us)
        });
        first.map_or(0, |(stream_index, _)| stream_index)
    }

    fn open(&mut self, start_us: i64) -> Result<usize, S::Error> {
        let stream_index = self.streams.len();
        let name = format!("stream {}", stream_index + 1).into_bytes();
        self.sink.session(&Session { name, ..self.session.clone() })?;
        let Session { user, database, .. } = self.session.clone();
        let block = Block::default();
        let (free_us, last_start_us) = (start_us, start_us);
        self.streams.push(Stream { user, database, free_us, last_start_us, block });
        Ok(stream_index)
    }
}

impl<S: Sink> Sink for TimedStreams<'_, S> {
    type Error = S::Error;

    /// A log without sessions may still identify users: they are never in one stream.
    fn session(&mut self, session: &Session) -> Result<(), S::Error> {
        self.session = Session { connected_us: None, disconnected_us: None, ..session.clone() };
        Ok(())
    }

    fn session_changed(&mut self, _id: SessionId, session: &Session) -> Result<(), S::Error> {
        self.session(session)
    }

    fn statement(&mut self, statement: &Statement<'_>) -> Result<(), S::Error> {
        let stream_index = self.assign(statement)?;
        let stream = &mut self.streams[stream_index];
        let early_us = stream.free_us - statement.start_us;
        let is_crowded = early_us >= self.resolution_us.max(1);
        // A statement that has to wait keeps its time, within the order of its stream.
        let not_before_us = if is_crowded { stream.last_start_us } else { stream.free_us };
        let start_us = statement.start_us.max(not_before_us);
        let sql = if statement.skip == Some(Skip::FastPath) { &[][..] } else { statement.sql };
        let was_open = stream.block.is_open();
        let transaction = stream.block.step(sql, 0, statement.error.is_some());
        // It was moved for the order alone: its end is unchanged.
        let began_us = if is_crowded { statement.start_us } else { start_us };
        let end_us = began_us.saturating_add_unsigned(statement.duration_us.unwrap_or(0));
        stream.free_us = stream.free_us.max(end_us);
        stream.last_start_us = start_us;
        self.report.transactions += u64::from(transaction == 0 || !was_open);
        self.report.crowded += u64::from(is_crowded);
        let session = SessionId(stream_index as u32);
        let reported_meanwhile = None;
        let moved = Statement { session, start_us, transaction, reported_meanwhile, ..*statement };
        self.sink.statement(&moved)
    }
}

/// Whether the first of a text's statements is BEGIN.
fn begins_block(sql: &[u8]) -> bool {
    let mut first = None;
    for_each_statement(sql, |statement| {
        first.get_or_insert_with(|| matches!(control(statement), Control::Begin));
    });
    first.unwrap_or(false)
}
