//! Phrases within a statement: optional words, parentheses, qualified names.

use super::name::name;
use super::token::Token;

/// The index behind any of these words.
pub fn passed<'a, T: AsRef<Token<'a>>>(tokens: &[T], from: usize, words: &[&str]) -> usize {
    let rest = tokens.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|token| token.as_ref().is_one_of(words)).count()
}

/// The index of the closing parenthesis; the end of the tokens without one.
pub fn closing<'a, T: AsRef<Token<'a>>>(tokens: &[T], open: usize) -> usize {
    let mut depth = 0u32;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        depth += u32::from(token.as_ref().is_sign("("));
        depth -= u32::from(token.as_ref().is_sign(")"));
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

/// The parts of the name at an index, and the index behind it and a star.
pub fn qualified<'a, T: AsRef<Token<'a>>>(tokens: &[T], mut index: usize) -> (Vec<Vec<u8>>, usize) {
    let at = |index: usize| tokens.get(index).map(AsRef::as_ref);
    let mut parts = Vec::new();
    while let Some(part) = at(index).and_then(name) {
        parts.push(part);
        index += 1;
        if !at(index).is_some_and(|token| token.is_sign(".")) {
            break;
        }
        index += 1;
    }
    let is_star = at(index).is_some_and(|token| token.text == b"*");
    (parts, (index + usize::from(is_star)).min(tokens.len()))
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
