//! Types of parameters, where a server cannot find them by itself.
//!
//! A log does not tell the types that a client gave its parameters. Almost always the server finds
//! them: in `a = $1`, that of `a`. In `$1 is null`, and as an argument of a function that takes any
//! type, there is nothing to find them by, and it refuses the statement (42P18); yet clients that
//! name all types (pgjdbc, and all that stands on it) write `$1 is null or a = $2` a lot. There a
//! parameter is given one: text will do for IS NULL and for what makes a text of it. Where it
//! matters, a parameter whose value is a whole number is a bigint, and any other a text. That is
//! a guess; where it is wrong, the server says so, and the error counts as new.

use seatrial_sqltext::lexer;
use seatrial_sqltext::lexer::token::{Kind, Token};

const UNTOLD: u32 = 0;
const BIGINT: u32 = 20;
const TEXT: u32 = 25;

/// Digits that fit into a bigint, whatever they are.
const DIGITS_MAX: usize = 18;

/// Functions that take arguments of any type and make a text of them, or only count.
const TEXTUAL: [&str; 5] = ["concat", "concat_ws", "format", "num_nulls", "num_nonnulls"];

/// Functions that take arguments of any type, and what becomes of these depends on it.
const TYPED: [&str; 6] = [
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "to_json",
    "to_jsonb",
];

/// What may stand before a parameter that is on its own.
const BEFORE: [&str; 8] = ["and", "having", "not", "on", "or", "select", "when", "where"];

/// What the places of a parameter tell of its type, as far as the server reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Places {
    /// It has none yet.
    #[default]
    Unseen,
    /// The server finds it.
    Found,
    /// Nothing, and it does not matter.
    Text,
    /// Nothing, and it matters.
    Value,
}

/// The types that the server is to be told, in the order of the parameters; 0 where it finds it.
pub fn types(sql: &[u8], parameters: &[Option<Vec<u8>>]) -> Vec<u32> {
    if parameters.is_empty() {
        return Vec::new();
    }
    let places = places(&lexer::significant(sql), parameters.len());
    let told = |(place, value): (&Places, &Option<Vec<u8>>)| match place {
        Places::Unseen | Places::Found => UNTOLD,
        Places::Value if value.as_deref().is_some_and(is_whole_number) => BIGINT,
        Places::Text | Places::Value => TEXT,
    };
    let mut types: Vec<u32> = places.iter().zip(parameters).map(told).collect();
    let told = types.iter().rposition(|&told| told != UNTOLD).map_or(0, |last| last + 1);
    types.truncate(told);
    types
}

fn places(tokens: &[Token<'_>], count: usize) -> Vec<Places> {
    let mut places = vec![Places::Unseen; count];
    // For each parenthesis that is open, what it tells of an argument right in it.
    let mut calls = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.is_sign("(") {
            calls.push(index.checked_sub(1).map_or(Places::Found, |before| call(&tokens[before])));
        } else if token.is_sign(")") {
            calls.pop();
        } else if token.kind == Kind::Parameter {
            let within = calls.last().copied().unwrap_or(Places::Found);
            if let Some(known) = number(token).and_then(|number| places.get_mut(number)) {
                *known = together(*known, place(&tokens[..index], &tokens[index + 1..], within));
            }
        }
    }
    places
}

/// What several places tell. The server wants the type at the first; what it finds later must be
/// the same.
fn together(before: Places, here: Places) -> Places {
    match (before, here) {
        (Places::Unseen, here) => here,
        (Places::Found, _) => Places::Found,
        (Places::Text, Places::Text) => Places::Text,
        _ => Places::Value,
    }
}

/// What one place tells.
fn place(before: &[Token<'_>], behind: &[Token<'_>], within: Places) -> Places {
    let is_alone = before
        .last()
        .is_none_or(|token| token.is_sign("(") || token.is_sign(",") || token.is_one_of(&BEFORE));
    let is_argument = behind.first().is_some_and(|next| next.is_sign(",") || next.is_sign(")"));
    match () {
        () if is_alone && is_null(behind) => Places::Text,
        () if is_alone && is_argument => within,
        () => Places::Found,
    }
}

/// Whether IS NULL, IS NOT NULL or their short forms come next.
fn is_null(behind: &[Token<'_>]) -> bool {
    match behind {
        [short, ..] if short.is_one_of(&["isnull", "notnull"]) => true,
        [is, null, ..] if is.is_word("is") && null.is_word("null") => true,
        [is, not, null, ..] => is.is_word("is") && not.is_word("not") && null.is_word("null"),
        _ => false,
    }
}

/// What a function tells of its arguments.
fn call(name: &Token<'_>) -> Places {
    if name.is_one_of(&TEXTUAL) {
        Places::Text
    } else if name.is_one_of(&TYPED) {
        Places::Value
    } else {
        Places::Found
    }
}

/// The place of `$1` among the parameters, from 0.
fn number(parameter: &Token<'_>) -> Option<usize> {
    let digits = std::str::from_utf8(parameter.text.get(1..)?).ok()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// Whether it is a whole number, written as a bigint would be.
fn is_whole_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    (1..=DIGITS_MAX).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
        && (digits[0] != b'0' || value == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_told_only_where_the_server_cannot_find_it() {
        let cases: [(&str, &[u32]); 15] = [
            ("select * from t where a = $1 and b = $2", &[]),
            ("select * from t where ($1 is null or a = $2)", &[TEXT]),
            ("select * from t where a = $2 AND $1 IS NOT NULL", &[TEXT]),
            ("select $1 notnull, $2 isnull", &[TEXT, TEXT]),
            ("select a = $1 is null", &[]),
            ("select $1::int is null", &[]),
            ("select cast($1 as int) is null, $2 is distinct from a", &[]),
            ("select * from t where a = $1 or $1 is null", &[]),
            ("select * from t where $1 is null or a = $1", &[BIGINT]),
            ("select * from t where $2 is null or a = $2", &[UNTOLD, TEXT]),
            ("select concat(a, $1, 'x', $2)", &[TEXT, TEXT]),
            ("select concat(a, f($1), $2 || 'x')", &[]),
            ("select jsonb_build_object('a', $1, 'b', $2)", &[BIGINT, TEXT]),
            ("select '$1 is null', f($1, $2) -- $1 is null", &[]),
            ("insert into t values ($1, $2, $3)", &[]),
        ];
        let parameters = [Some(b"7".to_vec()), Some(b"seven".to_vec())];
        for (sql, expected) in cases {
            assert_eq!(types(sql.as_bytes(), &parameters), expected, "{sql}");
        }
        assert!(types(b"select $1 is null", &[]).is_empty());
    }

    #[test]
    fn a_whole_number_is_one_that_comes_back_as_it_was() {
        for value in ["0", "7", "-7", "123456789012345678"] {
            assert!(is_whole_number(value.as_bytes()), "{value}");
        }
        for value in ["", "-", "007", "-0", "1.0", "+1", "1234567890123456789", "seven"] {
            assert!(!is_whole_number(value.as_bytes()), "{value}");
        }
    }
}
