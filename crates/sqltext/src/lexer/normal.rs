//! The text of a fingerprint: values numbered, lists folded, blanks and case put in order.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::token::{Kind, Token};

/// What PostgreSQL 18 writes in place of the further items of a list.
const FURTHER: &str = " /*, ... */";

/// Words that are followed by a blank before a parenthesis; any other is a function's name.
const BEFORE_BLANK: [&str; 26] = [
    "all",
    "and",
    "any",
    "as",
    "by",
    "case",
    "conflict",
    "distinct",
    "else",
    "exists",
    "except",
    "from",
    "in",
    "intersect",
    "not",
    "on",
    "or",
    "over",
    "returning",
    "select",
    "some",
    "then",
    "union",
    "using",
    "values",
    "where",
];

/// What begins a query, so that a parenthesis after IN holds no list.
const QUERY: [&str; 4] = ["select", "with", "values", "table"];

/// The normalised text of a statement's [`super::significant`] tokens.
pub fn text(tokens: &[Token<'_>]) -> String {
    let end = tokens.iter().rposition(|token| !token.is_sign(";")).map_or(0, |last| last + 1);
    let tokens = &tokens[..end];
    let folded = FoldedLists::of(tokens);
    let mut normal = NormalText::default();
    for (index, token) in tokens.iter().enumerate() {
        if !folded.is_dropped[index] {
            normal.put(token);
        }
        if folded.has_further[index] {
            normal.text.push_str(FURTHER);
        }
    }
    normal.text
}

/// Which tokens are left out, and after which the number of further items is written.
struct FoldedLists {
    is_dropped: Vec<bool>,
    has_further: Vec<bool>,
}

impl FoldedLists {
    fn of(tokens: &[Token<'_>]) -> FoldedLists {
        let none = vec![false; tokens.len()];
        let mut folded = FoldedLists { is_dropped: none.clone(), has_further: none };
        let closers = closers(tokens);
        for (index, pair) in tokens.windows(2).enumerate() {
            let is_list = pair[0].is_word("in") && pair[1].is_sign("(")
                || pair[0].is_word("array") && pair[1].is_sign("[");
            if is_list {
                folded.fold_list(tokens, &closers, index + 1);
            } else if pair[0].is_word("values") && pair[1].is_sign("(") {
                folded.fold_rows(tokens, &closers, index + 1);
            }
        }
        folded
    }

    /// The items between two brackets, if all are alike and hold a value.
    fn fold_list(&mut self, tokens: &[Token<'_>], closers: &[usize], open: usize) {
        let close = closers[open];
        let Some(first) = tokens.get(open + 1).filter(|_| close < tokens.len()) else { return };
        if first.is_one_of(&QUERY) {
            return;
        }
        let items = items(tokens, closers, open + 1, close);
        let item = |&(from, to): &(usize, usize)| &tokens[from..to];
        let are_alike = items.iter().skip(1).all(|next| is_alike(item(&items[0]), item(next)));
        if are_alike && item(&items[0]).iter().any(Token::is_value) {
            self.fold(items[0].1, close);
        }
    }

    /// Rows in parentheses, as long as they are alike.
    fn fold_rows(&mut self, tokens: &[Token<'_>], closers: &[usize], open: usize) {
        let mut first = (open, closers[open]);
        let mut last = first;
        while last.1 < tokens.len() {
            let next_open = last.1 + 2;
            let follows = tokens.get(last.1 + 1).is_some_and(|token| token.is_sign(","))
                && tokens.get(next_open).is_some_and(|token| token.is_sign("("));
            let next = (next_open, if follows { closers[next_open] } else { tokens.len() });
            let is_row = follows && next.1 < tokens.len();
            if is_row && is_alike(&tokens[first.0..first.1], &tokens[next.0..next.1]) {
                last = next;
                continue;
            }
            self.fold(first.1 + 1, last.1 + 1);
            if !is_row {
                return;
            }
            (first, last) = (next, next);
        }
    }

    /// Leaves out what is from `from` to before `to`.
    fn fold(&mut self, from: usize, to: usize) {
        self.is_dropped[from..to].fill(true);
        self.has_further[from - 1] = true;
    }
}

/// For each opening bracket where it closes; the end of the text where it does not.
fn closers(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut closers = vec![tokens.len(); tokens.len()];
    let mut open = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Sign) {
        match token.text {
            b"(" | b"[" => open.push(index),
            b")" | b"]" => {
                if let Some(opened) = open.pop() {
                    closers[opened] = index;
                }
            }
            _ => {}
        }
    }
    closers
}

/// The items between commas, those in brackets within not counted. There is always one.
fn items(tokens: &[Token<'_>], closers: &[usize], from: usize, to: usize) -> Vec<(usize, usize)> {
    let (mut items, mut begin, mut at) = (Vec::new(), from, from);
    while at < to {
        if tokens[at].is_sign(",") {
            items.push((begin, at));
            begin = at + 1;
        }
        let is_open = tokens[at].is_sign("(") || tokens[at].is_sign("[");
        at = if is_open { closers[at].min(to) } else { at + 1 };
    }
    items.push((begin, to));
    items
}

/// Whether two runs of tokens differ in their values only; DEFAULT counts as one.
fn is_alike(one: &[Token<'_>], other: &[Token<'_>]) -> bool {
    let is_value = |token: &Token<'_>| token.is_value() || token.is_word("default");
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            is_value(one) && is_value(other)
                || one.kind == other.kind && one.text.eq_ignore_ascii_case(other.text)
        })
}

/// The text as far as it is written.
#[derive(Default)]
struct NormalText<'a> {
    text: String,
    last: Option<Token<'a>>,
    values: u32,
    /// A parameter that occurs several times has one number.
    parameters: HashMap<&'a [u8], u32>,
}

impl<'a> NormalText<'a> {
    fn put(&mut self, token: &Token<'a>) {
        if self.last.is_some_and(|last| needs_blank(&last, token)) {
            self.text.push(' ');
        }
        self.last = Some(*token);
        match token.kind {
            Kind::Parameter => {
                let next = self.values + 1;
                let number = *self.parameters.entry(token.text).or_insert(next);
                self.values = self.values.max(number);
                self.number(number);
            }
            _ if token.is_value() => {
                self.values += 1;
                self.number(self.values);
            }
            Kind::Word => {
                let word = String::from_utf8_lossy(token.text);
                self.text.extend(word.chars().map(|letter| letter.to_ascii_lowercase()));
            }
            _ => self.text.push_str(&String::from_utf8_lossy(token.text)),
        }
    }

    fn number(&mut self, number: u32) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "${number}");
    }
}

fn needs_blank(last: &Token<'_>, next: &Token<'_>) -> bool {
    let is_after_none = |sign: &[u8]| matches!(sign, b"(" | b"[" | b"." | b"::" | b":");
    let is_before_none =
        |sign: &[u8]| matches!(sign, b")" | b"]" | b"," | b";" | b"." | b"::" | b":");
    if last.kind == Kind::Sign && is_after_none(last.text) {
        return false;
    }
    if next.kind != Kind::Sign {
        return true;
    }
    match next.text {
        b"(" => match last.kind {
            Kind::Word => last.is_one_of(&BEFORE_BLANK),
            kind => kind != Kind::QuotedName,
        },
        b"[" => {
            let is_name = matches!(last.kind, Kind::Word | Kind::QuotedName);
            !is_name && !last.is_sign(")") && !last.is_sign("]")
        }
        sign => !is_before_none(sign),
    }
}
