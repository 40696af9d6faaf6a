//! Errors in reading logs as a user sees them: what was seen, the likely cause, and what to do.

use std::io::ErrorKind;
use std::path::Path;

use seatrial_gauge::user_error::UserError;

use super::IntakeError;
use crate::log::files::look;
use crate::log::{Format, LogError, ReadOptions};

impl IntakeError {
    /// Returns it as a user reads it.
    pub fn explained(&self) -> UserError {
        match self {
            IntakeError::Log(error) => explain_log(error),
            IntakeError::Trace(error) => error.explained(),
            IntakeError::HasSessions { path, format } => UserError::usage(
                format!("{} is a log of the format {}", path.display(), format.name()),
                "It identifies its sessions; only a log without sessions is split into streams",
                "Omit --sessions; if it is a file of SQL, use --format raw",
            ),
            IntakeError::Stopped => {
                UserError::usage(self.to_string(), "It was interrupted", "Start it again")
            }
            IntakeError::Spec(_) | IntakeError::Defect(_) => UserError::defect(self.to_string()),
        }
    }
}

fn explain_log(error: &LogError) -> UserError {
    let (cause, next) = match error {
        LogError::Io { path, source } => return explain_file(path, source),
        LogError::UnknownFormat { path, line } => return explain_unknown(error, path, line),
        LogError::PrefixMismatch { path, .. } => return explain_prefix(error, path),
        LogError::OutOfOrder | LogError::RecordCounts(_) => {
            return UserError::defect(error.to_string());
        }
        LogError::Empty { .. } => (
            "It is not the server's current log, or nothing was logged",
            "Find the current log with `SELECT pg_current_logfile()`",
        ),
        LogError::Duplicate { .. } => {
            ("Its statements would be in the trace twice", "Give it once")
        }
        LogError::MixedFormats { .. } => (
            "A server that writes several formats writes every statement in each of them",
            "Give the files of one format only; csv and json contain the most",
        ),
        LogError::FormatMismatch { .. } => (
            "It is of another format",
            "Omit --format, so that the format is detected from the content",
        ),
        LogError::NotInParts { .. } => (
            "Standard input is on one host, and statements of a file of SQL have no boundaries",
            "Omit --ray: one machine reads it with all its processors",
        ),
        LogError::Truncated { .. } => (
            "It was cut off since reading began, as logrotate does with `copytruncate`",
            "Read a copy that nothing changes, or the file that it was rotated to",
        ),
        LogError::DifferentFile { .. } => (
            "Its path leads to another file here, or another version of Seatrial is installed",
            "Use a folder that every host mounts at the same path, and one version everywhere",
        ),
    };
    UserError::usage(error.to_string(), cause, next)
}

fn explain_file(path: &Path, source: &std::io::Error) -> UserError {
    let path = path.display();
    let (cause, next) = match source.kind() {
        ErrorKind::NotFound => {
            ("There is no such file".to_owned(), "Check the path with `ls -l`".to_owned())
        }
        ErrorKind::PermissionDenied => (
            "This user may not read it, as is usual for server logs".to_owned(),
            format!("Read it as its owner: `sudo cat {path} | seatrial sql read - -o FILE`"),
        ),
        ErrorKind::IsADirectory => {
            ("It is a directory".to_owned(), format!("Give the files in it, such as {path}/*.csv"))
        }
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => (
            "It is compressed, and damaged or cut off".to_owned(),
            "Decompress as much as possible with `zcat` or `zstdcat`, and read that".to_owned(),
        ),
        _ => (
            "Its device fails, or the file was changed meanwhile".to_owned(),
            "Check the end of `dmesg`".to_owned(),
        ),
    };
    UserError::usage(format!("{path} cannot be read: {source}"), cause, next)
}

fn explain_unknown(error: &LogError, path: &Path, line: &str) -> UserError {
    let named = path.display();
    if line.starts_with("PAR1") {
        return UserError::usage(
            format!("{named} is not a log"),
            "It is a trace already, or another Parquet file",
            format!("Show its contents with `seatrial sql show {named}`"),
        );
    }
    if line.contains(|sign: char| sign == '\u{fffd}' || (sign.is_control() && sign != '\t')) {
        return UserError::usage(
            format!("{named} is not a log: it is not text"),
            "It is a binary file, or compressed with something other than gzip or zstd",
            "Give the log itself; find it with `SELECT pg_current_logfile()`",
        );
    }
    UserError::usage(
        error.to_string(),
        "It is a plain log with an unusual prefix, a file of SQL, or not a PostgreSQL log",
        "Give the server's prefix (`SHOW log_line_prefix`) with --prefix; for a file of SQL use \
         --format raw",
    )
}

/// A prefix that fits no line: shows the line, and a prefix that would fit.
fn explain_prefix(error: &LogError, path: &Path) -> UserError {
    let cause = "The server uses a different prefix; blanks count, including one at the end";
    let options = ReadOptions {
        paths: vec![path.to_path_buf()],
        format: Some(Format::Stderr),
        prefix: None,
        workers: 1,
    };
    let guessed = look(&options).ok().and_then(|known| known.into_iter().next());
    let next = match guessed {
        Some(known) => format!(
            "It looks like --prefix '{}'; omit --prefix to have it guessed",
            known.file.prefix
        ),
        None => "Get it from the server with `SHOW log_line_prefix`".to_owned(),
    };
    UserError::usage(error.to_string(), cause, next)
}
