//! Statements of a trace that are not sent: those that reach beyond its database, and writes in a
//! read-only playback.
//!
//! A statement is analysed by its text, token by token, each command of it; words in literals and
//! comments do not count. Where a text is run as commands (DO, functions that take a query), the
//! commands in it count. The body of a database's own function is not seen when it is called; under
//! `read_only` the server, too, is set to refuse writes (`default_transaction_read_only`).
//!
//! **Unsafe operations** ([`UnsafeOperation`]) are refused unless they are allowed; a statement
//! with several needs all of them. CREATE, ALTER, DROP and TRUNCATE of temporary tables, views and
//! sequences, and CREATE INDEX on them, are none, as long as the name is certainly a temporary
//! one's: the session made it, in a transaction that was not rolled back. ON COMMIT DROP ends with
//! that.
//!
//! **Reading only** sends what a transaction takes that is READ ONLY, with these exceptions, which
//! PostgreSQL would take: VACUUM, ANALYZE, CLUSTER, REINDEX and CHECKPOINT, which write all the
//! same; LOCK but for ACCESS SHARE, which blocks others; functions that write large objects
//! (refused from version 16 on); what ends a prepared transaction; and what would lift the
//! protection: READ WRITE, and settings named `..._read_only`. As in PostgreSQL, CREATE TEMPORARY
//! TABLE is not taken.
//!
//! **Statements that depend on skipped ones** are `Dependent`: EXECUTE and DEALLOCATE of a skipped
//! PREPARE; FETCH, MOVE, CLOSE and CURRENT OF of a skipped DECLARE; uses of a temporary table that
//! was not created; and, if a BEGIN was skipped, all of its transaction. Everything else of a
//! transaction continues: reads, savepoints, COMMIT. A text of several commands is sent or skipped
//! as a whole; if a skipped one has a COMMIT, its transaction stays open until the next.
//!
//! | part | rule |
//! |---|---|
//! | [`statement`] | the effects of a command |
//! | [`catalogue`] | CREATE, ALTER, DROP, TRUNCATE |
//! | [`functions`] | functions with such effects |
//! | [`session_objects`] | temporary tables, prepared statements and cursors of a played session |

mod catalogue;
mod functions;
pub mod session_objects;
mod statement;
#[cfg(test)]
mod tests;

use seatrial_sqltext::lexer::commands;
use seatrial_sqltext::lexer::token::Kind;
use seatrial_sqltext::lexer::verb::Verb;

use super::item::{Item, Skipped, UNSAFE_OPERATIONS, UnsafeOperation};
use session_objects::{ObjectChange, SessionObjects};
use statement::StatementAnalysis;

/// The outcome of the rules for a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// Why it is not sent; None if it is.
    pub skipped: Option<Skipped>,
    /// What it changes of its session's objects, if it is sent and succeeds.
    pub changes: Vec<ObjectChange>,
}

/// First words of statements that are harmless if writing is allowed, unless they contain a
/// suspicious word.
const PLAIN: [Verb; 21] = [
    Verb::Select,
    Verb::Insert,
    Verb::Update,
    Verb::Delete,
    Verb::Values,
    Verb::With,
    Verb::Begin,
    Verb::Start,
    Verb::Commit,
    Verb::End,
    Verb::Rollback,
    Verb::Abort,
    Verb::Savepoint,
    Verb::Release,
    Verb::Set,
    Verb::Show,
    Verb::Fetch,
    Verb::Close,
    Verb::Declare,
    Verb::Execute,
    Verb::Deallocate,
];

/// A set of unsafe operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsafeOperations(u8);

impl UnsafeOperations {
    /// Adds an operation.
    pub fn add(&mut self, operation: UnsafeOperation) {
        self.0 |= 1 << operation as u8;
    }

    /// Whether it contains an operation.
    pub fn has(self, operation: UnsafeOperation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }

    /// The first operation that is not allowed.
    fn first_beyond(self, allowed: UnsafeOperations) -> Option<UnsafeOperation> {
        let beyond = UnsafeOperations(self.0 & !allowed.0);
        UNSAFE_OPERATIONS
            .iter()
            .map(|&(operation, _)| operation)
            .find(|&operation| beyond.has(operation))
    }
}

/// A word that names no unsafe operation.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is nothing that can be allowed: these are {names}", names = operation_names())]
pub struct UnknownOperation(pub String);

fn operation_names() -> String {
    UNSAFE_OPERATIONS.map(|(_, name)| name).join(", ")
}

/// Rules for what is skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    read_only: bool,
    allowed: UnsafeOperations,
}

impl Rules {
    /// The rules for these options; `allow` has names of unsafe operations.
    ///
    /// # Errors
    ///
    /// When a name is invalid.
    pub fn new(read_only: bool, allow: &[String]) -> Result<Rules, UnknownOperation> {
        let mut allowed = UnsafeOperations::default();
        for name in allow {
            let found = UNSAFE_OPERATIONS.iter().find(|(_, known)| known == name);
            allowed.add(found.ok_or_else(|| UnknownOperation(name.clone()))?.0);
        }
        Ok(Rules { read_only, allowed })
    }

    /// Returns whether a statement is sent. To be called for the statements of a session in their
    /// order; `objects` is the session's. It may be called long before, and then assumes that what
    /// was sent succeeded: see [`Rules::rule_after_error`].
    pub fn rule(&self, item: &Item, objects: &mut SessionObjects) -> Ruling {
        let ruling = self.ruling(item, objects);
        objects.apply(item, &ruling);
        ruling
    }

    fn ruling(&self, item: &Item, objects: &SessionObjects) -> Ruling {
        if !self.read_only && objects.is_empty() && (is_bare(&item.sql) || is_plain(&item.sql)) {
            return Ruling::default();
        }
        let mut analysis = StatementAnalysis::new(objects, item);
        analysis.text(&item.sql);
        let found = analysis.finish();
        let skipped = if objects.is_in_skipped_transaction(item) {
            Some(Skipped::Dependent)
        } else if let Some(operation) = found.operations.first_beyond(self.allowed) {
            Some(Skipped::Refused(operation))
        } else if self.read_only && found.writes {
            Some(Skipped::Writes)
        } else {
            let lacks = found.lacks || (self.read_only && found.is_after_write);
            lacks.then_some(Skipped::Dependent)
        };
        Ruling { skipped, changes: found.effects }
    }

    /// Returns the rule right before a statement is sent, for a session in which one has failed
    /// since it began: a DROP of a temporary table that was never made would remove another one of
    /// that name. `certain` is what the session's [answers](SessionObjects::answered) confirmed.
    pub fn rule_after_error(&self, item: &Item, certain: &SessionObjects) -> Option<Skipped> {
        self.ruling(item, certain).skipped
    }
}

/// Whether a text is [plain](is_plain) by its bytes alone: a faster check, which returns false if
/// tokens would be needed.
fn is_bare(sql: &[u8]) -> bool {
    let sql = sql.trim_ascii();
    let sql = sql.strip_suffix(b";").unwrap_or(sql);
    let end = sql.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(sql.len());
    let (first, rest) = sql.split_at(end);
    let goes_on = |&byte: &u8| byte.is_ascii_digit() || matches!(byte, b'_' | b'$' | 0x80..);
    let verb = Verb::of_word(first).filter(|verb| PLAIN.contains(verb));
    if rest.first().is_some_and(goes_on) || verb.is_none() {
        return false;
    }
    let takes_into = verb == Some(Verb::Insert);
    let is_behind = |at: usize, words: &[&str]| {
        let begin = |word: &&str| rest[..at].len().checked_sub(word.len());
        words.iter().any(|word| begin(word).is_some_and(|begin| is_word(&rest[begin..at], word)))
    };
    // The last byte of the beginning of any word that may matter, and the bytes before it there.
    let may_matter = |(at, byte): (usize, &u8)| match byte {
        b';' => true,
        b'&' => rest.get(at + 1) == Some(&b'"'),
        b'_' => is_behind(at, &["pg", "lo", "ts", "query", "xpath"]),
        b'k' | b'K' => is_behind(at, &["dblin"]),
        b'b' | b'B' => is_behind(at, &["crossta"]),
        b'y' | b'Y' => is_behind(at, &["connectb"]),
        b'o' | b'O' => !takes_into && is_behind(at, &["int"]),
        _ => false,
    };
    !rest.iter().enumerate().any(may_matter)
}

fn is_word(bytes: &[u8], word: &str) -> bool {
    bytes.eq_ignore_ascii_case(word.as_bytes())
}

/// Whether a text needs no analysis: one command that reads or changes rows, without a word that
/// may matter. It allocates nothing.
fn is_plain(sql: &[u8]) -> bool {
    let mut tokens = commands(sql);
    let Some(first) = tokens.next() else { return true };
    let verb = Verb::of(&first).filter(|verb| PLAIN.contains(verb));
    if verb.is_none() {
        return false;
    }
    let takes_into = verb == Some(Verb::Insert);
    let mut has_ended = false;
    tokens.all(|token| {
        let is_behind = has_ended;
        has_ended |= token.is_sign(";");
        !is_behind
            && match token.kind {
                Kind::Word => {
                    !functions::may_matter(token.text) && (takes_into || !token.is_word("into"))
                }
                Kind::QuotedName => {
                    let inside = token.text.split(|&byte| byte == b'"').nth(1);
                    token.text[0] == b'"' && !inside.is_some_and(functions::may_matter)
                }
                _ => true,
            }
    })
}
