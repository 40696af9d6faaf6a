//! What a statement touches: tables and sequences, and which of their rows, as far as it says.
//!
//! Two that touch the same table do not conflict where both name rows by the same columns of a key
//! and the values differ. Else it is what they do that tells ([`Deed::conflicts`]).

use seatrial_sqltext::reading::{Access, Only};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Deed {
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

impl Deed {
    /// All of them, in the order of their numbers.
    pub const ALL: [Deed; 5] = [Deed::Presence, Deed::Read, Deed::Add, Deed::Values, Deed::Write];

    /// What an access does.
    pub fn of(access: &Access) -> Deed {
        match (access.writes, access.only) {
            (false, Only::Presence | Only::Later) => Deed::Presence,
            (false, _) => Deed::Read,
            (true, Only::New) => Deed::Add,
            (true, Only::Values) => Deed::Values,
            (true, Only::All | Only::Presence | Only::Later) => Deed::Write,
        }
    }

    /// Whether two of them conflict; `is_one_row` tells that both are of the same row of a unique
    /// key. Two who add rows do not: it is keys that tell new rows apart.
    pub const fn conflicts(self, other: Deed, is_one_row: bool) -> bool {
        match (self, other) {
            (Deed::Add, Deed::Add) => is_one_row,
            (Deed::Presence, Deed::Values) | (Deed::Values, Deed::Presence) => false,
            _ => self.changes() || other.changes(),
        }
    }

    /// Those that it conflicts with: a bit for each, in the order of their numbers.
    #[inline]
    pub const fn conflicting(self, is_one_row: bool) -> u8 {
        CONFLICTING[is_one_row as usize][self as usize]
    }

    /// Those that it stands for when it waited for them: whoever conflicts with these conflicts
    /// with it.
    #[inline]
    pub const fn stood_for(self, is_one_row: bool) -> u8 {
        STOOD_FOR[is_one_row as usize][self as usize]
    }

    /// Whether one may have to wait for the lock of a row that the other one took;
    /// `is_one_row` tells that both are of the same row of a unique key. Nobody sees, and so waits
    /// for, a row that was only just added, but for who adds the same one.
    pub fn waits_for(self, other: Deed, is_one_row: bool) -> bool {
        match (self, other) {
            (Deed::Read, _) | (_, Deed::Read) => false,
            (Deed::Presence, _) | (_, Deed::Presence) => {
                self == Deed::Write || other == Deed::Write
            }
            (Deed::Add, _) | (_, Deed::Add) => is_one_row,
            _ => true,
        }
    }

    /// Whether others may see that it was done.
    pub const fn changes(self) -> bool {
        self as u8 >= Deed::Add as u8
    }
}

/// By whether it is one row and by deed: the deeds that conflict.
const CONFLICTING: [[u8; Deed::ALL.len()]; 2] = [conflicting(false), conflicting(true)];

/// In the same way: the deeds that are stood for.
const STOOD_FOR: [[u8; Deed::ALL.len()]; 2] =
    [stood_for(CONFLICTING[0]), stood_for(CONFLICTING[1])];

const fn conflicting(is_one_row: bool) -> [u8; Deed::ALL.len()] {
    let mut all = [0; Deed::ALL.len()];
    let mut at = 0;
    while at < all.len() * all.len() {
        let (one, other) = (at / all.len(), at % all.len());
        all[one] |= (Deed::ALL[one].conflicts(Deed::ALL[other], is_one_row) as u8) << other;
        at += 1;
    }
    all
}

const fn stood_for(conflicting: [u8; Deed::ALL.len()]) -> [u8; Deed::ALL.len()] {
    let mut all = [0; Deed::ALL.len()];
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
pub struct Touch {
    /// The object.
    pub object: Object,
    /// What is done to it.
    pub deed: Deed,
    /// The columns whose values its rows have; 0 where they may be any rows.
    pub columns: Columns,
    /// Whether there is but one such row.
    pub is_unique: bool,
    /// A hash of the values.
    pub value: u64,
}

impl Touch {
    /// Of any rows of an object.
    pub fn whole(object: Object, deed: Deed) -> Touch {
        Touch { object, deed, columns: 0, is_unique: false, value: 0 }
    }

    /// The same without regard to rows: who adds some may be in the way of who adds others.
    pub fn of_whole_object(&self) -> Touch {
        let deed = if self.deed.changes() { Deed::Write } else { Deed::Read };
        Touch::whole(self.object, deed)
    }

    /// Whether two of different statements conflict.
    pub fn conflicts(&self, other: &Touch) -> bool {
        let is_one_row = self.is_unique && self.columns == other.columns;
        let conflicts = self.deed.conflicts(other.deed, is_one_row);
        self.object == other.object && conflicts && !self.has_other_rows(other)
    }

    /// Whether one of two of different statements may have to wait for the other one's locks.
    pub fn waits_for(&self, other: &Touch) -> bool {
        let is_one_row = self.is_unique && self.columns == other.columns;
        self.object == other.object
            && self.object.is_transactional()
            && self.waits_for_deed(other.deed, is_one_row)
            && !self.has_other_rows(other)
    }

    /// The same of what is done to one object. Who puts a value where no two may have the same
    /// waits for whoever takes it away.
    pub fn waits_for_deed(&self, other: Deed, is_one_row: bool) -> bool {
        if self.object.keeps_apart() {
            self.deed.conflicts(other, is_one_row)
        } else {
            self.deed.waits_for(other, is_one_row)
        }
    }

    fn has_other_rows(&self, other: &Touch) -> bool {
        self.columns == other.columns && self.columns > 0 && self.value != other.value
    }

    /// Whether it locks rows, or waits for such locks.
    pub fn locks(&self) -> bool {
        let is_nobody_elses = self.deed == Deed::Add && !self.is_unique;
        let is_waited_for = self.deed != Deed::Read || self.object.keeps_apart();
        is_waited_for && !is_nobody_elses && self.object.is_transactional()
    }
}

/// All that a statement touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touches {
    /// What is known of it.
    pub known: Vec<Touch>,
    /// What of it the end of the transaction touches too, and does not change: what is to be there
    /// by then, and what is taken away for others.
    pub at_end: Vec<Touch>,
    /// What it may do to all objects besides.
    pub anything: Option<Deed>,
}

impl Touches {
    /// What it does at most.
    pub fn utmost(&self) -> Option<Deed> {
        let known = self.known.iter().map(|touch| touch.deed);
        known.chain(self.anything).max()
    }

    /// Becomes that of a statement that touches nothing.
    pub fn clear(&mut self) {
        self.known.clear();
        self.at_end.clear();
        self.anything = None;
    }

    /// Becomes the same as another without regard to rows.
    pub fn of_whole_objects(&mut self, other: &Touches) {
        self.anything = other.anything;
        self.known.clear();
        self.known.extend(other.known.iter().map(Touch::of_whole_object));
    }

    /// Whether one may have to wait for the other's lock of a row or table. The check of a foreign
    /// key locks rows too, if only to keep them; and who puts a value where no two may have the
    /// same waits for whoever takes it away.
    pub fn lock_the_same(&self, other: &Touches) -> bool {
        let anything =
            |one: &Touches, other: &Touches| one.anything == Some(Deed::Write) && other.may_wait();
        let locks = |touch: &&Touch| {
            let is_waited_for = touch.deed != Deed::Read || touch.object.keeps_apart();
            is_waited_for && touch.object.is_transactional()
        };
        let mut own = self.known.iter().filter(locks);
        anything(self, other)
            || anything(other, self)
            || own.any(|one| other.known.iter().filter(locks).any(|two| one.conflicts(two)))
    }

    /// Whether it locks rows, or waits for such locks, as far as is known.
    pub fn lock(&self) -> bool {
        self.anything == Some(Deed::Write) || self.known.iter().any(Touch::locks)
    }

    /// Whether it may have to wait for a lock of a row or a table.
    pub fn may_wait(&self) -> bool {
        self.utmost().is_some_and(Deed::changes)
    }

    /// Whether two of different statements conflict.
    pub fn conflict(&self, other: &Touches) -> bool {
        let may_do = |one: &Touches, other: &Touches| {
            let (all, deed) = (one.anything, other.utmost());
            all.zip(deed).is_some_and(|(all, deed)| all.conflicts(deed, false))
        };
        may_do(self, other)
            || may_do(other, self)
            || self.known.iter().any(|one| other.known.iter().any(|two| one.conflicts(two)))
    }
}
