//! The trace: what was captured of a server's work, in one compact columnar file.
//!
//! It is a Parquet file, compressed with zstd, that pyarrow, DuckDB and their like read as it is.
//! Each row is either a session or a statement, so a row has one of two groups of columns, and a
//! row group has rows of one kind only. Sessions that changed after they were written are written
//! again: the last row of an `id` is valid.
//!
//! A statement's text is stored as a form with gaps and the literals that fill them (see
//! [`seatrial_sqltext::lexer`]), so that forms, fingerprints and their texts occur once in a row
//! group, in Parquet's dictionary. Beyond [`schema::DICTIONARY_BYTES_MAX`] a row group stores them
//! row by row. No lookup crosses row groups, so a trace of any length is written and read in
//! bounded memory.
//!
//! Its origin, its totals and whether literals were masked are in the file's metadata, under
//! [`schema::VERSION_KEY`] and the neighbouring keys.
//!
//! | part | rule |
//! |---|---|
//! | [`captured`] | sessions and statements, from whatever source |
//! | [`schema`] | columns, encodings and the version |
//! | `rows` | the rows of a row group, column by column |
//! | `batch` | statements of a row group, before they are rows |
//! | `groups` | row groups by one thread or several, with the same outcome |
//! | `writer` | takes in what a reader of logs finds |
//! | `reader` | gives it back |
//! | [`checkpoint`] | what makes a trace of one that was cut off |
//! | [`mask`] | stand-ins for the literals |
//! | [`mix`] | statistics of a trace |
//! | [`origin`] | what it was made from |

mod batch;
pub mod captured;
pub mod checkpoint;
mod groups;
pub mod mask;
pub mod mix;
pub mod origin;
mod reader;
mod rows;
pub mod schema;
#[cfg(test)]
#[path = "../../sqltext/src/lexer/sql_like.rs"]
mod sql_like;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use seatrial_columnar::{FileError, says_full};
use seatrial_gauge::user_error::{ErrorClass, UserError};
use serde::{Deserialize, Serialize};

pub use reader::{Columns, TraceReader, Traced};
pub use writer::TraceWriter;

/// Why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum TraceError {
    #[error("{} cannot be {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },
    #[error(
        "{} is not a trace: {reason}; `seatrial sql read LOG... -o FILE` makes one",
        path.display()
    )]
    NotATrace { path: PathBuf, reason: String },
    #[error(
        "{} is a trace of version {found}, this is made for versions up to {}: read its log again \
         with `seatrial sql read`, or use the seatrial that wrote it",
        path.display(),
        schema::VERSION
    )]
    Version { path: PathBuf, found: String },
    #[error("{} is damaged: {reason}; read its log again with `seatrial sql read`", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "{0} was cut off while it was written: `seatrial sql capture --recover -o {0}` makes a \
         trace of it, or remove {0}.part.end",
        path.display()
    )]
    CutOff { path: PathBuf },
    #[error("{} is being written by another process", path.display())]
    InUse { path: PathBuf },
    #[error("a statement is of session {0}, which was not seen before")]
    UnknownSession(u32),
    #[error("what the trace was read from cannot be stored: {0}")]
    Origin(#[from] serde_json::Error),
}

impl TraceError {
    /// Returns it as shown to a user.
    pub fn explained(&self) -> UserError {
        let again = "Read its log again with `seatrial sql read LOG... -o FILE`";
        match self {
            TraceError::Io { path, action, source } => {
                let seen = format!("{} cannot be {action}: {source}", path.display());
                let is_full = source.kind() == ErrorKind::StorageFull || says_full(&seen);
                let class = if is_full { ErrorClass::Space } else { ErrorClass::Usage };
                if checkpoint::was_cut_off(path) {
                    let why = if is_full { "Its disk is full" } else { "It was not completed" };
                    let cause = format!("{why}; the saved part can be recovered");
                    let next = format!(
                        "Free disk space, then `seatrial sql capture --recover -o {}`",
                        path.display()
                    );
                    return UserError::new(class, seen, cause, next);
                }
                if is_full {
                    let cause = "Its disk is full; no file was left behind";
                    let next = "Free disk space, or use a file on another disk with -o";
                    return UserError::new(class, seen, cause, next);
                }
                let cause = "It or its directory is missing, or not accessible to this user";
                UserError::usage(
                    seen,
                    cause,
                    format!("Check `ls -ld {}` and its directory", path.display()),
                )
            }
            TraceError::NotATrace { path, reason } => UserError::usage(
                format!("{} is not a trace: {reason}", path.display()),
                "It is a log or another kind of file",
                "Make a trace of a log with `seatrial sql read LOG... -o FILE`",
            ),
            TraceError::Version { path, found } => UserError::usage(
                format!(
                    "{} is a trace of version {found}, not {}",
                    path.display(),
                    schema::VERSION
                ),
                "Another version of Seatrial wrote it",
                again,
            ),
            TraceError::Damaged { path, reason } => UserError::usage(
                format!("{} is damaged: {reason}", path.display()),
                "It was cut off or changed after it was written",
                again,
            ),
            TraceError::CutOff { path } => UserError::usage(
                format!(
                    "{} was cut off while it was written, and can be recovered",
                    path.display()
                ),
                "A capture to this name was killed, or its machine went down",
                format!(
                    "Make a trace of it with `seatrial sql capture --recover -o {0}`, or remove \
                     {0}.part.end",
                    path.display()
                ),
            ),
            TraceError::InUse { path } => UserError::usage(
                format!("{} is being written by another process", path.display()),
                "Another capture or read with this output is running",
                format!("Use another file with -o; `fuser {}` shows the process", part_of(path)),
            ),
            TraceError::UnknownSession(_) | TraceError::Origin(_) => {
                UserError::defect(self.to_string())
            }
        }
    }

    /// Converts an error of the file.
    fn of(path: &Path, error: FileError) -> TraceError {
        let path = path.to_path_buf();
        match error {
            FileError::Io { action, source } => TraceError::Io { path, action, source },
            FileError::Damaged { path, reason } => TraceError::Damaged { path, reason },
            FileError::CutOff => TraceError::CutOff { path },
            FileError::InUse => TraceError::InUse { path },
        }
    }

    fn damaged(path: &Path, reason: impl ToString) -> TraceError {
        TraceError::Damaged { path: path.to_path_buf(), reason: reason.to_string() }
    }
}

fn part_of(trace: &Path) -> String {
    checkpoint::part_of(trace).display().to_string()
}

/// Totals of a trace: `statements = executable + skipped(by reason)`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Statements.
    pub statements: u64,
    /// Statements that can be sent again.
    pub executable: u64,
    /// Statements that cannot, by reason.
    pub skipped: BTreeMap<String, u64>,
}
