//! Literals and parameters replaced by stand-ins, so that a trace can be given away.
//!
//! Within a trace the same value always has the same stand-in, and of up to 62 bits of variety two
//! values never share one: what joins, collides or is found again still does so. A stand-in comes
//! from a keyed permutation; the key is drawn from the system's randomness for each [`Mask`], and
//! kept nowhere. What a stand-in keeps of its value:
//!
//! - Numbers: sign, count of digits, decimal point and exponent, leading zeros, and whether they
//!   fit 2, 4 or 8 bytes.
//! - Dates and times: the year and the zone; they stay valid. UUIDs: version and variant.
//! - Other text: length in bytes, which characters are lower case, upper case, digits or of another
//!   script, and all that is neither letter nor digit, hence the wildcards of LIKE.
//! - NULL, booleans, `now`, `infinity` and the like, units of intervals: as they are.
//! - JSON, arrays, ranges, addresses and `bytea` in hex: their make-up, with each part masked.
//! - Comments: as text. Code of DO and CREATE FUNCTION between dollars: literals within it.
//!
//! **What is kept as it is**: names of tables, columns, users, databases, applications and prepared
//! statements, hints, and literals that are part of the statement rather than data: settings,
//! formats, time zones and names given to functions (`nextval('...')`), row counts of LIMIT, places
//! in ORDER BY, sizes of types. A reader who knows the data can still learn from lengths,
//! frequencies and times. Order is lost: BETWEEN and < find other rows, and a prefix in LIKE fits
//! no more.
//!
//! | part | rule |
//! |---|---|
//! | [`keep`] | which literals are no data |
//! | [`literal`] | the quotes, escapes and comments around a value |
//! | [`value`] | what a value is, and what of it is masked |
//! | [`number`] | numbers, dates and times |
//! | [`letters`] | characters and their stand-ins |
//! | [`cipher`] | the keyed permutation |

pub mod cipher;
pub mod keep;
pub mod letters;
pub mod literal;
pub mod number;
#[cfg(test)]
mod tests;
pub mod value;

pub use keep::{Keep, Treatment};

use cipher::Cipher;

/// Makes stand-ins with its own key.
#[derive(Debug, Clone, Default)]
pub struct Mask {
    cipher: Cipher,
}

impl Mask {
    /// A mask with a fresh key.
    pub fn new() -> Mask {
        Mask::default()
    }

    /// Appends the stand-in of a literal or a comment, as written in a statement. It has the same
    /// length and, for a literal, the same kind.
    pub fn literal(&self, literal: &[u8], treatment: Treatment, out: &mut Vec<u8>) {
        literal::mask(self, literal, treatment, out);
    }

    /// Appends the stand-in of a parameter.
    pub fn parameter(&self, parameter: &[u8], out: &mut Vec<u8>) {
        value::mask(&self.cipher, parameter, out);
    }

    /// A whole statement with its literals masked.
    pub fn statement(&self, sql: &[u8]) -> Vec<u8> {
        let mut parts = seatrial_sqltext::lexer::form::Parts::default();
        parts.take_apart(sql);
        let keep = Keep::of_form(parts.form());
        let mut out = Vec::with_capacity(sql.len());
        let mut end = 0;
        for (index, range) in parts.literals().enumerate() {
            out.extend_from_slice(&sql[end..range.start]);
            self.literal(&sql[range.clone()], keep.treatment(index), &mut out);
            end = range.end;
        }
        out.extend_from_slice(&sql[end..]);
        out
    }
}
