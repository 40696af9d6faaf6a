//! Why another program's trace cannot be read.

use std::io;
use std::path::PathBuf;

use seatrial_gauge::UserError;
use seatrial_gauge::user_error::ErrorClass;

use super::Format;

/// Why another program's trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// The file cannot be opened or read.
    #[error("{path} cannot be read: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The beginning of the file fits no format.
    #[error("{path} is in no known trace format")]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A record does not fit the format.
    #[error("{path}, {position}: {problem}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, or the byte of a binary file, such as `line 12`.
        position: String,
        /// What does not fit.
        problem: String,
        /// The format that it was read as.
        format: Format,
    },
    /// The file holds no request.
    #[error("{path} contains no requests")]
    Empty {
        /// The file.
        path: PathBuf,
        /// The format that it was read as.
        format: Format,
    },
}

impl ForeignError {
    /// Returns the error as a user reads it.
    pub fn explained(&self) -> UserError {
        let seen = self.to_string();
        match self {
            ForeignError::Io { .. } => UserError::new(
                ErrorClass::Usage,
                seen,
                "The name is wrong, this user may not read the file, or its compression is damaged",
                "See `ls -l` of the file",
            ),
            ForeignError::UnknownFormat { .. } => UserError::usage(
                seen,
                format!(
                    "Its beginning fits none of {}, or it is compressed by other than gzip",
                    Format::ALL.map(Format::name).join(", ")
                ),
                "Name the format with --format, which says at which record the file differs",
            ),
            ForeignError::Record { format, .. } => UserError::usage(
                seen,
                format!(
                    "A record of {} is {}; the file is cut off or damaged, or of another format",
                    format.name(),
                    format.record()
                ),
                "Remove the record, or name another format with --format",
            ),
            ForeignError::Empty { format, .. } => UserError::usage(
                seen,
                format!("It is empty, or holds only what {} does not transfer", format.name()),
                "Name another file, or another format with --format",
            ),
        }
    }
}
