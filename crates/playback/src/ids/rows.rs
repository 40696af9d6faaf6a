//! Rows that statements pick and show: which id the row of a key has, whoever drew it.
//!
//! A client learns an id that ON CONFLICT finds, or that a trigger or an INSERT ... SELECT has
//! drawn, with a query for the row: by a unique key, or by a condition that one row alone fulfils.
//! A playback sends the same query again, and the answer is the id of the same row there.
//!
//! All statements that showed an id are for one row, and so is what was captured without a row but
//! names its key: an INSERT that gave way then, and may be the first now.
//!
//! Of several rows each is known by all that it shows besides ids and times, if no other row of the
//! answer is alike, and if the same question is answered by the same rows in the playback.

use std::collections::HashMap;
use std::hash::Hasher;

use seatrial_sqltext::reading::{ColumnId, Operand, ReturnedKey, ValuePosition};
use seatrial_trace::captured::{digest, digest_once};
use twox_hash::XxHash64;

use super::scan::ScannedStatement;
use super::values::{Id, Kind, Spelled};

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
    /// Of several rows, by what this one is known: one of [`Several::rows`].
    pub of_several: Option<u64>,
}

/// Rows of one answer, and by what each is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Several {
    /// Columns of the result by which they are known.
    pub columns: Vec<u32>,
    /// By what: hashes of their values in these, in ascending order, each once.
    pub rows: Vec<u64>,
}

impl Several {
    /// By what a row is known that has these values in the columns.
    pub fn row<'v>(values: impl Iterator<Item = Option<&'v [u8]>>) -> u64 {
        Several::row_of(values.map(|value| value.map(digest)))
    }

    fn row_of(digests: impl Iterator<Item = Option<Vec<u8>>>) -> u64 {
        let mut hasher = XxHash64::with_seed(0);
        for digest in digests {
            hasher.write(digest.as_deref().unwrap_or(b"null"));
            hasher.write_u8(b',');
        }
        hasher.finish()
    }

    /// Where each of these rows is in an answer that has them; None where it has others, or two
    /// that are alike.
    pub fn places(&self, answered: &[u64]) -> Option<HashMap<u64, usize>> {
        let places: HashMap<u64, usize> = answered.iter().copied().zip(0..).collect();
        let is_same = answered.len() == self.rows.len()
            && self.rows.iter().all(|row| places.contains_key(row));
        is_same.then_some(places)
    }
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
    /// Answers of several rows, by the statement's place in the trace.
    pub several: HashMap<u64, Several>,
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
        seen: &ScannedStatement<'_>,
        shown: &ReturnedKey,
        (class, kind): (u32, Kind),
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) -> Option<Id> {
        let key = shown.key.and_then(|key| {
            let key = &seen.reading.keys[usize::from(key)];
            key_of(shown.column, &key.columns, &key.rows[0], spelled)
        });
        let is_by_key = key.is_some();
        let (number, returned) = (seen.number, shown.returned);
        let by = ShownBy { number, returned, is_by_key, of_several: None };
        let rows = seen.returned.map_or(&[][..], |reported| reported.rows.as_slice());
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
        if shown.key.is_some() && !is_by_key {
            return None;
        }
        let place = self.show(class, id, seen.session, by)?;
        if let Some(key) = key {
            self.all[place as usize].key.get_or_insert(key);
            let known = self.keys.entry(key).or_insert(place);
            if *known != place {
                *known = SEVERAL;
            }
        }
        Some(id)
    }

    /// Takes in what a statement showed of several rows: columns of its result with the classes of
    /// their ids, and those of times. Returns the ids.
    pub fn take_several(
        &mut self,
        seen: &ScannedStatement<'_>,
        shown: &[(ReturnedKey, u32, Kind)],
        times: &[u32],
    ) -> Vec<(u32, Id)> {
        let mut ids = Vec::new();
        let Some(reported) = seen.returned else { return ids };
        let is_whole = reported.rows.len() > 1 && seen.rows == Some(reported.rows.len() as u64);
        if !is_whole || shown.iter().any(|(shown, ..)| shown.key.is_some()) {
            return ids;
        }
        let is_id = |column: &u32| shown.iter().any(|(shown, ..)| shown.returned == *column);
        let columns = (0..reported.columns.len() as u32)
            .filter(|column| !is_id(column) && !times.contains(column))
            .collect::<Vec<u32>>();
        let known_by = |row: &Vec<Option<Vec<u8>>>| {
            let values = columns.iter().map(|&column| row.get(column as usize)?.as_deref());
            Several::row_of(values.map(|value| value.map(digest_once)))
        };
        let known: Vec<u64> = reported.rows.iter().map(known_by).collect();
        let mut rows = known.clone();
        rows.sort_unstable();
        rows.dedup();
        if columns.is_empty() || rows.len() < known.len() {
            return ids;
        }
        for (row, &of_several) in reported.rows.iter().zip(&known) {
            for &(ReturnedKey { returned, .. }, class, kind) in shown {
                let text = row.get(returned as usize).and_then(Option::as_deref);
                let Some(id) = text.and_then(|text| Id::read(kind, text)) else { continue };
                let of_several = Some(of_several);
                let by = ShownBy { number: seen.number, returned, is_by_key: false, of_several };
                if self.show(class, id, seen.session, by).is_some() {
                    ids.push((class, id));
                }
            }
        }
        if !ids.is_empty() {
            self.several.insert(seen.number, Several { columns, rows });
        }
        ids
    }

    /// A statement of a session showed the row of an id: its place; None where it is not followed.
    fn show(&mut self, class: u32, id: Id, session: u32, by: ShownBy) -> Option<u32> {
        if self.is_before(class, id) {
            return None;
        }
        let next = self.all.len() as u32;
        let place = match self.places.get(&(class, id)) {
            Some(&place) => place,
            None if self.all.len() >= ROWS_MAX => return None,
            None => {
                self.places.insert((class, id), next);
                self.all.push(Row { class, session, by: Vec::new(), key: None });
                next
            }
        };
        let row = &mut self.all[place as usize];
        if row.by.len() < STATEMENTS_MAX {
            row.by.push(by);
        }
        Some(place)
    }

    /// Ends the pass: what was shown no row is for the one of its key.
    pub fn finish(&mut self) {
        for (key, by) in std::mem::take(&mut self.none_shown) {
            let Some(&place) = self.keys.get(&key).filter(|&&place| place != SEVERAL) else {
                continue;
            };
            let all = &mut self.all[place as usize].by;
            let at = all.partition_point(|one| one.number < by.number);
            // The first is one that showed it: a statement that names the id knew it by then.
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

/// A unique key with its values, hashed; None unless all are known.
fn key_of<'a>(
    column: ColumnId,
    columns: &[ColumnId],
    row: &[Operand],
    spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
) -> Option<u64> {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write_usize(column.table);
    hasher.write_usize(column.column);
    for (of, operand) in columns.iter().zip(row) {
        hasher.write_usize(of.column);
        let plain = spelled(operand.position()).and_then(Spelled::plain)?;
        hasher.write_usize(plain.len());
        hasher.write(plain);
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_sqltext::reading::StatementEffects;
    use seatrial_trace::captured::Returned;

    const SHOWN: ReturnedKey =
        ReturnedKey { column: ColumnId { table: 0, column: 0 }, returned: 0, key: None };

    /// What is followed of rows of an id, a value, and a time.
    fn rows(values: &[[&str; 3]], count: u64) -> (Rows, usize) {
        let reported = |value: &&str| Some(value.as_bytes().to_vec());
        let rows: Vec<_> = values.iter().map(|row| row.iter().map(reported).collect()).collect();
        let returned = Returned { columns: vec![Vec::new(); 3], rows };
        let reading = StatementEffects::default();
        let seen = ScannedStatement {
            number: 5,
            session: 0,
            transaction: 0,
            begins: false,
            start_us: 0,
            duration_us: None,
            reported_meanwhile: None,
            error: None,
            fingerprint: 0,
            reading: &reading,
            returned: Some(&returned),
            rows: Some(count),
            places: (0, 0),
        };
        let mut rows = Rows::with_begins(vec![Some((10, 1))]);
        let ids = rows.take_several(&seen, &[(SHOWN, 0, Kind::Number)], &[2]);
        (rows, ids.len())
    }

    fn known(value: &str) -> u64 {
        Several::row([Some(value.as_bytes())].into_iter())
    }

    #[test]
    fn each_of_several_rows_is_known_by_what_it_shows_besides_ids_and_times() {
        let digest = String::from_utf8(digest(b"b")).unwrap();
        let (rows, ids) = rows(&[["11", "a", "1"], ["12", &digest, "2"], ["3", "c", "3"]], 3);
        // The last one was there before.
        assert_eq!((ids, rows.all.len()), (2, 2));
        let several = &rows.several[&5];
        assert_eq!(several.columns, [1]);
        assert_eq!(rows.all[1].by[0].of_several, Some(known("b")));
        let places = several.places(&[known("b"), known("c"), known("a")]).unwrap();
        assert_eq!([places[&known("a")], places[&known("b")]], [2, 0]);
        for other in [&["a", "b", "d"][..], &["a", "b"], &["a", "b", "b"], &["a", "b", "c", "d"]] {
            let answered: Vec<u64> = other.iter().map(|value| known(value)).collect();
            assert_eq!(several.places(&answered), None, "{other:?}");
        }
    }

    #[test]
    fn rows_that_are_alike_or_not_all_known_are_not_followed() {
        assert_eq!(rows(&[["11", "a", "1"], ["12", "a", "2"]], 2).1, 0);
        assert_eq!(rows(&[["11", "a", "1"], ["12", "b", "2"]], 3).1, 0);
        assert_eq!(rows(&[["11", "a", "1"]], 1).1, 0);
    }
}
