//! Requests that are listed in a file instead of drawn: a recording that is played.
//!
//! The file is a row of records of 32 bytes, in the order in which the requests are due; numbers
//! are little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 0 to 7 | when the request is due, in ns from the start of the sample |
//! | 8 to 15 | its offset on the target |
//! | 16 to 19 | its length |
//! | 20 to 23 | how many others may be in flight when it is sent |
//! | 24 | 0 for a read, 1 for a write, 2 for a sync |
//! | 25 to 31 | 0 |

use std::fs;
use std::path::Path;
use std::sync::Arc;

use seatrial_gauge::Operation;

use crate::sizes::Access;
use crate::spec::{CellSpec, SpecError};

/// Length of a record.
pub const RECORD_BYTES: usize = 32;

/// A request of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// When it is due, from the start of the sample.
    pub due_ns: u64,
    /// How many others may be in flight when it is sent.
    pub others_max: u32,
    /// What it does.
    pub access: Access,
}

/// Reads the list of a cell, which must fit its range, its block sizes and its accesses.
///
/// # Errors
///
/// [`SpecError`] when the file cannot be read or a record does not fit the cell; the first one is
/// named by its number.
pub fn read(path: &Path, spec: &CellSpec) -> Result<Arc<[ListEntry]>, SpecError> {
    let refused = |problem| SpecError::Refused { key: "list.path".into(), problem };
    let bytes = fs::read(path).map_err(|error| {
        refused(format!("is {}, which cannot be read: {error}", path.display()))
    })?;
    let records = bytes.chunks_exact(RECORD_BYTES);
    if !records.remainder().is_empty() || records.len() == 0 {
        let problem = format!("has {} bytes, not a row of {RECORD_BYTES} bytes each", bytes.len());
        return Err(refused(problem));
    }
    let mut due_ns_before = 0;
    let listed = records.enumerate().map(|(number, record)| {
        let request =
            parse(record).filter(|request| request.due_ns >= due_ns_before && fits(request, spec));
        let request =
            request.ok_or_else(|| refused(format!("has a wrong record, number {number}")))?;
        due_ns_before = request.due_ns;
        Ok(request)
    });
    listed.collect()
}

fn parse(record: &[u8]) -> Option<ListEntry> {
    let (due_ns, rest) = record.split_first_chunk()?;
    let (offset_bytes, rest) = rest.split_first_chunk()?;
    let (length_bytes, rest) = rest.split_first_chunk()?;
    let (others_max, rest) = rest.split_first_chunk()?;
    let operation = match rest.first()? {
        0 => Operation::Read,
        1 => Operation::Write,
        2 => Operation::Sync,
        _ => return None,
    };
    Some(ListEntry {
        due_ns: u64::from_le_bytes(*due_ns),
        others_max: u32::from_le_bytes(*others_max),
        access: Access {
            operation,
            offset_bytes: u64::from_le_bytes(*offset_bytes),
            length_bytes: u32::from_le_bytes(*length_bytes),
        },
    })
}

/// Whether a request stays within the range and is among what the cell may do: the guard has
/// judged the cell by its accesses.
fn fits(request: &ListEntry, spec: &CellSpec) -> bool {
    let Access { operation, offset_bytes, length_bytes } = request.access;
    let length_bytes = u64::from(length_bytes);
    if operation == Operation::Sync {
        let writes = spec.accesses.iter().any(|access| access.operation.writes());
        return length_bytes == 0 && writes;
    }
    let range = spec.range;
    let end_bytes = offset_bytes.checked_add(length_bytes);
    let range_end_bytes = range.start_bytes.saturating_add(range.length_bytes);
    let is_within = offset_bytes >= range.start_bytes
        && end_bytes.is_some_and(|end_bytes| end_bytes <= range_end_bytes);
    let mut alike = spec.accesses.iter().filter(|access| access.operation == operation);
    length_bytes > 0 && is_within && alike.any(|access| access.size_bytes_max() >= length_bytes)
}

/// A position in a list.
#[derive(Clone, Debug)]
pub struct ListCursor {
    list: Arc<[ListEntry]>,
    next: usize,
}

impl ListCursor {
    /// Begins with the first request.
    #[must_use]
    pub fn new(list: Arc<[ListEntry]>) -> ListCursor {
        ListCursor { list, next: 0 }
    }

    /// The next request without taking it; `None` at the end.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<&ListEntry> {
        self.list.get(self.next)
    }

    /// Takes the next request; `None` at the end.
    #[inline]
    pub fn take(&mut self) -> Option<Access> {
        let access = self.peek()?.access;
        self.next += 1;
        Some(access)
    }

    /// Goes on to the request after the next.
    #[inline]
    pub fn skip(&mut self) {
        self.next = (self.next + 1).min(self.list.len());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::address::tests::spec_with;

    const READS: &str = r#"{"operation": "read", "sizes": [{"bytes": 8192}],
        "align_bytes": 512, "address": {"kind": "random"}}"#;
    const BOTH: &str = r#"{"operation": "read", "sizes": [{"bytes": 8192}],
        "align_bytes": 512, "address": {"kind": "random"}},
        {"operation": "write", "sizes": [{"bytes": 4096}],
        "align_bytes": 512, "address": {"kind": "random"}}"#;
    const RANGE: &str = r#"{"start_bytes": 0, "length_bytes": 1048576}"#;

    fn record(due_ns: u64, offset_bytes: u64, length_bytes: u32, operation: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(due_ns.to_le_bytes());
        bytes.extend(offset_bytes.to_le_bytes());
        bytes.extend(length_bytes.to_le_bytes());
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend([operation, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn read_all(accesses: &str, records: &[Vec<u8>]) -> Result<Arc<[ListEntry]>, SpecError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&records.concat()).unwrap();
        read(file.path(), &spec_with(accesses, RANGE, 1, "random"))
    }

    #[test]
    fn records_are_read_in_order() {
        let records = [record(5, 4096, 8192, 0), record(9, 0, 4096, 1), record(9, 0, 0, 2)];
        let list = read_all(BOTH, &records).unwrap();
        let mut cursor = ListCursor::new(list);
        assert_eq!(cursor.peek().map(|request| (request.due_ns, request.others_max)), Some((5, 7)));
        let operations = [cursor.take(), cursor.take(), cursor.take(), cursor.take()];
        let operations = operations.map(|request| request.map(|access| access.operation));
        use Operation::{Read, Sync, Write};
        assert_eq!(operations, [Some(Read), Some(Write), Some(Sync), None]);
    }

    #[test]
    fn what_does_not_fit_the_cell_is_refused_by_number() {
        for wrong in [
            record(5, 0, 4096, 1),        // the cell does not write
            record(5, 0, 0, 2),           // nor does it sync
            record(5, 1 << 20, 4096, 0),  // past the range
            record(5, u64::MAX, 4096, 0), // an overflow
            record(5, 0, 16384, 0),       // longer than its buffers
            record(5, 0, 0, 0),           // nothing
            record(5, 0, 4096, 3),        // an unknown operation
            record(4, 0, 4096, 0),        // not in order
        ] {
            let error = read_all(READS, &[record(5, 0, 4096, 0), wrong]).unwrap_err();
            assert!(error.to_string().contains("number 1"), "{error}");
        }
        assert!(read_all(READS, &[]).is_err());
        assert!(read_all(READS, &[vec![0; 31]]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_all(BOTH, &[bytes]);
        }
    }
}
