//! What a value is, and what of it is masked.

use super::cipher::Cipher;
use super::letters::{self, mask_hex};
use super::number;

/// Values that are kept: booleans, and PostgreSQL's special times and numbers.
const KEYWORDS: [&str; 20] = [
    "t",
    "f",
    "true",
    "false",
    "y",
    "n",
    "yes",
    "no",
    "on",
    "off",
    "null",
    "now",
    "today",
    "tomorrow",
    "yesterday",
    "epoch",
    "infinity",
    "-infinity",
    "nan",
    "allballs",
];

/// Units of intervals, singular and plural.
const UNITS: [&str; 22] = [
    "microsecond",
    "millisecond",
    "second",
    "sec",
    "minute",
    "min",
    "hour",
    "hr",
    "day",
    "week",
    "month",
    "mon",
    "year",
    "yr",
    "decade",
    "century",
    "centuries",
    "millennium",
    "us",
    "ms",
    "ago",
    "@",
];

/// Positions of the version and the variant of a UUID.
const UUID_KEPT: [usize; 2] = [14, 19];

const UUID_BYTES: usize = 36;

/// Appends the replacement of a value without quotes. It has the same length.
pub fn mask(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) {
    let is_done = mask_simple(cipher, text, out)
        || mask_bytes(cipher, text, out)
        || mask_interval(cipher, text, out)
        || mask_composed(cipher, text, out);
    if !is_done {
        letters::mask(cipher, letters::pieces(text), out);
    }
}

/// Masks what is not made of several values.
fn mask_simple(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    is_one_of(text, &KEYWORDS) && keep(text, out)
        || number::mask(cipher, text, out)
        || number::mask_time(cipher, text, out)
        || mask_uuid(cipher, text, out)
        || mask_address(cipher, text, out)
}

pub fn is_one_of(text: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

fn keep(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(text);
    true
}

fn mask_uuid(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let is_hyphen = |index| matches!(index, 8 | 13 | 18 | 23);
    let is_uuid = text.len() == UUID_BYTES
        && text.iter().enumerate().all(|(index, byte)| {
            if is_hyphen(index) { *byte == b'-' } else { byte.is_ascii_hexdigit() }
        });
    if is_uuid {
        mask_hex(cipher, text, |index| UUID_KEPT.contains(&index), out);
    }
    is_uuid
}

/// `\x` and bytes in hexadecimal.
fn mask_bytes(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    // In a string with escapes, the backslash is doubled.
    let prefix = if text.starts_with(b"\\\\") { 3 } else { 2 };
    let (prefix, digits) = text.split_at(prefix.min(text.len()));
    let digits = Some(digits).filter(|_| matches!(prefix, b"\\x" | b"\\\\x"));
    let Some(digits) = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) else {
        return false;
    };
    out.extend_from_slice(prefix);
    mask_hex(cipher, digits, |_| false, out);
    true
}

/// Addresses of networks, with or without the length of their prefix, and of network cards.
fn mask_address(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let slash = memchr::memchr(b'/', text).unwrap_or(text.len());
    let (address, prefix) = text.split_at(slash);
    let is_prefix = prefix.get(1..).is_none_or(|digits| {
        !digits.is_empty() && digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit)
    });
    if !is_prefix {
        return false;
    }
    let is_colons = address.iter().filter(|&&byte| byte == b':').count() >= 2
        && address.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b':');
    if is_colons {
        mask_hex(cipher, address, |_| false, out);
    } else if !mask_octets(cipher, address, out) {
        return false;
    }
    keep(prefix, out)
}

/// `192.168.0.1`; each number keeps its count of digits and stays below 256.
fn mask_octets(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let octets: Vec<&[u8]> = text.split(|&byte| byte == b'.').collect();
    let value = |octet: &&[u8]| -> Option<u64> { std::str::from_utf8(octet).ok()?.parse().ok() };
    let is_octet = |octet: &&[u8]| {
        octet.len() <= 3
            && octet.iter().all(u8::is_ascii_digit)
            && value(octet)
                .is_some_and(|value| value < 256 && value.to_string().len() == octet.len())
    };
    if octets.len() != 4 || !octets.iter().all(is_octet) {
        return false;
    }
    for (index, octet) in octets.iter().enumerate() {
        let first = if octet.len() == 1 { 0 } else { 10u64.pow(octet.len() as u32 - 1) };
        let last = if octet.len() == 3 { 255 } else { 10u64.pow(octet.len() as u32) - 1 };
        let rank = value(octet).unwrap_or(first) - first;
        let masked =
            first + cipher.permute(super::cipher::Purpose::Letters, last - first + 1, rank);
        out.extend(std::iter::repeat_n(b'.', usize::from(index > 0)));
        out.extend_from_slice(masked.to_string().as_bytes());
    }
    true
}

/// `1 day 02:30:00`: at least one unit, and else numbers and times.
fn mask_interval(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let is_unit = |word: &[u8]| {
        let single = word.strip_suffix(b"s").or_else(|| word.strip_suffix(b"S")).unwrap_or(word);
        is_one_of(word, &UNITS) || is_one_of(single, &UNITS)
    };
    let begin = out.len();
    let mut has_unit = false;
    for (index, word) in text.split(|&byte| byte == b' ').enumerate() {
        out.extend(std::iter::repeat_n(b' ', usize::from(index > 0)));
        let number_end = word.iter().take_while(|byte| b"+-.0123456789".contains(byte)).count();
        let (number, unit) = word.split_at(number_end);
        let is_unit = is_unit(unit);
        has_unit |= is_unit;
        let is_known = if is_unit {
            (number.is_empty() || number::mask(cipher, number, out)) && keep(unit, out)
        } else {
            word.is_empty()
                || number::mask(cipher, word, out)
                || number::mask_time(cipher, word, out)
        };
        if !is_known {
            out.truncate(begin);
            return false;
        }
    }
    if !has_unit {
        out.truncate(begin);
    }
    has_unit
}

/// JSON, arrays, ranges and rows: masks each value between brackets, commas and colons.
fn mask_composed(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let trimmed = text.trim_ascii();
    let is_composed = matches!(
        (trimmed.first(), trimmed.last()),
        (Some(b'{'), Some(b'}')) | (Some(b'[' | b'('), Some(b']' | b')'))
    );
    if is_composed {
        mask_parts(cipher, text, out);
    }
    is_composed
}

fn mask_parts(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) {
    let is_between = |byte: u8| b"{}[](),:\"".contains(&byte) || byte.is_ascii_whitespace();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let begin = at;
        if byte == b'"' {
            at = closing_quote(text, at + 1);
            out.push(byte);
            mask_part(cipher, &text[begin + 1..at], out);
            out.extend(text.get(at));
            at += 1;
        } else if is_between(byte) {
            at += 1;
            out.push(byte);
        } else {
            at += text[at..].iter().position(|&byte| is_between(byte)).unwrap_or(text.len() - at);
            mask_part(cipher, &text[begin..at], out);
        }
    }
}

/// A nested value: its brackets are text, so that the depth does not matter.
fn mask_part(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) {
    if !mask_simple(cipher, text, out) {
        letters::mask(cipher, letters::pieces(text), out);
    }
}

/// The next unescaped quote; the end if there is none.
fn closing_quote(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}
