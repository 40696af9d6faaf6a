//! Numbers, dates and times.

use super::cipher::{Cipher, Digit, Purpose};
use super::value::is_one_of;

/// The largest integers of 2, 4 and 8 bytes: a replacement is on the same side of each.
const WIDTHS: [u64; 3] = [i16::MAX as u64, i32::MAX as u64, i64::MAX as u64];

/// Digits of integers that are permuted as one number.
const DIGITS_MAX: usize = 19;

/// Areas in the names of time zones.
const AREAS: [&str; 10] = [
    "africa",
    "america",
    "antarctica",
    "asia",
    "atlantic",
    "australia",
    "europe",
    "indian",
    "pacific",
    "etc",
];

/// What may follow a time: abbreviations of zones that servers print, eras, halves of a day.
const ZONES: [&str; 42] = [
    "utc", "gmt", "z", "zulu", "bc", "ad", "am", "pm", "wet", "west", "bst", "ist", "cet", "cest",
    "eet", "eest", "msk", "sast", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "akst",
    "akdt", "hst", "ast", "adt", "nst", "ndt", "jst", "kst", "hkt", "awst", "acst", "aest", "aedt",
    "nzst", "nzdt",
];

/// Appends the replacement of a number with optional sign; false if it is invalid.
pub fn mask(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let (sign, rest) = text.split_at(text.len() - unsigned.len());
    let unsigned = rest.trim_ascii_start();
    let blanks = &rest[..rest.len() - unsigned.len()];
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = match unsigned.get(whole) {
        Some(b'.') => 1 + digits_in(&unsigned[whole + 1..]),
        _ => 0,
    };
    let (mantissa, exponent) = unsigned.split_at(whole + fraction);
    if whole + fraction.saturating_sub(1) == 0 || !(exponent.is_empty() || is_exponent(exponent)) {
        return false;
    }
    out.extend_from_slice(sign);
    out.extend_from_slice(blanks);
    let zeros = mantissa.iter().take_while(|&&byte| byte == b'0').count();
    let is_whole = fraction == 0 && exponent.is_empty();
    out.extend_from_slice(&mantissa[..zeros]);
    if is_whole && whole - zeros <= DIGITS_MAX {
        integer(cipher, &mantissa[zeros..], out);
    } else {
        decimal(cipher, &mantissa[zeros..], out);
    }
    out.extend_from_slice(exponent);
    true
}

fn digits_in(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn is_exponent(text: &[u8]) -> bool {
    let digits = match text {
        [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => digits,
        _ => return false,
    };
    !digits.is_empty() && digits_in(digits) == digits.len()
}

/// An integer without leading zeros, of as many digits as fit 64 bits.
fn integer(cipher: &Cipher, digits: &[u8], out: &mut Vec<u8>) {
    if digits.is_empty() {
        return;
    }
    let value = digits
        .iter()
        .fold(0, |value: u64, &digit| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    let mut first = 10u64.pow(digits.len() as u32 - 1);
    let mut last = first.saturating_mul(9) + (first - 1);
    for width in WIDTHS {
        if value <= width {
            last = last.min(width);
        } else {
            first = first.max(width + 1);
        }
    }
    let masked = first + cipher.permute(Purpose::Number, last - first + 1, value - first);
    out.extend_from_slice(masked.to_string().as_bytes());
}

/// Digits with a decimal point, without leading zeros.
fn decimal(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) {
    let lowest = |index: usize| if index == 0 { b'1' } else { b'0' };
    let positions = || text.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
    let mut digits: Vec<Digit> = positions()
        .map(|(index, byte)| {
            let low = lowest(index);
            Digit { rank: u32::from(byte - low), radix: u32::from(b'9' - low) + 1 }
        })
        .collect();
    cipher.permute_digits(Purpose::Number, &mut digits);
    let begin = out.len();
    out.extend_from_slice(text);
    for ((index, _), digit) in positions().zip(digits) {
        out[begin + index] = lowest(index) + digit.rank as u8;
    }
}

/// Appends the replacement of a date, a time or both; the zone is kept. False if it is invalid.
pub fn mask_time(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let is_masked = mask_moment(cipher, text, out).is_some();
    if !is_masked {
        out.truncate(begin);
    }
    is_masked
}

fn mask_moment(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    if text.get(4) == Some(&b'-') {
        date(cipher, text.get(..10)?, out)?;
        rest = &text[10..];
        if rest.is_empty() {
            return Some(());
        }
        let (&between, behind) = rest.split_first()?;
        matches!(between, b' ' | b'T').then_some(())?;
        out.push(between);
        rest = behind;
    }
    let zone = time(cipher, rest, out)?;
    is_zone(zone).then(|| out.extend_from_slice(zone))
}

/// `2024-02-29`: the year is kept, the day in it changes.
fn date(cipher: &Cipher, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (year, month, day) = (figure(text, 0, 4)?, figure(text, 5, 2)?, figure(text, 8, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get((month as usize).checked_sub(1)?)?;
    let is_date = text[4] == b'-' && text[7] == b'-' && (1..=length).contains(&day);
    is_date.then_some(())?;
    let before: u64 = lengths[..month as usize - 1].iter().sum();
    let days = if is_leap { 366 } else { 365 };
    let (mut left, mut month) = (cipher.permute(Purpose::Day, days, before + day - 1), 0);
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    out.extend_from_slice(&text[..5]);
    out.extend_from_slice(format!("{:02}-{:02}", month + 1, left + 1).as_bytes());
    Some(())
}

/// `12:34`, `12:34:56`, `12:34:56.789`; returns the rest.
fn time<'a>(cipher: &Cipher, text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (hour, minute) = (figure(text, 0, 2)?, figure(text, 3, 2)?);
    let is_time = text[2] == b':' && hour < 24 && minute < 60;
    is_time.then_some(())?;
    let second = text.get(5).filter(|&&byte| byte == b':').and_then(|_| figure(text, 6, 2));
    let Some(second) = second.filter(|&second| second < 60) else {
        let masked = cipher.permute(Purpose::Time, 24 * 60, hour * 60 + minute);
        out.extend_from_slice(format!("{:02}:{:02}", masked / 60, masked % 60).as_bytes());
        return Some(&text[5..]);
    };
    let masked = cipher.permute(Purpose::Time, 86_400, (hour * 60 + minute) * 60 + second);
    let (hour, minute, second) = (masked / 3_600, masked / 60 % 60, masked % 60);
    out.extend_from_slice(format!("{hour:02}:{minute:02}:{second:02}").as_bytes());
    let rest = &text[8..];
    let parts = match rest.first() {
        Some(b'.') => 1 + digits_in(&rest[1..]),
        _ => 0,
    };
    let mut digits: Vec<Digit> = rest[..parts]
        .iter()
        .skip(1)
        .map(|byte| Digit { rank: u32::from(byte - b'0'), radix: 10 })
        .collect();
    cipher.permute_digits(Purpose::Time, &mut digits);
    out.extend_from_slice(&rest[..parts.min(1)]);
    out.extend(digits.iter().map(|digit| b'0' + digit.rank as u8));
    Some(&rest[parts..])
}

/// `+02`, `-05:30`, `Z`, ` UTC`, ` Europe/Berlin`, ` BC`, ` PM` or nothing. Another word is data.
fn is_zone(text: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'/' | b'_');
    match text {
        [] | b"Z" | b"z" => true,
        [b' ', name @ ..] => match name.iter().position(|&byte| byte == b'/') {
            Some(end) => is_one_of(&name[..end], &AREAS) && name.iter().all(is_of_name),
            None => is_one_of(name, &ZONES),
        },
        [b'+' | b'-', figures @ ..] => {
            let is_of_zone = |byte: &u8| byte.is_ascii_digit() || *byte == b':';
            (2..=8).contains(&figures.len()) && figures.iter().all(is_of_zone)
        }
        _ => false,
    }
}

/// A number of fixed width.
fn figure(text: &[u8], at: usize, width: usize) -> Option<u64> {
    let digits = text.get(at..at + width)?;
    digits
        .iter()
        .all(u8::is_ascii_digit)
        .then(|| digits.iter().fold(0, |value, &digit| value * 10 + u64::from(digit - b'0')))
}
