//! Makes the files of sets before a sample, and decides how they are cached.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::fileset::FileSet;

/// Files are made by this many threads at once.
const MAKERS: usize = 4;

/// Bytes of one write.
const CHUNK_BYTES: usize = 1 << 20;

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreparedFiles {
    /// Files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Makes all files that exist from the start; `data` is what is in them.
///
/// # Errors
///
/// When the file system fails, or a file is there already.
pub fn make(sets: &[FileSet], data: &[u8], stop: &AtomicBool) -> io::Result<PreparedFiles> {
    let mut made = PreparedFiles::default();
    for set in sets {
        let folders = if set.spec.single { &[][..] } else { &set.tree.folders };
        for folder in folders {
            fs::create_dir(set.root.join(folder))?;
            made.folders += 1;
        }
        for leaf in set.existing_leaves() {
            fs::create_dir(set.leaf_path(leaf))?;
            made.folders += 1;
        }
        let files = set.existing_files();
        let (next, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = || -> io::Result<()> {
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(&entry) = files.get(number) else { break };
                write_file(&set.file_path(entry), set.size_bytes(entry), data, stop)?;
                bytes.fetch_add(set.size_bytes(entry), Ordering::Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let makers: Vec<_> = (0..MAKERS.min(files.len())).map(|_| scope.spawn(work)).collect();
            let panicked = || Err(io::Error::other("a thread that makes files panicked"));
            makers.into_iter().try_for_each(|maker| maker.join().unwrap_or_else(|_| panicked()))
        })?;
        made.files += files.len() as u64;
        made.bytes += bytes.into_inner();
    }
    Ok(made)
}

fn write_file(path: &Path, size_bytes: u64, data: &[u8], stop: &AtomicBool) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut left_bytes = size_bytes;
    while left_bytes > 0 && !stop.load(Ordering::Relaxed) {
        let count = left_bytes.min(CHUNK_BYTES.min(data.len()) as u64) as usize;
        file.write_all(&data[..count])?;
        left_bytes -= count as u64;
    }
    Ok(())
}

/// Waits until all that was written to a folder's file system is on its device.
///
/// # Errors
///
/// When the file system fails.
pub fn settle(folder: &Path) -> io::Result<()> {
    let opened = File::open(folder)?;
    // SAFETY: the call takes nothing but a descriptor, which is open.
    match unsafe { libc::syncfs(opened.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Drops the files of a set from the page cache, as far as they are on their device.
///
/// # Errors
///
/// When a file cannot be opened.
pub fn drop_cached(set: &FileSet) -> io::Result<()> {
    for entry in set.existing_files() {
        let file = File::open(set.file_path(entry))?;
        // SAFETY: the call takes nothing but a descriptor, which is open, and numbers.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    Ok(())
}
