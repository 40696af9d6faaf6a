//! Requests as columns: how they are written to a row group, and read from it.

use std::io::Write;

use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::writer::SerializedRowGroupWriter;
use seatrial_columnar::cells::Cells;

use crate::schema::{Column, ROWS_MAX};
use crate::{Operation, Request};

/// What a column holds for a value that is unknown.
pub const UNKNOWN: i8 = -1;

/// Requests as columns of equal length. Unknown values are [`UNKNOWN`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// When each arrived, from the beginning.
    pub arrived_ns: Vec<i64>,
    /// Number of its device.
    pub device: Vec<i32>,
    /// Number of its operation.
    pub operation: Vec<u8>,
    /// Whether a process waits for it: 1 or 0.
    pub is_sync: Vec<i8>,
    /// Whether it failed: 1 or 0.
    pub failed: Vec<u8>,
    /// Its first byte.
    pub offset_bytes: Vec<i64>,
    /// Its length.
    pub length_bytes: Vec<i64>,
    /// Its time in the queue.
    pub queue_ns: Vec<i64>,
    /// Its time at the device.
    pub device_ns: Vec<i64>,
    /// Number of its process.
    pub process: Vec<i32>,
    /// Number of its relation.
    pub relation: Vec<i32>,
}

impl Columns {
    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.arrived_ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.arrived_ns.is_empty()
    }

    /// Returns a request; None beyond the last one.
    pub fn request(&self, index: usize) -> Option<Request> {
        let known = |value: i64| u64::try_from(value).ok();
        let named = |value: i32| u32::try_from(value).ok();
        Some(Request {
            arrived_ns: *self.arrived_ns.get(index)? as u64,
            device: self.device[index] as u32,
            operation: Operation::of_number(self.operation[index])?,
            is_sync: (self.is_sync[index] != UNKNOWN).then_some(self.is_sync[index] == 1),
            has_failed: self.failed[index] == 1,
            offset_bytes: self.offset_bytes[index] as u64,
            length_bytes: self.length_bytes[index] as u32,
            queue_ns: known(self.queue_ns[index]),
            device_ns: known(self.device_ns[index]),
            process: named(self.process[index]),
            relation: named(self.relation[index]),
        })
    }
}

/// Writes requests as a row group.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Request],
) -> Result<()> {
    put::<Int64Type, W>(group, rows, |row| Some(row.arrived_ns as i64), true)?;
    put::<Int32Type, W>(group, rows, |row| Some(row.device as i32), true)?;
    put::<Int32Type, W>(group, rows, |row| Some(row.operation as i32), true)?;
    put::<BoolType, W>(group, rows, |row| row.is_sync, false)?;
    put::<BoolType, W>(group, rows, |row| Some(row.has_failed), true)?;
    put::<Int64Type, W>(group, rows, |row| Some(row.offset_bytes as i64), true)?;
    put::<Int32Type, W>(group, rows, |row| Some(row.length_bytes as i32), true)?;
    put::<Int64Type, W>(group, rows, |row| row.queue_ns.map(|ns| ns as i64), false)?;
    put::<Int64Type, W>(group, rows, |row| row.device_ns.map(|ns| ns as i64), false)?;
    put::<Int32Type, W>(group, rows, |row| row.process.map(|number| number as i32), false)?;
    put::<Int32Type, W>(group, rows, |row| row.relation.map(|number| number as i32), false)
}

fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Request],
    value: impl Fn(&Request) -> Option<T::T>,
    is_required: bool,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has too few columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let values: Vec<T::T> = rows.iter().filter_map(&value).collect();
    let levels: Option<Vec<i16>> =
        (!is_required).then(|| rows.iter().map(|row| i16::from(value(row).is_some())).collect());
    column.typed::<T>().write_batch(&values, levels.as_deref(), None)?;
    column.close()
}

/// The valid ranges of a recording's numbers.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Devices.
    pub devices: usize,
    /// Processes.
    pub processes: usize,
    /// Relations.
    pub relations: usize,
}

/// Reads a row group.
///
/// # Errors
///
/// When it cannot be read, or has numbers that stand for nothing.
pub fn read(group: &dyn RowGroupReader, bounds: Bounds) -> Result<Columns> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(usize::MAX);
    if rows > ROWS_MAX {
        return Err(damaged("a row group has more rows than any that is written"));
    }
    let columns = Columns {
        arrived_ns: take::<Int64Type, _>(group, Column::Arrived, rows, required)?,
        device: take::<Int32Type, _>(group, Column::Device, rows, required)?,
        operation: take::<Int32Type, _>(group, Column::Operation, rows, |operation| {
            operation.and_then(|&number| u8::try_from(number).ok())
        })?,
        is_sync: take::<BoolType, _>(group, Column::IsSync, rows, |is_sync| {
            Some(is_sync.map_or(UNKNOWN, |&is_sync| i8::from(is_sync)))
        })?,
        failed: take::<BoolType, _>(group, Column::Failed, rows, |failed| {
            failed.map(|&f| f.into())
        })?,
        offset_bytes: take::<Int64Type, _>(group, Column::Offset, rows, required)?,
        length_bytes: take::<Int32Type, _>(group, Column::Length, rows, |length| {
            length.map(|&length| i64::from(length as u32))
        })?,
        queue_ns: take::<Int64Type, _>(group, Column::Queue, rows, optional)?,
        device_ns: take::<Int64Type, _>(group, Column::DeviceTime, rows, optional)?,
        process: take::<Int32Type, _>(group, Column::Process, rows, optional)?,
        relation: take::<Int32Type, _>(group, Column::Relation, rows, optional)?,
    };
    let are_below = |numbers: &[i32], least: i32, end: usize| {
        numbers.iter().all(|&number| number >= least && i64::from(number) < end as i64)
    };
    let are_times = |times: &[i64], least: i64| times.iter().all(|&time| time >= least);
    let unknown = i32::from(UNKNOWN);
    let is_sound = are_below(&columns.device, 0, bounds.devices)
        && are_below(&columns.process, unknown, bounds.processes)
        && are_below(&columns.relation, unknown, bounds.relations)
        && columns.operation.iter().all(|&number| Operation::of_number(number).is_some())
        && are_times(&columns.arrived_ns, 0)
        && are_times(&columns.offset_bytes, 0)
        && are_times(&columns.queue_ns, UNKNOWN.into())
        && are_times(&columns.device_ns, UNKNOWN.into());
    if is_sound { Ok(columns) } else { Err(damaged("a number in it stands for nothing")) }
}

fn required<T: Copy>(value: Option<&T>) -> Option<T> {
    value.copied()
}

fn optional<T: Copy + From<i8>>(value: Option<&T>) -> Option<T> {
    Some(value.copied().unwrap_or(T::from(UNKNOWN)))
}

/// Takes a column; the value of each row is made of the cell, which is None where it is empty.
fn take<T: DataType, V>(
    group: &dyn RowGroupReader,
    column: Column,
    rows: usize,
    value: impl Fn(Option<&T::T>) -> Option<V>,
) -> Result<Vec<V>> {
    let is_optional = matches!(
        column,
        Column::IsSync | Column::Queue | Column::DeviceTime | Column::Process | Column::Relation
    );
    let reader = group.get_column_reader(column as usize)?;
    let mut cells = Cells::<T>::of(reader, i16::from(is_optional))?;
    cells.fill(rows)?;
    let mut values = Vec::with_capacity(rows);
    for _ in 0..rows {
        let cell = cells.optional()?;
        values.push(value(cell).ok_or_else(|| damaged("a value in it is missing"))?);
    }
    Ok(values)
}

fn damaged(reason: &str) -> ParquetError {
    ParquetError::General(reason.to_owned())
}
