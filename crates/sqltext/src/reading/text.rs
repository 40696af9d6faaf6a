//! The statements of a form, and the text of each that the parser takes.
//!
//! In that text each literal is replaced by a unique placeholder, so that the parsed statement
//! shows where in the form a value is.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::thread;

use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::lexer::form::Parts;
use crate::lexer::nesting::Nesting;
use crate::lexer::token::{Kind, Token, Tokens};

/// Numbers that replace literals begin here; no statement counts so far.
const FIRST_NUMBER: u64 = 7_000_000_000_000;

/// Limit for operators in a row; longer chains are not parsed, because the parser's result is as
/// deep.
const CHAIN_MAX: u32 = 1000;

/// Longer ones are parsed on a stack of their own: the parser needs up to 40 KB for a bracket.
const CHAIN_SHORT: u32 = 10;

/// The size of that stack; what is not used of it costs nothing.
const STACK_BYTES: usize = 32 << 20;

/// A token of a form, and the literal that it replaces.
#[derive(Clone, Copy, Debug)]
pub struct FormToken<'a> {
    /// The token; a gap where a literal is.
    pub token: Token<'a>,
    /// The literal's index.
    pub literal: Option<u32>,
}

impl<'a> Deref for FormToken<'a> {
    type Target = Token<'a>;

    fn deref(&self) -> &Token<'a> {
        &self.token
    }
}

impl<'a> AsRef<Token<'a>> for FormToken<'a> {
    fn as_ref(&self) -> &Token<'a> {
        &self.token
    }
}

/// The literals of a text, and which of them were examined.
pub struct Literals<'a> {
    texts: Vec<&'a [u8]>,
    seen: BTreeSet<u32>,
}

/// The kind of a literal; texts of one form may differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LiteralKind {
    /// A number, perhaps with a sign.
    Number = b'0',
    /// A string of any kind.
    Text = b'\'',
    /// NULL, TRUE, FALSE.
    Constant = b'n',
    /// A comment.
    Comment = b'c',
}

impl LiteralKind {
    /// The sort of a literal by its first byte.
    pub fn of(literal: &[u8]) -> LiteralKind {
        match literal {
            [b'0'..=b'9' | b'.', ..] => LiteralKind::Number,
            [b'-', b'-', ..] | [b'/', ..] => LiteralKind::Comment,
            [b'-', ..] => LiteralKind::Number,
            [b'n' | b'N' | b't' | b'T' | b'f' | b'F', second, ..] if *second != b'\'' => {
                LiteralKind::Constant
            }
            _ => LiteralKind::Text,
        }
    }
}

impl<'a> Literals<'a> {
    /// The literals of a text that was taken apart.
    pub fn of(sql: &'a [u8], parts: &Parts) -> Literals<'a> {
        let texts = parts.literals().map(|range| sql.get(range).unwrap_or_default()).collect();
        Literals { texts, seen: BTreeSet::new() }
    }

    /// The text of a literal. The reading then applies to texts with the same one only.
    pub fn look(&mut self, literal: u32) -> &'a [u8] {
        self.seen.insert(literal);
        self.texts.get(literal as usize).copied().unwrap_or_default()
    }

    /// The literals that were examined.
    pub fn seen(&self) -> impl Iterator<Item = u32> {
        self.seen.iter().copied()
    }

    fn kind(&self, literal: u32) -> LiteralKind {
        LiteralKind::of(self.texts.get(literal as usize).copied().unwrap_or_default())
    }
}

/// The statements of a form, without comments and hints; empty ones are left out.
pub fn statements(form: &[u8]) -> Vec<Vec<FormToken<'_>>> {
    let (mut statements, mut statement) = (Vec::new(), Vec::new());
    let (mut literals, mut nesting) = (0u32, Nesting::default());
    for token in Tokens::of(form) {
        let is_gap = matches!(token.kind, Kind::Gap | Kind::CommentGap);
        let literal = is_gap.then_some(literals);
        literals += u32::from(is_gap);
        if nesting.passes_end(&token) {
            statements.push(std::mem::take(&mut statement));
            continue;
        }
        statement.push(match token.kind {
            Kind::CommentGap | Kind::Hint | Kind::Comment => {
                FormToken { token: Token { kind: Kind::Space, text: b" " }, literal: None }
            }
            _ => FormToken { token, literal },
        });
    }
    statements.push(statement);
    statements.retain(|tokens| tokens.iter().any(|token| token.kind != Kind::Space));
    statements
}

/// The pieces that mean something.
pub fn significant<'a>(tokens: &[FormToken<'a>]) -> Vec<FormToken<'a>> {
    tokens.iter().filter(|token| token.kind != Kind::Space).copied().collect()
}

/// The statement of these pieces, behind what is put before them; None where the parser does not
/// know it, or it would be too deep for that.
pub fn parse(before: &str, tokens: &[FormToken<'_>], literals: &Literals<'_>) -> Option<Statement> {
    let chain = longest_chain(tokens);
    if chain > CHAIN_MAX {
        return None;
    }
    let text = before.to_owned() + &parsable(tokens, literals);
    let parse = || {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text).ok()?;
        let [statement] = <[Statement; 1]>::try_from(parsed).ok()?;
        Some(statement)
    };
    if chain <= CHAIN_SHORT {
        return parse();
    }
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, parse).ok()?.join().ok()?
    })
}

/// The text that the parser takes.
fn parsable(tokens: &[FormToken<'_>], literals: &Literals<'_>) -> String {
    let mut text = String::with_capacity(tokens.len() * 8);
    let tokens_reported = significant(tokens);
    let mut at = 0;
    for token in tokens {
        let is_space = token.kind == Kind::Space;
        at += usize::from(!is_space);
        if !is_space && is_unknown(&tokens_reported, at - 1) {
            text.push(' ');
            continue;
        }
        match token.literal {
            Some(literal) => {
                text.push(' ');
                text.push_str(&stand_in(literal, literals.kind(literal)));
                text.push(' ');
            }
            None => text.push_str(&String::from_utf8_lossy(token.text)),
        }
    }
    text
}

/// Whether a token is syntax that the parser does not know and that can be left out: OVERRIDING
/// SYSTEM VALUE, the ONLY of tables, the NO KEY and KEY of row locks, UESCAPE and its character,
/// SYMMETRIC. WHERE CURRENT OF is of one row, but of which is unknown.
fn is_unknown(tokens_reported: &[FormToken<'_>], at: usize) -> bool {
    let is = |position: Option<usize>, words: &[&str]| {
        let token = position.and_then(|position| tokens_reported.get(position));
        token.is_some_and(|token| token.is_one_of(words))
    };
    let (before, next) = (at.checked_sub(1), Some(at + 1));
    let Some(token) = tokens_reported.get(at).filter(|token| token.literal.is_none()) else {
        return false;
    };
    let word = token.token;
    if word.kind == Kind::Text {
        return is(before, &["uescape"]);
    }
    let sides = ["system", "user"];
    let of_cursor = [("where", 0), ("current", 1), ("of", 2)];
    let is_of_cursor = of_cursor.iter().any(|&(own, position)| {
        let first = at.checked_sub(position);
        word.is_word(own)
            && is(first, &["where"])
            && is(first.map(|first| first + 1), &["current"])
            && is(first.map(|first| first + 2), &["of"])
    });
    let is_cursor = is(before, &["of"])
        && is(at.checked_sub(2), &["current"])
        && is(at.checked_sub(3), &["where"]);
    // An access to ONLY a table counts as one to its children too.
    let is_only = word.is_word("only")
        && (is(before, &["update", "from", "join", "using"])
            || before.is_some_and(|before| tokens_reported[before].token.is_sign(",")))
        && tokens_reported
            .get(at + 1)
            .is_some_and(|next| matches!(next.token.kind, Kind::Word | Kind::QuotedName));
    is_of_cursor
        || is_cursor
        || is_only
        || word.is_word("uescape")
        || word.is_word("overriding") && is(next, &sides)
        || word.is_one_of(&sides) && is(before, &["overriding"])
        || word.is_word("value") && is(at.checked_sub(2), &["overriding"])
        || word.is_one_of(&["symmetric", "asymmetric"]) && is(before, &["between"])
        || word.is_word("no") && is(before, &["for"]) && is(next, &["key"])
        || word.is_word("key") && is(before, &["for", "no"]) && is(next, &["update", "share"])
}

fn stand_in(literal: u32, kind: LiteralKind) -> String {
    match kind {
        LiteralKind::Number => (FIRST_NUMBER + u64::from(literal)).to_string(),
        _ => format!("'~{literal}~'"),
    }
}

/// The literal that a parsed number replaces.
pub fn of_number(number: &str) -> Option<u32> {
    number.parse::<u64>().ok()?.checked_sub(FIRST_NUMBER)?.try_into().ok()
}

/// The literal that a parsed string replaces.
pub fn of_string(string: &str) -> Option<u32> {
    string.strip_prefix('~')?.strip_suffix('~')?.parse().ok()
}

/// How many operators there are at most between two commas or brackets, those of the brackets
/// around counted.
fn longest_chain(tokens: &[FormToken<'_>]) -> u32 {
    let (mut open, mut here, mut sum, mut longest) = (Vec::new(), 0u32, 0u32, 0u32);
    for token in tokens {
        let token = token.token;
        match token.kind {
            Kind::Sign if matches!(token.text, b"(" | b"[") => {
                open.push(here + 1);
                (here, sum) = (0, sum + 1);
                longest = longest.max(sum);
            }
            Kind::Sign if matches!(token.text, b")" | b"]") => {
                // A bracket makes what is behind it deeper as well: a[1][2].
                sum = sum.saturating_sub(here);
                here = open.pop().unwrap_or(0);
            }
            Kind::Sign if token.text == b"," => {
                sum -= here.min(sum);
                here = 0;
            }
            Kind::Operator | Kind::Word | Kind::Sign if is_link(&token) => {
                (here, sum) = (here + 1, sum + 1);
                longest = longest.max(sum);
            }
            _ => {}
        }
    }
    longest
}

/// Whether a token makes what is parsed deeper.
fn is_link(token: &Token<'_>) -> bool {
    const WORDS: [&str; 16] = [
        "select",
        "case",
        "and",
        "or",
        "not",
        "union",
        "except",
        "intersect",
        "is",
        "in",
        "like",
        "ilike",
        "between",
        "similar",
        "at",
        "collate",
    ];
    match token.kind {
        Kind::Operator => true,
        Kind::Sign => matches!(token.text, b"::" | b"[" | b":"),
        _ => token.is_one_of(&WORDS),
    }
}
