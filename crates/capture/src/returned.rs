//! Rows that a statement gives back, as far as they are kept.

use seatrial_pgwire::messages;
use seatrial_trace::captured::Returned;

use super::binary;
use super::request::{Bound, Column, Keeps};

/// Rows of a statement that are kept.
pub const ROWS_MAX: usize = 1_000;

/// Bytes of a statement's rows that are kept, and of one row that are read.
pub const BYTES_MAX: usize = 64 << 10;

/// Bytes that are read of a row where only one is kept.
pub const ONLY_ROW_BYTES_MAX: usize = 4 << 10;

/// Types whose values may be ids: `int2`, `int4`, `int8`, `uuid`.
const OF_IDS: [u32; 4] = [21, 23, 20, 2950];

/// Rows that are being kept.
#[derive(Debug, Default)]
pub struct Rows {
    returned: Returned,
    /// How many there were, where only one is kept.
    only_row: Option<u32>,
    types: Vec<u32>,
    are_binary: Vec<bool>,
    bytes: usize,
    /// Values that were sent in a form that has no text of ours.
    pub unread: u64,
    /// Whether there were more than are kept.
    pub is_cut: bool,
}

impl Rows {
    /// Rows of these columns; those that were never described have no names.
    pub fn of(columns: &[Column], bound: Option<&Bound>, keeps: Keeps) -> Rows {
        let are_binary = |place| bound.is_some_and(|bound| bound.returns_binary(place));
        Rows {
            returned: Returned {
                columns: columns.iter().map(|column| column.name.clone()).collect(),
                rows: Vec::new(),
            },
            types: columns.iter().map(|column| column.type_oid).collect(),
            are_binary: (0..columns.len()).map(are_binary).collect(),
            only_row: (keeps == Keeps::OnlyRow).then_some(0),
            ..Rows::default()
        }
    }

    /// Takes in a row, as far as it was read.
    pub fn take(&mut self, body: &[u8], bound: Option<&Bound>, is_foreign: bool) {
        if let Some(count) = &mut self.only_row {
            *count += 1;
            // Without its types nobody knows which values may be ids.
            let is_kept = *count == 1 && self.types.iter().any(|one| OF_IDS.contains(one));
            let row = is_kept.then(|| self.row(body, bound, is_foreign)).flatten();
            self.returned.rows.extend(row);
            return;
        }
        if self.returned.rows.len() >= ROWS_MAX || self.bytes >= BYTES_MAX || self.is_cut {
            self.is_cut = true;
            return;
        }
        match self.row(body, bound, is_foreign) {
            Some(row) => self.returned.rows.push(row),
            None => self.is_cut = true,
        }
    }

    fn row(
        &mut self,
        body: &[u8],
        bound: Option<&Bound>,
        is_foreign: bool,
    ) -> Option<Vec<Option<Vec<u8>>>> {
        let (count, mut rest) = body.split_first_chunk()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if self.returned.columns.is_empty() {
            self.returned.columns = vec![Vec::new(); count];
            self.types = vec![0; count];
            let are_binary = |place| bound.is_some_and(|bound| bound.returns_binary(place));
            self.are_binary = (0..count).map(are_binary).collect();
        }
        if count != self.types.len() {
            return None;
        }
        let mut row = Vec::with_capacity(count);
        for (type_oid, is_binary) in self.types.iter().zip(&self.are_binary) {
            let length = messages::number(rest)?;
            rest = &rest[4..];
            let Ok(length) = usize::try_from(length) else {
                row.push(None);
                continue;
            };
            let (value, behind) = rest.split_at_checked(length)?;
            rest = behind;
            if self.only_row.is_some() && !OF_IDS.contains(type_oid) {
                row.push(None);
                continue;
            }
            let told = if *is_binary {
                let mut out = Vec::new();
                binary::text(*type_oid, value, &mut out).map(|()| out)
            } else {
                Some(value.to_vec())
            };
            let told = told.filter(|told| !is_foreign || told.is_ascii());
            self.unread += u64::from(told.is_none());
            row.push(told);
            self.bytes += length;
        }
        Some(row)
    }

    /// Whether there are several where only one would be kept.
    pub fn is_not_alone(&self) -> bool {
        self.only_row.is_some_and(|count| count > 1)
    }

    /// What is kept; None where there are no columns, or no only row.
    pub fn finish(self) -> Option<Box<Returned>> {
        if self.only_row.is_some() && self.returned.rows.is_empty() {
            return None;
        }
        Some(Box::new(self.returned)).filter(|returned| !returned.columns.is_empty())
    }
}
