//! One column of a row group, batch by batch and cell by cell.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Guards a read. Some damage makes the crate parquet 59 panic (lengths beyond a page or the file):
/// to the reader that is a damaged file like any other, and nothing of it is read after that.
/// Nothing is printed of it either: the error says what is wrong.
pub fn guarded<R>(read: impl FnOnce() -> Result<R>) -> Result<R> {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                print(panic);
            }
        }));
    });
    let panicked = |_| Err(ParquetError::General("its parts do not fit each other".to_owned()));
    let was_guarded = IS_GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked);
    IS_GUARDED.set(was_guarded);
    result
}

/// A column's cells, those of a batch in memory.
pub struct Cells<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The level at which there is a value.
    full: i16,
    values: Vec<T::T>,
    levels: Vec<i16>,
    repeats: Vec<i16>,
    next_value: usize,
    next_level: usize,
}

impl<T: DataType> Cells<T> {
    /// The cells of a column whose values are at the level `full`.
    ///
    /// # Errors
    ///
    /// When the column has another type.
    pub fn of(column: ColumnReader, full: i16) -> Result<Cells<T>> {
        let reader = T::get_column_reader(column)
            .ok_or_else(|| ParquetError::General("a column has another type".to_owned()))?;
        Ok(Cells {
            reader,
            full,
            values: Vec::new(),
            levels: Vec::new(),
            repeats: Vec::new(),
            next_value: 0,
            next_level: 0,
        })
    }

    /// Reads the next batch; the one before it must have been used up.
    ///
    /// # Errors
    ///
    /// When the column has fewer rows or cannot be read.
    pub fn fill(&mut self, rows: usize) -> Result<()> {
        self.values.clear();
        self.levels.clear();
        self.repeats.clear();
        (self.next_value, self.next_level) = (0, 0);
        let mut read = 0;
        while read < rows {
            let records = self.read_some(rows - read)?;
            if records == 0 {
                return Err(ended());
            }
            read += records;
        }
        Ok(())
    }

    /// Reads at most `rows` rows, and returns their number.
    fn read_some(&mut self, rows: usize) -> Result<usize> {
        let (levels, repeats) = (Some(&mut self.levels), Some(&mut self.repeats));
        let read = || self.reader.read_records(rows, levels, repeats, &mut self.values);
        guarded(read).map(|(records, _, _)| records)
    }

    /// The next row's value; None where it has none.
    ///
    /// # Errors
    ///
    /// When the column ends early.
    #[inline]
    pub fn optional(&mut self) -> Result<Option<&T::T>> {
        // A column that every row has, in no group that may be absent, has no levels.
        if self.full > 0 {
            let level = *self.levels.get(self.next_level).ok_or_else(ended)?;
            self.next_level += 1;
            if level < self.full {
                return Ok(None);
            }
        }
        self.next_value += 1;
        self.values.get(self.next_value - 1).map(Some).ok_or_else(ended)
    }

    /// The next row's value, which every row has.
    ///
    /// # Errors
    ///
    /// When it has none.
    #[inline]
    pub fn required(&mut self) -> Result<&T::T> {
        self.optional()?.ok_or_else(ended)
    }
}

impl<T: DataType<T = ByteArray>> Cells<T> {
    /// The next row's list, item by item; None is NULL, which is at the level `null`.
    ///
    /// # Errors
    ///
    /// When the column ends early.
    #[inline]
    pub fn next_list<'a>(
        &'a mut self,
        null: i16,
        mut take: impl FnMut(Option<&'a [u8]>),
    ) -> Result<()> {
        let values = &self.values;
        loop {
            let level = *self.levels.get(self.next_level).ok_or_else(ended)?;
            self.next_level += 1;
            if level == self.full {
                let value = values.get(self.next_value).ok_or_else(ended)?;
                self.next_value += 1;
                take(Some(value.data()));
            } else if level == null {
                take(None);
            }
            if self.repeats.get(self.next_level).is_none_or(|&repeat| repeat == 0) {
                return Ok(());
            }
        }
    }
}

fn ended() -> ParquetError {
    ParquetError::General("a column has fewer values than its rows need".to_owned())
}
