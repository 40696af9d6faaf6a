//! Names and owners of the files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Who may read a file: its owner.
pub const OWNERS: u32 = 0o600;

/// The name that a file has while it is written.
pub fn part_of(path: &Path) -> PathBuf {
    with(path, ".part")
}

/// The name of the file with its end.
pub fn end_of(path: &Path) -> PathBuf {
    with(path, ".part.end")
}

pub(crate) fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether a file was cut off here that can be recovered.
pub fn was_cut_off(path: &Path) -> bool {
    end_of(path).exists() && part_of(path).exists()
}

/// Removes the end of a file that has none any more.
pub(crate) fn remove_end(path: &Path) {
    // Usually there is none; and one that cannot be removed is harmless.
    let _ = fs::remove_file(end_of(path));
}

/// Makes a file, or opens the existing one; only its owner may read it.
pub(crate) fn make(part: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(OWNERS).open(part)?;
    file.set_permissions(Permissions::from_mode(OWNERS))?;
    Ok(file)
}

/// Takes a file for this process alone; false where another one writes it, or has just completed
/// it.
pub fn is_own(file: &File, path: &Path) -> bool {
    let locked = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    if locked == Err(rustix::io::Errno::WOULDBLOCK) {
        return false;
    }
    // A file system that knows no locks must do without.
    let number = |about: fs::Metadata| (about.dev(), about.ino());
    let (own, named) = (file.metadata().map(number), path.metadata().map(number));
    matches!((own, named), (Ok(own), Ok(named)) if own == named)
}
