//! Rows that statements return by a key: which id the row has, whoever drew it.
//!
//! A client learns an id that ON CONFLICT finds, or that a trigger or an INSERT ... SELECT draws,
//! by a query for the row: by a unique key, or by a condition that only one row fulfils. A playback
//! sends the same query, and its answer has the id of the same row.
//!
//! All statements that returned an id are for one row, and so is a statement that returned no row
//! but names its key: an INSERT with a conflict then, which may insert the row now.
//!
//! One of several rows is identified by all its values except ids and times, if no other row of the
//! answer is equal, and if the same query returns the same rows in the playback.

use std::collections::HashMap;
use std::hash::Hasher;

use seatrial_sqltext::reading::{ColumnId, Operand, ReturnedKey, ValuePosition};
use seatrial_trace::captured::{digest, digest_once};
use twox_hash::XxHash64;

use super::scan::ScannedStatement;
use super::values::{Id, Kind, ValueText};

/// Maximum number of rows that are followed.
const ROWS_MAX: usize = 1 << 20;

/// Maximum number of statements per row, and of all that returned no row.
const STATEMENTS_MAX: usize = 16;
const NONE_SHOWN_MAX: usize = 1 << 20;

/// Marks a key of several ids.
const SEVERAL: u32 = u32::MAX;

/// A statement that returned a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnedBy {
    /// Its position in the trace.
    pub number: u64,
    /// Which column of its result has the id.
    pub returned: u32,
    /// Whether the answer has the row's key, so that it identifies the row.
    pub is_by_key: bool,
    /// For one of several rows: the digest that identifies it, one of [`MultiRowAnswer::rows`].
    pub row_digest: Option<u64>,
}

/// An answer of several rows, and what identifies each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiRowAnswer {
    /// Columns of the result that identify a row.
    pub columns: Vec<u32>,
    /// Hashes of their values, in ascending order, each once.
    pub rows: Vec<u64>,
}

impl MultiRowAnswer {
    /// The hash that identifies a row with these values.
    pub fn row<'v>(values: impl Iterator<Item = Option<&'v [u8]>>) -> u64 {
        MultiRowAnswer::row_of(values.map(|value| value.map(digest)))
    }

    fn row_of(digests: impl Iterator<Item = Option<Vec<u8>>>) -> u64 {
        let mut hasher = XxHash64::with_seed(0);
        for digest in digests {
            hasher.write(digest.as_deref().unwrap_or(b"null"));
            hasher.write_u8(b',');
        }
        hasher.finish()
    }

    /// The index of each of these rows in an answer; None if it has other rows, or two that are
    /// equal.
    pub fn row_indexes(&self, answered: &[u64]) -> Option<HashMap<u64, usize>> {
        let indexes: HashMap<u64, usize> = answered.iter().copied().zip(0..).collect();
        let is_same = answered.len() == self.rows.len()
            && self.rows.iter().all(|row| indexes.contains_key(row));
        is_same.then_some(indexes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The class of its id.
    pub class: u32,
    /// The session that was the first to see it.
    pub session: u32,
    /// Statements that returned it, in the order of the trace.
    pub by: Vec<ReturnedBy>,
    /// Hash of its unique key; None if no statement returned it.
    key: Option<u64>,
}

impl Row {
    /// The position of the statement that returned it first.
    pub fn first(&self) -> u64 {
        self.by.first().map_or(u64::MAX, |by| by.number)
    }
}

/// All rows that a trace shows.
#[derive(Debug, Default)]
pub struct Rows {
    pub all: Vec<Row>,
    indexes: HashMap<(u32, Id), u32>,
    keys: HashMap<u64, u32>,
    none_shown: Vec<(u64, ReturnedBy)>,
    /// Answers of several rows, by the statement's position in the trace.
    pub multi_row: HashMap<u64, MultiRowAnswer>,
    begins: Vec<Option<(i64, i64)>>,
}

impl Rows {
    /// `begins` are the next value of each class's sequence at the beginning of the trace, and its
    /// increment: earlier values existed before.
    pub fn with_begins(begins: Vec<Option<(i64, i64)>>) -> Rows {
        Rows { begins, ..Rows::default() }
    }

    pub fn of(&self, class: u32, id: Id) -> Option<u32> {
        let index = *self.indexes.get(&(class, id))?;
        // A row that was deleted and made again has two ids under one key.
        let key = self.all[index as usize].key;
        let is_one = key.is_none_or(|key| self.keys.get(&key) == Some(&index));
        is_one.then_some(index)
    }

    /// Records that a statement returned a row; returns the row's number.
    pub fn take<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        shown: &ReturnedKey,
        (class, kind): (u32, Kind),
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) -> Option<Id> {
        let key = shown.key.and_then(|key| {
            let key = &scanned.reading.keys[usize::from(key)];
            key_of(shown.column, &key.columns, &key.rows[0], value_text)
        });
        let is_by_key = key.is_some();
        let (number, returned) = (scanned.number, shown.returned);
        let by = ReturnedBy { number, returned, is_by_key, row_digest: None };
        let rows = scanned.returned.map_or(&[][..], |returned| returned.rows.as_slice());
        let [row] = rows else {
            if let (Some(key), true, Some(0)) = (key, rows.is_empty(), scanned.rows) {
                if scanned.reading.row_key.is_some() && self.none_shown.len() < NONE_SHOWN_MAX {
                    self.none_shown.push((key, by));
                }
            }
            return None;
        };
        if !is_by_key && scanned.rows != Some(1) {
            return None;
        }
        let text = row.get(shown.returned as usize).and_then(Option::as_deref)?;
        let id = Id::read(kind, text)?;
        if shown.key.is_some() && !is_by_key {
            return None;
        }
        let index = self.show(class, id, scanned.session, by)?;
        if let Some(key) = key {
            self.all[index as usize].key.get_or_insert(key);
            let known = self.keys.entry(key).or_insert(index);
            if *known != index {
                *known = SEVERAL;
            }
        }
        Some(id)
    }

    /// Records that a statement returned several rows: columns of its result with the classes of
    /// their ids, and those of times. Returns the rows' numbers.
    pub fn take_multi_row(
        &mut self,
        scanned: &ScannedStatement<'_>,
        shown: &[(ReturnedKey, u32, Kind)],
        times: &[u32],
    ) -> Vec<(u32, Id)> {
        let mut ids = Vec::new();
        let Some(answer) = scanned.returned else { return ids };
        let is_whole = answer.rows.len() > 1 && scanned.rows == Some(answer.rows.len() as u64);
        if !is_whole || shown.iter().any(|(shown, ..)| shown.key.is_some()) {
            return ids;
        }
        let is_id = |column: &u32| shown.iter().any(|(shown, ..)| shown.returned == *column);
        let columns = (0..answer.columns.len() as u32)
            .filter(|column| !is_id(column) && !times.contains(column))
            .collect::<Vec<u32>>();
        let known_by = |row: &Vec<Option<Vec<u8>>>| {
            let values = columns.iter().map(|&column| row.get(column as usize)?.as_deref());
            MultiRowAnswer::row_of(values.map(|value| value.map(digest_once)))
        };
        let known: Vec<u64> = answer.rows.iter().map(known_by).collect();
        let mut rows = known.clone();
        rows.sort_unstable();
        rows.dedup();
        if columns.is_empty() || rows.len() < known.len() {
            return ids;
        }
        for (row, &row_digest) in answer.rows.iter().zip(&known) {
            for &(ReturnedKey { returned, .. }, class, kind) in shown {
                let text = row.get(returned as usize).and_then(Option::as_deref);
                let Some(id) = text.and_then(|text| Id::read(kind, text)) else { continue };
                let row_digest = Some(row_digest);
                let by =
                    ReturnedBy { number: scanned.number, returned, is_by_key: false, row_digest };
                if self.show(class, id, scanned.session, by).is_some() {
                    ids.push((class, id));
                }
            }
        }
        if !ids.is_empty() {
            self.multi_row.insert(scanned.number, MultiRowAnswer { columns, rows });
        }
        ids
    }

    /// A statement of a session returned the row of an id; returns its number; None if it is not
    /// followed.
    fn show(&mut self, class: u32, id: Id, session: u32, by: ReturnedBy) -> Option<u32> {
        if self.is_before(class, id) {
            return None;
        }
        let next = self.all.len() as u32;
        let index = match self.indexes.get(&(class, id)) {
            Some(&index) => index,
            None if self.all.len() >= ROWS_MAX => return None,
            None => {
                self.indexes.insert((class, id), next);
                self.all.push(Row { class, session, by: Vec::new(), key: None });
                next
            }
        };
        let row = &mut self.all[index as usize];
        if row.by.len() < STATEMENTS_MAX {
            row.by.push(by);
        }
        Some(index)
    }

    /// Ends the pass: a statement that returned no row is for the row of its key.
    pub fn finish(&mut self) {
        for (key, by) in std::mem::take(&mut self.none_shown) {
            let Some(&index) = self.keys.get(&key).filter(|&&index| index != SEVERAL) else {
                continue;
            };
            let all = &mut self.all[index as usize].by;
            let at = all.partition_point(|one| one.number < by.number);
            // The first is one that showed it: a statement that names the id knew it by then.
            all.insert(at.max(1).min(all.len()), by);
        }
    }

    fn is_before(&self, class: u32, id: Id) -> bool {
        let begin = self.begins.get(class as usize).copied().flatten();
        begin.is_some_and(|(first, increment)| id.is_before(first, increment))
    }
}

/// Hash of a unique key with its values; None unless all are known.
fn key_of<'a>(
    column: ColumnId,
    columns: &[ColumnId],
    row: &[Operand],
    value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
) -> Option<u64> {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write_usize(column.table);
    hasher.write_usize(column.column);
    for (of, operand) in columns.iter().zip(row) {
        hasher.write_usize(of.column);
        let plain = value_text(operand.position()).and_then(ValueText::plain)?;
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

    /// The rows that are followed for an id, a value, and a time.
    fn rows(values: &[[&str; 3]], count: u64) -> (Rows, usize) {
        let text = |value: &&str| Some(value.as_bytes().to_vec());
        let rows: Vec<_> = values.iter().map(|row| row.iter().map(text).collect()).collect();
        let returned = Returned { columns: vec![Vec::new(); 3], rows };
        let reading = StatementEffects::default();
        let scanned = ScannedStatement {
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
            value_counts: (0, 0),
        };
        let mut rows = Rows::with_begins(vec![Some((10, 1))]);
        let ids = rows.take_multi_row(&scanned, &[(SHOWN, 0, Kind::Number)], &[2]);
        (rows, ids.len())
    }

    fn known(value: &str) -> u64 {
        MultiRowAnswer::row([Some(value.as_bytes())].into_iter())
    }

    #[test]
    fn rows_are_identified_by_their_columns_without_ids_and_times() {
        let digest = String::from_utf8(digest(b"b")).unwrap();
        let (rows, ids) = rows(&[["11", "a", "1"], ["12", &digest, "2"], ["3", "c", "3"]], 3);
        // The last one was there before.
        assert_eq!((ids, rows.all.len()), (2, 2));
        let multi_row = &rows.multi_row[&5];
        assert_eq!(multi_row.columns, [1]);
        assert_eq!(rows.all[1].by[0].row_digest, Some(known("b")));
        let indexes = multi_row.row_indexes(&[known("b"), known("c"), known("a")]).unwrap();
        assert_eq!([indexes[&known("a")], indexes[&known("b")]], [2, 0]);
        for other in [&["a", "b", "d"][..], &["a", "b"], &["a", "b", "b"], &["a", "b", "c", "d"]] {
            let answered: Vec<u64> = other.iter().map(|value| known(value)).collect();
            assert_eq!(multi_row.row_indexes(&answered), None, "{other:?}");
        }
    }

    #[test]
    fn ambiguous_or_incomplete_rows_are_not_followed() {
        assert_eq!(rows(&[["11", "a", "1"], ["12", "a", "2"]], 2).1, 0);
        assert_eq!(rows(&[["11", "a", "1"], ["12", "b", "2"]], 3).1, 0);
        assert_eq!(rows(&[["11", "a", "1"]], 1).1, 0);
    }
}
