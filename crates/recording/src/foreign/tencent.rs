//! Tencent CBS: `time,sector,sectors,0|1,volume`, the time in whole seconds.
//!
//! Source: Zhang et al.: OSCA (USENIX ATC 2020), and the README of the traces at SNIA.

use super::fields::{
    SECOND_NS, SECTOR_BYTES, by_comma, checked_offset_bytes, miscounted, scaled, shown, whole,
};
use super::row::Row;
use crate::request::Operation;

const FIELDS: usize = 5;

/// Returns the request of a line.
pub fn parse(line: &[u8]) -> Result<Row<'_>, String> {
    let ([at, sector, sectors, operation, device], count) = by_comma::<FIELDS>(line);
    if count != FIELDS {
        return Err(miscounted(count, FIELDS));
    }
    let operation = match operation {
        b"0" => Operation::Read,
        b"1" => Operation::Write,
        other => return Err(format!("the operation is {}, not 0 or 1", shown(other))),
    };
    Ok(Row {
        device,
        ..Row::new(
            scaled(whole(at, "the time")?, SECOND_NS, "the time")?,
            operation,
            checked_offset_bytes(whole(sector, "the sector")?, SECTOR_BYTES, "the sector")?,
            scaled(whole(sectors, "the size")?, SECTOR_BYTES, "the size")?,
        )
    })
}
