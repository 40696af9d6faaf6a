//! The tokens of a text.

use memchr::{memchr, memchr2};

/// Stands for a literal in a form. PostgreSQL takes no such byte in a statement.
pub const GAP: u8 = 0;

/// Stands for a comment in a form.
pub const COMMENT_GAP: u8 = 1;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Blanks and line ends.
    Space,
    /// `-- ...` up to the line's end, or `/* ... */`, nested.
    Comment,
    /// `/*+ ... */`, which some extensions obey.
    Hint,
    /// A keyword or a name without quotes.
    Word,
    /// `"..."` or `U&"..."`.
    QuotedName,
    /// A number without a sign.
    Number,
    /// A string or bit string in any kind of quotes, with what continues it on further lines.
    Text,
    /// `$1`.
    Parameter,
    /// An operator.
    Operator,
    /// `( ) [ ] , ; : . :: := ..`, or a byte that has no meaning.
    Sign,
    /// A gap for a literal in a form.
    Gap,
    /// A gap for a comment in a form.
    CommentGap,
}

/// A token and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub text: &'a [u8],
}

impl<'a> AsRef<Token<'a>> for Token<'a> {
    fn as_ref(&self) -> &Token<'a> {
        self
    }
}

impl Token<'_> {
    /// Whether it is this word without quotes, in whatever case.
    #[inline]
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether it is one of these words without quotes, in whatever case.
    pub fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    /// Whether it is this sign.
    #[inline]
    pub fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign.as_bytes()
    }

    /// Whether it is a value: a literal or a parameter.
    pub fn is_value(&self) -> bool {
        matches!(self.kind, Kind::Gap | Kind::Parameter | Kind::Number | Kind::Text)
    }
}

/// The tokens of a text, one after the other.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    /// The tokens of a statement or of a form.
    pub fn of(text: &'a [u8]) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    /// Where the next token begins.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.text.get(self.at..)?;
        let (kind, length) = measure(rest)?;
        self.at += length;
        Some(Token { kind, text: &rest[..length] })
    }
}

/// The kind and length of the token at the front; None at the end.
#[inline]
fn measure(rest: &[u8]) -> Option<(Kind, usize)> {
    let second = rest.get(1).copied().unwrap_or(b' ');
    let token = match *rest.first()? {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => (Kind::Space, run(rest, is_space)),
        b'\'' => (Kind::Text, quoted(rest, 0, false)),
        b'"' => (Kind::QuotedName, closing(rest, 1, b'"', false)),
        b'0'..=b'9' => (Kind::Number, number(rest)),
        b'.' if second.is_ascii_digit() => (Kind::Number, number(rest)),
        b'e' | b'E' if second == b'\'' => (Kind::Text, quoted(rest, 1, true)),
        b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if second == b'\'' => {
            (Kind::Text, quoted(rest, 1, false))
        }
        b'u' | b'U' if second == b'&' && rest.get(2) == Some(&b'\'') => {
            (Kind::Text, quoted(rest, 2, false))
        }
        b'u' | b'U' if second == b'&' && rest.get(2) == Some(&b'"') => {
            (Kind::QuotedName, closing(rest, 3, b'"', false))
        }
        byte if begins_word(byte) => (Kind::Word, run(rest, is_of_word)),
        b'$' => dollar(rest),
        b'-' if second == b'-' => (Kind::Comment, line_comment(rest)),
        b'/' if second == b'*' => block_comment(rest),
        byte if is_of_operator(byte) => (Kind::Operator, operator(rest)),
        b':' if second == b':' || second == b'=' => (Kind::Sign, 2),
        b'.' if second == b'.' => (Kind::Sign, 2),
        GAP => (Kind::Gap, 1),
        COMMENT_GAP => (Kind::CommentGap, 1),
        _ => (Kind::Sign, 1),
    };
    Some(token)
}

/// What a byte may be part of, as bits: a table is quicker than comparisons.
static CLASSES: [u8; 256] = classes();

const SPACE: u8 = 1;
const WORD_BEGIN: u8 = 2;
const WORD: u8 = 4;
const OPERATOR: u8 = 8;

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => WORD_BEGIN | WORD,
            b'0'..=b'9' | b'$' => WORD,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*'
            | b'/' | b'%' | b'<' | b'>' | b'=' => OPERATOR,
            _ => 0,
        };
        byte += 1;
    }
    classes
}

#[inline]
fn is_space(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & SPACE != 0
}

#[inline]
fn begins_word(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & WORD_BEGIN != 0
}

#[inline]
fn is_of_word(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & WORD != 0
}

#[inline]
fn is_of_operator(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & OPERATOR != 0
}

/// The number of bytes at the front that match.
#[inline]
fn run(rest: &[u8], is_such: impl Fn(u8) -> bool) -> usize {
    rest.iter().position(|&byte| !is_such(byte)).unwrap_or(rest.len())
}

/// Behind the quote that closes one that was opened before `from`; a doubled one does not.
fn closing(rest: &[u8], from: usize, quote: u8, has_escapes: bool) -> usize {
    let mut at = from;
    while let Some(inside) = rest.get(at..) {
        let found = if has_escapes { memchr2(quote, b'\\', inside) } else { memchr(quote, inside) };
        let Some(found) = found else { break };
        at += found + 1;
        if rest[at - 1] != quote || rest.get(at) == Some(&quote) {
            at += 1;
        } else {
            return at;
        }
    }
    rest.len()
}

/// A string whose quote is behind a prefix, with what continues it: another one that follows after
/// blanks with a line's end among them.
fn quoted(rest: &[u8], prefix: usize, has_escapes: bool) -> usize {
    let mut end = closing(rest, prefix + 1, b'\'', has_escapes);
    loop {
        let blanks = run(&rest[end..], is_space);
        let has_line_end = rest[end..end + blanks].iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        if !has_line_end || rest.get(end + blanks) != Some(&b'\'') {
            return end;
        }
        end = closing(rest, end + blanks + 1, b'\'', has_escapes);
    }
}

/// `$1`, `$tag$ ... $tag$`, or a dollar that means nothing.
fn dollar(rest: &[u8]) -> (Kind, usize) {
    let digits = run(&rest[1..], |byte| byte.is_ascii_digit());
    if digits > 0 {
        return (Kind::Parameter, 1 + digits);
    }
    let tag = 1 + run(&rest[1..], |byte| byte != b'$' && is_of_word(byte));
    if rest.get(tag) != Some(&b'$') {
        return (Kind::Sign, 1);
    }
    let (tag, inside) = rest.split_at(tag + 1);
    let found = memchr::memmem::find(inside, tag);
    (Kind::Text, found.map_or(rest.len(), |found| tag.len() + found + tag.len()))
}

fn line_comment(rest: &[u8]) -> usize {
    memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())
}

/// `/* ... */`; those within it count.
fn block_comment(rest: &[u8]) -> (Kind, usize) {
    let kind = if rest.get(2) == Some(&b'+') { Kind::Hint } else { Kind::Comment };
    let (mut depth, mut at) = (1u32, 2);
    while let Some(found) = memchr2(b'/', b'*', rest.get(at..).unwrap_or_default()) {
        at += found;
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return (kind, at);
        }
    }
    (kind, rest.len())
}

/// The longest operator at the front: no comment begins in it, and it ends in + or - only if a
/// sign is in it that no operator of the SQL standard has.
fn operator(rest: &[u8]) -> usize {
    let mut length = run(rest, is_of_operator);
    let begins_comment = |pair: &[u8]| pair == b"--" || pair == b"/*";
    if let Some(comment) = rest[..length].windows(2).position(begins_comment) {
        length = comment;
    }
    let is_free =
        |byte| matches!(byte, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%');
    while length > 1
        && matches!(rest[length - 1], b'+' | b'-')
        && !rest[..length].iter().any(|&byte| is_free(byte))
    {
        length -= 1;
    }
    length
}

/// `42`, `1_000`, `3.5`, `.5`, `1e-9`, `0x1F`, `0o17`, `0b11`.
fn number(rest: &[u8]) -> usize {
    let is_based =
        |byte: Option<&u8>| matches!(byte, Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B'));
    if rest[0] == b'0' && is_based(rest.get(1)) {
        let digits = run(&rest[2..], |byte| byte.is_ascii_hexdigit() || byte == b'_');
        if digits > 0 {
            return 2 + digits;
        }
    }
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let mut length = run(rest, is_digit);
    if rest.get(length) == Some(&b'.') && rest.get(length + 1) != Some(&b'.') {
        length += 1 + run(&rest[length + 1..], is_digit);
    }
    if matches!(rest.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
        let digits = run(rest.get(length + 1 + sign..).unwrap_or_default(), is_digit);
        if digits > 0 {
            length += 1 + sign + digits;
        }
    }
    length
}
