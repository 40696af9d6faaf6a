//! Rows that a statement gives back, as far as they are kept.

use super::binary;
use super::request::{Bound, Column};
use crate::captured::Returned;
use crate::playback::wire;

/// Rows of a statement that are kept.
pub const ROWS_MAX: usize = 1_000;

/// Bytes of a statement's rows that are kept, and of one row that are read.
pub const BYTES_MAX: usize = 64 << 10;

/// Rows that are being kept.
#[derive(Debug, Default)]
pub struct Rows {
    returned: Returned,
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
    pub fn of(columns: &[Column], bound: Option<&Bound>) -> Rows {
        let are_binary = |place| bound.is_some_and(|bound| bound.returns_binary(place));
        Rows {
            returned: Returned {
                columns: columns.iter().map(|column| column.name.clone()).collect(),
                rows: Vec::new(),
            },
            types: columns.iter().map(|column| column.type_oid).collect(),
            are_binary: (0..columns.len()).map(are_binary).collect(),
            ..Rows::default()
        }
    }

    /// Takes in a row, as far as it was read.
    pub fn take(&mut self, body: &[u8], bound: Option<&Bound>, is_foreign: bool) {
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
            let length = wire::number(rest)?;
            rest = &rest[4..];
            let Ok(length) = usize::try_from(length) else {
                row.push(None);
                continue;
            };
            let (value, behind) = rest.split_at_checked(length)?;
            rest = behind;
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

    /// What is kept; None where there are no columns.
    pub fn finish(self) -> Option<Box<Returned>> {
        Some(Box::new(self.returned)).filter(|returned| !returned.columns.is_empty())
    }
}
