//! Converts values in binary format to text (PostgreSQL's manual,
//! "Frontend/Backend Protocol", and the `..._send` functions of its `src/backend/utils/adt`).
//!
//! Types defined in a database, such as its enums, have numbers of its own, so they are not
//! converted: such values count as unknown.

mod numeric;
#[cfg(test)]
mod tests;
mod time;

use std::io::Write;

/// Numbers of types (`pg_type.oid`), the same in every server.
mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const JSON: u32 = 114;
    pub const XML: u32 = 142;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const TIMESPAN: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
}

/// Types of arrays, whose binary format names the type of their elements.
const ARRAYS: [u32; 22] = [
    1000, 1001, 1002, 1003, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1115, 1182, 1183,
    1185, 1187, 1231, 2951, 199, 3807,
];

/// Maximum dimensions of an array in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Appends the text of a value; None (with nothing useful appended) for an unknown type or an
/// invalid value.
pub fn text(type_oid: u32, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match type_oid {
        oid::TEXT
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::NAME
        | oid::JSON
        | oid::XML
        | oid::CHAR
        | oid::UNKNOWN => out.extend_from_slice(value),
        oid::BOOL => out.push(if *one(value)? == [0] { b'f' } else { b't' }),
        oid::INT2 => put(out, i16::from_be_bytes(*one(value)?)),
        oid::INT4 => put(out, i32::from_be_bytes(*one(value)?)),
        oid::INT8 => put(out, i64::from_be_bytes(*one(value)?)),
        oid::OID => put(out, u32::from_be_bytes(*one(value)?)),
        oid::FLOAT4 => float(out, f32::from_be_bytes(*one(value)?)),
        oid::FLOAT8 => float(out, f64::from_be_bytes(*one(value)?)),
        oid::NUMERIC => numeric::text(value, out)?,
        oid::UUID => uuid(one(value)?, out),
        oid::BYTEA => {
            out.extend_from_slice(b"\\x");
            hex(value, out);
        }
        oid::JSONB => out.extend_from_slice(value.strip_prefix(&[1])?),
        oid::DATE => time::date(i32::from_be_bytes(*one(value)?), out),
        oid::TIME => time::time(i64::from_be_bytes(*one(value)?), out),
        oid::TIMESTAMP => time::timestamp(i64::from_be_bytes(*one(value)?), b"", out),
        oid::TIMESTAMPTZ => time::timestamp(i64::from_be_bytes(*one(value)?), b"+00", out),
        oid::TIMESPAN => time::interval(one(value)?, out),
        array if ARRAYS.contains(&array) => return self::array(value, out),
        _ => return None,
    }
    Some(())
}

/// The value as an array of bytes, if it has the expected length.
fn one<const N: usize>(value: &[u8]) -> Option<&[u8; N]> {
    value.try_into().ok()
}

fn put(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}

/// The shortest digits that represent this number.
fn float<F: std::fmt::Display + Into<f64> + Copy>(out: &mut Vec<u8>, value: F) {
    let wide: f64 = value.into();
    match () {
        () if wide.is_nan() => out.extend_from_slice(b"NaN"),
        () if wide.is_infinite() && wide > 0.0 => out.extend_from_slice(b"Infinity"),
        () if wide.is_infinite() => out.extend_from_slice(b"-Infinity"),
        () => put(out, value),
    }
}

fn hex(value: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS[usize::from(nibble)];
    out.extend(value.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

fn uuid(value: &[u8; 16], out: &mut Vec<u8>) {
    let mut from = 0;
    for (index, bytes) in [4, 2, 2, 2, 6].into_iter().enumerate() {
        out.extend(std::iter::repeat_n(b'-', usize::from(index > 0)));
        hex(&value[from..from + bytes], out);
        from += bytes;
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn number(&mut self) -> Option<i32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_be_bytes(*bytes))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// `array_send`: dimensions, a flag, the type of the elements, lengths and lower bounds, elements.
fn array(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = Rest(value);
    let dimensions = usize::try_from(rest.number()?).ok()?;
    let _has_nulls = rest.number()?;
    let element_oid = rest.number()? as u32;
    if dimensions == 0 {
        out.extend_from_slice(b"{}");
        return Some(());
    }
    if dimensions > DIMENSIONS_MAX || ARRAYS.contains(&element_oid) {
        return None;
    }
    let mut counts = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        counts.push(usize::try_from(rest.number()?).ok().filter(|&count| count > 0)?);
        // An array with other lower bounds is written differently.
        (rest.number()? == 1).then_some(())?;
    }
    elements(&counts, element_oid, &mut rest, out)?;
    rest.0.is_empty().then_some(())
}

fn elements(
    counts: &[usize],
    element_oid: u32,
    rest: &mut Rest<'_>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (&count, inner) = counts.split_first()?;
    out.push(b'{');
    for index in 0..count {
        out.extend(std::iter::repeat_n(b',', usize::from(index > 0)));
        if inner.is_empty() {
            element(element_oid, rest, out)?
        } else {
            elements(inner, element_oid, rest, out)?;
        }
    }
    out.push(b'}');
    Some(())
}

/// A quoted and escaped element.
fn element(element_oid: u32, rest: &mut Rest<'_>, out: &mut Vec<u8>) -> Option<()> {
    let Ok(bytes) = usize::try_from(rest.number()?) else {
        out.extend_from_slice(b"NULL");
        return Some(());
    };
    let begin = out.len();
    text(element_oid, rest.bytes(bytes)?, out)?;
    let is_plain = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if out.len() > begin && out[begin..].iter().all(is_plain) {
        return Some(());
    }
    let element = out.split_off(begin);
    out.push(b'"');
    for byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    Some(())
}
