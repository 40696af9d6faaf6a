//! Messages of the server, as PostgreSQL's manual has them: "Frontend/Backend Protocol", "Message
//! Formats".

pub use crate::messages::message;

/// Type of all columns: int4.
const COLUMN_TYPE: i32 = 23;

/// A column's value: `None` for NULL.
pub type Value = Option<String>;

/// Appends a text and a zero byte.
pub fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// `ReadyForQuery` with the transaction's status: `I`, `T` or `E`.
pub fn ready(out: &mut Vec<u8>, status: u8) {
    message(out, b'Z', |out| out.push(status));
}

/// `ParameterStatus`.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

/// `RowDescription`, all columns in text format.
pub fn row_description(out: &mut Vec<u8>, columns: &[String]) {
    message(out, b'T', |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for column in columns {
            text(out, column);
            out.extend_from_slice(&[0; 6]); // of no table
            out.extend_from_slice(&COLUMN_TYPE.to_be_bytes());
            out.extend_from_slice(&4i16.to_be_bytes());
            out.extend_from_slice(&(-1i32).to_be_bytes());
            out.extend_from_slice(&[0; 2]); // text
        }
    });
}

/// `DataRow`.
pub fn data_row(out: &mut Vec<u8>, values: &[Value]) {
    message(out, b'D', |out| {
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            match value {
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
                Some(value) => {
                    out.extend_from_slice(&(value.len() as i32).to_be_bytes());
                    out.extend_from_slice(value.as_bytes());
                }
            }
        }
    });
}

/// `CommandComplete` with its tag.
pub fn complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| text(out, tag));
}

/// `ParameterDescription`: a number of parameters of the same type.
pub fn parameter_description(out: &mut Vec<u8>, parameters: u16) {
    message(out, b't', |out| {
        out.extend_from_slice(&parameters.to_be_bytes());
        for _ in 0..parameters {
            out.extend_from_slice(&COLUMN_TYPE.to_be_bytes());
        }
    });
}

/// A message without a body, such as `ParseComplete`.
pub fn bare(out: &mut Vec<u8>, kind: u8) {
    message(out, kind, |_| {});
}

/// `ErrorResponse`.
pub fn error(out: &mut Vec<u8>, severity: &str, code: &str, sentence: &str) {
    message(out, b'E', |out| {
        for (field, value) in [(b'S', severity), (b'V', severity), (b'C', code), (b'M', sentence)] {
            out.push(field);
            text(out, value);
        }
        out.push(0);
    });
}
