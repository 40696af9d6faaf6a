//! ARC `.lis`: `first block,blocks,_,number of the request`, by blanks; blocks of 512 bytes.
//!
//! It has neither times nor operations: a request arrives 1 µs after the one before, as a read.
//!
//! Source: Megiddo, Modha: ARC (FAST 2003), and the note that comes with the traces.

use super::fields::{SECTOR_BYTES, by_blank, checked_offset_bytes, miscounted, scaled, whole};
use super::row::Row;
use crate::request::Operation;

/// Requests without times are so far apart.
pub const APART_NS: u64 = 1000;
const FIELDS: usize = 4;

/// Returns the request of a line, given its number.
pub fn parse(line: &[u8], before: u64) -> Result<Row<'_>, String> {
    let ([first, blocks, ignored, request], count) = by_blank::<FIELDS>(line);
    if count != FIELDS {
        return Err(miscounted(count, FIELDS));
    }
    whole(ignored, "the third field")?;
    whole(request, "the number of the request")?;
    Ok(Row::new(
        before.saturating_mul(APART_NS),
        Operation::Read,
        checked_offset_bytes(whole(first, "the first block")?, SECTOR_BYTES, "the first block")?,
        scaled(whole(blocks, "the number of blocks")?, SECTOR_BYTES, "the number of blocks")?,
    ))
}
