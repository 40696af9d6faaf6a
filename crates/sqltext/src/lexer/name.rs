//! The name of a token, as PostgreSQL folds it, and the content of a string: the only code that
//! reads quotes.

use super::token::{Kind, Token};

/// The name of a token; `None` where it is not a name.
///
/// Source: the PostgreSQL manual, "Identifiers and Key Words": without quotes a name is folded to
/// lower case; within quotes a double quote is written twice.
pub fn name(token: &Token<'_>) -> Option<Vec<u8>> {
    match token.kind {
        Kind::Word => Some(token.text.to_ascii_lowercase()),
        Kind::QuotedName => {
            let inside = token.text.splitn(2, |&byte| byte == b'"').nth(1)?;
            Some(undoubled(inside.strip_suffix(b"\"").unwrap_or(inside), b'"'))
        }
        _ => None,
    }
}

/// A text in which a quote that is written twice is one.
fn undoubled(text: &[u8], quote: u8) -> Vec<u8> {
    let mut once = Vec::with_capacity(text.len());
    let mut is_second = false;
    for &byte in text {
        is_second = byte == quote && !is_second;
        if byte != quote || is_second {
            once.push(byte);
        }
    }
    once
}

/// What is between a literal's quotes.
pub fn unquoted(text: &[u8]) -> Vec<u8> {
    if text.first() == Some(&b'$') {
        let tag = text[1..].iter().position(|&byte| byte == b'$').map_or(text.len(), |at| at + 2);
        let (tag, inside) = text.split_at(tag.min(text.len()));
        return inside.strip_suffix(tag).unwrap_or(inside).to_vec();
    }
    let inside = text.splitn(2, |&byte| byte == b'\'').nth(1).unwrap_or_default();
    undoubled(inside.strip_suffix(b"'").unwrap_or(inside), b'\'')
}
