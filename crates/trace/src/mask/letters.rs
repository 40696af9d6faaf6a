//! Characters and their stand-ins: each is replaced within its own script and case.

use super::cipher::{Cipher, Digit, Purpose};

/// Ranges of letters or digits that can replace each other. All characters of a range have the same
/// length in UTF-8.
const BLOCKS: [(u32, u32); 22] = [
    (0x61, 0x7a),
    (0x41, 0x5a),
    (0x30, 0x39),
    (0xe0, 0xf6),
    (0xf8, 0xff),
    (0xc0, 0xd6),
    (0xd8, 0xde),
    LATIN,
    (0x3b1, 0x3c9),
    (0x391, 0x3a1),
    (0x3a3, 0x3a9),
    (0x430, 0x44f),
    (0x410, 0x42f),
    (0x5d0, 0x5ea),
    (0x627, 0x64a),
    (0x905, 0x939),
    (0xe01, 0xe2e),
    (0x3041, 0x3096),
    (0x30a1, 0x30fa),
    (0xac00, 0xd7a3),
    HAN,
    HAN_RARE,
];

/// Letters that have no meaning behind a backslash: not in a string, JSON, or a regular expression.
const NO_ESCAPES: [(u32, u32); 4] = [(0x67, 0x6c), (0x6f, 0x71), (0x45, 0x4c), (0x4e, 0x52)];

/// Replaces letters of two bytes outside of the blocks.
const LATIN: (u32, u32) = (0x100, 0x17f);

/// Replaces letters of three bytes outside of the blocks.
const HAN: (u32, u32) = (0x4e00, 0x9fa5);

/// Replaces letters of four bytes outside of the blocks.
const HAN_RARE: (u32, u32) = (0x20000, 0x2a6d6);

/// Bytes of characters in other encodings than UTF-8. Those of EUC are among the latter; what is
/// beyond them counts as one of them.
const HIGH_BYTES: [(u8, u8); 2] = [(0x80, 0xa0), (0xa1, 0xfe)];

/// A piece of a text.
#[derive(Debug, Clone, Copy)]
pub enum TextPiece {
    /// Kept.
    Kept(char),
    /// Replaced by another letter of the block that begins here.
    Letter(u32, Digit),
    /// A byte of another encoding, replaced by another of the block that begins here.
    Byte(u8, Digit),
}

impl TextPiece {
    /// A character, replaced if it is a letter or a digit.
    pub fn of(character: char) -> TextPiece {
        let (first, last) = match block_of(character, &BLOCKS) {
            Some(block) => block,
            None if !character.is_alphanumeric() => return TextPiece::Kept(character),
            None => match character.len_utf8() {
                2 => LATIN,
                3 => HAN,
                _ => HAN_RARE,
            },
        };
        TextPiece::letter(character, (first, last))
    }

    /// A character behind a backslash: kept where it may determine the meaning.
    fn escaped(character: char) -> TextPiece {
        match block_of(character, &NO_ESCAPES) {
            Some(block) => TextPiece::letter(character, block),
            None if character.is_ascii() => TextPiece::Kept(character),
            None => TextPiece::of(character),
        }
    }

    fn letter(character: char, (first, last): (u32, u32)) -> TextPiece {
        let radix = last - first + 1;
        // Of a letter outside its block only the remainder counts: two such may fall together.
        let rank = (character as u32).wrapping_sub(first) % radix;
        TextPiece::Letter(first, Digit { rank, radix })
    }

    fn of_byte(byte: u8) -> TextPiece {
        let [low, high] = HIGH_BYTES;
        let (first, last) = if byte <= low.1 { low } else { high };
        let radix = u32::from(last - first) + 1;
        TextPiece::Byte(first, Digit { rank: u32::from(byte - first) % radix, radix })
    }

    fn digit(&mut self) -> Option<&mut Digit> {
        match self {
            TextPiece::Letter(_, digit) | TextPiece::Byte(_, digit) => Some(digit),
            TextPiece::Kept(_) => None,
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        let mut put = |character: char| {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        };
        match self {
            TextPiece::Kept(character) => put(character),
            // Every number in a block is a character.
            TextPiece::Letter(first, digit) => {
                put(char::from_u32(first + digit.rank).unwrap_or('x'))
            }
            TextPiece::Byte(first, digit) => out.push(first + digit.rank as u8),
        }
    }
}

fn block_of(character: char, blocks: &[(u32, u32)]) -> Option<(u32, u32)> {
    let code = character as u32;
    blocks.iter().copied().find(|&(first, last)| (first..=last).contains(&code))
}

/// The pieces of a text. In a text that is not UTF-8, no part of it is: two bytes of another
/// encoding can look like a character.
pub fn pieces(text: &[u8]) -> Vec<TextPiece> {
    let mut pieces = Vec::with_capacity(text.len());
    if let Ok(text) = std::str::from_utf8(text) {
        append_pieces(text, &mut pieces);
        return pieces;
    }
    for part in text.chunk_by(|one, other| one.is_ascii() == other.is_ascii()) {
        match std::str::from_utf8(part) {
            Ok(part) if part.is_ascii() => append_pieces(part, &mut pieces),
            _ => pieces.extend(part.iter().map(|&byte| TextPiece::of_byte(byte))),
        }
    }
    pieces
}

/// Appends the pieces of a text in UTF-8. A character after a backslash is kept if it may determine
/// the meaning; the code of a character (`\u0041`, `\x41`, `\101`) becomes that of an X.
fn append_pieces(text: &str, pieces: &mut Vec<TextPiece>) {
    let mut rest = text;
    while let Some(backslash) = rest.find('\\') {
        pieces.extend(rest[..backslash].chars().map(TextPiece::of));
        let escaped = &rest[backslash + 1..];
        let (kept, length) = escape(escaped);
        pieces.push(TextPiece::Kept('\\'));
        pieces.extend(kept.chars().map(TextPiece::escaped));
        rest = &escaped[length..];
    }
    pieces.extend(rest.chars().map(TextPiece::of));
}

/// Returns the replacement of an escape, given the text behind its backslash, and its length.
fn escape(text: &str) -> (&str, usize) {
    let digits = |from: usize, most: usize, radix: u32| {
        let digits = text.get(from..).unwrap_or_default().chars().take(most);
        digits.take_while(|digit| digit.is_digit(radix)).count()
    };
    match text.chars().next() {
        Some('u') if digits(1, 4, 16) == 4 => ("u0058", 5),
        Some('U') if digits(1, 8, 16) == 8 => ("U00000058", 9),
        Some('x') if digits(1, 2, 16) == 2 => ("x58", 3),
        Some('x') if digits(1, 2, 16) == 1 => ("x8", 2),
        Some('0'..='7') if digits(0, 3, 8) == 3 => ("130", 3),
        Some(escaped) => (&text[..escaped.len_utf8()], escaped.len_utf8()),
        None => ("", 0),
    }
}

/// Appends the replacement of pieces that are one value.
pub fn mask(cipher: &Cipher, mut pieces: Vec<TextPiece>, out: &mut Vec<u8>) {
    let mut digits: Vec<Digit> =
        pieces.iter_mut().filter_map(TextPiece::digit).map(|digit| *digit).collect();
    cipher.permute_digits(Purpose::Letters, &mut digits);
    let originals = pieces.iter_mut().filter_map(TextPiece::digit);
    originals.zip(&digits).for_each(|(original, &digit)| *original = digit);
    pieces.into_iter().for_each(|piece| piece.put(out));
}

/// Masks hexadecimal text, except for `is_kept`; case and length stay.
pub fn mask_hex(cipher: &Cipher, text: &[u8], is_kept: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    let is_masked = |&(index, byte): &(usize, &u8)| byte.is_ascii_hexdigit() && !is_kept(index);
    let rank = |byte: u8| (byte as char).to_digit(16).unwrap_or(0);
    let masked = || text.iter().enumerate().filter(is_masked);
    let mut digits: Vec<Digit> =
        masked().map(|(_, &byte)| Digit { rank: rank(byte), radix: 16 }).collect();
    cipher.permute_digits(Purpose::Letters, &mut digits);
    let is_upper = text.iter().any(|byte| (b'A'..=b'F').contains(byte));
    let alphabet = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let begin = out.len();
    out.extend_from_slice(text);
    for ((index, _), digit) in masked().zip(digits) {
        out[begin + index] = alphabet[digit.rank as usize];
    }
}
