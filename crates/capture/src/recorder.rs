//! Receives batches and writes the trace, in its own thread.
//!
//! It regularly makes sure that its data is in the file and can be found there, whatever happens to
//! the process (see [`TraceWriter::checkpoint`]).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use seatrial_pgwire::answer::Tag;
use seatrial_trace::captured::{Returned, Session, Sink, Statement};
use seatrial_trace::{Counts, TraceError, TraceWriter};

use super::origin::CaptureOrigin;
use super::returned::PackedRows;
use super::trace_queue::{Batch, Entry, NULL, PackedStatement, Shared};

/// Start of the first statement and end of the last, in microseconds since 1970.
pub type Span = Option<(i64, i64)>;

/// Receives batches until there are no more; returns the writer, or why it failed. What was secured
/// then remains.
///
/// # Errors
///
/// When the trace cannot be written.
pub fn record(
    mut writer: TraceWriter,
    batches: &Receiver<Batch>,
    shared: &Arc<Shared>,
    every: Duration,
    origin: impl Fn(&Counts, Span) -> CaptureOrigin,
) -> Result<(TraceWriter, Span), TraceError> {
    let mut span = None;
    let work = || take_all(&mut writer, batches, shared, every, &mut span, &origin);
    let written = catch_unwind(AssertUnwindSafe(work));
    if !matches!(written, Ok(Ok(()))) {
        // Nothing more is packed then; queued batches are dropped with the receiver.
        shared.has_failed.store(true, Ordering::Relaxed);
    }
    match written {
        Ok(written) => written.map(|()| (writer, span)),
        Err(panic) => resume_unwind(panic),
    }
}

fn take_all(
    writer: &mut TraceWriter,
    batches: &Receiver<Batch>,
    shared: &Shared,
    every: Duration,
    span: &mut Span,
    origin: &impl Fn(&Counts, Span) -> CaptureOrigin,
) -> Result<(), TraceError> {
    let mut parameters = Vec::new();
    let mut due = Instant::now() + every;
    loop {
        match batches.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(batch) => {
                let queued_bytes = batch.queued_bytes;
                widen(span, &batch);
                let taken = take(writer, &batch, &mut parameters);
                shared.queued_bytes.fetch_sub(queued_bytes, Ordering::Relaxed);
                shared.give_back(batch);
                taken?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if Instant::now() >= due {
            writer.checkpoint(&origin(writer.counts(), *span))?;
            due = Instant::now() + every;
        }
    }
}

fn widen(span: &mut Span, batch: &Batch) {
    for entry in &batch.entries {
        if let Entry::Statement(packed_statement) = entry {
            let fields = &packed_statement.fields;
            let end_us = fields.start_us.saturating_add_unsigned(fields.duration_us.unwrap_or(0));
            let (first_us, last_us) = span.get_or_insert((fields.start_us, end_us));
            *first_us = fields.start_us.min(*first_us);
            *last_us = end_us.max(*last_us);
        }
    }
}

/// Writes a batch.
fn take<S: Sink>(
    sink: &mut S,
    batch: &Batch,
    parameters: &mut Vec<Option<Vec<u8>>>,
) -> Result<(), S::Error> {
    let mut bytes = &batch.bytes[..];
    for entry in &batch.entries {
        match entry {
            Entry::Session(session) => sink.session(session.as_ref() as &Session)?,
            Entry::Changed(id, session) => sink.session_changed(*id, session)?,
            Entry::Statement(packed_statement) => {
                let (prepared, rest) = bytes.split_at(packed_statement.prepared_bytes);
                let (sql, rest) = rest.split_at(packed_statement.sql_bytes);
                let types_bytes = packed_statement.types_bytes;
                let (types, rest) = rest.split_at(types_bytes.unwrap_or(0));
                bytes = unpack(rest, packed_statement.parameters, parameters);
                let returned = packed_statement.fields.returned.as_ref();
                let returned = returned.map(|packed| unpack_rows(packed, &mut bytes));
                let returned = returned.as_ref();
                let fields = statement(packed_statement, prepared, sql, parameters);
                let parameter_types = types_bytes.map(|_| types);
                sink.statement(&Statement { returned, parameter_types, ..fields })?;
            }
        }
    }
    Ok(())
}

fn statement<'a>(
    packed_statement: &'a PackedStatement,
    prepared: &'a [u8],
    sql: &'a [u8],
    parameters: &'a [Option<Vec<u8>>],
) -> Statement<'a> {
    let fields = &packed_statement.fields;
    Statement {
        session: fields.session,
        start_us: fields.start_us,
        duration_us: fields.duration_us,
        reported_meanwhile: None,
        protocol: fields.protocol,
        prepared,
        sql,
        parameters,
        parameter_types: None,
        transaction: fields.transaction,
        rows: fields.rows,
        tag: fields.tag.as_ref().map(Tag::words),
        returned: None,
        error: fields.error,
        skip: fields.skip,
    }
}

/// Unpacks parameters into a buffer; returns what follows them.
pub(super) fn unpack<'a>(
    mut bytes: &'a [u8],
    count: usize,
    parameters: &mut Vec<Option<Vec<u8>>>,
) -> &'a [u8] {
    parameters.clear();
    parameters.extend((0..count).map(|_| unpack_value(&mut bytes)));
    bytes
}

/// Unpacks returned rows.
pub(super) fn unpack_rows(packed: &PackedRows, bytes: &mut &[u8]) -> Returned {
    let columns = (0..packed.columns).map(|_| unpack_value(bytes).unwrap_or_default()).collect();
    let mut row = |_| (0..packed.columns).map(|_| unpack_value(bytes)).collect();
    Returned { columns, rows: (0..packed.rows).map(&mut row).collect() }
}

fn unpack_value(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u32::from_be_bytes(*length);
    let length = if length == NULL { None } else { Some(length as usize) };
    let (value, rest) = rest.split_at(length.unwrap_or(0));
    *bytes = rest;
    length.map(|_| value.to_vec())
}
