//! Ids as written in statements: parsed, compared and replaced.

use std::ops::Range;

use seatrial_sqltext::lexer::token::Tokens;
use seatrial_sqltext::reading::returning_at;
use twox_hash::XxHash64;

/// How ids of a class are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Number,
    /// UUIDs, in any format.
    Uuid,
    /// Any other text, compared by its bytes.
    Text,
}

/// An id: a number, the bits of a UUID, or the hash of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u128);

impl Id {
    pub fn of_number(number: i64) -> Id {
        Id(i128::from(number) as u128)
    }

    /// The number, if it is of a class of numbers.
    pub fn number(self) -> i64 {
        self.0 as i64
    }

    /// Whether a sequence with this increment generates it before another number.
    pub fn is_before(self, first: i64, increment: i64) -> bool {
        if increment < 0 { self.number() > first } else { self.number() < first }
    }

    /// Parses a parameter, or the contents of a literal.
    pub fn read(kind: Kind, text: &[u8]) -> Option<Id> {
        match kind {
            Kind::Number => {
                let digits = std::str::from_utf8(text.trim_ascii()).ok()?;
                digits.parse().ok().map(Id::of_number)
            }
            Kind::Uuid => uuid(text).map(Id),
            Kind::Text => {
                let half = |seed| u128::from(XxHash64::oneshot(seed, text));
                Some(Id(half(0) << 64 | half(1)))
            }
        }
    }
}

/// Parses a UUID as PostgreSQL does: 32 digits, optionally in braces, with optional hyphens after
/// each group of four.
fn uuid(text: &[u8]) -> Option<u128> {
    let text = text.trim_ascii();
    let bare = text.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or(text);
    let (mut bits, mut digits) = (0u128, 0);
    for &byte in bare {
        if byte == b'-' {
            continue;
        }
        bits = bits << 4 | u128::from(char::from(byte).to_digit(16)?);
        digits += 1;
        if digits > 32 {
            return None;
        }
    }
    (digits == 32).then_some(bits)
}

/// A value as written in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueText<'a> {
    /// It, including the quotes of a literal.
    pub text: &'a [u8],
    /// Whether it is a literal in the text; else it is a parameter.
    pub is_literal: bool,
}

impl<'a> ValueText<'a> {
    /// The value without quotes; None for NULL and for special notations (escapes, dollar quotes,
    /// bits).
    pub fn plain(self) -> Option<&'a [u8]> {
        if !self.is_literal {
            return Some(self.text);
        }
        match self.text.first()? {
            b'\'' => {
                let inside = self.text.get(1..self.text.len().checked_sub(1)?)?;
                let is_one = Tokens::of(self.text).next()?.text.len() == self.text.len();
                (is_one && self.text.ends_with(b"'") && !inside.contains(&b'\'')).then_some(inside)
            }
            b'0'..=b'9' | b'-' | b'.' => Some(self.text),
            _ => None,
        }
    }

    /// Another value in the same notation.
    pub fn with(self, plain: &[u8]) -> Vec<u8> {
        if !self.is_literal {
            return plain.to_vec();
        }
        if self.text.starts_with(b"'") {
            return [b"'", plain, b"'"].concat();
        }
        // A minus may run into an operator before it.
        let is_new_sign = plain.starts_with(b"-") && !self.text.starts_with(b"-");
        if is_new_sign { [b"(", plain, b")"].concat() } else { plain.to_vec() }
    }
}

/// The ranges of the elements of a one-dimensional array; None for any other array. NULL is one of
/// them.
pub fn elements(array: &[u8]) -> Option<Vec<Range<usize>>> {
    let inside = array.strip_prefix(b"{")?.strip_suffix(b"}")?;
    if inside.trim_ascii().is_empty() {
        return Some(Vec::new());
    }
    if inside.iter().any(|byte| matches!(byte, b'{' | b'}' | b'\\')) {
        return None;
    }
    let mut found = Vec::new();
    let mut begin = 1;
    for part in inside.split(|&byte| byte == b',') {
        let text = part.trim_ascii();
        let at = begin + (part.len() - part.trim_ascii_start().len());
        let quoted = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        if quoted.unwrap_or(text).contains(&b'"') {
            // A comma in quotes, or what is not an array.
            return None;
        }
        found.push(match quoted {
            Some(inner) => at + 1..at + 1 + inner.len(),
            None => at..at + text.len(),
        });
        begin += part.len() + 1;
    }
    Some(found)
}

/// The ids in a text between characters that belong to none: in JSON, in a list, in the body of a
/// function. Of a class of texts, the whole text.
pub fn ids_in(kind: Kind, text: &[u8]) -> Vec<Id> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:+-".contains(&byte);
    let bare = |part: &[u8]| -> Option<Id> {
        let begin = part.iter().position(|byte| !b".:".contains(byte))?;
        let end = part.iter().rposition(|byte| !b".:".contains(byte))?;
        Id::read(kind, &part[begin..=end])
    };
    match kind {
        Kind::Text => Id::read(kind, text).into_iter().collect(),
        Kind::Number | Kind::Uuid => text.split(|&byte| !is_part(byte)).filter_map(bare).collect(),
    }
}

/// A text with other text in some ranges, which are in order; a range that begins within another is
/// ignored.
pub fn replaced(text: &[u8], changes: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut new = Vec::with_capacity(text.len() + 16);
    let mut at = 0;
    for (range, with) in changes {
        if range.start < at {
            continue;
        }
        new.extend_from_slice(&text[at..range.start]);
        new.extend_from_slice(with);
        at = range.end;
    }
    new.extend_from_slice(&text[at..]);
    new
}

/// An INSERT with RETURNING at its end, for columns in SQL notation.
pub fn with_returning(sql: &[u8], columns: &[&str]) -> Vec<u8> {
    let end = returning_at(sql);
    let names: Vec<String> = columns.iter().map(|name| quoted_name(name)).collect();
    let returning = format!(" RETURNING {}", names.join(", "));
    replaced(sql, &[(end..end, returning.into_bytes())])
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> ValueText<'_> {
        ValueText { text: text.as_bytes(), is_literal: true }
    }

    #[test]
    fn id_is_read_in_any_spelling() {
        for (text, plain) in [
            ("17", Some("17")),
            ("'17'", Some("17")),
            ("-17", Some("-17")),
            ("E'17'", None),
            ("'a''b'", None),
            ("'a", None),
            ("'", None),
            ("$$17$$", None),
            ("NULL", None),
        ] {
            assert_eq!(literal(text).plain(), plain.map(str::as_bytes), "{text}");
        }
        let number = |text: &str| Id::read(Kind::Number, text.as_bytes()).map(Id::number);
        assert_eq!((number(" 17"), number("-3"), number("1.5")), (Some(17), Some(-3), None));
        assert_eq!(number("99999999999999999999"), None);
        let one = Id::read(Kind::Uuid, b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
        assert!(one.is_some());
        assert_eq!(Id::read(Kind::Uuid, b"{A0EEBC999C0B4EF8-BB6D6BB9BD380A11}"), one);
        assert_eq!(Id::read(Kind::Uuid, b"a0eebc99"), None);
        assert_ne!(Id::read(Kind::Text, b"a"), Id::read(Kind::Text, b"b"));
    }

    #[test]
    fn replacement_id_keeps_the_spelling() {
        assert_eq!(literal("17").with(b"204"), b"204");
        assert_eq!(literal("'17'").with(b"204"), b"'204'");
        assert_eq!(literal("17").with(b"-4"), b"(-4)");
        assert_eq!(literal("-17").with(b"-4"), b"-4");
        assert_eq!(ValueText { text: b"17", is_literal: false }.with(b"-4"), b"-4");
    }

    #[test]
    fn elements_of_an_array_are_found() {
        let found = |text: &str| {
            let text = text.as_bytes();
            let parts = elements(text)?.into_iter();
            Some(parts.map(|at| String::from_utf8_lossy(&text[at]).into_owned()).collect())
        };
        let all = |parts: &[&str]| Some(parts.iter().map(|&part| part.to_owned()).collect());
        assert_eq!(found("{1,2, 30}"), all(&["1", "2", "30"]));
        assert_eq!(found("{\"a\",NULL}"), all(&["a", "NULL"]));
        assert_eq!(found("{}"), all(&[]));
        for other in ["{{1},{2}}", "1,2", "{1", "{\"a\\\"b\"}", "{\"a,b\"}", ""] {
            let none: Option<Vec<String>> = None;
            assert_eq!(found(other), none, "{other}");
        }
        let ranges = elements(b"{1,2,30}").unwrap();
        let changes = [(ranges[0].clone(), b"100".to_vec()), (ranges[2].clone(), b"7".to_vec())];
        assert_eq!(replaced(b"{1,2,30}", &changes), b"{100,2,7}");
        let twice = [changes[0].clone(), changes[0].clone(), (1..4, b"8,9".to_vec())];
        assert_eq!(replaced(b"{1,2,30}", &twice), b"{100,2,30}");
    }

    #[test]
    fn ids_are_found_in_whatever_text() {
        let found = |text: &str| -> Vec<i64> {
            ids_in(Kind::Number, text.as_bytes()).into_iter().map(Id::number).collect()
        };
        assert_eq!(found("17"), [17]);
        assert_eq!(found(r#"{"order":17,"lines":[{"id": -18}]}"#), [17, -18]);
        assert_eq!(found("$$ BEGIN DELETE FROM t WHERE id = 17; END $$"), [17]);
        assert_eq!(found("{{17,1},{18,2}}"), [17, 1, 18, 2]);
        for none in ["2024-01-17", "10:17:05", "17.5", "order_17", "a17", ""] {
            assert!(found(none).is_empty(), "{none}");
        }
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let within = format!("{{\"token\":\"{uuid}\"}}");
        assert_eq!(ids_in(Kind::Uuid, within.as_bytes()).len(), 1);
    }

    #[test]
    fn returning_comes_before_what_ends_a_statement() {
        let with =
            |sql: &str| String::from_utf8(with_returning(sql.as_bytes(), &["id", "A\"b"])).unwrap();
        let returning = "RETURNING \"id\", \"A\"\"b\"";
        assert_eq!(
            with("INSERT INTO t VALUES (1)"),
            format!("INSERT INTO t VALUES (1) {returning}")
        );
        assert_eq!(
            with("INSERT INTO t VALUES (1) ; -- done\n"),
            format!("INSERT INTO t VALUES (1) {returning} ; -- done\n")
        );
    }
}
