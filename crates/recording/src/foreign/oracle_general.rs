//! oracleGeneral of libCacheSim: records of 24 bytes, `u32 s, u64 id, u32 bytes, i64 next`.
//!
//! It has neither operations nor places: every request is a read, and an object's place is made
//! up, in the order in which objects appear, apart from each other.

use std::collections::HashMap;

use super::bytes::{u32_at, u64_at};
use super::fields::{SECOND_NS, checked_offset_bytes};
use super::row::Row;
use crate::request::Operation;

/// Length of a record.
pub const RECORD_BYTES: usize = 24;
/// Between two objects lies at least this, so that none follows the one before.
const GAP_BYTES: u64 = 4096;

/// Offsets of objects, laid out by a first pass over the file.
#[derive(Debug, Default)]
pub struct ObjectOffsets {
    of: HashMap<u64, u64>,
    size_bytes_max: u64,
    room_bytes: u64,
}

impl ObjectOffsets {
    /// Begins a pass over the file.
    pub fn begin(&mut self) {
        self.of.clear();
        self.room_bytes = self.size_bytes_max.next_multiple_of(GAP_BYTES) + GAP_BYTES;
    }

    /// Returns the request of a record.
    pub fn parse(&mut self, record: &[u8]) -> Result<Row<'static>, String> {
        let size = u64::from(u32_at(record, 12));
        self.size_bytes_max = self.size_bytes_max.max(size);
        let rank = self.of.len() as u64;
        let rank = *self.of.entry(u64_at(record, 4)).or_insert(rank);
        let begin = checked_offset_bytes(rank, self.room_bytes, "the number of objects")?;
        Ok(Row::new(u64::from(u32_at(record, 0)) * SECOND_NS, Operation::Read, begin, size))
    }
}

/// Returns whether first records may be of this format: times in order, plausible sizes.
pub fn is_likely(beginning: &[u8], file_bytes: u64) -> bool {
    const SIZE_BYTES_MAX: u32 = 1 << 28;
    const NONE_MIN: u64 = u64::MAX - 1; // -2 and -1 say that there is none
    let mut last_s = 0;
    file_bytes > 0
        && file_bytes % RECORD_BYTES as u64 == 0
        && beginning.len() >= RECORD_BYTES
        && beginning.chunks_exact(RECORD_BYTES).all(|record| {
            let (at_s, size, next) = (u32_at(record, 0), u32_at(record, 12), u64_at(record, 16));
            let is_in_order = at_s >= last_s;
            last_s = at_s;
            is_in_order
                && (1..=SIZE_BYTES_MAX).contains(&size)
                && !(1 << 63..NONE_MIN).contains(&next)
        })
}
