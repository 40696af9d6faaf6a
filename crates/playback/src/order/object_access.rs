//! What a statement touches: tables and sequences, and which of their rows, as far as it says.
//!
//! Two accesses to the same table do not conflict where both name rows by the same columns of a key
//! and the values differ. Otherwise their modes decide ([`AccessMode::conflicts`]).

use seatrial_sqltext::reading::{Access, RowAspect};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AccessMode {
    /// Rows are to be there: the check of a foreign key.
    Presence = 0,
    /// Rows are looked at.
    Read = 1,
    /// Rows are added, and none is looked at.
    Add = 2,
    /// What is of no key is changed, or rows are locked.
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

    /// What an access does.
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

    /// Those that it conflicts with: a bit for each, in the order of their numbers.
    #[inline]
    pub const fn conflicting(self, is_one_row: bool) -> u8 {
        CONFLICTING[is_one_row as usize][self as usize]
    }

    /// The modes that it represents when it waited for them: whatever conflicts with these
    /// conflicts with it.
    #[inline]
    pub const fn stood_for(self, is_one_row: bool) -> u8 {
        STOOD_FOR[is_one_row as usize][self as usize]
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

/// By whether it is one row and by access mode: the access modes that conflict.
const CONFLICTING: [[u8; AccessMode::ALL.len()]; 2] = [conflicting(false), conflicting(true)];

/// Likewise: the represented access modes.
const STOOD_FOR: [[u8; AccessMode::ALL.len()]; 2] =
    [stood_for(CONFLICTING[0]), stood_for(CONFLICTING[1])];

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

const fn stood_for(conflicting: [u8; AccessMode::ALL.len()]) -> [u8; AccessMode::ALL.len()] {
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

/// A table, a sequence, or what else statements meet at, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object(u32);

impl Object {
    /// Advisory locks, all of them.
    pub const ADVISORY: Object = Object(3);

    /// A table, by its place in the catalogue.
    pub fn table(place: usize) -> Object {
        Object((place as u32) << 2)
    }

    /// A sequence, by its place in the catalogue.
    pub fn sequence(place: usize) -> Object {
        Object((place as u32) << 2 | 1)
    }

    /// What keeps rows apart, by its number.
    pub fn unique(number: usize) -> Object {
        Object((number as u32) << 2 | 2)
    }

    /// Whether it is what keeps rows apart.
    pub fn keeps_apart(self) -> bool {
        self.0 & 3 == 2
    }

    /// Whether what is done to it is seen by others, and can be undone, only when the transaction
    /// ends. A sequence gives no value twice, whatever becomes of the transaction.
    pub fn is_transactional(self) -> bool {
        self.0 & 3 != 1
    }
}

/// Which columns of a table a key has: a number of them; 0 for no key.
pub type Columns = u16;

/// What a statement does to one object, or to the rows of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectAccess {
    /// The object.
    pub object: Object,
    /// What is done to it.
    pub mode: AccessMode,
    /// The columns whose values its rows have; 0 where they may be any rows.
    pub columns: Columns,
    /// Whether there is but one such row.
    pub is_unique: bool,
    /// A hash of the values.
    pub value: u64,
}

impl ObjectAccess {
    /// Of any rows of an object.
    pub fn whole(object: Object, mode: AccessMode) -> ObjectAccess {
        ObjectAccess { object, mode, columns: 0, is_unique: false, value: 0 }
    }

    /// Returns the access without regard to rows: who adds some may be in the way of others.
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

    /// Whether it waits for another mode of access to one object. A write of a unique value waits
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

/// All that a statement touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSet {
    /// What is known of it.
    pub known: Vec<ObjectAccess>,
    /// What of it the end of the transaction touches too, and does not change: what is to be there
    /// by then, and what is taken away for others.
    pub at_end: Vec<ObjectAccess>,
    /// What it may do to all objects besides.
    pub anything: Option<AccessMode>,
}

impl AccessSet {
    /// What it does at most.
    pub fn utmost(&self) -> Option<AccessMode> {
        let known = self.known.iter().map(|object_access| object_access.mode);
        known.chain(self.anything).max()
    }

    /// Becomes that of a statement that touches nothing.
    pub fn clear(&mut self) {
        self.known.clear();
        self.at_end.clear();
        self.anything = None;
    }

    /// Becomes the same as another without regard to rows.
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

    /// Whether it locks rows, or waits for such locks, as far as is known.
    pub fn lock(&self) -> bool {
        self.anything == Some(AccessMode::Write) || self.known.iter().any(ObjectAccess::locks)
    }

    /// Whether it may have to wait for a lock of a row or a table.
    pub fn may_wait(&self) -> bool {
        self.utmost().is_some_and(AccessMode::changes)
    }

    /// Whether two of different statements conflict.
    pub fn conflict(&self, other: &AccessSet) -> bool {
        let may_do = |one: &AccessSet, other: &AccessSet| {
            let (all, mode) = (one.anything, other.utmost());
            all.zip(mode).is_some_and(|(all, mode)| all.conflicts(mode, false))
        };
        may_do(self, other)
            || may_do(other, self)
            || self.known.iter().any(|one| other.known.iter().any(|two| one.conflicts(two)))
    }
}
