//! Phrases at a place of a statement: optional words, parentheses, qualified names.

use super::name::name;
use super::token::Token;

/// The place behind any of these words.
pub fn passed<'a, T: AsRef<Token<'a>>>(tokens: &[T], from: usize, words: &[&str]) -> usize {
    let rest = tokens.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|token| token.as_ref().is_one_of(words)).count()
}

/// Where the parenthesis at a place is closed; the end of the tokens where it is not.
pub fn closing<'a, T: AsRef<Token<'a>>>(tokens: &[T], open: usize) -> usize {
    let mut depth = 0u32;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        depth += u32::from(token.as_ref().is_sign("("));
        depth -= u32::from(token.as_ref().is_sign(")"));
        if depth == 0 {
            return place;
        }
    }
    tokens.len()
}

/// The parts of the name at a place, as far as they are names, and the place behind it and a star.
pub fn qualified<'a, T: AsRef<Token<'a>>>(tokens: &[T], mut place: usize) -> (Vec<Vec<u8>>, usize) {
    let at = |place: usize| tokens.get(place).map(AsRef::as_ref);
    let mut parts = Vec::new();
    while let Some(part) = at(place).and_then(name) {
        parts.push(part);
        place += 1;
        if !at(place).is_some_and(|token| token.is_sign(".")) {
            break;
        }
        place += 1;
    }
    let is_star = at(place).is_some_and(|token| token.text == b"*");
    (parts, (place + usize::from(is_star)).min(tokens.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::significant;

    #[test]
    fn a_name_has_its_parts_and_an_end() {
        let cases = [
            ("a", &["a"][..], 1),
            ("S.\"a\"\"B\" x", &["s", "a\"B"], 3),
            ("a * , b", &["a"], 2),
            ("a.", &["a"], 2),
            ("a.*", &["a"], 3),
            ("'a'", &[], 0),
            ("", &[], 0),
        ];
        for (sql, parts, behind) in cases {
            let parts = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
            assert_eq!(qualified(&significant(sql.as_bytes()), 0), (parts, behind), "{sql}");
        }
    }

    #[test]
    fn words_are_passed_and_parentheses_closed() {
        let tokens = significant(b"drop table if EXISTS (a, (b)) c");
        assert_eq!(passed(&tokens, 2, &["if", "not", "exists"]), 4);
        assert_eq!(passed(&tokens, 99, &["if"]), 99);
        assert_eq!((closing(&tokens, 4), closing(&tokens, 7)), (10, 9));
        assert_eq!(closing(&significant(b"(a"), 0), 2);
    }
}
