//! vscsiStats and CloudPhysics as text: `version,time,op,size,lbn` with that heading, where the
//! time is in seconds, or `µs,lbn,size,op` without one. The operation is a SCSI command in hex.

use super::fields::{
    SECTOR_BYTES, by_comma, checked_offset_bytes, miscounted, scaled, seconds_ns, shown, whole,
};
use super::row::Row;
use super::vscsi::operation_of;

/// Heading of the form with seconds.
pub const HEADING: &[u8] = b"version,time,op,size,lbn";
const UNIT_NS: u64 = 1000;

/// Returns the request of a line; None of a command that transfers nothing.
pub fn parse(line: &[u8], has_heading: bool) -> Result<Option<Row<'_>>, String> {
    let (fields, count) = by_comma::<5>(line);
    let (at_ns, sector, size, command) = if has_heading {
        if count != 5 {
            return Err(miscounted(count, 5));
        }
        (seconds_ns(fields[1], "the time")?, fields[4], fields[3], fields[2])
    } else {
        if count != 4 {
            return Err(miscounted(count, 4));
        }
        let at_ns = scaled(whole(fields[0], "the time")?, UNIT_NS, "the time")?;
        (at_ns, fields[1], fields[2], fields[3])
    };
    let offset_bytes =
        checked_offset_bytes(whole(sector, "the block")?, SECTOR_BYTES, "the block")?;
    let length_bytes = whole(size, "the size")?;
    let Some(operation) = operation_of(command_of(command)?) else { return Ok(None) };
    Ok(Some(Row::new(at_ns, operation, offset_bytes, length_bytes)))
}

fn command_of(field: &[u8]) -> Result<u8, String> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|text| u8::from_str_radix(text, 16).ok())
        .ok_or_else(|| format!("the command is {}, not a byte in hex", shown(field)))
}
