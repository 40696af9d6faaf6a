//! A text taken apart into its form and what fills the gaps, and put together again.

use std::ops::Range;

use memchr::memchr2;

use super::token::{COMMENT_GAP, GAP, Kind, Token, Tokens};

/// Words that are followed by a value, so that a minus is the value's sign. Signs and operators are
/// others; after anything else a minus subtracts.
const BEFORE_VALUE: [&str; 30] = [
    "all",
    "and",
    "any",
    "between",
    "by",
    "case",
    "default",
    "distinct",
    "else",
    "fetch",
    "first",
    "having",
    "ilike",
    "in",
    "is",
    "like",
    "limit",
    "next",
    "not",
    "offset",
    "on",
    "or",
    "return",
    "returning",
    "select",
    "set",
    "then",
    "to",
    "when",
    "where",
];

/// Words after which NULL, TRUE and FALSE are not constants: IS NULL, NOT NULL, SET NULL, AS null.
const BEFORE_NO_CONSTANT: [&str; 4] = ["is", "not", "set", "as"];

/// A statement taken apart. It is used again for the next one, so that nothing is allocated.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    form: Vec<u8>,
    literals: Vec<Range<usize>>,
}

impl Parts {
    /// The text with [`GAP`] for each literal and [`COMMENT_GAP`] for each comment.
    pub fn form(&self) -> &[u8] {
        &self.form
    }

    /// Where in the text the literals and comments are, in order.
    pub fn literals(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        self.literals.iter().cloned()
    }

    /// Takes a text apart.
    pub fn take_apart(&mut self, sql: &[u8]) {
        self.form.clear();
        self.literals.clear();
        let mut tokens = Tokens::of(sql);
        let mut preceding = PrecedingToken::default();
        // Where a minus that may be a number's sign begins.
        let mut minus = None;
        let (mut begin, mut kept_from) = (0, 0);
        while let Some(token) = tokens.next() {
            let mut range = begin..tokens.position();
            begin = range.end;
            let gap = match token.kind {
                Kind::Space => continue,
                Kind::Comment => {
                    minus = None;
                    COMMENT_GAP
                }
                _ => {
                    let sign = minus.take();
                    let is_filled = is_gap(token, preceding);
                    if token.kind == Kind::Number {
                        range.start = sign.unwrap_or(range.start);
                    } else if token.text == b"-" && preceding.may_be_signed() {
                        minus = Some(range.start);
                    }
                    preceding = PrecedingToken(Some(token));
                    if !is_filled {
                        continue;
                    }
                    GAP
                }
            };
            self.form.extend_from_slice(&sql[kept_from..range.start]);
            kept_from = range.end;
            self.fill(gap, range);
        }
        self.form.extend_from_slice(&sql[kept_from..]);
    }

    /// Takes a text as a single literal.
    pub fn take_whole(&mut self, sql: &[u8]) {
        self.form.clear();
        self.literals.clear();
        self.fill(GAP, 0..sql.len());
    }

    fn fill(&mut self, gap: u8, range: Range<usize>) {
        self.form.push(gap);
        self.literals.push(range);
    }
}

/// Whether a gap stands for the token in the form: it is a literal, or has a byte of a gap in it.
#[inline]
fn is_gap(token: Token<'_>, preceding: PrecedingToken<'_>) -> bool {
    let has_gap = || memchr2(GAP, COMMENT_GAP, token.text).is_some();
    match token.kind {
        Kind::Number | Kind::Gap | Kind::CommentGap => true,
        Kind::Text => !preceding.keeps_text() || has_gap(),
        Kind::Word => is_constant(token.text) && preceding.may_be_constant(),
        Kind::QuotedName | Kind::Hint => has_gap(),
        _ => false,
    }
}

/// The token before, which says what may follow; none at the beginning.
#[derive(Debug, Clone, Copy, Default)]
struct PrecedingToken<'a>(Option<Token<'a>>);

impl PrecedingToken<'_> {
    /// Whether a minus is the sign of a number that follows it.
    fn may_be_signed(self) -> bool {
        self.0.is_none_or(|token| match token.kind {
            Kind::Word => token.is_one_of(&BEFORE_VALUE),
            Kind::Operator => true,
            Kind::Sign => !matches!(token.text, b")" | b"]" | b"."),
            _ => false,
        })
    }

    /// Whether NULL, TRUE and FALSE are constants.
    fn may_be_constant(self) -> bool {
        let is_none = |token: Token<'_>| token.is_one_of(&BEFORE_NO_CONSTANT) || token.is_sign(".");
        !self.0.is_some_and(is_none)
    }

    /// Whether a string is syntax: the character that UESCAPE names.
    fn keeps_text(self) -> bool {
        self.0.is_some_and(|token| token.is_word("uescape"))
    }
}

/// Whether a word is a constant where one is allowed.
#[inline]
pub fn is_constant(word: &[u8]) -> bool {
    matches!(word.len(), 4 | 5)
        && [&b"null"[..], b"true", b"false"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// A text that is put together literal by literal.
#[derive(Debug)]
pub struct Filling<'f> {
    sql: &'f mut Vec<u8>,
    rest: &'f [u8],
}

impl<'f> Filling<'f> {
    /// Begins one in a buffer, emptied before.
    pub fn of(sql: &'f mut Vec<u8>, form: &'f [u8]) -> Filling<'f> {
        sql.clear();
        Filling { sql, rest: form }
    }

    /// Fills the next gap; false where there is none.
    #[inline]
    pub fn fill(&mut self, literal: &[u8]) -> bool {
        let Some(gap) = memchr2(GAP, COMMENT_GAP, self.rest) else { return false };
        self.sql.extend_from_slice(&self.rest[..gap]);
        self.sql.extend_from_slice(literal);
        self.rest = &self.rest[gap + 1..];
        true
    }

    /// Ends it; false where a gap is left.
    pub fn end(self) -> bool {
        self.sql.extend_from_slice(self.rest);
        memchr2(GAP, COMMENT_GAP, self.rest).is_none()
    }
}
