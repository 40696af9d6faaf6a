//! Objects of a played session: those that it has made, and those that it lacks because the
//! statement that makes them was skipped.

use std::collections::{HashMap, HashSet};

use seatrial_pgwire::answer::{Answer, TransactionStatus};

use super::Ruling;
use crate::item::Item;

/// Limit for the names of each kind. Further ones are judged without it: a temporary table like any
/// other table, and a statement that needs a skipped object is sent and fails.
const NAMES_MAX: usize = 256;

/// A change of [`SessionObjects`] by a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// CREATE of a temporary table, view or sequence.
    Makes {
        name: Vec<u8>,
        /// It is dropped at the end of its transaction (ON COMMIT DROP).
        until_end: bool,
    },
    /// DROP of a temporary object.
    Drops(Vec<u8>),
    /// DISCARD TEMP or DISCARD ALL.
    Discards {
        /// DISCARD ALL.
        all: bool,
    },
    Prepares(Vec<u8>),
    /// DEALLOCATE; None for all.
    Deallocates(Option<Vec<u8>>),
    Declares(Vec<u8>),
    Begins,
    /// The end of a transaction.
    Ends,
    /// ROLLBACK of a transaction, or to a savepoint.
    RollsBack,
}

/// When a temporary object was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TemporaryObject {
    transaction: u64,
    until_end: bool,
    /// Its transaction was committed, according to an answer.
    is_committed: bool,
}

/// The temporary objects that a played session certainly has, and the tables, cursors and prepared
/// statements that it lacks because their statement was skipped.
///
/// It answers whether a statement is safe to send, by its text alone: a table counts as temporary
/// only if that is proved. [`seatrial_sqltext::reading::SessionNames`] says why that one, which
/// answers what a captured statement accesses, is a different model.
#[derive(Clone, Debug, Default)]
pub struct SessionObjects {
    temporary: HashMap<Vec<u8>, TemporaryObject>,
    absent_tables: HashSet<Vec<u8>>,
    absent_cursors: HashSet<Vec<u8>>,
    absent_prepared: HashSet<Vec<u8>>,
    /// The transaction whose BEGIN was skipped; 0 for none.
    skipped_transaction: u64,
}

impl SessionObjects {
    /// Whether no further statement can depend on it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.temporary.is_empty()
            && self.skipped_transaction == 0
            && self.absent_tables.is_empty()
            && self.absent_cursors.is_empty()
            && self.absent_prepared.is_empty()
    }

    /// Whether a name is certainly that of a temporary object, in this transaction.
    pub fn is_temporary(&self, name: &[u8], transaction: u64) -> bool {
        self.temporary.get(name).is_some_and(|made| {
            !made.until_end || (made.transaction > 0 && made.transaction == transaction)
        })
    }

    /// Whether the CREATE of a temporary object of this name was skipped.
    pub fn lacks_table(&self, name: &[u8]) -> bool {
        self.absent_tables.contains(name)
    }

    /// Whether the CREATE of any temporary object was skipped.
    pub fn lacks_tables(&self) -> bool {
        !self.absent_tables.is_empty()
    }

    /// Whether the DECLARE of a cursor was skipped.
    pub fn lacks_cursor(&self, name: &[u8]) -> bool {
        self.absent_cursors.contains(name)
    }

    /// Whether the PREPARE of a statement was skipped.
    pub fn lacks_prepared(&self, name: &[u8]) -> bool {
        self.absent_prepared.contains(name)
    }

    /// Whether the BEGIN of a statement's transaction was skipped.
    pub fn is_in_skipped_transaction(&self, item: &Item) -> bool {
        item.transaction > 0 && item.transaction == self.skipped_transaction
    }

    /// Applies the changes of a statement, which is sent or skipped.
    pub fn apply(&mut self, item: &Item, ruling: &Ruling) {
        let is_sent = ruling.skipped.is_none();
        let is_open = ruling.changes.iter().fold(false, |is_open, effect| match effect {
            ObjectChange::Begins => true,
            ObjectChange::Ends => false,
            _ => is_open,
        });
        if !is_sent && is_open {
            self.skipped_transaction = item.transaction;
        }
        for change in &ruling.changes {
            if is_sent {
                self.done(item, change);
            } else {
                self.not_done(change);
            }
        }
    }

    /// Applies the changes of a statement that was answered: what remains exists for certain. A
    /// text that failed may have executed a part of its commands.
    pub fn answered(&mut self, item: &Item, changes: &[ObjectChange], answer: &Answer) {
        let has_failed = answer.error.is_some();
        for change in changes {
            if !has_failed || !matches!(change, ObjectChange::Makes { .. }) {
                self.done(item, change);
            }
        }
        // The server's transaction can be longer than the captured one, if a COMMIT was skipped.
        if has_failed || changes.contains(&ObjectChange::RollsBack) {
            self.temporary.retain(|_, made| made.is_committed);
        }
        if answer.status == TransactionStatus::Idle {
            self.temporary.values_mut().for_each(|made| made.is_committed = true);
        }
    }

    fn done(&mut self, item: &Item, change: &ObjectChange) {
        match change {
            ObjectChange::Makes { name, until_end } => {
                self.absent_tables.remove(name);
                if self.temporary.len() < NAMES_MAX {
                    let made = TemporaryObject {
                        transaction: item.transaction,
                        until_end: *until_end,
                        is_committed: false,
                    };
                    self.temporary.insert(name.clone(), made);
                }
            }
            ObjectChange::Drops(name) => {
                self.temporary.remove(name);
            }
            ObjectChange::Discards { all } => {
                self.temporary.clear();
                if *all {
                    self.absent_prepared.clear();
                }
            }
            ObjectChange::Prepares(name) => {
                self.absent_prepared.remove(name);
            }
            ObjectChange::Declares(name) => {
                self.absent_cursors.remove(name);
            }
            ObjectChange::RollsBack => self
                .temporary
                .retain(|_, made| made.transaction == 0 || made.transaction != item.transaction),
            ObjectChange::Ends => self.temporary.retain(|_, made| !made.until_end),
            ObjectChange::Deallocates(_) | ObjectChange::Begins => {}
        }
    }

    fn not_done(&mut self, change: &ObjectChange) {
        let note = |names: &mut HashSet<Vec<u8>>, name: &Vec<u8>| {
            if names.len() < NAMES_MAX {
                names.insert(name.clone());
            }
        };
        match change {
            ObjectChange::Makes { name, .. } => note(&mut self.absent_tables, name),
            ObjectChange::Drops(name) => {
                self.absent_tables.remove(name);
            }
            ObjectChange::Prepares(name) => note(&mut self.absent_prepared, name),
            ObjectChange::Declares(name) => note(&mut self.absent_cursors, name),
            ObjectChange::Deallocates(Some(name)) => {
                self.absent_prepared.remove(name);
            }
            ObjectChange::Deallocates(None) => self.absent_prepared.clear(),
            _ => {}
        }
    }
}
