//! Fields of a line, and the numbers in them.

use std::str;

/// 10^9.
pub const SECOND_NS: u64 = 1_000_000_000;
/// Addresses of many formats count units of this many bytes.
pub const SECTOR_BYTES: u64 = 512;
/// Largest offset of a recording; the end of a request there does not overflow.
pub const OFFSET_BYTES_MAX: u64 = i64::MAX as u64 - u32::MAX as u64;

/// Splits a line at commas, without blanks around the fields; further ones are left out.
pub fn by_comma<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    collected(line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii))
}

/// Splits a line at blanks; further fields are left out.
pub fn by_blank<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    collected(line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()))
}

/// Returns the first fields and how many there are in all.
fn collected<'a, const N: usize>(fields: impl Iterator<Item = &'a [u8]>) -> ([&'a [u8]; N], usize) {
    let mut found = [&b""[..]; N];
    let mut count = 0;
    for field in fields {
        if let Some(slot) = found.get_mut(count) {
            *slot = field;
        }
        count += 1;
    }
    (found, count)
}

/// Returns a whole number, or what is wrong.
pub fn whole(field: &[u8], name: &str) -> Result<u64, String> {
    str::from_utf8(field)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{name} is {}, not a whole number below 2^64", shown(field)))
}

/// Returns a number of seconds such as `12.000345` in nanoseconds; digits beyond are cut off.
pub fn seconds_ns(field: &[u8], name: &str) -> Result<u64, String> {
    let wrong = || format!("{name} is {}, not a number of seconds", shown(field));
    let (whole_s, rest) = match field.iter().position(|&byte| byte == b'.') {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &b""[..]),
    };
    if !rest.iter().all(u8::is_ascii_digit) || whole_s.is_empty() && rest.is_empty() {
        return Err(wrong());
    }
    let whole_s = if whole_s.is_empty() { 0 } else { whole(whole_s, name).map_err(|_| wrong())? };
    let mut part_ns = 0;
    for digit_index in 0..9 {
        part_ns = part_ns * 10 + u64::from(rest.get(digit_index).map_or(0, |digit| digit - b'0'));
    }
    scaled(whole_s, SECOND_NS, name)?.checked_add(part_ns).ok_or_else(wrong)
}

/// Returns a number in another unit, or that it is too large.
pub fn scaled(value: u64, unit: u64, name: &str) -> Result<u64, String> {
    value.checked_mul(unit).ok_or_else(|| format!("{name} is {value}, which is too large"))
}

/// Returns an offset in bytes; an error beyond the largest offset of a recording.
pub fn checked_offset_bytes(value: u64, unit: u64, name: &str) -> Result<u64, String> {
    let bytes = scaled(value, unit, name)?;
    if bytes > OFFSET_BYTES_MAX {
        return Err(format!("{name} is {value}, beyond any device"));
    }
    Ok(bytes)
}

/// Returns a field as a message shows it.
pub fn shown(field: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let text = String::from_utf8_lossy(&field[..field.len().min(SHOWN_MAX)]);
    format!("{text:?}{}", if field.len() > SHOWN_MAX { "…" } else { "" })
}

/// Says that a line has another number of fields.
pub fn miscounted(count: usize, wanted: usize) -> String {
    format!("{count} fields, not {wanted}")
}
