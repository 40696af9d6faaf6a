//! What a user is told when logs cannot be read: what was seen, the likely cause, and what to do.

use std::io::ErrorKind;
use std::path::Path;

use seatrial_trace::explained::Explained;

use super::IntakeError;
use crate::log::files::look;
use crate::log::{Format, LogError, Wanted};

impl IntakeError {
    /// What a user is told.
    pub fn explained(&self) -> Explained {
        match self {
            IntakeError::Log(error) => told_of_log(error),
            IntakeError::Trace(error) => error.explained(),
            IntakeError::HasSessions { path, format } => Explained::usage(
                format!("{} is a log of the format {}", path.display(), format.name()),
                "It tells sessions itself; only what tells none is split into streams",
                "Leave --sessions away; if it is a file of SQL, say --format raw",
            ),
            IntakeError::Stopped => {
                Explained::usage(self.to_string(), "It was interrupted", "Start it again")
            }
            IntakeError::Spec(_) | IntakeError::Defect(_) => Explained::defect(self.to_string()),
        }
    }
}

fn told_of_log(error: &LogError) -> Explained {
    match error {
        LogError::Io { path, source } => told_of_file(path, source),
        LogError::Empty { path } => Explained::usage(
            format!("{} is empty", path.display()),
            "It is not the log that the server writes now, or nothing was logged",
            "Ask the server with `SELECT pg_current_logfile()`",
        ),
        LogError::Twice { path } => Explained::usage(
            format!("{} was named twice", path.display()),
            "Its statements would be in the trace twice",
            "Name it once",
        ),
        LogError::Mixed { path, format, other, other_format } => Explained::usage(
            format!(
                "{} is of the format {}, {} of {}",
                path.display(),
                format.name(),
                other.display(),
                other_format.name()
            ),
            "A server that writes several formats writes every statement in each of them",
            "Name the files of one format; csv and json hold the most",
        ),
        LogError::UnknownFormat { path, line } => told_of_unknown(path, line),
        LogError::PrefixMisfit { path, prefix, line } => told_of_prefix(path, prefix, line),
        LogError::FormatMisfit { path, format, line } => Explained::usage(
            format!("{} has no record of the format {}: {line:?}", path.display(), format.name()),
            "It is of another format",
            "Leave --format away, so that it is told by the content",
        ),
        LogError::Tally(error) => Explained::defect(error.to_string()),
    }
}

fn told_of_file(path: &Path, source: &std::io::Error) -> Explained {
    let path = path.display();
    let (cause, next) = match source.kind() {
        ErrorKind::NotFound => (
            "There is no such file".to_owned(),
            "Look for it with `ls -l` of its folder".to_owned(),
        ),
        ErrorKind::PermissionDenied => (
            "It is closed to this user, as the logs of a server mostly are".to_owned(),
            format!("Read it as its owner: `sudo cat {path} | seatrial sql read - -o FILE`"),
        ),
        ErrorKind::IsADirectory => {
            ("It is a folder".to_owned(), format!("Name the files in it, such as {path}/*.csv"))
        }
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => (
            "It is packed, and damaged or cut off".to_owned(),
            "Unpack what can be unpacked, as `zcat` and `zstdcat` do, and read that".to_owned(),
        ),
        _ => {
            ("Its device fails, or it was changed".to_owned(), "See the end of `dmesg`".to_owned())
        }
    };
    Explained::usage(format!("{path} cannot be read: {source}"), cause, next)
}

fn told_of_unknown(path: &Path, line: &str) -> Explained {
    let named = path.display();
    if line.starts_with("PAR1") {
        return Explained::usage(
            format!("{named} is no log"),
            "It is a trace already, or another Parquet file",
            format!("See what it holds with `seatrial sql show {named}`"),
        );
    }
    if line.contains(|sign: char| sign == '\u{fffd}' || (sign.is_control() && sign != '\t')) {
        return Explained::usage(
            format!("{named} is no log: it is no text"),
            "It is a binary file, or packed by something else than gzip or zstd",
            "Name the log itself; ask the server with `SELECT pg_current_logfile()`",
        );
    }
    Explained::usage(
        format!("{named} is in no known format; it begins with {line:?}"),
        "It is a plain log with a prefix of its own, a file of SQL, or no log of PostgreSQL",
        "Give the server's prefix (`SHOW log_line_prefix`) with --prefix; of a file of SQL say \
         --format raw",
    )
}

/// A prefix that fits no line: the line is shown against it, and a prefix that would fit.
fn told_of_prefix(path: &Path, prefix: &str, line: &str) -> Explained {
    let seen =
        format!("No line of {} begins as {prefix:?} says; the first is {line:?}", path.display());
    let cause = "The server's prefix is another; blanks count, the one at its end too";
    let wanted = Wanted {
        paths: vec![path.to_path_buf()],
        format: Some(Format::Stderr),
        prefix: None,
        workers: 1,
    };
    let guessed = look(&wanted).ok().and_then(|known| known.into_iter().next());
    let next = match guessed {
        Some(known) => format!(
            "It looks like --prefix '{}'; leave --prefix away to have it guessed",
            known.file.prefix
        ),
        None => "Ask the server with `SHOW log_line_prefix`".to_owned(),
    };
    Explained::usage(seen, cause, next)
}
