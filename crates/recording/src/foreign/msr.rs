//! MSR Cambridge: `filetime,host,disk,Read|Write,offset,size,response`, times in 100 ns.
//!
//! Source: Narayanan, Donnelly, Rowstron: Write off-loading (FAST 2008), and the README of the
//! traces at SNIA.

use super::fields::{by_comma, checked_offset_bytes, miscounted, scaled, shown, whole};
use super::row::Row;
use crate::request::Operation;

const UNIT_NS: u64 = 100;
/// Seconds from 1601, where Windows begins to count, to 1970.
pub const EPOCH_S: u64 = 11_644_473_600;
const FIELDS: usize = 7;

/// Returns the request of a line.
pub fn parse<'a>(line: &'a [u8], name: &'a mut Vec<u8>) -> Result<Row<'a>, String> {
    let ([at, host, disk, operation, offset, size, response], count) = by_comma::<FIELDS>(line);
    if count != FIELDS {
        return Err(miscounted(count, FIELDS));
    }
    name.clear();
    name.extend_from_slice(host);
    name.push(b'.');
    name.extend_from_slice(disk);
    let operation = match operation {
        b"Read" | b"read" => Operation::Read,
        b"Write" | b"write" => Operation::Write,
        other => return Err(format!("the operation is {}, not Read or Write", shown(other))),
    };
    let response = scaled(whole(response, "the response time")?, UNIT_NS, "the response time")?;
    Ok(Row {
        device: name,
        device_ns: Some(response),
        ..Row::new(
            scaled(whole(at, "the time")?, UNIT_NS, "the time")?,
            operation,
            checked_offset_bytes(whole(offset, "the offset")?, 1, "the offset")?,
            whole(size, "the size")?,
        )
    })
}
