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

use super::keeper::{Batch, Entry, Kept, NULL, Shared};
use super::origin::CaptureOrigin;
use super::returned::PackedRows;

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
                let held_bytes = batch.held_bytes;
                widen(span, &batch);
                let taken = take(writer, &batch, &mut parameters);
                shared.held_bytes.fetch_sub(held_bytes, Ordering::Relaxed);
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
        if let Entry::Statement(kept) = entry {
            let figures = &kept.figures;
            let end_us = figures.start_us.saturating_add_unsigned(figures.duration_us.unwrap_or(0));
            let (first_us, last_us) = span.get_or_insert((figures.start_us, end_us));
            *first_us = figures.start_us.min(*first_us);
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
            Entry::Statement(kept) => {
                let (prepared, rest) = bytes.split_at(kept.prepared_bytes);
                let (sql, rest) = rest.split_at(kept.sql_bytes);
                bytes = unpack(rest, kept.parameters, parameters);
                let returned = kept.figures.returned.as_ref();
                let returned = returned.map(|packed| unpack_rows(packed, &mut bytes));
                let returned = returned.as_ref();
                let figures = statement(kept, prepared, sql, parameters);
                sink.statement(&Statement { returned, ..figures })?;
            }
        }
    }
    Ok(())
}

fn statement<'a>(
    kept: &'a Kept,
    prepared: &'a [u8],
    sql: &'a [u8],
    parameters: &'a [Option<Vec<u8>>],
) -> Statement<'a> {
    let figures = &kept.figures;
    Statement {
        session: figures.session,
        start_us: figures.start_us,
        duration_us: figures.duration_us,
        reported_meanwhile: None,
        protocol: figures.protocol,
        prepared,
        sql,
        parameters,
        transaction: figures.transaction,
        rows: figures.rows,
        tag: figures.tag.as_ref().map(Tag::words),
        returned: None,
        error: figures.error,
        skip: figures.skip,
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
