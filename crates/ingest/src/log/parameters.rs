//! Values of parameters, as PostgreSQL writes them: `$1 = '7', $2 = NULL, $3 = 'it''s'`.

use super::prefix::number;

/// What PostgreSQL puts at the end of a value that it cut (`log_parameter_max_length`).
const ELLIPSIS: &[u8] = b"...";

/// Characters are cut whole, so a value may be shorter than the limit by this much.
const CHARACTER_BYTES_MAX: usize = 4;

/// Distinguishes truncated values from those that end in three dots of their own.
///
/// The log does not contain the limit, but a longer complete value shows that it is higher.
/// Undecidable values count as cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limit {
    longest_whole_bytes: usize,
}

impl Limit {
    #[inline]
    fn is_cut(&mut self, value: &[u8]) -> bool {
        let Some(shown) = value.strip_suffix(ELLIPSIS) else {
            self.longest_whole_bytes = self.longest_whole_bytes.max(value.len());
            return false;
        };
        shown.len() + CHARACTER_BYTES_MAX > self.longest_whole_bytes
    }
}

/// Reads values into a list, whose memory it uses again. False when one was cut off, by
/// `log_parameter_max_length` or where the log is torn.
pub fn read(text: &[u8], values: &mut Vec<Option<Vec<u8>>>, limit: &mut Limit) -> bool {
    let (mut count, mut at, mut is_whole) = (0, 0, true);
    while at < text.len() {
        let Some(value) = value_start(&text[at..], count + 1) else {
            is_whole = false;
            break;
        };
        at += value;
        if text[at..].starts_with(b"NULL") {
            values.truncate(count);
            values.push(None);
            at += b"NULL".len();
        } else {
            let value = slot(values, count);
            let Some(length) = read_quoted(&text[at..], value) else {
                values.truncate(count + 1);
                return false;
            };
            is_whole &= !limit.is_cut(value);
            at += length;
        }
        count += 1;
        if text[at..].starts_with(b", ") {
            at += 2;
        } else if at < text.len() {
            // French writes a mark behind the last value of CONTEXT, others a further line.
            is_whole &= matches!(text[at], b'\n' | b' ' | 0xC2);
            break;
        }
    }
    values.truncate(count);
    is_whole
}

/// The emptied buffer of a value.
#[inline]
fn slot(values: &mut Vec<Option<Vec<u8>>>, index: usize) -> &mut Vec<u8> {
    if index >= values.len() {
        values.push(None);
    }
    let slot = values[index].get_or_insert_with(Vec::new);
    slot.clear();
    slot
}

/// The length of `$7 = `, if it has this number.
#[inline]
fn value_start(text: &[u8], expected: usize) -> Option<usize> {
    let (number, digits) = number(&text[1..])?;
    let is_expected = text[0] == b'$' && number == expected as u64;
    (is_expected && text[1 + digits..].starts_with(b" = ")).then_some(digits + 4)
}

/// Reads `'it''s'` and returns its length; None if its end is missing.
#[inline]
fn read_quoted(text: &[u8], value: &mut Vec<u8>) -> Option<usize> {
    if text.first() != Some(&b'\'') {
        return None;
    }
    let mut at = 1;
    loop {
        let Some(length) = memchr::memchr(b'\'', &text[at..]) else {
            value.extend_from_slice(&text[at..]);
            return None;
        };
        value.extend_from_slice(&text[at..at + length]);
        at += length + 1;
        if text.get(at) != Some(&b'\'') {
            return Some(at);
        }
        value.push(b'\'');
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> (Vec<Option<String>>, bool) {
        let mut values = vec![Some(b"old".to_vec()), None, Some(b"older".to_vec())];
        let is_whole = read(text.as_bytes(), &mut values, &mut Limit::default());
        let text = |value: Vec<u8>| String::from_utf8(value).unwrap();
        (values.into_iter().map(|value| value.map(text)).collect(), is_whole)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn values_are_read() {
        assert_eq!(values(""), (vec![], true));
        let three = values("$1 = '7', $2 = NULL, $3 = 'it''s, $4 = ''x'''");
        assert_eq!(three, (vec![some("7"), None, some("it's, $4 = 'x'")], true));
        assert_eq!(values("$1 = ''"), (vec![some("")], true));
    }

    #[test]
    fn what_was_cut_is_reported() {
        assert_eq!(values("$1 = 'abc...', $2 = 'd'"), (vec![some("abc..."), some("d")], false));
        assert!(!values("$1 = 'torn").1);
        assert!(!values("$1 = 'a', $3 = 'b'").1);
        assert!(!values("$1 = 'a'; drop").1);
        assert!(!values("two").1);
    }

    #[test]
    fn a_longer_value_shows_that_dots_are_its_own() {
        let mut limit = Limit::default();
        let mut list = Vec::new();
        assert!(!read(b"$1 = 'and so on...'", &mut list, &mut limit));
        assert!(read(b"$1 = 'a value that is longer than it'", &mut list, &mut limit));
        assert!(read(b"$1 = 'and so on...'", &mut list, &mut limit));
    }
}
