//! Types of parameters that a server cannot infer.
//!
//! A log does not contain the types that a client gave its parameters; a capture on the wire does.
//! Almost always the server
//! infers them: in `a = $1`, that of `a`. In `$1 is null`, and as an argument of a function with an
//! argument of any type, it cannot, and refuses the statement (42P18); yet clients that specify all
//! types (pgjdbc, and everything based on it) often write `$1 is null or a = $2`. Such a parameter
//! gets a type here: text suffices for IS NULL and for functions that convert it to text. Where it
//! matters, a parameter whose value is an integer is a bigint, and any other a text. That is a
//! guess; if it is wrong, the server reports an error, which counts as new, or plans otherwise.

use seatrial_sqltext::lexer;
use seatrial_sqltext::lexer::token::{Kind, Token};

const UNREPORTED: u32 = 0;
const BIGINT: u32 = 20;
const TEXT: u32 = 25;

/// Number of digits that always fit into a bigint.
const DIGITS_MAX: usize = 18;

/// Functions with arguments of any type that convert them to text, or only count them.
const TEXTUAL: [&str; 5] = ["concat", "concat_ws", "format", "num_nulls", "num_nonnulls"];

/// Functions with arguments of any type whose result depends on that type.
const TYPED: [&str; 6] = [
    "json_build_array",
    "json_build_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "to_json",
    "to_jsonb",
];

/// What may precede a parameter that is an operand of its own.
const BEFORE: [&str; 8] = ["and", "having", "not", "on", "or", "select", "when", "where"];

/// What the uses of a parameter show of its type, as far as the server reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParameterUse {
    /// No use so far.
    #[default]
    Unseen,
    /// The server infers it.
    Found,
    /// The type is unknown, and does not matter.
    Text,
    /// The type is unknown, and matters.
    Value,
}

/// The types that the captured client declared, as the trace has them.
pub fn declared(types: &[u8]) -> Vec<u32> {
    let number = |one: &[u8]| std::str::from_utf8(one).ok()?.parse().ok();
    types.split(|&byte| byte == b' ').filter_map(number).collect()
}

/// The types to specify, in the order of the parameters; 0 for inferred ones.
pub fn types(sql: &[u8], parameters: &[Option<Vec<u8>>]) -> Vec<u32> {
    if parameters.is_empty() {
        return Vec::new();
    }
    let uses = parameter_uses(&lexer::significant(sql), parameters.len());
    let type_of = |(parameter_use, value): (&ParameterUse, &Option<Vec<u8>>)| match parameter_use {
        ParameterUse::Unseen | ParameterUse::Found => UNREPORTED,
        ParameterUse::Value if value.as_deref().is_some_and(is_whole_number) => BIGINT,
        ParameterUse::Text | ParameterUse::Value => TEXT,
    };
    let mut types: Vec<u32> = uses.iter().zip(parameters).map(type_of).collect();
    let length = types.iter().rposition(|&oid| oid != UNREPORTED).map_or(0, |last| last + 1);
    types.truncate(length);
    types
}

fn parameter_uses(tokens: &[Token<'_>], count: usize) -> Vec<ParameterUse> {
    let mut uses = vec![ParameterUse::Unseen; count];
    // For each open parenthesis, what it shows of an argument directly in it.
    let mut calls = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.is_sign("(") {
            calls.push(
                index.checked_sub(1).map_or(ParameterUse::Found, |before| call(&tokens[before])),
            );
        } else if token.is_sign(")") {
            calls.pop();
        } else if token.kind == Kind::Parameter {
            let within = calls.last().copied().unwrap_or(ParameterUse::Found);
            if let Some(known) = number(token).and_then(|number| uses.get_mut(number)) {
                *known =
                    merge(*known, parameter_use(&tokens[..index], &tokens[index + 1..], within));
            }
        }
    }
    uses
}

/// The result of several occurrences. The server needs the type at the first; later ones must
/// agree.
fn merge(before: ParameterUse, here: ParameterUse) -> ParameterUse {
    match (before, here) {
        (ParameterUse::Unseen, here) => here,
        (ParameterUse::Found, _) => ParameterUse::Found,
        (ParameterUse::Text, ParameterUse::Text) => ParameterUse::Text,
        _ => ParameterUse::Value,
    }
}

/// The result of one occurrence.
fn parameter_use(before: &[Token<'_>], behind: &[Token<'_>], within: ParameterUse) -> ParameterUse {
    let is_alone = before
        .last()
        .is_none_or(|token| token.is_sign("(") || token.is_sign(",") || token.is_one_of(&BEFORE));
    let is_argument = behind.first().is_some_and(|next| next.is_sign(",") || next.is_sign(")"));
    match () {
        () if is_alone && is_null(behind) => ParameterUse::Text,
        () if is_alone && is_argument => within,
        () => ParameterUse::Found,
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

/// What a function shows of its arguments.
fn call(name: &Token<'_>) -> ParameterUse {
    if name.is_one_of(&TEXTUAL) {
        ParameterUse::Text
    } else if name.is_one_of(&TYPED) {
        ParameterUse::Value
    } else {
        ParameterUse::Found
    }
}

/// The index of `$1` among the parameters, from 0.
fn number(parameter: &Token<'_>) -> Option<usize> {
    let digits = std::str::from_utf8(parameter.text.get(1..)?).ok()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// Whether it is an integer, written like a bigint.
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
    fn type_is_sent_only_if_the_server_cannot_infer_it() {
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
            ("select * from t where $2 is null or a = $2", &[UNREPORTED, TEXT]),
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
    fn integer_must_round_trip() {
        for value in ["0", "7", "-7", "123456789012345678"] {
            assert!(is_whole_number(value.as_bytes()), "{value}");
        }
        for value in ["", "-", "007", "-0", "1.0", "+1", "1234567890123456789", "seven"] {
            assert!(!is_whole_number(value.as_bytes()), "{value}");
        }
    }
}
