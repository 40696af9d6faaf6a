//! What kind of statement a text is, and how many statements it holds.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::nesting::Nesting;
use super::token::{Kind, Token};
use super::verb::class_of;

/// Kinds of statements.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// SELECT, VALUES, TABLE, and WITH before them if nothing in it writes.
    Select,
    /// INSERT, also in a WITH.
    Insert,
    /// UPDATE, also in a WITH.
    Update,
    /// DELETE, also in a WITH.
    Delete,
    /// MERGE, also in a WITH.
    Merge,
    /// COPY.
    Copy,
    /// BEGIN, COMMIT, ROLLBACK, savepoints, two-phase commit, SET TRANSACTION.
    Transaction,
    /// DECLARE, FETCH, MOVE, CLOSE.
    Cursor,
    /// PREPARE, EXECUTE, DEALLOCATE as statements.
    Prepared,
    /// CALL, DO.
    Procedure,
    /// CREATE, ALTER, DROP and what else changes the catalogue or replaces whole tables.
    Ddl,
    /// VACUUM, ANALYZE, CLUSTER, REINDEX, CHECKPOINT, REFRESH.
    Maintenance,
    /// SET, SHOW, EXPLAIN, LOCK, LISTEN, NOTIFY and the like.
    Utility,
    /// Blanks and comments only.
    Empty,
    /// None of these.
    #[default]
    Unknown,
}

/// All classes with their names, in the order of their numbers.
const NAMES: [(Class, &str); 15] = [
    (Class::Select, "select"),
    (Class::Insert, "insert"),
    (Class::Update, "update"),
    (Class::Delete, "delete"),
    (Class::Merge, "merge"),
    (Class::Copy, "copy"),
    (Class::Transaction, "transaction"),
    (Class::Cursor, "cursor"),
    (Class::Prepared, "prepared"),
    (Class::Procedure, "procedure"),
    (Class::Ddl, "ddl"),
    (Class::Maintenance, "maintenance"),
    (Class::Utility, "utility"),
    (Class::Empty, "empty"),
    (Class::Unknown, "unknown"),
];

/// Words that make a WITH a write, wherever they occur in it.
const WRITES: [(&str, Class); 4] = [
    ("insert", Class::Insert),
    ("update", Class::Update),
    ("delete", Class::Delete),
    ("merge", Class::Merge),
];

impl Class {
    /// How many there are.
    pub const COUNT: usize = NAMES.len();

    /// All names, in the order of their numbers.
    pub const ALL_NAMES: [&str; Class::COUNT] = {
        let mut names = [""; Class::COUNT];
        let mut number = 0;
        while number < Class::COUNT {
            names[number] = NAMES[number].1;
            number += 1;
        }
        names
    };

    /// Its name: the word that a trace and a report have.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// All classes, in the order of their numbers.
    pub fn all() -> [Class; Class::COUNT] {
        NAMES.map(|(class, _)| class)
    }

    /// The class of a name.
    pub fn of_name(name: &[u8]) -> Option<Class> {
        NAMES.iter().find(|(_, lookup)| lookup.as_bytes() == name).map(|&(class, _)| class)
    }

    /// Whether it always changes rows or the catalogue. CALL, DO, EXECUTE and functions in a SELECT
    /// may, too.
    pub fn writes(self) -> bool {
        matches!(self, Class::Insert | Class::Update | Class::Delete | Class::Merge | Class::Ddl)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The class of the first statement, and how many statements there are.
pub fn classify(tokens: &[Token<'_>]) -> (Class, u32) {
    let (mut count, mut is_inside) = (0, false);
    let mut first_end = tokens.len();
    let mut nesting = Nesting::default();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Hint) {
        let ends = nesting.passes_end(token);
        if ends && is_inside && count == 1 {
            first_end = first_end.min(index);
        }
        count += u32::from(!ends && !is_inside);
        is_inside = !ends;
    }
    (class(&tokens[..first_end]), count)
}

fn class(tokens: &[Token<'_>]) -> Class {
    let mut tokens = tokens
        .iter()
        .filter(|token| token.kind != Kind::Hint)
        .skip_while(|token| token.is_sign("(") || token.is_sign(";"));
    let Some(first) = tokens.next() else { return Class::Empty };
    let second = tokens.clone().next();
    let second_is = |words: &[&str]| second.is_some_and(|second| second.is_one_of(words));
    if first.is_word("with") {
        return in_with(tokens);
    }
    if first.is_word("prepare") {
        let is_two_phase = second_is(&["transaction"]);
        return if is_two_phase { Class::Transaction } else { Class::Prepared };
    }
    if first.is_word("set") && second_is(&["transaction", "constraints"]) {
        return Class::Transaction;
    }
    class_of(first).unwrap_or(Class::Unknown)
}

/// The class of a WITH: the first part of it that writes, else a SELECT. A statement begins at the
/// top, or right behind an opening parenthesis.
fn in_with<'a>(tokens: impl Iterator<Item = &'a Token<'a>>) -> Class {
    let (mut depth, mut may_begin) = (0u32, false);
    for token in tokens {
        let written = WRITES.iter().find(|(word, _)| token.is_word(word));
        if let Some(&(_, class)) = written.filter(|_| may_begin) {
            return class;
        }
        if token.is_sign("(") {
            depth += 1;
        } else if token.is_sign(")") {
            depth = depth.saturating_sub(1);
        }
        may_begin = token.is_sign("(") || (depth == 0 && token.is_sign(")"));
    }
    Class::Select
}
