//! `numeric_send`: digits of base 10,000, how many stand before the point, sign, digits behind it.

use std::io::Write;

const DIGIT: usize = 4;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITE: u16 = 0xD000;
const NEGATIVE_INFINITE: u16 = 0xF000;

pub fn text(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (head, digits) = value.split_first_chunk::<8>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight, sign, scale) = (word(0), word(2) as i16, word(4), word(6));
    match sign {
        NAN => out.extend_from_slice(b"NaN"),
        INFINITE => out.extend_from_slice(b"Infinity"),
        NEGATIVE_INFINITE => out.extend_from_slice(b"-Infinity"),
        0 | NEGATIVE => {
            if digits.len() != usize::from(count) * 2 {
                return None;
            }
            out.extend(std::iter::repeat_n(b'-', usize::from(sign == NEGATIVE)));
            finite(digits, weight, usize::from(scale), out);
        }
        _ => return None,
    }
    Some(())
}

fn finite(digits: &[u8], weight: i16, scale: usize, out: &mut Vec<u8>) {
    // The digit that counts 10,000 to the power of `exponent`.
    let digit = |exponent: i32| {
        let index = usize::try_from(i32::from(weight) - exponent).ok().map(|index| index * 2);
        let bytes = index.and_then(|index| digits.get(index..index + 2));
        bytes.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{}", digit(i32::from(weight).max(0)));
    for exponent in (0..i32::from(weight).max(0)).rev() {
        let _ = write!(out, "{:04}", digit(exponent));
    }
    if scale == 0 {
        return;
    }
    out.push(b'.');
    let begin = out.len();
    for exponent in 1..=scale.div_ceil(DIGIT) as i32 {
        let _ = write!(out, "{:04}", digit(-exponent));
    }
    out.truncate(begin + scale);
}
