//! What a user is told when logs cannot be read, or a trace cannot: what was seen, the likely
//! cause, and what to do.

use std::io::ErrorKind;
use std::path::Path;

use super::IntakeError;
use crate::log::files::look;
use crate::log::{Format, LogError, Wanted};
use crate::trace::{TraceError, checkpoint, schema};

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// What was asked for cannot be done.
    Usage,
    /// The disk is full.
    Space,
    /// A defect of ours.
    Defect,
}

/// An error as a user is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Whose fault it is.
    pub fault: Fault,
    /// What was seen.
    pub seen: String,
    /// The likely cause.
    pub cause: String,
    /// What to try next.
    pub next: String,
}

impl Told {
    fn usage(seen: impl Into<String>, cause: impl Into<String>, next: impl Into<String>) -> Told {
        Told { fault: Fault::Usage, seen: seen.into(), cause: cause.into(), next: next.into() }
    }

    fn defect(seen: impl Into<String>) -> Told {
        let cause = "This is a defect of Seatrial, not of your log";
        let next = "Please report it, if you can with the log";
        Told { fault: Fault::Defect, ..Told::usage(seen, cause, next) }
    }
}

impl IntakeError {
    /// What a user is told.
    pub fn told(&self) -> Told {
        match self {
            IntakeError::Log(error) => told_of_log(error),
            IntakeError::Trace(error) => told_of_trace(error),
            IntakeError::HasSessions { path, format } => Told::usage(
                format!("{} is a log of the format {}", path.display(), format.name()),
                "It tells sessions itself; only what tells none is split into streams",
                "Leave --sessions away; if it is a file of SQL, say --format raw",
            ),
            IntakeError::Stopped => {
                Told::usage(self.to_string(), "It was interrupted", "Start it again")
            }
            IntakeError::Spec(_) | IntakeError::Defect(_) => Told::defect(self.to_string()),
        }
    }
}

fn told_of_log(error: &LogError) -> Told {
    match error {
        LogError::Io { path, source } => told_of_file(path, source),
        LogError::Empty { path } => Told::usage(
            format!("{} is empty", path.display()),
            "It is not the log that the server writes now, or nothing was logged",
            "Ask the server with `SELECT pg_current_logfile()`",
        ),
        LogError::Twice { path } => Told::usage(
            format!("{} was named twice", path.display()),
            "Its statements would be in the trace twice",
            "Name it once",
        ),
        LogError::Mixed { path, format, other, other_format } => Told::usage(
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
        LogError::FormatMisfit { path, format, line } => Told::usage(
            format!("{} has no record of the format {}: {line:?}", path.display(), format.name()),
            "It is of another format",
            "Leave --format away, so that it is told by the content",
        ),
        LogError::Tally(error) => Told::defect(error.to_string()),
    }
}

fn told_of_file(path: &Path, source: &std::io::Error) -> Told {
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
    Told::usage(format!("{path} cannot be read: {source}"), cause, next)
}

fn told_of_unknown(path: &Path, line: &str) -> Told {
    let named = path.display();
    if line.starts_with("PAR1") {
        return Told::usage(
            format!("{named} is no log"),
            "It is a trace already, or another Parquet file",
            format!("See what it holds with `seatrial sql show {named}`"),
        );
    }
    if line.contains(|sign: char| sign == '\u{fffd}' || (sign.is_control() && sign != '\t')) {
        return Told::usage(
            format!("{named} is no log: it is no text"),
            "It is a binary file, or packed by something else than gzip or zstd",
            "Name the log itself; ask the server with `SELECT pg_current_logfile()`",
        );
    }
    Told::usage(
        format!("{named} is in no known format; it begins with {line:?}"),
        "It is a plain log with a prefix of its own, a file of SQL, or no log of PostgreSQL",
        "Give the server's prefix (`SHOW log_line_prefix`) with --prefix; of a file of SQL say \
         --format raw",
    )
}

/// A prefix that fits no line: the line is shown against it, and a prefix that would fit.
fn told_of_prefix(path: &Path, prefix: &str, line: &str) -> Told {
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
    Told::usage(seen, cause, next)
}

/// What a user is told of a trace that cannot be written or read.
pub fn told_of_trace(error: &TraceError) -> Told {
    let again = "Read its log again with `seatrial sql read LOG... -o FILE`";
    match error {
        TraceError::Io { path, action, source } => {
            let seen = format!("{} cannot be {action}: {source}", path.display());
            let is_full = source.kind() == ErrorKind::StorageFull || is_full(&seen);
            let fault = if is_full { Fault::Space } else { Fault::Usage };
            if checkpoint::was_cut_off(path) {
                let why = if is_full { "Its disk is full" } else { "It was not completed" };
                let cause = format!("{why}; what was secured of it can be recovered");
                let next = format!(
                    "Make room, and a trace of it with `seatrial sql capture --recover -o {}`",
                    path.display()
                );
                return Told { fault, ..Told::usage(seen, cause, next) };
            }
            if is_full {
                let cause = "Its disk is full; nothing was left there";
                let next = "Make room, or name a file on another disk with -o";
                return Told { fault, ..Told::usage(seen, cause, next) };
            }
            let cause = "It or its folder is missing, or closed to this user";
            Told::usage(seen, cause, format!("See `ls -ld {}` and its folder", path.display()))
        }
        TraceError::NotATrace { path, reason } => Told::usage(
            format!("{} is no trace: {reason}", path.display()),
            "It is a log, or another file",
            "Make a trace of a log with `seatrial sql read LOG... -o FILE`",
        ),
        TraceError::Version { path, found } => Told::usage(
            format!("{} is a trace of version {found}, not {}", path.display(), schema::VERSION),
            "Another version of Seatrial wrote it",
            again,
        ),
        TraceError::Damaged { path, reason } => Told::usage(
            format!("{} is damaged: {reason}", path.display()),
            "It was cut off or changed after it was written",
            again,
        ),
        TraceError::CutOff { path } => Told::usage(
            format!("{} was cut off while it was written, and can be recovered", path.display()),
            "A capture to this name was killed, or its machine went down",
            format!(
                "Make a trace of it with `seatrial sql capture --recover -o {0}`, or remove \
                 {0}.part.end",
                path.display()
            ),
        ),
        TraceError::InUse { path } => Told::usage(
            format!("{} is being written by another process", path.display()),
            "A capture or a reading to this name is at work",
            format!("Name another file with -o; `fuser {}` tells who it is", part_of(path)),
        ),
        TraceError::UnknownSession(_) | TraceError::Origin(_) => Told::defect(error.to_string()),
    }
}

fn part_of(trace: &Path) -> String {
    checkpoint::part_of(trace).display().to_string()
}

/// Parquet hands on the system's words, not its number.
fn is_full(seen: &str) -> bool {
    ["os error 28", "os error 122"].iter().any(|number| seen.contains(number))
}
