//! What a worker's requests go to: the opened file or device, or the null target.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use seatrial_gauge::Operation;

use crate::spec::{CellSpec, TargetKind, TargetSpec};

/// A target that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {path}: {source}")]
pub struct OpenError {
    /// What was to be opened.
    pub path: String,
    /// Why not.
    pub source: io::Error,
}

/// An opened target.
#[derive(Debug)]
pub struct Target {
    file: File,
    copy_to: Option<File>,
    is_written: bool,
    kind: TargetKind,
    dsync: bool,
}

impl Target {
    /// Opens what the specification names; for writing only where it writes.
    ///
    /// # Errors
    ///
    /// [`OpenError`] with the path and the kernel's reason.
    pub fn open(spec: &CellSpec) -> Result<Target, OpenError> {
        let does = |operations: &[Operation]| {
            spec.accesses.iter().any(|access| operations.contains(&access.operation))
        };
        let writes = does(&[Operation::Write, Operation::Commit]);
        let target = &spec.target;
        let null = Path::new("/dev/null");
        let file = match (&target.path, target.kind) {
            (Some(path), TargetKind::File) => open_file(path, target, writes)?,
            _ => open_file(null, &TargetSpec { direct: false, ..target.clone() }, writes)?,
        };
        let copy_to = match &target.copy_to {
            Some(path) if does(&[Operation::Copy]) => {
                Some(open_file(path, &TargetSpec { create: true, ..target.clone() }, true)?)
            }
            _ => None,
        };
        Ok(Target { file, copy_to, is_written: writes, kind: target.kind, dsync: target.dsync })
    }

    /// The descriptor that requests go to.
    #[inline]
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The descriptor that copies are written to, if any.
    #[inline]
    pub fn copy_fd(&self) -> Option<RawFd> {
        self.copy_to.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// The descriptors that requests write to, and that a sync must reach.
    pub fn written_fds(&self) -> impl Iterator<Item = RawFd> {
        let fd = self.is_written.then(|| self.fd());
        fd.into_iter().chain(self.copy_fd())
    }

    /// Whether a write is durable when it completes.
    pub fn is_dsync(&self) -> bool {
        self.dsync
    }

    /// Whether there is nothing behind the engine.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.kind == TargetKind::Null
    }

    /// The block device below: `major:minor`; `None` where the file system reports none.
    pub fn device(&self) -> Option<String> {
        let metadata = self.file.metadata().ok()?;
        let device =
            if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (libc::major(device), libc::minor(device));
        (major > 0).then(|| format!("{major}:{minor}"))
    }
}

fn open_file(path: &Path, target: &TargetSpec, writes: bool) -> Result<File, OpenError> {
    let mut flags = libc::O_CLOEXEC;
    if target.direct {
        flags |= libc::O_DIRECT;
    }
    if target.dsync {
        flags |= libc::O_DSYNC;
    }
    OpenOptions::new()
        .read(true)
        .write(writes)
        .create(target.create && writes)
        .custom_flags(flags)
        .open(path)
        .map_err(|source| OpenError { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(operation: &str) -> Target {
        let path = std::env::temp_dir().join(format!("seatrial-{}-target", std::process::id()));
        std::fs::write(&path, [0; 4096]).unwrap();
        let json = format!(
            r#"{{"seed": 1, "limit": {{"duration_s": 1}},
                "target": {{"kind": "file", "path": {path:?}, "size_bytes": 4096,
                            "direct": false, "copy_to": "{0}.copy"}},
                "range": {{"start_bytes": 0, "length_bytes": 4096}},
                "accesses": [{{"operation": "{operation}", "sizes": [{{"bytes": 512}}],
                               "align_bytes": 512, "address": {{"kind": "random"}}}}]}}"#,
            path.display()
        );
        let target = Target::open(&CellSpec::parse(&json).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _ = std::fs::remove_file(format!("{}.copy", path.display()));
        target
    }

    #[test]
    fn a_sync_reaches_what_was_written_and_nothing_else() {
        let copied = opened("copy");
        let copy_fd = copied.copy_fd().unwrap();
        assert_eq!(copied.written_fds().collect::<Vec<_>>(), [copy_fd]);
        let written = opened("write");
        assert_eq!(written.copy_fd(), None, "nobody copies");
        assert_eq!(written.written_fds().collect::<Vec<_>>(), [written.fd()]);
        assert_eq!(opened("read").written_fds().count(), 0);
    }
}
