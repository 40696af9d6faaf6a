//! Characters and their stand-ins: each is replaced within its own script and case.

use super::cipher::{Cipher, Digit, Purpose};

/// First and last of the letters or digits that can replace each other. All of a row have the same
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

/// Stands in for letters of two bytes that are in no block.
const LATIN: (u32, u32) = (0x100, 0x17f);

/// Stands in for letters of three bytes that are in no block.
const HAN: (u32, u32) = (0x4e00, 0x9fa5);

/// Stands in for letters of four bytes that are in no block.
const HAN_RARE: (u32, u32) = (0x20000, 0x2a6d6);

/// Bytes that begin letters in single-byte encodings.
const HIGH_BYTES: (u32, u32) = (0xc0, 0xff);

/// A piece of a text.
#[derive(Debug, Clone, Copy)]
pub enum Piece {
    /// Stays as it is.
    Kept(char),
    /// Stays as it is.
    KeptByte(u8),
    /// Replaced by another of the block that begins here.
    Letter(u32, Digit),
    /// A byte that is no UTF-8, replaced by another.
    Byte(Digit),
}

impl Piece {
    /// A character, which is replaced if it is a letter or a digit.
    pub fn of(character: char) -> Piece {
        let code = character as u32;
        let is_in = |&&(first, last): &&(u32, u32)| (first..=last).contains(&code);
        let (first, last) = match BLOCKS.iter().find(is_in) {
            Some(&block) => block,
            None if !character.is_alphanumeric() => return Piece::Kept(character),
            None => match character.len_utf8() {
                2 => LATIN,
                3 => HAN,
                _ => HAN_RARE,
            },
        };
        let radix = last - first + 1;
        // Of a letter outside its block only the remainder counts: two such may fall together.
        Piece::Letter(first, Digit { rank: code.wrapping_sub(first) % radix, radix })
    }

    fn of_byte(byte: u8) -> Piece {
        let (first, last) = HIGH_BYTES;
        match u32::from(byte).checked_sub(first) {
            Some(rank) => Piece::Byte(Digit { rank, radix: last - first + 1 }),
            None => Piece::KeptByte(byte),
        }
    }

    fn digit(&mut self) -> Option<&mut Digit> {
        match self {
            Piece::Letter(_, digit) | Piece::Byte(digit) => Some(digit),
            Piece::Kept(_) | Piece::KeptByte(_) => None,
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        let mut put = |character: char| {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        };
        match self {
            Piece::Kept(character) => put(character),
            Piece::KeptByte(byte) => out.push(byte),
            // Every number in a block is a character.
            Piece::Letter(first, digit) => put(char::from_u32(first + digit.rank).unwrap_or('x')),
            Piece::Byte(digit) => out.push((HIGH_BYTES.0 + digit.rank) as u8),
        }
    }
}

/// The pieces of a text. What follows a backslash is kept, because it may say what that one means;
/// the code of a character (`\u0041`, `\x41`, `\101`) becomes that of an X.
pub fn pieces(text: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(backslash) = rest.find('\\') {
            pieces.extend(rest[..backslash].chars().map(Piece::of));
            let escaped = &rest[backslash + 1..];
            let (kept, length) = escape(escaped);
            pieces.push(Piece::Kept('\\'));
            pieces.extend(kept.chars().map(Piece::Kept));
            rest = &escaped[length..];
        }
        pieces.extend(rest.chars().map(Piece::of));
        pieces.extend(chunk.invalid().iter().map(|&byte| Piece::of_byte(byte)));
    }
    pieces
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

/// Appends the stand-in of pieces that together are one value.
pub fn mask(cipher: &Cipher, mut pieces: Vec<Piece>, out: &mut Vec<u8>) {
    let mut digits: Vec<Digit> =
        pieces.iter_mut().filter_map(Piece::digit).map(|digit| *digit).collect();
    cipher.permute_digits(Purpose::Letters, &mut digits);
    let places = pieces.iter_mut().filter_map(Piece::digit);
    places.zip(&digits).for_each(|(place, &digit)| *place = digit);
    pieces.into_iter().for_each(|piece| piece.put(out));
}

/// Pieces of text in hexadecimal, of which `is_kept` stay; case and length do.
pub fn mask_hex(cipher: &Cipher, text: &[u8], is_kept: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
    let is_masked = |&(place, byte): &(usize, &u8)| byte.is_ascii_hexdigit() && !is_kept(place);
    let rank = |byte: u8| (byte as char).to_digit(16).unwrap_or(0);
    let masked = || text.iter().enumerate().filter(is_masked);
    let mut digits: Vec<Digit> =
        masked().map(|(_, &byte)| Digit { rank: rank(byte), radix: 16 }).collect();
    cipher.permute_digits(Purpose::Letters, &mut digits);
    let is_upper = text.iter().any(|byte| (b'A'..=b'F').contains(byte));
    let alphabet = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let begin = out.len();
    out.extend_from_slice(text);
    for ((place, _), digit) in masked().zip(digits) {
        out[begin + place] = alphabet[digit.rank as usize];
    }
}
