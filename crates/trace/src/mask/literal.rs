//! The quotes, escapes and comments around a value.

use seatrial_sqltext::lexer::form::is_constant;

use super::cipher::{Digit, Purpose};
use super::letters::{self, mask_hex};
use super::treatment::Treatment;
use super::{Mask, number, value};

/// Appends the replacement of a literal or a comment, in SQL notation.
pub fn mask(mask: &Mask, literal: &[u8], treatment: Treatment, out: &mut Vec<u8>) {
    let is_kept = match treatment {
        Treatment::Kept => true,
        Treatment::KeptNumber => matches!(literal, [b'-' | b'.' | b'0'..=b'9', ..]),
        Treatment::Masked | Treatment::Code => false,
    };
    match literal {
        _ if is_kept || is_constant(literal) => out.extend_from_slice(literal),
        [b'-', b'-', ..] | [b'/', b'*', ..] => {
            letters::mask(&mask.cipher, letters::pieces(literal), out);
        }
        [b'$', ..] => between_dollars(mask, literal, treatment, out),
        [b'-' | b'.' | b'0'..=b'9', ..] => {
            if !number::mask(&mask.cipher, literal, out) {
                other_number(mask, literal, out);
            }
        }
        _ => in_quotes(mask, literal, out),
    }
}

/// `0x1F`, `0o17`, `0b11`, `1_000`: all but the base's letter and the underscores.
fn other_number(mask: &Mask, literal: &[u8], out: &mut Vec<u8>) {
    let sign = literal.iter().take_while(|byte| !byte.is_ascii_digit() && **byte != b'.').count();
    let (sign, unsigned) = literal.split_at(sign);
    let (base, radix) = match unsigned.get(1) {
        Some(b'x' | b'X') => (2, 16),
        Some(b'o' | b'O') => (2, 8),
        Some(b'b' | b'B') => (2, 2),
        _ => (0, 10),
    };
    let (base, digits) = unsigned.split_at(base);
    out.extend_from_slice(sign);
    out.extend_from_slice(base);
    if radix == 16 {
        mask_hex(&mask.cipher, digits, |_| false, out);
    } else {
        mask_digits(mask, digits, radix, out);
    }
}

/// Digits up to an exponent, in a base up to ten.
fn mask_digits(mask: &Mask, text: &[u8], radix: u32, out: &mut Vec<u8>) {
    let length = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
    let rank = |byte: u8| u32::from(byte.wrapping_sub(b'0'));
    let is_digit = |byte: &&u8| rank(**byte) < radix;
    let mut digits: Vec<Digit> = text[..length]
        .iter()
        .filter(is_digit)
        .map(|&byte| Digit { rank: rank(byte), radix })
        .collect();
    mask.cipher.permute_digits(Purpose::Number, &mut digits);
    let begin = out.len();
    out.extend_from_slice(text);
    let bytes = out[begin..begin + length].iter_mut().filter(|byte| rank(**byte) < radix);
    bytes.zip(digits).for_each(|(byte, digit)| *byte = b'0' + digit.rank as u8);
}

/// A string in single quotes, or another literal that a form could not contain.
fn in_quotes(mask: &Mask, literal: &[u8], out: &mut Vec<u8>) {
    let quote = memchr::memchr(b'\'', literal).filter(|&prefix| prefix <= 2);
    let Some(quote) = quote else { return out.extend_from_slice(literal) };
    let (prefix, quoted) = literal.split_at(quote + 1);
    let content = quoted.strip_suffix(b"'").unwrap_or(quoted);
    out.extend_from_slice(prefix);
    match prefix[0] {
        b'b' | b'B' => mask_digits(mask, content, 2, out),
        b'x' | b'X' => mask_hex(&mask.cipher, content, |_| false, out),
        _ => value::mask(&mask.cipher, content, out),
    }
    out.extend_from_slice(&quoted[content.len()..]);
}

/// `$tag$ ... $tag$`, which has to end at the same position.
fn between_dollars(mask: &Mask, literal: &[u8], treatment: Treatment, out: &mut Vec<u8>) {
    let tag = memchr::memchr(b'$', &literal[1..]).map_or(literal.len(), |found| found + 2);
    let (tag, inside) = literal.split_at(tag.min(literal.len()));
    let end = memchr::memmem::find(inside, tag);
    let content = &inside[..end.unwrap_or(inside.len())];
    out.extend_from_slice(tag);
    let begin = out.len();
    if treatment == Treatment::Code {
        out.extend(mask.statement(content));
    } else {
        value::mask(&mask.cipher, content, out);
    }
    let content_end = out.len();
    out.extend_from_slice(&inside[content.len()..]);
    if memchr::memmem::find(&out[begin..], tag) != end {
        let dollars = out[begin..content_end].iter_mut().filter(|byte| **byte == b'$');
        dollars.for_each(|byte| *byte = b'_');
    }
}
