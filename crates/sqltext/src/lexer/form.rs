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
        let (mut preceding, mut minus) = (PrecedingToken::default(), None);
        let mut begin = 0;
        while let Some(token) = tokens.next() {
            let range = begin..tokens.position();
            begin = range.end;
            match token.kind {
                Kind::Space => self.form.extend_from_slice(token.text),
                Kind::Comment => {
                    minus = None;
                    self.fill(COMMENT_GAP, range);
                }
                _ => {
                    let sign = minus.take();
                    if token.text == b"-" && preceding.may_be_signed() {
                        minus = Some(MinusSign { begin: range.start, form_bytes: self.form.len() });
                    }
                    self.take(token, range, preceding, sign);
                    preceding = PrecedingToken(Some(token));
                }
            }
        }
    }

    /// Takes a text as a single literal.
    pub fn take_whole(&mut self, sql: &[u8]) {
        self.form.clear();
        self.literals.clear();
        self.fill(GAP, 0..sql.len());
    }

    #[inline]
    fn take(
        &mut self,
        token: Token<'_>,
        range: Range<usize>,
        preceding: PrecedingToken<'_>,
        sign: Option<MinusSign>,
    ) {
        match token.kind {
            Kind::Number => {
                let begin = sign.map_or(range.start, |minus| {
                    self.form.truncate(minus.form_bytes);
                    minus.begin
                });
                self.fill(GAP, begin..range.end);
            }
            Kind::Text if preceding.keeps_text() => self.keep(token, range),
            Kind::Text | Kind::Gap | Kind::CommentGap => self.fill(GAP, range),
            Kind::Word if is_constant(token.text) && preceding.may_be_constant() => {
                self.fill(GAP, range);
            }
            Kind::Word => self.form.extend_from_slice(token.text),
            _ => self.keep(token, range),
        }
    }

    /// Copies the token into the form, unless it could be taken for a gap.
    fn keep(&mut self, token: Token<'_>, range: Range<usize>) {
        if memchr2(GAP, COMMENT_GAP, token.text).is_some() {
            self.fill(GAP, range);
        } else {
            self.form.extend_from_slice(token.text);
        }
    }

    fn fill(&mut self, gap: u8, range: Range<usize>) {
        self.form.push(gap);
        self.literals.push(range);
    }
}

/// A minus that may be a number's sign.
#[derive(Debug, Clone, Copy)]
struct MinusSign {
    begin: usize,
    form_bytes: usize,
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
