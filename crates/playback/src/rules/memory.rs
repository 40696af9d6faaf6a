//! What a session has made, or has not because it was skipped.

use std::collections::{HashMap, HashSet};

use crate::item::Item;

/// Names of each sort that are remembered. What a further one would be is judged without it: a
/// temporary table as any other, and what needs what was skipped is sent and fails.
const NAMES_MAX: usize = 256;

/// What a command does to what a session has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// Makes something temporary.
    Makes {
        /// Its name.
        name: Vec<u8>,
        /// It is gone with its transaction (ON COMMIT DROP).
        until_end: bool,
    },
    /// Drops something temporary.
    Drops(Vec<u8>),
    /// Forgets what is temporary, or else all that a session has.
    Discards {
        /// DISCARD ALL.
        all: bool,
    },
    /// PREPARE.
    Prepares(Vec<u8>),
    /// DEALLOCATE; None for all.
    Deallocates(Option<Vec<u8>>),
    /// DECLARE.
    Declares(Vec<u8>),
    /// Begins a transaction.
    Begins,
    /// Ends one.
    Ends,
    /// Undoes what a transaction did, or a part of it.
    RollsBack,
}

/// When something temporary was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    transaction: u64,
    until_end: bool,
}

/// What a session has made, or has not because it was skipped.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    temporary: HashMap<Vec<u8>, Made>,
    absent_tables: HashSet<Vec<u8>>,
    absent_cursors: HashSet<Vec<u8>>,
    absent_prepared: HashSet<Vec<u8>>,
    /// Of which the BEGIN was skipped; 0 for none.
    skipped_transaction: u64,
}

impl Memory {
    /// Whether there is nothing that a further statement may depend on.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.temporary.is_empty()
            && self.skipped_transaction == 0
            && self.absent_tables.is_empty()
            && self.absent_cursors.is_empty()
            && self.absent_prepared.is_empty()
    }

    /// Whether a name is surely that of something temporary, in this transaction.
    pub fn is_temporary(&self, name: &[u8], transaction: u64) -> bool {
        self.temporary.get(name).is_some_and(|made| {
            !made.until_end || (made.transaction > 0 && made.transaction == transaction)
        })
    }

    /// Whether something temporary of this name was not made because it was skipped.
    pub fn lacks_table(&self, name: &[u8]) -> bool {
        self.absent_tables.contains(name)
    }

    /// Whether any such table was.
    pub fn lacks_tables(&self) -> bool {
        !self.absent_tables.is_empty()
    }

    /// Whether a cursor was not declared because that was skipped.
    pub fn lacks_cursor(&self, name: &[u8]) -> bool {
        self.absent_cursors.contains(name)
    }

    /// Whether a statement was not prepared because that was skipped.
    pub fn lacks_prepared(&self, name: &[u8]) -> bool {
        self.absent_prepared.contains(name)
    }

    /// Whether the BEGIN of a statement's transaction was skipped.
    pub fn is_in_skipped_transaction(&self, item: &Item) -> bool {
        item.transaction > 0 && item.transaction == self.skipped_transaction
    }

    /// Takes in what a statement does that is sent, or would have done.
    pub fn apply(&mut self, item: &Item, effects: Vec<MemoryChange>, is_sent: bool) {
        let is_open = effects.iter().fold(false, |is_open, effect| match effect {
            MemoryChange::Begins => true,
            MemoryChange::Ends => false,
            _ => is_open,
        });
        if !is_sent && is_open {
            self.skipped_transaction = item.transaction;
        }
        for effect in effects {
            if is_sent {
                self.done(item, effect);
            } else {
                self.not_done(effect);
            }
        }
    }

    fn done(&mut self, item: &Item, effect: MemoryChange) {
        match effect {
            MemoryChange::Makes { name, until_end } => {
                self.absent_tables.remove(&name);
                if self.temporary.len() < NAMES_MAX {
                    let transaction = item.transaction;
                    self.temporary.insert(name, Made { transaction, until_end });
                }
            }
            MemoryChange::Drops(name) => {
                self.temporary.remove(&name);
            }
            MemoryChange::Discards { all } => {
                self.temporary.clear();
                if all {
                    self.absent_prepared.clear();
                }
            }
            MemoryChange::Prepares(name) => {
                self.absent_prepared.remove(&name);
            }
            MemoryChange::Declares(name) => {
                self.absent_cursors.remove(&name);
            }
            MemoryChange::RollsBack => self
                .temporary
                .retain(|_, made| made.transaction == 0 || made.transaction != item.transaction),
            MemoryChange::Ends => self.temporary.retain(|_, made| !made.until_end),
            MemoryChange::Deallocates(_) | MemoryChange::Begins => {}
        }
    }

    fn not_done(&mut self, effect: MemoryChange) {
        let note = |names: &mut HashSet<Vec<u8>>, name| {
            if names.len() < NAMES_MAX {
                names.insert(name);
            }
        };
        match effect {
            MemoryChange::Makes { name, .. } => note(&mut self.absent_tables, name),
            MemoryChange::Drops(name) => {
                self.absent_tables.remove(&name);
            }
            MemoryChange::Prepares(name) => note(&mut self.absent_prepared, name),
            MemoryChange::Declares(name) => note(&mut self.absent_cursors, name),
            MemoryChange::Deallocates(Some(name)) => {
                self.absent_prepared.remove(&name);
            }
            MemoryChange::Deallocates(None) => self.absent_prepared.clear(),
            _ => {}
        }
    }
}
