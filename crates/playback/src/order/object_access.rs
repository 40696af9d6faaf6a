//! What a statement accesses: tables, sequences and, as far as known, which of their rows.
//!
//! Two accesses to the same table do not conflict if both identify rows by the same columns of a
//! key and the values differ. Otherwise their modes decide ([`AccessMode::conflicts`]).

use seatrial_sqltext::reading::{Access, RowAspect};

/// How an object is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessMode {
    /// Rows have to exist: the check of a foreign key.
    Presence = 0,
    /// Rows are read.
    Read = 1,
    /// Rows are added, and none is read.
    Add = 2,
    /// Non-key columns are changed, or rows are locked.
    Values = 3,
    /// Rows are changed; a sequence is drawn from.
    Write = 4,
}

impl AccessMode {
    /// All of them, in the order of their numbers.
    pub const ALL: [AccessMode; 5] = [
        AccessMode::Presence,
        AccessMode::Read,
        AccessMode::Add,
        AccessMode::Values,
        AccessMode::Write,
    ];

    /// The mode of an access.
    pub fn of(access: &Access) -> AccessMode {
        match (access.writes, access.aspect) {
            (false, RowAspect::Presence | RowAspect::Later) => AccessMode::Presence,
            (false, _) => AccessMode::Read,
            (true, RowAspect::New) => AccessMode::Add,
            (true, RowAspect::Values) => AccessMode::Values,
            (true, RowAspect::All | RowAspect::Presence | RowAspect::Later) => AccessMode::Write,
        }
    }

    /// Whether two of them conflict; `is_one_row` means that both are of the same row of a unique
    /// key. Two that add rows do not: keys distinguish new rows.
    pub const fn conflicts(self, other: AccessMode, is_one_row: bool) -> bool {
        match (self, other) {
            (AccessMode::Add, AccessMode::Add) => is_one_row,
            (AccessMode::Presence, AccessMode::Values)
            | (AccessMode::Values, AccessMode::Presence) => false,
            _ => self.changes() || other.changes(),
        }
    }

    /// The modes that it conflicts with: a bit for each, in the order of their numbers.
    #[inline]
    pub const fn conflicting(self, is_one_row: bool) -> u8 {
        CONFLICTING[is_one_row as usize][self as usize]
    }

    /// The modes that it represents after it waited for them: whatever conflicts with these
    /// conflicts with it.
    #[inline]
    pub const fn represented(self, is_one_row: bool) -> u8 {
        REPRESENTED[is_one_row as usize][self as usize]
    }

    /// Whether one may have to wait for the lock of a row that the other one took; `is_one_row`
    /// means that both are of the same row of a unique key. A row that was only just added is not
    /// seen, and so not waited for, except by an access that adds the same one.
    pub fn waits_for(self, other: AccessMode, is_one_row: bool) -> bool {
        match (self, other) {
            (AccessMode::Read, _) | (_, AccessMode::Read) => false,
            (AccessMode::Presence, _) | (_, AccessMode::Presence) => {
                self == AccessMode::Write || other == AccessMode::Write
            }
            (AccessMode::Add, _) | (_, AccessMode::Add) => is_one_row,
            _ => true,
        }
    }

    /// Whether others may see that it was done.
    pub const fn changes(self) -> bool {
        self as u8 >= AccessMode::Add as u8
    }
}

/// Indexed by whether it is one row and by mode: the modes that conflict.
const CONFLICTING: [[u8; AccessMode::ALL.len()]; 2] = [conflicting(false), conflicting(true)];

/// Likewise: the represented access modes.
const REPRESENTED: [[u8; AccessMode::ALL.len()]; 2] =
    [represented(CONFLICTING[0]), represented(CONFLICTING[1])];

const fn conflicting(is_one_row: bool) -> [u8; AccessMode::ALL.len()] {
    let mut all = [0; AccessMode::ALL.len()];
    let mut at = 0;
    while at < all.len() * all.len() {
        let (one, other) = (at / all.len(), at % all.len());
        all[one] |=
            (AccessMode::ALL[one].conflicts(AccessMode::ALL[other], is_one_row) as u8) << other;
        at += 1;
    }
    all
}

const fn represented(conflicting: [u8; AccessMode::ALL.len()]) -> [u8; AccessMode::ALL.len()] {
    let mut all = [0; AccessMode::ALL.len()];
    let mut at = 0;
    while at < all.len() * all.len() {
        let (one, other) = (at / all.len(), at % all.len());
        let is_more = (conflicting[other] & !conflicting[one]) == 0;
        all[one] |= ((is_more as u8) << other) & conflicting[one];
        at += 1;
    }
    all
}

/// A table, a sequence, or another object of conflicts, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(u32);

impl Object {
    pub const ADVISORY: Object = Object(3);

    pub fn table(index: usize) -> Object {
        Object((index as u32) << 2)
    }

    pub fn sequence(index: usize) -> Object {
        Object((index as u32) << 2 | 1)
    }

    /// A uniqueness constraint, by number.
    pub fn unique(number: usize) -> Object {
        Object((number as u32) << 2 | 2)
    }

    /// Whether it is a uniqueness constraint.
    pub fn keeps_apart(self) -> bool {
        self.0 & 3 == 2
    }

    /// Whether changes are visible to others, and can be rolled back, only at the end of the
    /// transaction. A sequence generates no value twice, whatever happens to the transaction.
    pub fn is_transactional(self) -> bool {
        self.0 & 3 != 1
    }
}

/// A set of key columns of a table, by number; 0 for no key.
pub type Columns = u16;

/// An access of a statement to an object, or to the rows of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectAccess {
    pub object: Object,
    pub mode: AccessMode,
    /// The columns whose values identify its rows; 0 if they may be any rows.
    pub columns: Columns,
    /// Whether there is only one such row.
    pub is_unique: bool,
    /// A hash of the values.
    pub value: u64,
}

impl ObjectAccess {
    /// An access to any rows of an object.
    pub fn whole(object: Object, mode: AccessMode) -> ObjectAccess {
        ObjectAccess { object, mode, columns: 0, is_unique: false, value: 0 }
    }

    /// The access without regard to rows: one that adds rows may conflict with others.
    pub fn of_whole_object(&self) -> ObjectAccess {
        let mode = if self.mode.changes() { AccessMode::Write } else { AccessMode::Read };
        ObjectAccess::whole(self.object, mode)
    }

    /// Whether two of different statements conflict.
    pub fn conflicts(&self, other: &ObjectAccess) -> bool {
        let is_one_row = self.is_unique && self.columns == other.columns;
        let conflicts = self.mode.conflicts(other.mode, is_one_row);
        self.object == other.object && conflicts && !self.has_other_rows(other)
    }

    /// Whether one of two of different statements may have to wait for the other one's locks.
    pub fn waits_for(&self, other: &ObjectAccess) -> bool {
        let is_one_row = self.is_unique && self.columns == other.columns;
        self.object == other.object
            && self.object.is_transactional()
            && self.waits_for_mode(other.mode, is_one_row)
            && !self.has_other_rows(other)
    }

    /// Whether it waits for another mode of access to the object. A write of a unique value waits
    /// for the removal of the same value.
    pub fn waits_for_mode(&self, other: AccessMode, is_one_row: bool) -> bool {
        if self.object.keeps_apart() {
            self.mode.conflicts(other, is_one_row)
        } else {
            self.mode.waits_for(other, is_one_row)
        }
    }

    fn has_other_rows(&self, other: &ObjectAccess) -> bool {
        self.columns == other.columns && self.columns > 0 && self.value != other.value
    }

    /// Whether it locks rows, or waits for such locks.
    pub fn locks(&self) -> bool {
        let is_nobody_elses = self.mode == AccessMode::Add && !self.is_unique;
        let is_waited_for = self.mode != AccessMode::Read || self.object.keeps_apart();
        is_waited_for && !is_nobody_elses && self.object.is_transactional()
    }
}

/// All accesses of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSet {
    /// Accesses to known objects.
    pub known: Vec<ObjectAccess>,
    /// Accesses that the end of the transaction has too, without changes: rows that have to exist
    /// by then, and rows that are removed for others.
    pub at_end: Vec<ObjectAccess>,
    /// Additional access to all objects.
    pub anything: Option<AccessMode>,
}

impl AccessSet {
    /// The strongest mode.
    pub fn strongest(&self) -> Option<AccessMode> {
        let known = self.known.iter().map(|object_access| object_access.mode);
        known.chain(self.anything).max()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.known.clear();
        self.at_end.clear();
        self.anything = None;
    }

    /// Becomes a copy of another one without regard to rows.
    pub fn of_whole_objects(&mut self, other: &AccessSet) {
        self.anything = other.anything;
        self.known.clear();
        self.known.extend(other.known.iter().map(ObjectAccess::of_whole_object));
    }

    /// Whether one may have to wait for the other's lock of a row or table. The check of a foreign
    /// key locks rows too, if only to keep them; and a write of a unique value waits for the
    /// removal of the same value.
    pub fn lock_the_same(&self, other: &AccessSet) -> bool {
        let anything = |one: &AccessSet, other: &AccessSet| {
            one.anything == Some(AccessMode::Write) && other.may_wait()
        };
        let locks = |object_access: &&ObjectAccess| {
            let is_waited_for =
                object_access.mode != AccessMode::Read || object_access.object.keeps_apart();
            is_waited_for && object_access.object.is_transactional()
        };
        let mut own = self.known.iter().filter(locks);
        anything(self, other)
            || anything(other, self)
            || own.any(|one| other.known.iter().filter(locks).any(|two| one.conflicts(two)))
    }

    /// Whether it locks rows, or waits for such locks, as far as known.
    pub fn lock(&self) -> bool {
        self.anything == Some(AccessMode::Write) || self.known.iter().any(ObjectAccess::locks)
    }

    /// Whether it may have to wait for a lock of a row or a table.
    pub fn may_wait(&self) -> bool {
        self.strongest().is_some_and(AccessMode::changes)
    }

    /// Whether two of different statements conflict.
    #[cfg(test)]
    pub fn conflict(&self, other: &AccessSet) -> bool {
        let may_do = |one: &AccessSet, other: &AccessSet| {
            let (all, mode) = (one.anything, other.strongest());
            all.zip(mode).is_some_and(|(all, mode)| all.conflicts(mode, false))
        };
        may_do(self, other)
            || may_do(other, self)
            || self.known.iter().any(|one| other.known.iter().any(|two| one.conflicts(two)))
    }
}
