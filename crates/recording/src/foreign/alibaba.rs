//! Alibaba block traces: `device,R|W,offset,length,time`, in bytes and µs.
//!
//! Source: the README of github.com/alibaba/block-traces.

use super::fields::{by_comma, checked_offset_bytes, miscounted, scaled, shown, whole};
use super::row::Row;
use crate::request::Operation;

const UNIT_NS: u64 = 1000;
const FIELDS: usize = 5;

/// Returns the request of a line.
pub fn parse(line: &[u8]) -> Result<Row<'_>, String> {
    let ([device, operation, offset, length, at], count) = by_comma::<FIELDS>(line);
    if count != FIELDS {
        return Err(miscounted(count, FIELDS));
    }
    let operation = match operation {
        b"R" => Operation::Read,
        b"W" => Operation::Write,
        other => return Err(format!("the operation is {}, not R or W", shown(other))),
    };
    Ok(Row {
        device,
        ..Row::new(
            scaled(whole(at, "the time")?, UNIT_NS, "the time")?,
            operation,
            checked_offset_bytes(whole(offset, "the offset")?, 1, "the offset")?,
            whole(length, "the length")?,
        )
    })
}
