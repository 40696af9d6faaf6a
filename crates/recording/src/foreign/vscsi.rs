//! vscsiStats and CloudPhysics, binary: records of 32 (version 1) or 40 bytes (version 2).
//!
//! Version 1: `u32 number, u32 bytes, u32 segments, u16 command, u16 version, u64 block, u64 µs`.
//! Version 2: `u16 command, u16 version, u32 number, u32 bytes, u32 segments, u64 block, u64 µs,
//! u64 response µs`. The high byte of the version is 1 or 2.
//!
//! Source: the reader of libCacheSim (vscsi.h) for the order of the fields.

use super::bytes::{u16_at, u32_at, u64_at};
use super::fields::{SECTOR_BYTES, checked_offset_bytes, scaled};
use super::row::Row;
use crate::request::Operation;

const UNIT_NS: u64 = 1000;

/// Version of a file's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 32 bytes.
    One,
    /// 40 bytes, with the response time.
    Two,
}

impl Version {
    /// Returns the length of a record.
    pub fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    fn version_at(self) -> usize {
        match self {
            Version::One => 14,
            Version::Two => 2,
        }
    }

    fn number(self) -> u16 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    /// Returns whether a record bears this version.
    pub fn is_of(self, record: &[u8]) -> bool {
        record.len() >= self.record_bytes()
            && u16_at(record, self.version_at()) >> 8 == self.number()
    }

    /// Returns the version of a file's first records; None where they bear none.
    pub fn of(beginning: &[u8]) -> Option<Version> {
        [Version::Two, Version::One].into_iter().find(|version| {
            let mut records = beginning.chunks_exact(version.record_bytes()).take(2).peekable();
            records.peek().is_some() && records.all(|record| version.is_of(record))
        })
    }
}

/// Returns what a SCSI command does; None if it transfers nothing.
pub fn operation_of(command: u8) -> Option<Operation> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Operation::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Operation::Write),
        0x35 | 0x91 => Some(Operation::Flush),
        0x42 => Some(Operation::Discard),
        _ => None,
    }
}

/// Returns the request of a record; None of a command that transfers nothing.
pub fn parse(record: &[u8], version: Version) -> Result<Option<Row<'static>>, String> {
    if !version.is_of(record) {
        return Err(format!("the version is not {}", version.number()));
    }
    let (command, length) = match version {
        Version::One => (u16_at(record, 12), u32_at(record, 4)),
        Version::Two => (u16_at(record, 0), u32_at(record, 8)),
    };
    let Some(operation) = operation_of(command.to_le_bytes()[0]) else { return Ok(None) };
    let at_ns = scaled(u64_at(record, 24), UNIT_NS, "the time")?;
    let offset_bytes = checked_offset_bytes(u64_at(record, 16), SECTOR_BYTES, "the block")?;
    let device_ns = match version {
        Version::One => None,
        Version::Two => Some(scaled(u64_at(record, 32), UNIT_NS, "the response time")?),
    };
    Ok(Some(Row { device_ns, ..Row::new(at_ns, operation, offset_bytes, u64::from(length)) }))
}
