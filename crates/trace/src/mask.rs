//! Literals and parameters replaced, so that a trace can be given to others.
//!
//! Within a trace the same value always has the same replacement, and of values with up to 62 bits
//! no two have the same one: joins and conflicts are preserved. A replacement comes from a keyed
//! permutation; the key is random for each [`Mask`], and stored nowhere. A replacement keeps of its
//! value:
//!
//! - Numbers: sign, count of digits, decimal point and exponent, leading zeros, and whether they
//!   fit 2, 4 or 8 bytes.
//! - Dates and times: the year and the zone; they stay valid. UUIDs: version and variant.
//! - Other text: length in bytes, which characters are lower case, upper case, digits or of another
//!   script, and all that is neither letter nor digit, hence the wildcards of LIKE.
//! - NULL, booleans, `now`, `infinity` and the like, units of intervals: as they are.
//! - JSON, arrays, ranges, addresses and `bytea` in hex: their make-up, with each part masked.
//! - Comments: as text. Code of DO and CREATE FUNCTION between dollars: literals within it; as text
//!   in languages other than SQL and PL/pgSQL.
//! - Statements that the server did not understand: as text (see [`hides_text`]).
//!
//! **What is kept as it is**: names of tables, columns, users, databases, applications and prepared
//! statements, hints, and literals that are part of the statement rather than data: settings,
//! formats, time zones and names given to functions (`nextval('...')`), row counts of LIMIT,
//! positions in ORDER BY, sizes of types. A reader who knows the data can still learn from lengths,
//! frequencies and times. Order is lost: BETWEEN and < find other rows, and a prefix in LIKE fits
//! no more.
//!
//! | part | rule |
//! |---|---|
//! | `treatment` | which literals are not data |
//! | `literal` | the quotes, escapes and comments around a value |
//! | `value` | what a value is, and what of it is masked |
//! | `number` | numbers, dates and times |
//! | `letters` | characters and their stand-ins |
//! | `cipher` | the keyed permutation |

mod cipher;
mod letters;
mod literal;
mod number;
#[cfg(test)]
mod tests;
mod treatment;
mod value;

pub use treatment::{LiteralTreatments, Treatment};

use cipher::Cipher;
use memchr::memchr2;

use crate::captured::UNKNOWN_ERROR;

/// Codes of errors after which any part of a statement can be data: a syntax error, a column that
/// does not exist (as in `name = "alice"`), and what a log without codes has.
const NOT_UNDERSTOOD: [[u8; 5]; 3] = [*b"42601", *b"42703", UNKNOWN_ERROR];

/// Whether a statement of this form that ended with this code is masked as a whole.
pub fn hides_text(form: &[u8], code: [u8; 5]) -> bool {
    // The server stops at the first error, and only parses what comes into a failed transaction:
    // names after that were never looked up. Those of errors in execution all were.
    let is_half_read = matches!(
        &code,
        [b'4', b'2', ..] | b"25P02" | b"3F000" | b"0A000" | b"22P02" | b"22007" | b"22008"
    );
    // Quoted names, and e-mail addresses; that other names are data is rare.
    let has_doubtful = || memchr2(b'"', b'@', form).is_some();
    NOT_UNDERSTOOD.contains(&code) || is_half_read && has_doubtful()
}

/// Replaces literals, with a random key of its own.
#[derive(Debug, Clone, Default)]
pub struct Mask {
    cipher: Cipher,
}

impl Mask {
    /// A mask with a new key.
    pub fn new() -> Mask {
        Mask::default()
    }

    /// Appends the replacement of a literal or a comment, in SQL notation. It has the same length
    /// and, for a literal, the same kind.
    pub fn literal(&self, literal: &[u8], treatment: Treatment, out: &mut Vec<u8>) {
        literal::mask(self, literal, treatment, out);
    }

    /// Appends the replacement of a statement as a whole: a string of the same length, which is a
    /// syntax error too.
    pub fn text(&self, sql: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        letters::mask(&self.cipher, letters::pieces(sql), out);
        let text = &mut out[begin..];
        text.iter_mut().filter(|byte| **byte == b'\'').for_each(|byte| *byte = b'_');
        let [first, inside @ .., last] = text else { return };
        // A quote takes the place of one byte: the rest of a longer character goes with it.
        if !first.is_ascii() {
            inside.iter_mut().take_while(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'_');
        }
        if !last.is_ascii() {
            inside
                .iter_mut()
                .rev()
                .take_while(|byte| !byte.is_ascii())
                .for_each(|byte| *byte = b'_');
        }
        (*first, *last) = (b'\'', b'\'');
    }

    /// Appends the replacement of a parameter.
    pub fn parameter(&self, parameter: &[u8], out: &mut Vec<u8>) {
        value::mask(&self.cipher, parameter, out);
    }

    /// A whole statement with its literals masked.
    pub fn statement(&self, sql: &[u8]) -> Vec<u8> {
        let mut parts = seatrial_sqltext::lexer::form::Parts::default();
        parts.take_apart(sql);
        let treatments = LiteralTreatments::of_form(parts.form());
        let mut out = Vec::with_capacity(sql.len());
        let mut end = 0;
        for (index, range) in parts.literals().enumerate() {
            out.extend_from_slice(&sql[end..range.start]);
            self.literal(&sql[range.clone()], treatments.treatment(index), &mut out);
            end = range.end;
        }
        out.extend_from_slice(&sql[end..]);
        out
    }
}
