//! fio's I/O logs: version 2, `file action [offset length]`, without times other than waits, and
//! version 3, which has the time in µs before them.
//!
//! Source: fio's manual, "Trace file format"; the unit is that of `log_io_u` in fio 3.x.

use super::fields::{by_blank, checked_offset_bytes, miscounted, scaled, shown, whole};
use super::row::Row;
use crate::request::Operation;

/// Heading of version 2.
pub const HEADING_2: &[u8] = b"fio version 2 iolog";
/// Heading of version 3.
pub const HEADING_3: &[u8] = b"fio version 3 iolog";
const UNIT_NS: u64 = 1000;

/// A parsed line.
pub enum LogLine<'a> {
    /// A request.
    Request(Row<'a>),
    /// An action without a request, such as `open`.
    Action,
    /// The requests that follow come later by this much.
    Wait(u64),
}

/// Returns what a line of version 3 says.
pub fn parse_3(line: &[u8]) -> Result<LogLine<'_>, String> {
    let ([at, file, action, offset, length], count) = by_blank::<5>(line);
    let at_ns = scaled(whole(at, "the time")?, UNIT_NS, "the time")?;
    parse(at_ns, file, action, (offset, length), count, 1)
}

/// Returns what a line of version 2 says, which comes at a time.
pub fn parse_2(line: &[u8], at_ns: u64) -> Result<LogLine<'_>, String> {
    let ([file, action, offset, length], count) = by_blank::<4>(line);
    parse(at_ns, file, action, (offset, length), count, 0)
}

fn parse<'a>(
    at_ns: u64,
    file: &'a [u8],
    action: &[u8],
    (offset, length): (&[u8], &[u8]),
    count: usize,
    times: usize,
) -> Result<LogLine<'a>, String> {
    let operation = match action {
        b"add" | b"open" | b"close" => return without_request(count, times),
        b"read" => Operation::Read,
        b"write" => Operation::Write,
        b"sync" | b"datasync" => Operation::Flush,
        b"trim" => Operation::Discard,
        b"wait" => Operation::Other,
        other => return Err(format!("the action is {}", shown(other))),
    };
    if count != 4 + times {
        return Err(miscounted(count, 4 + times));
    }
    let offset = whole(offset, "the offset")?;
    if operation == Operation::Other {
        return Ok(LogLine::Wait(scaled(offset, UNIT_NS, "the wait")?));
    }
    let length = whole(length, "the length")?;
    let is_flush = operation == Operation::Flush;
    Ok(LogLine::Request(Row {
        device: file,
        ..Row::new(
            at_ns,
            operation,
            if is_flush { 0 } else { checked_offset_bytes(offset, 1, "the offset")? },
            if is_flush { 0 } else { length },
        )
    }))
}

fn without_request<'a>(count: usize, times: usize) -> Result<LogLine<'a>, String> {
    if count != 2 + times {
        return Err(miscounted(count, 2 + times));
    }
    Ok(LogLine::Action)
}
