//! Numbers and UUIDs within a text, with the text before each: in JSON, in arrays and composite
//! values, in prose such as `order 123`, in URLs.
//!
//! A text is read once. Each mention has a label that distinguishes its position in several texts
//! of the same kind: in JSON the path of keys, elsewhere the word before it. Decimals, dates,
//! times, addresses, and digits within a longer word (`3f17`) are not mentions.

use std::ops::Range;

use twox_hash::XxHash64;

use super::values::{Id, Kind};

/// Mentions of one text that are examined.
pub const MENTIONS_MAX: usize = 10_000;

/// Limit for the depth of the path of keys.
const DEPTH_MAX: usize = 64;

/// Bytes between a word and a number that belong to the label.
const BETWEEN_MAX: usize = 4;

/// Bytes of a word that belong to the label.
const WORD_MAX: usize = 32;

/// Digits of a number that may be an id.
const DIGITS_MAX: usize = 19;

/// A number or a UUID in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Distinguishes its position in the text from others.
    pub label: u64,
    /// The word before it, or the JSON key whose value it is.
    pub word: Range<usize>,
    pub kind: Kind,
    pub id: Id,
    pub range: Range<usize>,
    /// Letters precede it without a separator (`ORD123`): more often a name than an id.
    pub is_joined: bool,
}

/// Finds all numbers and UUIDs in a text; false if there are more than the maximum.
pub fn find(text: &[u8], found: &mut Vec<Mention>) -> bool {
    found.clear();
    if !text.iter().any(u8::is_ascii_digit) {
        return true;
    }
    let mut parser = MentionParser { text, found, at: 0, is_whole: true };
    let begin = text.iter().position(|byte| !b" \t\r\n'\"$E".contains(byte)).unwrap_or(0);
    match text.get(begin) {
        Some(b'{' | b'[') => parser.structure(),
        Some(b'(') => parser.list(begin),
        _ => parser.prose(text.len(), 0, 0..0),
    }
    parser.is_whole
}

struct MentionParser<'t, 'f> {
    text: &'t [u8],
    found: &'f mut Vec<Mention>,
    at: usize,
    is_whole: bool,
}

impl MentionParser<'_, '_> {
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn put(&mut self, mention: Mention) {
        if self.found.len() < MENTIONS_MAX {
            self.found.push(mention);
        } else {
            self.is_whole = false;
        }
    }

    /// JSON, or an array as PostgreSQL writes it.
    fn structure(&mut self) {
        // Of each level: the label of what is around, and that of the current key with its word.
        let mut levels: Vec<(u64, u64, Range<usize>)> = vec![(1, 1, 0..0)];
        while self.at < self.text.len() && self.is_whole {
            let (around, label, word) = levels.last().cloned().unwrap_or((1, 1, 0..0));
            match self.byte(self.at) {
                b'{' | b'[' => {
                    let inner = with(label, &self.text[self.at..=self.at]);
                    if levels.len() < DEPTH_MAX {
                        levels.push((inner, inner, word));
                    }
                    self.at += 1;
                }
                b'}' | b']' => {
                    if levels.len() > 1 {
                        levels.pop();
                    }
                    self.at += 1;
                }
                b',' => {
                    if let Some(level) = levels.last_mut() {
                        // In an object a key follows; in an array all elements are alike.
                        level.1 = around;
                    }
                    self.at += 1;
                }
                b'"' => {
                    let inside = self.string();
                    let is_key = self.text[self.at..].trim_ascii_start().first() == Some(&b':');
                    let level = levels.last_mut().filter(|_| is_key);
                    match level {
                        Some(level) => {
                            let is_number =
                                self.text[inside.clone()].iter().all(u8::is_ascii_digit)
                                    && !inside.is_empty();
                            let key: &[u8] =
                                if is_number { b"#" } else { &self.text[inside.clone()] };
                            level.1 = with(around, key);
                            if !is_number {
                                level.2 = inside.clone();
                            }
                            let label = with(level.1, b"key");
                            let word = level.2.clone();
                            self.prose_within(inside, label, word);
                        }
                        None => self.prose_within(inside, label, word),
                    }
                }
                b'0'..=b'9' | b'-' => self.number(label, &word),
                byte if byte.is_ascii_alphabetic() => {
                    // A word without quotes: an element of an array, or true, false, null.
                    let end = self.text[self.at..]
                        .iter()
                        .position(|byte| b",{}[]\"".contains(byte))
                        .map_or(self.text.len(), |length| self.at + length);
                    self.prose(end, label, word);
                }
                _ => self.at += 1,
            }
        }
    }

    /// Skips a string in double quotes; returns its contents' range.
    fn string(&mut self) -> Range<usize> {
        let begin = self.at + 1;
        let mut at = begin;
        while at < self.text.len() && self.byte(at) != b'"' {
            at += if self.byte(at) == b'\\' { 2 } else { 1 };
        }
        let end = at.min(self.text.len());
        self.at = (end + 1).min(self.text.len());
        begin..end
    }

    /// A number of JSON, perhaps with a sign.
    fn number(&mut self, label: u64, word: &Range<usize>) {
        let begin = self.at;
        let digits = begin + usize::from(self.byte(begin) == b'-');
        let end = end_of(self.text, digits, |byte| byte.is_ascii_digit());
        if end == digits {
            self.at = end.max(begin + 1);
            return;
        }
        if self.byte(digits) != b'0' && !is_joint(self.byte(end)) && !is_word(self.byte(end)) {
            self.put_number(begin..end, label, word.clone(), false);
            self.at = end;
            return;
        }
        // A decimal, a date without quotes, part of a UUID.
        let stop = end_of(self.text, begin, |byte| is_joint(byte) || is_word(byte) || byte == b' ');
        self.prose(stop, label, word.clone());
    }

    /// A composite value: each of its parts has its own label.
    fn list(&mut self, begin: usize) {
        self.at = begin + 1;
        let mut part = 0u64;
        while self.at < self.text.len() && self.is_whole {
            let end = match self.byte(self.at) {
                b'"' => {
                    let inside = self.string();
                    self.prose_within(inside, 100 + part, 0..0);
                    continue;
                }
                _ => end_of(self.text, self.at, |byte| !b",)\"".contains(&byte)),
            };
            self.prose(end, 100 + part, 0..0);
            self.at = end;
            if matches!(self.byte(end), b',' | b')') {
                part += u64::from(self.byte(end) == b',');
                self.at += 1;
            }
        }
    }

    /// The text between quotes, behind which the position already is.
    fn prose_within(&mut self, inside: Range<usize>, around: u64, word: Range<usize>) {
        let behind = std::mem::replace(&mut self.at, inside.start);
        self.prose(inside.end, around, word);
        self.at = behind;
    }

    /// Anything else, up to an end: words and what is between them. `word` is the label of a number
    /// without a word before it.
    fn prose(&mut self, end: usize, around: u64, word: Range<usize>) {
        let text = &self.text[..end];
        let begin = self.at;
        let (mut last_word, mut last_label) = (begin..begin, None);
        while self.at < end && self.is_whole {
            let at = self.at;
            if !is_alphanumeric(text[at]) {
                self.at += 1;
                continue;
            }
            if let Some((id, end)) = uuid_at(text, at) {
                let label = with(around, b"uuid");
                let range = at..end;
                let word = if last_word.is_empty() { word.clone() } else { last_word.clone() };
                self.put(Mention { label, word, kind: Kind::Uuid, id, range, is_joined: false });
                self.at = end;
                continue;
            }
            let run_end = end_of(text, at, is_alphanumeric);
            let letters = end_of(text, at, |byte| is_alphanumeric(byte) && !byte.is_ascii_digit());
            let digits_end = end_of(text, letters, |byte| byte.is_ascii_digit());
            self.at = run_end;
            if letters == run_end {
                last_word = word_at(text, begin, run_end);
                last_label = None;
                continue;
            }
            if digits_end != run_end {
                // Letters behind digits. A time behind a date begins so (`15T10:00`).
                self.at = complex_end(text, at).max(run_end);
                continue;
            }
            if letters == at {
                let complex = complex_end(text, at);
                if complex > run_end && !is_numbered(&text[at..complex]) {
                    self.at = complex;
                    continue;
                }
            } else {
                last_word = at..letters;
            }
            let between = &text[last_word.end..letters];
            let is_near = between.len() <= BETWEEN_MAX
                && !last_word.is_empty()
                && !between.iter().any(u8::is_ascii_digit);
            let is_joined_by_minus = letters >= begin + 2
                && text[letters - 1] == b'-'
                && text[letters - 2].is_ascii_digit();
            let label = match last_label {
                // The second part of `INV-2024-17`.
                Some(label) if !is_near && is_joined_by_minus => with(label, b"-"),
                // One of a list: `orders 17, 18`.
                Some(label) if !is_near => label,
                _ if is_near => {
                    let named = with(around, &lower(&text[last_word.clone()]));
                    with(named, between)
                }
                // The position alone: a text that is nothing but the number, or begins with it.
                _ => with(around, b"none"),
            };
            let is_named = is_near || (last_label.is_some() && !last_word.is_empty());
            last_label = Some(label);
            let named = if is_named { last_word.clone() } else { word.clone() };
            self.put_number(letters..digits_end, label, named, letters > at);
        }
        self.at = self.at.max(end);
    }

    fn put_number(&mut self, range: Range<usize>, label: u64, word: Range<usize>, joined: bool) {
        if range.len() > DIGITS_MAX {
            return;
        }
        let Some(id) = Id::read(Kind::Number, &self.text[range.clone()]) else { return };
        self.put(Mention { label, word, kind: Kind::Number, id, range, is_joined: joined });
    }
}

/// A label combined with more bytes.
fn with(label: u64, more: &[u8]) -> u64 {
    XxHash64::oneshot(label, more)
}

fn lower(word: &[u8]) -> Vec<u8> {
    word[word.len().saturating_sub(WORD_MAX)..].to_ascii_lowercase()
}

/// Whether a byte belongs to a word; bytes beyond ASCII do.
fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    is_alphanumeric(byte) || byte == b'_'
}

/// Whether a byte may join digits to a date, a time, a decimal or an address.
fn is_joint(byte: u8) -> bool {
    b".:-+".contains(&byte)
}

/// The end of a run of bytes of a kind.
fn end_of(text: &[u8], begin: usize, is_one: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(begin..).unwrap_or_default();
    rest.iter().position(|&byte| !is_one(byte)).map_or(text.len().max(begin), |at| begin + at)
}

/// The word that ends at a position, with underlines in it.
fn word_at(text: &[u8], begin: usize, end: usize) -> Range<usize> {
    let own = &text[begin..end];
    let length = own.iter().rev().take_while(|&&byte| is_word(byte)).count();
    end - length..end
}

/// The end of digits joined to others: `2024-01-15T10:00:00.5+01`, `10.0.0.17`, `17.50`.
fn complex_end(text: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while let Some(&byte) = text.get(at) {
        let is_next = |index: usize| text.get(index).is_some_and(u8::is_ascii_digit);
        let joins = is_joint(byte) || byte == b'T';
        if !(byte.is_ascii_digit() || (joins && at > begin && is_next(at + 1) && is_next(at - 1))) {
            break;
        }
        at += 1;
    }
    at
}

/// Whether joined digits are numbers side by side (`2024-123`) rather than a date, time or decimal.
fn is_numbered(complex: &[u8]) -> bool {
    let parts_bytes: Vec<usize> = complex.split(|&byte| byte == b'-').map(<[u8]>::len).collect();
    let is_date = matches!(parts_bytes[..], [4, 2, 2, ..]);
    !is_date && complex.iter().all(|&byte| byte.is_ascii_digit() || byte == b'-')
}

/// A UUID at a position, and its end.
fn uuid_at(text: &[u8], begin: usize) -> Option<(Id, usize)> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_begin = begin == 0 || !is_word(text[begin - 1]);
    let hex = |at: usize| end_of(text, at, |byte| byte.is_ascii_hexdigit()) - at;
    let mut end = begin;
    match hex(begin) {
        32 => end += 32,
        8 => {
            for (index, length) in GROUPS.into_iter().enumerate() {
                if index > 0 {
                    if text.get(end) != Some(&b'-') {
                        return None;
                    }
                    end += 1;
                }
                if hex(end) != length {
                    return None;
                }
                end += length;
            }
        }
        _ => return None,
    }
    let is_end = text.get(end).is_none_or(|&byte| !is_word(byte));
    let id = Id::read(Kind::Uuid, &text[begin..end])?;
    (is_begin && is_end).then_some((id, end))
}

/// A value written in the format of the one that it replaces: as many digits, the same letters.
pub fn written_as(old: &[u8], new: &[u8]) -> Vec<u8> {
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if digits(old) && digits(new) {
        // `ORD-000123`
        let zeros = if old.starts_with(b"0") { old.len().saturating_sub(new.len()) } else { 0 };
        return [vec![b'0'; zeros].as_slice(), new].concat();
    }
    if Id::read(Kind::Uuid, old).is_none() {
        return new.to_vec();
    }
    let has_hyphens = old.contains(&b'-');
    let kept = new.iter().filter(|&&byte| has_hyphens || byte != b'-').copied();
    let is_upper = old.iter().any(u8::is_ascii_uppercase);
    kept.map(|byte| if is_upper { byte.to_ascii_uppercase() } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        assert!(find(text.as_bytes(), &mut found));
        let shown = |range: &Range<usize>| text[range.clone()].to_owned();
        found.iter().map(|one| (shown(&one.word), shown(&one.range))).collect()
    }

    fn labels(text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        find(text.as_bytes(), &mut found);
        found.iter().map(|one| one.label).collect()
    }

    fn owned(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|&(word, value)| (word.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn numbers_are_found_with_the_word_before_them() {
        for (text, expected) in [
            ("'order 123'", &[("order", "123")][..]),
            ("ORD-000123", &[("ORD", "000123")]),
            ("ORD123 and x_9", &[("ORD", "123"), ("x", "9")]),
            ("/orders/17/lines/5?id=6", &[("orders", "17"), ("lines", "5"), ("id", "6")]),
            ("orders 17, 18", &[("orders", "17"), ("orders", "18")]),
            (r#"{"order": {"id": 17, "n": "5"}}"#, &[("id", "17"), ("n", "5")]),
            (
                r#"{"order_ids": [17, 18], "17": {"x": -4}}"#,
                &[("order_ids", "17"), ("order_ids", "18"), ("17", "17"), ("x", "-4")],
            ),
            ("{1,2}", &[("", "1"), ("", "2")]),
            ("(17,\"of 5\")", &[("", "17"), ("of", "5")]),
            ("INV-2024-123", &[("INV", "2024"), ("INV", "123")]),
        ] {
            let found = all(text);
            if text.starts_with("{\"order_ids") {
                let values: Vec<&str> = found.iter().map(|(_, value)| &**value).collect();
                assert_eq!(values, ["17", "18", "17", "-4"], "{text}");
                continue;
            }
            assert_eq!(found, owned(expected), "{text}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_ids_are_ignored() {
        for none in [
            "2024-01-15",
            "'2024-01-15 10:17:05.123+01'",
            "2024-01-15T10:17:05Z",
            r#"{"at": "2024-01-15T10:00:00", "price": 17.50, "host": "10.0.0.17"}"#,
            "17.50",
            "3f17",
            "99999999999999999999",
            "none",
            "",
        ] {
            assert_eq!(all(none), [], "{none}");
        }
    }

    #[test]
    fn label_is_equal_for_equal_positions_of_different_texts() {
        let same = [
            (r#"{"a": 1, "order": 17}"#, r#"{"order": 18, "a": 2}"#, [1, 0]),
            ("order 17", "Order 18", [0, 0]),
            ("order 17 by Ann", "the order 18", [0, 0]),
        ];
        for (one, other, [at, at_other]) in same {
            assert_eq!(labels(one)[at], labels(other)[at_other], "{one} {other}");
        }
        let other = [
            (r#"{"order": 17}"#, r#"{"amount": 17}"#),
            ("order 17", "room 17"),
            ("order 17", "order #17"),
            (r#"{"order": {"id": 17}}"#, r#"{"room": {"id": 17}}"#),
        ];
        for (one, other) in other {
            assert_ne!(labels(one)[0], labels(other)[0], "{one} {other}");
        }
        let parts = labels("(17,5)");
        assert_ne!(parts[0], parts[1]);
        let elements = labels("{17,5}");
        assert_eq!(elements[0], elements[1]);
    }

    #[test]
    fn uuids_are_found_and_written_as_they_were() {
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            format!("https://host/orders/{uuid}?x=y"),
            format!("{{\"token\": \"{uuid}\"}}"),
            format!("{{{uuid}}}"),
            uuid.replace('-', "").to_uppercase(),
        ] {
            let mut found = Vec::new();
            find(text.as_bytes(), &mut found);
            let uuids: Vec<Id> = found.iter().map(|one| one.id).collect();
            assert_eq!(uuids, [Id::read(Kind::Uuid, uuid.as_bytes()).unwrap()], "{text}");
        }
        let new = b"b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12";
        assert_eq!(written_as(uuid.as_bytes(), new), new);
        let bare = uuid.replace('-', "").to_uppercase();
        assert_eq!(written_as(bare.as_bytes(), new), b"B0EEBC999C0B4EF8BB6D6BB9BD380A12");
        assert_eq!(written_as(b"000123", b"204"), b"000204");
        assert_eq!(written_as(b"123", b"20400"), b"20400");
    }
}
