//! Returned rows of a statement, as far as they are kept.

use seatrial_pgwire::messages;
use seatrial_trace::captured::{Returned, digest};

use super::binary;
use super::request::{Bound, Column, Keeps};

/// Maximum number of kept rows of a statement.
pub const ROWS_MAX: usize = 1_000;

/// Maximum bytes of a statement's kept rows, and of one row that is read.
pub const BYTES_MAX: usize = 64 << 10;

/// Maximum number of rows of a query that is kept; with more, none is.
pub const FEW_ROWS_MAX: usize = 64;

/// Bytes read of each of these.
pub const FEW_ROWS_BYTES_EACH_MAX: usize = 4 << 10;

/// Types whose values may be ids: `int2`, `int4`, `int8`, `uuid`.
const OF_IDS: [u32; 4] = [21, 23, 20, 2950];

/// Treatment of values that cannot be ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// They are kept as well.
    Kept,
    /// Their digests are kept.
    Digested,
    /// They are dropped.
    LeftOut,
}

/// Rows of which a few are kept.
#[derive(Debug, Default)]
struct Few {
    /// Number of rows.
    count: usize,
    /// The first one as it came.
    first: Vec<u8>,
    are_too_many: bool,
}

/// Rows that are being kept.
#[derive(Debug, Default)]
pub struct Rows {
    returned: Returned,
    few: Option<Few>,
    types: Vec<u32>,
    are_binary: Vec<bool>,
    bytes: usize,
    /// Binary values that cannot be converted to text.
    pub unread: u64,
    /// Whether there were more than are kept.
    pub is_cut: bool,
}

impl Rows {
    /// Rows with these columns; without a description they have no names.
    pub fn of(columns: &[Column], bound: Option<&Bound>, keeps: Keeps) -> Rows {
        let are_binary = |place| bound.is_some_and(|bound| bound.returns_binary(place));
        Rows {
            returned: Returned {
                columns: columns.iter().map(|column| column.name.clone()).collect(),
                rows: Vec::new(),
            },
            types: columns.iter().map(|column| column.type_oid).collect(),
            are_binary: (0..columns.len()).map(are_binary).collect(),
            few: (keeps == Keeps::FewRows).then(Few::default),
            ..Rows::default()
        }
    }

    /// Processes a row, as far as it was read.
    pub fn take(&mut self, body: &[u8], bound: Option<&Bound>, is_foreign: bool) {
        if self.few.is_some() {
            return self.take_one_of_few(body, bound, is_foreign);
        }
        if self.returned.rows.len() >= ROWS_MAX || self.bytes >= BYTES_MAX || self.is_cut {
            self.is_cut = true;
            return;
        }
        match self.row(body, bound, (is_foreign, Others::Kept)) {
            Some(row) => self.returned.rows.push(row),
            None => self.is_cut = true,
        }
    }

    fn take_one_of_few(&mut self, body: &[u8], bound: Option<&Bound>, is_foreign: bool) {
        let Some(Few { count, first, .. }) = &mut self.few else { return };
        *count += 1;
        let count = *count;
        // Without types it is unknown which values may be ids.
        let may_hold_ids = self.types.iter().any(|one| OF_IDS.contains(one));
        if count == 1 && may_hold_ids {
            // The other values of a row are needed only if a second one follows.
            first.extend_from_slice(body);
            let row = self.row(body, bound, (is_foreign, Others::LeftOut));
            return self.returned.rows.extend(row);
        }
        if count == 2 && may_hold_ids {
            let first = std::mem::take(first);
            let row = self.row(&first, bound, (is_foreign, Others::Digested));
            self.returned.rows = row.into_iter().collect();
        }
        let row = may_hold_ids.then(|| self.row(body, bound, (is_foreign, Others::Digested)));
        self.returned.rows.extend(row.flatten());
        if let Some(few) = &mut self.few {
            few.are_too_many =
                count > FEW_ROWS_MAX || self.returned.rows.len() < count && count > 1;
        }
    }

    fn row(
        &mut self,
        body: &[u8],
        bound: Option<&Bound>,
        (is_foreign, others): (bool, Others),
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
            let is_other = others != Others::Kept && !OF_IDS.contains(type_oid);
            if is_other && others == Others::LeftOut {
                row.push(None);
                continue;
            }
            let reported = if *is_binary {
                let mut out = Vec::new();
                binary::text(*type_oid, value, &mut out).map(|()| out)
            } else {
                Some(value.to_vec())
            };
            let reported = reported.filter(|reported| !is_foreign || reported.is_ascii());
            if is_other {
                row.push(Some(digest(&reported?)));
                continue;
            }
            self.unread += u64::from(reported.is_none());
            row.push(reported);
            self.bytes += length;
        }
        Some(row)
    }

    /// Whether none is kept, because there are too many, or several unreadable ones.
    pub fn are_too_many(&self) -> bool {
        self.few.as_ref().is_some_and(|few| few.are_too_many)
    }

    /// What is kept; None where there are no columns, or no rows of a few.
    pub fn finish(self) -> Option<Box<Returned>> {
        if self.few.is_some() && self.returned.rows.is_empty() {
            return None;
        }
        Some(Box::new(self.returned)).filter(|returned| !returned.columns.is_empty())
    }
}
