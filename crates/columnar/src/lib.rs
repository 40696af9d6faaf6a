//! Parquet files that are written piece by piece, and readable whatever ends the writing.
//!
//! A file has the ending `.part` until it is complete, so that what has its name is whole. A
//! Parquet file can be read only with its footer, which is written last; so a footer for the
//! present state is written to a second file, `.part.end`, now and then. Together they make a
//! complete file.
//!
//! | part | rule |
//! |---|---|
//! | [`writer`] | row groups, checkpoints, the end |
//! | [`recovery`] | makes a file of one that was cut off |
//! | [`cells`] | one column of a row group, batch by batch |
//! | [`names`] | names and owners of the files |

pub mod cells;
pub mod names;
pub mod recovery;
#[cfg(test)]
mod tests;
pub mod writer;

use std::path::PathBuf;

use parquet::errors::ParquetError;

pub use writer::{Durability, Group, PieceWriter};

/// Why a file cannot be written or recovered.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses it.
    #[error("it cannot be {action}: {source}")]
    Io {
        /// The action, as a participle.
        action: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Its parts do not fit each other.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// Which of its files.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// One of its name was cut off, and can be recovered.
    #[error("it was cut off while it was written")]
    CutOff,
    /// Somebody writes one of its name.
    #[error("it is being written by another process")]
    InUse,
}

impl FileError {
    fn io(action: &'static str) -> impl Fn(std::io::Error) -> FileError {
        move |source| FileError::Io { action, source }
    }
}

impl From<ParquetError> for FileError {
    /// An error of Parquet when a file is written: mostly one of the system.
    fn from(error: ParquetError) -> FileError {
        FileError::Io { action: "written", source: std::io::Error::other(error.to_string()) }
    }
}

/// Whether a system's words mean a full disk. Parquet passes on the words, not the number.
pub fn says_full(seen: &str) -> bool {
    ["os error 28", "os error 122"].iter().any(|number| seen.contains(number))
}
