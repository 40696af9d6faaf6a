//! SPC, as of UMass: `unit,sector,bytes,r|w,seconds`, and further fields of no meaning here.
//!
//! Source: SPC-1 trace file format specification, revision 1.0.1.

use super::fields::{SECTOR_BYTES, by_comma, checked_offset_bytes, seconds_ns, shown, whole};
use super::row::Row;
use crate::request::Operation;

const FIELDS: usize = 5;

/// Returns the request of a line.
pub fn parse(line: &[u8]) -> Result<Row<'_>, String> {
    let ([device, sector, size, operation, at], count) = by_comma::<FIELDS>(line);
    if count < FIELDS {
        return Err(format!("{count} fields, less than {FIELDS}"));
    }
    let operation = match operation {
        b"r" | b"R" => Operation::Read,
        b"w" | b"W" => Operation::Write,
        other => return Err(format!("the operation is {}, not r or w", shown(other))),
    };
    Ok(Row {
        device,
        ..Row::new(
            seconds_ns(at, "the time")?,
            operation,
            checked_offset_bytes(whole(sector, "the sector")?, SECTOR_BYTES, "the sector")?,
            whole(size, "the size")?,
        )
    })
}
