//! Tracepoints: their numbers and the offsets of their fields, from tracefs.
//!
//! Where tracefs is not mounted, it is mounted in a thread with a mount namespace of its own, which
//! ends with the thread: nothing of the machine changes.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use crate::error::WatchError;

const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const MOUNT_AT: &CStr = c"/sys/kernel";

/// A tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its name: `block_rq_issue`.
    pub name: String,
    /// Its number, for perf_event_open(2).
    pub id: u64,
    offsets: HashMap<String, i16>,
}

impl Tracepoint {
    /// Returns the offset of a field in bytes.
    ///
    /// # Errors
    ///
    /// If the tracepoint has no such field.
    pub fn offset_bytes(&self, field: &'static str) -> Result<i16, WatchError> {
        let missing = || WatchError::Field { name: self.name.clone(), field };
        self.offsets.get(field).copied().ok_or_else(missing)
    }

    /// Reads a tracepoint from its folder.
    ///
    /// # Errors
    ///
    /// If its files are absent or unreadable.
    pub fn read(events: &Path, name: &str) -> Result<Tracepoint, WatchError> {
        let path = events.join(name);
        let failed =
            |error| WatchError::Tracepoint { name: name.into(), path: path.clone(), error };
        let id = fs::read_to_string(path.join("id")).map_err(failed)?;
        let id = id.trim().parse().map_err(|_| failed(io::ErrorKind::InvalidData.into()))?;
        let format = fs::read_to_string(path.join("format")).map_err(failed)?;
        Ok(Tracepoint { name: name.into(), id, offsets: offsets(&format) })
    }
}

/// Reads lines such as `field:sector_t sector; offset:16; size:8; signed:0;`.
fn offsets(format: &str) -> HashMap<String, i16> {
    let parse = |line: &str| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?;
        let name = declared.rsplit([' ', '*']).next()?.split('[').next()?;
        let offset = parts.find_map(|part| part.strip_prefix("offset:"))?.parse().ok()?;
        Some((name.to_string(), offset))
    };
    format.lines().filter_map(parse).collect()
}

/// Reads tracepoints of the block layer; those that are absent are None.
///
/// # Errors
///
/// If tracefs is neither mounted nor can be.
pub fn block_tracepoints<const N: usize>(
    names: [&str; N],
) -> Result<[Result<Tracepoint, WatchError>; N], WatchError> {
    let read = |root: &Path| names.map(|name| Tracepoint::read(&root.join("events/block"), name));
    let mounted = MOUNTED.iter().map(Path::new).find(|root| root.join("events/block").is_dir());
    match mounted {
        Some(root) => Ok(read(root)),
        None => thread::scope(|scope| {
            let private = scope.spawn(|| mount_privately().map(|root| read(&root)));
            private.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })
        .map_err(WatchError::NoTracefs),
    }
}

/// Gives this thread a mount namespace with tracefs in it.
fn mount_privately() -> io::Result<PathBuf> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    let none = std::ptr::null();
    // SAFETY: no pointer is passed; only this thread's own view of the file system changes.
    check(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) })?;
    // SAFETY: all strings end with a NUL and outlive the call.
    check(unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) })?;
    let kind = c"tracefs".as_ptr();
    // SAFETY: as above.
    check(unsafe { libc::mount(kind, MOUNT_AT.as_ptr(), kind, 0, none.cast()) })?;
    Ok(PathBuf::from(MOUNT_AT.to_string_lossy().into_owned()))
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: block_rq_complete\nID: 2107\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;\n\
        print fmt: \"%d\", REC->dev\n";

    fn folder(format: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("e")).unwrap();
        fs::write(folder.path().join("e/id"), "2107\n").unwrap();
        fs::write(folder.path().join("e/format"), format).unwrap();
        folder
    }

    #[test]
    fn fields_have_the_offsets_of_the_format_file() {
        let folder = folder(FORMAT);
        let found = Tracepoint::read(folder.path(), "e").unwrap();
        let offsets = ["sector", "rwbs", "cmd"].map(|field| found.offset_bytes(field).unwrap());
        assert_eq!((found.id, offsets), (2107, [16, 34, 44]));
    }

    #[test]
    fn an_absent_field_is_named() {
        let folder = folder("");
        let found = Tracepoint::read(folder.path(), "e").unwrap();
        let error = found.offset_bytes("bytes").unwrap_err();
        assert_eq!(error.to_string(), "the tracepoint e has no field bytes");
    }

    #[test]
    fn an_absent_tracepoint_is_named() {
        let error = Tracepoint::read(Path::new("/proc"), "none").unwrap_err();
        assert!(error.to_string().contains("the tracepoint none cannot be read"), "{error}");
    }
}
