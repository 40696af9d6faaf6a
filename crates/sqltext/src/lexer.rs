//! PostgreSQL's SQL, as far as needed to distinguish statements: tokens, forms, fingerprints.
//!
//! The rules of the tokens are those of PostgreSQL's manual, "Lexical Structure", and of its
//! `src/backend/parser/scan.l`, with `standard_conforming_strings` on. A text is bytes: names and
//! literals may be in any encoding. Every text has tokens, and these together are the text again;
//! what is cut off (a quote that is not closed) is one token up to the end.
//!
//! A statement is taken apart into its **form**, which is the text with a gap for each literal and
//! each comment, and what fills the gaps. Both together are the text, byte for byte. Many
//! statements share a form, and forms that differ in blanks, comments, the case of words or the
//! length of lists share a **fingerprint**:
//!
//! - Literals and parameters alike become `$1`, `$2` ... in the order of their appearance, so that
//!   a statement has one fingerprint whether it was sent as a whole or prepared. The minus of a
//!   negative number, NULL, TRUE and FALSE are of the literal, as in `pg_stat_statements`; not so
//!   in IS NULL and the like, which is not a constant.
//! - Words without quotes are in lower case.
//! - In `IN (...)` and `ARRAY[...]`, items that are alike but for their values are written once, as
//!   PostgreSQL 18 writes them: `in ($1 /*, ... */)`. The same is done to the rows of VALUES:
//!   `values ($1, $2) /*, ... */`. Rows of another kind after these are written once more.
//! - Comments are left out, except hints (`/*+ ... */`).
//!
//! | part | rule |
//! |---|---|
//! | [`token`] | the tokens of a text |
//! | [`form`] | a text taken apart and put together |
//! | [`normal`] | the text of a fingerprint |
//! | [`name`] | what a token names |
//! | [`phrase`] | qualified names, parentheses |
//! | [`nesting`] | where a statement ends |
//! | [`verb`] | the word that a statement begins with |
//! | [`class`] | what kind of statement it is, and how many there are |

pub mod class;
pub mod form;
pub mod name;
pub mod nesting;
pub mod normal;
pub mod phrase;
#[cfg(test)]
pub(crate) mod sql_like;
#[cfg(test)]
mod tests;
pub mod token;
pub mod verb;

use class::Class;
use form::Parts;
use token::{Kind, Token, Tokens};
use twox_hash::XxHash64;

/// What is the same in all statements of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// XXH64 of the text, the same on every machine and in every version of a trace.
    pub hash: u64,
    /// The normalised text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// What kind of statement it is; of several, the first.
    pub class: Class,
    /// Statements in the text, as separated by semicolons; 0 for an empty one.
    pub statements: u32,
}

impl Fingerprint {
    /// The fingerprint of all statements of a form (see [`Parts`]).
    pub fn of_form(form: &[u8]) -> Fingerprint {
        let tokens = significant(form);
        let text = normal::text(&tokens);
        let (class, statements) = class::classify(&tokens);
        Fingerprint { hash: XxHash64::oneshot(0, text.as_bytes()), text, class, statements }
    }
}

/// Returns a statement's fingerprint, and its literals as written.
pub fn fingerprint(sql: &[u8]) -> (Fingerprint, Vec<&[u8]>) {
    let mut parts = Parts::default();
    parts.take_apart(sql);
    let literals = parts.literals().map(|range| &sql[range]).collect();
    (Fingerprint::of_form(parts.form()), literals)
}

/// The tokens that mean something: no blanks, no comments but hints.
pub fn significant(text: &[u8]) -> Vec<Token<'_>> {
    let is_silent = |kind| matches!(kind, Kind::Space | Kind::Comment | Kind::CommentGap);
    Tokens::of(text).filter(|token| !is_silent(token.kind)).collect()
}

/// The tokens that mean something to the server itself: no hints either.
#[inline]
pub fn commands(text: &[u8]) -> impl Iterator<Item = Token<'_>> {
    let is_silent =
        |kind| matches!(kind, Kind::Space | Kind::Comment | Kind::CommentGap | Kind::Hint);
    Tokens::of(text).filter(move |token| !is_silent(token.kind))
}
