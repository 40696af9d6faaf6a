//! Snapshots of a session: one per statement, or one per transaction (REPEATABLE READ,
//! SERIALIZABLE).

use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::lexer::significant;
use seatrial_sqltext::lexer::token::Kind;

use crate::item::Item;

/// The snapshots of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshots {
    /// All transactions have their own snapshot by default.
    begins_with: bool,
    /// The same as set by the session.
    always: bool,
    transaction: u64,
    /// The current transaction has one.
    has_own: bool,
    /// Its snapshot has been taken.
    is_taken: bool,
    /// The next transaction has the level of this one: AND CHAIN.
    is_chained: bool,
}

impl Snapshots {
    /// Those of a session with this default isolation level.
    pub fn of(isolation: &str) -> Snapshots {
        let words: Vec<String> =
            isolation.split_whitespace().map(str::to_ascii_lowercase).collect();
        let begins_with = asks(&words).unwrap_or(false);
        Snapshots { begins_with, always: begins_with, ..Snapshots::default() }
    }

    /// Whether a statement takes the snapshot of a transaction that sees nothing newer.
    pub fn takes(&mut self, item: &Item) -> bool {
        if self.transaction != item.transaction {
            self.transaction = item.transaction;
            self.has_own = if self.is_chained { self.has_own } else { self.always };
            (self.is_taken, self.is_chained) = (false, false);
        }
        if matches!(item.class, Class::Transaction | Class::Utility) {
            self.set(&words(&item.sql));
            return false;
        }
        let is_first = item.transaction > 0 && self.has_own && !self.is_taken;
        self.is_taken |= is_first;
        is_first
    }

    /// A statement sets the level of this transaction, or of all following ones.
    fn set(&mut self, words: &[String]) {
        let has = |word: &str| words.iter().any(|own| own == word);
        let is_for_all = has("characteristics") || has("default_transaction_isolation");
        let is_forgotten = has("default") || has("reset") || has("discard");
        match asks(words) {
            // What is set for a transaction alone may say less than what comes behind it.
            Some(asks) if is_for_all => self.always = asks || self.always && has("local"),
            Some(asks) => self.has_own = asks,
            None if is_forgotten && (is_for_all || has("all")) => self.always = self.begins_with,
            None => {}
        }
        self.is_chained |= has("chain") && !has("no");
    }
}

/// Whether a level of isolation with one snapshot per transaction is named; None if none is named.
fn asks(words: &[String]) -> Option<bool> {
    let pairs = words.windows(2).map(|two| (two[0].as_str(), two[1].as_str()));
    let mut found = None;
    for pair in pairs {
        match pair {
            ("repeatable", "read") => return Some(true),
            ("read", "committed" | "uncommitted") => found = Some(false),
            _ => {}
        }
    }
    if words.iter().any(|word| word == "serializable") { Some(true) } else { found }
}

/// The words of a statement, including quoted ones.
fn words(sql: &[u8]) -> Vec<String> {
    let of = |text: &[u8]| String::from_utf8_lossy(text).to_ascii_lowercase();
    let mut words = Vec::new();
    for token in significant(sql) {
        match token.kind {
            Kind::Word => words.push(of(token.text)),
            Kind::Text => {
                let text = of(token.text);
                let inside = text.split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_');
                words.extend(inside.filter(|word| !word.is_empty()).map(str::to_owned));
            }
            _ => {}
        }
    }
    words
}
