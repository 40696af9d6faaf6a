//! Why a recording cannot be written or read.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use seatrial_columnar::names::was_cut_off;
use seatrial_columnar::{FileError, says_full};
use seatrial_gauge::user_error::{ErrorClass, UserError};

use crate::schema::VERSION;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The system refuses the file.
    #[error("{} cannot be {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        action: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not a recording.
    #[error("{} is not a recording: {reason}", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        reason: String,
    },
    /// The file is a recording of another version.
    #[error("{} is a recording of version {found}, not {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it states.
        found: String,
    },
    /// The file is a recording, but not as it was written.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A recording of this name was cut off while it was written.
    #[error("{} was cut off while it was written, and can be recovered", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
    },
    /// Somebody writes a recording of this name.
    #[error("{} is being written by another process", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A request has an invalid number, or too large a time or offset.
    #[error("a request cannot be recorded: {0}")]
    Request(&'static str),
    /// What it says of itself cannot be written down.
    #[error("what a recording says of itself cannot be stored: {0}")]
    About(#[from] serde_json::Error),
}

impl RecordingError {
    pub(crate) fn of(path: &Path, error: FileError) -> RecordingError {
        let path = path.to_path_buf();
        match error {
            FileError::Io { action, source } => RecordingError::Io { path, action, source },
            FileError::Damaged { path, reason } => RecordingError::Damaged { path, reason },
            FileError::CutOff => RecordingError::CutOff { path },
            FileError::InUse => RecordingError::InUse { path },
        }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> RecordingError {
        RecordingError::Damaged { path: path.to_path_buf(), reason: reason.to_string() }
    }

    /// Returns it as a user reads it.
    pub fn explained(&self) -> UserError {
        let seen = self.to_string();
        match self {
            RecordingError::Io { path, action, source } => {
                if source.kind() == ErrorKind::StorageFull || says_full(&seen) {
                    let cause = if was_cut_off(path) {
                        "Its disk is full; what was recorded until then is kept"
                    } else {
                        "Its disk is full; no file was left behind"
                    };
                    let next = "Free disk space, or record to another disk";
                    return UserError::new(ErrorClass::Space, seen, cause, next);
                }
                let cause = "It or its directory is missing, or not accessible to this user";
                let next = match *action {
                    "opened" => format!("Check `ls -l {}`", path.display()),
                    _ => format!("Check `ls -ld {}` and its directory", path.display()),
                };
                UserError::usage(seen, cause, next)
            }
            RecordingError::NotARecording { .. } => UserError::usage(
                seen,
                "It is another kind of file, or another program's trace",
                "Record with `seatrial watch --record FILE`, or import a trace with `seatrial \
                 trace import`",
            ),
            RecordingError::Version { .. } => UserError::usage(
                seen,
                "Another version of Seatrial wrote it",
                "Use the seatrial that wrote it, or record again",
            ),
            RecordingError::Damaged { .. } => UserError::usage(
                seen,
                "It was cut off or changed after it was written",
                "Copy it again from where it was recorded, or record again",
            ),
            RecordingError::CutOff { path } => UserError::usage(
                seen,
                "A recording to this name was killed, or its machine went down",
                format!(
                    "See it with `seatrial trace show {0}`, which completes it, or remove \
                     {0}.part.end",
                    path.display()
                ),
            ),
            RecordingError::InUse { path } => UserError::usage(
                seen,
                "A `seatrial watch --record` with this file is running",
                format!("Wait until it ends; `fuser {}.part` shows the process", path.display()),
            ),
            RecordingError::Request(_) | RecordingError::About(_) => UserError::defect(seen),
        }
    }
}
