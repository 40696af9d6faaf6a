//! Messages of PostgreSQL's protocol: the header, the fields of an error, and those that a client
//! sends (PostgreSQL's manual, "Frontend/Backend Protocol", "Message Formats").
//!
//! Messages are appended to a buffer and read in place. The crate postgres-protocol uses other
//! buffers and copies what it reads; it is used at startup only.

use memchr::memchr;

use super::answer::ServerError;

/// The kind of a message and its length.
const HEADER_BYTES: usize = 5;

/// Describes and executes the unnamed portal, and sends `Sync`.
const EXECUTE_AND_SYNC: &[u8] = b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";

/// Instead of a version: cancel request.
pub const CANCEL_REQUEST: i32 = 80_877_102;

/// Instead of a version: request for TLS.
pub const SSL_REQUEST: i32 = 80_877_103;

/// Instead of a version: request for GSSAPI encryption.
pub const GSS_REQUEST: i32 = 80_877_104;

/// Version 3.0, which every server since 7.4 and every pooler supports; a playback needs nothing of
/// later ones. The upper 16 bits are the major version.
pub const PROTOCOL: i32 = 3 << 16;

/// Maximum size of a client's message before authentication: PostgreSQL's
/// `MAX_STARTUP_PACKET_LENGTH`.
pub const STARTUP_BYTES_MAX: usize = 10_000;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Its kind.
    pub kind: u8,
    /// Length after the header; None if it is invalid.
    pub body_bytes: Option<usize>,
}

impl MessageHeader {
    /// Its own length.
    pub const BYTES: usize = HEADER_BYTES;

    /// The header at the front; None if it is incomplete.
    #[inline]
    pub fn of(input: &[u8]) -> Option<MessageHeader> {
        let head: &[u8; HEADER_BYTES] = input.first_chunk()?;
        let length_bytes = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let body_bytes = length_bytes.checked_sub(4).and_then(|body| usize::try_from(body).ok());
        Some(MessageHeader { kind: head[0], body_bytes })
    }
}

/// A text up to its zero byte, and the rest; everything without a zero byte.
pub fn text(body: &[u8]) -> (&[u8], &[u8]) {
    match memchr(0, body) {
        Some(end) => (&body[..end], &body[end + 1..]),
        None => (body, &[]),
    }
}

/// An integer at the front.
pub fn number(body: &[u8]) -> Option<i32> {
    body.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

/// A column of a `DataRow`; None for NULL, and where the message is too short.
pub fn column(row: &[u8], column: u32) -> Option<&[u8]> {
    let mut rest = row.get(2..)?;
    for _ in 0..column {
        let length = usize::try_from(number(rest)?).unwrap_or(0);
        rest = rest.get(4 + length..)?;
    }
    let length = usize::try_from(number(rest)?).ok()?;
    rest.get(4..4 + length)
}

/// The content of an `ErrorResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// SQLSTATE and message.
    pub error: ServerError,
    /// Whether it ends the connection.
    pub is_fatal: bool,
}

impl ErrorResponse {
    /// Reads the fields; in a truncated message, those that are present.
    pub fn of(mut body: &[u8]) -> ErrorResponse {
        let (mut severity, mut sqlstate, mut message) = (&b""[..], *b"XX000", &b""[..]);
        while let Some((&field, rest)) = body.split_first().filter(|(field, _)| **field != 0) {
            let (value, rest) = text(rest);
            match field {
                // The severity in English, since 9.6; earlier only in the server's language.
                b'V' => severity = value,
                b'S' if severity.is_empty() => severity = value,
                b'C' => sqlstate = value.try_into().unwrap_or(sqlstate),
                b'M' => message = value,
                _ => {}
            }
            body = rest;
        }
        let message = String::from_utf8_lossy(message).into_owned();
        let is_fatal = matches!(severity, b"FATAL" | b"PANIC");
        ErrorResponse { error: ServerError { sqlstate, message }, is_fatal }
    }
}

/// The number of rows in a command tag; None without one.
#[inline]
pub fn rows(tag: &[u8]) -> Option<u64> {
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let add = |sum: u64, byte: &u8| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'));
    tag[tag.len() - digits..].iter().try_fold(0, add)
}

/// Appends a message whose body is written by `fill`.
#[inline]
pub fn message(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    untyped(out, fill);
}

#[inline]
fn untyped(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length_bytes = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length_bytes.to_be_bytes());
}

#[inline]
fn put(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

/// `StartupMessage`.
pub fn startup(out: &mut Vec<u8>, parameters: &[(&str, &str)]) {
    untyped(out, |out| {
        out.extend_from_slice(&PROTOCOL.to_be_bytes());
        for (name, value) in parameters {
            put(out, name.as_bytes());
            put(out, value.as_bytes());
        }
        out.push(0);
    });
}

/// `PasswordMessage`.
pub fn password(out: &mut Vec<u8>, password: &[u8]) {
    message(out, b'p', |out| put(out, password));
}

/// `SASLInitialResponse`.
pub fn sasl_initial_response(out: &mut Vec<u8>, mechanism: &str, data: &[u8]) {
    message(out, b'p', |out| {
        put(out, mechanism.as_bytes());
        out.extend_from_slice(&(data.len() as u32).to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// `SASLResponse`.
pub fn sasl_response(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'p', |out| out.extend_from_slice(data));
}

/// `Query`.
#[inline]
pub fn query(out: &mut Vec<u8>, sql: &[u8]) {
    message(out, b'Q', |out| put(out, sql));
}

/// `Parse`, with the types of the first parameters; 0 for inferred ones.
pub fn parse(out: &mut Vec<u8>, name: &[u8], sql: &[u8], types: &[u32]) {
    message(out, b'P', |out| {
        put(out, name);
        put(out, sql);
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
    });
}

/// `Bind` of the unnamed portal: parameters and rows as text.
#[inline]
pub fn bind(out: &mut Vec<u8>, name: &[u8], parameters: &[Option<Vec<u8>>]) {
    message(out, b'B', |out| {
        out.push(0);
        put(out, name);
        out.extend_from_slice(&0u16.to_be_bytes());
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            match parameter {
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
                Some(value) => {
                    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                    out.extend_from_slice(value);
                }
            }
        }
        out.extend_from_slice(&0u16.to_be_bytes());
    });
}

/// `Describe` and `Execute` of the unnamed portal, and `Sync`.
#[inline]
pub fn execute_and_sync(out: &mut Vec<u8>) {
    out.extend_from_slice(EXECUTE_AND_SYNC);
}

/// `Sync`.
pub fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| {});
}

/// `Close` of a prepared statement; no error if it does not exist.
pub fn close_statement(out: &mut Vec<u8>, name: &[u8]) {
    message(out, b'C', |out| {
        out.push(b'S');
        put(out, name);
    });
}

/// `CopyFail`.
pub fn copy_fail(out: &mut Vec<u8>, why: &str) {
    message(out, b'f', |out| put(out, why.as_bytes()));
}

/// `Terminate`.
pub fn terminate(out: &mut Vec<u8>) {
    message(out, b'X', |_| {});
}

/// `CancelRequest`, which is sent alone over a separate connection.
pub fn cancel_request(out: &mut Vec<u8>, process_id: i32, secret_key: &[u8]) {
    untyped(out, |out| {
        out.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(secret_key);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_what_follows_it() {
        assert_eq!(MessageHeader::of(b"Z\0\0\0"), None);
        let bytes = |input: &[u8]| MessageHeader::of(input).and_then(|head| head.body_bytes);
        assert_eq!(bytes(b"Z\0\0\0\x05I"), Some(1));
        assert_eq!(bytes(b"1\0\0\0\x04"), Some(0));
        assert_eq!(bytes(b"D\x7f\xff\xff\xff"), Some(0x7fff_fffb));
        assert_eq!(bytes(b"D\0\0\0\x03"), None);
        assert_eq!(bytes(b"D\x80\0\0\0"), None);
    }

    #[test]
    fn a_tag_tells_rows() {
        let cases = [
            ("SELECT 12", Some(12)),
            ("INSERT 0 7", Some(7)),
            ("COPY 18446744073709551615", Some(u64::MAX)),
            ("COPY 18446744073709551616", None),
            ("BEGIN", None),
            ("", None),
        ];
        for (tag, expected) in cases {
            assert_eq!(rows(tag.as_bytes()), expected, "{tag}");
        }
    }

    #[test]
    fn a_column_of_a_row_is_found() {
        let row = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\x0217";
        let found = |at| column(row, at);
        assert_eq!((found(0), found(1), found(2)), (Some(&b"ab"[..]), None, Some(&b"17"[..])));
        assert_eq!((found(3), column(&row[..17], 2), column(b"", 0)), (None, None, None));
    }

    #[test]
    fn an_error_is_read_as_far_as_it_goes() {
        let response = ErrorResponse::of(b"SFATAL\0C57P01\0Mat once\0\0");
        assert_eq!((&response.error.sqlstate, &*response.error.message), (b"57P01", "at once"));
        assert!(response.is_fatal);
        let response = ErrorResponse::of(b"SFATAL\0VERROR\0C123\0M\xffx");
        assert_eq!((&response.error.sqlstate, &*response.error.message), (b"XX000", "\u{fffd}x"));
        assert!(!response.is_fatal);
        assert_eq!(ErrorResponse::of(b"").error.message, "");
    }
}
