//! Makes a file of one that was cut off.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::FileError;
use super::names::{OWNERS, end_of, is_own, part_of, remove_end, with};

/// Writes the end of a file of this length, replacing the previous one.
pub(crate) fn write_end(
    path: &Path,
    written_bytes: u64,
    end: &[u8],
    is_synced: bool,
) -> io::Result<()> {
    let new = with(path, ".part.end.new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(OWNERS).open(&new)?;
    let written = file
        .write_all(&written_bytes.to_le_bytes())
        .and_then(|()| file.write_all(end))
        .and_then(|()| if is_synced { file.sync_all() } else { Ok(()) })
        .and_then(|()| fs::rename(&new, end_of(path)));
    if written.is_err() {
        // On a full disk half of it would be left; if it cannot be removed, it is harmless.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Makes a file of one that was cut off, as it was when its end was written last.
///
/// # Errors
///
/// When there is none, it is still being written, or its files cannot be written or do not fit each
/// other.
pub fn recover(path: &Path) -> Result<(), FileError> {
    let (part, end) = (part_of(path), end_of(path));
    let refused = FileError::io("recovered");
    let mut file = OpenOptions::new().write(true).open(&part).map_err(&refused)?;
    if !is_own(&file, &part) {
        return Err(FileError::InUse);
    }
    let bytes = fs::read(&end).map_err(&refused)?;
    let damaged = |path: &Path, reason| FileError::Damaged { path: path.to_path_buf(), reason };
    let (length, bytes) =
        bytes.split_first_chunk().ok_or_else(|| damaged(&end, "it is too short".to_owned()))?;
    let length = u64::from_le_bytes(*length);
    let found = file.metadata().map_err(&refused)?.len();
    if found < length {
        return Err(damaged(&part, format!("it has {found} bytes, but its end says {length}")));
    }
    let mut complete = || {
        file.set_len(length)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .and_then(|_| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&part, path))
    };
    match complete() {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            // The end and its copy do not both find space: the end gives way.
            fs::remove_file(&end).map_err(&refused)?;
            if let Err(error) = complete() {
                file.set_len(length).map_err(&refused)?;
                write_end(path, length, bytes, true).map_err(&refused)?;
                return Err(refused(error));
            }
        }
        completed => completed.map_err(&refused)?,
    }
    remove_end(path);
    Ok(())
}
