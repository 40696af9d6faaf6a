//! The rows of a row group, column by column, until they are written.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io::Write;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedRowGroupWriter;
use seatrial_sqltext::lexer::Fingerprint;
use seatrial_sqltext::lexer::class::Class;
use twox_hash::XxHash64;

use super::schema::{PROTOCOLS, SESSION_COLUMNS, SKIPS, STATEMENT_COLUMNS};
use crate::captured::{Session, Statement};

/// A map whose hash is quick for texts.
pub type TextMap<V> = HashMap<Box<[u8]>, V, BuildHasherDefault<XxHash64>>;

/// Rows that are handed to Parquet at once: what they take in its form comes on top of the rows.
const BATCH_ROWS: usize = 8 << 10;

/// Level of a value that every row of its kind has, or of one that is missing from its row.
pub const PRESENT: i16 = 1;

/// Level of a value that may be missing and is not.
pub const PRESENT_OPTIONAL: i16 = 2;

/// Level of a list's value that is never NULL.
pub const LITERAL: i16 = 2;

/// Level of a list's value that may be NULL and is not; one less is NULL.
pub const PARAMETER: i16 = 3;

/// The level of a parameter that is NULL.
pub const NULL: i16 = 2;

/// A column that may be empty in a row.
#[derive(Debug, Default)]
struct OptionalColumn<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> OptionalColumn<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(if value.is_some() { PRESENT_OPTIONAL } else { PRESENT });
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// A column with a list in each row.
#[derive(Debug, Default)]
struct ListColumn {
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
    /// [`PRESENT`] for an empty list, else those of values.
    levels: Vec<i16>,
    /// 0 for a list's first value, 1 for those that follow.
    repeats: Vec<i16>,
}

impl ListColumn {
    /// Adds a list of values, each written into the bytes by `put`; false for NULL.
    fn push<I>(
        &mut self,
        items: I,
        value_level: i16,
        mut put: impl FnMut(I::Item, &mut Vec<u8>) -> bool,
    ) where
        I: IntoIterator,
    {
        let first = self.levels.len();
        for item in items {
            self.repeats.push(i16::from(self.levels.len() > first));
            if put(item, &mut self.bytes) {
                self.ends.push(self.bytes.len());
                self.levels.push(value_level);
            } else {
                self.levels.push(value_level - 1);
            }
        }
        if self.levels.len() == first {
            self.levels.push(1);
            self.repeats.push(0);
        }
    }

    /// Writes the column, whole lists at a time.
    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        value_level: i16,
    ) -> Result<()> {
        let bytes = ByteArray::from(std::mem::take(&mut self.bytes));
        let mut column = group.next_column()?.ok_or_else(too_few)?;
        let (mut from, mut value, mut begin) = (0, 0, 0);
        while from < self.levels.len() {
            let mut to = (from + BATCH_ROWS).min(self.levels.len());
            while self.repeats.get(to) == Some(&1) {
                to += 1;
            }
            let levels = &self.levels[from..to];
            let count = levels.iter().filter(|&&level| level == value_level).count();
            let ends = self.ends[value..value + count].iter();
            let values: Vec<ByteArray> = ends
                .map(|&end| {
                    let item = bytes.slice(begin, end - begin);
                    begin = end;
                    item
                })
                .collect();
            let repeats = &self.repeats[from..to];
            column.typed::<ByteArrayType>().write_batch(&values, Some(levels), Some(repeats))?;
            (from, value) = (to, value + count);
        }
        self.ends.clear();
        self.levels.clear();
        self.repeats.clear();
        column.close()
    }
}

/// Texts that are found without a hash, a power of two.
const RECENT: usize = 32;

/// Texts that recur, each with its number.
///
/// The empty text, which most names are, is not a key: comparing two texts without an allocation
/// is a masked load at an invalid address, which takes some processors a hundred times as long.
#[derive(Debug, Default)]
struct Texts {
    numbers: TextMap<u32>,
    empty: Option<u32>,
    /// The latest text of each length, modulo [`RECENT`]: comparing is quicker than hashing.
    recent: [u32; RECENT],
    texts: Vec<ByteArray>,
    bytes: usize,
}

impl Texts {
    fn number(&mut self, text: &[u8]) -> u32 {
        let recent = self.recent[text.len() % RECENT];
        let known = match self.texts.get(recent as usize) {
            _ if text.is_empty() => self.empty,
            Some(latest) if latest.data() == text => return recent,
            _ => self.numbers.get(text).copied(),
        };
        let number = known.unwrap_or(self.texts.len() as u32);
        self.recent[text.len() % RECENT] = number;
        if known.is_some() {
            return number;
        }
        if text.is_empty() {
            self.empty = Some(number);
            // Parquet compares it, too: it gets an allocation.
            self.texts.push(ByteArray::from(Vec::with_capacity(1)));
        } else {
            self.numbers.insert(text.into(), number);
            self.texts.push(ByteArray::from(text.to_vec()));
        }
        self.bytes += text.len();
        number
    }

    fn clear(&mut self) {
        *self = Texts::default();
    }
}

/// Which form.
#[derive(Debug, Clone, Copy)]
pub struct FormNumber(u32);

impl FormNumber {
    /// Its index among the forms, in the order in which they were first seen.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Statements that are yet to be written.
#[derive(Debug, Default)]
pub struct StatementRows {
    session: Vec<i32>,
    start: Vec<i64>,
    duration: OptionalColumn<i64>,
    protocol: Vec<u8>,
    prepared: Vec<u32>,
    form: Vec<u32>,
    literals: ListColumn,
    parameters: ListColumn,
    transaction: Vec<i64>,
    rows: OptionalColumn<i64>,
    error: OptionalColumn<[u8; 5]>,
    skip: OptionalColumn<u8>,
    tag: OptionalColumn<u32>,
    returned_columns: ListColumn,
    returned_values: ListColumn,
    reported_meanwhile: OptionalColumn<i64>,
    parameter_types: OptionalColumn<u32>,
    forms: Texts,
    names: Texts,
    fingerprints: Vec<(Fingerprint, ByteArray)>,
}

impl StatementRows {
    /// Rows so far.
    pub fn len(&self) -> usize {
        self.session.len()
    }

    /// Bytes of the texts that are kept once each.
    fn kept_bytes(&self) -> usize {
        // A fingerprint's text is about as long as the form, and the map has the form once more.
        self.forms.bytes * 3 + self.names.bytes * 2
    }

    /// The number of a form; true where it is new.
    pub fn form(&mut self, form: &[u8]) -> (FormNumber, bool) {
        let known = self.fingerprints.len();
        let number = self.forms.number(form);
        let is_new = number as usize == known;
        if is_new {
            let fingerprint = Fingerprint::of_form(form);
            let text = ByteArray::from(fingerprint.text.clone().into_bytes());
            self.fingerprints.push((fingerprint, text));
        }
        (FormNumber(number), is_new)
    }

    /// Adds a statement; `put_literal` and `put_value` (of a parameter, or of a row)
    /// append one to a buffer.
    pub fn push<L: IntoIterator>(
        &mut self,
        statement: &Statement<'_>,
        form: FormNumber,
        literals: L,
        mut put_literal: impl FnMut(L::Item, &mut Vec<u8>),
        mut put_value: impl FnMut(&[u8], &mut Vec<u8>),
    ) {
        self.session.push(statement.session.0 as i32);
        self.start.push(statement.start_us);
        self.duration.push(statement.duration_us.map(|duration_us| duration_us as i64));
        self.protocol.push(statement.protocol as u8);
        self.prepared.push(self.names.number(statement.prepared));
        self.form.push(form.0);
        self.literals.push(literals, LITERAL, |literal, bytes| {
            put_literal(literal, bytes);
            true
        });
        self.parameters.push(statement.parameters, PARAMETER, |parameter, bytes| {
            parameter.as_ref().map(|parameter| put_value(parameter, bytes)).is_some()
        });
        self.transaction.push(statement.transaction as i64);
        self.rows.push(statement.rows.map(|rows| rows as i64));
        self.error.push(statement.error);
        self.skip.push(statement.skip.map(|skip| skip as u8));
        self.tag.push(statement.tag.map(|tag| self.names.number(tag)));
        let (columns, rows) = statement
            .returned
            .map_or((&[][..], &[][..]), |returned| (&returned.columns, &returned.rows));
        self.returned_columns.push(columns, LITERAL, |column, bytes| {
            bytes.extend_from_slice(column);
            true
        });
        self.returned_values.push(rows.iter().flatten(), PARAMETER, |value, bytes| {
            value.as_ref().map(|value| put_value(value, bytes)).is_some()
        });
        self.reported_meanwhile.push(statement.reported_meanwhile.map(|count| count as i64));
        self.parameter_types.push(statement.parameter_types.map(|types| self.names.number(types)));
    }

    /// Writes all rows as a row group, and forgets them. Forms are kept for the next row group as
    /// long as they are few; returns false where they were forgotten too.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<bool> {
        let rows = self.len();
        for _ in 0..SESSION_COLUMNS {
            put_nothing(group, rows)?;
        }
        let all = vec![PRESENT; rows];
        put::<Int32Type, _>(group, &self.session, &all)?;
        put::<Int64Type, _>(group, &self.start, &all)?;
        put::<Int64Type, _>(group, &self.duration.values, &self.duration.levels)?;
        self.write_texts(group, &all)?;
        self.literals.write(group, LITERAL)?;
        self.parameters.write(group, PARAMETER)?;
        put::<Int64Type, _>(group, &self.transaction, &all)?;
        put::<Int64Type, _>(group, &self.rows.values, &self.rows.levels)?;
        let error = |row: usize| ByteArray::from(self.error.values[row].to_vec());
        put_each(group, (&self.error.levels, PRESENT_OPTIONAL), error)?;
        let names = SKIPS.map(|(_, name)| ByteArray::from(name));
        let skip = |row: usize| names[usize::from(self.skip.values[row])].clone();
        put_each(group, (&self.skip.levels, PRESENT_OPTIONAL), skip)?;
        let tag = |row: usize| self.names.texts[self.tag.values[row] as usize].clone();
        put_each(group, (&self.tag.levels, PRESENT_OPTIONAL), tag)?;
        self.returned_columns.write(group, LITERAL)?;
        self.returned_values.write(group, PARAMETER)?;
        let OptionalColumn { values, levels } = &self.reported_meanwhile;
        put::<Int64Type, _>(group, values, levels)?;
        let types =
            |row: usize| self.names.texts[self.parameter_types.values[row] as usize].clone();
        put_each(group, (&self.parameter_types.levels, PRESENT_OPTIONAL), types)?;
        Ok(self.clear())
    }

    /// The columns from `protocol` to `form`.
    fn write_texts<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        all: &[i16],
    ) -> Result<()> {
        let (rows, each) = (self.len(), (all, PRESENT));
        let protocols = PROTOCOLS.map(|(_, name)| ByteArray::from(name));
        put_each(group, each, |row| protocols[usize::from(self.protocol[row])].clone())?;
        put_each(group, each, |row| self.names.texts[self.prepared[row] as usize].clone())?;
        let of = |row: usize| &self.fingerprints[self.form[row] as usize];
        let hashes: Vec<i64> = (0..rows).map(|row| of(row).0.hash as i64).collect();
        put::<Int64Type, _>(group, &hashes, all)?;
        put_each(group, each, |row| of(row).1.clone())?;
        let classes = Class::all().map(|class| ByteArray::from(class.name()));
        put_each(group, each, |row| classes[of(row).0.class as usize].clone())?;
        let counts: Vec<i32> = (0..rows).map(|row| of(row).0.statements as i32).collect();
        put::<Int32Type, _>(group, &counts, all)?;
        put_each(group, each, |row| self.forms.texts[self.form[row] as usize].clone())
    }

    fn clear(&mut self) -> bool {
        self.session.clear();
        self.start.clear();
        self.duration.clear();
        self.protocol.clear();
        self.prepared.clear();
        self.form.clear();
        self.transaction.clear();
        self.rows.clear();
        self.error.clear();
        self.skip.clear();
        self.tag.clear();
        self.reported_meanwhile.clear();
        self.parameter_types.clear();
        let is_kept = self.kept_bytes() < super::schema::TEXT_BYTES_MAX / 4;
        if !is_kept {
            self.forms.clear();
            self.names.clear();
            self.fingerprints.clear();
        }
        is_kept
    }
}

/// Writes sessions as a row group.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_sessions<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    sessions: &[(u32, Session)],
) -> Result<()> {
    let (rows, all) = (sessions.len(), vec![PRESENT; sessions.len()]);
    let ids: Vec<i32> = sessions.iter().map(|(id, _)| *id as i32).collect();
    put::<Int32Type, _>(group, &ids, &all)?;
    let texts: [fn(&Session) -> &Vec<u8>; 4] = [
        |session| &session.name,
        |session| &session.user,
        |session| &session.database,
        |session| &session.application,
    ];
    for text in texts {
        put_each(group, (&all, PRESENT), |row| ByteArray::from(text(&sessions[row].1).clone()))?;
    }
    let times: [fn(&Session) -> Option<i64>; 2] =
        [|session| session.connected_us, |session| session.disconnected_us];
    for time in times {
        let mut column = OptionalColumn::default();
        sessions.iter().for_each(|(_, session)| column.push(time(session)));
        put::<Int64Type, _>(group, &column.values, &column.levels)?;
    }
    for _ in 0..STATEMENT_COLUMNS {
        put_nothing(group, rows)?;
    }
    Ok(())
}

fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: &[i16],
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(too_few)?;
    column.typed::<T>().write_batch(values, Some(levels), None)?;
    column.close()
}

/// Writes a column of texts, of which `value` makes the N-th; it is there at a level of `full`.
fn put_each<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    (levels, full): (&[i16], i16),
    value: impl Fn(usize) -> ByteArray,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(too_few)?;
    let mut at = 0;
    for levels in levels.chunks(BATCH_ROWS) {
        let count = levels.iter().filter(|&&level| level == full).count();
        let values: Vec<ByteArray> = (at..at + count).map(&value).collect();
        column.typed::<ByteArrayType>().write_batch(&values, Some(levels), None)?;
        at += count;
    }
    column.close()
}

/// A column of the other kind of rows.
fn put_nothing<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: usize,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(too_few)?;
    let none = vec![0; rows];
    match column.untyped() {
        ColumnWriter::Int32ColumnWriter(column) => {
            column.write_batch(&[], Some(&none), Some(&none))?;
        }
        ColumnWriter::Int64ColumnWriter(column) => {
            column.write_batch(&[], Some(&none), Some(&none))?;
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            column.write_batch(&[], Some(&none), Some(&none))?;
        }
        _ => return Err(ParquetError::General("a column of another type".to_owned())),
    }
    column.close()
}

fn too_few() -> ParquetError {
    ParquetError::General("the schema has too few columns".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_numbers_in_the_order_in_which_they_were_first_seen() {
        let mut texts = Texts::default();
        let longer = [b'c'; RECENT + 1];
        // Two of the same length, and one whose length differs by as many as are recent.
        let pushed: [&[u8]; 8] = [b"a", b"", b"b", b"a", &longer, b"b", b"", b"a"];
        let numbers = pushed.map(|text| texts.number(text));
        assert_eq!(numbers, [0, 1, 2, 0, 3, 2, 1, 0]);
        let stored: Vec<&[u8]> = texts.texts.iter().map(ByteArray::data).collect();
        assert_eq!(stored, [b"a", &b""[..], b"b", &longer]);
        texts.clear();
        assert_eq!([b"b", &b""[..]].map(|text| texts.number(text)), [0, 1]);
    }
}
