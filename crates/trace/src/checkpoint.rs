//! What makes a trace of a file whose writing was cut off.
//!
//! A Parquet file can be read only with its footer, which is written last. A capture may last for
//! days and may be killed, so the footer for the present state is written to a separate file
//! periodically: together with the trace's bytes up to that moment it forms a complete trace.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::schema::types::SchemaDescriptor;

use super::writer::{OWNERS, is_own};
use super::{TraceError, TraceReader, schema};

/// The name that a trace has while it is written.
pub fn part_of(trace: &Path) -> PathBuf {
    with(trace, ".part")
}

/// The name of the file with its end.
pub fn end_of(trace: &Path) -> PathBuf {
    with(trace, ".part.end")
}

fn with(trace: &Path, ending: &str) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether a trace was cut off here that can be recovered.
pub fn was_cut_off(trace: &Path) -> bool {
    end_of(trace).exists() && part_of(trace).exists()
}

/// The bytes that follow these row groups, so that they are a file.
pub(super) fn end_bytes(
    row_groups: &[RowGroupMetaData],
    about: Vec<KeyValue>,
) -> Result<Vec<u8>, ParquetError> {
    let descriptor = SchemaDescriptor::new(schema::schema(schema::VERSION)?);
    let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
    let created_by = Some(schema::created_by());
    let file = FileMetaData::new(1, rows, created_by, Some(about), Arc::new(descriptor), None);
    let mut bytes = Vec::new();
    let whole = ParquetMetaData::new(file, row_groups.to_vec());
    ParquetMetaDataWriter::new(&mut bytes, &whole).finish()?;
    Ok(bytes)
}

/// Writes the end of a trace of this length, in the place of the one before.
pub(super) fn write_end(trace: &Path, written_bytes: u64, end: &[u8]) -> io::Result<()> {
    let path = end_of(trace);
    let new = with(trace, ".part.end.new");
    let mut wanted = OpenOptions::new();
    let mut file = wanted.write(true).create(true).truncate(true).mode(OWNERS).open(&new)?;
    file.write_all(&written_bytes.to_le_bytes())?;
    file.write_all(end)?;
    file.sync_all()?;
    fs::rename(&new, &path)
}

/// Removes the end of a trace that has none any more.
pub(super) fn remove_end(trace: &Path) {
    // Usually there is none; and one that cannot be removed is harmless.
    let _ = fs::remove_file(end_of(trace));
}

/// Makes a trace of one that was cut off, as it was when its end was written last.
///
/// # Errors
///
/// When there is none, it is still being written, or its files cannot be written or do not fit each
/// other.
pub fn recover(trace: &Path) -> Result<TraceReader, TraceError> {
    let (part, end) = (part_of(trace), end_of(trace));
    let io = |action| move |source| TraceError::Io { path: trace.to_path_buf(), action, source };
    let mut file = OpenOptions::new().write(true).open(&part).map_err(io("recovered"))?;
    if !is_own(&file, &part) {
        return Err(TraceError::InUse { path: trace.to_path_buf() });
    }
    let bytes = fs::read(&end).map_err(io("recovered"))?;
    let damaged = || TraceError::damaged(&end, "it is too short");
    let (length, bytes) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let length = u64::from_le_bytes(*length);
    let found = file.metadata().map_err(io("recovered"))?.len();
    if found < length {
        let reason = format!("it has {found} bytes, but its end says {length}");
        return Err(TraceError::damaged(&part, reason));
    }
    file.set_len(length)
        .and_then(|()| file.seek(SeekFrom::End(0)))
        .and_then(|_| file.write_all(bytes))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&part, trace))
        .map_err(io("recovered"))?;
    remove_end(trace);
    TraceReader::open(trace)
}
