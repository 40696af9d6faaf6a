//! Returned rows of a statement, as far as they are kept.

use seatrial_pgwire::messages;
use seatrial_trace::captured::digest;

use super::binary;
use super::request::{Bound, RowRetention};
use super::trace_queue::NULL;

/// Maximum number of kept rows of a statement.
pub const ROWS_MAX: usize = 1_000;

/// Maximum bytes of a statement's kept rows, and of one row that is read.
pub const BYTES_MAX: usize = 64 << 10;

/// Maximum number of rows of a query that is kept; with more, none is.
pub const FEW_ROWS_MAX: usize = 64;

/// Bytes read of each of these.
pub const FEW_ROWS_BYTES_EACH_MAX: usize = 4 << 10;

/// Room for the names and values of a usual row: it grows seldom.
const USUAL_BYTES: usize = 128;

/// Types whose values may be ids: `int2`, `int4`, `int8`, `uuid`.
const OF_IDS: [u32; 4] = [21, 23, 20, 2950];

/// Treatment of values that cannot be ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherValues {
    Kept,
    Digested,
    LeftOut,
}

/// Kept rows, packed: the names of the columns, then the values row by row, each after its length
/// (4 bytes, [`NULL`] for NULL and for what cannot be converted).
#[derive(Clone, Debug, Default)]
pub struct PackedRows {
    pub columns: usize,
    pub rows: usize,
    pub bytes: Vec<u8>,
}

/// Rows of which a few are kept.
#[derive(Debug, Default)]
struct FewRows {
    count: usize,
    /// The first row as received.
    first: Vec<u8>,
    are_too_many: bool,
}

/// Rows that are being kept.
#[derive(Debug, Default)]
pub struct Rows {
    packed: PackedRows,
    /// Offset of the first row in the packed bytes.
    begin: usize,
    few: Option<FewRows>,
    types: Vec<u32>,
    /// Which columns are in binary; those beyond its end are not.
    are_binary: Vec<bool>,
    /// Bytes of values.
    bytes: usize,
    /// Binary values that cannot be converted to text.
    pub unread: u64,
    /// Whether there were more than are kept.
    pub is_cut: bool,
}

impl Rows {
    /// Rows with columns of these names and types; without a description they have no names.
    pub fn of<'a>(
        columns: impl IntoIterator<Item = (&'a [u8], u32)>,
        bound: Option<&Bound>,
        retention: RowRetention,
    ) -> Rows {
        let mut rows = Rows {
            few: (retention == RowRetention::Few).then(FewRows::default),
            ..Rows::default()
        };
        rows.packed.bytes.reserve(USUAL_BYTES);
        for (name, type_oid) in columns {
            put(&mut rows.packed.bytes, Some(name));
            rows.types.push(type_oid);
        }
        rows.described(bound);
        rows
    }

    fn described(&mut self, bound: Option<&Bound>) {
        let columns = self.types.len();
        (self.packed.columns, self.begin) = (columns, self.packed.bytes.len());
        let are_binary = |bound: &Bound| (0..columns).map(|at| bound.returns_binary(at)).collect();
        self.are_binary = bound.map_or_else(Vec::new, are_binary);
    }

    /// Processes a row, as far as it was read.
    pub fn take(&mut self, body: &[u8], bound: Option<&Bound>, is_foreign: bool) {
        if self.few.is_some() {
            return self.take_one_of_few(body, bound, is_foreign);
        }
        if self.packed.rows >= ROWS_MAX || self.bytes >= BYTES_MAX || self.is_cut {
            self.is_cut = true;
            return;
        }
        self.is_cut = !self.keep_row(body, bound, (is_foreign, OtherValues::Kept));
    }

    fn take_one_of_few(&mut self, body: &[u8], bound: Option<&Bound>, is_foreign: bool) {
        // Without types it is unknown which values may be ids.
        let may_hold_ids = self.types.iter().any(|one| OF_IDS.contains(one));
        let Some(few) = &mut self.few else { return };
        few.count += 1;
        let count = few.count;
        if may_hold_ids && count == 1 {
            // The other values of a row are needed only if a second one follows.
            few.first.extend_from_slice(body);
            self.keep_row(body, bound, (is_foreign, OtherValues::LeftOut));
            return;
        }
        if may_hold_ids {
            let first = std::mem::take(&mut few.first);
            if count == 2 {
                self.packed.bytes.truncate(self.begin);
                self.packed.rows = 0;
                self.keep_row(&first, bound, (is_foreign, OtherValues::Digested));
            }
            self.keep_row(body, bound, (is_foreign, OtherValues::Digested));
        }
        let are_too_many = count > FEW_ROWS_MAX || self.packed.rows < count && count > 1;
        if let Some(few) = &mut self.few {
            few.are_too_many = are_too_many;
        }
    }

    /// Keeps a row; false if it is malformed.
    fn keep_row(&mut self, body: &[u8], bound: Option<&Bound>, how: (bool, OtherValues)) -> bool {
        let begin = self.packed.bytes.len();
        let is_kept = self.row(body, bound, how).is_some();
        if is_kept {
            self.packed.rows += 1;
        } else {
            self.packed.bytes.truncate(begin.max(self.begin));
        }
        is_kept
    }

    fn row(
        &mut self,
        body: &[u8],
        bound: Option<&Bound>,
        (is_foreign, others): (bool, OtherValues),
    ) -> Option<()> {
        let (count, mut rest) = body.split_first_chunk()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if self.types.is_empty() {
            (0..count).for_each(|_| put(&mut self.packed.bytes, Some(b"")));
            self.types = vec![0; count];
            self.described(bound);
        }
        if count != self.types.len() {
            return None;
        }
        let out = &mut self.packed.bytes;
        for (index, type_oid) in self.types.iter().enumerate() {
            let length = messages::number(rest)?;
            rest = &rest[4..];
            let Ok(length) = usize::try_from(length) else {
                put(out, None);
                continue;
            };
            let (value, behind) = rest.split_at_checked(length)?;
            rest = behind;
            let is_other = others != OtherValues::Kept && !OF_IDS.contains(type_oid);
            if is_other && others == OtherValues::LeftOut {
                put(out, None);
                continue;
            }
            let mut converted = Vec::new();
            let text = if self.are_binary.get(index) == Some(&true) {
                binary::text(*type_oid, value, &mut converted).map(|()| &converted[..])
            } else {
                Some(value)
            };
            let text = text.filter(|text| !is_foreign || text.is_ascii());
            if is_other {
                put(out, Some(&digest(text?)));
                continue;
            }
            self.unread += u64::from(text.is_none());
            put(out, text);
            self.bytes += length;
        }
        Some(())
    }

    /// Whether none is kept, because there are too many, or several unreadable ones.
    pub fn are_too_many(&self) -> bool {
        self.few.as_ref().is_some_and(|few| few.are_too_many)
    }

    /// What is kept; None without columns, or without rows where only a few are kept.
    pub fn finish(self) -> Option<PackedRows> {
        let is_empty = self.few.is_some() && self.packed.rows == 0;
        Some(self.packed).filter(|packed| packed.columns > 0 && !is_empty)
    }
}

/// Packs a name or a value.
fn put(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let length = value.map_or(NULL, |value| value.len() as u32);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}
