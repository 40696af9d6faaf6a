//! Rows that statements pick and show: which id the row of a key has, whoever drew it.
//!
//! What ON CONFLICT finds there, what a trigger or an INSERT ... SELECT has drawn, a client learns
//! by asking for the row: by a unique key, or by a condition that one row alone fulfils. The same
//! question is asked again in a playback, and its answer is the id of the same row there.
//!
//! All statements that showed an id are for one row, and so is what was captured without a row but
//! names its key: an INSERT that gave way then, and may be the first now.

use std::collections::HashMap;
use std::hash::Hasher;

use twox_hash::XxHash64;

use super::scan::Seen;
use super::values::{Id, Kind, Spelled};
use crate::reading::{ColumnOf, Operand, Place, Shown};

/// Rows that are followed.
const ROWS_MAX: usize = 1 << 20;

/// Statements of each row that are followed, and of all that showed none.
const STATEMENTS_MAX: usize = 16;
const NONE_SHOWN_MAX: usize = 1 << 20;

/// A row whose key is not that of one id alone.
const SEVERAL: u32 = u32::MAX;

/// A statement that shows a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBy {
    /// Its place in the trace.
    pub number: u64,
    /// Where among the columns of its result the id comes back.
    pub returned: u32,
    /// Whether the row has its key, so that it is this row whatever else comes back.
    pub is_by_key: bool,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The class of its id.
    pub class: u32,
    /// The session that was shown it first.
    pub session: u32,
    /// Statements that show it, in the order of the trace.
    pub by: Vec<ShownBy>,
    /// Its unique key, hashed; None where it was shown by none.
    key: Option<u64>,
}

impl Row {
    /// The place of the statement that showed it first.
    pub fn first(&self) -> u64 {
        self.by.first().map_or(u64::MAX, |by| by.number)
    }
}

/// All rows that a trace shows.
#[derive(Debug, Default)]
pub struct Rows {
    /// They.
    pub all: Vec<Row>,
    places: HashMap<(u32, Id), u32>,
    keys: HashMap<u64, u32>,
    none_shown: Vec<(u64, ShownBy)>,
    begins: Vec<Option<(i64, i64)>>,
}

impl Rows {
    /// With what each class's sequence gives next when the trace begins, and its increment: what
    /// is before that was there.
    pub fn with_begins(begins: Vec<Option<(i64, i64)>>) -> Rows {
        Rows { begins, ..Rows::default() }
    }

    /// The row of an id.
    pub fn of(&self, class: u32, id: Id) -> Option<u32> {
        let place = *self.places.get(&(class, id))?;
        // A row that was deleted and made again has two ids under one key.
        let key = self.all[place as usize].key;
        let is_one = key.is_none_or(|key| self.keys.get(&key) == Some(&place));
        is_one.then_some(place)
    }

    /// Takes in what a statement showed of a row; returns its id.
    pub fn take<'a>(
        &mut self,
        seen: &Seen<'_>,
        shown: &Shown,
        (class, kind): (u32, Kind),
        spelled: &impl Fn(Place) -> Option<Spelled<'a>>,
    ) -> Option<Id> {
        let key = shown.key.and_then(|key| {
            let key = &seen.reading.keys[usize::from(key)];
            key_of(shown.column, &key.columns, &key.rows[0], spelled)
        });
        let is_by_key = key.is_some();
        let by = ShownBy { number: seen.number, returned: shown.returned, is_by_key };
        let rows = seen.returned.map_or(&[][..], |told| told.rows.as_slice());
        let [row] = rows else {
            if let (Some(key), true, Some(0)) = (key, rows.is_empty(), seen.rows) {
                if seen.reading.row_key.is_some() && self.none_shown.len() < NONE_SHOWN_MAX {
                    self.none_shown.push((key, by));
                }
            }
            return None;
        };
        if !is_by_key && seen.rows != Some(1) {
            return None;
        }
        let text = row.get(shown.returned as usize).and_then(Option::as_deref)?;
        let id = Id::read(kind, text)?;
        if self.is_before(class, id) || (shown.key.is_some() && !is_by_key) {
            return None;
        }
        let next = self.all.len() as u32;
        let place = match self.places.get(&(class, id)) {
            Some(&place) => place,
            None if self.all.len() >= ROWS_MAX => return None,
            None => {
                let session = seen.session;
                self.places.insert((class, id), next);
                self.all.push(Row { class, session, by: Vec::new(), key: None });
                next
            }
        };
        let row = &mut self.all[place as usize];
        if row.by.len() < STATEMENTS_MAX {
            row.by.push(by);
        }
        if let Some(key) = key {
            row.key.get_or_insert(key);
            let known = self.keys.entry(key).or_insert(place);
            if *known != place {
                *known = SEVERAL;
            }
        }
        Some(id)
    }

    /// Ends the pass: what was shown no row is for the one of its key.
    pub fn finish(&mut self) {
        for (key, by) in std::mem::take(&mut self.none_shown) {
            let Some(&place) = self.keys.get(&key).filter(|&&place| place != SEVERAL) else {
                continue;
            };
            let all = &mut self.all[place as usize].by;
            let at = all.partition_point(|one| one.number < by.number);
            // The first is one that showed it: who names the id was told it by then.
            all.insert(at.max(1).min(all.len()), by);
        }
    }

    fn is_before(&self, class: u32, id: Id) -> bool {
        let begin = self.begins.get(class as usize).copied().flatten();
        begin.is_some_and(|(first, increment)| match increment < 0 {
            true => id.number() > first,
            false => id.number() < first,
        })
    }
}

/// A unique key with its values, hashed; None where they are not all told.
fn key_of<'a>(
    column: ColumnOf,
    columns: &[ColumnOf],
    row: &[Operand],
    spelled: &impl Fn(Place) -> Option<Spelled<'a>>,
) -> Option<u64> {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write_usize(column.table);
    hasher.write_usize(column.column);
    for (of, operand) in columns.iter().zip(row) {
        hasher.write_usize(of.column);
        let plain = spelled(operand.place()).and_then(Spelled::plain)?;
        hasher.write_usize(plain.len());
        hasher.write(plain);
    }
    Some(hasher.finish())
}
